"""Tests of exhibits: drawn once for equal arguments, and again for different ones."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.show import exhibit as exhibits
from skillviz.show import studies
from skillviz.show.exhibit import MOST_EXHIBITS, Exhibit, drawn_once

DRAWN: list[int] = []


@drawn_once
def exhibit(table: pd.DataFrame, theme: str, *, chosen: dict[str, float] | None = None) -> Exhibit:
    DRAWN.append(len(table))
    return Exhibit("name", theme, go.Figure(go.Scatter(y=table["y"])), "reads", "alt", table)


TABLE = pd.DataFrame({"x": ["a", "b"], "y": [1.0, 2.0]})


def test_equal_arguments_give_the_exhibit_that_was_drawn() -> None:
    DRAWN.clear()  # other tests of this process add to it
    first = exhibit(TABLE, "light", chosen={"size": 3.0})
    assert exhibit(TABLE.copy(), "light", chosen={"size": 3.0}) is first and DRAWN == [2]


@pytest.mark.parametrize(
    ("table", "theme", "more"),
    [
        (TABLE.assign(y=[1.0, 3.0]), "light", {}),
        (TABLE.rename(columns={"x": "z"}), "light", {}),
        (TABLE, "dark", {}),
        (TABLE, "light", {"chosen": {}}),
    ],
    ids=["value", "column", "theme", "argument"],
)
def test_anything_else_is_drawn_anew(table: pd.DataFrame, theme: str, more: dict[str, Any]) -> None:
    first, other = exhibit(TABLE, "light"), exhibit(table, theme, **more)
    assert other is not first and (list(other.figure.data[0].y), other.title) == (table["y"].tolist(), theme)


def test_calls_are_equal_whichever_of_their_parts_are_one_object() -> None:
    """Two visitors read tables from one file, and one table may hold a shared text as one object, the other as two."""
    name, other = "layer 3", f"layer {3}"
    first, second = (
        exhibit(pd.DataFrame({"y": [1.0]}), "light", chosen={name: 1.0, "same": of}) for of in (name, other)
    )
    assert first is second


def test_a_kept_figure_is_the_one_that_was_drawn() -> None:
    kept = exhibit(table := pd.DataFrame({"y": [1.0, float("nan"), 3.0]}), "dark")
    drawn = go.Figure(go.Scatter(y=table["y"])).to_json()
    kept.figure.update_layout(title="changed")
    found = [(one.reads, one.title, one.figure.to_json()) for one in (kept, replace(kept, reads="other words"))]
    assert found == [("reads", "dark", drawn), ("other words", "dark", drawn)]


def test_no_more_are_kept_than_there_is_room_for() -> None:
    drawn: list[int] = []

    @drawn_once
    def numbered(number: int) -> Exhibit:
        drawn.append(number)
        return Exhibit(str(number), str(MOST_EXHIBITS), go.Figure(), "", "", pd.DataFrame())

    for number in (*range(MOST_EXHIBITS + 1), MOST_EXHIBITS, 0):
        numbered(number)
    assert exhibits._place.cache_info().currsize == MOST_EXHIBITS
    assert drawn == [*range(MOST_EXHIBITS + 1), 0], "the one that was asked for least lately is gone"


def test_who_asks_while_it_is_drawn_waits_for_it() -> None:
    drawn: list[str] = []
    begun, other_asks = threading.Event(), threading.Event()

    @drawn_once
    def slow(theme: str) -> Exhibit:
        drawn.append(theme)
        begun.set()
        other_asks.wait(10)
        return Exhibit("slow", theme, go.Figure(), "", "", pd.DataFrame())

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow, "light")
        begun.wait(10)
        second = pool.submit(slow, "light")
        assert not second.done()
        other_asks.set()
        assert first.result(10) is second.result(10)
    assert drawn == ["light"]


def test_a_map_of_localizers_has_a_row_a_region_and_a_column_a_localizer() -> None:
    common = {"kind": "iou", "value": 0.25, "low": 0.2, "high": 0.3, "chance": 0.01, "chance_low": 0.0,
              "chance_high": 0.02, "seeds": 3, "relation": "same", "size": float("nan")}  # fmt: skip
    rows = [{"row_task": "qnli", "row_localizer": "stagewise", "column_task": "qnli", "column_localizer": by,
             **common, "share": share}
            for share in (0.001, 0.01) for by in ("stagewise", "movement", "fisher")]  # fmt: skip
    nothing = {"row_localizer": "", "column_localizer": "", **common, "share": float("nan")}
    names = ("a b c", "a b d")
    of_tasks = [{"row_task": a, "column_task": b, **nothing} for a in names for b in names]
    figure, bare = (studies.shared(pd.DataFrame(one), "iou", "light").figure.layout for one in (rows, of_tasks))
    assert (figure.yaxis.title.text, figure.yaxis.ticktext, figure.xaxis.ticktext, bare.yaxis.ticktext) == (
        "stagewise region of", ("QNLI, 0.1%", "QNLI, 1%"), ("stagewise", "top<br>movement", "Fisher"), names,
    )  # fmt: skip
