"""Tests of flows in a real browser: deep links on a new server, the menu, the picker, links, delete, empty states."""

import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from skillviz.runs.store import Store
from skillviz.ui.chart import FOLD
from skillviz.ui.page_table import HOME, PAGES
from tests.e2e.conftest import Made, Serve, Visit, go_to, served, settle, without_runs
from tests.fake_run import fake_run
from tests.small_world import opening_run

TOO_WIDE = """(() => { const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollWidth - main.clientWidth; })()"""
IS_DARK = """wanted => {
  const ground = getComputedStyle(document.querySelector("[data-testid='stApp']")).backgroundColor;
  return ground.match(/\\d+/g)[0] < 128 === wanted; }"""
MENU = "[data-testid='stSidebarNav'] a [data-testid='stMarkdownContainer']"
ROW, MARK = 32, 16  # pixels: height of a table's row, and position of its box
PHONE = {"width": 390, "height": 844}


def heading(page: Any) -> str:
    return page.locator("h1").first.inner_text()


def query(page: Any) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


def expect(page: Any, path: str | None = None, **wanted: str | None) -> None:
    """Wait until the address has this path and these values (None for absent); fail with the actual ones."""
    for _ in range(240):
        has = query(page)
        if path in (None, urlsplit(page.url).path) and all(has.get(name) == value for name, value in wanted.items()):
            return
        page.wait_for_timeout(250)
    raise AssertionError(f"wanted {path} {wanted}, the address is {page.url}")


def go(page: Any, title: str) -> None:
    page.locator(MENU, has_text=title).click()
    question = next(entry.question for entry in PAGES.values() if entry.title == title)
    page.locator("h1", has_text=question).wait_for()
    settle(page)


def pick(page: Any, label: str, option: str) -> None:
    page.get_by_label(re.compile(label)).first.click()
    page.get_by_role("option", name=option, exact=True).click()
    page.wait_for_timeout(300)
    settle(page)


def choose(page: Any, run_id: str) -> None:
    """On Runs, search for the run and check its row."""
    page.get_by_label("Search", exact=True).fill(run_id)
    page.keyboard.press("Enter")
    page.get_by_text("1 run on 1 task").or_(page.get_by_text("1 run", exact=True)).first.wait_for()
    settle(page)
    mark(page, 0)


def mark(page: Any, row: int) -> None:
    """Check the box of a row of the first table, which is high enough not to scroll."""
    before = query(page).get("chosen", "")
    table = page.get_by_test_id("stDataFrame").first
    table.wait_for()
    table.click(position={"x": MARK, "y": ROW * (row + 1.5)})
    changed(page, before)


def changed(page: Any, before: str) -> list[str]:
    """Return the chosen runs in the address, once they differ from `before`."""
    for _ in range(240):
        if (chosen := query(page).get("chosen", "")) != before:
            settle(page)
            return chosen.split(",")
        page.wait_for_timeout(250)
    raise AssertionError(f"the chosen runs are still {before!r}")


# One page for each way in which a page begins; the others are tested every night.
EACH_KIND = ("region", "runs", "launch", "tasks", "studies")


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in EACH_KIND else pytest.mark.nightly)
    for name in PAGES if name != HOME  # the bare address keeps no run
])  # fmt: skip
def test_a_deep_link_on_a_fresh_server(name: str, made: Made, ids: dict[str, str], serve: Serve, visit: Visit) -> None:
    """Regression: in a folder called pages/, a first visit runs the page's file without dashboard.py."""
    page = visit(f"{serve(made[0])}/{name}?run={ids['movement']}")
    menu = page.locator(MENU).all_inner_texts()
    assert (heading(page), menu) == (PAGES[name].question, [entry.title for entry in PAGES.values()])
    expect(page, f"/{name}", run=ids["movement"])


