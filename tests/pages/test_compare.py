"""Tests of comparing runs: the runs in the address are shown, and impossible comparisons are explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.fake_run import fake_run
from tests.ui.driven import charts, copied, figures, lacks, link, opened, said, table, with_tables
from tests.ui.shared_store import SMALL


def compared(ids: dict[str, str], *names: str, **query: str) -> AppTest:
    return opened("compare", runs=",".join(ids[name] for name in names), **query)


def drawn(test: AppTest, title: str) -> dict[str, dict[str, Any]]:
    """Return the traces of the figure of the card with this title, by name."""
    without = ("## Scores", "## Beyond the null", "## Area under both curves")  # over several cards, or numbers
    titles = [m.value for m in test.markdown if m.value.startswith("## ") and m.value not in without]
    return {trace["name"]: trace for trace in figures(test)[titles.index(f"## {title}")]["data"]}


@pytest.mark.nightly
def test_the_runs_and_the_baseline_of_the_address_are_shown_and_stay_there(ids: dict[str, str]) -> None:
    query = {"runs": f"{ids['random']},{ids['movement']}", "baseline": ids["movement"]}
    test = opened("compare", **query)
    assert link(test).items() >= query.items() and {*drawn(test, "Accuracy − baseline")} == {"random"}
    differences = with_tables(test).dataframe[0].value.set_index("metric")["value"]
    test.selectbox[0].select(ids["random"]).run()
    turned = test.dataframe[0].value.set_index("metric")["value"]
    assert "baseline" not in test.query_params, "the first run is the baseline without an address"
    assert turned["accuracy"] == -differences["accuracy"]


@pytest.mark.nightly
def test_without_an_address_the_localizers_beside_the_last_run_are_compared(ids: dict[str, str]) -> None:
    test = opened("compare", run=ids["stagewise0"])
    assert {*test.query_params} == {"run"}, "the run says the rest"
    first, *others = copied(test)["runs"].split(",")
    assert first == ids["stagewise0"] and {*others} == {ids["movement"], ids["random"]}
    assert {*drawn(test, "Accuracy − baseline")} == {"top movement", "random"}


@pytest.mark.slow
def test_runs_of_one_localizer_are_told_apart_by_more_than_colour(ids: dict[str, str]) -> None:
    lines = drawn(compared(ids, "stagewise0", "stagewise1"), "Accuracy by region size")
    one, other = (lines[f"stagewise, seed {seed}"] for seed in (0, 1))
    assert one["line"]["color"] == other["line"]["color"]
    assert one["line"]["dash"] != other["line"]["dash"] and one["marker"]["symbol"] != other["marker"]["symbol"]


@pytest.mark.slow
def test_areas_under_both_curves_stand_beside_the_curves(ids: dict[str, str]) -> None:
    test = compared(ids, "random", "movement")
    (areas,) = [one.value for one in test.table if "run" in one.value]
    assert areas["run"].tolist() == ["random", "top movement"]
    assert areas["graft gives, % of the gain"].str.contains("–").all()
    assert "Mean share of the gain over region sizes from" in said(test, "caption")


@pytest.mark.parametrize(
    "gone", [pytest.param("gone-1,", marks=pytest.mark.nightly), ""], ids=["an unknown one", "a beginning"]
)
def test_unknown_runs_are_named_and_the_beginning_of_an_id_is_enough(gone: str, ids: dict[str, str]) -> None:
    test = opened("compare", runs=f"{gone}{ids['random'][:-2]},{ids['movement']}")
    assert gone.strip(",") in said(test, "warning") and len(charts(test)) == 9
    assert test.query_params["runs"] == f"{ids['random']},{ids['movement']}"


def test_one_run_or_none_is_explained_with_a_way_on(ids: dict[str, str]) -> None:
    alone = opened("compare", runs=ids["stagewise0"])
    assert said(alone, "info") and not charts(alone)
    alone.button(key="compare.set.1").click().run()
    assert alone.query_params["runs"] == f"{ids['stagewise0']},{ids['stagewise1']}" and len(charts(alone)) == 9
    alone.button(key="compare.set.0").click().run()
    assert alone.multiselect[0].value == [ids[name] for name in ("stagewise0", "movement", "random")]
    assert "runs" not in alone.query_params, "as it opens without an address"
    alone.multiselect[0].set_value([]).run()
    assert alone.query_params["runs"] == "none" and said(alone, "info") and said(opened("compare", runs="none"), "info")


@pytest.mark.nightly
def test_a_copied_link_shows_the_same_runs_once_there_are_more(
    own_copy: Path, made: tuple[Path, dict[str, str]]
) -> None:
    run = made[1]["stagewise0"]
    runs = copied(opened("compare", run=run))["runs"]
    own = Store(own_copy).open(run)
    more = fake_run(Store(own_copy), localizer="learned", sizes=own.spec.sizes, **SMALL)
    assert more.record.size == own.record.size and more.id in opened("compare", run=run).multiselect[0].value
    again = opened("compare", run=run, runs=runs)
    assert ",".join(again.multiselect[0].value) == runs == again.query_params["runs"] and not copied(again)


@pytest.mark.nightly
def test_runs_of_other_tasks_keep_their_values_and_the_page_says_what_is_missing(ids: dict[str, str]) -> None:
    test = compared(ids, "stagewise0", "movement", "paraphrase")
    why = ("MRPC · tiny-base, 5%** has scores, but no difference", "another task (MRPC, not SST-2)")
    assert not lacks(said(test, "info"), *why) and len(charts(test)) == 9
    differences, values = (with_tables(test).dataframe[place].value for place in (0, 3))
    tuned = {f"fine-tuned, {name} · tiny-base" for name in ("SST-2", "MRPC")}
    runs = {*values["run"]}
    assert len(runs) == 5 and {name for name in runs if name.startswith("fine-tuned")} == tuned
    assert {name.split(",")[0] for name in differences["run"]} == {"top movement"}


@pytest.mark.nightly
def test_finetuned_models_can_be_looked_at_where_pairs_differ(ids: dict[str, str]) -> None:
    differ, same = compared(ids, "stagewise0", "paraphrase", state="finetuned"), compared(ids, "stagewise0", "movement")
    offered = ["Compare the" in [control.label for control in test.segmented_control] for test in (differ, same)]
    assert offered == [True, False] and not differ.exception


@pytest.mark.nightly
def test_regions_of_unlike_models_and_tiny_other_data_are_explained(empty: Path) -> None:
    big = {**SMALL, "base": "demo/big", "width": 24, "n": {"validation": 8, "test": 9}}
    runs = [fake_run(Store(empty), sizes=("1%",), **told).id for told in (SMALL, big)]
    test = opened("compare", runs=",".join(runs))
    why = ("cannot be compared: the models have other parameters", "on the 9 of 120 examples")
    assert not lacks(said(test, "info"), *why) and not test.get("segmented_control")


@pytest.mark.nightly
def test_equal_specs_are_said_to_repeat_each_other(empty: Path) -> None:
    runs = [fake_run(Store(empty), sizes=("1%",), **SMALL).id for _ in range(2)]
    test = with_tables(opened("compare", runs=",".join(runs)))
    assert table(test, "field")["field"].tolist() == ["run"] and "repeat each other" in said(test)


@pytest.mark.nightly
def test_more_than_six_runs_are_cut_and_it_is_said(empty: Path) -> None:
    runs = [fake_run(Store(empty), seed=seed, sizes=("1%",), **SMALL).id for seed in range(7)]
    test = opened("compare", runs=",".join(runs))
    assert "The first 6 are shown" in said(test, "warning") and len(test.query_params["runs"].split(",")) == 6


@pytest.mark.nightly
def test_runs_without_tables_or_task_still_open(own_copy: Path, made: tuple[Path, dict[str, str]]) -> None:
    for name, changed in (("movement", {}), ("random", {"task": None})):
        path = own_copy / made[1][name] / "run.json"
        record = json.loads(path.read_text())
        files = {file: told for file, told in record["files"].items() if file[:5] not in ("predi", "curve")}
        path.write_text(json.dumps({**record, "files": files, **changed}))
    test = compared(made[1], "movement", "random", "stagewise0")
    assert "does not say what it was scored on" in said(test, "info") and not test.error
    assert not compared(made[1], "random", "movement", baseline=made[1]["random"]).exception


def test_a_store_without_a_finished_run_says_so(empty: Path) -> None:
    Store(empty).create(RunSpec(base="org/base", finetuned="org/tuned", task="sst2"), size=None)
    test = opened("compare")
    assert said(test, "info") and not test.multiselect
