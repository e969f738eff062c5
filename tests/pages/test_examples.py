"""Tests of the examples page: filters, the linked box, texts if available, and a real worker's explanations."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.ui.pages import examples
from tests.fake_run import fake_run
from tests.live.conftest import lived, own_workers
from tests.pages.scored_world import asked
from tests.pages.test_pages import charts, opened, with_tables, words
from tests.plots.example_frames import FOURTEEN
from tests.runs.test_texts import run_of, with_columns
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair, tiny_task

__all__ = ["lived", "own_workers"]

SMALL = {"layers": 1, "width": 8, "sizes": ("5%",), "steps": 2}
Use = Callable[[Path], None]


@pytest.fixture(scope="session")
def readouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make stores with one run each: `prompt` for a task of pairs with three labels, `causal` for two labels."""
    from skillviz.runs.produce import produce

    stores = {}
    for name, family, labels, pair in (("prompt", "roberta", 3, True), ("causal", "gpt2", 2, False)):
        folder = tmp_path_factory.mktemp(name)
        tiny_pair(folder, family, name, steps=5, labels=labels)
        tiny_task(folder, rows=48, labels=labels, pair=pair)
        produce(spec_of(folder), Store(folder / "runs"))
        stores[name] = folder / "runs"
    return stores


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Use:
    """Return a function that makes a folder the user's, and the only one."""

    def used(root: Path) -> None:
        monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
        monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")

    return used


def live_store(source: Path, tmp_path: Path, use: Use) -> Run:
    """Copy a store, so that answers can be stored in it; return its only run."""
    shutil.copytree(source, tmp_path / "copy")
    use(tmp_path / "copy")
    return Store(tmp_path / "copy").list()[0]


def box(test: AppTest, label: str):  # type: ignore[no-untyped-def]
    return next(b for b in test.selectbox if b.label == label)


def drawn(test: AppTest) -> list[dict]:
    """Return the figures of the page as plotly specifications."""
    return [json.loads(chart.proto.spec) for chart in charts(test)]


def scatter_of(test: AppTest) -> dict:
    """Return the scatter as a plotly specification."""
    return json.loads(next(chart for chart in charts(test) if chart.key == "chart.scatter").proto.spec)


def listed(test: AppTest) -> pd.DataFrame:
    """Return the table of examples."""
    return next(frame.value for frame in with_tables(test).dataframe if "grafted: true class" in frame.value)


def token_figure(test: AppTest) -> dict:
    return next(f for f in drawn(test) if f["layout"].get("yaxis", {}).get("title", {}).get("text") == "token")


def link(test: AppTest) -> dict[str, str]:
    """Return the query of the address, as a copied link has it."""
    return {k: v[0] if isinstance(v, list) else v for k, v in test.query_params.items()}


def test_the_sentence_is_computed_from_the_run(ids: dict[str, str]) -> None:
    run = opened("examples", run=ids["stagewise0"])
    stored = Store(Path(os.environ["SKILLVIZ_RUNS"])).open(ids["stagewise0"])
    predicted = [stored.logits(state, "test")[2].argmax(1) for state in ("grafted", "finetuned")]
    assert f"**{int((predicted[0] != predicted[1]).sum())} of 120**" in words(run)
    assert "Accuracy, graft vs fine-tuned: :" in words(run) and words(run).count("-badge[") == 1


