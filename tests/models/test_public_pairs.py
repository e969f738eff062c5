"""Tests of the table of public pairs: the task fits the head, the ids can be the hub's, and each says what to do."""

from __future__ import annotations

import shlex

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
def test_a_row_fits_its_task_and_only_pickled_weights_come_with_a_command_that_converts_them(
    row: PublicPair,
) -> None:
    assert row.task in registry.TASKS and fits(row), row.labels
    assert row.base != row.finetuned and may_be_hub_id(row.base) and may_be_hub_id(row.finetuned)
    assert row.license in LICENSES and 10**6 < row.parameters < 10**9 and row.weights in ("bin", "safetensors")
    command = convert_command(row.finetuned)
    assert command == row.convert_command() and (command is None) == (row.weights == "safetensors")
    for words in filter(None, (command, row.localize_command())):
        assert {row.base, row.finetuned} <= set(shlex.split(words))


def test_a_head_of_other_labels_would_be_noticed() -> None:
    turned = ROWS[0].labels[::-1]
    # The first two are matched by name and as abbreviations.
    heads = {
        turned: True,
        ("pos", "neg"): True,
        turned[:1]: False,
        ("LABEL_0", "LABEL_1"): False,
        ("joy", "anger"): False,
    }
    assert {labels: fits(ROWS[0].model_copy(update={"labels": labels})) for labels in heads} == heads


def test_no_model_is_listed_twice_and_no_other_has_a_command() -> None:
    assert len({row.finetuned for row in ROWS}) == len(ROWS) >= 6 and len({row.weights for row in ROWS}) == 2
    assert convert_command("org/other") is None and convert_command(ROWS[0].base) is None


@pytest.mark.parametrize(
    "change", [{"base": "models/../x"}, {"finetuned": "alone"}, {"weights": "h5"}, {"parameters": 0}, {"stars": 5}]
)
def test_a_row_that_is_not_as_it_should_be_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PublicPair(**{**ROWS[0].model_dump(), **change})


def test_the_table_says_what_its_facts_are() -> None:
    """Their source and date are given before the first row."""
    comment = table.TABLE.read_text(encoding="utf-8").split("\n- ")[0]
    assert "No model was downloaded" in comment and "Taken on 20" in comment
