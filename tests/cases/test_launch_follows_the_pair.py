"""Tests of Launch: a default that depends on another choice follows it until the user changes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import paper
from tests.pages.test_launch import LABELS, alone, chosen, opened, shipped, small
from tests.ui.conftest import nobody_waits
from tests.ui.driven import box, button, said

__all__ = ["alone", "nobody_waits", "paper", "shipped", "small"]

pytestmark = pytest.mark.usefixtures("shipped", "paper")

FILMS, GADGETS = (f"examples/tasks/{name}.yaml" for name in ("films", "gadgets"))


def own_pair(test: AppTest, small: Any) -> AppTest:
    """Open the form for own models and choose both."""
    box(test, "Models from").set_value("own").run()
    box(test, "Pre-trained").select(str(small / "models" / "base")).run()
    box(test, "Fine-tuned").select(str(small / "models" / "finetuned")).run()
    assert "The two fit" in said(test)
    return test


def task_box(test: AppTest) -> Any:
    return next(one for one in test.selectbox if one.label == "Task")


def test_an_own_pair_does_not_keep_the_examples_task_and_others(small: Any) -> None:
    test = opened()
    for _ in range(2):
        assert task_box(test).value == FILMS and box(test, "Score on other tasks").value == [GADGETS]
        assert not button(test, "Start").disabled
        own_pair(test, small)
        assert button(test, "Start").disabled and "Not yet: Choose a task." in said(test)
        assert box(test, "Score on other tasks").value == [] and "new.also" not in test.query_params
        assert "films" not in said(test).lower()
        box(test, "Models from").set_value("example").run()


@pytest.mark.parametrize("source", ["known", "example"])
def test_no_task_is_chosen_for_an_own_pair(small: Any, source: str) -> None:
    """No list records the task a pair was fine-tuned for; the first entry of a list would be a guess."""
    test = own_pair(opened(), small)
    box(test, "Task from").set_value(source).run()
    assert button(test, "Start").disabled and "Not yet: Choose a task." in said(test)
    field = task_box(test)
    assert field.value == "none" and field.options[0] == "choose a task"
    field.select("sst2" if source == "known" else GADGETS).run()
    assert "Choose a task." not in said(test)


def test_what_the_user_touched_stays(small: Any) -> None:
    test = opened()
    box(test, "Region sizes").set_value(["5%"]).run()
    task_box(test).select(GADGETS).run()
    own_pair(test, small)
    assert box(test, "Region sizes").value == ["5%"] and test.query_params["new.size"] == "5%"
    box(test, "Models from").set_value("example").run()
    assert box(test, "Region sizes").value == ["5%"] and task_box(test).value == GADGETS
    box(test, "Pair").select("of-gadgets").run()
    box(test, "Pair").select("of-films").run()
    assert task_box(test).value == GADGETS


def test_touched_back_to_the_default_stays_too() -> None:
    test = opened()
    task_box(test).select(GADGETS).run()
    task_box(test).select(FILMS).run()
    box(test, "Pair").select("of-gadgets").run()
    assert task_box(test).value == FILMS


def test_a_link_is_a_choice(small: Any) -> None:
    assert box(opened(**chosen(small, size="3%")), "Region sizes").value == ["3%"]
    assert box(opened(**chosen(small, lean="yes", dtype="float32")), "Weights held as").value == "float32"


def test_the_dtype_follows_lean_mode(small: Any) -> None:
    test = opened(**chosen(small))
    assert box(test, "Weights held as").value == "float32"
    box(test, "Lean mode").set_value(True).run()
    assert box(test, "Weights held as").value == "own" and "--dtype own" in test.code[0].value
    box(test, "Weights held as").set_value("bfloat16").run()
    box(test, "Lean mode").set_value(False).run()
    assert box(test, "Weights held as").value == "bfloat16"


def test_other_data_that_do_not_fit_the_task_are_refused(small: Any, tmp_path: Any) -> None:
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text((small / "task" / f"{split}.jsonl").read_text())
    task = (small / "task" / "task.yaml").read_text()
    (tmp_path / "strange.yaml").write_text(task.replace(LABELS[0], "elsewhere").replace("name: tiny", "name: other"))
    (tmp_path / "near.yaml").write_text(task.replace("name: tiny", "name: near"))
    test = opened(**chosen(small, also=tmp_path / "near.yaml"))
    assert not test.error and not button(test, "Start").disabled
    test = opened(**chosen(small, also=tmp_path / "strange.yaml"))
    assert "only tasks with the same labels" in said(test) and button(test, "Start").disabled


def test_the_readout_follows_the_pair(small: Any) -> None:
    words = small / "models" / "words"
    test = own_pair(opened(**{"from": "own", "source": "file", "file": small / "task" / "task.yaml"}), small)
    assert box(test, "How class").options[0] == "automatic: classification head"
    box(test, "How class").set_value("head").run()
    box(test, "Pre-trained").select(str(words / "base")).run()
    box(test, "Fine-tuned").select(str(words / "finetuned")).run()
    field = box(test, "How class")
    assert field.options[0] == "automatic: label words at the mask" and field.value == "auto"
    assert not button(test, "Start").disabled


def script() -> None:
    import streamlit as st

    from skillviz.ui import controls, form

    pair = st.text_input("pair", "demo", key="pair")
    first = {"demo": "a", "own": "b"}.get(pair, "c")
    if pair != "without":
        st.json(
            {
                "select": controls.select("s", "Select", ["a", "b", "c"], first, follows=True),
                "segments": controls.segments("g", "Segments", ["a", "b", "c"], first, follows=True),
                "box": form.box("b", "Box", ["a", "b", "c"], first, follows=True),
                "several": "".join(form.any_of("m", "Several", ["a", "b", "c"], [first], follows=True)),
                "kept": controls.select("k", "Kept", ["a", "b", "c"], first),
            }
        )


def shown(test: AppTest) -> dict[str, str]:
    assert not test.exception
    return dict(json.loads(test.json[0].value))


def test_each_kind_of_field_follows_until_it_is_touched() -> None:
    test = AppTest.from_function(script, default_timeout=60).run()
    assert set(shown(test).values()) == {"a"}
    test.text_input[0].input("own").run()
    assert shown(test) == {**dict.fromkeys(("select", "segments", "box", "several"), "b"), "kept": "a"}
    assert not set("sgbm") & set(test.query_params), "a default stands in no address"
    next(one for one in test.selectbox if one.label == "Select").select("c").run()
    test.multiselect[0].set_value(["a"]).run()
    test.text_input[0].input("demo").run()
    values = shown(test)
    assert (values["select"], values["several"]) == ("c", "a") and values["box"] == values["segments"] == "a"
    test.text_input[0].input("without").run()
    test.text_input[0].input("own").run()
    values = shown(test)
    assert (values["select"], values["several"]) == ("c", "a"), "also where they were not drawn meanwhile"
    assert values["box"] == values["segments"] == "b"
