"""Tests of exports: a copied link opens the same view elsewhere and later; a chart is a picture, a run is a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from skillviz.runs.store import Store
from skillviz.show.report.page import report
from tests.e2e.conftest import PATIENCE, settle
from tests.e2e.test_dashboard import expect, query

pytestmark = pytest.mark.e2e

Made = tuple[Path, dict[str, str]]
Serve, Visit = Callable[[Path], str], Callable[..., Any]


def links(ids: dict[str, str]) -> dict[str, tuple[dict[str, str], str]]:
    """Return for each page choices that are not its defaults, and words that appear only with them."""
    run = {"run": ids["stagewise0"]}
    runs = f"{ids['random']},{ids['movement']}"
    return {
        "region": ({**run, "cell": "1 · MLP in", "lines": "column"}, "Fullest columns"),
        "sparsity": ({**run, "metric": "nll"}, "NLL by region size"),
        "calibration": (
            {**run, "split": "validation", "bins": "7", "kind": "mass", "scaled": "no", "pretrained": "yes"},
            "with 7 bins of equal mass on 60 examples",
        ),
        "compare": ({"runs": runs, "baseline": ids["movement"], "metric": "ece"}, "vs top movement."),
        "runs": (
            {"search": "sst2", "localizers": "movement,random", "from": "you", "chosen": ids["random"]},
            "on 1 task",
        ),
    }


@pytest.mark.nightly
def test_links_with_choices_open_the_same_view_on_a_fresh_server(made: Made, serve: Serve, visit: Visit) -> None:
    root, ids = made
    address = serve(root)
    for name, (choices, said) in links(ids).items():
        page = visit(f"{address}/{name}?{urlencode(choices)}")
        page.get_by_text(said).first.wait_for()
        expect(page, f"/{name}", **choices)
        if name == "runs":
            assert page.get_by_label("Search").first.input_value() == "sst2"
        page.context.close()


@pytest.mark.nightly
def test_what_is_chosen_in_one_browser_is_seen_in_another(made: Made, address: str, visit: Visit) -> None:
    ids = made[1]
    page = visit(f"{address}/compare?run={ids['stagewise0']}")
    page.get_by_role("button", name="Quick sets").click()
    page.get_by_role("button", name="All seeds of stagewise").click()
    expect(page, runs=f"{ids['stagewise0']},{ids['stagewise1']}")
    settle(page)
    copy = visit(page.url)
    copy.get_by_text("stagewise, seed 0").first.wait_for()
    expect(copy, **query(page))


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_read_without_a_network(scheme: str, made: Made, browser: Any, tmp_path: Path) -> None:
    root, ids = made
    run = Store(root).open(ids["stagewise0"])
    path = tmp_path / "report.html"
    path.write_bytes(report(run, Store(root).list()))
    context = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme, offline=True)
    page, asked, problems = context.new_page(), [], []
    page.set_default_timeout(PATIENCE)
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    figures = page.locator("[data-figure]").count()
    assert figures > 15 and page.locator(".js-plotly-plot .main-svg").count() >= figures
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    ink = page.locator(".js-plotly-plot text").first.evaluate("text => getComputedStyle(text).fill")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    paper = page.locator(".js-plotly-plot text").first.evaluate("text => getComputedStyle(text).fill")
    assert (ink == paper) == (scheme == "light")
    assert page.locator(".js-plotly-plot .main-svg").first.bounding_box()["width"] == 660
    context.close()
    assert not problems and all(url.startswith(("file:", "data:", "blob:")) for url in asked)
