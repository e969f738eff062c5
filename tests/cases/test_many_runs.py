"""Tests of large stores: a change of one run causes one read, because no cache is smaller than a list of runs."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import json_text
from skillviz.runs import run as runs
from skillviz.runs.run import RECORD, Run, with_checksum
from skillviz.runs.store import Store
from skillviz.show import measures
from skillviz.ui import cache
from skillviz.ui.page_table import PAGES
from tests.runs.conftest import made

__all__ = ["made"]

MANY = 2300  # more than any cache ever held


def copied(made: Run, root: Path, count: int) -> Store:
    """Return a store of `count` copies of a run, with links to its files."""
    content = json.loads((made.path / RECORD).read_text())
    for number in range(count):
        name = f"{made.id}-{number:05}"
        (root / name).mkdir(parents=True)
        for file in made.files:
            os.link(made.path / file, root / name / file)
        changed = content | {"run_id": name, "spec": content["spec"] | {"seed": number}}
        (root / name / RECORD).write_text(json.dumps(with_checksum(changed)))
    return Store(root)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each run.json was read since the last `clear`."""
    read, real = Counter[str](), json_text.read

    def counted(path: Path) -> object:
        read[path.parent.name] += path.name == RECORD
        return real(path)

    monkeypatch.setattr(json_text, "read", counted)
    return read


def changed(store: Store, run_id: str) -> None:
    """Move the modification time of the run's record by one second."""
    place = store.root / run_id / RECORD
    later = place.stat().st_mtime_ns + 10**9
    os.utime(place, ns=(later, later))


@pytest.mark.nightly
def test_a_list_that_is_longer_than_any_cache_is_read_once(made: Run, tmp_path: Path, reads: Counter[str]) -> None:
    store = copied(made, tmp_path / "many", MANY)
    assert len(store.list()) == MANY and set(reads.values()) == {1} and len(reads) == MANY
    reads.clear()
    for _ in range(2):
        assert len(store.list()) == MANY and len(store.unfinished()) == 0
    assert not +reads, "nothing has changed"
    one = store.list()[MANY // 2].id
    changed(store, one)
    assert len(store.list()) == MANY and +reads == {one: 1}


def test_records_of_deleted_runs_are_not_kept(made: Run, tmp_path: Path) -> None:
    store = copied(made, tmp_path / "some", 12)
    for run in store.list()[:5]:
        store.delete(run.id)
    assert len(store.list()) == 7 == len(runs._kept[store.root])


@pytest.fixture
def own(made: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_runs: Path) -> Store:
    """Return a store as the user's own, without shipped runs; each look checks all files."""
    store = copied(made, tmp_path / "own", 40)
    monkeypatch.setenv("SKILLVIZ_RUNS", str(store.root))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    monkeypatch.setattr(cache, "SCAN_SECONDS", -1)
    return store


def test_after_a_change_pages_look_at_that_run_alone(
    own: Store, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cache.entries()
    assert len(before) == 40
    reads.clear()
    looked: list[str] = []
    real = cache.entry_of
    monkeypatch.setattr(cache, "entry_of", lambda run, **more: looked.append(run.id) or real(run, **more))
    one = before[17].id
    changed(own, one)
    after = cache.entries()
    assert [entry.id for entry in after] == [entry.id for entry in before] and looked == [one] == [*+reads]
    own.delete(one)
    assert {entry.id for entry in cache.entries()} == {entry.id for entry in before} - {one} and looked == [one]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("page", ["jobs", "runs", "overview", "home"])
def test_a_page_reads_no_record_twice(own: Store, page: str, reads: Counter[str]) -> None:
    def opened() -> None:
        test = AppTest.from_file(str(PAGES[page].path), default_timeout=60)
        test.query_params["run"] = f"{own.list()[0].id}"
        assert not test.run().exception

    opened()
    reads.clear()
    opened()
    assert not +reads
    one = own.list()[20].id
    changed(own, one)
    opened()
    assert +reads == {one: 1}


def test_the_page_of_jobs_looks_at_the_files_of_no_finished_run(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.entries()
    seen: list[str] = []
    real = Store._scan

    def scanned(self: Store, *args: object, **more: object) -> object:
        entries = real(self, *args, **more)  # type: ignore[arg-type]
        seen.extend(entry.path.name for entry in entries)
        return entries

    monkeypatch.setattr(Store, "_scan", scanned)
    test = AppTest.from_file(str(PAGES["jobs"].path), default_timeout=60).run()
    assert not test.exception and len(test.dataframe[0].value) == 40 and seen == []


def test_the_curves_of_a_pair_are_each_read_once(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = Run.curve
    monkeypatch.setattr(Run, "curve", lambda self: read.append(self.id) or real(self))
    monkeypatch.setattr(cache, "TABLE_READS", 1)
    for _ in range(2):
        for run in own.list():
            cache.curve(run)
    assert sorted(read) == sorted(run.id for run in own.list())


def test_one_curve_of_many_runs_is_that_of_each(own: Store) -> None:
    entries = cache.entries()[:3]
    curves = [cache.curve(run) for run in cache.runs(entry.id for entry in entries)]
    curves[1] = curves[1].iloc[:0]
    whole = measures.pair_curve(entries, curves, "test")
    for at in (0, 2):
        rows = curves[at][curves[at]["split"] == "test"]
        assert len(rows) and (whole["localizer"] == entries[at].localizer).all()
    assert len(whole) == len(curves[0][curves[0]["split"] == "test"]), "equal rows of two runs are one"
