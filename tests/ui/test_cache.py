"""What the dashboard keeps: read once, read anew when a run has come or gone, and never another run's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from skillviz.errors import RunNotFound
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.ui import cache


@pytest.fixture
def own(made: tuple[Path, dict[str, str]], own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs as the user's folder, the originals as those that ship."""
    shutil.copytree(made[0], own_runs)
    monkeypatch.setattr("skillviz.runs.library.shipped_root", lambda: made[0])
    return own_runs


def test_a_table_is_read_once(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = cache.run(ids["random"])
    first = cache.table(run, "history")
    monkeypatch.setattr(Run, "history", lambda self: pytest.fail("read again"))
    again = cache.table(run, "history")
    assert first.equals(again)
    again.iloc[0, 0] = "changed"
    assert not cache.table(run, "history").equals(again), "what a page does to its copy stays there"


def test_tables_of_two_runs_are_not_confused(ids: dict[str, str]) -> None:
    one, two = (cache.table(cache.run(ids[name]), "layers") for name in ("stagewise0", "stagewise1"))
    assert not one["selected"].equals(two["selected"])


def test_a_run_that_was_deleted_is_gone_from_the_list(own: Path) -> None:
    before = cache.entries()
    gone = next(entry for entry in before if entry.is_of_user)
    shutil.rmtree(own / gone.id)
    after = cache.entries()
    assert len(after) == len(before) - 1
    assert [entry.is_of_user for entry in after if entry.id == gone.id] == [False], "the shipped one is left"


def test_a_run_that_goes_while_the_list_is_made_is_no_error(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.entries()
    gone = next(entry for entry in before if entry.is_of_user)
    real = Store.folders

    def folders(self: Store) -> Sequence[Path]:
        found = real(self)
        if self.root == own.resolve() and (own / gone.id).exists():
            shutil.rmtree(own / gone.id)
        return found

    monkeypatch.setattr(Store, "folders", folders)
    assert len(cache.entries()) == len(before) - 1


def test_drafts_and_graves_are_no_runs(own: Path) -> None:
    """They come and go within a second: a list that is read anew for each would be read all the time."""
    before = cache._run_files()
    one = next(own.glob("[!.]*/run.json")).parent
    for name in (f".new-{one.name}", f".deleted-{one.name}-abc"):
        shutil.copytree(one, own / name)
    assert cache._run_files() == before


def test_the_users_run_comes_before_the_shipped_one_of_the_same_id(
    own: Path, made: tuple[Path, dict[str, str]]
) -> None:
    run_id = made[1]["movement"]
    assert cache.run(run_id).path.parent.resolve() == own.resolve()
    assert [run.id for run in cache.runs([run_id, run_id])] == [run_id, run_id]


def test_unknown_ids_are_refused(ids: dict[str, str]) -> None:
    with pytest.raises(RunNotFound):
        cache.run("nothing-like-it")
    with pytest.raises(RunNotFound):
        cache.runs([ids["random"], "nothing-like-it"])


def test_an_unfinished_run_is_among_the_others(own: Path) -> None:
    from skillviz.runs.spec import RunSpec
    from skillviz.runs.store import Store

    assert cache.others() == ([], [])
    folder = Store(own).create(RunSpec(base="a", finetuned="b", task="c"))
    others, unreadable = cache.others()
    assert [entry.id for entry in others] == [folder.id] and not unreadable


def test_a_note_is_read_each_time(own: Path, made: tuple[Path, dict[str, str]]) -> None:
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
