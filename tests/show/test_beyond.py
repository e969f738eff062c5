"""Tests of the runs whose margins over their nulls can be pooled."""

from __future__ import annotations

import re
from pathlib import Path

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.nulls import NULLS
from skillviz.runs.store import Store, shipped_root
from skillviz.show.beyond import of_other_models
from tests.small_world import opening_run

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "nulls.md").read_text(encoding="utf-8")


def test_other_fine_tuned_models_have_the_same_search_and_number_of_steps() -> None:
    """A checkpoint, another recipe, another size and another seed of the search are not pooled."""
    records = [run.record for run in Store(shipped_root()).list()]
    own = opening_run().record
    others = of_other_models(own, records)
    assert sorted(one.spec.finetuned for one in others) == ["models/examples/mr-sgd-1", "models/examples/mr-sgd-2"]
    assert {(one.size, one.spec.localizer, one.spec.seed) for one in others} == {(own.size, "stagewise", 0)}
    assert of_other_models(next(one for one in records if "checkpoint-312" in one.spec.finetuned), records) == []
    assert of_other_models(own.model_copy(update={"finetuned": None}), records) == []


def test_the_table_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(row.name, row.keeps, row.breaks, row.tests) for row in NULLS.values()]
    assert rows[0] != (rows[0][0], *rows[1][1:]), "rows of other nulls would pass"


def test_the_localizers_without_a_null_and_with_learned_signs_are_named() -> None:
    without = re.search(r"There is no null for (.*?):", PAGE)
    learns = re.search(r"can learn signs: (.*?)\. An entry", PAGE)
    assert without is not None and learns is not None
    assert set(re.findall(r"`([a-z-]+)`", without[1])) == {r.name for r in LOCALIZERS.values() if not r.has_null}
    assert set(re.findall(r"`([a-z-]+)`", learns[1])) == {r.name for r in LOCALIZERS.values() if r.learns_signs}


def test_what_is_drawn_and_what_has_signs_is_said() -> None:
    drawn = re.search(r"^- `([a-z-]+)` and `([a-z-]+)` are drawn", PAGE, re.MULTILINE)
    signs = re.search(r"^- With `([a-z-]+)` and `([a-z-]+)`, \*true signs\*", PAGE, re.MULTILINE)
    assert drawn is not None and set(drawn.groups()) == {row.name for row in NULLS.values() if row.is_drawn}
    assert signs is not None and set(signs.groups()) == {row.name for row in NULLS.values() if row.has_signs}
