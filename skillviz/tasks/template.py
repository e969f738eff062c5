"""Templates: literal text with places for the example's texts and, for masked models, one mask.

{text}            the text of a task with one text column ({a} is the same)
{a}, {b}          the first and the second text; a column's own name in braces works too
{a-}              without its last character, if that is . ? or !
{b~}              with its first letter in lower case
<mask>            the tokenizer's own mask token ({mask} and [MASK] are the same)
{{ and }}         a brace itself
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillviz.errors import BadInput

MASKS = ("<mask>", "[MASK]", "{mask}")
STOPS = ".?!"
_PARTS = re.compile(r"\{\{|\}\}|<mask>|\[MASK\]|\{[^{}]*\}|[{}]")


@dataclass(frozen=True)
class Place:
    """The place of text number `field`, which may be changed."""

    field: int
    drop_stop: bool = False
    lower_first: bool = False

    def filled(self, text: str, lmbff_exact: bool = False) -> str:
        """The text as it appears at this place (paper's code, `lmbff_exact`: any last character is dropped)."""
        if self.drop_stop and text and (lmbff_exact or text[-1] in STOPS):
            text = text[:-1]
        return text[:1].lower() + text[1:] if self.lower_first else text


class Mask:
    """The place of the mask token."""


Part = str | Place | Mask


def parse(template: str, columns: Sequence[str]) -> tuple[Part, ...]:
    """The parts of a template in order, neighboring literals joined; raises BadInput at an unknown or lone brace."""
    fields = _fields(columns)
    parts: list[Part] = []
    end = 0
    for match in _PARTS.finditer(template):
        _add(parts, template[end : match.start()])
        word, end = match[0], match.end()
        if word in ("{{", "}}"):
            _add(parts, word[0])
        elif word in MASKS and word[1:-1] not in columns:
            parts.append(Mask())
        else:
            parts.append(_place(word, fields, template))
    _add(parts, template[end:])
    return tuple(parts)


def check_template(template: str, kind: str, columns: Sequence[str], where: str) -> None:
    """Raises BadInput if a `masked` or `causal` template cannot be filled or used as a prompt."""
    try:
        parts = parse(template, columns)
    except BadInput as error:
        raise BadInput(f"{where}: {error.args[0]}") from None
    masks = sum(isinstance(part, Mask) for part in parts)
    if kind == "masked" and masks != 1:
        raise BadInput(f"{where}: the masked template '{template}' must have exactly one <mask>; it has {masks}.")
    if kind == "causal" and masks:
        raise BadInput(
            f"{where}: the causal template '{template}' must end where the answer begins and have no <mask>."
        )
    if not any(isinstance(part, Place) for part in parts):
        allowed = ", ".join("{" + name + "}" for name in _fields(columns))
        raise BadInput(f"{where}: the {kind} template '{template}' has no place for a text; use {allowed}.")


def rendered(parts: Sequence[Part], texts: Sequence[str], mask: str = "") -> str:
    """The parts joined, with `texts` (one for each Place, in order) and the mask token in their places."""
    left = iter(texts)
    return "".join(part if isinstance(part, str) else mask if isinstance(part, Mask) else next(left) for part in parts)


def places(parts: Sequence[Part]) -> list[Place]:
    """The places for texts, in order."""
    return [part for part in parts if isinstance(part, Place)]


def _add(parts: list[Part], literal: str) -> None:
    if literal and parts and isinstance(parts[-1], str):
        parts[-1] += literal
    elif literal:
        parts.append(literal)


def _fields(columns: Sequence[str]) -> dict[str, int]:
    """Name in braces -> number of the text."""
    known = {"text": 0, "a": 0} if len(columns) == 1 else {"a": 0, "b": 1}
    known |= {"text_a": 0} | ({"text_b": 1} if len(columns) == 2 else {})
    return known | {name: number for number, name in enumerate(columns)}


def _place(word: str, fields: dict[str, int], template: str) -> Place:
    name = word[1:-1]
    changes = ""
    while name and name not in fields and name[-1] in "-~":
        name, changes = name[:-1], name[-1] + changes
    if name not in fields or len(word) < 3:
        allowed = ", ".join("{" + known + "}" for known in fields)
        raise BadInput(
            f"'{word}' in the template '{template}' is not a place; allowed are {allowed}, each with - or ~ "
            "behind the name, and <mask> (write {{ or }} for a brace itself)."
        )
    return Place(fields[name], "-" in changes, "~" in changes)
