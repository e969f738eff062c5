"""Tests that figures are drawn once, that a page's first starts within 330 pixels at 1440x900 and shows at 1280x720."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

import pytest

from skillviz.runs.store import Store
from skillviz.show.briefs import brief_of
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import TABLES
from skillviz.studies.store import studies_in
from skillviz.tasks.project import PROJECT
from skillviz.ui import study_choice
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.compare import MOST, short_names, to_begin_with
from tests.e2e.conftest import PATIENCE, Visit, go_to, served, settle
from tests.scripts import script

# Count the full drawings of a figure: the first one, and every later one that is not skipped.
COUNT = """
window.drawings = new Map();
let Plotly;
Object.defineProperty(window, 'Plotly', {configurable: true, get: () => Plotly, set: given => {
  Plotly = given;
  const react = given.react;
  given.react = function (plot, ...rest) {
    const isFirst = !plot.on, done = react.call(this, plot, ...rest);
    if (isFirst) {
      window.drawings.set(plot, 1);
      plot.on('plotly_beforeplot', () => { window.drawings.set(plot, window.drawings.get(plot) + 1); });
    }
    return done;
  };
}});
"""


@pytest.mark.nightly
def test_each_figure_is_drawn_once(ids: dict[str, str], address: str, browser: Any) -> None:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(COUNT)
    bundles: list[str] = []
    page.on("request", lambda request: bundles.extend([request.url] if "PlotlyChart" in request.url else []))
    page.goto(f"{address}/sparsity?run={ids['stagewise0']}")
    page.wait_for_function("() => document.querySelector('.js-plotly-plot .main-svg')")
    settle(page)
    page.wait_for_timeout(500)
    drawings = page.evaluate("() => [...window.drawings.values()]")
    page.context.close()
    assert (set(drawings), len(bundles)) == ({1}, 1)


SHIPPED = Store(PROJECT / "cached_runs")
HIGHEST = 330  # pixels from the top of the page, at 1440x900
LEAST = 150  # visible pixels of it, at 1280x720
SCREENSHOTS = script("docs/screenshots.py")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a dashboard with only the shipped runs."""
    with served(tmp_path_factory.mktemp("none"), tmp_path_factory.mktemp("log")) as address:
        yield address


def too_low(visit: Visit, address: str, links: list[str]) -> list[str]:
    """Return the links whose first figure starts too low, with the pixels at 1440x900 and 1280x720."""
    page, low = visit(address), []
    for link in links:
        page.set_viewport_size({"width": 1440, "height": 900})
        go_to(page, f"{address}/{link}")
        page.locator(".js-plotly-plot").first.wait_for()
        page.wait_for_function(SCREENSHOTS.IS_DRAWN)
        settle(page)
        wide = page.evaluate(SCREENSHOTS.MEASURE)["figure"]
        page.set_viewport_size({"width": 1280, "height": 720})
        settle(page)
        small = page.evaluate(SCREENSHOTS.MEASURE)["figure"]
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
def test_of_two_to_six_compared_runs_however_long_their_names(shipped: str, visit: Visit) -> None:
    briefs = [brief_of(run, is_of_user=False) for run in SHIPPED.list()]
    pairs = [list(of_pair) for _, of_pair in groupby(sorted(briefs, key=lambda e: e.pair), key=lambda e: e.pair)]
    most = [pair[:MOST] for pair in pairs if len(pair) >= MOST]
    longest = max(most, key=lambda of_pair: len("".join(short_names(of_pair))))
    chosen = [",".join(brief.id for brief in runs) for runs in (longest, [pairs[0][0], pairs[-1][0]])]
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
