"""How large the presenter mode shows a figure: as the room allows, and a projector's is small."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def script() -> None:
    import plotly.graph_objects as go
    import streamlit as st

    from skillviz.ui import presenter

    for height in (240, 436, 900):
        st.text(presenter.factor_of(go.Figure(layout={"height": height})))


def factors(window: dict[str, float] | None = None, present: str = "yes") -> list[float]:
    test = AppTest.from_function(script)
    test.query_params["present"] = present
    if window:
        test.session_state["presenter.window"] = window
    test.run()
    assert not test.exception
    return [float(text.value) for text in test.text]


def test_outside_the_mode_no_figure_grows() -> None:
    assert factors(present="") == [1, 1, 1]


def test_a_figure_grows_until_the_window_is_full_and_never_shrinks() -> None:
    small, fitting, tall = factors()
    assert (small, tall) == (1.5, 1)
    assert 1 < fitting < 1.5 and 436 * fitting == pytest.approx(720 - 13.8 * 17.92 - 12)


def test_a_larger_window_has_larger_figures() -> None:
    assert factors({"height": 1080, "rem": 26}) == [1.5, 1.5, 1]
