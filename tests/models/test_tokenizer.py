"""Tests of label words checked without torch, against the real tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillviz.errors import BadLabelWord, BadModel, CorruptFile, SkillvizError
from skillviz.models.tokenizer import load_tokenizer, vocabulary, words_problem
from skillviz.tasks import registry
from skillviz.tasks.encode import refused
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


@pytest.mark.nightly
def test_it_needs_no_torch(tmp_path: Path) -> None:
    assert heavy_after("skillviz.models.tokenizer", "tokenizers") == {}


@pytest.mark.parametrize(
    "content",
    [
        {"model": 3}, {"model": {"vocab": 3}},
        {"model": {"vocab": {"a": "b"}}}, {"model": {"vocab": {"a": 1, "b": "c"}}},
        {"model": {"vocab": {"a": float("inf")}}},
        {"added_tokens": 3}, {"added_tokens": [3]}, {"added_tokens": [{}]}, {"added_tokens": [{"id": "x"}]},
    ],
)  # fmt: skip
def test_a_strange_vocabulary_is_refused(tmp_path: Path, content: object) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CorruptFile, match="none of tokens and ids"):
        vocabulary(tmp_path)


STRANGE = {
    "a charsmap of nonsense": ("tokenizer.json", "normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "an unknown normalizer": ("tokenizer.json", "normalizer", {"type": "None such"}),
    "an empty vocabulary": ("tokenizer.json", "model", {"type": "WordPiece", "vocab": {}, "unk_token": "[UNK]",
                                                        "continuing_subword_prefix": "##",
                                                        "max_input_chars_per_word": 9}),
    "a token id below 0": ("tokenizer.json", "added_tokens", [{"id": -1, "content": "a", "special": True}]),
    "a length that is no number": ("tokenizer_config.json", "model_max_length", "x"),
    "a class that is a list": ("tokenizer_config.json", "tokenizer_class", ["a"]),
    "a mask that is a number": ("tokenizer_config.json", "mask_token", 5),
    "added tokens that are a list": ("tokenizer_config.json", "added_tokens_decoder", [1]),
    "special tokens that are numbers": ("tokenizer_config.json", "extra_special_tokens", [1]),
    "a padding id that is no number": ("config.json", "pad_token_id", "x"),
}  # fmt: skip


def changed(folder: Path, name: str, key: str, value: object) -> None:
    """Save a tokenizer's folder with one entry of one of its files changed."""
    tiny_tokenizer("roberta").save_pretrained(folder)
    path = folder / name
    content = json.loads(path.read_text()) if path.is_file() else {"model_type": "roberta", "n_positions": 64}
    path.write_text(json.dumps({**content, key: value}))


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_tokenizer_is_refused_in_a_sentence(what: str, task: Task, tmp_path: Path) -> None:
    """Every error of the libraries, even a panic of their Rust code, becomes one sentence; some raise no error."""
    changed(tmp_path, *STRANGE[what])
    with pytest.raises(SkillvizError, match=r"cannot be used|none of tokens and ids"):
        load_tokenizer(tmp_path)
    assert isinstance(words_problem(task, "prompt", tmp_path), str)


def test_deep_json_beside_a_tokenizer_is_refused_in_a_sentence(tmp_path: Path) -> None:
    tiny_tokenizer("roberta").save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[" * 200_000)
    with pytest.raises(BadModel, match="cannot be used"):
        load_tokenizer(tmp_path)


def test_a_normalizer_that_lengthens_texts_without_end_is_refused(task: Task, tmp_path: Path) -> None:
    step = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee" * 50}
    changed(tmp_path, "tokenizer.json", "normalizer", {"type": "Sequence", "normalizers": [step] * 4})
    with pytest.raises(BadModel, match="100,000,000 times as long"):
        load_tokenizer(tmp_path)
    assert "times as long" in words_problem(task, "prompt", tmp_path)


def test_what_is_no_fault_of_a_tokenizer_passes() -> None:
    for error in (KeyboardInterrupt, MemoryError, SystemExit):
        with pytest.raises(error), refused("a"):
            raise error
