"""Tests of the address as the state: it holds the non-default choices and a form's fields that fit, can be typed, and
survives a page switch."""

import json
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.jobs.backend import LOCAL
from skillviz.jobs.slurm import SLURM_BACKEND, backend_named
from skillviz.serving.sign_in import User
from skillviz.ui import form
from skillviz.ui.page_table import PAGES
from tests import visitor
from tests.ui.driven import filled, link, opened, said


def script() -> None:
    import streamlit as st

    from skillviz.ui import address, controls

    address.catch_up()
    if not st.session_state.get("elsewhere"):
        metric = controls.select("metric", "Metric", ("accuracy", "ece", "nll"), "accuracy")
        bins = controls.whole("bins", "Bins", 2, 50, 15)
        kind = controls.segments("kind", "Kind", ("width", "mass"), "width")
        scaled = controls.switch("scaled", "Scaled", True)
        st.write(f"{metric} {bins} {kind} {scaled}")
    if st.session_state.get("whole"):
        address.tidy("present")


DEFAULTS = {"metric": "accuracy", "bins": "15", "kind": "width", "scaled": "yes"}
OTHER = {"metric": "nll", "bins": "7", "kind": "mass", "scaled": "no"}
KEPT = {"run": "r1", "present": "yes"}


def words(query: dict[str, str]) -> str:
    """Return what the page writes of its controls where the address has this."""
    found = {**DEFAULTS, **query}
    return f"{found['metric']} {found['bins']} {found['kind']} {found['scaled'] == 'yes'}"


@pytest.mark.parametrize(
    ("is_whole", "query", "left"),
    [
        (False, {}, {}),
        (False, DEFAULTS, {}),
        (False, OTHER, OTHER),
        (False, {"metric": "beauty", "bins": "99", "kind": "", "scaled": "perhaps"}, {}),
        (False, {"metric": "nll", "other": "x" * 8_193}, {"metric": "nll"}),
        (False, {"other": "x" * 8_192}, {"other": "x" * 8_192}),
        (True, {"metric": "nll", "by": "zz", "size": "-5", **KEPT}, {"metric": "nll", **KEPT}),
        (True, {"metric": "zz", "bins": "-5", "zz": "zz"}, {}),
    ],
    ids=["nothing", "defaults", "choices", "no choices", "too long", "long", "unread", "unread and no choices"],
)
def test_the_address_keeps_choices_and_leaves_out_defaults_and_nonsense(
    is_whole: bool, query: dict[str, str], left: dict[str, str]
) -> None:
    test = opened(script, {"whole": is_whole}, **query)
    assert (link(test), said(test)) == (left, words(left))
    assert link(test.selectbox[0].select("ece").run()) == {**left, "metric": "ece"}, "and the rest stays"


