"""Exhibits are drawn once for the same arguments, and anew for others."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from skillviz.show import studies
from skillviz.show.exhibit import Exhibit, drawn_once

DRAWN: list[int] = []


@drawn_once
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


def test_a_map_of_localizers_has_a_row_a_region_and_a_column_a_localizer() -> None:
    common = {
        "kind": "iou",
        "value": 0.25,
        "low": 0.2,
        "high": 0.3,
        "chance": 0.01,
        "chance_low": 0.0,
        "chance_high": 0.02,
        "seeds": 3,
        "relation": "same",
    }
    rows = [{"row_task": "qnli", "row_localizer": "stagewise", "column_task": "qnli", "column_localizer": by,
             "size": float("nan"), "share": share, **common}
            for share in (0.001, 0.01) for by in ("stagewise", "movement", "fisher")]  # fmt: skip
    figure = studies.shared(pd.DataFrame(rows), "iou", "light").figure
    assert list(figure.layout.yaxis.ticktext) == ["QNLI, 0.1%", "QNLI, 1%"]
    assert list(figure.layout.xaxis.ticktext) == ["stagewise", "top<br>movement", "Fisher"]
    assert figure.layout.yaxis.title.text == "stagewise region of"
    nothing = {"row_localizer": "", "column_localizer": "", "size": float("nan"), "share": float("nan"), **common}
    plain = pd.DataFrame(
        [{"row_task": a, "column_task": b, **nothing} for a in ("a b c", "a b d") for b in ("a b c", "a b d")]
    )
    assert list(studies.shared(plain, "iou", "light").figure.layout.yaxis.ticktext) == ["a b c", "a b d"]