@pytest.mark.nightly
def test_the_menu_opens_pages_after_a_deep_link(made: Made, ids: dict[str, str], serve: Serve, visit: Visit) -> None:
    page = visit(f"{serve(made[0])}/runs?run={ids['movement']}")
    go(page, PAGES[HOME].title)
    expect(page, "/")
    for name in (*EACH_KIND, "calibration"):
        go(page, PAGES[name].title)
        expect(page, f"/{name}", run=ids["movement"])


def test_the_bare_address_opens_on_a_result_with_three_doors_and_one_with_a_run_on_it(
    made: Made, ids: dict[str, str], serve: Serve, visit: Visit, tmp_path: Path
) -> None:
    root = shutil.copytree(made[0], tmp_path / "library")
    fake_run(Store(root), sizes=("1%", "0.1%", "10%"), n={"validation": 60, "test": 600}, layers=2, width=16, steps=6)
    address = serve(root)
    page = visit(address)
    page.locator("h1", has_text=PAGES["home"].question).wait_for()
    page.locator(".js-plotly-plot").nth(1).wait_for()
    for door, name, query in (
        ("Take the tour", "tour", {"step": None}), ("Explore this run", "overview", {"run": opening_run().id}),
        ("Localize your own", "launch", {}),
    ):  # fmt: skip
        page.get_by_role("button", name=door).click()
        page.locator("h1", has_text=PAGES[name].question).wait_for()
        settle(page)
        expect(page, f"/{name}", **query)
        go(page, "Home")
    linked = visit(f"{address}/?run={ids['random']}")
    linked.locator("h1", has_text=PAGES["overview"].question).wait_for()
    expect(linked, "/overview", run=ids["random"])


def test_picking_changes_the_address_and_a_copied_link_shows_the_same(
    ids: dict[str, str], address: str, visit: Visit
) -> None:
    page = visit(f"{address}/calibration?run={ids['stagewise0']}")
    page.locator(".st-key-run-bar button").first.click()
    pick(page, "^Localizer", "random")
    expect(page, run=ids["random"])
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("radio", name="equal mass").or_(page.get_by_text("equal mass", exact=True)).first.click()
    page.get_by_text("bins of equal mass").wait_for()
    settle(page)
    expect(page, kind="mass")
    copy = visit(page.url)
    expect(copy, **query(page))
    copy.get_by_text("bins of equal mass").first.wait_for()
    bars = [shown.locator(".st-key-run-bar").inner_text().splitlines()[:-1] for shown in (page, copy)]  # no arrow
    assert bars[0] == bars[1] and "random" in " ".join(bars[0]).lower()


def test_a_frame_shows_the_figure_that_it_names_alone(made: Made, address: str, visit: Visit) -> None:
    view = f"{address}/calibration?run={made[1]['stagewise0']}"
    page = visit(view)
    page.locator("summary", has_text=FOLD).last.click()
    frame = visit(unescape(re.findall(r'src="(.+?)"', page.get_by_test_id("stCode").inner_text())[0]))
    frame.locator(".st-key-chart-risk_coverage .main-svg").first.wait_for()
    settle(frame)
    shown = [plot.is_visible() for plot in frame.locator(".js-plotly-plot").all()]
    assert (shown.count(True), frame.locator("h1").is_visible(), frame.locator(MENU).count()) == (1, False, 0)
    other = visit(f"{view}&embed=true&figure=nought")
    other.get_by_text("There is no figure 'nought' on this page; the figures here are confidence").wait_for()
    assert other.locator("h1").is_visible() and not other.locator(".st-key-run-bar").is_visible()


@pytest.mark.nightly
def test_going_back_shows_the_run_before(ids: dict[str, str], address: str, visit: Visit) -> None:
    page = visit(f"{address}/overview?run={ids['stagewise0']}")
    page.locator(".st-key-run-bar button").first.click()
    pick(page, "^Localizer", "random")
    page.go_back()
    expect(page, run=ids["stagewise0"])
    page.locator(".st-key-run-bar", has_text="stagewise").wait_for()


