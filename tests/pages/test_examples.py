"""Tests of the examples page: filters, the linked box, texts if available, and a real worker's explanations."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.example_sets import example_sets
from skillviz.runs.run import Run
from skillviz.runs.store import Store, library
from skillviz.ui.pages import examples
from tests.fake_run import fake_run
from tests.pages.conftest import OwnRun, Use
from tests.plots.frames import FOURTEEN
from tests.runs.test_texts import run_of, with_columns
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair, tiny_task
from tests.ui.driven import box, charts, figures, filled, labels, lacks, link, opened, pressed, said, table, with_tables

SMALL = {"layers": 1, "width": 8, "sizes": ("5%",), "steps": 2}


@pytest.fixture(scope="session")
def readouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make stores with one run each: `prompt` for a task of pairs with three labels, `causal` for two labels."""
    from skillviz.runs.produce import produce

    stores = {}
    for name, family, classes, pair in (("prompt", "roberta", 3, True), ("causal", "gpt2", 2, False)):
        folder = tmp_path_factory.mktemp(name)
        tiny_pair(folder, family, name, steps=5, labels=classes)
        tiny_task(folder, rows=48, labels=classes, pair=pair)
        produce(spec_of(folder), Store(folder / "runs"))
        stores[name] = folder / "runs"
    return stores


def with_texts(tmp_path: Path, use: Use, rows: int = 64, **told: object) -> Run:
    """Return a run on a tiny task whose data, in the folder `task`, are here."""
    run = run_of(tiny_task(tmp_path / "task", rows=rows), tmp_path / "runs", **told)
    (run.path / "run.json").write_text(run.record.model_dump_json())
    use(tmp_path / "runs")
    return run


def chart(test: AppTest, name: str):
    return next(chart.proto for chart in charts(test) if chart.key == f"chart.{name}")


def scatter_of(test: AppTest) -> dict:
    return json.loads(chart(test, "scatter").spec)


def listed(test: AppTest) -> pd.DataFrame:
    return table(with_tables(test), "grafted: true class")


def token_figure(test: AppTest) -> dict:
    return next(f for f in figures(test) if f["layout"].get("yaxis", {}).get("title", {}).get("text") == "token")


def marked(test: AppTest, name: str = "table") -> list[int]:
    return test.session_state[f"examples.{name}"]["selection"]["rows"]


def test_it_begins_with_what_the_run_says_and_the_example_whose_confidence_moved_most(ids: dict[str, str]) -> None:
    test, stored = opened("examples", run=ids["stagewise0"]), library().open(ids["stagewise0"])
    one, other = (stored.logits(state, "test")[2].argmax(1) for state in ("grafted", "finetuned"))
    counted = f"**{int((one != other).sum())} of 120**"
    assert not lacks(said(test), counted, "Accuracy, graft vs fine-tuned: :") and said(test).count("-badge[") == 1
    rows = listed(test)
    assert rows["graft − fine-tuned"].abs().is_monotonic_decreasing
    assert box(test, "Example").value == rows["example"].iloc[0]


def test_filters_narrow_box_and_table_and_stand_in_the_address(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"])
    shown, every = box(test, "Show"), len(box(test, "Example").options)
    few = next(option for option in shown.options if option.startswith("only fine"))
    count = int(few.rsplit("(", 1)[1].rstrip(")"))
    shown.select("finetuned").run()
    assert link(test)["case"] == "finetuned" and f"**{count}** of 120 examples" in said(test)
    assert len(box(test, "Example").options) == count < every == 120 and len(listed(test))
    named = [trace["name"] for trace in scatter_of(test)["data"] if trace.get("customdata")]
    assert named == [f"only fine-tuned right ({count})"]
    assert box(opened("examples", **link(test)), "Example").options == box(test, "Example").options


def test_a_saved_set_is_chosen_here_and_elsewhere_and_belongs_to_its_test_data(
    own_copy: Path, made: tuple[Path, dict[str, str]]
) -> None:
    ids = made[1]
    test = opened("examples", run=ids["stagewise0"], label="positive")
    pressed(filled(test, "Name", "<b>"), "Save ")
    assert "60 characters" in said(test, "error") and not example_sets(Store(own_copy), "sst2")
    pressed(filled(test, "Name", "mine"), "Save ")
    saved, every = example_sets(Store(own_copy), "sst2")["mine"], listed(opened("examples", run=ids["stagewise0"]))
    assert set(saved.ids) == set(every.loc[every["true class"] == "positive", "example"]) and not saved.by_answers
    assert link(test)["set"] == "mine" and "set mine" in box(test, "Slice by").value
    n = f"{len(saved.ids)} examples"
    assert n in said(opened("calibration", run=ids["movement"], set="mine"))
    other = fake_run(Store(own_copy), **SMALL, n={"validation": 4, "test": 9})
    for run, name in ((other.id, "mine"), (ids["stagewise0"], "gone")):
        test = opened("examples", run=run, set=name)
        assert f"'{name}'" in said(test) and n not in said(test) and box(test, "Named set").value == name
    pressed(opened("examples", run=ids["random"], set="mine"), "Delete mine")
    assert not example_sets(Store(own_copy), "sst2")


def test_no_example_that_passes_is_said(use: Use, tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path / "one"), **SMALL, n={"validation": 1, "test": 1})
    use(tmp_path / "one")
    test = opened("examples", run=run.id, case="grafted")
    assert said(test, "info") and len([figure for figure in figures(test) if not figure["data"]]) == 1


