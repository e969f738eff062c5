"""Tests of the runs whose margins over their nulls can be pooled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.nulls import NULLS
from skillviz.runs.store import Store, shipped_root
from skillviz.show.beyond import of_other_models
from tests.small_world import opening_run

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "nulls.md").read_text(encoding="utf-8")


def test_other_fine_tuned_models_have_the_same_search_and_number_of_steps() -> None:
    """A checkpoint, another recipe, another size and another seed of the search are not pooled."""
    records, own = [run.record for run in Store(shipped_root()).list()], opening_run().record
    others = of_other_models(own, records)
    assert sorted(one.spec.finetuned for one in others) == ["models/examples/mr-sgd-1", "models/examples/mr-sgd-2"]
    assert {(one.size, one.spec.localizer, one.spec.seed) for one in others} == {(own.size, "stagewise", 0)}
    checkpoint = next(one for one in records if "checkpoint-312" in one.spec.finetuned)
    for one in (checkpoint, own.model_copy(update={"finetuned": None})):
        assert of_other_models(one, records) == []


def test_the_table_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(row.name, row.keeps, row.breaks, row.tests) for row in NULLS.values()]
    assert rows[0] != (rows[0][0], *rows[1][1:]), "rows of other nulls would pass"


@pytest.mark.parametrize(
    ("passage", "rows", "is_named"),
    [
        (r"There is no null for (.*?):", LOCALIZERS, lambda row: not row.has_null),
        (r"can learn signs: (.*?)\. An entry", LOCALIZERS, lambda row: row.learns_signs),
        (r"\n- (`[a-z-]+` and `[a-z-]+`) are drawn", NULLS, lambda row: row.is_drawn),
        (r"\n- With (`[a-z-]+` and `[a-z-]+`), \*true signs\*", NULLS, lambda row: row.has_signs),
    ],
    ids=["without a null", "learned signs", "drawn", "true signs"],
)
def test_the_rows_with_a_property_are_named(
    passage: str, rows: Mapping[str, Any], is_named: Callable[[Any], bool]
) -> None:
    (words,) = re.findall(passage, PAGE)
    assert set(re.findall(r"`([a-z-]+)`", words)) == {row.name for row in rows.values() if is_named(row)}
