"""The label words judged without torch, as the real tokenizer judges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillviz.errors import BadLabelWord, CorruptFile
from skillviz.models.tokenizer import vocabulary_size, words_problem
from skillviz.tasks import registry
from skillviz.tasks.task import LabelWords, Task
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import word_ids
from tests.test_torch_free import heavy_after
from tests.tiny import MASKED, tiny_task, tiny_tokenizer

WORDS = (("good", "bad"), ("good", "good!"), ("unheard-of", "bad"), ("Good", "good"), ("good bad", "bad"))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return registry.task(tiny_task(tmp_path_factory.mktemp("task")))


@pytest.mark.parametrize("family", MASKED)
@pytest.mark.parametrize("words", WORDS)
def test_it_says_what_the_loaded_tokenizer_says(
    family: str, words: tuple[str, str], task: Task, tmp_path: Path
) -> None:
    changed = task.model_copy(update={"label_words": LabelWords(masked=words)})
    tokenizer = tiny_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    template, _ = changed.wording("prompt")
    try:
        word_ids(changed, parse(template, changed.text), words, tokenizer)
        said = ""
    except BadLabelWord as error:
        said = str(error.args[0])
    assert words_problem(changed, "prompt", tmp_path) == said


def test_a_readout_without_template_is_said_and_a_head_needs_none(task: Task, tmp_path: Path) -> None:
    bare = task.model_copy(update={"template": type(task.template)()})
    assert "has no masked template" in words_problem(bare, "prompt", tmp_path)
    assert "has no causal template" in words_problem(bare, "causal", tmp_path)
    assert words_problem(bare, "head", tmp_path) == "" == words_problem(task, "prompt", tmp_path)


def test_it_needs_no_torch(tmp_path: Path) -> None:
    assert heavy_after("skillviz.models.tokenizer", "tokenizers") == {}


@pytest.mark.parametrize(
    "content",
    [
        {"model": 3}, {"model": {"vocab": 3}},
        {"model": {"vocab": {"a": "b"}}}, {"model": {"vocab": {"a": 1, "b": "c"}}},
        {"added_tokens": 3}, {"added_tokens": [3]}, {"added_tokens": [{}]}, {"added_tokens": [{"id": "x"}]},
    ],
)  # fmt: skip
def test_a_strange_vocabulary_is_refused(tmp_path: Path, content: object) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CorruptFile, match="none of tokens and ids"):
        vocabulary_size(tmp_path)