@pytest.mark.nightly
def test_the_chosen_example_is_ringed_marked_and_shown(ids: dict[str, str]) -> None:
    test = with_tables(opened("examples", run=ids["stagewise0"], example="test-7", sort="file"))
    assert "**test-7** · true class" in said(test) and box(test, "Example").value == "test-7"
    assert "chosen" in [trace["name"] for trace in scatter_of(test)["data"]] and marked(test) == [7]
    assert link(box(test, "Example").select("test-11").run())["example"] == "test-11" and "**test-11**" in said(test)
    box(test, "Example").select("test-90").run()
    assert marked(test) == [0] and listed(test)["example"][:2].tolist() == ["test-90", "test-0"]
    again = with_tables(opened("examples", run=ids["stagewise0"], example="test-90", sort="file"))
    again.session_state["examples.by_row"] = "test-90"
    assert marked(again.run()) == [90], "a marked row stays where it is"


def test_a_phone_has_text_class_and_both_answers_within_its_width(ids: dict[str, str]) -> None:
    test = with_tables(opened("examples", run=ids["stagewise0"], sort="file", example="test-3"))
    columns = ["example", "true class", "grafted", "fine-tuned"]
    (narrow,) = [frame.value for frame in test.dataframe if list(frame.value) == columns]
    wide, wanted = listed(test).head(50), narrow.copy()
    for state in columns[2:]:  # confidence of the answer, not of the true class
        is_right, of_true = wide[f"{state} says"] == wide["true class"], wide[f"{state}: true class"]
        confidence = of_true.where(is_right, 100 - of_true)
        wanted[state] = [f"{cell} {sure:.1f}%" for cell, sure in zip(wide[f"{state} says"], confidence, strict=True)]
    assert narrow.equals(wanted) and not is_right.all() and len(narrow) == 50
    assert marked(test, "narrow") == [3]
    assert sum(examples.ON_PHONE) <= 360 - 34, "pixels of the page at width 390, without the boxes of the rows"


def clicking() -> None:
    import streamlit as st

    from skillviz.ui.pages import examples

    def chosen(**selection: object) -> None:
        st.session_state["chart.scatter"] = {"selection": {"points": [], **selection}}

    chosen(points=[{"customdata": "test-3"}])
    examples._pointed()
    st.write(st.session_state["control.example"])
    for rows in ([1], []):
        st.session_state["examples.table"] = {"selection": {"rows": rows}}
        examples._row_marked("examples.table", ["test-9", "test-4"])
        st.write(st.session_state["control.example"])
    for area in ([{"x": [90, 40], "y": [0, 50]}], []):
        chosen(box=area)
        examples._dragged("confidence")
    examples._pointed()
    st.write(st.query_params["area"], st.session_state["control.example"])


def test_a_click_on_a_point_or_a_row_chooses_its_example_and_a_click_beside_none() -> None:
    assert said(opened(clicking)).splitlines() == ["test-3", "test-4", "test-4", "confidence_0.4_0.9_0_0.5 test-4"]


