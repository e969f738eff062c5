"""Tests of flows on a run's pages, and of exports: a copied link opens the same view elsewhere, a report is a file."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from skillviz.show.report.page import report
from skillviz.ui.page_table import PAGES
from tests.e2e.conftest import LONG, PATIENCE, Made, Serve, Visit, settle
from tests.e2e.test_dashboard import MENU, expect, query
from tests.live.conftest import lived
from tests.runs.tiny_world import spec_of


def test_a_region_is_compared_with_another_and_the_link_keeps_it(
    ids: dict[str, str], address: str, visit: Visit
) -> None:
    page = visit(f"{address}/region?run={ids['stagewise0']}")
    assert page.get_by_text("IoU").count() == 0
    page.get_by_label("Compare with").first.click()
    page.get_by_role("option").filter(has_text="random").first.click()
    page.get_by_text("by chance").first.wait_for()
    settle(page)
    expect(page, "/region", run=ids["stagewise0"], other=ids["random"])
    copy = visit(page.url)
    said = copy.get_by_text("by chance").first.inner_text()
    assert "IoU" in said and said == page.get_by_text("by chance").first.inner_text()


@pytest.mark.nightly
def test_a_path_is_scored_by_one_button(lived: Path, tmp_path: Path, serve: Serve, visit: Visit) -> None:
    """The run of a real tiny pair was made without scoring its path."""
    run = produce(spec_of(lived, sizes=("5%", "20%")), Store(tmp_path / "runs"))
    page = visit(f"{serve(tmp_path / 'runs')}/interpolation?run={run.id}")
    assert page.get_by_role("slider").count() == 0 and page.locator(".js-plotly-plot").count() == 0
    page.get_by_role("button", name="Score the path").click()
    page.locator(".js-plotly-plot").first.wait_for(timeout=LONG)
    settle(page)
    assert page.get_by_role("slider").count() > 0 < page.get_by_text("Computed live").count()


@pytest.mark.nightly
def test_a_result_is_presented_with_the_keyboard_alone(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/sparsity?run={made[1]['stagewise0']}")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText").strip().endswith("Present"):
            break
    page.keyboard.press("Enter")
    page.locator(MENU).first.wait_for(state="hidden")
    settle(page)
    expect(page, "/sparsity", present="yes")
    page.keyboard.press("Escape")
    page.locator(MENU).first.wait_for()
    expect(page, "/sparsity", present=None)
    page.locator("h1", has_text=PAGES["sparsity"].question).first.wait_for()


@pytest.mark.nightly
def test_links_with_choices_open_the_same_view_on_a_fresh_server(
    made: Made, ids: dict[str, str], serve: Serve, visit: Visit
) -> None:
    """Each page is opened by a link with choices that are not its defaults, and shows words that only these bring."""
    run, runs = {"run": ids["stagewise0"]}, f"{ids['random']},{ids['movement']}"
    links = {
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
    address = serve(made[0])
    for name, (choices, said) in links.items():
        page = visit(f"{address}/{name}?{urlencode(choices)}")
        page.get_by_text(said).first.wait_for()
        expect(page, f"/{name}", **choices)
        if name == "runs":
            assert page.get_by_label("Search").first.input_value() == "sst2"
        page.context.close()


@pytest.mark.nightly
def test_what_is_chosen_in_one_browser_is_seen_in_another(ids: dict[str, str], address: str, visit: Visit) -> None:
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
    store, path = Store(made[0]), tmp_path / "report.html"
    path.write_bytes(report(store.open(made[1]["stagewise0"]), store.list()))
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
    text, color = page.locator(".js-plotly-plot text").first, "text => getComputedStyle(text).fill"
    ink = text.evaluate(color)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert (ink == text.evaluate(color)) == (scheme == "light")
    assert page.locator(".js-plotly-plot .main-svg").first.bounding_box()["width"] == 660
    context.close()
    assert not problems and all(url.startswith(("file:", "data:", "blob:")) for url in asked)
