"""Tests of running studies: whole, interrupted anywhere, by several processes, with failing steps; equal tables."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

from skillviz.errors import BadInput, DiskFull, SkillvizError
from skillviz.runs import produce as engine
from skillviz.runs.artifact import CURRENT, REGIONS, RunArtifact, differs
from skillviz.runs.process import Progress, environment
from skillviz.runs.record import Failure
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.engine import Outcome, run_study
from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec, folder_of
from skillviz.studies.make_tables import tables_of_runs
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.status import status
from skillviz.studies.step import StudyStep
from skillviz.studies.store import StudyFolder, list_studies
from skillviz.tasks.project import finetuned_root
from tests.studies.tiny_study import REGION, every_kind, few, study_of, tasks, tiny_world
from tests.tiny import tiny_pair, tiny_task

pytestmark = pytest.mark.slow

Whole = tuple[StudySpec, Store, Path, Outcome]
Small = tuple[StudySpec, Store]


@pytest.fixture(scope="module")
def undisturbed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """Run a study with entries of every kind; return it, its store and the folder of its models."""
    folder = tmp_path_factory.mktemp("undisturbed")
    study, store = every_kind(tiny), Store(folder / "runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
        yield study, store, folder / "finetuned-models", run_study(study, store, command="the command")


@pytest.fixture
def whole(undisturbed: Whole, monkeypatch: pytest.MonkeyPatch) -> Whole:
    """Return the finished study, with its models available."""
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(undisturbed[2]))
    return undisturbed


@pytest.fixture(scope="module")
def small(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Run a small study in one process."""
    study, store = few(tiny, seed=[0, 1]), Store(tmp_path_factory.mktemp("small") / "runs")
    assert run_study(study, store).is_whole
    return study, store


def only_study(store: Store) -> StudyFolder:
    """Return the only study of a store."""
    (found,) = list_studies(store)
    return found


def same_tables(a: Store, b: Store) -> None:
    """Assert that the studies of two stores have equal tables."""
    one, two = only_study(a), only_study(b)
    assert sorted(one.tables()) == sorted(two.tables()) != []
    for name in one.tables():
        pd.testing.assert_frame_equal(one.table(name), two.table(name))


def made(store: Store) -> dict[str, str]:
    """Return name of a model's folder -> the time when the model was made."""
    records = finetuned_root().glob("*/finetuned_model.json")
    return {path.parent.name: json.loads(path.read_text())["created"] for path in records}


def test_a_study_of_every_kind_runs_through(whole: Whole) -> None:
    study, store, _, outcome = whole
    frame, folder = status(study, store), only_study(store)
    assert (outcome.is_whole, len(outcome.finished), len(outcome.skipped)) == (True, len(frame), 0)
    assert len(frame) == len(study_plan(study).steps) and (frame["seconds"] > 0).all() and folder.record.seconds > 0
    assert {*frame["state"], *(note.state for note in folder.record.steps.values())} == {"finished"}
    told = folder.record
    assert (told.status, told.command, told.workers) == ("finished", "the command", 1)
    assert {"scores", "differences"} <= set(folder.tables())


def test_results_are_found_by_labels(whole: Whole) -> None:
    study, store, _, _ = whole
    results = Results(study_plan(study), store)
    runs = results.runs(task_name="two", recipe="sgd", localizer="random")
    assert [run.spec.seed for run in runs] == [0, 1] and results.entry(runs[0])["finetune_seed"] == 0
    (score,) = results.scores(recipe="graft-retrain", on="two")
    assert set(score.metrics) == {"pretrained", "finetuned"} == set(score.intervals)
    assert score.dataset == "two" and 0 <= (score.metrics["finetuned"]["accuracy"] or 0) <= 1
    assert score.record.unfitted == "at end", "nothing to fit on a handful of validation examples"
    frame = score.predictions()
    assert set(frame["state"]) == {"pretrained", "finetuned"} and set(frame["dataset"]) == {"two"}
    spec, several = (results.finetuned_of(one) for one in (score, results.scores(mode="naive", stage=2)[0]))
    assert spec is not None and several is not None and spec.recipe == "graft-retrain"
    assert results.training_record(spec)["finetune"]["recipe"]
    assert set(results.training_record(several)["finetune"]) == {"1/one", "2/one", "2/two"}
    assert results.training_record(several, "two", 2)["finetune"]["task"] == "two"


