"""Tests of tasks with generated answers: reading, encoding, and one-sentence errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.errors import BadData, BadInput
from skillviz.runs.transfer import label_mapping
from skillviz.tasks.definition import definition
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task
from tests.tasks.make import write_task
from tests.tasks.tokenizers import tokenizer

ROWS = [
    {"text": "the dog barks", "gold": " at the cat "},
    {"text": "what do we drink", "gold": "Water"},
    {"text": "a", "gold": "an answer of some more words"},
] * 4
PLAIN = {"labels": None, "label_words": None, "metric": None, "label": None}


def generated(folder: Path, rows: Any = ROWS, **changes: Any) -> Task:
    """Return the task of these rows, with its reference in the column `gold`."""
    values = {**PLAIN, "template": {"causal": "{text} Answer:"}, "reference": "gold", "max_new_tokens": 40}
    return task(write_task(folder, rows, **{**values, **changes}))


def test_a_reference_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    made = generated(tmp_path)
    splits = load(made)
    assert (made.kind, made.metric, made.has_classes, made.labels) == (
        "generation", "exact_match", False, ("other", "reference"),
    )  # fmt: skip
    assert splits.test["reference"].tolist()[:2] == ["at the cat", "Water"] and set(splits.test["label"]) == {1}
    other = load(generated(tmp_path, [{**ROWS[0], "gold": "no"}, *ROWS[1:]]))
    assert other.fingerprint != splits.fingerprint
    assert len(load(made, k_shot=3).train) == 3


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize("stop", ["end_of_text", "newline"])
def test_the_reference_goes_on_after_the_prompt_and_ends(kind: str, stop: str, tmp_path: Path) -> None:
    made, tok = generated(tmp_path, stop=stop), tokenizer(kind)
    frame = load(made).test
    if stop == "newline" and "\n" not in tok.decode(tok("a\n", add_special_tokens=False)["input_ids"]):
        with pytest.raises(BadInput, match="no token for a line break.*write 'stop: end_of_text'"):
            encode(made, frame, tok, "causal")
        return
    encoded = encode(made, frame, tok, "causal")
    assert encoded.n_labels == 1 and encoded.answers is not None and encoded.generation is not None
    assert encoded.generation.references[:2] == ("at the cat", "Water")
    for ids, (reference,), text in zip(encoded.input_ids, encoded.answers, frame["reference"], strict=True):
        end = "\n" if stop == "newline" else tok.eos_token
        assert tok.decode([*ids, *reference]).endswith(f"Answer: {text}{end}")
        assert encoded.generation.has_ended(reference.tolist())
        assert not encoded.generation.has_ended(reference[:-1].tolist())
        assert encoded.generation.text([one for one in reference if one != tok.eos_token_id]) == text
    assert encoded.take([1]).generation.references == ("Water",)  # type: ignore[union-attr]


def test_case_and_punctuation_count_unless_said_otherwise(tmp_path: Path) -> None:
    frame, tok = load(generated(tmp_path)).test, tokenizer("gpt2")
    loose = encode(generated(tmp_path, ignore_case=True, ignore_punctuation=True), frame, tok, "causal").generation
    strict = encode(generated(tmp_path), frame, tok, "causal").generation
    assert loose is not None and strict is not None
    assert loose.normalise("WATER!") == loose.references[1] and strict.normalise("WATER!") != strict.references[1]


def test_a_prompt_is_shortened_for_the_text_and_a_long_reference_is_refused(tmp_path: Path) -> None:
    rows, tok = [{"text": "dog " * 60, "gold": "cat"}] * 4, tokenizer("gpt2")
    made = generated(tmp_path, rows, max_length=48, max_new_tokens=16)
    encoded = encode(made, load(made).test, tok, "causal")
    assert max(map(len, encoded.input_ids)) <= 48 - 16
    few = generated(tmp_path, max_new_tokens=2)
    with pytest.raises(BadInput, match=r"the longest reference has \d+ tokens .* generates 2; raise max_new_tokens"):
        encode(few, load(few).test, tok, "causal")


def test_a_reference_is_compared_as_its_own_tokens_write_it(tmp_path: Path) -> None:
    """If a tokenizer changes case and spaces, a model that writes the reference's tokens is still right."""
    tok = tokenizer("words")
    made = generated(tmp_path, [{"text": "what", "gold": "The Kitchen."}] * 2)
    encoded = encode(made, load(made).test, tok, "causal")
    assert encoded.generation is not None and encoded.answers is not None
    (reference,) = encoded.answers[0]
    scores = encoded.take([0]).generation.scored([reference.tolist()], np.zeros(1), np.ones(1))  # type: ignore[union-attr]
    assert encoded.generation.references[0] == "the kitchen ." and scores[0, 1] == 1
    for gold, changes, sentence in (
        ("don't stop", {}, "has no tokens for the reference 'don't stop'"),
        (".", {"ignore_punctuation": True}, "nothing is left to compare of the reference '.'"),
        ("the", {"max_length": 40}, "generates 40 tokens .*, and 40 fit .*; lower max_new_tokens, or raise max_length"),
    ):
        other = generated(tmp_path, [{"text": "what", "gold": gold}] * 2, **changes)
        with pytest.raises(BadInput, match=sentence):
            encode(other, load(other).test, tok, "causal")


