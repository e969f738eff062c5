"""Tests of the hash of a task's definition: it depends on the readout's input and scoring, and on nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pandas as pd
import pytest

from skillviz.core.comparison import Comparison
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.spec import Readout
from skillviz.tasks.definition import APART, DESCRIPTIVE, KINDS, OF_DATA, OTHERS, compared, definition
from skillviz.tasks.task import Files, LabelWords, Task, Template

BASIC: dict[str, Any] = {
    "name": "mine",
    "data": Files(train="train.csv", test="test.csv"),
    "text": ("text",),
    "labels": ("neg", "pos"),
    "template": Template(masked="{text} It was {mask}.", causal="{text} It was"),
    "label_words": LabelWords(masked=("bad", "good"), causal=("awful", "great")),
    "max_length": 200,
}
ALL = frozenset(KINDS)


CHANGES: list[tuple[dict[str, Any], frozenset[str]]] = [
    ({"template": Template(masked="{text} All in all {mask}.", causal="{text} It was")}, frozenset({"prompt"})),
    ({"template": Template(masked="{text} It was {mask}.", causal="{text} All in all")}, frozenset({"causal"})),
    ({"template": Template(masked="{text} It was {mask}.")}, frozenset({"causal"})),
    ({"label_words": LabelWords(masked=("good", "bad"), causal=("awful", "great"))}, frozenset({"prompt"})),
    ({"label_words": LabelWords(masked=("bad", "good"), causal=("great", "awful"))}, frozenset({"causal"})),
    ({"text": ("other",), "template": Template(), "label_words": LabelWords()}, ALL),
    ({"labels": ("pos", "neg")}, ALL),
    ({"metric": "f1"}, ALL),
    ({"metric": "f1", "positive": 0}, ALL),
    ({"max_length": 64}, ALL),
    ({"max_length_causal": 32}, frozenset({"causal"})),
    ({"lmbff_exact": True}, frozenset({"prompt", "causal"})),
    ({"length_normalised": True}, frozenset({"causal"})),
    ({"max_new_tokens": 8}, frozenset({"causal"})),
    ({"stop": "newline"}, frozenset({"causal"})),
    ({"ignore_case": True}, frozenset({"causal"})),
    ({"ignore_punctuation": True}, frozenset({"causal"})),
]
"""(a change, the readouts whose definition it changes)."""
SAME: list[dict[str, Any]] = [
    {"title": "Mine", "name": "yours", "source": "somewhere", "path": Path("mine.yaml")},
    {"data": Files(train="data/train.csv", test="data/test.csv")},
    {"positive": 0},  # accuracy has no positive class
    {"max_length_causal": 200},  # equal to the default
]


def of(change: dict[str, Any]) -> Task:
    return Task(**{**BASIC, **change})


@pytest.mark.parametrize(("change", "readouts"), CHANGES)
def test_a_change_counts_for_the_readouts_that_look_at_it(change: dict[str, Any], readouts: frozenset[str]) -> None:
    assert {kind for kind in KINDS if definition(of(change), kind) != definition(of({}), kind)} == readouts


@pytest.mark.parametrize("readout", KINDS)
def test_every_change_that_counts_has_a_hash_of_its_own(readout: str) -> None:
    found = [definition(of(change), readout) for change, readouts in (({}, ALL), *CHANGES) if readout in readouts]
    assert len(set(found)) == len(found)


def test_the_longest_input_of_the_causal_readout_may_be_its_own() -> None:
    one, other = (of({"max_length_causal": 64, "max_length": most}) for most in (128, 256))
    assert definition(one, "causal") == definition(other, "causal")
    assert definition(one, "prompt") != definition(other, "prompt")


@pytest.mark.parametrize("readout", [None, *KINDS])
@pytest.mark.parametrize("change", SAME)
def test_what_only_names_or_describes_leaves_it(change: dict[str, Any], readout: str | None) -> None:
    assert definition(of(change), readout) == definition(of({}), readout)


def test_every_field_is_told_of_once() -> None:
    """A new field of a task is part of the definition unless it is listed as not."""
    asked = {name for change, _ in CHANGES for name in change}
    assert asked | OF_DATA | DESCRIPTIVE == set(Task.model_fields) and not OF_DATA & DESCRIPTIVE
    assert frozenset.union(APART, *OTHERS.values()) <= asked
    assert set(KINDS) == set(OTHERS) == set(get_args(Readout))


MASKED_ONLY = {"template": Template(masked="{text} It was {mask}."), "label_words": LabelWords(masked=("a", "b"))}
WITH_CAUSAL = {"template": BASIC["template"], "label_words": LabelWords(masked=("a", "b"), causal=("c", "d"))}
BARE = {"template": Template(), "label_words": LabelWords()}


@pytest.mark.parametrize(
    ("stored", "now", "is_same"),
    [
        (definition(of(MASKED_ONLY)), definition(of(WITH_CAUSAL)), True),  # a readout that is added
        (definition(of(WITH_CAUSAL)), definition(of(MASKED_ONLY)), True),
        (definition(of({})), definition(of({"max_length": 64})), False),
        # a note of all readouts is compared by the one that is asked
        (definition(of({})), definition(of(CHANGES[1][0]), "head"), True),
        (definition(of({})), definition(of(CHANGES[1][0]), "prompt"), True),
        (definition(of({})), definition(of(CHANGES[1][0]), "causal"), False),
        (definition(of({})), definition(of(CHANGES[1][0])), False),
        (definition(of({}), "prompt"), definition(of(BARE), "prompt"), False),  # its words are gone
        (definition(of({}), "prompt"), definition(of(BARE)), False),
        ("a", "a", True),
        ("a", "b", False),
        ("a", "head=a", False),
        *((stored, now, None) for stored, now in (("", "a"), (None, "a"), ("", ""), ("a", ""))),  # never the same
    ],
)
def test_definitions_are_the_same_another_or_unknown(stored: str | None, now: str, is_same: bool | None) -> None:
    wanted = {True: Comparison.SAME, False: Comparison.DIFFERENT, None: Comparison.UNKNOWN}
    assert compared(stored, now) is wanted[is_same]
    assert "causal" not in definition(of(MASKED_ONLY)) and "causal" in definition(of(WITH_CAUSAL))


def test_a_note_of_one_readout_tells_of_that_one() -> None:
    frame = pd.DataFrame({"label": [0, 1]})
    splits: Any = SimpleNamespace(train=frame, validation=frame, test=frame, fingerprint="f", words=1.0)
    assert task_note(of({}), splits, "prompt").definition == definition(of({}), "prompt")
    assert task_note(of({}), splits).definition == definition(of({}))


def test_a_definition_that_is_not_known_is_not_written() -> None:
    notes = [TaskNote(name="mine", labels=("a", "b"), **more) for more in ({}, {"definition": "x"})]
    assert [note.model_dump(mode="json").get("definition", "absent") for note in notes] == ["absent", "x"]
