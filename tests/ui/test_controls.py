"""Tests of typed sentences and numeric ranges: in the address if they fit, otherwise in the session."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from skillviz.ui import controls

    if not st.session_state.get("elsewhere"):
        text = controls.typed("text", "Text", most=600)
        controls.typed("first", "First", most=600, default="an example")
        stretch = controls.span("length", "Length", 2, 40)
        st.json({"text": text, "stretch": stretch})


def opened(**query: str) -> AppTest:
    test = AppTest.from_function(script, default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def values(test: AppTest) -> tuple[str, tuple[int, ...]]:
    return test.text_input[0].value, tuple(test.slider[0].value)


def test_a_typed_text_stands_in_the_address_and_comes_back_from_it() -> None:
    test = opened()
    assert not test.query_params
    test.text_input[0].input("  not a good film ").run()
    assert test.query_params["text"] == "not a good film"
    assert values(opened(text="not a good film"))[0] == "not a good film"
    test.text_input[0].input(" ").run()
    assert "text" not in test.query_params


def test_a_text_that_nobody_typed_is_not_in_the_address() -> None:
    test = opened()
    assert test.text_input[1].value == "an example" and not test.query_params
    test.text_input[1].input("mine").run()
    assert test.query_params["first"] == "mine"
    del test.query_params["first"]  # the user went back
    test.run()
    assert test.text_input[1].value == "an example" and not test.query_params


def test_a_long_text_stays_in_the_session_over_a_page_switch() -> None:
    test, long = opened(text="short"), "x" * 401
    test.text_input[0].input(long).run()
    assert "text" not in test.query_params
    test.session_state["elsewhere"] = True
    test.run()
    test.session_state["elsewhere"] = False
    test.run()
    assert values(test)[0] == long and "text" not in test.query_params


def test_an_address_cannot_hold_more_than_the_box() -> None:
    assert len(values(opened(text="y" * 900))[0]) == 600


def test_a_stretch_is_written_as_its_ends() -> None:
    test = opened()
    test.slider[0].set_range(5, 12).run()
    assert test.query_params["length"] == "5-12"
    assert values(opened(length="5-12"))[1] == (5, 12)
    test.slider[0].set_range(2, 40).run()
    assert "length" not in test.query_params


@pytest.mark.parametrize("wrong", ["12-5", "1-9", "3-99", "few", "3", "-", "3-4-5"])
def test_no_stretch_is_all_of_it(wrong: str) -> None:
    test = opened(length=wrong)
    assert values(test)[1] == (2, 40) and "length" not in test.query_params
