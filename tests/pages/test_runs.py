"""Tests of the library: filter, open, note, delete with confirmation, and messages for runs that cannot be opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.jobs.backend import LocalBackend
from skillviz.jobs.slots import take_ticket
from skillviz.runs.record import Failure
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.ui.page_table import PAGES
from tests.fake_run import fake_run
from tests.ui.shared_store import SMALL


def library() -> AppTest:
    return AppTest.from_file(str(PAGES["runs"].path), default_timeout=60).run()


def button(test: AppTest, label: str):
    return next(b for b in test.button if b.label == label)


def listed(test: AppTest) -> list[str]:
    return [run_id for table in test.dataframe for run_id in table.value["run"]]


def choose(test: AppTest, *run_ids: str) -> AppTest:
    return chosen_box(test).set_value(list(run_ids)).run()


def chosen_box(test: AppTest):
    return next(box for box in test.multiselect if box.label == "Chosen runs")


def localizers_box(test: AppTest):
    return next(box for box in test.multiselect if box.label == "Localizers")


def test_lists_all_runs_with_counts(ids: dict[str, str]) -> None:
    test = library()
    assert sorted(listed(test)) == sorted(ids.values())
    assert "**5 runs** on 2 tasks" in test.markdown[0].value


def test_filters_by_words_and_localizer(ids: dict[str, str]) -> None:
    test = library()
    test.text_input[0].input("tiny-mrpc").run()
    assert listed(test) == [ids["paraphrase"]]
    test.text_input[0].input("").run()
    localizers_box(test).select("movement").run()
    assert listed(test) == [ids["movement"]]
    test.text_input[0].input("nothing has this").run()
    assert not listed(test) and any("No run matches" in part.value for part in test.markdown)
    button(test, "Clear filters").click().run()
    assert sorted(listed(test)) == sorted(ids.values())


def test_shipped_runs_cannot_be_deleted(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "mine"))
    test = choose(library(), ids["movement"])
    assert button(test, "Delete").disabled and "ship with skillviz" in button(test, "Delete").proto.help


def test_each_action_says_how_many_runs_it_takes(ids: dict[str, str]) -> None:
    test = library()
    opens = {0: (), 1: ("Open",), 2: ("Compare",), 5: ("Compare",)}
    for count, enabled in opens.items():
        choose(test, *list(ids.values())[:count])
        assert [b.label for b in test.button if b.label in ("Open", "Compare") and not b.disabled] == list(enabled)
        (download,) = (b for b in test.get("download_button") if not b.proto.label.startswith("Table"))
        assert download.proto.disabled == (count == 0)


def test_marked_rows_and_the_box_are_the_same_choice(ids: dict[str, str]) -> None:
    test = library()
    labels = [fold.label for fold in test.expander]
    choose(test, ids["paraphrase"], ids["random"])
    assert [fold.label for fold in test.expander] == labels, "a fold of another label loses the keyboard's place"
    marked = {
        table.value["run"].iloc[row]
        for table in test.dataframe
        for row in test.session_state[table.key]["selection"]["rows"]
    }
    assert marked == {ids["paraphrase"], ids["random"]}


def test_study_variants_are_shown_by_a_switch(own_copy: Path) -> None:
    variant = fake_run(Store(own_copy), seed=0, finetuned="demo/tiny-sst2", sizes=("1%", "10%"), **SMALL).id
    test = library()
    before = listed(test)
    yours = AppTest.from_file(str(PAGES["runs"].path), default_timeout=60)
    yours.query_params["from"] = "you"
    assert variant in listed(yours.run()), "a run of one's own is never missing among one's own"
    test.toggle[0].set_value(True).run()
    assert len(listed(test)) == len(before) + 1 and variant in set(listed(test)) | set(before)


def test_several_runs_are_deleted_after_one_question(own_copy: Path) -> None:
    gone = [run.id for run in Store(own_copy).list()[:2]]
    test = choose(library(), *gone)
    button(test, "Delete").click().run()
    asked = " ".join(part.value for part in test.markdown)
    assert all(run_id in asked for run_id in gone) and asked.count(" · seed ") == 2, "the runs have names there"
    button(test, "Delete for good").click().run()
    assert not any((own_copy / run_id).exists() for run_id in gone)
    assert [message.value for message in test.success] == ["2 runs deleted."]
    assert not test.run().success, "it is said once"
    assert chosen_box(library()).value == []


def test_a_library_without_a_finished_run_says_what_comes_next(own_copy: Path) -> None:
    for run in Store(own_copy).list():
        Store(own_copy).delete(run.id)
    folder = Store(own_copy).create(RunSpec(base="a/b", finetuned="a/c", task="sst2"))
    folder.start()
    folder.cancel()
    test = library()
    assert not test.exception and any("No run is finished yet" in part.value for part in test.markdown)


def test_a_note_is_kept_and_found(own_copy: Path) -> None:
    test = library()
    chosen = newest(own_copy)
    choose(test, chosen)
    test.text_area[0].input("the one for the talk").run()
    button(test, "Save note").click().run()
    assert Store(own_copy).note(chosen) == "the one for the talk"
    again = library()
    again.text_input[0].input("for the talk").run()
    assert listed(again) == [chosen]


def test_a_note_that_cannot_be_kept_says_so_and_stays_in_its_box(own_copy: Path) -> None:
    (own_copy / ".notes").write_text("a file where the folder should be")
    test = choose(library(), newest(own_copy))
    test.text_area[0].input("the one for the talk").run()
    button(test, "Save note").click().run()
    assert not test.exception and "cannot be written" in test.error[0].value
    assert test.text_area[0].value == "the one for the talk"


def test_delete_asks_first_and_removes_only_that_run(own_copy: Path) -> None:
    test = library()
    chosen = newest(own_copy)
    choose(test, chosen)
    button(test, "Delete").click().run()
    assert (own_copy / chosen).is_dir()
    button(test, "Delete for good").click().run()
    assert not (own_copy / chosen).exists()
    assert len(listed(library())) == 4


def test_a_run_that_cannot_be_deleted_is_explained(own_copy: Path) -> None:
    test = library()
    chosen = newest(own_copy)
    choose(test, chosen)
    button(test, "Delete").click().run()
    shutil.rmtree(own_copy / chosen)
    button(test, "Delete for good").click().run()
    assert not test.exception and "nothing was deleted" in test.error[0].value and not test.success


def test_keep_it_keeps_it(own_copy: Path) -> None:
    test = library()
    chosen = newest(own_copy)
    choose(test, chosen)
    button(test, "Delete").click().run()
    button(test, "Keep").click().run()
    assert (own_copy / chosen).is_dir() and chosen in listed(test)


def test_unfinished_and_broken_runs_are_named_with_their_reason(own_copy: Path) -> None:
    folder = Store(own_copy).create(RunSpec(base="a/b", finetuned="a/c", task="sst2"))
    folder.start()
    folder.cancel()
    bad = own_copy / "not-a-run"
    bad.mkdir()
    (bad / "run.json").write_text("{}")
    test = library()
    assert not test.exception and "2 did not finish" in test.markdown[0].value
    said = " ".join(markdown.value for markdown in test.markdown)
    assert "cancelled" in said and "not-a-run" in said and "unreadable" in said
    assert "2 runs that cannot be opened" in test.expander[-1].label


def newest(root: Path) -> str:
    return Store(root).list()[0].id


def words(test: AppTest) -> str:
    assert not test.exception
    return "\n".join(str(part.value) for part in (*test.markdown, *test.caption, *test.error)).replace("\\", "")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Start no process; return the ids of the runs that would start."""
    started: list[str] = []
    monkeypatch.setattr(LocalBackend, "start", lambda self, folder, words, cwd: started.append(folder.name))
    return started