def test_a_draw_may_match_the_region_of_another_run_of_the_study(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(study_plan(whole[0]), whole[1])
    (drawn,) = results.runs(localizer="random-matched")
    (named,) = results.runs(localizer="movement", task="one", recipe="sgd", seed=0, role="region")
    counts = [{name: len(entries) for name, entries in run.region().indices.items()} for run in (drawn, named)]
    assert drawn.region() != named.region() and counts[0] == counts[1]
    header = drawn.region_header()
    (source,) = header["made_of"]
    assert source["run"] == named.id and any(named.id in note for note in drawn.record.notes)
    assert RunArtifact(drawn.spec).changes(drawn, whole[1], Session()) == CURRENT
    before = {**header, "made_of": [{**source, "region_sha256": "another"}]}
    monkeypatch.setattr(Run, "region_header", lambda run: before)
    assert RunArtifact(drawn.spec).changes(drawn, whole[1], Session()) == differs(REGIONS)


def test_an_earlier_task_is_answered_alike_after_later_training(whole: Whole) -> None:
    results = Results(study_plan(whole[0]), whole[1])
    first, second = results.scores(mode="grafting", task="one")
    pd.testing.assert_frame_equal(first.predictions(), second.predictions())


def test_nothing_is_repeated(whole: Whole) -> None:
    study, store, _, _ = whole
    before, told = made(store), []
    again = run_study(study, store, on_step=lambda number, count, step, what: told.append(what))
    assert again.is_whole and not again.finished and set(told) == {"started", "skipped"}
    assert made(store) == before and len(store.list()) == len(study_plan(study).runs)
    assert only_study(store).record.command == "the command" or only_study(store).record.command is None


class Crash(BaseException):
    """An error that no code catches, like the end of the process."""


def crashing(study: StudySpec, store: Store, draw: random.Random) -> bool:
    """Run a study that crashes at a random report; return True if it finished before."""
    told = Mock(side_effect=[*[None] * (draw.randint(1, 25) - 1), Crash])
    with suppress(Crash):
        run_study(study, store, progress=told, on_step=told)
        return True
    return False


@pytest.mark.nightly
def test_a_study_that_ends_at_random_points_comes_to_the_same_tables(small: Small, tmp_path: Path) -> None:
    study, store, draw, attempts = small[0], Store(tmp_path / "again"), random.Random(4), 1
    while not crashing(study, store, draw):
        attempts += 1
        assert attempts < 60
    assert attempts > 3
    same_tables(small[1], store)
    assert len(store.list()) == len(study_plan(study).runs) and not store.unreadable()


@pytest.mark.nightly
def test_a_study_that_is_killed_comes_to_the_same_tables(small: Small, tmp_path: Path) -> None:
    (study, two), one = small, Store(tmp_path / "one")
    file = tmp_path / "study.yaml"
    file.write_text(study.yaml_text())
    words = [sys.executable, "-m", "skillviz", "study", "run", str(file), "--runs-dir", str(one.root)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, env=environment(), stdout=log, stderr=log, start_new_session=True)
        events = one.root / "studies" / "tiny" / "work" / "events.jsonl"
        ends = time.monotonic() + 60
        while time.monotonic() < ends and process.poll() is None:
            told = events.read_text() if events.is_file() else ""
            if told.count('"finished"') >= 2:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()
    kept = made(one)
    assert set(status(study, one)["state"]) >= {"finished", "missing"}
    outcome = run_study(study, one)
    assert outcome.is_whole and len(outcome.skipped) >= 2
    assert {name: made(one)[name] for name in kept} == kept
    same_tables(one, two)


@pytest.mark.nightly
def test_two_workers_come_to_the_same_tables(small: Small, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    study, told = small[0], list[tuple[str, str]]()
    stranger = ModuleType("__main__")  # like after a page's script: a worker must not import it
    stranger.__file__ = str(store.root / "no-such-script.py")
    monkeypatch.setitem(sys.modules, "__main__", stranger)
    outcome = run_study(study, store, workers=2, on_step=lambda n, c, step, what: told.append((step.key, what)))
    assert outcome.is_whole and not outcome.failed, outcome.failed
    finished: set[str] = set()
    needs = {step.key: step.needs for step in study_plan(study).steps}
    for key, what in told:
        if what == "started":
            assert finished.issuperset(needs[key])
        finished |= {key} if what == "finished" else set()
    same_tables(small[1], store)
    assert only_study(store).record.workers == 2


def test_members_are_made_anew_when_their_data_change(tmp_path: Path) -> None:
    tiny_world(tmp_path / "world")
    study, store = few(tmp_path / "world"), Store(tmp_path / "runs")
    run_study(study, store)
    tables = only_study(store).record.made_of
    train = tmp_path / "world" / "one" / "train.jsonl"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:-2]))
    outcome = run_study(study, store)
    assert outcome.is_whole and not outcome.skipped
    assert only_study(store).record.made_of != tables


def test_a_retrained_model_is_made_again_with_its_region_or_version(whole: Whole) -> None:
    study, store, _, _ = whole
    spec = next(model for model in study_plan(study).finetuned if model.recipe == "graft-retrain")
    file, (key,) = folder_of(spec) / "finetuned_model.json", (region.key() for region in spec.regions)
    model, kept = FineTunedArtifact(spec).current(store), file.read_text()
    assert model is not None and model.path == file.parent and list(json.loads(kept)["regions"]) == [key]
    for other in ({"regions": {key: "of another region"}}, {"layout": 0}):
        file.write_text(json.dumps({**json.loads(kept), **other}))
        assert FineTunedArtifact(spec).current(store) is None
    file.write_text(kept)


