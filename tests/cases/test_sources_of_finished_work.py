"""Tests of finished work whose sources cannot be read: it is kept, and compared as unknown, never as "unchanged"."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skillviz.commands import finetune
from skillviz.commands.finetune import RegionSource, check_bases
from skillviz.core.comparison import Comparison
from skillviz.core.region import Region
from skillviz.runs.artifact import CURRENT, RunArtifact
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from skillviz.studies.step import SKIPPED, attempt
from skillviz.ui.pages.compare import Side, unlike
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair, tiny_task


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run, Store]:
    """Make a tiny pair with its task, and a finished run of it."""
    from skillviz.runs.produce import produce

    folder = tmp_path_factory.mktemp("sources")
    tiny_pair(folder)
    tiny_task(folder)
    store = Store(folder / "runs")
    return folder, produce(spec_of(folder), store), store


def test_unchanged_sources_are_the_same(made: tuple[Path, Run, Store]) -> None:
    _, run, store = made
    assert RunArtifact(run.spec).changes(run, store, Session()) == CURRENT


@pytest.mark.parametrize("gone", ["base/model.safetensors", "finetuned/config.json", "test.jsonl"])
def test_a_source_that_is_gone_is_unknown(made: tuple[Path, Run, Store], gone: str, tmp_path: Path) -> None:
    folder, run, store = made
    shutil.move(folder / gone, tmp_path / "kept")
    try:
        change = RunArtifact(run.spec).changes(run, store, Session())
    finally:
        shutil.move(tmp_path / "kept", folder / gone)
    assert change.comparison is Comparison.UNKNOWN
    assert change.why


def test_a_changed_source_is_different(made: tuple[Path, Run, Store]) -> None:
    folder, run, store = made
    data = folder / "test.jsonl"
    before = data.read_text()
    data.write_text(before.replace('"label": 0', '"label": 1', 1))
    try:
        change = RunArtifact(run.spec).changes(run, store, Session())
    finally:
        data.write_text(before)
    assert change.comparison is Comparison.DIFFERENT and "data" in change.why


def test_a_skipped_step_says_that_it_was_not_compared(made: tuple[Path, Run, Store]) -> None:
    folder, run, store = made
    gone = spec_of(folder).model_copy(update={"base": str(folder / "absent")})
    change = RunArtifact(gone).changes(with_record(run, spec=gone), store, Session())
    assert change.comparison is Comparison.UNKNOWN and "absent" in change.why
    assert attempt(lambda: (SKIPPED, change), workshop=None).change == change  # type: ignore[arg-type]


def with_record(run: Run, **changes: Any) -> Any:
    """Return a stand-in of the run with these fields of its record changed."""
    return SimpleNamespace(record=run.record.model_copy(update=changes), spec=changes.get("spec", run.spec))


def test_a_region_without_a_base_is_noted(
    made: tuple[Path, Run, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run, _ = made
    file = tmp_path / "region.safetensors"
    Region(run.region().indices, run.region().shapes).save(file)
    notes: list[str] = []
    monkeypatch.setattr(finetune, "note", notes.append)
    check_bases(str(folder / "base"), [RegionSource("region.safetensors", file, None)])
    assert len(notes) == 1 and "cannot be compared" in notes[0]


def test_runs_that_do_not_name_their_data_are_not_compared(made: tuple[Path, Run, Store]) -> None:
    _, run, _ = made
    one, two = (Side(name, SimpleNamespace(), run) for name in ("one", "two"))  # type: ignore[arg-type]
    assert unlike(two, one) == ""
    task = run.record.task
    assert task is not None
    silent = with_record(run, task=task.model_copy(update={"fingerprint": ""}))
    assert "which data" in unlike(replace(two, run=silent), replace(one, run=silent))
