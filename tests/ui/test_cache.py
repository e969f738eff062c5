"""Tests of the dashboard's cache: one read, another if a run, a study or a file has changed, and no mix-up of runs; and
of values cached during one run of a page, and no longer."""

import itertools
import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadData, RunNotFound, SkillvizError, UnknownTask
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, list_studies
from skillviz.tasks import registry
from skillviz.tasks.user_file import data_files
from skillviz.ui import cache, script
from tests.refused import refuses
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
def test_pages_leave_no_notes_on_a_table_in_memory(
    ids: dict[str, str], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pandas keeps a reference to each view of a table, and removes stale ones only in batches of hundreds."""
    run, held = cache.run(ids["random"]), []
    table = run.layers()
    monkeypatch.setattr(Run, "layers", lambda self: held.append(table) or table)
    cache.shared.clear()
    for _ in range(50):
        read = (cache.stored_table(run, "layers") if kept == "table" else
                cache.computed((__name__,), [run], run.layers))  # fmt: skip
        assert len(read["selected"]) and len(held) == 1
    assert sum(len(block.refs.referenced_blocks) for block in table._mgr.blocks) < 50, "a read leaves none"


def test_tables_of_two_runs_are_not_confused(ids: dict[str, str]) -> None:
    one, two = (cache.stored_table(cache.run(ids[name]), "layers") for name in ("stagewise0", "stagewise1"))
    assert not one["selected"].equals(two["selected"])


@pytest.mark.parametrize("when", ["before", "while the list is made"])
def test_a_run_that_is_deleted_is_gone_from_the_list(
    when: str, user_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = cache.briefs(), Store.names
    gone = next(brief.id for brief in before if brief.is_of_user)

    def names(self: Store) -> Sequence[str]:
        listed = real(self)
        if self.root == user_runs.resolve():
            shutil.rmtree(user_runs / gone, ignore_errors=True)
        return listed

    if when == "before":
        shutil.rmtree(user_runs / gone)
    else:
        monkeypatch.setattr(Store, "names", names)
        cache.briefs()
    after = cache.briefs()
    assert len(after) == len(before) - 1 and not (user_runs / gone).exists()
    assert [brief.is_of_user for brief in after if brief.id == gone] == [False], "the shipped one is left"


def test_drafts_and_graves_are_no_runs(user_runs: Path) -> None:
    """They exist for less than a second; if they counted, the list would be read all the time."""
    before = cache._run_files(cache.user_store())
    one = next(user_runs.glob("[!.]*/run.json")).parent
    for name in (f".new-{one.name}", f".deleted-{one.name}-abc"):
        shutil.copytree(one, user_runs / name)
    assert cache._run_files(cache.user_store()) == before


def test_the_users_run_comes_before_the_shipped_one_of_the_same_id(
    user_runs: Path, made: tuple[Path, dict[str, str]]
) -> None:
    run_id = made[1]["movement"]
    assert cache.run(run_id).path.parent.resolve() == user_runs.resolve()
    assert [run.id for run in cache.runs([run_id, run_id])] == [run_id, run_id]


@pytest.mark.parametrize("names", [["nothing-like-it"], ["random", "nothing-like-it"]])
def test_unknown_ids_are_refused(names: list[str], ids: dict[str, str]) -> None:
    with pytest.raises(RunNotFound):
        cache.run(*names) if len(names) == 1 else cache.runs([ids.get(name, name) for name in names])


def test_finished_runs_are_looked_at_once_more_and_no_further(user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand runs, each look at a folder's files takes ten milliseconds of a page."""
    known = {brief.id for brief in cache.briefs()}
    broken = user_runs / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    looked, real = list[str](), os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: looked.append(str(path)) or real(path, **more))
    assert [[folder.path for folder in folders] for folders in Store(user_runs).others(known)] == [[], [broken]]
    assert {path for path in looked if path.endswith("run.json")} == {str(broken / "run.json")}


def test_a_note_is_read_each_time(user_runs: Path, made: tuple[Path, dict[str, str]]) -> None:
    for note in ("", "look again", "and again"):
        cache.user_store().set_note(made[1]["random"], note)
        assert cache.note(made[1]["random"]) == note


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
    assert cache.region(one) is first and cache.region(other) and cache.region(one) is not first


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
        refuses(RunNotFound, None, first, "wrong")
    assert calls == [key, "wrong", "wrong"], "an error is not kept"


@pytest.fixture
def small_run(tmp_path: Path) -> Run:
    return run_of(tiny_task(tmp_path / "task"), tmp_path / "runs")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the splits that are read."""
    splits, original = list[str](), cache.example_texts
    monkeypatch.setattr(cache, "example_texts", lambda run, split: splits.append(split) or original(run, split))
    return splits


def test_texts_are_read_once_and_a_changed_file_anew_and_refused_once(
    small_run: Run, tmp_path: Path, read: list[str]
) -> None:
    first, again = cache.texts(small_run, "test"), cache.texts(small_run, "test")
    assert read == ["test"] and first.equals(again) and len(first) == 32
    path = tmp_path / "task" / "test.jsonl"
    before = path.read_text()
    path.write_text(before.replace("class", "kind") + before.splitlines()[0] + "\n")
    for _ in range(2):
        refuses(SkillvizError, "have changed", cache.texts, small_run, "test")
    assert read == ["test"] * 2
    path.unlink()
    refuses(SkillvizError, "there is no file", cache.texts, small_run, "test")


@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("lr: 0.2", "lr: x"), ("  region:", "  mode: key:abc\n  region:"), ("- 0", "- few")]
)
def test_what_a_study_is_about_is_read_from_its_file_unless_it_was_wrongly_edited(
    old: str, new: str, tmp_path: Path
) -> None:
    text = StudySpec(**EXPERIMENTS["table1"].build(scale("small"))).yaml_text()
    assert old in text
    (fake_study(tmp_path, "table1") / FILE).write_text(text.replace(old, new))
    (study,) = list_studies(Store(tmp_path))
    differs = cache.setting_differences(study)
    assert (cache.is_as_requested(study), [row.aspect for row in differs[:1]]) == (not old, [] if old else ["Model"])


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
    for error, name in ((BadData, str(file)), (UnknownTask, "no-such-task")):
        refuses(error, None, cache.task_named, name)


def in_a_run(*steps: Callable[[], Any]) -> list[Any]:
    """Run the steps as a page's script, in its own thread; return what they return."""
    with ThreadPoolExecutor(1) as page:
        return [page.submit(step).result() for step in (script.begin, *steps)][1:]


@pytest.fixture
def counted() -> Callable[[], int]:
    """Return a function that reads one value, another one each time."""
    values = itertools.count()
    return lambda: script.once_read("runs", lambda: next(values))


def test_a_run_reads_once_and_the_next_one_anew(counted: Callable[[], int]) -> None:
    assert in_a_run(counted, counted, script.begin, counted) == [0, 0, None, 1]


def test_outside_of_a_page_nothing_is_kept_and_nothing_waits(
    counted: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [counted() for _ in range(3)] == [0, 1, 2]
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("nobody waits outside of a page"))
    script.first_figure_goes_ahead()


def test_what_is_old_is_read_again(counted: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "FRESH", 0.0)
    assert in_a_run(counted, counted, counted)[-1] >= 1


def test_only_the_first_figure_goes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    in_a_run(script.first_figure_goes_ahead, script.first_figure_goes_ahead)
    assert waited == [script.LEAD_OF_VISITOR]