def test_one_step_back_is_one_act_of_the_reader(ids: dict[str, str], address: str, visit: Visit) -> None:
    """Opening a page makes one history entry, however much the page adds to its address; so does each choice on it."""
    page = visit(f"{address}/overview?run={ids['stagewise0']}")
    entries = page.evaluate("history.length")
    go(page, "Calibration")
    page.wait_for_timeout(1000)
    assert page.evaluate("history.length") == entries + 1
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("radio", name="equal mass").or_(page.get_by_text("equal mass", exact=True)).first.click()
    expect(page, "/calibration", kind="mass", run=ids["stagewise0"], bins=None)
    settle(page)
    assert page.evaluate("history.length") == entries + 2
    page.go_back()
    expect(page, "/calibration", kind=None)
    page.go_back()
    expect(page, "/overview")
    page.locator("h1", has_text=PAGES["overview"].question).wait_for()


def test_a_choice_is_kept_between_pages_that_have_the_same_control(made: Made, address: str, visit: Visit) -> None:
    """Regression: a choice that a page had taken from its link or from the page before was lost on the next page."""
    page = visit(f"{address}/compare?run={made[1]['stagewise0']}&metric=nll")
    for name in ("interpolation", "compare"):
        go(page, PAGES[name].title)
        expect(page, f"/{name}", metric="nll")
    page.go_back()
    page.locator("h1", has_text=PAGES["interpolation"].question).wait_for()
    settle(page)
    expect(page, "/interpolation", metric="nll")