def test_filters_narrow_box_and_table_and_stand_in_the_address(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"])
    shown = box(test, "Show")
    every, few = (len(box(test, "Example").options), next(o for o in shown.options if o.startswith("only fine")))
    shown.select("finetuned").run()
    assert test.query_params["case"] == ["finetuned"] or test.query_params["case"] == "finetuned"
    count = int(few.rsplit("(", 1)[1].rstrip(")"))
    assert len(box(test, "Example").options) == count < every == 120
    assert len(listed(test)) > 0 and f"**{count}** of 120 examples" in words(test)
    scatter = scatter_of(test)
    assert [t["name"] for t in scatter["data"] if t.get("customdata")] == [f"only fine-tuned right ({count})"]
    again = opened("examples", **link(test))
    assert box(again, "Example").options == box(test, "Example").options


def test_it_begins_with_the_example_whose_confidence_moved_most(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"])
    moved = listed(test)["graft − fine-tuned"].abs()
    assert moved.is_monotonic_decreasing and box(test, "Example").value == listed(test)["example"].iloc[0]


def test_no_example_that_passes_is_said(ids: dict[str, str], use: Use, tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path / "one"), **SMALL, n={"validation": 1, "test": 1})
    use(tmp_path / "one")
    test = opened("examples", run=run.id, case="grafted")
    assert not test.exception and test.info
    assert len([f for f in drawn(test) if not f["data"]]) == 1


@pytest.mark.nightly
def test_the_chosen_example_is_ringed_marked_and_shown(ids: dict[str, str]) -> None:
    test = with_tables(opened("examples", run=ids["stagewise0"], example="test-7", sort="file"))
    assert "**test-7** · true class" in words(test) and box(test, "Example").value == "test-7"
    assert "chosen" in [trace["name"] for trace in scatter_of(test)["data"]]
    assert test.session_state["examples.table"]["selection"]["rows"] == [7]
    box(test, "Example").select("test-11").run()
    assert link(test)["example"] == "test-11" and "**test-11**" in words(test)
    box(test, "Example").select("test-90").run()
    assert test.session_state["examples.table"]["selection"]["rows"] == [0]
    assert listed(test)["example"][:2].tolist() == ["test-90", "test-0"]
    marked = with_tables(opened("examples", run=ids["stagewise0"], example="test-90", sort="file"))
    marked.session_state["examples.by_row"] = "test-90"
    marked.run()
    assert marked.session_state["examples.table"]["selection"]["rows"] == [90], "a marked row stays where it is"


def test_a_phone_has_text_class_and_both_answers_within_its_width(ids: dict[str, str]) -> None:
    test = with_tables(opened("examples", run=ids["stagewise0"], sort="file", example="test-3"))
    (narrow,) = [
        frame.value
        for frame in test.dataframe
        if set(frame.value) == {"example", "true class", "grafted", "fine-tuned"}
    ]
    assert list(narrow) == ["example", "true class", "grafted", "fine-tuned"] and len(narrow) == 50
    wide, is_wrong = listed(test).head(50), False
    for state in ("grafted", "fine-tuned"):  # confidence of the answer, not of the true class
        for cell, (_, row) in zip(narrow[state], wide.iterrows(), strict=True):
            is_right, of_true = row[f"{state} says"] == row["true class"], row[f"{state}: true class"]
            assert cell == f"{row[f'{state} says']} {of_true if is_right else 100 - of_true:.1f}%"
            is_wrong |= not is_right
    assert is_wrong
    assert test.session_state["examples.narrow"]["selection"]["rows"] == [3]
    beside = 360 - 34  # pixels of the page at width 390, without the boxes of the rows
    assert sum(examples.ON_PHONE) <= beside


def clicking() -> None:
    import streamlit as st

    from skillviz.ui.pages import examples

    st.session_state["chart.scatter"] = {"selection": {"points": [{"customdata": "test-3"}]}}
    examples._pointed()
    st.write(st.session_state["control.example"])
    st.session_state["examples.table"] = {"selection": {"rows": [1]}}
    examples._row_marked("examples.table", ["test-9", "test-4"])
    st.write(st.session_state["control.example"])
    st.session_state["chart.scatter"] = {"selection": {"points": [], "box": [{"x": [90, 40], "y": [0, 50]}]}}
    examples._dragged("confidence")
    st.session_state["chart.scatter"] = {"selection": {"points": [], "box": []}}
    examples._dragged("confidence")
    st.write(st.query_params["area"])
    st.session_state["examples.table"] = {"selection": {"rows": []}}
    examples._pointed()
    examples._row_marked("examples.table", ["test-9", "test-4"])
    st.write(st.session_state["control.example"])


def test_a_click_on_a_point_or_a_row_chooses_its_example_and_a_click_beside_none() -> None:
    values = [m.value for m in AppTest.from_function(clicking).run().markdown]
    assert values == ["test-3", "test-4", "confidence_0.4_0.9_0_0.5", "test-4"]


@pytest.mark.slow
def test_a_marked_area_narrows_the_table_is_framed_and_can_be_left(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"], area="confidence_0.5_1_0_0.5", marks="area")
    table = listed(test)
    assert 0 < len(table) < 120
    assert table["fine-tuned: true class"].between(50, 100).all() and table["grafted: true class"].between(0, 50).all()
    scatter = scatter_of(test)
    (frame,) = [shape for shape in scatter["layout"]["shapes"] if shape["type"] == "rect"]
    assert (frame["x0"], frame["x1"], frame["y0"], frame["y1"]) == (50, 100, 0, 50)
    assert scatter["layout"]["dragmode"] == "select" and link(test)["area"] == "confidence_0.5_1_0_0.5"
    next(b for b in test.button if b.label == "Clear the area").click().run()
    assert len(listed(test)) == 120 and "area" not in test.query_params
    assert len(listed(opened("examples", run=ids["stagewise0"], area="everywhere"))) == 120


def test_an_area_of_a_measure_that_the_run_lacks_is_forgotten(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"], area="per_token_0.5_1_0_0.5")
    assert not test.exception and len(listed(test)) == 120 and "area" not in test.query_params


@pytest.mark.nightly
def test_many_classes(ids: dict[str, str], use: Use, tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path / "many"), labels=FOURTEEN, **SMALL, n={"validation": 60, "test": 140})
    use(tmp_path / "many")
    test = opened("examples", run=run.id, result="recall", complement="yes")
    assert not test.exception and len(charts(test)) == 8


def test_data_of_a_hub_are_read_only_when_asked_for(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"])
    assert any("from the Hugging Face Hub" in one.label for one in test.button) and not test.warning
    assert "The sentences are not on this machine" in words(test)
    assert any("by number" in one.label for one in test.expander), "the ids are folded away"
    assert "Words in the text" not in [field.label for field in test.text_input]


@pytest.mark.nightly
def test_texts_are_shown_searched_and_measured_where_they_are_at_hand(use: Use, tmp_path: Path) -> None:
    task = tiny_task(tmp_path / "task")
    run = run_of(task, tmp_path / "runs")
    (run.path / "run.json").write_text(run.record.model_dump_json())
    use(tmp_path / "runs")
    first = json.loads((tmp_path / "task" / "test.jsonl").read_text().splitlines()[0])["text"]
    test = opened("examples", run=run.id, sort="file")
    assert not test.exception and not test.info and f"> {first}" in words(test)
    assert listed(test)["text"].iloc[0] == first
    word = first.split()[0]
    test.text_input[0].input(word).run()
    assert link(test)["words"] == word
    assert all(word in shown for shown in listed(test)["text"])
    longest = max(listed(test)["words"])
    test.text_input[0].input("").run()
    test.slider[0].set_range(longest, test.slider[0].max).run()
    assert set(listed(test)["words"]) <= set(range(longest, 99)) and link(test)["length"] != "all"


def test_where_the_data_belong_is_said_in_words(use: Use, tmp_path: Path) -> None:
    task = tiny_task(tmp_path / "task")
    run = run_of(task, tmp_path / "runs")
    (run.path / "run.json").write_text(run.record.model_dump_json())
    use(tmp_path / "runs")
    task.write_text(re.sub(r"(\w+)\.jsonl", r"${SKILLVIZ_ABSENT}/data/tiny_task/\1.jsonl", task.read_text()))
    said = words(opened("examples", run=run.id))
    assert "`data/tiny_task` of the folder" in said and "`SKILLVIZ_ABSENT`" in said and "${" not in said


def test_data_that_are_not_the_runs_own_are_never_shown(use: Use, tmp_path: Path) -> None:
    task = tiny_task(tmp_path / "task")
    run = run_of(task, tmp_path / "runs")
    (run.path / "run.json").write_text(run.record.model_dump_json())
    use(tmp_path / "runs")
    path = tmp_path / "task" / "test.jsonl"
    path.write_text(path.read_text().replace("film", "movie") + "\n".join(path.read_text().splitlines()[:1]) + "\n")
    test = opened("examples", run=run.id)
    assert "they have changed since" in words(test) and "The sentences are not on this machine" in words(test)
    assert "text" not in listed(test)


def test_a_typed_sentence_without_weights_is_explained(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"], look="typed")
    assert test.info and not test.warning
    test.text_input(key="control.sentence").input("a film").run()
    assert not test.exception and len(test.warning) == 1 and "weights of both models" in test.warning[0].value
    assert link(test)["sentence"] == "a film" and len(charts(test)) == 6


@pytest.mark.nightly
def test_a_typed_sentence_gets_three_predictions_and_attributions(lived: Path, use: Use, tmp_path: Path) -> None:
    run = live_store(lived / "runs", tmp_path, use)
    test = asked("examples", run=run.id, look="typed", sentence="the film was good and funny")
    assert not test.exception and not test.warning and not test.error
    figure = token_figure(test)
    assert figure["layout"]["xaxis"]["ticktext"] == ["pre-trained", "grafted", "fine-tuned"]
    names = figure["layout"]["yaxis"]["ticktext"]
    assert names[0].startswith("<i>(") and "film" in names and "funny" in names
    gaps = next(d.value for d in test.dataframe if "gap" in d.value)
    assert (gaps["gap"].abs() < 0.05).all() and len(gaps) == 3
    again = asked("examples", **link(test))
    assert token_figure(again)["data"] == figure["data"], "a copied link opens the same view"
    other = asked("examples", **{**link(test), "target": "0", "baseline": "zero", "steps": "20"})
    assert other.query_params["steps"] in ("20", ["20"]) and token_figure(other)["data"] != figure["data"]


@pytest.mark.slow
def test_a_stored_example_is_explained_and_its_predictions_are_the_runs(lived: Path, use: Use, tmp_path: Path) -> None:
    run = live_store(lived / "runs", tmp_path, use)
    test = asked("examples", run=run.id, example="test-2", explain="yes", method="layer-conductance", of="finetuned")
    assert not test.exception and not test.warning
    assert len(charts(test)) == 9
    ids, _, logits = run.logits("finetuned")
    z = logits[list(ids).index("test-2")].astype(float)
    share = np.exp(z.max()) / np.exp(z).sum()
    assert f"{100 * share:.1f}% confident" in words(test)


@pytest.mark.nightly
def test_pairs_have_two_fields_and_the_prompt_is_told(readouts: dict[str, Path], use: Use, tmp_path: Path) -> None:
    run = live_store(readouts["prompt"], tmp_path, use)
    test = asked("examples", run=run.id, look="typed", sentence="the film was good")
    assert [f.label for f in test.text_input if f.key in ("control.sentence", "control.sentence_b")] == [
        "Premise", "Hypothesis"
    ]  # fmt: skip
    test.text_input(key="control.sentence_b").input("it was dull").run()
    assert not test.exception and not test.warning
    names = token_figure(test)["layout"]["yaxis"]["ticktext"]
    assert "dull" in names and any("mask" in name and name.startswith("<i>") for name in names)


@pytest.mark.nightly
def test_the_causal_readout_has_no_mask_baseline_and_an_answer(
    readouts: dict[str, Path], use: Use, tmp_path: Path
) -> None:
    run = live_store(readouts["causal"], tmp_path, use)
    test = asked("examples", run=run.id, look="typed", sentence="the film was good", baseline="mask")
    assert not test.exception and not test.warning
    assert "baseline" not in link(test), "a readout without a mask has no baseline of it: the default is drawn"
    assert box(test, "Against").value == "zero" and "the mask token" not in box(test, "Against").options
    layers = asked("examples", **{**link(test), "method": "layer-conductance"})
    assert not layers.exception and "(answer)" in json.dumps(drawn(layers))


def test_a_method_that_the_architecture_does_not_have_is_said(lived: Path, use: Use, tmp_path: Path) -> None:
    run = live_store(lived / "runs", tmp_path, use)
    record = json.loads((run.path / "run.json").read_text())
    record["architecture"] |= {"known": False, "layers": 0}
    (run.path / "run.json").write_text(json.dumps(record))
    test = asked("examples", run=run.id, explain="yes", method="layer-conductance")
    assert not test.exception and "Layer conductance is not applicable here" in words(test)
    assert len(charts(test)) == 7


@pytest.mark.slow
def test_slices_by_class_length_and_the_datas_own_columns(tmp_path: Path, use: Use) -> None:
    task = tiny_task(tmp_path / "task", rows=128)
    with_columns(tmp_path / "task", source=lambda n: "web" if n % 3 else "book")
    run = run_of(task, tmp_path / "runs", n={"validation": 64, "test": 64})
    (run.path / "run.json").write_text(run.record.model_dump_json())
    use(tmp_path / "runs")
    test = opened("examples")
    assert not test.exception
    pills = next(group for group in test.button_group if group.key == "control.slices")
    assert list(pills.value) == ["class", "words", "source"]
    assert "comparisons" in words(test)
    before = next(chart for chart in charts(test) if chart.key == "chart.slices").proto.alt
    pills.set_value(["source"]).run()
    after = next(chart for chart in charts(test) if chart.key == "chart.slices").proto.alt
    assert "2 slices" in after and after != before and test.query_params["slices"] == "source"


def test_without_the_data_slices_are_by_class(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["movement"])
    assert "need the task's data on this machine" in words(test)
