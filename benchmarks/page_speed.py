"""Measure the dashboard's speed on stored runs: the first figure on a fresh server, and a switch of the page.

    python benchmarks/page_speed.py [--runs 20] [--servers 5] [--rounds 5] [--out benchmarks]

A copy of the project is served with the tables of the studies and the first `--runs` shipped runs that have a ranking,
and driven by headless Chromium. Times are measured in the page itself, from the navigation or the click to the first
frame with a figure of the new page. In the same browser a bare Streamlit app with pages of one small figure takes
turns: it gives the least cost of a switch. A page that runs the models does so after its first figure, or never. Writes
page_speed.json, and the table into README.md beside this file. Needs the packages of deploy/requirements-dev.txt and a
Chromium on the path.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from benchmarks.machine import machine, written
from skillviz.runs.run import RANKING
from skillviz.runs.store import Store
from skillviz.tasks.uploaded import Upload, rows_of
from skillviz.ui.page_table import HOME, PAGES
from tests.e2e.server import PATIENCE, served, settle

UPLOADED = (60, 1_000)
"""The numbers of rows of the timed uploads."""
FIRST_FIGURE, SWITCH = 1.3, 2.0
"""Targets as multiples of the bare app's median: the first figure, and a page switch to the figure."""
NAME = "page_speed"
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
def project_of(runs: list[Path]) -> Iterator[Path]:
    """Yield a copy of the dashboard's files, with these runs as the shipped ones, and no runs of a user's own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("skillviz", "pages", ".streamlit", "examples"):
            if (PROJECT / name).is_dir():
                shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("dashboard.py", "pyproject.toml"):
            shutil.copy(PROJECT / name, folder / name)
        for run in runs:
            shutil.copytree(run, folder / "cached_runs" / run.name)
        shutil.copytree(PROJECT / "cached_runs" / "studies", folder / "cached_runs" / "studies")
        yield folder


def first_figures(browser: Browser, project: Path, servers: int) -> dict[str, list[float]]:
    """Return seconds to the first figure by row: for the first visitor of a fresh server, and for the second."""
    found: dict[str, list[float]] = {}
    for _ in range(servers):
        for name in OPENED:
            with bare() if name == "zero" else dashboard(project) as address:
                for visitor in VISITORS:
                    context = browser.new_context(viewport={"width": 1440, "height": 900})
                    page = context.new_page()
                    page.goto(f"{address}/{name if name != 'zero' else ''}", wait_until="commit")
                    found.setdefault(f"first figure, {OPENED[name]}, {visitor} visitor", []).append(
                        page.evaluate(FIRST_DRAWN)
                    )
                    context.close()
    return found


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


@contextmanager
def dashboard(project: Path) -> Iterator[str]:
    """Yield the address of the copy's dashboard, with its shipped runs alone."""
    with served(project, more={"SKILLVIZ_RUNS": str(project / "own")}) as address:
        yield address


@contextmanager
def bare() -> Iterator[str]:
    """Yield the address of the bare app."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "pages").mkdir()
        for name, text in BARE.items():
            (Path(place) / name).write_text(text)
        with served(Path(place)) as address:
            yield address


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
    there, shipped = machine(), Store(PROJECT / "cached_runs").list()
    ranked = [run for run in shipped if RANKING in run.files][:runs]  # studies' runs ship without rankings
    stored = [run.path for run in ranked]
    shown = next(run for run in ranked if run.spec.interpolation and run.record.transfers)  # every page has its figure
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, project_of(stored) as project:
        browser = playwright.chromium.launch(executable_path=chromium)
        first = first_figures(browser, project, servers)
        with dashboard(project) as address, bare() as least:
            plain, page = opened(browser, least), opened(browser, f"{address}/overview?run={shown.id}")
            names, titles = list(PAGES), {name: entry.question for name, entry in PAGES.items()}
            new, found, lowest = switches(page, names, titles), [], []
            for _ in range(rounds):
                found += switches(page, names, titles)
                for _ in range(3):
                    lowest += switches(plain, ["two", "one"], {"one": "one", "two": "two"})
        browser.close()
    limit = float(np.median([row["seconds"] for row in lowest]))
    opening = {
        visitor: float(np.median(first[f"first figure, {OPENED['zero']}, {visitor} visitor"])) for visitor in VISITORS
    }
    pages = [row_of(name, [row["seconds"] for row in found if row["page"] == name], limit) for name in PAGES]
    rows = [
        *(row_of(name, seconds, opening[name.split()[-2]], FIRST_FIGURE) for name, seconds in first.items()),
        row_of(HEADING, [row["heading"] for row in found], limit),
        row_of(FIRST, [row["seconds"] for row in new], limit),
        row_of(LATER, [row["seconds"] for row in found], limit, SWITCH),
        *({**row, "what": f"switch to {row['what']}"} for row in pages),
        row_of("page switch, bare app", [row["seconds"] for row in lowest], limit),
    ]
    return {"runs": len(stored), "machine": there, "rows": rows, "uploads": [upload_of(count) for count in UPLOADED]}


def upload_of(count: int, times: int = 5) -> dict[str, Any]:
    """The median seconds for reading an upload of `count` rows, after the process that reads uploads has started."""
    lines = [
        f"a review of some words, number {number}, of a film that was long;{number % 2}" for number in range(count)
    ]
    upload, seconds = Upload("reviews.csv", "\n".join(["text;label", *lines]).encode()), []
    for _ in range(times + 1):
        begun = time.perf_counter()
        rows_of(upload)
        seconds.append(time.perf_counter() - begun)
    return {"rows": count, "median": round(float(np.median(seconds[1:])), 4)}


def said(row: dict[str, Any]) -> str:
    """Return the target, with "met" or "missed" for the median."""
    if row["target"] is None:
        return ""
    return f"{row['target']:g}, {'met' if row['times_bare'] <= row['target'] else 'missed'}"


def table(result: dict[str, Any]) -> str:
    """Return the result as a Markdown table with a line on the machine."""
    head = [
        "| what | n | median, s | 95th percentile, s | median / bare app | target |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows = [
        f"| {r['what']} | {r['n']} | {r['median']:.2f} | {r['p95']:.2f} | {r['times_bare']:.2f} | {said(r)} |"
        for r in result["rows"]
    ]
    m = result["machine"]
    note = (
        f"{result['runs']} stored runs; headless Chromium and the server share the machine: {m['cpu']}, "
        f"{m['cores']} cores; load at the start {m['load']}."
    )
    uploads = [f"{u['rows']:,} rows of an upload are read in {u['median']:.2f} s." for u in result.get("uploads", ())]
    return "\n".join([*head, *rows, "", " ".join([note, *uploads]), ""])


def main() -> None:
    """Measure, print the table, and write it as JSON and into README.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--servers", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    result = measure(given.runs, given.servers, given.rounds)
    written(NAME, result, table(result), given.out)
    print(table(result))


if __name__ == "__main__":
    main()
