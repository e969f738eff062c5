"""Measure the dashboard's speed on stored runs: the first figure on a fresh server, and a switch of the page.

    python -m benchmarks page-speed [--runs 20] [--servers 5] [--rounds 5] [--results FOLDER]

A copy of the project is served with the tables of the studies and the first `--runs` shipped runs that have a ranking,
and driven by headless Chromium. Times are measured in the page itself, from the navigation or the click to the first
frame with a figure of the new page. In the same browser a bare Streamlit app with pages of one small figure takes
turns: it gives the least cost of a switch. A page that runs the models does so after its first figure, or never. Needs
the packages of deploy/requirements-dev.txt and a Chromium on the path.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.frame import RESULTS, ROOT, machine, store, verdict
from skillviz.core.formats import markdown_table
from skillviz.runs.run import RANKING
from skillviz.runs.store import Store
from skillviz.ui.page_table import HOME, PAGES
from tests.e2e.server import PATIENCE, served, settle

FIRST_FIGURE, SWITCH = 1.3, 2.0
"""Targets as multiples of the bare app's median: the first figure, and a page switch to the figure."""
CARRIED = ("skillviz", "pages", ".streamlit", "examples", "cached_runs/studies", "dashboard.py", "pyproject.toml")
"""The files of the project that the measured server has, beside its runs."""
BARE = {
    "dashboard.py": """\
import streamlit as st
st.navigation([st.Page(f"pages/{name}.py") for name in ("zero", "one", "two")]).run()
""",
    "pages/one.py": """\
import plotly.graph_objects as go
import streamlit as st
st.title("one")
st.plotly_chart(go.Figure(go.Scatter(y=[1, 2, 3])))
""",
}
BARE |= {f"pages/{name}.py": BARE["pages/one.py"].replace("one", name) for name in ("zero", "two")}
# Seconds from now until the page has this heading, and until a new figure is drawn under it. An element of an earlier
# figure may be reused for another, so the layout drawn in it is compared.
UNTIL_DRAWN = """
([title, needed]) => new Promise((done, failed) => {
  const begun = performance.now(), old = new Map();
  document.querySelectorAll('.js-plotly-plot').forEach(plot => old.set(plot, plot.layout));
  const since = () => (performance.now() - begun) / 1000;
  let headed = null;
  const look = () => {
    const head = document.querySelector('h1');
    const fresh = [...document.querySelectorAll('.js-plotly-plot')].some(
      plot => old.get(plot) !== plot.layout && plot.querySelector('.main-svg') && !plot.closest('[data-stale="true"]'));
    const there = head && head.innerText.trim() === title && !head.closest('[data-stale="true"]');
    if (there && headed === null) headed = since();
    if (there && (fresh || !needed)) requestAnimationFrame(() => done([headed, since()]));
    else if (performance.now() - begun > 30000) failed(new Error('nothing new is drawn under ' + title));
    else requestAnimationFrame(look);
  };
  document.querySelectorAll('[data-testid="stSidebarNav"] a').forEach(link => {
    if (link.pathname === CLICKED) link.click();
  });
  look();
})
"""
# Seconds since the navigation began, at the first frame with a figure.
FIRST_DRAWN = """
() => new Promise(done => {
  const look = () => document.querySelector('.js-plotly-plot .main-svg')
    ? requestAnimationFrame(() => done(performance.now() / 1000)) : requestAnimationFrame(look);
  look();
})
"""


@contextmanager
def dashboard(runs: Sequence[Path]) -> Iterator[Path]:
    """Yield a copy of the dashboard's files, with these runs as the shipped ones, and no runs of a user's own."""
    with tempfile.TemporaryDirectory() as place:
        for name in CARRIED:
            one, other = ROOT / name, Path(place) / name
            other.parent.mkdir(exist_ok=True)
            if one.is_dir():
                shutil.copytree(one, other, ignore=shutil.ignore_patterns("__pycache__"))
            elif one.is_file():
                shutil.copy(one, other)
        for run in runs:
            shutil.copytree(run, Path(place, "cached_runs", run.name))
        yield Path(place)


@contextmanager
def bare() -> Iterator[Path]:
    """Yield the folder of the bare app."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "pages").mkdir()
        for name, text in BARE.items():
            (Path(place) / name).write_text(text)
        yield Path(place)


def first_figures(browser: Browser, project: Path, least: Path, servers: int) -> dict[str, list[float]]:
    """Return seconds to the first figure by row: for the first visitor of a fresh server, and for the second."""
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(servers):
        for name, title in OPENED.items():
            with served(least if name == "zero" else project, more=own(project)) as address:
                for visitor in VISITORS:
                    page = browser.new_page(viewport={"width": 1440, "height": 900})
                    page.goto(f"{address}/{name if name != 'zero' else ''}", wait_until="commit")
                    found[f"first figure, {title}, {visitor} visitor"].append(page.evaluate(FIRST_DRAWN))
                    page.close()
    return found


def own(project: Path) -> dict[str, str]:
    """Return the variable that names a user's own runs: a folder that is empty."""
    return {"SKILLVIZ_RUNS": str(project / "own")}


