"""Tests that the first figure of a page starts within 330 pixels at 1440x900, and is in view at 1280x720."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from skillviz.runs.store import Store
from skillviz.show.briefs import RunBrief, brief_of
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import TABLES
from skillviz.studies.store import studies_in
from skillviz.tasks.project import PROJECT
from skillviz.ui import study_choice
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.compare import MOST, short_names, to_begin_with
from tests.e2e.conftest import served, settle
from tests.scripts import script

pytestmark = pytest.mark.e2e

Visit = Callable[..., Any]
SHIPPED = Store(PROJECT / "cached_runs")
HIGHEST = 330  # pixels from the top of the page, at 1440x900
LEAST = 150  # visible pixels of it, at 1280x720
MEASURE = script("docs/screenshots.py").MEASURE
IS_DRAWN = script("docs/screenshots.py").IS_DRAWN


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a dashboard with only the shipped runs."""
    with served(tmp_path_factory.mktemp("none"), tmp_path_factory.mktemp("log")) as address:
        yield address


@pytest.fixture(scope="module")
def briefs() -> list[RunBrief]:
    return [brief_of(run, is_of_user=False) for run in SHIPPED.list()]


def too_low(visit: Visit, address: str, links: list[str]) -> list[str]:
    """Return the links whose first figure starts too low, with the pixels at 1440x900 and 1280x720."""
    page, low = visit(address), []
    for link in links:
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(f"{address}/{link}")
        settle(page)
        page.locator(".js-plotly-plot").first.wait_for()
        page.wait_for_function(IS_DRAWN)
        settle(page)
        wide = page.evaluate(MEASURE)["figure"]
        page.set_viewport_size({"width": 1280, "height": 720})
        settle(page)
        small = page.evaluate(MEASURE)["figure"]
        if wide > HIGHEST or small > 720 - LEAST:
            low.append(f"{link}: {wide}, {small}")
    return low


@pytest.mark.nightly
def test_of_every_study_that_methods_offer(shipped: str, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.ui.cache.studies", lambda: studies_in(SHIPPED))
    studies = study_choice.offered(PAGES["methods"].experiments, PAGES["methods"].takes_boards)
    assert studies
    assert not too_low(visit, shipped, [f"methods?study={study.name}" for study in studies])


@pytest.mark.nightly
def test_of_two_to_six_compared_runs_however_long_their_names(
    shipped: str, visit: Visit, briefs: list[RunBrief]
) -> None:
    pairs = [list(of_pair) for _, of_pair in groupby(sorted(briefs, key=lambda e: e.pair), key=lambda e: e.pair)]
    most = [pair[:MOST] for pair in pairs if len(pair) >= MOST]
    longest = max(most, key=lambda of_pair: len("".join(short_names(of_pair))))
    apart = [pairs[0][0], pairs[-1][0]]
    chosen = [",".join(brief.id for brief in runs) for runs in (longest, apart)]
    learned = next(brief for brief in briefs if brief.localizer == "learned")
    assert len(longest) == MOST and len(to_begin_with(briefs, learned)) > 1
    links = ["compare", *(f"compare?{urlencode({'runs': runs})}" for runs in chosen), f"compare?run={learned.id}"]
    assert not too_low(visit, shipped, links)


@pytest.mark.nightly
def test_of_every_measured_experiment_whose_claim_is_open(shipped: str, visit: Visit) -> None:
    measured = {study.record.experiment for study in studies_in(SHIPPED)}
    claims = [name for name, row in EXPERIMENTS.items() if row.claims and name in measured]
    links = [f"paper?item={name}" for name in (*claims, *(name for name in TABLES if name not in EXPERIMENTS))]
    assert not too_low(visit, shipped, links)


@pytest.mark.nightly
def test_of_every_study_in_the_reader(shipped: str, visit: Visit) -> None:
    assert not too_low(visit, shipped, [f"studies?view=study&study={study.name}" for study in studies_in(SHIPPED)])


@pytest.mark.nightly
def test_of_home_tasks_and_continual(shipped: str, visit: Visit) -> None:
    assert not too_low(visit, shipped, ["", "tasks", "continual"])
