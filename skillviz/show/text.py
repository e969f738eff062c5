"""User-defined names and sentences prepared for a page: short, and without accidental Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

import pandas as pd

from skillviz.core.formats import MISSING, one_line
from skillviz.tasks.readable_names import readable

JOINER = "\u2060"
"""The word joiner: it has no width, and prevents a line break."""
HASH = re.compile(r"[0-9a-f]{40}")


def short_source(source: str) -> str:
    """A model's or task's name without its folders: `minilm-l6`, `org/name@1a2b3c4`, `sst2`."""
    name, _, revision = source.partition("@")
    if revision:
        return f"{short_source(name)}@{revision[:7] if HASH.fullmatch(revision) else revision}"
    parts = PurePosixPath(name.replace("\\", "/").rstrip("/")).parts
    is_hub_id = len(parts) == 2 and not name.startswith((".", "~", "/", "$"))
    last = parts[-1] if parts else name
    return name if is_hub_id else last.removesuffix(".yaml").removesuffix(".yml")


def last_part(source: str) -> str:
    """The name alone, without organization or folders: `MiniLM` for `microsoft/MiniLM`."""
    return short_source(source).rpartition("/")[2]


def short_hash(fingerprint: str) -> str:
    """The first twelve digits of a fingerprint."""
    return fingerprint[:12] if fingerprint else MISSING


def plain(text: str) -> str:
    """The text with Markdown's special characters escaped, so that user-defined names are shown unchanged."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>$~:])", r"\\\1", text)


def tasks(words: str) -> str:
    """The text escaped by `plain`, with the readable names of the tasks in it."""
    return plain(readable(words))


def plain_line(text: str) -> str:
    """The text escaped by `plain` on one line that does not begin a list, so that it ends no quotation or emphasis."""
    return re.sub(r"^(\d*)([-=.])", r"\1\\\2", plain(one_line(text).strip()))


def unbroken(words: str) -> str:
    """The words of a label, such that lines break only between words: not inside `fine-tuned` or `17.6–21.5`."""
    return re.sub(r"(?<=\w)([-–])(?=\w)", rf"\1{JOINER}", words)


def plain_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the texts in its cells escaped by `plain`, for code that reads cells as Markdown."""
    return table.map(lambda cell: plain(cell) if isinstance(cell, str) else cell)


def with_code(text: str, words: Callable[[str], str] = plain) -> str:
    """Our own sentence for Markdown: text between backticks, such as a command, stays code; `words` converts the
    rest."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return words(text)
    return "".join(f"`{part}`" if number % 2 else words(part) for number, part in enumerate(parts))
