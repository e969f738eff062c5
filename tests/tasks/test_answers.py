"""Tests of tasks whose examples have their own options, or a reference to write: reading, encoding, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.core.encoded import Encoded
from skillviz.errors import BadData, BadInput
from skillviz.runs.transfer import label_mapping
from skillviz.tasks.definition import definition
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task
from tests.tasks.make import tokenizer, write_task

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
REFERENCES = [
    {"text": "the dog barks", "gold": " at the cat "},
    {"text": "what do we drink", "gold": "Water"},
    {"text": "a", "gold": "an answer of some more words"},
] * 4
PLAIN = {"label_words": None, "metric": None, "template": {"causal": "{text} Answer:"}}
SCORED = {"metric": "perplexity", "max_new_tokens": None}


def choice(folder: Path, rows: Any = LISTS, suffix: str = ".jsonl", **changes: Any) -> Task:
    """Return the task of these rows, with its options in the column `choices`."""
    return task(write_task(folder, rows, suffix, **{**PLAIN, "options": "choices", "labels": list("ABC"), **changes}))


def generated(folder: Path, rows: Any = REFERENCES, **changes: Any) -> Task:
    """Return the task of these rows, with its reference in the column `gold`."""
    values = {**PLAIN, "labels": None, "label": None, "reference": "gold", "max_new_tokens": 40}
    return task(write_task(folder, rows, **{**values, **changes}))


def read(made: Task, kind: str = "gpt2", readout: str = "causal") -> Encoded:
    return encode(made, load(made).test, tokenizer(kind), readout)


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
    frame = load(made).test[:2]
    assert made.labels == ("A", "B", "C") and frame["label"].tolist() == [1, 2]
    assert frame["options"].tolist() == [("a cat", "the dog"), ("grass", "snow", "rust")]


def test_the_right_one_may_be_written_out(tmp_path: Path) -> None:
    assert load(choice(tmp_path, ANSWERS, answer="gold")).test["label"].tolist() == [1] * 4


def test_an_absent_option_has_no_token_and_the_others_theirs(tmp_path: Path) -> None:
    made, tok = choice(tmp_path), tokenizer("gpt2")
    encoded, frame = read(made), load(made).test
    assert encoded.answers is not None and encoded.n_labels == 3
    assert [[bool(len(option)) for option in row] for row in encoded.answers[:2]] == [[True, True, False], [True] * 3]
    for ids, row, options in zip(encoded.input_ids, encoded.answers, frame["options"], strict=True):
        for option, text in zip(row, options, strict=False):
            assert tok.decode([*ids, *option]).endswith(f" {text}")
    assert np.array_equal(encoded.labels, frame["label"])


def test_k_shot_draws_examples_whatever_their_right_option(tmp_path: Path) -> None:
    splits = load(choice(tmp_path), k_shot=3)
    assert len(splits.train) == len(splits.validation) == len(load(generated(tmp_path), k_shot=3).train) == 3
    assert any("examples in all, as the task has no classes" in note for note in splits.notes)


def test_options_and_references_belong_to_the_fingerprint(tmp_path: Path) -> None:
    rows = [{**row, "choices": [*row["choices"][:1], "a cow", *row["choices"][2:]]} for row in LISTS]
    tasks = (choice(tmp_path / "a"), choice(tmp_path / "b", rows), generated(tmp_path / "c"),
             generated(tmp_path / "d", [{**REFERENCES[0], "gold": "no"}, *REFERENCES[1:]]))  # fmt: skip
    assert len({load(made).fingerprint for made in tasks}) == 4


def test_a_definition_is_of_the_causal_readout_alone(tmp_path: Path) -> None:
    made, written = choice(tmp_path / "a"), generated(tmp_path / "b")
    scored = generated(tmp_path / "c", **SCORED)
    told = [definition(made.model_copy(update={"length_normalised": each})) for each in (False, True)]
    told += [definition(written), definition(scored)]
    assert len(set(told)) == 4 and {(one[:7], " " in one) for one in told} == {("causal=", False)}


@pytest.mark.parametrize(
    ("make", "changes", "readout", "sentence"),
    [
        *((make, {}, readout, sentence.format(readout)) for readout in ("head", "prompt") for make, sentence in (
            (choice, "the {} readout knows fixed classes only; use the causal readout"),
            (generated, "which the {} readout cannot do; use the causal readout"))),
        (generated, SCORED, "head", "takes the likelihood of references, which the head readout cannot"),
        (generated, {"max_new_tokens": 2}, "causal",
         r"the longest reference has \d+ tokens .* generates 2; raise max_new_tokens"),
    ],
)  # fmt: skip
def test_what_a_readout_cannot_do_is_refused(
    make: Any, changes: dict[str, Any], readout: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence):
        read(make(tmp_path, **changes), readout=readout)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "'made' generates its answer and has no classes"),
        (SCORED, "'made' has a reference for each example and no classes"),
    ],
)
def test_no_classes_are_mapped_to_another_tasks(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    made = generated(tmp_path, **changes)
    with pytest.raises(BadInput, match=sentence):
        label_mapping(made, made)


@pytest.mark.parametrize(
    ("make", "changes", "sentence"),
    [
        (choice, {"options": None, "answer": "gold"}, "'answer' names the right one of an example's 'options'"),
        (choice, {"options": "text"}, "texts, options and the right answer must be in different columns"),
        (choice, {"options": ["one", "two"]}, "there are 2 columns of options and 3 labels"),
        (choice, {"answer": "gold", "drop": ["x"]}, "'classes' and 'drop' belong to a label column"),
        (choice, {"labels": list("AB"), "metric": "f1"}, "f1 is of a class, and options are no classes; use accuracy"),
        (choice, {"label_words": ["x", "y", "z"]}, "leave label_words and the masked template out"),
        (choice, {"template": "{text} <mask>"}, "leave label_words and the masked template out"),
        (choice, {"labels": None}, "labels must be two or more different names"),
        (generated, {"options": "choices"}, "a 'reference' is generated, and 'options' are chosen from"),
        (generated, {"labels": ["a", "b"]}, "has no classes; leave labels, classes, drop and label_words out"),
        (generated, {"label_words": ["a", "b"]}, "has no classes; leave labels, classes, drop and label_words out"),
        (generated, {"reference": "text"}, "the text columns and the reference column must be different"),
        (generated, {"metric": "f1"}, "f1 is of classes or options; a reference is scored by exact_match or perple"),
        (generated, {"metric": "perplexity"}, "with the metric perplexity nothing is generated; leave max_new_tokens"),
        (generated, {"template": "{text} <mask>"}, "generated by the causal readout; leave the masked template out"),
        (generated, {"stop": "period"}, "'stop' cannot be used"),
        (generated, {"max_new_tokens": 0}, "'max_new_tokens' cannot be used"),
        *((choice, {"options": None, "labels": ["a", "b"], "metric": metric},
           f"{metric} is of texts with a reference; name its column as 'reference'")
          for metric in ("exact_match", "perplexity")),
    ],
)  # fmt: skip
def test_what_contradicts_options_or_a_reference_is_refused(
    make: Any, changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence):
        make(tmp_path, **changes)


@pytest.mark.parametrize(
    ("make", "row", "changes", "sentence"),
    [
        (choice, {"choices": ["only one"], "label": 0}, {}, "1 option in row 2; task 'made' takes 2 to 3"),
        (choice, {"choices": list("abcd")}, {}, "4 options in row 2"),
        (choice, {"choices": ["a", "", "c"]}, {}, "an empty option before others in row 2; move the empty ones to the"),
        (choice, {"choices": ["a", "b"], "label": "C"}, {}, "option C is right in row 2, which has only 2; correct"),
        (choice, {"label": "D"}, {}, "the label 'D' in row 2"),
        (choice, {"gold": "a cow"}, {"answer": "gold"},
         r"the answer 'a cow' in row 2 \(column 'gold'\), which is none of its options"),
        (generated, {"gold": " "}, {}, "no text in the column 'gold' of row 2"),
        (generated, {"gold": "a\nb"}, {"stop": "newline"}, "a line break inside the reference of row 2"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_scored_are_refused(
    make: Any, row: dict[str, Any], changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    first = {**LISTS[1], "gold": "snow"}
    with pytest.raises(BadData, match=sentence):
        load(make(tmp_path, [first, {**first, **row}], **changes))


def test_a_csv_has_no_lists(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no list in the column 'choices' of row 1; put lists of texts"):
        load(choice(tmp_path, [{**row, "choices": "a; b", "label": "A"} for row in LISTS], ".csv"))


def test_a_reference_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    made = generated(tmp_path)
    facts = (made.kind, made.metric, made.has_classes, made.labels)
    assert facts == ("generation", "exact_match", False, ("other", "reference"))
    test = load(made).test
    assert test["reference"].tolist()[:2] == ["at the cat", "Water"] and set(test["label"]) == {1}


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize("stop", ["end_of_text", "newline"])
def test_the_reference_goes_on_after_the_prompt_and_ends(kind: str, stop: str, tmp_path: Path) -> None:
    made, tok = generated(tmp_path, stop=stop), tokenizer(kind)
    if stop == "newline" and "\n" not in tok.decode(tok("a\n", add_special_tokens=False)["input_ids"]):
        with pytest.raises(BadInput, match="no token for a line break.*write 'stop: end_of_text'"):
            read(made, kind)
        return
    encoded, end = read(made, kind), "\n" if stop == "newline" else tok.eos_token
    assert encoded.n_labels == 1 and encoded.answers is not None and encoded.generation is not None
    assert encoded.generation.references[:2] == ("at the cat", "Water")
    for ids, (reference,), text in zip(encoded.input_ids, encoded.answers, load(made).test["reference"], strict=True):
        assert tok.decode([*ids, *reference]).endswith(f"Answer: {text}{end}")
        assert encoded.generation.has_ended(reference.tolist())
        assert not encoded.generation.has_ended(reference[:-1].tolist())
        assert encoded.generation.text([one for one in reference if one != tok.eos_token_id]) == text
    assert encoded.take([1]).generation.references == ("Water",)  # type: ignore[union-attr]


@pytest.mark.parametrize("is_loose", [False, True])
def test_case_and_punctuation_count_unless_said_otherwise(tmp_path: Path, is_loose: bool) -> None:
    made = read(generated(tmp_path, ignore_case=is_loose, ignore_punctuation=is_loose)).generation
    assert made is not None and (made.normalise("WATER!") == made.references[1]) is is_loose


def test_a_prompt_is_shortened_for_the_text(tmp_path: Path) -> None:
    rows = [{"text": "dog " * 60, "gold": "cat"}] * 4
    assert max(map(len, read(generated(tmp_path, rows, max_length=48, max_new_tokens=16)).input_ids)) <= 48 - 16


def test_a_reference_is_compared_as_its_own_tokens_write_it(tmp_path: Path) -> None:
    """If a tokenizer changes case and spaces, a model that writes the reference's tokens is still right."""
    encoded = read(generated(tmp_path, [{"text": "what", "gold": "The Kitchen."}] * 2), "words")
    assert encoded.generation is not None and encoded.answers is not None
    (reference,) = encoded.answers[0]
    scores = encoded.take([0]).generation.scored([reference.tolist()], np.zeros(1), np.ones(1))  # type: ignore[union-attr]
    assert encoded.generation.references[0] == "the kitchen ." and scores[0, 1] == 1