def test_a_member_that_fails_takes_along_only_what_needs_it(tiny: Path, store: Store) -> None:
    one, two = tasks(tiny)
    entry = {"recipe": "sgd", "localizer": "movement", "size": "5%"}
    broken = study_of(
        tiny,
        {**entry, "task": one, "finetune": {"lr": 1e30}},
        {"task": one, "recipe": "graft-retrain", "region": {**REGION, "finetune": {"lr": 1e30}}, "localizer": "none"},
        {**entry, "task": two},
    )
    outcome = run_study(broken, store)
    ((step, failure),) = outcome.failed
    assert isinstance(step.spec, FineTunedSpec) and step.kind == "finetune" and "the loss became" in failure.message
    assert [s.kind for s in outcome.not_reached] == ["localize", "finetune", "score", "table"]
    assert [s.kind for s in outcome.finished] == ["finetune", "localize"]
    record, told = only_study(store).record, status(broken, store).set_index("title").loc[step.title]
    assert (record.status, record.steps[step.key].error, told["state"]) == ("failed", failure, "failed")
    assert "the loss became" in told["error"]
    root = folder_of(step.spec).parent
    assert [path.name for path in root.glob(".*")] == [".locks"] and len(list(root.glob("[!.]*"))) == 1
    again = run_study(broken, store)
    assert [s.key for s, _ in again.failed] == [step.key] and len(again.skipped) == 2


GOOD = {"recipe": "sgd", "localizer": "movement", "size": "5%"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"task": "none.yaml"}, "there is no task file"),
        ({"base": "none"}, "none"),
        ({"size": "9999999"}, "9,999,999 entries"),
        ({"options": {"colour": 1}}, "no option 'colour'"),
        ({"readout": "prompt"}, "readout"),
        ({"localizer": "expression", "options": {"expression": {"run": f"key:{'0' * 64}"}}},
         "neither in this study nor finished"),
        ({"recipe": "lora", "finetune": {"grid": "tiny"}}, "'tiny' is not a grid"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_before_anything_is_made(
    tiny: Path, store: Store, entry: dict[str, Any], words: str
) -> None:
    wrong = {k: str(tiny / v) if k in ("task", "base") else v for k, v in entry.items()}
    good = {**GOOD, "task": tasks(tiny)[0]}
    with pytest.raises(SkillvizError, match=f"entry 2.*{words}") as caught:
        run_study(study_of(tiny, good, {**good, **wrong}), store)
    assert "\n" not in str(caught.value) and not store.root.exists()


def test_an_unknown_experiment_is_refused_before_anything_is_made(tiny: Path, store: Store) -> None:
    with pytest.raises(BadInput, match="'table99' is not an experiment"):
        run_study(few(tiny).model_copy(update={"request": ExperimentRequest("table99")}), store)
    assert not store.root.exists()


def test_a_study_under_way_is_not_begun_twice(tiny: Path, store: Store) -> None:
    states: list[str] = []

    def inside(*_: object) -> None:
        if not states:
            with pytest.raises(BadInput, match="running in another process"):
                run_study(few(tiny), store)
            states.extend(status(few(tiny), store)["state"])

    assert run_study(few(tiny), store, on_step=inside).is_whole and states[0] == "running"


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


def first_of(study: StudySpec, count: int) -> StudySpec:
    """Return the first entries of a study, as explicit specs."""
    runs = tuple(s.model_dump(exclude_defaults=True) for s in study_plan(study).runs[:count])
    return StudySpec(name=study.name, runs=runs)


def runs(steps: list[StudyStep]) -> int:
    """Return the number of steps that are runs."""
    return sum(step.kind == "localize" for step in steps)


def test_finished_runs_are_skipped_and_the_rest_is_made(study: StudySpec, store: Store) -> None:
    few, session = first_of(study, 3), Session()
    one = run_study(first_of(study, 2), store, session=session)
    assert (runs(one.finished), len(one.skipped)) == (2, 0)
    told: list[tuple[int, str]] = []
    two = run_study(few, store, on_step=lambda number, count, step, what: told.append((number, what)), session=session)
    assert [step.key for step in two.skipped] == [step.key for step in one.finished[:-1]]
    assert [step.spec.localizer for step in two.finished if isinstance(step.spec, RunSpec)] == ["random"]
    words = ["started", "skipped", "started", "skipped", "started", "finished"]
    assert [word for number, word in told if number < 4] == words and len(store.list()) == 3


def test_an_interrupted_study_goes_on_where_it_stopped(study: StudySpec, store: Store) -> None:
    few = first_of(study, 3)
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
    first = first_of(study, 1).runs[0]
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
    one, task = first_of(write_study(tmp_path), 1), tmp_path / "task.yaml"
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
