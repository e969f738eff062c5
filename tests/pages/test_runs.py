"""Tests of the library and of the page of jobs: filter, open, note, delete with confirmation, messages for runs that
cannot be opened; and of comparing runs: those in the address are shown, impossible comparisons are explained."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.jobs.slots import take_ticket
from skillviz.runs.folder import GROWING, RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.ui import page_table
from skillviz.ui.pages import runs as runs_page
from skillviz.ui.pages.jobs import row
from skillviz.ui.pages.runs import _group_label
from tests.cli.calls import call
from tests.fake_run import fake_run
from tests.show.test_briefs import brief
from tests.tiny import tiny_pair, tiny_task
from tests.ui.driven import (
    box,
    button,
    charts,
    copied,
    figures,
    filled,
    labels,
    lacks,
    link,
    links,
    opened,
    pressed,
    said,
    table,
    with_tables,
)
from tests.ui.shared_store import SMALL

CHOICES = ("search", "localizers", "from", "chosen")
NOTE = "the one for the talk"


def listed(test: AppTest) -> list[str]:
    return [run_id for table in test.dataframe for run_id in table.value["run"]]


def choose(*run_ids: str) -> AppTest:
    return filled(opened("runs"), "Chosen runs", list(run_ids))


def draft(root: Path, **fields: str) -> RunFolder:
    return Store(root).create(RunSpec(base="a/b", finetuned="a/c", task="sst2", **fields))


@pytest.fixture
def cancelled(own_copy: Path) -> RunFolder:
    folder = draft(own_copy)
    folder.start()
    folder.cancel()
    return folder


@pytest.fixture
def newest(own_copy: Path) -> str:
    return Store(own_copy).list()[0].id


def test_lists_all_runs_with_counts_and_filters_them(ids: dict[str, str]) -> None:
    test = opened("runs")
    assert "**5 runs** on 2 tasks" in test.markdown[0].value and sorted(listed(test)) == sorted(ids.values())
    assert listed(filled(test, "Search", "tiny-mrpc")) == [ids["paraphrase"]]
    assert listed(filled(filled(test, "Search", ""), "Localizers", ["movement"])) == [ids["movement"]]
    assert not listed(filled(test, "Search", "nothing has this")) and "No run matches" in said(test)
    assert sorted(listed(pressed(test, "Clear filters"))) == sorted(ids.values())


def test_a_copied_link_shows_the_same_runs(ids: dict[str, str]) -> None:
    test = opened("runs")
    assert not {*CHOICES} & {*test.query_params}, "defaults are left out"
    chosen = [ids["movement"], ids["stagewise1"]]
    filled(filled(test, "Search", "tiny sst2"), "Localizers", ["movement", "stagewise"])
    filled(filled(test, "From", "you"), "Chosen runs", chosen)
    query = {"search": "tiny sst2", "localizers": "movement,stagewise", "from": "you", "chosen": ",".join(chosen)}
    assert link(test) == query
    again = opened("runs", **query)
    assert {*listed(again)} == {ids[name] for name in ("movement", "stagewise0", "stagewise1")}
    assert (listed(again), box(again, "Chosen runs").value, link(again)) == (listed(test), chosen, query)


def test_two_numbers_of_the_runs_are_plotted_and_a_mark_opens_its_run(
    ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    test = opened("runs")
    test.session_state["table.plot"] = True
    (figure,) = figures(test.run())
    marks = [run for trace in figure["data"] for run in trace["customdata"]]
    assert sorted(marks) == sorted(ids.values()) and "share of the gain" in figure["layout"]["yaxis"]["title"]["text"]
    (figure,) = figures(filled(test, "Up", "ece"))
    assert "ECE" in figure["layout"]["yaxis"]["title"]["text"] and test.query_params["y"] == "ece"
    goes_to = Mock()
    monkeypatch.setattr(runs_page.st, "switch_page", goes_to)
    test.session_state[runs_page.POINTED] = ids["movement"]
    test.run()
    assert goes_to.call_args.kwargs == {"query_params": {"run": ids["movement"]}}


def test_what_is_gone_is_passed_over(ids: dict[str, str]) -> None:
    test = opened("runs", localizers="magic", chosen="gone", **{"from": "mars"})
    assert len(listed(test)) == len(ids) and not {*CHOICES} & {*test.query_params} and not test.exception


def test_shipped_runs_cannot_be_deleted(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "mine"))
    delete = button(choose(ids["movement"]), "Delete")
    assert delete.disabled and "ship with skillviz" in delete.proto.help


@pytest.mark.parametrize(("count", "enabled"), [(0, []), (1, ["Open"]), (2, ["Compare"]), (5, ["Compare"])])
def test_each_action_says_how_many_runs_it_takes(count: int, enabled: list[str], ids: dict[str, str]) -> None:
    test = choose(*list(ids.values())[:count])
    assert [b.label for b in test.button if b.label in ("Open", "Compare") and not b.disabled] == enabled
    (download,) = (b for b in test.get("download_button") if not b.proto.label.startswith("Table"))
    assert download.proto.disabled == (count == 0)


def test_marked_rows_and_the_box_are_the_same_choice(ids: dict[str, str]) -> None:
    test, chosen = opened("runs"), [ids["paraphrase"], ids["random"]]
    folds = labels(test, "expander")
    assert labels(filled(test, "Chosen runs", chosen), "expander") == folds, "else the keyboard's place is lost"
    rows = [(table.value["run"], test.session_state[table.key]["selection"]["rows"]) for table in test.dataframe]
    assert sorted(run for table, marked in rows for run in table.iloc[marked]) == sorted(chosen)


def test_study_variants_are_shown_by_a_switch(own_copy: Path) -> None:
    variant = fake_run(Store(own_copy), seed=0, finetuned="demo/tiny-sst2", sizes=("1%", "10%"), **SMALL).id
    test = opened("runs")
    before = listed(test)
    assert variant in listed(opened("runs", **{"from": "you"})), "it is never missing among one's own"
    after = listed(test.toggle[0].set_value(True).run())
    assert len(after) == len(before) + 1 and variant in {*before, *after}


def test_a_library_without_a_finished_run_says_what_comes_next(own_copy: Path, cancelled: RunFolder) -> None:
    for run in Store(own_copy).list():
        Store(own_copy).delete(run.id)
    assert "No run is finished yet" in said(opened("runs"))


def test_a_note_is_kept_and_found(own_copy: Path, newest: str) -> None:
    pressed(choose(newest).text_area[0].input(NOTE).run(), "Save note")
    assert (Store(own_copy).note(newest), listed(opened("runs", search="for the talk"))) == (NOTE, [newest])


def test_a_tag_of_a_note_is_a_column_and_is_found(own_copy: Path, newest: str) -> None:
    Store(own_copy).set_note(newest, "# draft\n#Talk, and #talk again #2026-fall https://a.b/#top")
    rows = opened("runs", search="#talk").dataframe[0].value
    assert (rows["run"].tolist(), list(rows["tags"][0])) == ([newest], ["#talk", "#2026-fall"])
    assert listed(opened("runs", search="#tal")) == []


def test_a_note_that_cannot_be_kept_says_so_and_stays_in_its_box(own_copy: Path, newest: str) -> None:
    (own_copy / ".notes").write_text("a file where the folder should be")
    test = choose(newest).text_area[0].input(NOTE).run()
    assert "cannot be written" in said(pressed(test, "Save note"), "error") and test.text_area[0].value == NOTE


@pytest.mark.parametrize("count", [1, 2])
def test_delete_asks_first_and_removes_only_those_runs(count: int, own_copy: Path) -> None:
    every = [run.id for run in Store(own_copy).list()]
    gone, left = every[:count], sorted(every[count:])
    test = pressed(choose(*gone), "Delete")
    assert all((own_copy / run_id).is_dir() for run_id in gone)
    if count > 1:
        assert not lacks(said(test), *gone) and said(test).count(" · seed ") == count, "the runs have names there"
    pressed(test, "Delete for good")
    assert sorted(path.name for path in own_copy.glob("[!.]*")) == left == sorted(listed(opened("runs")))
    assert said(test, "success") == f"{count} run{'s' * (count > 1)} deleted."
    assert not test.run().success and box(opened("runs"), "Chosen runs").value == [], "it is said once"


def test_a_run_that_cannot_be_deleted_is_explained(own_copy: Path, newest: str) -> None:
    test = pressed(choose(newest), "Delete")
    shutil.rmtree(own_copy / newest)
    assert "nothing was deleted" in said(pressed(test, "Delete for good"), "error") and not test.success


def test_keep_it_keeps_it(own_copy: Path, newest: str) -> None:
    assert newest in listed(pressed(pressed(choose(newest), "Delete"), "Keep")) and (own_copy / newest).is_dir()


def test_unfinished_and_broken_runs_are_named_with_their_reason(own_copy: Path, cancelled: RunFolder) -> None:
    bad = own_copy / "not-a-run"
    bad.mkdir()
    (bad / "run.json").write_text("{}")
    test = opened("runs")
    assert "2 did not finish" in test.markdown[0].value and "2 runs that cannot be opened" in test.expander[-1].label
    assert not lacks(said(test), "cancelled", "not-a-run", "unreadable")


def test_the_queue_is_shown_and_can_be_left(own_copy: Path, paper: list[str]) -> None:
    store, (first, second) = Store(own_copy), [draft(own_copy, device="cpu").id for _ in range(2)]
    for name in (first, second):
        take_ticket(own_copy, "cpu", name)
    test = opened("runs")
    assert "did not finish" not in test.markdown[0].value, "they are on their way"
    assert not lacks(said(test), "Starting; **", "Waits for **cpu**: 1 job is ahead of it.")
    test.button(key=f"jobs.cancel.{second}").click().run()
    assert jobs.status(store, second).status == "cancelled" and jobs.status(store, first).is_open
    assert labels(test).count("Cancel") == 1
    test.button(key=f"jobs.resume.{second}").click().run()
    assert paper == [second] and jobs.status(store, second).position == 1


def test_a_failed_run_says_its_class_and_can_be_resumed_or_deleted(own_copy: Path, paper: list[str]) -> None:
    folder = draft(own_copy)
    folder.start()
    folder.fail(Failure(kind="BadData", message="no column 'text'", hint="h"))
    test = opened("runs")
    assert "Bad data: no column 'text' Correct the data" in said(test) and "## Jobs" not in said(test)
    assert "## Jobs" in said(pressed(test, "Resume")) and paper == [folder.id]
    assert "2 runs" not in "".join(labels(test, "expander")), "it is no run that cannot be opened any more"


def test_a_job_that_cannot_be_resumed_is_explained(cancelled: RunFolder, paper: list[str]) -> None:
    test = opened("runs")
    shutil.rmtree(cancelled.path)
    assert "there is no run" in said(pressed(test, "Resume")) and paper == []


def test_a_phone_sees_size_and_scores_first(own_copy: Path) -> None:
    table = opened("runs").dataframe[0]
    seen, first = list(table.proto.column_order), ["localizer", "share", "graft", "recovered"]
    assert list(table.value.columns)[:4] == seen[:4] == first and "run" not in seen, "ids are in the downloads"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("order", [1, -1])
def test_a_task_of_several_metrics_has_the_best_graft_in_each(order: int) -> None:
    scores = [("exact_match", 0.0), ("exact_match", 0.25), ("perplexity", 4.5), ("perplexity", 3.25)][::order]
    briefs = [brief(seed=seed, metric=metric, grafted=value) for seed, (metric, value) in enumerate(scores)]
    label = _group_label([*briefs, brief(seed=9, metric="accuracy", grafted=None)])
    assert label.endswith("· 5 runs · graft exact match up to 25.0% · graft perplexity down to 3.25")


@pytest.fixture
def store(empty: Path, paper: list[str]) -> Store:
    return Store(empty)


@pytest.fixture
def waiting(store: Store, tmp_path: Path) -> str:
    base, finetuned = map(str, tiny_pair(tmp_path))
    models = {"base": base, "finetuned": finetuned, "task": str(tiny_task(tmp_path))}
    return jobs.start(RunSpec(**models, sizes=("5%",), device="cpu"), store).run_id


def test_an_open_job_has_a_card_and_is_counted_and_a_cancelled_one_is_kept(store: Store, waiting: str) -> None:
    done = fake_run(store)
    assert [page_table._badge(name) for name in ("jobs", "runs")] == [" (1)", ""]
    test = opened("jobs")
    assert [table.value["Name"].tolist() for table in test.dataframe] == [[done.id]]
    assert "stagewise · 5% · seed 0**" in said(test, "markdown") and waiting not in said(test, "markdown")
    assert f"Run `{waiting}`" in said(test, "caption").splitlines(), "in its details"
    assert "Name" not in test.dataframe[0].proto.columns, "the id is for downloads"
    jobs.cancel(store, waiting)
    names = opened("jobs").dataframe[0].value
    assert dict(zip(names["Name"], names["Status"], strict=True)) == {waiting: "cancelled", done.id: "finished"}


def test_the_page_of_regions_shows_a_search_under_way(store: Store, waiting: str) -> None:
    fake_run(store)
    folder, fold = RunFolder(store.root / waiting), "A search is under way: watch its region grow"
    folder.start()
    told = {"search": 1, "searches": 1, "target": 4, "total": 50, "loss": 0.5, "left": 9.0}
    folder.event(phase="search", step=3, size=2, added=3, removed=1, **told)
    assert fold not in [expander.label for expander in opened("region").expander], "it has no region yet"
    layers = {"parameter": ["a"], "layer": [0], "kind": ["query"], "is_bias": [False], "rows": [2], "cols": [3]}
    drawn = {"step": 3, "total": 50, "target": 4, "loss": 0.5, "layers": {**layers, "selected": [2], "total": [6]}}
    (folder.work / GROWING).write_text(json.dumps(drawn))
    test = opened("region")
    assert fold in [expander.label for expander in test.expander]
    assert "The region after step 3 of 50" in said(test)


def test_a_job_of_another_machine_is_unknown_and_only_a_user_resumes_it(store: Store, waiting: str) -> None:
    (store.root / waiting / "work" / "process.json").write_text('{"pid": 1, "host": "elsewhere"}')
    test = opened("jobs")
    (warning,) = said(test, "warning").splitlines()[:1]
    assert warning.startswith("**It may still run elsewhere.** Whether this job still runs cannot be seen")
    assert "Cancel" not in labels(test) and page_table._badge("jobs") == ""
    listing = call("jobs", "list", "--json")
    assert [(job["status"], job["error"]["kind"]) for job in listing.json["jobs"]] == [("unknown", "unknown")]
    assert "cannot be seen" in listing.out and f"{waiting} is unknown." in call("jobs", "log", waiting).err
    assert not pressed(test, "Resume").exception and jobs.status(store, waiting).status == "queued"


def test_a_row_says_what_the_job_made_and_when(store: Store) -> None:
    run = fake_run(store)
    line = row(jobs.status(store, run.id), {run.id: "SST-2 · tiny (AdamW)"})
    ended = (run.record.finished or "")[:16].replace("T", " ")
    told = {"Status": "finished", "Name": run.id, "Job": "SST-2 · tiny (AdamW)", "Ended (UTC)": ended}
    assert line.items() >= told.items() and ended


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
    turned = test.selectbox[0].select(ids["random"]).run().dataframe[0].value.set_index("metric")["value"]
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
    test = opened("compare", runs=",".join([fake_run(Store(empty), sizes=("1%",), **told).id for told in (SMALL, big)]))
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
