"""Tests of the address as the state: it holds the non-default choices, can be typed, and survives a page switch."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.ui.page_table import PAGES


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


def opened(**query: str) -> AppTest:
    test = AppTest.from_function(script, default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def params(test: AppTest) -> dict[str, str]:
    """Return the value of each control in the address, or its default."""
    return {name: test.query_params.get(name, DEFAULTS[name]) for name in DEFAULTS}


DEFAULTS = {"metric": "accuracy", "bins": "15", "kind": "width", "scaled": "yes"}


def test_defaults_are_left_out_also_where_a_link_names_them() -> None:
    assert not opened().query_params and not opened(**DEFAULTS).query_params
    test = opened()
    test.selectbox[0].select("nll").run()
    assert dict(test.query_params) == {"metric": "nll"}
    test.selectbox[0].select("accuracy").run()
    assert not test.query_params


def test_a_value_that_is_too_long_is_not_read() -> None:
    assert dict(opened(metric="nll", other="x" * 8_193).query_params) == {"metric": "nll"}
    assert dict(opened(other="x" * 8_192).query_params) == {"other": "x" * 8_192}


def test_going_back_to_an_address_without_a_choice_takes_it_back() -> None:
    test = opened(bins="7")
    test.selectbox[0].select("nll").run()
    del test.query_params["metric"]
    assert test.run().markdown[0].value == "accuracy 7 width True" and dict(test.query_params) == {"bins": "7"}


def test_a_browser_that_has_not_heard_of_a_choice_does_not_take_it_back() -> None:
    test = opened()
    test.selectbox[0].select("nll").run()
    del test.query_params["metric"]
    test.slider[0].set_value(16).run()
    assert dict(test.query_params) == {"metric": "nll", "bins": "16"}


def test_a_link_opens_the_same_view() -> None:
    other = {"metric": "nll", "bins": "7", "kind": "mass", "scaled": "no"}
    test = opened(**other)
    assert test.markdown[0].value == "nll 7 mass False" and params(test) == other


def test_what_cannot_be_chosen_is_passed_over() -> None:
    assert params(opened(metric="beauty", bins="99", kind="", scaled="perhaps")) == DEFAULTS


def tidied(*, elsewhere: bool = False, **query: str) -> AppTest:
    """Return the page with the code that runs after it in the dashboard."""
    test = AppTest.from_function(script, default_timeout=60)
    test.session_state["whole"], test.session_state["elsewhere"] = True, elsewhere
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def test_what_no_control_reads_leaves_the_address() -> None:
    test = tidied(metric="nll", by="zz", size="-5", run="r1", present="yes")
    assert dict(test.query_params) == {"metric": "nll", "run": "r1", "present": "yes"}
    test.selectbox[0].select("ece").run()
    assert dict(test.query_params) == {"metric": "ece", "run": "r1", "present": "yes"}
    assert not tidied(metric="zz", bins="-5", zz="zz").query_params


def test_a_control_that_is_drawn_later_finds_what_the_link_said() -> None:
    test = tidied(elsewhere=True, metric="nll")
    assert not test.query_params
    test.session_state["elsewhere"] = False
    test.run()
    assert test.markdown[0].value.startswith("nll") and dict(test.query_params) == {"metric": "nll"}


def test_a_widget_wins_over_the_address_that_it_wrote_itself() -> None:
    test = opened(metric="ece")
    test.selectbox[0].select("nll").run()
    assert test.query_params["metric"] == "nll" and test.markdown[0].value.startswith("nll")
    test.slider[0].set_value(20).run()
    assert params(test) == {**DEFAULTS, "metric": "nll", "bins": "20"}


def test_an_address_typed_by_hand_or_gone_back_to_wins_over_the_widget() -> None:
    test = opened(metric="ece")
    test.query_params["metric"] = "nll"
    test.run()
    assert test.selectbox[0].value == "nll" and test.markdown[0].value.startswith("nll")


def test_a_browser_that_is_behind_undoes_no_choice() -> None:
    """The user moves a control before the browser has the last address, so it sends an older one, for any control."""
    test = opened(bins="15", metric="ece")
    test.slider[0].set_value(16).run()
    for behind, value in (("15", 17), ("16", 18), ("15", 19)):
        test.query_params["bins"] = behind
        test.slider[0].set_value(value).run()
        assert test.slider[0].value == value and test.query_params["bins"] == str(value)
    test.query_params["bins"] = "18"
    test.selectbox[0].select("nll").run()
    assert params(test) == {**DEFAULTS, "metric": "nll", "bins": "19"} and test.markdown[0].value == "nll 19 width True"


def test_a_browser_that_had_caught_up_can_fall_behind_again() -> None:
    """Runs that are cut short send an address, revert it and send it again."""
    test = opened(bins="15")
    for linked, value in ((None, 16), ("16", 17), ("15", 18), ("17", 19), ("16", 20)):
        if linked is not None:
            test.query_params["bins"] = linked
        test.slider[0].set_value(value).run()
        assert test.slider[0].value == value and test.query_params["bins"] == str(value)


def cut_short() -> None:
    """A page whose run can be cut short before it draws anything."""
    import streamlit as st

    from skillviz.ui import address, controls

    address.catch_up()
    if st.session_state.get("control.bins") == 17:
        st.stop()
    controls.whole("bins", "Bins", 2, 50, 15)


def test_a_move_there_and_back_in_runs_that_are_cut_short_is_a_choice() -> None:
    test = AppTest.from_function(cut_short, default_timeout=60)
    test.query_params["bins"] = "15"
    slider = test.run().slider[0].set_value(16).run().slider[0]
    slider.set_value(17).run()
    test.query_params["bins"] = "15"  # the browser does not have 16 yet
    slider.set_value(16).run()
    assert test.slider[0].value == 16 and test.query_params["bins"] == "16"


def test_going_back_is_no_browser_that_is_behind() -> None:
    test = opened(metric="ece")
    test.selectbox[0].select("nll").run()
    test.query_params["metric"] = "ece"
    test.run()
    assert test.selectbox[0].value == "ece" and test.markdown[0].value.startswith("ece")
    test.slider[0].set_value(16).run()
    test.slider[0].set_value(17).run()
    for back in (16, 15):
        test.query_params["bins"] = str(back)
        test.run()
        assert test.slider[0].value == back and params(test)["bins"] == str(back), "also twice in a row"
    test.query_params["metric"] = "accuracy"  # typed at the same time as another control is moved
    test.slider[0].set_value(3).run()
    assert params(test) == {**DEFAULTS, "bins": "3"}


def test_choices_survive_a_page_that_does_not_draw_them_and_an_emptied_address() -> None:
    test = opened(metric="ece", bins="7")
    test.session_state["elsewhere"] = True
    test.query_params.clear()
    test.run()
    assert not test.markdown
    test.session_state["elsewhere"] = False
    test.run()
    assert params(test) == {**DEFAULTS, "metric": "ece", "bins": "7"}


def left_early() -> None:
    """A page that is left before it reads its runs; the next page reads the requested run."""
    import streamlit as st

    from skillviz.ui import address

    address.catch_up()
    if st.session_state.get("elsewhere"):
        st.write(str(address.current(address.RUN)))
    st.session_state["elsewhere"] = True


def test_the_run_of_a_page_that_was_left_at_once_is_taken_along() -> None:
    test = AppTest.from_function(left_early, default_timeout=60)
    test.query_params["run"] = "some-run"
    test.run()
    del test.query_params["run"]  # like the menu does
    assert test.run().markdown[0].value == "some-run"


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