def switches(page: Page, names: list[str], titles: dict[str, str]) -> list[dict[str, Any]]:
    """One row per switch through these pages: the page, and the seconds to its heading and to its first figure."""
    rows = []
    for name in names:
        script = UNTIL_DRAWN.replace("CLICKED", json.dumps("/" if name == HOME else f"/{name}"))
        heading, figure = page.evaluate(script, [titles[name], name not in WITHOUT_FIGURE])
        settle(page)
        rows.append({"page": name, "heading": round(heading, 3), "seconds": round(figure, 3)})
    return rows


VISITORS = ("first", "second")
OPENED = {"": "the bare address", "overview": "the overview", "zero": "a bare Streamlit app"}
FIRST = "page switch to the figure, first visit of the page on this server"
LATER = "page switch to the figure, later visits"
HEADING = "page switch to the heading, later visits"
WITHOUT_FIGURE = ("runs", "launch", "jobs", "studies", "paper")
"""Pages that show a table or a form; for them the heading counts."""


def opened(browser: Browser, address: str) -> Page:
    """Return a page at this address, drawn."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    settle(page)
    return page


def row_of(name: str, seconds: list[float], least: float, target: float | None = None) -> dict[str, Any]:
    """Return median and 95th percentile of the seconds, the median as a multiple of the bare app's, and the target."""
    middle, late = np.quantile(seconds, [0.5, 0.95])
    return {
        "what": name, "n": len(seconds), "median": round(float(middle), 3), "p95": round(float(late), 3),
        "times_bare": round(float(middle) / least, 2), "target": target,
    }  # fmt: skip


def measure(runs: int, servers: int, rounds: int) -> dict[str, Any]:
    """Return all measurements, with the machine."""
    there, shipped = machine(), Store(ROOT / "cached_runs").list()
    ranked = [run for run in shipped if RANKING in run.files][:runs]  # studies' runs ship without rankings
    shown = next(run for run in ranked if run.spec.interpolation and run.record.transfers)  # every page has its figure
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    folders = [run.path for run in ranked if run.path.is_dir()]  # packed runs come with their studies
    with sync_playwright() as playwright, dashboard(folders) as project, bare() as least:
        browser = playwright.chromium.launch(executable_path=chromium)
        first = first_figures(browser, project, least, servers)
        with served(project, more=own(project)) as address, served(least) as other:
            plain, page = opened(browser, other), opened(browser, f"{address}/overview?run={shown.id}")
            names, titles = list(PAGES), {name: entry.question for name, entry in PAGES.items()}
            new, found, lowest = switches(page, names, titles), [], []
            for _ in range(rounds):
                found += switches(page, names, titles)
                for _ in range(3):
                    lowest += switches(plain, ["two", "one"], {"one": "one", "two": "two"})
        browser.close()
    limit = float(np.median([row["seconds"] for row in lowest]))
    opening = {who: float(np.median(first[f"first figure, {OPENED['zero']}, {who} visitor"])) for who in VISITORS}
    pages = {name: [row["seconds"] for row in found if row["page"] == name] for name in PAGES}
    rows = [
        *(row_of(name, seconds, opening[name.split()[-2]], FIRST_FIGURE) for name, seconds in first.items()),
        row_of(HEADING, [row["heading"] for row in found], limit),
        row_of(FIRST, [row["seconds"] for row in new], limit),
        row_of(LATER, [row["seconds"] for row in found], limit, SWITCH),
        *(row_of(f"switch to {name}", seconds, limit) for name, seconds in pages.items()),
        row_of("page switch, bare app", [row["seconds"] for row in lowest], limit),
    ]
    return {"runs": len(ranked), "machine": there, "rows": rows}


def table(result: dict[str, Any]) -> list[str]:
    """Return the result as a Markdown table with a line on the machine."""
    m = result["machine"]
    return [*markdown_table(("what", "n", "median, s", "95th percentile, s", "median / bare app", "target"), (
        (row["what"], str(row["n"]), *(f"{row[name]:.2f}" for name in ("median", "p95", "times_bare")),
         verdict(row["times_bare"], row["target"]) if row["target"] else "")
        for row in result["rows"]
    )), "", f"{result['runs']} stored runs; headless Chromium and the server share the machine: {m['cpu']}, "
        f"{m['cores']} cores; load at the start {m['load']}."]  # fmt: skip


def main(runs: int = 20, servers: int = 5, rounds: int = 5, results: Path = RESULTS) -> None:
    """Measure the dashboard's speed on stored runs: the first figure on a fresh server, and a switch of the page."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    result = measure(runs, servers, rounds)
    store("page-speed", result, table(result), results)
