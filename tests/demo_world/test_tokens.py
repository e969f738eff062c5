"""The tokenizer: at most 2,000 words, every text of the world and nothing else, there and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo_world.program import corpus, world
from demo_world.program.examples import splits
from demo_world.program.tokens import MOST, SPECIAL, tokenizer, vocabulary
from skillviz.errors import BadInput
from skillviz.models.tokenizer import load_tokenizer
from skillviz.models.tokenizer import vocabulary as ids_by_token
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import word_ids


@pytest.fixture(scope="module")
def words() -> list[str]:
    """The world's vocabulary."""
    return vocabulary(corpus.vocabulary_texts(0))


@pytest.mark.slow
def test_the_vocabulary_is_small_and_in_order(words: list[str]) -> None:
    assert 1000 < len(words) - len(SPECIAL) <= MOST
    assert tuple(words[: len(SPECIAL)]) == SPECIAL and words[len(SPECIAL) :] == sorted(set(words[len(SPECIAL) :]))


def test_too_many_words_are_refused() -> None:
    with pytest.raises(BadInput, match="2,000"):
        vocabulary(f"word{number}" for number in range(MOST + 1))


@pytest.mark.slow
def test_no_text_of_the_world_has_an_unknown_word(words: list[str]) -> None:
    made = tokenizer(words)
    for task in world.TASKS:
        texts = [text for rows in splits(task).values() for row in rows for text in row.texts]
        assert not any(made.unk_token_id in ids for ids in made(texts)["input_ids"]), task.name
    assert not any(made.unk_token_id in ids for ids in made(list(corpus.texts(3, 3000)))["input_ids"])
    assert made.unk_token_id in made("A zeppelin.")["input_ids"]


@pytest.mark.slow
def test_there_and_back(words: list[str], tmp_path: Path) -> None:
    tokenizer(words).save_pretrained(tmp_path)
    made = load_tokenizer(tmp_path)
    text = "honestly , the plot was not great . it was <mask> ."
    ids = made(text)["input_ids"]
    assert made.decode(ids) == f"<s> {text} </s>"
    assert made("Honestly, the plot was NOT great. It was <mask>.")["input_ids"] == ids
    assert ids.count(made.mask_token_id) == 1 and made.pad_token_id == 1 and made.model_max_length == 64
    assert ids_by_token(tmp_path) == {word: number for number, word in enumerate(words)}


@pytest.mark.parametrize("task", world.TASKS, ids=lambda task: task.name)
def test_label_words_are_single_tokens(task: world.DemoTask, words: list[str]) -> None:
    ids = word_ids(task, parse(task.masked, task.columns), task.words, tokenizer(words))  # type: ignore[arg-type]
    assert len(set(ids.tolist())) == len(task.labels)
