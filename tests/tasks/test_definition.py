"""The hash of a task's definition: it changes with what is asked and how it is scored, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillviz.runs.migrate import SCHEMA_VERSION
from skillviz.runs.record import TaskNote
from skillviz.tasks.definition import OF_DATA, SAID, definition, same_definition
from skillviz.tasks.task import Files, LabelWords, Task, Template

BASIC: dict[str, Any] = {
    "name": "mine",
    "data": Files(train="train.csv", test="test.csv"),
    "text": ("text",),
    "labels": ("neg", "pos"),
    "template": Template(masked="{text} It was {mask}."),
    "label_words": LabelWords(masked=("bad", "good")),
}
CHANGES: list[dict[str, Any]] = [
    {"template": Template(masked="{text} All in all {mask}.")},
    {"template": Template(masked="{text} It was {mask}.", causal="{text} It was")},
    {"label_words": LabelWords(masked=("good", "bad"))},
    {"labels": ("pos", "neg")},
    {"metric": "f1"},
    {"metric": "f1", "positive": 0},
    {"max_length": 64},
    {"max_length_causal": 64},
    {"lmbff_exact": True},
    {"length_normalised": True},
]
SAME: list[dict[str, Any]] = [
    {"title": "Mine", "name": "yours", "source": "somewhere", "path": Path("mine.yaml")},
    {"data": Files(train="data/train.csv", test="data/test.csv")},
    {"positive": 0},  # accuracy asks for no positive class
    {"max_length": 128},  # the default, said
]


def test_every_change_of_what_is_asked_has_a_hash_of_its_own() -> None:
    found = [definition(Task(**{**BASIC, **change})) for change in ({}, *CHANGES)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("change", SAME)
def test_what_only_names_or_describes_leaves_it(change: dict[str, Any]) -> None:
    assert definition(Task(**{**BASIC, **change})) == definition(Task(**BASIC))


def test_every_field_is_told_of_once() -> None:
    """A new field of a task is part of the definition unless somebody says that it is not."""
    asked = {name for change in CHANGES for name in change} | {"text"}
    assert asked | OF_DATA | SAID == set(Task.model_fields) and not OF_DATA & SAID


def test_a_record_that_says_nothing_is_taken_at_its_word() -> None:
    assert same_definition("", "a") and same_definition(None, "a") and same_definition("a", "a")
    assert not same_definition("a", "b")


def test_older_records_stay_as_they_were_when_written_anew() -> None:
    assert SCHEMA_VERSION == 2  # the field is optional, so that it needs no version of its own
    assert "definition" not in TaskNote(name="mine", labels=("a", "b")).model_dump(mode="json")
    assert TaskNote(name="mine", labels=("a", "b"), definition="x").model_dump(mode="json")["definition"] == "x"
