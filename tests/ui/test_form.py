"""Tests of the form's fields: typed values count like chosen ones, and the address restores all of them."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.jobs.backend import LOCAL
from skillviz.jobs.slurm import SLURM_BACKEND, backend_named
from skillviz.serving.sign_in import User
from skillviz.ui import form


def script() -> None:
    import streamlit as st

    from skillviz.ui import form

    st.json(
        {
            "box": form.box("model", "Model", ["a/b", "models/c"], "a/b"),
            "several": form.any_of("sizes", "Sizes", ["0.1%", "1%"], ["0.1%"]),
            "listed": form.any_of("also", "Also", ["x", "y"], [], takes_typed=False),
            "number": form.number("steps", "Steps", 50),
            "share": form.number("share", "Share", 0.1, low=0, high=1, is_whole=False),
            "most": form.number("most", "At most", None),
            "words": form.words("seeds", "Seeds", "0"),
        }
    )


def opened(**query: str) -> AppTest:
    test = AppTest.from_function(script, default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def values(test: AppTest) -> dict[str, object]:
    import json

    assert not test.exception
    return json.loads(test.json[0].value)


DEFAULTS = {
    "box": "a/b", "several": ["0.1%"], "listed": [], "number": 50, "share": 0.1, "most": None, "words": "0",
}  # fmt: skip


def test_defaults_are_left_out_of_the_address() -> None:
    test = opened()
    assert values(test) == DEFAULTS and not test.query_params
    assert values(opened(also="none", most="none", sizes="0.1%")) == DEFAULTS


def test_what_was_typed_comes_back_too() -> None:
    test = opened(model="org/name@main", sizes="10646,0.1%", also="y,z", steps="7", share="0.25", most="9", seeds="1,2")
    assert values(test) == {
        "box": "org/name@main", "several": ["10646", "0.1%"], "listed": ["y"], "number": 7, "share": 0.25, "most": 9,
        "words": "1,2",
    }  # fmt: skip
    test.number_input[2].set_value(None).run()
    test.multiselect[0].set_value([]).run()
    assert values(test)["most"] is None and values(test)["several"] == []
    assert "most" not in test.query_params, "the default"
    assert test.query_params["sizes"] == "none"


@pytest.mark.parametrize("odd", ["-3", "many", "inf", "nan", "1e9"])
def test_a_number_that_does_not_fit_falls_back(odd: str) -> None:
    assert values(opened(share=odd))["share"] == 0.1
    assert values(opened(most="0"))["most"] is None


def test_an_emptied_box_is_empty_also_when_it_comes_back() -> None:
    assert values(opened(model="none", seeds="none")) | {"box": "", "words": ""} == values(
        opened(model="none", seeds="none")
    )


@pytest.mark.parametrize(
    ("is_set_up", "user", "chosen"),
    [(True, None, "slurm"), (False, None, None), (True, User("a", "Ada", {}), None)],
)
def test_the_choice_is_for_one_person_with_a_cluster(
    is_set_up: bool, user: User | None, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.jobs.slurm.is_set_up", lambda: is_set_up)
    monkeypatch.setattr("skillviz.serving.sign_in.user", lambda: user)
    monkeypatch.setattr("skillviz.ui.controls.segments", lambda *_, **__: "slurm")
    assert form.cluster("where") == chosen
    assert backend_named(chosen) is (SLURM_BACKEND if chosen else LOCAL)