@pytest.mark.parametrize(
    ("begin", "steps"),
    [
        ({}, [({}, {"metric": "nll"}, {"metric": "nll"}), ({}, {"metric": "accuracy"}, {})]),
        ({"bins": "7"}, [({}, {"metric": "nll"}, {"bins": "7", "metric": "nll"}), ({"metric": ""}, {}, {"bins": "7"})]),
        ({}, [
            ({}, {"metric": "nll"}, {"metric": "nll"}),
            ({"metric": ""}, {"bins": 16}, {"metric": "nll", "bins": "16"})]),
        ({"metric": "ece"}, [
            ({}, {"metric": "nll"}, {"metric": "nll"}), ({}, {"bins": 20}, {"metric": "nll", "bins": "20"})]),
        ({"metric": "ece"}, [({"metric": "nll"}, {}, {"metric": "nll"})]),
        ({"bins": "15", "metric": "ece"}, [
            ({}, {"bins": 16}, {"metric": "ece", "bins": "16"}),
            ({"bins": "15"}, {"bins": 17}, {"metric": "ece", "bins": "17"}),
            ({"bins": "16"}, {"bins": 18}, {"metric": "ece", "bins": "18"}),
            ({"bins": "15"}, {"bins": 19}, {"metric": "ece", "bins": "19"}),
            ({"bins": "18"}, {"metric": "nll"}, {"metric": "nll", "bins": "19"})]),
        ({"bins": "15"}, [
            ({}, {"bins": 16}, {"bins": "16"}), ({"bins": "16"}, {"bins": 17}, {"bins": "17"}),
            ({"bins": "15"}, {"bins": 18}, {"bins": "18"}), ({"bins": "17"}, {"bins": 19}, {"bins": "19"}),
            ({"bins": "16"}, {"bins": 20}, {"bins": "20"})]),
        ({"metric": "ece"}, [
            ({}, {"metric": "nll"}, {"metric": "nll"}), ({"metric": "ece"}, {}, {"metric": "ece"}),
            ({}, {"bins": 16}, {"metric": "ece", "bins": "16"}), ({}, {"bins": 17}, {"metric": "ece", "bins": "17"}),
            ({"bins": "16"}, {}, {"metric": "ece", "bins": "16"}), ({"bins": "15"}, {}, {"metric": "ece"}),
            ({"metric": "accuracy"}, {"bins": 3}, {"bins": "3"})]),
    ],
    ids=[
        "a choice and its default again", "gone back to an address without a choice takes it back",
        "a browser that has not heard of a choice does not take it back",
        "a widget wins over the address that it wrote itself", "an address typed by hand wins over the widget",
        "a browser that is behind, for any control, undoes no choice",
        "one that had caught up can fall behind again: runs that are cut short send, revert and send an address",
        "gone back, also twice in a row, is no browser that is behind; typed while another control is moved",
    ],
)  # fmt: skip
def test_choices_and_the_address_follow_each_other(
    begin: dict[str, str], steps: list[tuple[dict[str, str], dict[str, object], dict[str, str]]]
) -> None:
    """A step has what the browser sends, an empty value for what it lacks; then the controls that are moved."""
    test = opened(script, **begin)
    for sent, moved, left in steps:
        for name, value in sent.items():
            test.query_params[name] = value
        for name in [name for name, value in sent.items() if not value]:
            del test.query_params[name]
        for name, value in moved.items():
            (test.slider if name == "bins" else test.selectbox)(key=f"control.{name}").set_value(value)
        assert (link(test.run()), said(test)) == (left, words(left)), (sent, moved)
        assert str(test.slider[0].value) == {**DEFAULTS, **left}["bins"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_choices_survive_a_page_that_does_not_draw_them_and_an_emptied_address(is_whole: bool) -> None:
    test = opened(script, {"whole": is_whole, "elsewhere": is_whole}, metric="ece", bins="7")
    test.session_state["elsewhere"] = True
    test.query_params.clear()
    assert not test.run().markdown and not test.query_params
    test.session_state["elsewhere"] = False
    assert (said(test.run()), link(test)) == ("ece 7 width True", {"metric": "ece", "bins": "7"})


def cut_short() -> None:
    """A page whose run can be cut short before it draws anything."""
    import streamlit as st

    from skillviz.ui import address, controls

    address.catch_up()
    if st.session_state.get("control.bins") == 17:
        st.stop()
    controls.whole("bins", "Bins", 2, 50, 15)


def test_a_move_there_and_back_in_runs_that_are_cut_short_is_a_choice() -> None:
    test = opened(cut_short, bins="15")
    slider = test.slider[0].set_value(16).run().slider[0]
    slider.set_value(17).run()
    test.query_params["bins"] = "15"  # the browser does not have 16 yet
    slider.set_value(16).run()
    assert test.slider[0].value == 16 and test.query_params["bins"] == "16"


def left_early() -> None:
    """A page that is left before it reads its runs; the next page reads the requested run."""
    import streamlit as st

    from skillviz.ui import address

    address.catch_up()
    if st.session_state.get("elsewhere"):
        st.write(str(address.current(address.RUN)))
    st.session_state["elsewhere"] = True


def test_the_run_of_a_page_that_was_left_at_once_is_taken_along() -> None:
    test = opened(left_early, run="some-run")
    del test.query_params["run"]  # like the menu does
    assert said(test.run()) == "some-run"


TYPED = "/x/$HOUSE_PASSWORD/${HOUSE_PASSWORD}.yaml"


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("launch", {"new.from": "own", "new.source": "file", "new.file": TYPED}),
        ("launch", {"new.from": "own", "new.base": TYPED, "new.finetuned": TYPED}),
        ("launch", {"new.from": "own", "new.also": TYPED}),
        ("transfer", {"also": TYPED}),
        ("studies", {"new.study": "file", "new.file": TYPED}),
        ("studies", {"own.base": TYPED, "own.tasks": TYPED, "own.also": TYPED}),
        ("studies", {"own.base": "org/base", "own.tasks": "cr", "own.finetuned": TYPED}),
        ("surgery", {"expression": f'{{"run":"{TYPED}"}}'}),
        ("compare", {"runs": f"{TYPED},{TYPED}x"}),
        ("overview", {"run": TYPED}),
    ],
)
def test_no_variable_of_the_environment_is_filled_in_for_an_address(
    page: str, query: dict[str, str], ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_PASSWORD", "hunter2")
    test = visitor.opened(page, **query)
    shown = "".join(str(element.proto) for element in test.main).replace("\\", "")
    assert not test.exception and "hunter2" not in shown
    assert "HOUSE_PASSWORD" in shown, "it stands there as it was typed"


def form_script() -> None:
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


FORM_DEFAULTS = {
    "text": "", "first": "an example", "length": [2, 40], "model": "a/b", "sizes": ["0.1%"], "also": [], "steps": 50,
    "share": 0.1, "most": None, "seeds": "0",
}  # fmt: skip
opened_form = partial(opened, form_script)


def changed(test: AppTest) -> dict[str, object]:
    """Return the values that are not the defaults."""
    assert not test.exception
    values = json.loads(test.json[0].value)
    assert {*values} == {*FORM_DEFAULTS}
    return {name: value for name, value in values.items() if value != FORM_DEFAULTS[name]}


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
    test = opened_form(**query)
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
    test, name = opened_form(**begin), {"At most": "most"}.get(label, label.lower())
    for value, written in steps:
        assert link(filled(test, label, value)).get(name) == written
        assert written is not None or changed(test) == {}


def test_going_back_to_an_address_without_a_text_brings_its_default_back() -> None:
    test = filled(opened_form(), "First", "mine")
    del test.query_params["first"]
    assert changed(test.run()) == {} and not test.query_params


def test_a_long_text_stays_in_the_session_over_a_page_switch() -> None:
    test, long = opened_form(text="short"), "x" * 401
    filled(test, "Text", long)
    for elsewhere in (True, False):
        assert "text" not in test.query_params
        test.session_state["elsewhere"] = elsewhere
        test.run()
    assert changed(test) == {"text": long} and not test.query_params
    assert changed(opened_form(text="y" * 900)) == {"text": "y" * 600}, "an address cannot hold more than the box"


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
