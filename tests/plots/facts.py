"""Facts of figures as tables: what is true in words, the call that draws the figure, and the value at each path."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest


def at(of: Any, path: str) -> Any:
    """Return the value at a path: `layout.shapes.-1.x0`, `data.*.name` (of each), `name/x` (of the only trace with this
    name), `name/1.x` or `name/*.x` (of several). Tuples and arrays come as lists."""
    name, slash, path = path.rpartition("/")
    if slash:
        of = [trace for trace in of.data if trace.name == name]
        if path[0] not in "*0123456789":
            (of,) = of
    first, _, rest = path.partition(".")
    if first == "*":
        return [at(one, rest) if rest else one for one in of]
    found = of[int(first)] if first.lstrip("-").isdigit() else getattr(of, first)
    return at(found, rest) if rest else listed(found)


def listed(value: Any) -> Any:
    """Return tuples and arrays as lists, and other values as they are."""
    return [listed(one) for one in value] if isinstance(value, tuple | np.ndarray) else value


def read(figure: go.Figure, *paths: str) -> list[Any]:
    """Return the values at these paths."""
    return [at(figure, path) for path in paths]


class Holding:
    """An object that equals each text or list with these parts and none of `but`."""

    def __init__(self, *parts: Any, but: tuple[Any, ...] = ()) -> None:
        self.parts, self.but = parts, but

    def __eq__(self, other: object) -> bool:
        return all(part in other for part in self.parts) and not any(part in other for part in self.but)  # type: ignore[operator]

    def __repr__(self) -> str:
        return f"Holding{self.parts} but {self.but}"


@dataclass(eq=False)
class Between:
    """An object that equals each number strictly between two."""

    low: float
    high: float

    def __eq__(self, other: object) -> bool:
        return self.low < other < self.high  # type: ignore[operator]


@dataclass(eq=False)
class Of:
    """What equals each value of which the function gives what is wanted."""

    function: Callable[[Any], Any]
    wanted: Any

    def __eq__(self, other: object) -> bool:
        return bool(self.wanted == self.function(other))


def facts(rows: dict[str, tuple[Callable[[], go.Figure], dict[str, Any]]]) -> Callable[..., None]:
    """Return a test in which each figure has the values at the paths. A row's name says what is true."""

    @pytest.mark.parametrize(("draw", "wanted"), rows.values(), ids=rows)
    def test(draw: Callable[[], go.Figure], wanted: dict[str, Any]) -> None:
        figure = draw()
        found = {path: at(figure, path) for path in wanted}
        assert wanted == found, {path: (value, wanted[path]) for path, value in found.items() if wanted[path] != value}

    return test
