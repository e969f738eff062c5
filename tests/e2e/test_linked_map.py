"""Test that a chosen part marks its sentences and a chosen sentence its parts, in the browser alone and soon."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from skillviz.analysis.part_effects import part_marks
from skillviz.core.region_parts import CELLS, WITHOUT
from skillviz.runs.part_scores import stored_parts
from skillviz.runs.store import library
from skillviz.show.part_effects import LEAST, linked_map
from skillviz.ui.linked_map import CHOICE
from tests.e2e.accessibility import findings
from tests.e2e.conftest import Visit, settle
from tests.small_world import opening_run

# Count the script runs of the page from now on.
COUNT = """() => { window.runs = 0; new MutationObserver(() => window.runs++).observe(
  document.querySelector("[data-testid=stApp]"), {attributeFilter: ["data-test-script-state"]}); }"""
# Click an element, and return the milliseconds until the page with its marks is laid out.
CLICK = "button => { const at = performance.now(); button.click(); button.offsetTop; return performance.now() - at; }"
MARKS = ".linked li:is(.better, .worse) .mark"


def points(page: Any, selector: str) -> list[str]:
    """Return the changes in the text of elements: `+12.3`."""
    return [text.removesuffix(" points").split()[-1] for text in page.locator(selector).all_inner_texts()]


def chosen(page: Any) -> list[str]:
    """Return the choice in the address."""
    return parse_qs(urlsplit(page.evaluate("location.href")).query).get(CHOICE, [])


def test_a_part_marks_its_sentences_and_a_sentence_its_parts(address: str, run_id: str, visit: Visit) -> None:
    run, scores = opening_run(), stored_parts(library(None), opening_run(), CELLS)
    assert scores is not None and run.record.task is not None
    marks = part_marks(scores.predictions(), run.record.task, WITHOUT, LEAST[0])
    data = linked_map(marks, WITHOUT, CELLS, run.labels, {}, "light")[1]
    page = visit(f"{address}/region?run={run_id}&condition={WITHOUT}")
    page.locator(".linked li").first.wait_for()
    settle(page)
    page.evaluate(COUNT)
    number, part = max(enumerate(data["parts"]), key=lambda one: len(one[1]["marks"]))
    cell = page.locator(".linked td button").nth(number)
    assert page.locator(MARKS).count() == 0
    took = cell.evaluate(CLICK)
    assert sorted(points(page, MARKS)) == sorted(mark[0] for mark in part["marks"].values())
    assert page.locator(".linked [role=status]").inner_text() == part["says"] and chosen(page) == [part["key"]]
    took = max(took, page.locator(".linked li button").first.evaluate(CLICK))
    at = str([one["key"] for one in data["sentences"]].index(*chosen(page)))
    theirs = [one["marks"][at][0] for one in data["parts"] if at in one["marks"]]
    assert points(page, ".linked td button:is(.better, .worse)") == theirs
    print(f"a click marks within {took:.1f} ms")
    assert took < 1000  # 100 are wanted, and a shared machine can be slow

    cell.focus()
    for key in ("Enter", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert chosen(page)[0] in {one["key"] for one in data["parts"]} - {part["key"]}
    page.keyboard.press("Escape")
    assert (chosen(page), page.evaluate("window.runs")) == ([], 0)
    assert [one for one in findings(page) if one.is_ours] == []
    cell.click()
    page.get_by_text("5 points", exact=True).click()  # the choice outlasts a rerun with other marks, and a reload
    page.get_by_text("1 point", exact=True).click()
    settle(page)
    page.reload()
    page.locator(MARKS).first.wait_for()
    assert chosen(page) == [part["key"]] and page.locator(MARKS).count() == len(part["marks"])
