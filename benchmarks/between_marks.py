"""Write tables into a page, each between two marks; text outside the marks is written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from skillviz.errors import BadInput


def fill(page: Path, tables: Mapping[str, Sequence[str]], command: str) -> None:
    """Write each table's lines between its marks; raises BadInput if a mark is missing, and then changes nothing."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: written by {command} -->", f"<!-- end of {name} -->"
        before, mark, rest = text.partition(begin)
        if not mark or end not in rest:
            raise BadInput(f"{page.name} has no marks for '{name}'. Add {begin} and {end}.")
        text = "\n".join((before + begin, *lines, end + rest.partition(end)[2]))
    page.write_text(text, encoding="utf-8")
