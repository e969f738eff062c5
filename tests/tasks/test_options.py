"""Tests of tasks whose examples have their own options: reading, and one-sentence errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.errors import BadData, BadInput
from skillviz.tasks.definition import definition
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task
from tests.tasks.make import write_task
from tests.tasks.tokenizers import tokenizer

LISTS = [
    {"text": "which one barks", "choices": ["a small cat", "the dog"], "label": "B"},
    {"text": "which one is red", "choices": ["grass", "snow", " rust "], "label": 2},
    {"text": "what do we drink", "choices": ["water", "sand", None, ""], "label": "A"},
] * 4
COLUMNS = [
    {"text": "which one barks", "one": "a cat", "two": "the dog", "three": "", "label": 1},
    {"text": "which one is red", "one": "grass", "two": "snow", "three": "rust", "label": "C"},
] * 4
ANSWERS = [{"text": row["text"], "choices": row["choices"], "gold": "the dog"} for row in LISTS[:1]] * 4
CAUSAL = {"causal": "{text}? Answer:"}


def choice(folder: Path, rows: Any = LISTS, suffix: str = ".jsonl", **changes: Any) -> Task:
    """Return the task of these rows, with its options in the column `choices`."""
    values = {"label_words": None, "template": CAUSAL, "options": "choices", "labels": list("ABC"), "metric": None}
    return task(write_task(folder, rows, suffix, **{**values, **changes}))


def test_a_list_may_be_shorter_than_the_labels(tmp_path: Path) -> None:
    made = choice(tmp_path)
    frame = load(made).test
    assert made.kind == "choice" and not made.has_classes
    assert frame["options"].tolist()[:3] == [("a small cat", "the dog"), ("grass", "snow", "rust"), ("water", "sand")]
    assert frame["label"].tolist()[:3] == [1, 2, 0]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_columns_are_called_by_letter_and_the_last_may_be_empty(tmp_path: Path, suffix: str) -> None:
    rows = [{**row, "label": {"C": 2}.get(str(row["label"]), row["label"])} for row in COLUMNS]
    made = choice(tmp_path, rows, suffix, options=["one", "two", "three"], labels=None)
    frame = load(made).test
    assert made.labels == ("A", "B", "C")
    assert frame["options"].tolist()[:2] == [("a cat", "the dog"), ("grass", "snow", "rust")]
    assert frame["label"].tolist()[:2] == [1, 2]


def test_the_right_one_may_be_written_out(tmp_path: Path) -> None:
    made = choice(tmp_path, ANSWERS, answer="gold")
    assert load(made).test["label"].tolist() == [1] * 4
    with pytest.raises(BadData, match=r"the answer 'a cow' in row 2 \(column 'gold'\), which is none of its options"):
        load(choice(tmp_path, [ANSWERS[0], {**ANSWERS[0], "gold": "a cow"}], answer="gold"))


def test_an_absent_option_has_no_token_and_the_others_theirs(tmp_path: Path) -> None:
    made, tok = choice(tmp_path), tokenizer("gpt2")
    encoded = encode(made, load(made).test, tok, "causal")
    assert encoded.answers is not None and encoded.n_labels == 3
    assert [[bool(len(option)) for option in row] for row in encoded.answers[:2]] == [[True, True, False], [True] * 3]
    for ids, row, options in zip(encoded.input_ids, encoded.answers, load(made).test["options"], strict=True):
        for option, text in zip(row, options, strict=False):
            assert tok.decode([*ids, *option]).endswith(f" {text}")


def test_k_shot_draws_examples_whatever_their_right_option(tmp_path: Path) -> None:
    splits = load(choice(tmp_path), k_shot=3)
    assert len(splits.train) == len(splits.validation) == 3
    assert any("examples in all, as the task has no classes" in note for note in splits.notes)


def test_options_and_the_right_one_belong_to_the_fingerprint(tmp_path: Path) -> None:
    told = load(choice(tmp_path)).fingerprint
    other = [{**row, "choices": [*row["choices"][:1], "a cow", *row["choices"][2:]]} for row in LISTS]
    assert load(choice(tmp_path, other)).fingerprint != told


def test_only_the_causal_readout_is_defined(tmp_path: Path) -> None:
    made = choice(tmp_path)
    assert definition(made).startswith("causal=") and " " not in definition(made)
    assert definition(made) != definition(made.model_copy(update={"length_normalised": True}))
    frame = load(made).test
    for readout in ("head", "prompt"):
        with pytest.raises(BadInput, match=f"the {readout} readout knows fixed classes only; use the causal readout"):
            encode(made, frame, tokenizer("gpt2"), readout)
    assert np.array_equal(encode(made, frame, tokenizer("gpt2"), "causal").labels, frame["label"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"options": None, "answer": "gold"}, "'answer' names the right one of an example's 'options'"),
        ({"options": "text"}, "texts, options and the right answer must be in different columns"),
        ({"options": ["one", "two"]}, "there are 2 columns of options and 3 labels"),
        ({"answer": "gold", "drop": ["x"]}, "'classes' and 'drop' belong to a label column"),
        ({"labels": list("AB"), "metric": "f1"}, "f1 is of a class, and options are no classes; use accuracy"),
        ({"label_words": ["x", "y", "z"]}, "leave label_words and the masked template out"),
        ({"template": "{text} <mask>"}, "leave label_words and the masked template out"),
        ({"labels": None}, "labels must be two or more different names"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        choice(tmp_path, **changes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"choices": ["only one"], "label": 0}, "1 option in row 2; task 'made' takes 2 to 3"),
        ({"choices": list("abcd")}, "4 options in row 2"),
        ({"choices": ["a", "", "c"]}, "an empty option before others in row 2; move the empty ones to the end"),
        ({"choices": ["a", "b"], "label": "C"}, "option C is right in row 2, which has only 2; correct the column"),
        ({"label": "D"}, "the label 'D' in row 2"),
    ],
)
def test_rows_that_cannot_be_scored_are_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadData, match=sentence):
        load(choice(tmp_path, [LISTS[1], {**LISTS[1], **change}]))


def test_a_text_instead_of_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no list in the column 'choices' of row 1; put lists of texts there"):
        load(choice(tmp_path, [{**row, "choices": "a; b", "label": "A"} for row in LISTS], ".csv"))
