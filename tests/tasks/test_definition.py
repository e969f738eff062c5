"""The hash of a task's definition: it changes with what a readout asks and how it is scored, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pandas as pd
import pytest

from skillviz.runs.migrate import SCHEMA_VERSION, migrated
from skillviz.runs.provenance import task_note
from skillviz.runs.record import TaskNote
from skillviz.runs.spec import Readout
from skillviz.tasks.definition import APART, DESCRIPTIVE, KINDS, OF_DATA, OTHERS, definition, same_definition
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
"""A change, and the readouts by which the task then is another."""
SAME: list[dict[str, Any]] = [
    {"title": "Mine", "name": "yours", "source": "somewhere", "path": Path("mine.yaml")},
    {"data": Files(train="data/train.csv", test="data/test.csv")},
    {"positive": 0},  # accuracy asks for no positive class
    {"max_length_causal": 200},  # what it is without it
]


def of(change: dict[str, Any]) -> Task:
    return Task(**{**BASIC, **change})


@pytest.mark.parametrize(("change", "readouts"), CHANGES)
def test_a_change_counts_for_the_readouts_that_look_at_it(change: dict[str, Any], readouts: frozenset[str]) -> None:
    found = {readout for readout in KINDS if definition(of(change), readout) != definition(of({}), readout)}
    assert found == readouts


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
    """A new field of a task is part of the definition unless somebody says that it is not."""
    asked = {name for change, _ in CHANGES for name in change}
    assert asked | OF_DATA | DESCRIPTIVE == set(Task.model_fields) and not OF_DATA & DESCRIPTIVE
    assert frozenset.union(APART, *OTHERS.values()) <= asked


def test_every_readout_has_a_definition() -> None:
    assert set(KINDS) == set(OTHERS) == set(get_args(Readout))


def test_a_readout_that_is_added_changes_nothing_for_the_others() -> None:
    before = of({"template": Template(masked="{text} It was {mask}."), "label_words": LabelWords(masked=("a", "b"))})
    after = of({"template": BASIC["template"], "label_words": LabelWords(masked=("a", "b"), causal=("c", "d"))})
    told, now = definition(before), definition(after)
    assert told != now and same_definition(told, now) and same_definition(now, told)
    assert "causal" not in told and "causal" in now
    assert not same_definition(definition(of({})), definition(of({"max_length": 64})))


def test_a_note_of_all_readouts_is_compared_by_the_one_that_is_asked() -> None:
    told, after = definition(of({})), of(CHANGES[1][0])
    assert same_definition(told, definition(after, "head")) and same_definition(told, definition(after, "prompt"))
    assert not same_definition(told, definition(after, "causal")) and not same_definition(told, definition(after))


def test_a_readout_whose_words_are_gone_is_another() -> None:
    told, after = definition(of({}), "prompt"), of({"template": Template(), "label_words": LabelWords()})
    assert not same_definition(told, definition(after, "prompt")) and not same_definition(told, definition(after))


def test_a_note_of_one_readout_tells_of_that_one() -> None:
    frame = pd.DataFrame({"label": [0, 1]})
    splits: Any = SimpleNamespace(train=frame, validation=frame, test=frame, fingerprint="f", words=1.0)
    assert task_note(of({}), splits, "prompt").definition == definition(of({}), "prompt")
    assert task_note(of({}), splits).definition == definition(of({}))


def test_a_record_that_says_nothing_is_taken_at_its_word() -> None:
    assert same_definition("", "a") and same_definition(None, "a") and same_definition("a", "a")
    assert not same_definition("a", "b") and not same_definition("a", "head=a")


def test_older_records_stay_as_they_were_when_written_anew() -> None:
    assert not any(
        "definition" in migrated({"schema_version": k, "task": {}})["task"] for k in range(1, SCHEMA_VERSION)
    )
    assert "definition" not in TaskNote(name="mine", labels=("a", "b")).model_dump(mode="json")
    assert TaskNote(name="mine", labels=("a", "b"), definition="x").model_dump(mode="json")["definition"] == "x"
