"""Tests of the table of public pairs: the task fits the head, the ids can be the hub's, and each says what to do."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pydantic import ValidationError

from skillviz.core.class_names import match
from skillviz.core.comparison import Comparison
from skillviz.models import public_pairs as table
from skillviz.models.fetch import may_be_hub_id
from skillviz.models.public_pairs import PublicPair, convert_command, public_pairs
from skillviz.tasks import registry

ROWS = public_pairs()
LICENSES = {"Apache-2.0", "MIT", "not stated"}  # other SPDX ids may be added


def fits(row: PublicPair) -> bool:
    """Return whether each of the head's outputs is read as the class it names."""
    return match(row.labels, registry.TASKS[row.task].labels).comparison is Comparison.SAME


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.finetuned)
def test_a_row_fits_its_task_and_can_be_on_the_hub(row: PublicPair) -> None:
    assert row.task in registry.TASKS and fits(row), row.labels
    assert row.base != row.finetuned and may_be_hub_id(row.base) and may_be_hub_id(row.finetuned)
    assert row.license in LICENSES and 10**6 < row.parameters < 10**9


def test_a_head_of_other_labels_would_be_noticed() -> None:
    row = ROWS[0]
    for labels in (row.labels[::-1][:1], ("LABEL_0", "LABEL_1"), ("joy", "anger")):
        assert not fits(row.model_copy(update={"labels": labels})), labels
    assert fits(row.model_copy(update={"labels": row.labels[::-1]})), "matched by name"
    assert fits(row.model_copy(update={"labels": ("pos", "neg")})), "matched as abbreviations"


def test_no_model_is_listed_twice() -> None:
    assert len({row.finetuned for row in ROWS}) == len(ROWS) >= 6


@pytest.mark.parametrize(
    "change", [{"base": "models/../x"}, {"finetuned": "alone"}, {"weights": "h5"}, {"parameters": 0}, {"stars": 5}]
)
def test_a_row_that_is_not_as_it_should_be_is_refused(change: dict[str, object]) -> None:
    PublicPair(**ROWS[0].model_dump())
    with pytest.raises(ValidationError):
        PublicPair(**{**ROWS[0].model_dump(), **change})


def test_only_pickled_weights_come_with_a_command_that_converts_them() -> None:
    assert {row.weights for row in ROWS} == {"bin", "safetensors"}
    for row in ROWS:
        command = convert_command(row.finetuned)
        assert command == row.convert_command() and (command is None) == (row.weights == "safetensors")
        for words in filter(None, (command, row.localize_command())):
            assert {row.base, row.finetuned} <= set(shlex.split(words))
    assert convert_command("org/other") is None and convert_command(ROWS[0].base) is None


def test_the_table_says_what_its_facts_are() -> None:
    """Their source and date are given before the first row."""
    comment = table.TABLE.read_text(encoding="utf-8").split("\n- ")[0]
    assert "No model was downloaded" in comment and "Taken on 20" in comment
