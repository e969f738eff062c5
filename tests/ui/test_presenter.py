"""Tests of a figure's size in presenter mode: as large as the window allows, and a projector's window is small."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def script() -> None:
    import plotly.graph_objects as go
    import streamlit as st

    from skillviz.ui import presenter

    for height in (240, 436, 900):
        st.text("{} {}".format(*presenter.factors_of(go.Figure(layout={"height": height}))))


def factors(window: dict[str, float] | None = None, present: str = "yes") -> list[tuple[float, ...]]:
    """Return the growth factors of three figures of different heights, for pixels and for type."""
    test = AppTest.from_function(script)
    test.query_params["present"] = present
    if window:
        test.session_state["presenter.window"] = window
    test.run()
    assert not test.exception
    return [tuple(map(float, text.value.split())) for text in test.text]


def test_outside_the_mode_no_figure_grows() -> None:
    assert factors(present="") == [(1, 1)] * 3


def test_a_figure_grows_until_the_window_is_full_and_never_shrinks() -> None:
    (small, _), (fitting, _), (tall, _) = factors()
    assert (small, tall) == (1.5, 1)
    assert 1 < fitting < 1.5 and 436 * fitting == pytest.approx(720 - 13.8 * 17.92 - 12)


def test_a_larger_window_has_larger_figures() -> None:
    assert factors({"height": 1080, "rem": 26}) == [(1.5, 1.5), (1.5, 1.5), (1, 1.5)]


def test_the_type_of_a_tall_figure_is_as_large_as_the_pages() -> None:
    told = factors()
    assert [of_type for _, of_type in told] == [1.5, max(told[1][0], 1.12), 1.12]
