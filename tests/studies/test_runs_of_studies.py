"""Tests of studies: the plan of a file, finished runs that are not repeated, and the content of the tables."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from skillviz.errors import DiskFull
from skillviz.runs import produce as engine
from skillviz.runs.process import Progress
from skillviz.runs.record import Failure
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.make_tables import tables_of_runs
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.step import StudyStep
from skillviz.studies.store import list_studies
from tests.tiny import tiny_pair, tiny_task

pytestmark = pytest.mark.slow

FILE = """
name: small
defaults:
  base: {folder}/base
  finetuned: {folder}/finetuned
  task: {folder}/task.yaml
  device: cpu
  steps: 2
  batch_size: 16
runs:
  - localizer: movement
    size: [1%, 5%]
  - localizer: [random, stagewise]
    size: [1%, 0.05]
    seed: [0, 1]
"""


def write_study(folder: Path, rows: int = 8, steps: int = 0) -> StudySpec:
    """Write a tiny pair, a task, and a study file of ten runs; return the study in the file."""
    tiny_pair(folder, steps=steps)
    tiny_task(folder, rows=rows)
    (folder / "study.yaml").write_text(FILE.format(folder=folder))
    return read_study(folder / "study.yaml")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudySpec:
    """Return a study of ten runs."""
    return write_study(tmp_path_factory.mktemp("world"), rows=24, steps=30)


def only(study: StudySpec, count: int) -> StudySpec:
    """Return the first entries of a study, as explicit specs."""
    runs = tuple(s.model_dump(exclude_defaults=True) for s in study_plan(study).runs[:count])
    return StudySpec(name=study.name, runs=runs)


def runs(steps: list[StudyStep]) -> int:
    """Return the number of steps that are runs."""
    return sum(step.kind == "localize" for step in steps)


def test_finished_runs_are_skipped_and_the_rest_is_made(study: StudySpec, store: Store) -> None:
    few, session = only(study, 3), Session()
    one = run_study(only(study, 2), store, session=session)
    assert (runs(one.finished), len(one.skipped)) == (2, 0)
    told: list[tuple[int, str]] = []
    two = run_study(few, store, on_step=lambda number, count, step, what: told.append((number, what)), session=session)
    assert [step.key for step in two.skipped] == [step.key for step in one.finished[:-1]]
    assert [step.spec.localizer for step in two.finished if isinstance(step.spec, RunSpec)] == ["random"]
    words = ["started", "skipped", "started", "skipped", "started", "finished"]
    assert [word for number, word in told if number < 4] == words and len(store.list()) == 3


def test_an_interrupted_study_goes_on_where_it_stopped(study: StudySpec, store: Store) -> None:
    few = only(study, 3)
    count = 0

    def stop(progress: Progress) -> None:
        nonlocal count
        count += progress.phase == "store"
        if count == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(few, store, progress=stop)
    assert len(store.list()) == 1
    assert [e.record.status for e in (*store.unfinished(), *list_studies(store))] == ["cancelled"] * 2
    outcome = run_study(few, store)
    assert (runs(outcome.skipped), runs(outcome.finished)) == (1, 2)
    assert not store.unfinished()  # the interrupted run was finished, not started again


def test_a_run_that_fails_does_not_stop_the_others(study: StudySpec, store: Store) -> None:
    first = only(study, 1).runs[0]
    empty = {**first, "localizer": "expression", "options": {"expression": {"layers": []}}}
    outcome, partly = (run_study(StudySpec(name="s", runs=(empty, first)), store, partial=one) for one in (False, True))
    assert runs(outcome.finished) == 1 and [step.kind for step in outcome.not_reached] == ["table"]
    ((step, failure),) = outcome.failed
    assert (step.kind, type(failure), failure.kind) == ("localize", Failure, "BadInput")
    assert len(partly.failed) == 1 and [step.kind for step in partly.finished] == ["table"]


def test_a_full_disk_stops_a_study(study: StudySpec, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=DiskFull("no space."))
    monkeypatch.setattr(engine, "produce", full)
    with pytest.raises(DiskFull):
        run_study(study, store)
    full.assert_called_once()


def test_a_run_is_made_again_if_its_model_or_data_have_changed_and_stands_without_them(
    store: Store, tmp_path: Path
) -> None:
    one, task = only(write_study(tmp_path), 1), tmp_path / "task.yaml"
    run_study(one, store)
    assert runs(run_study(one, store).skipped) == 1
    tiny_pair(tmp_path, seed=7)
    assert runs(run_study(one, store).finished) == 1
    (tmp_path / "test.jsonl").write_text((tmp_path / "validation.jsonl").read_text())
    assert runs(run_study(one, store).finished) == 1
    task.rename(tmp_path / "task-gone")
    assert runs(run_study(one, store).skipped) == 1
    (tmp_path / "task-gone").rename(task)
    for name in ("base", "finetuned"):
        (tmp_path / name).rename(tmp_path / f"{name}-gone")
    assert runs(run_study(one, store).skipped) == 1 and len(store.list()) == 3


def test_the_tables_of_a_whole_study(study: StudySpec, store: Store) -> None:
    outcome = run_study(study, store)
    assert runs(outcome.finished) == 10 and outcome.is_whole
    made = tables_of_runs(Results(study_plan(study), store))
    frame, pairs = made["scores"], made["differences"]
    accuracy = frame[frame["metric"] == "accuracy"].set_index(["localizer", "size"])
    assert sorted(accuracy.index) == sorted((n, k) for n in ("movement", "random", "stagewise") for k in (44, 222))
    single = accuracy["sd"].isna().groupby(level=0).all().to_dict()
    assert single == {"movement": True, "random": False, "stagewise": False}
    assert accuracy["seeds"].to_dict()["stagewise", 44] == 2 and len(pairs.query("metric == 'accuracy'")) == 2 * 3 * 2
    none = tables_of_runs(Results(study_plan(study), Store(store.root / "none")))
    assert {name: len(frame) for name, frame in none.items()} == dict.fromkeys(made, 0)