@pytest.mark.parametrize(
    ("gold", "changes", "sentence"),
    [
        ("don't stop", {}, "has no tokens for the reference 'don't stop'"),
        (".", {"ignore_punctuation": True}, "nothing is left to compare of the reference '.'"),
        ("the", {"max_length": 40}, "generates 40 tokens .*, and 40 fit .*; lower max_new_tokens, or raise max_length"),
    ],
)
def test_a_reference_that_cannot_be_written_is_refused(
    gold: str, changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence):
        read(generated(tmp_path, [{"text": "what", "gold": gold}] * 2, **changes), "words")


def test_a_special_token_in_an_answer_is_read_as_it_is_and_said(tmp_path: Path) -> None:
    tok = tokenizer("gpt2")
    options = [f"great{tok.eos_token}", "terrible"]
    chosen = read(choice(tmp_path / "c", [{"text": "a film", "choices": options, "label": "A"}] * 4))
    assert chosen.answers is not None and tok.eos_token_id in chosen.answers[0][0]
    rows = [{"text": "a film", "gold": f"great{gold} film"} for gold in (tok.eos_token, "", "", "")]
    written = read(generated(tmp_path / "g", rows))
    assert written.answers is not None and (written.answers[0][0] == tok.eos_token_id).sum() == 2
    assert written.notes == (
        f"1 of 4 references contains the token '{tok.eos_token}', at which a generated text ends: no text can match.",
    )


def test_a_column_called_label_may_be_a_text(tmp_path: Path) -> None:
    rows = [{"label": "what", "gold": "water"}] * 2
    assert generated(tmp_path, rows, text="label", template={"causal": "{label}:"}).text == ("label",)


def test_references_that_are_only_scored_are_those_that_are_generated(tmp_path: Path) -> None:
    """The tokens are equal, for any number of them; no space is reserved for a text."""
    made, scored = generated(tmp_path), generated(tmp_path, **SCORED, max_length=60)
    wanted, encoded = read(made), read(scored)
    assert encoded.generation is None and encoded.has_reference and not scored.generates and made.generates
    assert encoded.answers is not None and wanted.answers is not None
    np.testing.assert_equal(encoded.answers, wanted.answers)
    long = generated(tmp_path, [{"text": "dog " * 60, "gold": "cat " * 20}] * 2, **SCORED, max_length=128)
    assert len(read(long).answers[0][0]) > 32  # type: ignore[index]
