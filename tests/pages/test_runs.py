"""Tests of the library and of the page of jobs: filter, open, note, delete with confirmation, and messages for runs
that cannot be opened; the address holds the filters and the chosen runs. The menu counts open jobs, and ended ones are
kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.jobs.slots import take_ticket
from skillviz.runs.folder import RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.ui import page_table
from skillviz.ui.pages.jobs import row
from skillviz.ui.pages.runs import _group_label
from tests.cli.calls import call
from tests.fake_run import fake_run
from tests.show.test_entries import entry
from tests.tiny import tiny_pair, tiny_task
from tests.ui.driven import box, button, filled, labels, lacks, link, links, opened, pressed, said
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
    filled(test, "Search", "")
    assert listed(filled(test, "Localizers", ["movement"])) == [ids["movement"]]
    assert not listed(filled(test, "Search", "nothing has this")) and "No run matches" in said(test)
    assert sorted(listed(pressed(test, "Clear filters"))) == sorted(ids.values())


def test_a_copied_link_shows_the_same_runs(ids: dict[str, str]) -> None:
    test = opened("runs")
    assert not {*CHOICES} & {*test.query_params}, "defaults are left out"
    chosen = [ids["movement"], ids["stagewise1"]]
    filled(test, "Search", "tiny sst2")
    filled(test, "Localizers", ["movement", "stagewise"])
    filled(test, "From", "you")
    filled(test, "Chosen runs", chosen)
    query = {"search": "tiny sst2", "localizers": "movement,stagewise", "from": "you", "chosen": ",".join(chosen)}
    assert link(test) == query
    again = opened("runs", **query)
    assert {*listed(again)} == {ids[name] for name in ("movement", "stagewise0", "stagewise1")}
    assert (listed(again), box(again, "Chosen runs").value, link(again)) == (listed(test), chosen, query)


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
    test = choose(newest)
    test.text_area[0].input(NOTE).run()
    pressed(test, "Save note")
    assert Store(own_copy).note(newest) == NOTE
    assert listed(opened("runs", search="for the talk")) == [newest]


def test_a_note_that_cannot_be_kept_says_so_and_stays_in_its_box(own_copy: Path, newest: str) -> None:
    (own_copy / ".notes").write_text("a file where the folder should be")
    test = choose(newest)
    test.text_area[0].input(NOTE).run()
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
    entries = [entry(seed=seed, metric=metric, grafted=value) for seed, (metric, value) in enumerate(scores)]
    label = _group_label([*entries, entry(seed=9, metric="accuracy", grafted=None)])
    assert label.endswith("· 5 runs · graft exact match up to 25.0% · graft perplexity down to 3.25")


@pytest.fixture
def store(empty: Path, paper: list[str]) -> Store:
    return Store(empty)


@pytest.fixture
def waiting(store: Store, tmp_path: Path) -> str:
    base, finetuned = map(str, tiny_pair(tmp_path))
    models = {"base": base, "finetuned": finetuned, "task": str(tiny_task(tmp_path))}
    return jobs.start(RunSpec(**models, sizes=("5%",), device="cpu"), store).run_id


def test_without_jobs_the_way_to_start_one(store: Store) -> None:
    test = opened("jobs")
    assert "no jobs yet" in said(test, "info") and "Start a localization" in links(test)


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
