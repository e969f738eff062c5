"""Tests of studies: the plan of a file, finished runs that are not repeated, and the content of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadInput, DiskFull
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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny pair, a task, and a study file of ten runs."""
    folder = tmp_path_factory.mktemp("world")
    tiny_pair(folder, steps=30)
    tiny_task(folder, rows=24)
    (folder / "study.yaml").write_text(FILE.format(folder=folder))
    return folder


@pytest.fixture
def study(world: Path) -> StudySpec:
    """Return the study in the file."""
    return read_study(world / "study.yaml")


def only(study: StudySpec, count: int) -> StudySpec:
    """Return the first entries of a study, as explicit specs."""
    runs = tuple(s.model_dump(exclude_defaults=True) for s in study_plan(study).runs[:count])
    return StudySpec(name=study.name, runs=runs)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store whose root does not exist yet."""
    return Store(tmp_path / "runs")


def runs(steps: list[StudyStep]) -> int:
    """Return the number of steps that are runs."""
    return sum(step.kind == "localize" for step in steps)


def test_lists_stand_for_one_run_each(study: StudySpec) -> None:
    specs = study_plan(study).runs
    assert len(specs) == 10
    assert [(s.localizer, s.sizes, s.seed) for s in specs[:4]] == [
        ("movement", ("1%",), 0), ("movement", ("5%",), 0), ("random", ("1%",), 0), ("random", ("1%",), 1),
    ]  # fmt: skip
    assert specs[4].sizes == ("0.05",) and all(s.steps == 2 for s in specs)


def test_the_same_run_asked_for_twice_is_one() -> None:
    entry = {"base": "b", "finetuned": "f", "task": "t", "seed": [0, 1]}
    assert len(study_plan(StudySpec(name="s", runs=(entry, {**entry, "seed": 1}))).runs) == 2


def test_sizes_is_one_run_of_several() -> None:
    entry = {"base": "b", "finetuned": "f", "task": "t"}
    assert study_plan(StudySpec(name="s", runs=({**entry, "sizes": ["1%", 7]},))).runs[0].sizes == ("1%", "7")
    with pytest.raises(BadInput, match="not both"):
        study_plan(StudySpec(name="s", runs=({**entry, "sizes": ["1%"], "size": 3},)))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "a name and a list of runs"),
        ("- a", "a list of runs"),
        ("name: x", "runs"),
        ("name: x\nruns: []", "runs"),
        ("token: s3cret\n", "^(?!.*(token|s3cret)).*a list of runs"),
        ("- {hosts: s3cret}", "^(?!.*(hosts|s3cret)).*a list of runs"),
        ("password: *s3cret\n", "^(?!.*s3cret).*undefined alias in line 1"),
        ('a: "s3cret\nb: @s3cret', "^(?!.*s3cret).*cannot be read"),
        ("name: x\nruns: [{}]\nsurprise: 1", "surprise"),
        ("name: [", "cannot be read"),
        ("name: !!python/object/apply:os.system [ls]\nruns: [{}]", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_a_study_is_one_sentence(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(BadInput, match=word) as caught:
        read_study(tmp_path / "s.yaml")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nothing.yaml"):
        read_study(tmp_path / "nothing.yaml")


def test_a_wrong_entry_is_named_by_its_number() -> None:
    good = {"base": "b", "finetuned": "f", "task": "t"}
    with pytest.raises(BadInput, match="entry 2.*colour"):
        study_plan(StudySpec(name="s", runs=(good, {**good, "colour": 1})))


def test_finished_runs_are_skipped_and_the_rest_is_made(study: StudySpec, store: Store) -> None:
    few, session = only(study, 3), Session()
    one = run_study(only(study, 2), store, session=session)
    assert (runs(one.finished), len(one.skipped)) == (2, 0)
    told: list[tuple[int, str]] = []
    two = run_study(few, store, on_step=lambda number, count, step, what: told.append((number, what)), session=session)
    assert [step.key for step in two.skipped] == [step.key for step in one.finished[:-1]]
    assert [step.spec.localizer for step in two.finished if isinstance(step.spec, RunSpec)] == ["random"]
    assert [word for number, word in told if number < 4] == [
        "started", "skipped", "started", "skipped", "started", "finished"
    ]  # fmt: skip
    assert len(store.list()) == 3


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
    assert [e.record.status for e in store.unfinished()] == ["cancelled"]
    outcome = run_study(few, store)
    assert (runs(outcome.skipped), runs(outcome.finished)) == (1, 2)
    assert not store.unfinished()  # the interrupted run was finished, not started again


def test_a_run_that_fails_does_not_stop_the_others(study: StudySpec, store: Store) -> None:
    first = only(study, 1).runs[0]
    empty = {**first, "localizer": "expression", "options": {"expression": {"layers": []}}}
    outcome = run_study(StudySpec(name="s", runs=(empty, first)), store)
    assert runs(outcome.finished) == 1 and [step.kind for step in outcome.not_reached] == ["table"]
    ((step, failure),) = outcome.failed
    assert step.kind == "localize" and isinstance(failure, Failure) and failure.kind == "BadInput"
    partly = run_study(StudySpec(name="s", runs=(empty, first)), store, partial=True)
    assert len(partly.failed) == 1 and [step.kind for step in partly.finished] == ["table"]


def test_a_full_disk_stops_a_study(study: StudySpec, store: Store, monkeypatch: Any) -> None:
    calls = []

    def full(*_: Any) -> None:
        calls.append(1)
        raise DiskFull("no space.")

    monkeypatch.setattr(engine, "produce", full)
    with pytest.raises(DiskFull):
        run_study(study, store)
    assert len(calls) == 1


def test_a_run_of_a_model_that_has_changed_is_made_again(store: Store, tmp_path: Path) -> None:
    tiny_pair(tmp_path)
    tiny_task(tmp_path, rows=8)
    (tmp_path / "study.yaml").write_text(FILE.format(folder=tmp_path))
    one = only(read_study(tmp_path / "study.yaml"), 1)
    run_study(one, store)
    assert runs(run_study(one, store).skipped) == 1
    tiny_pair(tmp_path, seed=7)
    assert runs(run_study(one, store).finished) == 1
    (tmp_path / "test.jsonl").write_text((tmp_path / "validation.jsonl").read_text())
    assert runs(run_study(one, store).finished) == 1
    for name in ("base", "finetuned"):
        (tmp_path / name).rename(tmp_path / f"{name}-gone")
    assert runs(run_study(one, store).skipped) == 1  # the run does not need the model any more
    assert len(store.list()) == 3


def test_the_tables_of_a_whole_study(study: StudySpec, store: Store) -> None:
    outcome = run_study(study, store)
    assert runs(outcome.finished) == 10 and outcome.is_whole
    made = tables_of_runs(Results(study_plan(study), store))
    frame, pairs = made["scores"], made["differences"]
    accuracy = frame[frame["metric"] == "accuracy"].set_index(["localizer", "size"])
    assert sorted(accuracy.index) == sorted((n, k) for n in ("movement", "random", "stagewise") for k in (44, 222))
    assert accuracy["seeds"].to_dict()["stagewise", 44] == 2
    assert accuracy["sd"].isna().groupby(level=0).all().to_dict() == {
        "movement": True, "random": False, "stagewise": False,
    }  # fmt: skip
    assert len(pairs[pairs["metric"] == "accuracy"]) == 2 * 3 * 2
    assert all(
        len(frame) == 0 for frame in tables_of_runs(Results(study_plan(study), Store(store.root / "none"))).values()
    )


def test_a_plain_list_of_runs_is_a_study(tmp_path: Path) -> None:
    (tmp_path / "few.yaml").write_text("- {base: a, finetuned: b, task: sst2, size: [1%, 5%]}\n")
    found = read_study(tmp_path / "few.yaml")
    assert found.name == "few" and [spec.sizes for spec in study_plan(found).runs] == [("1%",), ("5%",)]


def test_without_its_data_a_finished_run_stands(store: Store, tmp_path: Path) -> None:
    tiny_pair(tmp_path)
    tiny_task(tmp_path, rows=8)
    (tmp_path / "study.yaml").write_text(FILE.format(folder=tmp_path))
    one = only(read_study(tmp_path / "study.yaml"), 1)
    run_study(one, store)
    (tmp_path / "task.yaml").unlink()
    assert runs(run_study(one, store).skipped) == 1
