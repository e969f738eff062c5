"""Tests of the stand-alone benchmarks: their arithmetic, and that README.md shows the stored results."""

from __future__ import annotations

import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.scripts import ROOT, script


@pytest.fixture(scope="module")
def report() -> ModuleType:
    """Return benchmarks/report.py as a module."""
    return script("benchmarks/report.py")


def test_the_constants_are_told_best_first(report: ModuleType) -> None:
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
    lines = report.constants([worse, better]).splitlines()
    assert lines[2:] == [
        "| m | 10 | stagewise | as shipped | 80.0 | 0.400 | 5.0 | 9 |",
        "| m | 10 | stagewise | steps 25 | 80.0 | 0.500 | 5.0 | 9 |",
    ]


@pytest.mark.slow
def test_the_tables_of_minilm_and_the_constants_are_those_of_the_stored_runs(report: ModuleType) -> None:
    store, studies = report.Store(ROOT / "cached_runs"), ROOT / "benchmarks/studies"
    page = report.PAGE.read_text()
    assert report.text(report.runs_of(studies / "minilm-sst2.yaml", store)) in page
    assert report.others(report.runs_of(studies / "minilm-sst2-others.yaml", store)) in page
    assert report.constants(json.loads(report.CONSTANTS.read_text())) in report.OWN.read_text()


@pytest.fixture(scope="module")
def page_speed() -> ModuleType:
    """Return benchmarks/page_speed.py as a module."""
    pytest.importorskip("playwright.sync_api")
    return script("benchmarks/page_speed.py")


def test_the_stored_page_speed_is_told_as_it_is(page_speed: ModuleType) -> None:
    stored = ROOT / "benchmarks" / "results" / "page_speed.json"
    result = json.loads(stored.read_text())
    rows = {row["what"]: row for row in result["rows"]}
    measured = [what.removeprefix("switch to ") for what in rows if what.startswith("switch to ")]
    assert measured and set(measured) <= set(page_speed.PAGES), "a page of the result is gone; measure again"
    assert result["runs"] >= 20 and rows[page_speed.LATER]["n"] >= 3 * len(measured)
    assert rows[page_speed.LATER]["times_bare"] <= page_speed.SWITCH == rows[page_speed.LATER]["target"]
    assert page_speed.table(result) in (ROOT / "benchmarks" / "README.md").read_text(), "README.md shows another result"


def test_percentiles_and_multiples_of_the_bare_app(page_speed: ModuleType) -> None:
    row = page_speed.row_of("switch to runs", [0.1, 0.2, 0.3, 0.4, 0.5], 0.1)
    assert row == {"what": "switch to runs", "n": 5, "median": 0.3, "p95": 0.48, "times_bare": 3.0, "target": None}
    assert page_speed.said(row) == ""
    assert [page_speed.said(row | {"target": target}) for target in (3.0, 2.9)] == ["3, met", "2.9, missed"]


@pytest.fixture(scope="module")
def visitors() -> ModuleType:
    """Return benchmarks/visitors.py as a module."""
    pytest.importorskip("playwright.async_api")
    return importlib.import_module("benchmarks.visitors")


def test_the_stored_visitors_are_told_as_they_are(visitors: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "visitors.json").read_text())
    assert visitors.table(result) in (ROOT / "benchmarks" / "README.md").read_text(), "README.md shows another result"
    assert [row["errors"] for row in (*result["busy"], *result["class"]["rows"])] == [[]] * 5


def test_the_slope_of_memory_is_that_of_the_second_half(visitors: ModuleType) -> None:
    full = [(float(second), 2**20 * (100 + 10 * min(second, 60))) for second in range(121)]  # grows, then constant
    assert visitors.slope(full) == 0
    assert visitors.slope([(second, size + 2**20 * second / 12) for second, size in full]) == 5.0
    assert visitors.slope(full[:10]) is None and visitors.said(None, 1) == "not measured"


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_visitor_gets_pages_and_notes_their_errors(visitors: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for name, text in visitors.BARE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pages" / "two.py").write_text("raise ValueError('planted')")
    with visitors.Server(tmp_path, tmp_path) as server, ThreadPoolExecutor(1) as apart:  # outside Playwright's loop
        good = apart.submit(visitors.of_turn, server, ["zero", "one"], [""], 1).result()
        bad = apart.submit(visitors.of_turn, server, ["two"], [""], 1).result()
    assert len(good["seconds"]) >= visitors.BUSY and good["errors"] == [] and good["processor"] > 0
    assert len(bad["errors"]) == len(bad["seconds"]) and "planted" in bad["errors"][0]