@pytest.mark.nightly
def test_presenter_mode_is_entered_and_left_on_a_page_of_a_run(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/calibration?run={made[1]['stagewise0']}")
    size = "parseFloat(getComputedStyle(document.querySelector('[data-testid=stMain] p')).fontSize)"
    menu, small = page.locator(MENU).first, page.evaluate(size)
    has_keyboard = "name => document.activeElement.innerText.includes(name)"
    page.get_by_role("button", name="Present", exact=True).click()
    menu.wait_for(state="hidden")
    settle(page)
    page.wait_for_function(has_keyboard, arg="Leave presenter mode")
    expect(page, "/calibration", present="yes")
    assert page.evaluate(size) > 1.1 * small
    page.keyboard.press("Escape")
    menu.wait_for()
    expect(page, "/calibration", present=None, run=made[1]["stagewise0"])
    page.wait_for_function("document.activeElement.tagName === 'BUTTON'")
    assert page.evaluate(has_keyboard, "Present")


@pytest.mark.nightly
def test_in_presenter_mode_also_a_figure_with_cells_to_click_is_large(made: Made, address: str, visit: Visit) -> None:
    usual, large = (
        visit(f"{address}/region?run={made[1]['stagewise0']}{mode}").locator(".js-plotly-plot").first.bounding_box()
        for mode in ("", "&present=yes")
    )
    assert large["height"] > 1.3 * usual["height"]


@pytest.mark.nightly
def test_in_presenter_mode_the_first_figure_fits_a_small_projector_whole(
    made: Made, address: str, visit: Visit
) -> None:
    page = visit(f"{address}/runs")
    page.set_viewport_size({"width": 1280, "height": 720})
    for name in ("overview", "region", "sparsity", "calibration", "surgery"):
        go_to(page, f"{address}/{name}?run={made[1]['stagewise0']}&present=yes")
        figure = page.locator(".js-plotly-plot").first
        figure.locator(".main-svg").first.wait_for()
        box = figure.bounding_box()
        assert box["y"] + box["height"] <= 720, (name, box)
        heading, bar = page.locator("h1").bounding_box(), page.locator(".st-key-run-bar").bounding_box()
        assert heading["x"] + heading["width"] <= bar["x"], "the two share a line"


@pytest.mark.nightly
def test_in_presenter_mode_the_opening_fits_a_small_projector_whole(address: str, visit: Visit) -> None:
    page = visit(f"{address}/?present=yes")
    intervals = page.locator("[class*='st-key-number-'] p", has_text="95%:").filter(visible=True)
    for width, height, seen in ((1024, 768, 0), (1280, 720, 3)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            """height => { const drawn = [...document.querySelectorAll(".js-plotly-plot")].filter(one =>
            one.checkVisibility()); return window.innerHeight === height && drawn.length === 2
            && drawn.every(one => one.getBoundingClientRect().bottom <= height); }""",
            arg=height,
        )
        assert intervals.count() == seen, "a narrow room has no place for small print"
    settle(page)  # figures are drawn again when the window size is known; a click in between can be lost
    assert page.get_by_role("button", name="Take the tour").count() == 0, "the way out stands there"
    page.get_by_role("button", name="Leave presenter mode").click()
    page.get_by_role("button", name="Take the tour").wait_for()
    expect(page, "/", present=None)


BROKEN = """() => [...document.querySelectorAll("[class*='st-key-number-'] p")].flatMap(label => {
  const texts = document.createTreeWalker(label, NodeFilter.SHOW_TEXT), broken = [];
  for (let text; (text = texts.nextNode()); )
    for (const word of text.data.matchAll(/\\S*[-–]\\S*/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(word[0]);
    }
  return broken;
})"""  # hyphenated words that break over two lines


def test_a_card_breaks_no_word_at_its_hyphen(address: str, visit: Visit) -> None:
    page = visit(f"{address}/?present=yes")
    page.get_by_text("fine-").first.wait_for()
    for width in range(1100, 1500, 50):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(BROKEN) == [], width


@pytest.mark.nightly
def test_in_presenter_mode_figures_follow_the_window(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/region?run={made[1]['stagewise0']}&present=yes")
    page.set_viewport_size({"width": 1280, "height": 600})
    page.wait_for_function("document.querySelector('.js-plotly-plot')?.getBoundingClientRect().bottom <= 600")
    before = page.locator(".js-plotly-plot").first.bounding_box()["height"]
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_function(
        "least => document.querySelector('.js-plotly-plot')?.getBoundingClientRect().height > least", arg=1.2 * before
    )


@pytest.mark.nightly
def test_in_presenter_mode_compared_metrics_stand_one_under_the_other(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/compare?runs={made[1]['stagewise0']},{made[1]['movement']}&present=yes")
    figures = page.locator(".js-plotly-plot")
    first, second = (figures.nth(place).bounding_box() for place in range(2))
    assert second["y"] >= first["y"] + first["height"] and first["width"] > 800


@pytest.mark.nightly
def test_the_way_out_of_presenter_mode_lies_over_nothing_on_a_phone(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/overview?run={made[1]['stagewise0']}&present=yes")
    page.set_viewport_size(PHONE)
    way_out, *others = (place.bounding_box() for place in (
        page.get_by_role("button", name="Leave presenter mode"), page.locator("h1"), page.locator(".st-key-run-bar")
    ))  # fmt: skip
    assert way_out["y"] > others[0]["y"] and way_out["y"] > others[1]["y"] + way_out["height"]


@pytest.mark.nightly
def test_on_a_phone_all_compared_runs_are_in_sight(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/compare?runs={made[1]['stagewise0']},{made[1]['movement']}")
    page.set_viewport_size(PHONE)
    page.get_by_role("button", name="2 runs").click()
    chips = page.locator("[data-testid='stMultiSelect'] [data-tag-index]")
    chips.first.wait_for()
    box = page.get_by_test_id("stMultiSelectTagsContainer").first.bounding_box()
    for chip in (chips.nth(0).bounding_box(), chips.nth(1).bounding_box()):
        for at, size in (("x", "width"), ("y", "height")):
            assert chip[at] + chip[size] <= box[at] + box[size]


@pytest.mark.nightly
def test_on_a_phone_the_buttons_of_a_table_lie_over_nothing(address: str, visit: Visit) -> None:
    page = visit(f"{address}/runs", has_touch=True, is_mobile=True)
    page.set_viewport_size(PHONE)
    buttons = page.get_by_test_id("stElementToolbar").first
    buttons.wait_for(state="attached")
    heading = page.locator("details[open] summary").first.bounding_box()
    assert buttons.bounding_box()["y"] >= heading["y"] + heading["height"] - 1


def test_a_click_on_the_map_chooses_the_cell(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/region?run={made[1]['stagewise0']}&cell=0 · MLP in")
    figure = page.locator(".js-plotly-plot").first
    figure.scroll_into_view_if_needed()
    box = figure.locator(".nsewdrag").first.bounding_box()
    columns = figure.locator(".xtick text").count()
    page.mouse.click(box["x"] + box["width"] * 0.5 / columns, box["y"] + box["height"] * 0.75)
    expect(page, cell="1 · query")


@pytest.mark.nightly
def test_a_tap_chooses_the_cell_under_the_finger_and_not_the_one_before(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/region?run={made[1]['stagewise0']}&cell=0 · MLP in", has_touch=True, is_mobile=True)
    figure = page.locator(".js-plotly-plot").first
    columns = figure.locator(".xtick text").count()
    for share, cell in ((0.75, "1 · query"), (0.25, "0 · query")):
        figure.scroll_into_view_if_needed()
        settle(page)
        box = figure.locator(".nsewdrag").first.bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] * 0.5 / columns, box["y"] + box["height"] * share)
        expect(page, cell=cell)


@pytest.mark.nightly
def test_back_from_the_run_behind_the_door_is_home(address: str, visit: Visit) -> None:
    page = visit(f"{address}/")
    page.get_by_role("button", name="Explore this run").click()
    page.locator("h1", has_text=PAGES["overview"].question).wait_for()
    settle(page)
    page.go_back()
    page.get_by_role("button", name="Explore this run").wait_for()
    settle(page)
    expect(page, "/", run=None)


@pytest.mark.nightly
def test_the_first_choice_on_a_fresh_server_is_not_lost(
    made: Made, ids: dict[str, str], serve: Serve, visit: Visit
) -> None:
    """A run that begins without dashboard.py must not leave widgets that the next run does not know."""
    page = visit(f"{serve(made[0])}/runs")
    choose(page, ids["movement"])
    page.get_by_test_id("stBaseButton-primary").filter(has_text="Open").click()
    page.locator("h1", has_text=PAGES["overview"].question).wait_for()
    expect(page, "/overview", run=ids["movement"])


@pytest.mark.nightly
def test_delete_asks_first(made: Made, serve: Serve, visit: Visit, tmp_path: Path) -> None:
    root, gone = shutil.copytree(made[0], tmp_path / "copy"), made[1]["movement"]
    page = visit(f"{serve(root)}/runs")
    choose(page, gone)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_role("dialog").wait_for(state="hidden")
    assert (root / gone).is_dir()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete for good").click()
    page.get_by_role("dialog").wait_for(state="hidden")
    settle(page)
    assert {path.parent.name for path in root.glob("*/run.json")} == {*made[1].values()} - {gone}
    assert not (root / gone).exists()
    page.get_by_text(re.compile(r"\d+ runs? on")).first.wait_for()


@pytest.mark.nightly
def test_an_empty_store_says_what_to_do(visit: Visit, tmp_path: Path) -> None:
    with served(tmp_path / "nothing", tmp_path, without_runs(tmp_path / "project")) as address:
        page = visit(address)
        page.get_by_text("There is no run yet").wait_for()
        assert heading(page) == PAGES[HOME].question
        go(page, "Region")
        page.get_by_text("There is no run yet").wait_for()


@pytest.mark.nightly
def test_narrow_pages_do_not_scroll_sideways(address: str, visit: Visit) -> None:
    page = visit(f"{address}/overview", color_scheme="light")
    page.set_viewport_size({"width": 400, "height": 800})
    for name in PAGES:
        go_to(page, f"{address}/{name}")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(IS_DARK, arg=scheme == "dark")  # the theme follows a moment later
            settle(page)
            assert page.evaluate(TOO_WIDE) <= 1, (name, scheme)