@pytest.mark.slow
def test_a_marked_area_narrows_the_table_is_framed_and_can_be_left(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"], area="confidence_0.5_1_0_0.5", marks="area")
    rows, layout = listed(test), scatter_of(test)["layout"]
    assert 0 < len(rows) < 120 and link(test)["area"] == "confidence_0.5_1_0_0.5"
    assert rows["fine-tuned: true class"].between(50, 100).all() and rows["grafted: true class"].between(0, 50).all()
    frames = [[shape[end] for end in ("x0", "x1", "y0", "y1")] for shape in layout["shapes"] if shape["type"] == "rect"]
    assert frames == [[50, 100, 0, 50]] and layout["dragmode"] == "select"
    assert len(listed(pressed(test, "Clear the area"))) == 120 and "area" not in test.query_params
    assert len(listed(opened("examples", run=ids["stagewise0"], area="everywhere"))) == 120


def test_an_area_of_a_measure_that_the_run_lacks_is_forgotten(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"], area="per_token_0.5_1_0_0.5")
    assert len(listed(test)) == 120 and "area" not in test.query_params and not test.exception


@pytest.mark.nightly
def test_many_classes(use: Use, tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path / "many"), labels=FOURTEEN, **SMALL, n={"validation": 60, "test": 140})
    use(tmp_path / "many")
    test = opened("examples", run=run.id, result="recall", complement="yes")
    assert not test.exception and len(charts(test)) == 8


@pytest.mark.nightly
def test_texts_are_shown_searched_and_measured_where_they_are_at_hand(use: Use, tmp_path: Path) -> None:
    run = with_texts(tmp_path, use)
    first = json.loads((tmp_path / "task" / "test.jsonl").read_text().splitlines()[0])["text"]
    test, word = opened("examples", run=run.id, sort="file"), first.split()[0]
    assert f"> {first}" in said(test) and listed(test)["text"].iloc[0] == first and not test.info
    test.text_input[0].input(word).run()
    assert link(test)["words"] == word and listed(test)["text"].str.contains(word, regex=False).all()
    longest = max(listed(test)["words"])
    test.text_input[0].input("").run().slider[0].set_range(longest, test.slider[0].max).run()
    assert listed(test)["words"].between(longest, 98).all() and link(test)["length"] != "all"


def test_where_the_data_belong_is_said_in_words(use: Use, tmp_path: Path) -> None:
    run, task = with_texts(tmp_path, use), tmp_path / "task" / "task.yaml"
    task.write_text(re.sub(r"(\w+)\.jsonl", r"${SKILLVIZ_ABSENT}/data/tiny_task/\1.jsonl", task.read_text()))
    text = said(opened("examples", run=run.id))
    assert not lacks(text, "`data/tiny_task` of the folder", "`SKILLVIZ_ABSENT`") and "${" not in text


def test_data_that_are_not_the_runs_own_are_never_shown(use: Use, tmp_path: Path) -> None:
    run, path = with_texts(tmp_path, use), tmp_path / "task" / "test.jsonl"
    path.write_text(path.read_text().replace("film", "movie") + "\n".join(path.read_text().splitlines()[:1]) + "\n")
    test = opened("examples", run=run.id)
    assert not lacks(said(test), "they have changed since", "The sentences are not on this machine")
    assert "text" not in listed(test)


def test_a_typed_sentence_without_weights_is_explained(ids: dict[str, str]) -> None:
    test = opened("examples", run=ids["stagewise0"], look="typed")
    assert said(test, "info") and not test.warning
    test.text_input(key="control.sentence").input("a film").run()
    assert "weights of both models" in said(test, "warning") and len(test.warning) == 1
    assert link(test)["sentence"] == "a film" and len(charts(test)) == 6


@pytest.mark.nightly
def test_a_typed_sentence_gets_three_predictions_and_attributions(alive: Run) -> None:
    test = opened("examples", run=alive.id, look="typed", sentence="the film was good and funny")
    assert not said(test, "warning", "error")
    figure, gaps = token_figure(test), table(test, "gap")["gap"]
    axes = figure["layout"]
    assert axes["xaxis"]["ticktext"] == ["pre-trained", "grafted", "fine-tuned"]
    names = axes["yaxis"]["ticktext"]
    assert names[0].startswith("<i>(") and not lacks(names, "film", "funny")
    assert (gaps.abs() < 0.05).all() and len(gaps) == 3
    assert token_figure(opened("examples", **link(test)))["data"] == figure["data"], "a copied link opens the same view"
    other = opened("examples", **{**link(test), "target": "0", "baseline": "zero", "steps": "20"})
    assert link(other)["steps"] == "20" and token_figure(other)["data"] != figure["data"]


@pytest.mark.slow
def test_an_edited_sentence_stands_beside_the_original_in_all_models(alive: Run) -> None:
    test = opened("examples", run=alive.id, look="typed", sentence="the film was good", edit="yes")
    before = len(charts(test))
    assert "Change a word" in said(test, "caption")
    test.text_area(key="control.edited").input("the film was terrible").run()
    assert "> the film was ~~good~~ **terrible**" in said(test) and len(charts(test)) == before + 2
    (moved,) = re.findall(r"fine-tuned ([\d.]+)% → ([\d.]+)% ", said(test))
    for words, share in zip(("the film was good", "the film was terrible"), moved, strict=True):
        typed = opened("examples", **{**link(test), "sentence": words})
        *_, confident = re.findall(r"([\d.]+)% confident", said(typed))
        assert float(share) in (pytest.approx(float(confident)), pytest.approx(100 - float(confident), abs=0.06))
    test.text_input(key="control.sentence").input("a dull story").run()
    assert test.text_area(key="control.edited").value == "a dull story", "another sentence starts its own edit"


@pytest.mark.slow
def test_a_stored_example_is_explained_and_its_predictions_are_the_runs(alive: Run) -> None:
    test = opened("examples", run=alive.id, example="test-2", explain="yes", method="layer-conductance", of="finetuned")
    ids, _, logits = alive.logits("finetuned")
    z = logits[list(ids).index("test-2")].astype(float)
    assert f"{100 * np.exp(z.max()) / np.exp(z).sum():.1f}% confident" in said(test)
    assert len(charts(test)) == 9 and not test.warning


@pytest.mark.nightly
def test_pairs_have_two_fields_and_the_prompt_is_told(readouts: dict[str, Path], own_run: OwnRun) -> None:
    test = opened("examples", run=own_run(readouts["prompt"]).id, look="typed", sentence="the film was good")
    fields = {field.key: field.label for field in test.text_input if (field.key or "").startswith("control.sentence")}
    assert fields == {"control.sentence": "Premise", "control.sentence_b": "Hypothesis"}
    test.text_input(key="control.sentence_b").input("it was dull").run()
    names = token_figure(test)["layout"]["yaxis"]["ticktext"]
    assert "dull" in names and any("mask" in name and name.startswith("<i>") for name in names)
    assert not said(test, "warning")


@pytest.mark.nightly
def test_the_causal_readout_has_no_mask_baseline_and_an_answer(readouts: dict[str, Path], own_run: OwnRun) -> None:
    run = own_run(readouts["causal"])
    test = opened("examples", run=run.id, look="typed", sentence="the film was good", baseline="mask")
    assert not said(test, "warning") and box(test, "Against").value == "zero"
    assert "baseline" not in link(test), "a readout without a mask has no baseline of it: the default is drawn"
    assert "the mask token" not in box(test, "Against").options
    layers = opened("examples", **{**link(test), "method": "layer-conductance"})
    assert not layers.exception and "(answer)" in json.dumps(figures(layers))


def test_a_method_that_the_architecture_does_not_have_is_said(alive: Run) -> None:
    path = alive.path / "run.json"
    record = json.loads(path.read_text())
    record["architecture"] |= {"known": False, "layers": 0}
    path.write_text(json.dumps(record))
    test = opened("examples", run=path.parent.name, explain="yes", method="layer-conductance")
    assert "Layer conductance is not applicable here" in said(test) and len(charts(test)) == 7


@pytest.mark.slow
def test_slices_by_class_length_and_the_datas_own_columns(tmp_path: Path, use: Use) -> None:
    tiny_task(tmp_path / "task", rows=128)
    with_columns(tmp_path / "task", source=lambda n: "web" if n % 3 else "book")
    run = run_of(tmp_path / "task" / "task.yaml", tmp_path / "runs", n={"validation": 64, "test": 64})
    (run.path / "run.json").write_text(run.record.model_dump_json())
    use(tmp_path / "runs")
    test = opened("examples", run=run.id)
    pills = next(group for group in test.button_group if group.key == "control.slices")
    assert list(pills.value) == ["class", "words", "source"]
    assert "The graft is " in said(test) and "comparisons" not in said(test)
    before = chart(test, "slices").alt
    pills.set_value(["source"]).run()
    assert "2 slices" in chart(test, "slices").alt != before and test.query_params["slices"] == "source"
