"""Tests of label words checked without torch, against the real tokenizer."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from skillviz.errors import BadLabelWord, BadModel, CorruptFile, SkillvizError
from skillviz.models.tokenizer import load_tokenizer, vocabulary, words_problem
from skillviz.tasks import registry
from skillviz.tasks.encode import refused
from skillviz.tasks.task import LabelWords, Task
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import word_ids
from tests.models.folders import change_json
from tests.refused import refuses
from tests.test_torch_free import heavy_after
from tests.tiny import MASKED, tiny_task, tiny_tokenizer

WORDS = (("good", "bad"), ("good", "good!"), ("unheard-of", "bad"), ("Good", "good"), ("good bad", "bad"))


@pytest.fixture
def roberta(tmp_path: Path) -> Path:
    """Return the folder of a tokenizer, with a configuration."""
    tiny_tokenizer("roberta").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta", "n_positions": 64}')
    return tmp_path


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return registry.task(tiny_task(tmp_path_factory.mktemp("task")))


@pytest.mark.parametrize("family", MASKED)
@pytest.mark.parametrize("words", WORDS)
def test_it_says_what_the_loaded_tokenizer_says(
    family: str, words: tuple[str, str], task: Task, tmp_path: Path
) -> None:
    changed, tokenizer = task.model_copy(update={"label_words": LabelWords(masked=words)}), tiny_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    said = words_problem(changed, "prompt", tmp_path)
    with pytest.raises(BadLabelWord, match=re.escape(said)) if said else nullcontext():
        word_ids(changed, parse(changed.wording("prompt")[0], changed.text), words, tokenizer)


def test_a_readout_without_template_is_said_and_a_head_needs_none(task: Task, tmp_path: Path) -> None:
    bare = task.model_copy(update={"template": type(task.template)()})
    for readout, kind in (("prompt", "masked"), ("causal", "causal")):
        assert f"has no {kind} template" in words_problem(bare, readout, tmp_path)
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
    refuses(CorruptFile, "none of tokens and ids", vocabulary, tmp_path)


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


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_tokenizer_is_refused_in_a_sentence(what: str, task: Task, roberta: Path) -> None:
    """Every error of the libraries, even a panic of their Rust code, becomes one sentence; some raise no error."""
    name, key, value = STRANGE[what]
    change_json(roberta / name, **{key: value})
    refuses(SkillvizError, r"cannot be used|none of tokens and ids", load_tokenizer, roberta)
    assert isinstance(words_problem(task, "prompt", roberta), str)


def test_deep_json_beside_a_tokenizer_is_refused_in_a_sentence(roberta: Path) -> None:
    (roberta / "tokenizer_config.json").write_text("[" * 200_000)
    refuses(BadModel, "cannot be used", load_tokenizer, roberta)


def test_a_normalizer_that_lengthens_texts_without_end_is_refused(task: Task, roberta: Path) -> None:
    step = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee" * 50}
    change_json(roberta / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [step] * 4})
    refuses(BadModel, "100,000,000 times as long", load_tokenizer, roberta)
    assert "times as long" in words_problem(task, "prompt", roberta)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_no_fault_of_a_tokenizer_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), refused("a"):
        raise error
