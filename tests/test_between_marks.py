"""Tests of tables between the marks of a page: other text is unchanged, also on a page without marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.frame import fill
from skillviz.errors import BadInput

PAGE = "Above.\n\n<!-- one: written by it -->\nold\nolder\n<!-- end of one -->\n\nBelow.\n"


def test_only_what_is_between_the_marks_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    fill(page, {"one": ["new", "line"]}, "it")
    assert page.read_text() == PAGE.replace("old\nolder", "new\nline")
    fill(page, {"one": ["new", "line"]}, "it")
    assert page.read_text() == PAGE.replace("old\nolder", "new\nline")


@pytest.mark.parametrize("name", ["two", "three"])
def test_a_page_without_the_mark_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE + "<!-- three: written by it -->\n")
    before = page.read_text()
    with pytest.raises(BadInput, match=rf"page.md has no marks for '{name}'. Add <!-- {name}: written by it -->"):
        fill(page, {"one": ["new"], name: ["new"]}, "it")
    assert page.read_text() == before
