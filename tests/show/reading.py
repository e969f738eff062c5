"""Parse a report: elements, links, words and the content of its scripts."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class Read(HTMLParser):
    """A parsed report.

    `elements` are (tag, attributes) in order, `words` the text outside scripts and styles, `scripts` their texts.
    """

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in {"meta", "br", "hr", "img", "link", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing that is open"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif not self.open or self.open[-1] != "style":
            self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def figures(self) -> list[dict[str, Any]]:
        return json.loads(next(text for attributes, text in self.scripts if attributes.get("id") == "figures"))


def read(page: bytes) -> Read:
    """Parse the report, and check that every element is closed."""
    found = Read()
    found.feed(page.decode("utf-8"))
    found.close()
    assert found.open == []
    return found
