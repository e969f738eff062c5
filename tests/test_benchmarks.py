"""Tests of the stand-alone benchmarks: their arithmetic, and that README.md shows the stored results."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from benchmarks import constants
from benchmarks.frame import Rows, measure, verdict
from docs.research import minilm
from tests.scripts import ROOT

README = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def told(lines: list[str]) -> bool:
    return "\n".join(lines) in README


def test_the_constants_are_told_best_first() -> None:
    row = {
        "finetuned": "m",
        "size": 10,
        "seed": 0,
        "localizer": "stagewise",
        "accuracy": 80.0,
        "ece": 5.0,
        "seconds": 9,
    }
    worse, better = {**row, "options": {"steps": 25}, "nll": 0.5}, {**row, "options": {}, "nll": 0.4}
    assert constants.table([worse, better])[2:] == [
        "| m | 10 | stagewise | as shipped | 80.0 | 0.400 | 5.0 | 9 |",
        "| m | 10 | stagewise | steps 25 | 80.0 | 0.500 | 5.0 | 9 |",
    ]
    assert told(constants.table(json.loads(constants.FILE.read_text())))


@pytest.mark.nightly
def test_the_tables_of_minilm_are_those_of_the_stored_runs() -> None:
    page = minilm.PAGE.read_text(encoding="utf-8")
    assert all("\n".join(lines) in page for lines in minilm.tables(ROOT / "cached_runs").values())


@pytest.fixture(scope="module")
def page_speed() -> ModuleType:
    pytest.importorskip("playwright.sync_api")
    return importlib.import_module("benchmarks.page_speed")


def test_the_stored_page_speed_is_told_as_it_is(page_speed: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "page_speed.json").read_text())
    rows = {row["what"]: row for row in result["rows"]}
    later, measured = (
        rows[page_speed.LATER],
        [what[len("switch to ") :] for what in rows if what.startswith("switch to ")],
    )
    assert measured and set(measured) <= set(page_speed.PAGES), "a page of the result is gone; measure again"
    assert result["runs"] >= 20 and later["n"] >= 3 * len(measured)
    assert later["times_bare"] <= page_speed.SWITCH == later["target"]
    assert told(page_speed.table(result)), "README.md shows another result"


def test_percentiles_and_multiples_of_the_bare_app(page_speed: ModuleType) -> None:
    row = page_speed.row_of("switch to runs", [0.1, 0.2, 0.3, 0.4, 0.5], 0.1)
    assert (row, [verdict(row["times_bare"], target) for target in (3.0, 2.9)]) == (
        {"what": "switch to runs", "n": 5, "median": 0.3, "p95": 0.48, "times_bare": 3.0, "target": None},
        ["3, met", "2.9, missed"],
    )


@pytest.fixture(scope="module")
def visitors() -> ModuleType:
    pytest.importorskip("playwright.async_api")
    return importlib.import_module("benchmarks.visitors")


def test_the_stored_visitors_are_told_as_they_are(visitors: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "visitors.json").read_text())
    assert told(visitors.table(result)), "README.md shows another result"
    assert [row["errors"] for row in (*result["busy"], *result["class"]["rows"])] == [[]] * 5


def test_the_slope_of_memory_is_that_of_the_second_half(visitors: ModuleType) -> None:
    full = [(float(second), 2**20 * (100 + 10 * min(second, 60))) for second in range(121)]  # grows, then constant
    grows = [(second, size + 2**20 * second / 12) for second, size in full]
    assert [visitors.slope(one) for one in (full, grows, full[:10])] == [0, 5.0, None]
    assert visitors.said(None, 1) == "not measured"


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_visitor_gets_pages_and_notes_their_errors(visitors: ModuleType, tmp_path: Path) -> None:
    with visitors.bare_app() as app, ThreadPoolExecutor(1) as apart:  # outside Playwright's loop
        (app / "pages" / "two.py").write_text("raise ValueError('planted')")
        with visitors.Server(app, tmp_path) as server:
            good = apart.submit(visitors.of_turn, server, ["zero", "one"], [""], 1).result()
            bad = apart.submit(visitors.of_turn, server, ["two"], [""], 1).result()
    assert len(good["seconds"]) >= visitors.BUSY and good["errors"] == [] and good["processor"] > 0
    assert len(bad["errors"]) == len(bad["seconds"]) and "planted" in bad["errors"][0]


def test_rows_are_kept_as_they_are_made_in_the_order_of_the_cells(tmp_path: Path) -> None:
    table, said, made = tmp_path / "rows.csv", list[str](), list[str]()

    def cell(name: str, value: float) -> tuple[dict[str, object], Callable[[], list[dict[str, object]]]]:
        key = {"name": name, "share": value}
        return key, lambda: made.append(name) or [{**key, "part": part, "found": 1 / 3} for part in "ab"]

    def measured(*cells: object) -> pd.DataFrame:
        return measure(Rows(table, ["name", "share"]), list(cells), said.append)

    one, two = cell("one", 0.1), cell("two", float("nan"))
    measured(two)
    before = table.read_text().splitlines()[1:]
    assert list(measured(one, two, one)["name"]) == ["one", "one", "two", "two"] and made == ["two", "one"]
    assert table.read_text().splitlines()[3:] == before, "kept rows stay byte for byte the same"
    stamp = table.stat().st_mtime_ns
    measured(one, two, one)
    assert table.stat().st_mtime_ns == stamp and said == ["rows.csv: 1 of 1 cells, about 0 min left"] * 2
