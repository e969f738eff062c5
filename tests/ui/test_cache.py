"""Tests of the dashboard's cache: one read, another if a run, a study or a file has changed, and no mix-up of runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from skillviz.errors import BadData, RunNotFound, SkillvizError, UnknownTask
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, StudyFolder, list_studies
from skillviz.tasks import registry
from skillviz.tasks.user_file import data_files
from skillviz.ui import cache
from tests.runs.test_texts import run_of
from tests.studies.fake_study import fake_study
from tests.tiny import tiny_task


@pytest.fixture
def user_runs(made: tuple[Path, dict[str, str]], user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the runs as the user's folder; the originals count as shipped."""
    shutil.copytree(made[0], user_runs)
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: made[0])
    return user_runs


def test_a_table_is_read_once(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = cache.run(ids["random"])
    first = cache.stored_table(run, "history")
    monkeypatch.setattr(Run, "history", lambda self: pytest.fail("read again"))
    again = cache.stored_table(run, "history")
    assert first.equals(again)
    again.iloc[0, 0] = "changed"
    assert not cache.stored_table(run, "history").equals(again), "what a page does to its copy stays there"


@pytest.mark.parametrize("kept", ["table", "computed"])
def test_pages_leave_no_notes_on_a_table_in_memory(ids: dict[str, str], kept: str) -> None:
    """pandas keeps a reference to each view of a table, and removes stale ones only in batches of hundreds."""
    run, held = cache.run(ids["random"]), []

    def read() -> pd.DataFrame:
        return cache.stored_table(run, "layers") if kept == "table" else cache.computed((__name__,), [run], make)

    def make() -> pd.DataFrame:
        held.append(run.layers())
        return held[0]

    with pytest.MonkeyPatch.context() as patch:
        if kept == "table":
            table = run.layers()
            patch.setattr(Run, "layers", lambda self: held.append(table) or table)
            cache.shared.clear()
        for _ in range(50):
            assert len(read()["selected"]) and len(held) == 1
    notes = sum(len(block.refs.referenced_blocks) for block in held[0]._mgr.blocks)
    assert notes < 50, "a read leaves none"


def test_tables_of_two_runs_are_not_confused(ids: dict[str, str]) -> None:
    one, two = (cache.stored_table(cache.run(ids[name]), "layers") for name in ("stagewise0", "stagewise1"))
    assert not one["selected"].equals(two["selected"])


def test_a_run_that_was_deleted_is_gone_from_the_list(user_runs: Path) -> None:
    before = cache.entries()
    gone = next(entry for entry in before if entry.is_of_user)
    shutil.rmtree(user_runs / gone.id)
    after = cache.entries()
    assert len(after) == len(before) - 1
    assert [entry.is_of_user for entry in after if entry.id == gone.id] == [False], "the shipped one is left"


def test_a_run_that_goes_while_the_list_is_made_is_no_error(user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.entries()
    gone = next(entry for entry in before if entry.is_of_user)
    real = Store.names

    def names(self: Store) -> Sequence[str]:
        listed = real(self)
        if self.root == user_runs.resolve() and (user_runs / gone.id).exists():
            shutil.rmtree(user_runs / gone.id)
        return listed

    monkeypatch.setattr(Store, "names", names)
    cache.entries()
    assert not (user_runs / gone.id).exists() and len(cache.entries()) == len(before) - 1


def test_drafts_and_graves_are_no_runs(user_runs: Path) -> None:
    """They exist for less than a second; if they counted, the list would be read all the time."""
    store = cache.user_store()
    before = cache._run_files(store)
    one = next(user_runs.glob("[!.]*/run.json")).parent
    for name in (f".new-{one.name}", f".deleted-{one.name}-abc"):
        shutil.copytree(one, user_runs / name)
    assert cache._run_files(store) == before


def test_the_users_run_comes_before_the_shipped_one_of_the_same_id(
    user_runs: Path, made: tuple[Path, dict[str, str]]
) -> None:
    run_id = made[1]["movement"]
    assert cache.run(run_id).path.parent.resolve() == user_runs.resolve()
    assert [run.id for run in cache.runs([run_id, run_id])] == [run_id, run_id]


def test_unknown_ids_are_refused(ids: dict[str, str]) -> None:
    with pytest.raises(RunNotFound):
        cache.run("nothing-like-it")
    with pytest.raises(RunNotFound):
        cache.runs([ids["random"], "nothing-like-it"])


def test_an_unfinished_run_is_among_the_others(user_runs: Path) -> None:
    assert cache.others() == ([], [])
    folder = Store(user_runs).create(RunSpec(base="a", finetuned="b", task="c"))
    others, unreadable = cache.others()
    assert [entry.id for entry in others] == [folder.id] and not unreadable


def test_finished_runs_are_looked_at_once_more_and_no_further(user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand runs, each look at a folder's files takes ten milliseconds of a page."""
    known = {entry.id for entry in cache.entries()}
    broken = user_runs / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    looked: list[str] = []
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: looked.append(str(path)) or real(path, **more))
    unfinished, unreadable = Store(user_runs).others(known)
    assert not unfinished and [folder.path for folder in unreadable] == [broken]
    assert {path for path in looked if path.endswith("run.json")} == {str(broken / "run.json")}


def test_a_note_is_read_each_time(user_runs: Path, made: tuple[Path, dict[str, str]]) -> None:
    run_id = made[1]["random"]
    assert cache.note(run_id) == ""
    cache.user_store().set_note(run_id, "look again")
    assert cache.note(run_id) == "look again"


def test_the_region_is_shared_and_immutable(ids: dict[str, str]) -> None:
    run = cache.run(ids["random"])
    assert cache.region(run) is cache.region(run)
    name, indices = next(iter(cache.region(run).indices.items()))
    with pytest.raises(ValueError, match="read-only"):
        indices[0] = 0
    assert name in cache.region(run).shapes


def test_of_large_regions_one_is_kept(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (cache.run(ids[name]) for name in ("random", "movement"))
    monkeypatch.setattr(cache, "LARGE_REGION", 1)
    first = cache.region(one)
    assert cache.region(one) is first
    cache.region(other)
    assert cache.region(one) is not first


def test_a_function_is_remembered_by_its_key_and_apart_from_others(tmp_path: Path) -> None:
    calls: list[str] = []

    @cache.remembered(cache.copied, lambda name, number=0: name, max_entries=4)
    def first(name: str, number: int = 0) -> list[str]:
        calls.append(name)
        if name == "wrong":
            raise RunNotFound("no")
        return [name, str(number)]

    @cache.remembered(cache.copied, lambda name: name, max_entries=4)
    def second(name: str) -> list[str]:
        return ["second", name]

    key = str(tmp_path)
    assert first(key) == [key, "0"] == first(key, number=1), "the number is no part of the key"
    assert second(key) == ["second", key] and calls == [key]
    for _ in range(2):
        with pytest.raises(RunNotFound):
            first("wrong")
    assert calls == [key, "wrong", "wrong"], "an error is not kept"


@pytest.fixture
def small_run(tmp_path: Path) -> Run:
    return run_of(tiny_task(tmp_path / "task"), tmp_path / "runs")


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the splits that were read."""
    read: list[str] = []
    original = cache.example_texts

    def reading(run: Run, split: str):  # type: ignore[no-untyped-def]
        read.append(split)
        return original(run, split)

    monkeypatch.setattr(cache, "example_texts", reading)
    return read


def test_texts_are_read_once(small_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    first, again = cache.texts(small_run, "test"), cache.texts(small_run, "test")
    assert read == ["test"] and first.equals(again) and len(first) == 32


def test_a_changed_file_is_read_anew_and_refused_once(
    small_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.texts(small_run, "test")
    read, path = counted(monkeypatch), tmp_path / "task" / "test.jsonl"
    before = path.read_text()
    path.write_text(before.replace("class", "kind") + before.splitlines()[0] + "\n")
    for _ in range(2):
        with pytest.raises(SkillvizError, match="have changed"):
            cache.texts(small_run, "test")
    assert read == ["test"]
    path.unlink()
    with pytest.raises(SkillvizError, match="there is no file"):
        cache.texts(small_run, "test")


def stored_study(root: Path, changed: tuple[str, str] = ("", "")) -> StudyFolder:
    """Return a stored study of re-training with one text in its file replaced by another."""
    study = StudySpec(**EXPERIMENTS["table1"].build(scale("small")))
    text = study.yaml_text()
    assert changed[0] in text
    (fake_study(root, "table1") / FILE).write_text(text.replace(*changed))
    (study,) = list_studies(Store(root))
    return study


def test_what_a_study_is_about_is_read_from_its_file(tmp_path: Path) -> None:
    study = stored_study(tmp_path)
    assert cache.is_as_requested(study) and cache.setting_differences(study)[0].aspect == "Model"


@pytest.mark.parametrize(
    "changed", [("lr: 0.2", "lr: x"), ("  region:", "  mode: key:abc\n  region:"), ("- 0", "- few")]
)
def test_of_a_study_that_was_wrongly_edited_nothing_is_known(changed: tuple[str, str], tmp_path: Path) -> None:
    study = stored_study(tmp_path, changed)
    assert not cache.is_as_requested(study) and cache.setting_differences(study) == ()


def test_a_task_is_read_once_and_anew_when_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_task(tmp_path)
    first = cache.task_named(str(file))
    with monkeypatch.context() as patched:
        patched.setattr(registry, "task", lambda name: pytest.fail("read again"))
        assert cache.task_named(str(file)) is first
    file.write_text(file.read_text().replace(f"name: {first.name}", "name: renamed"))
    os.utime(file, ns=(1, 1))
    assert cache.task_named(str(file)).name == "renamed" != first.name
    for data in data_files(first).values():
        data.unlink()
    with pytest.raises(BadData):
        cache.task_named(str(file))
    with pytest.raises(UnknownTask):
        cache.task_named("no-such-task")
