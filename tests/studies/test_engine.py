"""Tests of running studies: whole, interrupted anywhere, by several processes, with failing steps, after changes."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
import yaml

from skillviz.errors import BadInput, DiskFull, SkillvizError
from skillviz.runs import produce as engine
from skillviz.runs.artifact import CURRENT, REGIONS, RunArtifact, differs
from skillviz.runs.process import Progress, environment
from skillviz.runs.record import Failure
from skillviz.runs.run import Run
from skillviz.runs.score import ScoreArtifact, read_score, score_path
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.studies.engine import Outcome, run_study
from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec, folder_of
from skillviz.studies.make_tables import tables_of_runs
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.step import StudyStep
from skillviz.studies.store import StudyFolder, list_studies
from skillviz.studies.task_unions import pair_key
from skillviz.tasks.project import finetuned_root
from tests.refused import refuses
from tests.studies.tiny_study import (
    REGION,
    Results,
    Store,
    every_kind,
    few,
    models_in,
    status,
    study_of,
    study_plan,
    tasks,
    tiny_world,
)
from tests.tiny import tiny_pair, tiny_task

GOOD = {"recipe": "sgd", "localizer": "movement", "size": "5%"}


@pytest.fixture(scope="module")
def undisturbed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Outcome]:
    """Run a study with entries of every kind."""
    study = every_kind(tiny)
    with models_in(tmp_path_factory.mktemp("undisturbed")) as store:
        return Results(study_plan(study), store), run_study(study, store, command="the command")


@pytest.fixture
def whole(undisturbed: tuple[Results, Outcome], monkeypatch: pytest.MonkeyPatch) -> Results:
    """Return the results of the finished study, with its models available."""
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(undisturbed[0].store.root.parent / "finetuned-models"))
    return undisturbed[0]


@pytest.fixture(scope="module")
def small(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[StudySpec, Store]:
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
    return {
        path.parent.name: json.loads(path.read_text())["created"]
        for path in finetuned_root().glob("*/finetuned_model.json")
    }


@pytest.mark.slow
def test_a_study_of_every_kind_runs_through(whole: Results, undisturbed: tuple[Results, Outcome]) -> None:
    frame, folder, outcome = status(whole.study, whole.store), only_study(whole.store), undisturbed[1]
    told = folder.record
    assert len(outcome.finished) == len(frame)
    assert outcome.skipped == []
    assert outcome.is_whole
    assert len(frame) == len(study_plan(whole.study).steps)
    assert (frame["seconds"] > 0).all()
    assert told.seconds > 0
    assert {*frame["state"], *(note.state for note in told.steps.values())} == {"finished"}
    assert told.status == "finished"
    assert told.command == "the command"
    assert told.workers == 1
    assert {"scores", "differences"} <= set(folder.tables())


@pytest.mark.slow
def test_results_are_found_by_labels(whole: Results) -> None:
    runs = whole.runs(task_name="two", recipe="sgd", localizer="random")
    (score,) = whole.scores(recipe="graft-retrain", on="two")
    assert [run.spec.seed for run in runs] == [0, 1] and whole.entry(runs[0])["finetune_seed"] == 0
    frame, states = score.predictions(), {"pretrained", "finetuned"}
    assert (
        [set(of) for of in (score.metrics, score.intervals, frame["state"])],
        {score.dataset, *frame["dataset"]},
    ) == ([states] * 3, {"two"}) and 0 <= (score.metrics["finetuned"]["accuracy"] or 0) <= 1
    assert score.record.unfitted == "at end", "nothing to fit on a handful of validation examples"
    spec, several = (whole.finetuned_of(one) for one in (score, whole.scores(mode="naive", stage=2)[0]))
    assert spec is not None
    assert several is not None
    assert spec.recipe == "graft-retrain"
    assert whole.training_record(spec)["finetune"]["recipe"]
    assert (
        set(whole.training_record(several)["finetune"]),
        whole.training_record(several, "two", 2)["finetune"]["task"],
    ) == ({"1/one", "2/one", "2/two"}, "two")


@pytest.mark.slow
def test_a_draw_may_match_the_region_of_another_run_of_the_study(
    whole: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    (drawn,) = whole.runs(localizer="random-matched")
    (named,) = whole.runs(localizer="movement", task="one", recipe="sgd", seed=0, role="region")
    counts = [{name: len(entries) for name, entries in run.region().indices.items()} for run in (drawn, named)]
    assert drawn.region() != named.region() and counts[0] == counts[1]
    header = drawn.region_header()
    (source,) = header["made_of"]
    assert (source["run"], RunArtifact(drawn.spec).changes(drawn, whole.store, Session())) == (
        named.id,
        CURRENT,
    ) and named.id in " ".join(drawn.record.notes)
    before = {**header, "made_of": [{**source, "region_sha256": "another"}]}
    monkeypatch.setattr(Run, "region_header", lambda run: before)
    assert RunArtifact(drawn.spec).changes(drawn, whole.store, Session()) == differs(REGIONS)


@pytest.mark.slow
def test_an_earlier_task_is_answered_alike_after_later_training(whole: Results) -> None:
    first, second = whole.scores(mode="grafting", task="one")
    pd.testing.assert_frame_equal(first.predictions(), second.predictions())


@pytest.mark.slow
def test_nothing_is_repeated(whole: Results) -> None:
    before, told = made(whole.store), Mock()
    again = run_study(whole.study, whole.store, on_step=told)
    assert (again.is_whole, again.finished, {call.args[3] for call in told.mock_calls}) == (
        True, [], {"started", "skipped"}
    )  # fmt: skip
    assert (made(whole.store), len(whole.store.list())) == (before, len(study_plan(whole.study).runs)) and only_study(
        whole.store
    ).record.command in ("the command", None)


def text_of(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


class Crash(BaseException):
    """An error that no code catches, like the end of the process."""


def crashing(study: StudySpec, store: Store, draw: random.Random) -> bool:
    """Run a study that crashes at a random report; return True if it finished before. A run makes up to 30 reports."""
    told = Mock(side_effect=[*[None] * (draw.randint(1, 40) - 1), Crash])
    with suppress(Crash):
        run_study(study, store, progress=told, on_step=told)
        return True
    return False


@pytest.mark.slow
@pytest.mark.nightly
def test_a_study_that_ends_at_random_points_comes_to_the_same_tables(
    small: tuple[StudySpec, Store], tmp_path: Path
) -> None:
    study, store, draw = small[0], Store(tmp_path / "again"), random.Random(4)
    attempts = next(number for number in range(60) if crashing(study, store, draw))
    same_tables(small[1], store)
    assert len(store.list()) == len(study_plan(study).runs) and not store.unreadable() and attempts > 2


@pytest.mark.slow
@pytest.mark.nightly
def test_a_study_that_is_killed_comes_to_the_same_tables(small: tuple[StudySpec, Store], tmp_path: Path) -> None:
    (study, two), one = small, Store(tmp_path / "one")
    file = tmp_path / "study.yaml"
    file.write_text(study.yaml_text())
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "skillviz", "study", "run", str(file), "--runs-dir", str(one.root)],
            env=environment(), stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        events = one.root / "studies" / "tiny" / "work" / "events.jsonl"
        ends = time.monotonic() + 60
        while time.monotonic() < ends and process.poll() is None and text_of(events).count('"finished"') < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()
    kept = made(one)
    assert set(status(study, one)["state"]) >= {"finished", "missing"}
    outcome = run_study(study, one)
    assert outcome.is_whole and len(outcome.skipped) >= 2 and {name: made(one)[name] for name in kept} == kept
    same_tables(one, two)


@pytest.mark.slow
@pytest.mark.nightly
def test_two_workers_come_to_the_same_tables(
    small: tuple[StudySpec, Store], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, told = small[0], Mock()
    stranger = ModuleType("__main__")  # like after a page's script: a worker must not import it
    stranger.__file__ = str(store.root / "no-such-script.py")
    monkeypatch.setitem(sys.modules, "__main__", stranger)
    outcome = run_study(study, store, workers=2, on_step=told)
    assert outcome.is_whole and not outcome.failed, outcome.failed
    told_of = [(step, what) for _, _, step, what in (call.args for call in told.mock_calls)]
    for place, (step, what) in enumerate(told_of):
        finished = {other.key for other, word in told_of[:place] if word == "finished"}
        assert what != "started" or finished.issuperset(step.needs)
    same_tables(small[1], store)
    assert only_study(store).record.workers == 2


@pytest.fixture
def own(tmp_path: Path) -> StudySpec:
    """Return a small study of files in `world`, which the test may change."""
    tiny_world(tmp_path / "world")
    return few(tmp_path / "world")


@pytest.mark.slow
def test_members_are_made_anew_when_their_data_change(own: StudySpec, store: Store, tmp_path: Path) -> None:
    run_study(own, store)
    tables = only_study(store).record.made_of
    train = tmp_path / "world" / "one" / "train.jsonl"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:-2]))
    outcome = run_study(own, store)
    assert (outcome.is_whole, outcome.skipped) == (True, []) and only_study(store).record.made_of != tables


@pytest.mark.slow
def test_a_retrained_model_is_made_again_with_its_region_or_version(whole: Results) -> None:
    store = whole.store
    spec = next(model for model in study_plan(whole.study).finetuned if model.recipe == "graft-retrain")
    file, (key,) = folder_of(spec) / "finetuned_model.json", (region.key() for region in spec.regions)
    model, kept = FineTunedArtifact(spec).current(store), file.read_text()
    assert model is not None and model.path == file.parent and list(json.loads(kept)["regions"]) == [key]
    for other in ({"regions": {key: "of another region"}}, {"layout": 0}):
        file.write_text(json.dumps({**json.loads(kept), **other}))
        assert FineTunedArtifact(spec).current(store) is None
    file.write_text(kept)


@pytest.mark.slow
def test_a_member_that_fails_takes_along_only_what_needs_it(tiny: Path, store: Store) -> None:
    (one, two), far = tasks(tiny), {"finetune": {"lr": 1e30}}
    broken = study_of(
        tiny,
        {**GOOD, "task": one, **far},
        {"task": one, "recipe": "graft-retrain", "region": {**REGION, **far}, "localizer": "none"},
        {**GOOD, "task": two},
    )
    outcome = run_study(broken, store)
    ((step, failure),) = outcome.failed
    assert isinstance(step.spec, FineTunedSpec)
    assert step.kind == "finetune"
    assert [s.kind for s in outcome.not_reached] == ["localize", "finetune", "score", "table"]
    assert [s.kind for s in outcome.finished] == ["finetune", "localize"]
    assert "the loss became" in failure.message
    record, told = only_study(store).record, status(broken, store).set_index("title").loc[step.title]
    assert record.status == "failed"
    assert record.steps[step.key].error == failure
    assert told["state"] == "failed"
    assert "the loss became" in told["error"]
    root = folder_of(step.spec).parent
    assert [path.name for path in root.glob(".*")] == [".locks"] and len(list(root.glob("[!.]*"))) == 1
    again = run_study(broken, store)
    assert [s.key for s, _ in again.failed] == [step.key] and len(again.skipped) == 2


@pytest.mark.slow
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
    study = study_of(tiny, good, {**good, **wrong})
    refuses(SkillvizError, rf"^[^\n]*entry 2.*{words}[^\n]*\Z", run_study, study, store)
    assert not store.root.exists()


@pytest.mark.slow
def test_an_unknown_experiment_is_refused_before_anything_is_made(tiny: Path, store: Store) -> None:
    refuses(
        BadInput, "'table99' is not an experiment", run_study,
        few(tiny).model_copy(update={"request": ExperimentRequest("table99")}), store,
    )  # fmt: skip
    assert not store.root.exists()


@pytest.mark.slow
def test_a_study_under_way_is_not_begun_twice(tiny: Path, store: Store) -> None:
    states: list[str] = []

    def inside(*_: object) -> None:
        if not states:
            refuses(BadInput, "running in another process", run_study, few(tiny), store)
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
    return StudySpec(
        name=study.name, runs=tuple(s.model_dump(exclude_defaults=True) for s in study_plan(study).runs[:count])
    )


def runs(steps: list[StudyStep]) -> int:
    """Return the number of steps that are runs."""
    return sum(step.kind == "localize" for step in steps)


@pytest.mark.slow
def test_finished_runs_are_skipped_and_the_rest_is_made(study: StudySpec, store: Store) -> None:
    session, told = Session(), Mock()
    one = run_study(first_of(study, 2), store, session=session)
    assert (runs(one.finished), len(one.skipped)) == (2, 0)
    two = run_study(first_of(study, 3), store, on_step=told, session=session)
    assert (
        [step.key for step in two.skipped],
        [step.spec.localizer for step in two.finished if isinstance(step.spec, RunSpec)],
    ) == ([step.key for step in one.finished[:-1]], ["random"])
    assert [call.args[3] for call in told.mock_calls if call.args[0] < 4] == [
        "started", "skipped", "started", "skipped", "started", "finished",
    ] and len(store.list()) == 3  # fmt: skip


@pytest.mark.slow
def test_an_interrupted_study_goes_on_where_it_stopped(study: StudySpec, store: Store) -> None:
    few, phases = first_of(study, 3), []

    def stop(progress: Progress) -> None:
        phases.append(progress.phase)
        if phases.count("store") == 2:
            raise KeyboardInterrupt

    refuses(KeyboardInterrupt, None, run_study, few, store, progress=stop)
    assert (len(store.list()), [e.record.status for e in (*store.unfinished(), *list_studies(store))]) == (
        1,
        ["cancelled"] * 2,
    )
    outcome = run_study(few, store)
    assert (runs(outcome.skipped), runs(outcome.finished)) == (1, 2)
    assert not store.unfinished()  # the interrupted run was finished, not started again


@pytest.mark.slow
def test_a_run_that_fails_does_not_stop_the_others(study: StudySpec, store: Store) -> None:
    first = first_of(study, 1).runs[0]
    outcome, partly = (
        run_study(
            StudySpec(
                name="s", runs=({**first, "localizer": "expression", "options": {"expression": {"layers": []}}}, first)
            ),
            store,
            partial=one,
        )
        for one in (False, True)
    )
    assert runs(outcome.finished) == 1 and [step.kind for step in outcome.not_reached] == ["table"]
    ((step, failure),) = outcome.failed
    assert step.kind == "localize"
    assert type(failure) is Failure
    assert failure.kind == "BadInput"
    assert len(partly.failed) == 1
    assert [step.kind for step in partly.finished] == ["table"]


@pytest.mark.slow
def test_a_full_disk_stops_a_study(study: StudySpec, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "produce", Mock(side_effect=DiskFull("no space.")))
    refuses(DiskFull, None, run_study, study, store)
    engine.produce.assert_called_once()


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_tables_of_a_whole_study(study: StudySpec, store: Store) -> None:
    outcome = run_study(study, store)
    assert runs(outcome.finished) == 10 and outcome.is_whole
    made = tables_of_runs(Results(study_plan(study), store))
    frame, pairs = made["scores"], made["differences"]
    accuracy = frame[frame["metric"] == "accuracy"].set_index(["localizer", "size"])
    assert sorted(accuracy.index) == sorted((n, k) for n in ("movement", "random", "stagewise") for k in (44, 222))
    assert accuracy["sd"].isna().groupby(level=0).all().to_dict() == {
        "movement": True,
        "random": False,
        "stagewise": False,
    }
    assert accuracy["seeds"].to_dict()["stagewise", 44] == 2
    assert len(pairs.query("metric == 'accuracy'")) == 2 * 3 * 2
    assert (
        {
            name: len(frame)
            for name, frame in tables_of_runs(Results(study_plan(study), Store(store.root / "none"))).items()
        }
    ) == dict.fromkeys(made, 0)


def change(path: Path, **fields: object) -> None:
    """Change fields of a task file."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **fields}, sort_keys=False))


