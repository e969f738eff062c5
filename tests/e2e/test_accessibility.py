"""Tests of every page, light and dark: no serious axe finding of ours, ordered headings, visible focus, a slim bar."""

import re
from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageChops

from skillviz.ui.page_table import HOME, PAGES
from tests.e2e.accessibility import findings, out_of_order
from tests.e2e.conftest import Visit, settle
from tests.e2e.test_dashboard import IS_DARK
from tests.tiers import first, in_the_night

EACH_KIND = (HOME, "examples", "launch")
"""Pages with the most common elements: figures, a map, tables, a form, a board."""
FAULTS = """<p id="planted" style="color: #A0A0A0; background: #FFFFFF">A caption that is too pale to read.</p>
<h4>A heading that skips a level</h4>"""


@pytest.mark.parametrize("name", first(PAGES, EACH_KIND.__contains__, in_the_night))
def test_no_page_has_a_serious_finding_of_ours_and_headings_are_in_order(
    name: str, address: str, run_id: str, visit: Visit
) -> None:
    """`visit` also checks that no request leaves the machine."""
    page = visit(f"{address}/" if name == HOME else f"{address}/{name}?run={run_id}", color_scheme="light")
    wrong = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(IS_DARK, arg=scheme == "dark")  # the theme follows a moment later
        page.wait_for_timeout(600)
        settle(page)
        wrong += [f"{scheme}: {finding}" for finding in findings(page) if finding.is_ours]
    assert not [*wrong, *out_of_order(page)]


def test_planted_faults_are_found(address: str, visit: Visit) -> None:
    page = visit(f"{address}/jobs", color_scheme="light")
    assert not [finding for finding in findings(page) if finding.is_ours] and not out_of_order(page)
    page.evaluate("html => document.querySelector('h1').insertAdjacentHTML('afterend', html)", FAULTS)
    (found,) = [finding for finding in findings(page) if finding.is_ours]
    assert found.rule == "color-contrast" and "planted" in found.html
    assert out_of_order(page) == ["h4 'A heading that skips a level' follows h1"]


def test_the_run_bar_is_one_slim_line_that_stays(address: str, run_id: str, visit: Visit) -> None:
    page = visit(f"{address}/calibration?run={run_id}")
    bar = page.locator(".st-key-run-bar")
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        settle(page)
        page.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
        above = bar.bounding_box()
        page.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 1200)")
        page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop > 300")
        below = bar.bounding_box()
        assert above["height"] <= 44 >= below["height"] and 0 <= below["y"] <= above["y"], (width, above, below)
        assert bar.locator("button").first.inner_text().count("·") >= 3


def looks(page: Any, box: dict[str, float]) -> Image.Image:
    """Return the picture of an area of the screen, with a margin."""
    room, size = 6, page.viewport_size
    clip = {}
    for at, length in (("x", "width"), ("y", "height")):
        clip[at] = max(box[at] - room, 0)
        clip[length] = max(min(box[at] + box[length] + room, size[length]) - clip[at], 1)
    with Image.open(BytesIO(page.screenshot(clip=clip, animations="disabled", caret="hide"))) as picture:
        return picture.convert("RGB").copy()


AT = """() => { const at = document.activeElement, box = at.getBoundingClientRect();
  return {x: box.x, y: box.y, width: box.width, height: box.height, is_end: at === document.body,
    says: `${at.tagName} ${at.getAttribute("aria-label") || at.innerText || at.className}`.slice(0, 80)}; }"""


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "scheme"), [("sparsity", "light"), ("surgery", "dark")])
def test_the_keyboards_place_is_seen_at_every_stop(
    name: str, scheme: str, address: str, run_id: str, visit: Visit
) -> None:
    """Each stop looks different with the keyboard focus on it; no stop is in Plotly's bar."""
    page, stops, unseen = visit(f"{address}/{name}?run={run_id}", color_scheme=scheme), 0, []
    page.locator(".js-plotly-plot .modebar").first.wait_for(state="attached")
    page.wait_for_timeout(1000)
    for _ in range(120):
        page.keyboard.press("Tab")
        at = page.evaluate(AT)
        if at["is_end"]:
            break
        assert not page.evaluate("Boolean(document.activeElement.closest('.modebar'))")
        page.wait_for_timeout(250)  # help that opens on focus, and transitions, are done
        with_it = looks(page, page.evaluate(AT))
        page.evaluate("window.was = document.activeElement; was.blur()")
        page.wait_for_timeout(250)
        if ImageChops.difference(with_it, looks(page, at)).getbbox() is None:
            unseen.append(at["says"])
        page.evaluate("was.focus({preventScroll: true})")
        stops += 1
    assert stops > 30 and not unseen, (stops, unseen)


STATUS = ".skillviz-status"
ON_POPOVER = "document.activeElement.closest('[data-testid=stPopoverBody]') !== null"


def enter(page: Any) -> None:
    """Press Enter, and return when the keyboard is on a popover."""
    page.keyboard.press("Enter")
    page.wait_for_function(ON_POPOVER)


def leave(page: Any, key: str, steps: int) -> None:
    """Press a key until the keyboard has left the popover, this many times at the most."""
    for _ in range(steps):
        page.keyboard.press(key)
        page.wait_for_function("document.activeElement !== document.body")
        if not page.evaluate(ON_POPOVER):
            break


def test_a_screen_reader_is_told_what_a_choice_and_a_page_changed(address: str, run_id: str, visit: Visit) -> None:
    """The status gives the finding on the page without the names of icons, and is empty on arrival."""
    page = visit(f"{address}/calibration?run={run_id}")
    page.wait_for_timeout(1500)
    status = page.locator(STATUS)
    assert status.get_attribute("role") == "status" and status.text_content() == ""
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("radio", name="validation").click()
    page.wait_for_function(f"document.querySelector('{STATUS}').textContent !== ''")
    shown = " ".join(page.locator("[data-testid=stMain]").inner_text().split())
    assert status.text_content().removeprefix("better ")[:60] in shown and "circle" not in status.text_content()
    page.keyboard.press("Escape")
    page.locator("[data-testid=stSidebarNavLink]", has_text="Runs").click()
    page.wait_for_function(f"document.querySelector('{STATUS}').textContent.startsWith('Runs. ')")


def test_a_popover_is_entered_by_keyboard_and_left_to_its_button(address: str, visit: Visit) -> None:
    page = visit(f"{address}/runs")
    download = page.get_by_role("button", name=re.compile("^Download table")).first
    download.focus()
    for key, steps in (("Tab", 8), ("Shift+Tab", 1)):
        enter(page)
        page.get_by_role("button", name="Table (CSV)").wait_for()
        leave(page, key, steps)
        assert download.evaluate("button => button === document.activeElement")
        page.keyboard.press("Escape")
        page.locator("[data-testid=stPopoverBody]").wait_for(state="hidden")
    enter(page)
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.innerText.includes('Download table')")
    assert download.evaluate("button => button === document.activeElement")


def test_a_group_of_choices_is_one_stop_of_a_popover(address: str, visit: Visit) -> None:
    """Its last choice is not selected: from the selected one, the keyboard continues to the button."""
    page = visit(f"{address}/tasks")
    settings = page.get_by_role("button", name="Settings", exact=True)
    settings.focus()
    enter(page)
    radios = page.locator("[data-testid=stPopoverBody] [role=radio]")
    assert radios.last.get_attribute("aria-checked") == "false"
    leave(page, "Tab", 12)
    assert settings.evaluate("button => button === document.activeElement")
