"""Tests of the address as the state: it holds the non-default choices, can be typed, and survives a page switch."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.ui.page_table import PAGES
from tests.ui.driven import link, opened, said


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
    test.selectbox[0].select("ece").run()
    assert link(test) == {**left, "metric": "ece"}, "and the rest stays"


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
    test = AppTest.from_file(str(PAGES[page].path), default_timeout=120)
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    shown = "".join(str(element.proto) for element in test.main).replace("\\", "")
    assert not test.exception and "hunter2" not in shown
    assert "HOUSE_PASSWORD" in shown, "it stands there as it was typed"