@pytest.mark.nightly
def test_a_changed_task_makes_members_runs_and_scores_again(own: StudySpec, store: Store, tmp_path: Path) -> None:
    """All models and runs are of the head, so another template changes nothing."""
    assert not run_study(own, store).again
    asks = {"template": {"masked": "<mask> is {text}", "causal": "Is {text}"}, "length_normalised": True}
    for fields in ({"title": "Another title"}, asks):
        change(Path(tasks(tmp_path / "world")[0]), **fields)
        assert not run_study(own, store).finished, fields
    change(Path(tasks(tmp_path / "world")[0]), max_length=12)
    outcome = run_study(own, store)
    kinds = {step.kind: why for step, why in outcome.again}
    assert (outcome.is_whole, outcome.skipped, set(kinds)) == (True, [], {"finetune", "localize", "score"})
    assert all("the definition of the task" in why and "has changed" in why for why in kinds.values()), kinds


@pytest.mark.slow
def test_runs_scores_and_kept_logits_know_the_definition(own: StudySpec, store: Store, tmp_path: Path) -> None:
    run_study(own, store)
    run, (spec,) = store.list()[0], study_plan(own).scores
    made = [(RunArtifact(run.spec), run), (ScoreArtifact(spec), read_score(score_path(store.root, spec)))]
    assert run.record.task is not None and run.record.task.definition
    assert [artifact.changes(one, store, Session()) for artifact, one in made] == [CURRENT, CURRENT]  # type: ignore[arg-type, attr-defined]
    key = pair_key(Session(), run.spec)
    change(Path(tasks(tmp_path / "world")[0]), metric="f1")
    why = [artifact.changes(one, store, Session()).why for artifact, one in made]  # type: ignore[arg-type, attr-defined]
    assert ["definition" in words for words in why] == [True, True] and pair_key(Session(), run.spec) != key