def test_a_column_called_label_may_be_a_text(tmp_path: Path) -> None:
    rows = [{"label": "what", "gold": "water"}] * 2
    assert generated(tmp_path, rows, text="label", template={"causal": "{label}:"}).text == ("label",)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"options": "choices"}, "a 'reference' is generated, and 'options' are chosen from"),
        ({"labels": ["a", "b"]}, "has no classes; leave labels, classes, drop and label_words out"),
        ({"label_words": ["a", "b"]}, "has no classes; leave labels, classes, drop and label_words out"),
        ({"reference": "text"}, "the text columns and the reference column must be different"),
        ({"metric": "f1"}, "f1 is of classes or options; a reference is scored by exact_match or perplexity"),
        ({"metric": "perplexity"}, "with the metric perplexity nothing is generated; leave max_new_tokens out"),
        ({"template": "{text} <mask>"}, "generated by the causal readout; leave the masked template out"),
        ({"stop": "period"}, "'stop' cannot be used"),
        ({"max_new_tokens": 0}, "'max_new_tokens' cannot be used"),
    ],
)
def test_what_contradicts_a_reference_is_refused(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=sentence):
        generated(tmp_path, **changes)


def test_rows_that_cannot_be_scored_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no text in the column 'gold' of row 2"):
        load(generated(tmp_path, [ROWS[0], {**ROWS[1], "gold": " "}]))
    with pytest.raises(BadData, match="a line break inside the reference of row 1"):
        load(generated(tmp_path, [{**ROWS[0], "gold": "a\nb"}, ROWS[1]], stop="newline"))
    for metric in ("exact_match", "perplexity"):
        with pytest.raises(BadInput, match=f"{metric} is of texts with a reference; name its column as 'reference'"):
            task(write_task(tmp_path, metric=metric))


def test_only_the_causal_readout_and_no_other_task(tmp_path: Path) -> None:
    made = generated(tmp_path)
    for readout in ("head", "prompt"):
        with pytest.raises(BadInput, match=f"which the {readout} readout cannot do; use the causal readout"):
            encode(made, load(made).test, tokenizer("gpt2"), readout)
    assert definition(made).startswith("causal=") and " " not in definition(made)
    with pytest.raises(BadInput, match="'made' generates its answer and has no classes"):
        label_mapping(made, made)
    scored = generated(tmp_path, metric="perplexity", max_new_tokens=None)
    with pytest.raises(BadInput, match="takes the likelihood of references, which the head readout cannot"):
        encode(scored, load(scored).test, tokenizer("gpt2"), "head")
    with pytest.raises(BadInput, match="'made' has a reference for each example and no classes"):
        label_mapping(scored, scored)


def test_references_that_are_only_scored_are_those_that_are_generated(tmp_path: Path) -> None:
    """The tokens are equal, for any number of them; no space is reserved for a text, and the definition differs."""
    made, tok = generated(tmp_path), tokenizer("gpt2")
    wanted = encode(made, load(made).test, tok, "causal")
    scored = generated(tmp_path, metric="perplexity", max_new_tokens=None, max_length=60)
    encoded = encode(scored, load(scored).test, tok, "causal")
    assert encoded.generation is None and encoded.has_reference and not scored.generates and made.generates
    assert encoded.answers is not None and wanted.answers is not None
    for (one,), (other,) in zip(encoded.answers, wanted.answers, strict=True):
        np.testing.assert_array_equal(one, other)
    assert definition(scored) != definition(made)
    rows = [{"text": "dog " * 60, "gold": "cat " * 20}] * 2
    long = generated(tmp_path, rows, metric="perplexity", max_new_tokens=None, max_length=128)
    assert len(encode(long, load(long).test, tok, "causal").answers[0][0]) > 32  # type: ignore[index]
