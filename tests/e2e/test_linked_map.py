"""Test that a chosen part marks its sentences and a chosen sentence its parts, in the browser alone and soon."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from skillviz.analysis.part_marks import part_marks
from skillviz.core.region_parts import CELLS, WITHOUT
from skillviz.runs.part_scores import stored_parts
from skillviz.runs.store import library
from skillviz.show.part_marks import LEAST, linked_map
from skillviz.ui.linked_map import CHOICE
from tests.e2e.accessibility import findings
from tests.e2e.conftest import Visit, settle
from tests.small_world import opening_run

SOON = 1000  # milliseconds; 100 are wanted, a shared machine can be slow

# Count the script runs of the page from now on.
COUNT = """() => { window.runs = 0; new MutationObserver(() => window.runs++).observe(
  document.querySelector("[data-testid=stApp]"), {attributeFilter: ["data-test-script-state"]}); }"""
# Click an element, and return the milliseconds until the page with its marks is laid out.
CLICK = "button => { const at = performance.now(); button.click(); button.offsetTop; return performance.now() - at; }"
MARKS = ".linked li.better .mark, .linked li.worse .mark"


def wanted() -> dict[str, Any]:
    run = opening_run()
    scores, task = stored_parts(library(None), run, CELLS), run.record.task
    assert scores is not None and task is not None
    marks = part_marks(scores.predictions(), task, WITHOUT, LEAST[0])
    return linked_map(marks, WITHOUT, CELLS, run.labels, {}, "light").data


def points(page: Any, selector: str) -> list[str]:
    """Return the changes in the text of elements: `+12.3`."""
    return [text.removesuffix(" points").split()[-1] for text in page.locator(selector).all_inner_texts()]


def test_a_part_marks_its_sentences_and_a_sentence_its_parts(address: str, run_id: str, visit: Visit) -> None:
    page, data = visit(f"{address}/region?run={run_id}&condition={WITHOUT}"), wanted()
    page.locator(".linked li").first.wait_for()
    settle(page)
    page.evaluate(COUNT)
    number, part = max(enumerate(data["parts"]), key=lambda one: len(one[1]["marks"]))
    cell = page.locator(".linked td button").nth(number)
    assert page.locator(MARKS).count() == 0
    took = [cell.evaluate(CLICK)]
    assert sorted(points(page, MARKS)) == sorted(mark[0] for mark in part["marks"].values())
    assert page.locator(".linked [role=status]").inner_text() == part["says"]
    assert chosen(page) == [part["key"]]

    place = int(next(iter(part["marks"])))
    named = page.locator(".linked li", has_text=data["sentences"][place]["facts"])
    took.append(named.first.locator("button").evaluate(CLICK))
    key = chosen(page)[0]
    at = [one["key"] for one in data["sentences"]].index(key)
    theirs = [one["marks"][str(at)][0] for one in data["parts"] if str(at) in one["marks"]]
    assert points(page, ".linked td button:is(.better, .worse)") == theirs

    page.keyboard.press("Escape")  # the button is not focused: a click by a script moves no focus
    cell.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert [one["name"] for one in data["parts"] if one["key"] in chosen(page)] != [part["name"]]
    page.keyboard.press("Escape")
    assert (chosen(page), page.evaluate("window.runs")) == ([], 0)
    print(f"a click marks within {max(took):.1f} ms")
    assert max(took) < SOON
    assert [one for one in findings(page) if one.is_ours] == []

    cell.click()
    page.reload()
    settle(page)
    page.locator(MARKS).first.wait_for()
    assert chosen(page) == [part["key"]] and page.locator(MARKS).count() == len(part["marks"])


def chosen(page: Any) -> list[str]:
    """Return the choice in the address."""
    return parse_qs(urlsplit(page.url).query).get(CHOICE, [])
