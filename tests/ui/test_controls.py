"""Tests of typed sentences, numeric ranges and a form's fields: in the address if they fit, else in the session."""

from __future__ import annotations

import json
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.jobs.backend import LOCAL
from skillviz.jobs.slurm import SLURM_BACKEND, backend_named
from skillviz.serving.sign_in import User
from skillviz.ui import form
from tests.ui import driven
from tests.ui.driven import filled, link


def script() -> None:
    import streamlit as st

    from skillviz.ui import controls, form

    if not st.session_state.get("elsewhere"):
        st.json(
            {
                "text": controls.typed("text", "Text", most=600),
                "first": controls.typed("first", "First", most=600, default="an example"),
                "length": controls.span("length", "Length", 2, 40),
                "model": form.box("model", "Model", ["a/b", "models/c"], "a/b"),
                "sizes": form.any_of("sizes", "Sizes", ["0.1%", "1%"], ["0.1%"]),
                "also": form.any_of("also", "Also", ["x", "y"], [], takes_typed=False),
                "steps": form.number("steps", "Steps", 50),
                "share": form.number("share", "Share", 0.1, low=0, high=1, is_whole=False),
                "most": form.number("most", "At most", None),
                "seeds": form.words("seeds", "Seeds", "0"),
            }
        )


DEFAULTS = {
    "text": "", "first": "an example", "length": [2, 40], "model": "a/b", "sizes": ["0.1%"], "also": [], "steps": 50,
    "share": 0.1, "most": None, "seeds": "0",
}  # fmt: skip
opened = partial(driven.opened, script)


def changed(test: AppTest) -> dict[str, object]:
    """Return the values that are not the defaults."""
    assert not test.exception
    values = json.loads(test.json[0].value)
    assert {*values} == {*DEFAULTS}
    return {name: value for name, value in values.items() if value != DEFAULTS[name]}


@pytest.mark.parametrize(
    ("query", "values", "left"),
    [
        ({}, {}, {}),
        ({"also": "none", "most": "none", "sizes": "0.1%"}, {}, {}),
        ({"text": "not a good film"}, {"text": "not a good film"}, {"text": "not a good film"}),
        ({"length": "5-12"}, {"length": [5, 12]}, {"length": "5-12"}),
        *(({"length": wrong}, {}, {}) for wrong in ("12-5", "1-9", "3-99", "few", "3", "-", "3-4-5")),
        *(({"share": odd, "most": "0"}, {}, {}) for odd in ("-3", "many", "inf", "nan", "1e9")),
        ({"model": "none", "seeds": "none"}, {"model": "", "seeds": ""}, {"model": "none", "seeds": "none"}),
        ({"model": "org/name@main", "sizes": "10646,0.1%", "also": "y,z", "steps": "7", "share": "0.25", "most": "9",
          "seeds": "1,2"},
         {"model": "org/name@main", "sizes": ["10646", "0.1%"], "also": ["y"], "steps": 7, "share": 0.25, "most": 9,
          "seeds": "1,2"},
         {"model": "org/name@main", "sizes": "10646,0.1%", "also": "y", "steps": "7", "share": "0.25", "most": "9",
          "seeds": "1,2"}),
    ],
    ids=lambda query: "&".join(query) if isinstance(query, dict) else None,
)  # fmt: skip
def test_what_the_address_says_is_chosen_and_defaults_are_left_out(
    query: dict[str, str], values: dict[str, object], left: dict[str, str]
) -> None:
    test = opened(**query)
    assert (changed(test), link(test)) == (values, left)


@pytest.mark.parametrize(
    ("begin", "label", "steps"),
    [
        ({}, "Text", [("  not a good film ", "not a good film"), (" ", None)]),
        ({}, "First", [("mine", "mine"), ("an example", None)]),
        ({}, "Length", [((5, 12), "5-12"), ((2, 40), None)]),
        ({"most": "9"}, "At most", [(None, None), (7, "7")]),
        ({}, "Sizes", [([], "none"), (["0.1%"], None)]),
    ],
)
def test_what_is_chosen_stands_in_the_address_unless_it_is_the_default(
    begin: dict[str, str], label: str, steps: list[tuple[object, str | None]]
) -> None:
    test, name = opened(**begin), {"At most": "most"}.get(label, label.lower())
    for value, written in steps:
        assert link(filled(test, label, value)).get(name) == written
        assert written is not None or changed(test) == {}


def test_going_back_to_an_address_without_a_text_brings_its_default_back() -> None:
    test = filled(opened(), "First", "mine")
    del test.query_params["first"]
    assert changed(test.run()) == {} and not test.query_params


def test_a_long_text_stays_in_the_session_over_a_page_switch() -> None:
    test, long = opened(text="short"), "x" * 401
    filled(test, "Text", long)
    for elsewhere in (True, False):
        assert "text" not in test.query_params
        test.session_state["elsewhere"] = elsewhere
        test.run()
    assert changed(test) == {"text": long} and not test.query_params
    assert changed(opened(text="y" * 900)) == {"text": "y" * 600}, "an address cannot hold more than the box"


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
