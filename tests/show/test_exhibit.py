"""Tests of exhibits: drawn once for equal arguments, and again for different ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from skillviz.show import exhibit as exhibits
from skillviz.show import studies
from skillviz.show.exhibit import MOST_EXHIBITS, Exhibit, drawn_once

DRAWN: list[int] = []


@drawn_once
def exhibit(table: pd.DataFrame, theme: str, *, chosen: dict[str, float] | None = None) -> Exhibit:
    DRAWN.append(len(table))
    return Exhibit("name", theme, go.Figure(go.Scatter(y=table["y"])), "reads", "alt", table)


def test_equal_arguments_give_the_exhibit_that_was_drawn() -> None:
    DRAWN.clear()  # other tests of this process add to it
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


def test_calls_are_equal_whichever_of_their_parts_are_one_object() -> None:
    """Two visitors read tables from one file, and one table may hold a shared text as one object, the other as two."""
    name = "layer 3"
    one = exhibit(pd.DataFrame({"y": [1.0]}), "light", chosen={name: 1.0, "same": name})  # type: ignore[dict-item]
    again = exhibit(pd.DataFrame({"y": [1.0]}), "light", chosen={name: 1.0, "same": f"layer {3}"})  # type: ignore[dict-item]
    assert again is one


def test_a_kept_figure_is_the_one_that_was_drawn() -> None:
    table = pd.DataFrame({"y": [1.0, float("nan"), 3.0]})
    kept = exhibit(table, "dark")
    first, second, third = kept.figure, kept.figure, kept.figure
    assert first.to_json() == second.to_json() == go.Figure(go.Scatter(y=table["y"])).to_json()
    second.update_layout(title="changed")
    assert third.to_json() == first.to_json()


def test_a_kept_exhibit_is_replaced_as_any_other() -> None:
    kept = exhibit(pd.DataFrame({"y": [4.0]}), "light")
    other = replace(kept, reads="other words")
    assert (other.reads, other.title) == ("other words", kept.title) and kept.reads == "reads"
    assert other.figure.to_json() == kept.figure.to_json()


def counted(most: int) -> tuple[Callable[[int], Exhibit], list[int]]:
    drawn: list[int] = []

    @drawn_once
    def numbered(number: int) -> Exhibit:
        drawn.append(number)
        return Exhibit(str(number), str(most), go.Figure(), "", "", pd.DataFrame())

    return numbered, drawn


def test_no_more_are_kept_than_there_is_room_for() -> None:
    numbered, drawn = counted(MOST_EXHIBITS)
    for number in range(MOST_EXHIBITS + 1):
        numbered(number)
    assert exhibits._place.cache_info().currsize == MOST_EXHIBITS
    numbered(MOST_EXHIBITS)
    assert len(drawn) == MOST_EXHIBITS + 1
    numbered(0)
    assert drawn[-1] == 0, "the one that was asked for least lately is gone"


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
