"""Exhibits are drawn once for the same arguments, and anew for others."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from skillviz.ui.exhibits.exhibit import Exhibit, kept

DRAWN: list[int] = []


@kept
def exhibit(table: pd.DataFrame, theme: str, *, chosen: dict[str, float] | None = None) -> Exhibit:
    DRAWN.append(len(table))
    return Exhibit("name", theme, go.Figure(go.Scatter(y=table["y"])), "reads", "alt", table)


def test_equal_arguments_give_the_exhibit_that_was_drawn() -> None:
    table = pd.DataFrame({"x": ["a", "b"], "y": [1.0, 2.0]})
    first = exhibit(table, "light", chosen={"size": 3.0})
    assert exhibit(table.copy(), "light", chosen={"size": 3.0}) is first and DRAWN == [2]


def test_anything_else_is_drawn_anew() -> None:
    table = pd.DataFrame({"x": ["a", "b"], "y": [1.0, 2.0]})
    first = exhibit(table, "light")
    others = [
        exhibit(table.assign(y=[1.0, 3.0]), "light"),
        exhibit(table.rename(columns={"x": "z"}), "light"),
        exhibit(table, "dark"),
        exhibit(table, "light", chosen={}),
    ]
    assert len({id(one) for one in (first, *others)}) == 5
    assert list(others[0].figure.data[0].y) == [1.0, 3.0] and others[2].title == "dark"
