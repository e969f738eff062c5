"""Test that docs/nulls.md agrees with the table of nulls."""

from __future__ import annotations

import re
from pathlib import Path

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.nulls import NULLS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "nulls.md").read_text(encoding="utf-8")


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
