"""Tests of comparing runs: the runs in the address are shown, and impossible comparisons are explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.fake_run import fake_run
from tests.pages.test_pages import charts, copied, opened, with_tables, words
from tests.ui.shared_store import SMALL


def compared(ids: dict[str, str], *names: str, **query: str) -> AppTest:
    return opened("compare", runs=",".join(ids[name] for name in names), **query)


def drawn(test: AppTest, title: str) -> dict:
    """Return the figure of the card with this title."""
    without = ("## Scores", "## Beyond the null", "## Area under both curves")  # over several cards, or numbers
    titles = [m.value for m in test.markdown if m.value.startswith("## ") and m.value not in without]
    place = titles.index(f"## {title}")
    return json.loads(charts(test)[place].proto.spec)


@pytest.mark.nightly
def test_the_runs_and_the_baseline_of_the_address_are_shown_and_stay_there(ids: dict[str, str]) -> None:
    test = compared(ids, "random", "movement", baseline=ids["movement"])
    assert not test.exception
    assert test.query_params["runs"] == f"{ids['random']},{ids['movement']}"
    assert test.query_params["baseline"] == ids["movement"]
    shown = drawn(test, "Accuracy − baseline")
    assert {trace["name"] for trace in shown["data"]} == {"random"}


@pytest.mark.nightly
def test_without_an_address_the_localizers_beside_the_last_run_are_compared(ids: dict[str, str]) -> None:
    test = opened("compare", run=ids["stagewise0"])
    assert set(test.query_params) == {"run"}, "the run says the rest"
    compared = copied(test)["runs"].split(",")
    assert compared[0] == ids["stagewise0"]
    assert set(compared) == {ids[name] for name in ("stagewise0", "movement", "random")}
    shown = drawn(test, "Accuracy − baseline")
    assert {trace["name"] for trace in shown["data"]} == {"top movement", "random"}


@pytest.mark.slow
def test_runs_of_one_localizer_are_told_apart_by_more_than_colour(ids: dict[str, str]) -> None:
    test = compared(ids, "stagewise0", "stagewise1")
    lines = {t["name"]: t for t in drawn(test, "Accuracy by region size")["data"]}
    one, other = lines["stagewise, seed 0"], lines["stagewise, seed 1"]
    assert one["line"]["color"] == other["line"]["color"]
    assert one["line"]["dash"] != other["line"]["dash"] and one["marker"]["symbol"] != other["marker"]["symbol"]


@pytest.mark.slow
def test_areas_under_both_curves_stand_beside_the_curves(ids: dict[str, str]) -> None:
    test = compared(ids, "random", "movement")
    (table,) = [one.value for one in test.table if "run" in one.value]
    assert table["run"].tolist() == ["random", "top movement"]
    assert table["graft gives, % of the gain"].str.contains("–").all()
    assert any("Mean share of the gain over region sizes from" in caption.value for caption in test.caption)


@pytest.mark.nightly
def test_unknown_runs_are_named_and_the_others_shown(ids: dict[str, str]) -> None:
    test = opened("compare", runs=f"gone-1,{ids['random']},{ids['movement']}")
    assert not test.exception and len(charts(test)) == 9
    assert "gone-1" in test.warning[0].value
    assert test.query_params["runs"] == f"{ids['random']},{ids['movement']}"


def test_the_beginning_of_an_id_is_enough(ids: dict[str, str]) -> None:
    test = opened("compare", runs=f"{ids['random'][:-2]},{ids['movement']}")
    assert test.query_params["runs"] == f"{ids['random']},{ids['movement']}"


def test_one_run_or_none_is_explained_with_a_way_on(ids: dict[str, str]) -> None:
    alone = opened("compare", runs=ids["stagewise0"])
    assert not alone.exception and not charts(alone)
    assert alone.info
    alone.button(key="compare.set.1").click().run()
    assert alone.query_params["runs"] == f"{ids['stagewise0']},{ids['stagewise1']}"
    assert len(charts(alone)) == 9
    alone.multiselect[0].set_value([]).run()
    assert alone.info and alone.query_params["runs"] == "none"
    assert opened("compare", runs="none").info


def test_the_buttons_take_localizers_and_seeds(ids: dict[str, str]) -> None:
    test = compared(ids, "stagewise0", "stagewise1")
    test.button(key="compare.set.0").click().run()
    assert test.multiselect[0].value == [ids[name] for name in ("stagewise0", "movement", "random")]
    assert "runs" not in test.query_params, "as it opens without an address"


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
def test_another_baseline_turns_the_differences(ids: dict[str, str]) -> None:
    test = with_tables(compared(ids, "movement", "random"))
    before = test.dataframe[0].value.set_index("metric").loc["accuracy", "value"]
    test.selectbox[0].select(ids["random"]).run()
    after = test.dataframe[0].value.set_index("metric").loc["accuracy", "value"]
    assert test.query_params["baseline"] == ids["random"] and after == -before


@pytest.mark.nightly
def test_runs_of_other_tasks_keep_their_values_and_the_page_says_what_is_missing(ids: dict[str, str]) -> None:
    test = compared(ids, "stagewise0", "movement", "paraphrase")
    assert not test.exception
    infos = "\n".join(info.value for info in test.info).replace("\\", "")
    assert "MRPC · tiny-base, 5%** has scores, but no difference" in infos
    assert "another task (MRPC, not SST-2)" in infos
    differences, values = (with_tables(test).dataframe[place].value for place in (0, 3))
    assert len(set(values["run"])) == 5 and {n for n in values["run"] if n.startswith("fine-tuned")} == {
        "fine-tuned, SST-2 · tiny-base", "fine-tuned, MRPC · tiny-base",
    }  # fmt: skip
    assert {name.split(",")[0] for name in differences["run"]} == {"top movement"}
    assert len(charts(test)) == 9


@pytest.mark.nightly
def test_finetuned_models_can_be_looked_at_where_pairs_differ(ids: dict[str, str]) -> None:
    test = compared(ids, "stagewise0", "paraphrase", state="finetuned")
    assert not test.exception
    assert "Compare the" in [control.label for control in test.segmented_control]
    assert "Compare the" not in [c.label for c in compared(ids, "stagewise0", "movement").segmented_control]


@pytest.mark.nightly
def test_regions_of_unlike_models_and_tiny_other_data_are_explained(user_runs: Path, monkeypatch) -> None:
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: user_runs)
    store = Store(user_runs)
    one = fake_run(store, sizes=("1%",), **SMALL)
    other = fake_run(store, sizes=("1%",), base="demo/big", **{**SMALL, "width": 24, "n": {"validation": 8, "test": 9}})
    test = opened("compare", runs=f"{one.id},{other.id}")
    assert not test.exception
    infos = "\n".join(info.value for info in test.info).replace("\\", "")
    assert "cannot be compared: the models have other parameters" in infos and not test.get("segmented_control")
    assert "on the 9 of 120 examples" in infos


@pytest.mark.nightly
def test_equal_specs_are_said_to_repeat_each_other(user_runs: Path, monkeypatch) -> None:
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: user_runs)
    runs = [fake_run(Store(user_runs), sizes=("1%",), **SMALL) for _ in range(2)]
    test = with_tables(opened("compare", runs=",".join(run.id for run in runs)))
    (specs,) = [table.value for table in test.dataframe if "field" in table.value]
    assert not test.exception and specs["field"].tolist() == ["run"] and "repeat each other" in words(test)


@pytest.mark.nightly
def test_more_than_six_runs_are_cut_and_it_is_said(user_runs: Path, monkeypatch) -> None:
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: user_runs)
    runs = [fake_run(Store(user_runs), seed=seed, sizes=("1%",), **SMALL) for seed in range(7)]
    test = opened("compare", runs=",".join(run.id for run in runs))
    assert not test.exception and "The first 6 are shown" in test.warning[0].value
    assert len(test.query_params["runs"].split(",")) == 6


def test_a_broken_file_is_a_sentence(own_copy: Path, made: tuple[Path, dict[str, str]]) -> None:
    ids = made[1]
    path = own_copy / ids["movement"] / "predictions.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    test = compared(ids, "movement", "random")
    assert not test.exception and "predictions.parquet" in test.error[0].value


@pytest.mark.nightly
def test_runs_without_tables_or_task_still_open(own_copy: Path, made: tuple[Path, dict[str, str]]) -> None:
    ids = made[1]
    for name in ("movement", "random"):
        path = own_copy / ids[name] / "run.json"
        record = json.loads(path.read_text())
        for table in ("predictions", "curve"):
            del record["files"][f"{table}.parquet"]
        path.write_text(json.dumps({**record, "task": None} if name == "random" else record))
    test = compared(ids, "movement", "random", "stagewise0")
    assert not test.exception and not test.error
    assert "does not say what it was scored on" in "\n".join(info.value for info in test.info)
    assert not compared(ids, "random", "movement", baseline=ids["random"]).exception


def test_a_store_without_a_finished_run_says_so(empty: Path) -> None:
    Store(empty).create(RunSpec(base="org/base", finetuned="org/tuned", task="sst2"), size=None)
    test = opened("compare")
    assert not test.exception and test.info and not test.multiselect