def test_the_queue_is_shown_and_can_be_left(own_copy: Path, asked: list[str]) -> None:
    store = Store(own_copy)
    first, second = (store.create(RunSpec(base="a/b", finetuned="a/c", task="sst2", device="cpu")) for _ in range(2))
    for folder in (first, second):
        take_ticket(own_copy, "cpu", folder.id)
    test = library()
    assert "did not finish" not in test.markdown[0].value, "they are on their way"
    assert "Starting; **" in words(test) and "Waits for **cpu**: 1 job is ahead of it." in words(test)
    next(b for b in test.button if b.key == f"jobs.cancel.{second.id}").click().run()
    assert jobs.status(store, second.id).status == "cancelled" and jobs.status(store, first.id).is_open
    assert len([b for b in test.button if b.label == "Cancel"]) == 1
    next(b for b in test.button if b.key == f"jobs.resume.{second.id}").click().run()
    assert asked == [second.id] and jobs.status(store, second.id).position == 1


def test_a_failed_run_says_its_class_and_can_be_resumed_or_deleted(own_copy: Path, asked: list[str]) -> None:
    folder = Store(own_copy).create(RunSpec(base="a/b", finetuned="a/c", task="sst2"))
    folder.start()
    folder.fail(Failure(kind="BadData", message="no column 'text'", hint="h"))
    test = library()
    assert "Bad data: no column 'text' Correct the data" in words(test) and "## Jobs" not in words(test)
    button(test, "Resume").click().run()
    assert asked == [folder.id] and "## Jobs" in words(test)
    assert "2 runs" not in "".join(e.label for e in test.expander), "it is no run that cannot be opened any more"


def test_a_job_that_cannot_be_resumed_is_explained(own_copy: Path, asked: list[str]) -> None:
    folder = Store(own_copy).create(RunSpec(base="a/b", finetuned="a/c", task="sst2"))
    folder.start()
    folder.cancel()
    test = library()
    shutil.rmtree(folder.path)
    button(test, "Resume").click().run()
    assert "there is no run" in words(test) and asked == []


def test_a_phone_sees_size_and_scores_first(own_copy: Path) -> None:
    table = library().dataframe[0]
    assert list(table.value.columns)[:4] == ["localizer", "share", "graft", "recovered"]
    seen = list(table.proto.column_order)
    assert seen[:4] == ["localizer", "share", "graft", "recovered"] and "run" not in seen, "ids are in the downloads"
