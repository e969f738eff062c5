"""A region built by hand as the surgery page's form holds it, the expression that it stands for, and the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillviz.core.region_expression import ALGEBRA, CONDITIONS, canonical, checked, parsed
from skillviz.errors import BadInput

HOW = {
    "stored": "a stored region",
    "parts": "parts of the model",
    "union": "a stored region together with parts",
    "intersection": "a stored region inside parts",
    "without": "a stored region without parts",
    "rest": "parts without a stored region",
    "typed": "JSON",
}
JOINS = {
    "union": "all of them together",
    "intersection": "what all of them share",
    "difference": "the first without the others",
}
BIASES: dict[str, bool | None] = {"all": None, "without": False, "only": True}
ROW = re.compile(r"(\d{1,9})(?:\s*[-\N{EN DASH}]\s*(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class Hand:
    """What the form says. `how` is a key of HOW; no layers, kinds, tensors or rows mean: any.

    `join` puts several stored regions together, in their order; `size` cuts a single one from its ranking.
    """

    how: str = "stored"
    runs: tuple[str, ...] = ()
    join: str = "union"
    size: int | None = None
    layers: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    rows: str = ""
    biases: str = "all"
    typed: str = ""

    @property
    def has_stored(self) -> bool:
        """Whether stored regions are part of it."""
        return self.how not in ("parts", "typed")

    @property
    def has_parts(self) -> bool:
        """Whether layers, kinds and rows are part of it."""
        return self.how not in ("stored", "typed")


def expression_of(hand: Hand) -> dict[str, Any]:
    """The expression in its canonical form; raises BadInput where rows or the typed expression cannot be read."""
    if hand.how == "typed":
        return parsed(hand.typed)
    if hand.has_stored and not hand.runs:
        raise BadInput("choose a stored region, or build the region from parts alone.")
    if not hand.has_parts:
        return checked(_stored(hand))
    if not hand.has_stored:
        return checked(_parts(hand))
    pair = [_stored(hand), _parts(hand)]
    algebra = {"without": "difference", "rest": "difference"}.get(hand.how, hand.how)
    return checked({algebra: pair[::-1] if hand.how == "rest" else pair})


def hand_of(expression: Mapping[str, Any]) -> Hand:
    """The form that stands for an expression; one that the form has no fields for is shown as JSON."""
    found = checked(expression)
    fields = _alone(found) or _combined(found)
    return Hand(how="typed", typed=canonical(found)) if fields is None else Hand(**fields)


def rows_of(text: str) -> list[list[int]]:
    """`0-7, 12` as [[0, 7], [12, 12]], ends included; raises BadInput."""
    found = []
    for word in filter(None, re.split(r"[,;]", text.strip())):
        match = ROW.fullmatch(word.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise BadInput(f"'{word.strip()}' names no rows; write numbers and ranges, as in 0-7, 12.")
        found.append([first, last])
    return found


def rows_text(rows: Sequence[Sequence[int]]) -> str:
    """The way back."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in rows)


def sizes_offered(sizes: Sequence[int]) -> list[int]:
    """Places on a run's ranking for a slider: 1, 2, 5, 10, ... up to its largest size, and its own sizes."""
    most = max(sizes, default=0)
    steps = {digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5)}
    return sorted({step for step in steps if step < most} | {size for size in sizes if size})


def _stored(hand: Hand) -> dict[str, Any]:
    if len(hand.runs) > 1:
        return {hand.join: [{"run": run} for run in hand.runs]}
    return {"run": hand.runs[0]} if hand.size is None else {"run": hand.runs[0], "size": hand.size}


def _parts(hand: Hand) -> dict[str, Any]:
    said = {
        "layers": list(hand.layers), "kinds": list(hand.kinds), "parameters": list(hand.tensors),
        "rows": rows_of(hand.rows),
    }  # fmt: skip
    biases = BIASES[hand.biases]
    return {name: value for name, value in said.items() if value} | ({} if biases is None else {"biases": biases})


def _alone(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of stored regions alone, or of parts alone."""
    stored, parts = _stored_fields(expression), _part_fields(expression)
    if stored is not None:
        return {"how": "stored", **stored}
    return None if parts is None else {"how": "parts", **parts}


def _combined(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of stored regions and parts together."""
    algebra = next((name for name in ALGEBRA if name in expression), "")
    two = expression.get(algebra, [])
    if len(two) != 2:
        return None
    for how, (first, second) in (("stored", two), ("parts", two[::-1])):
        stored, parts = _stored_fields(first), _part_fields(second)
        if stored is not None and parts is not None:
            difference = "without" if how == "stored" else "rest"
            return {"how": difference if algebra == "difference" else algebra, **stored, **parts}
    return None


def _stored_fields(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    if "run" in expression:
        return {"runs": (expression["run"],), "size": expression.get("size")}
    for join in JOINS:
        several = expression.get(join, [])
        runs = tuple(one["run"] for one in several if one.keys() == {"run"})
        if len(runs) == len(several) > 1 and len(set(runs)) == len(runs):
            return {"runs": runs, "join": join}
    return None


def _part_fields(expression: Mapping[str, Any]) -> dict[str, Any] | None:
    if not expression.keys() <= set(CONDITIONS) or any(value == [] for value in expression.values()):
        return None
    return {
        "layers": tuple(expression.get("layers", ())),
        "kinds": tuple(expression.get("kinds", ())),
        "tensors": tuple(expression.get("parameters", ())),
        "rows": rows_text(expression.get("rows", ())),
        "biases": next(name for name, value in BIASES.items() if value is expression.get("biases")),
    }
