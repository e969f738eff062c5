"""Tests of `study run`, `status`, `table`, `pack` and jobs of studies: their output, files, and unchanged data."""

import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pandas as pd
import pytest

from skillviz import jobs
from skillviz.analysis.tables import check
from skillviz.commands import process
from skillviz.core.formats import NOT_MEASURED
from skillviz.errors import BadInput, CorruptRun, RunNotFound, StoreError
from skillviz.jobs import kinds
from skillviz.runs import score as scored
from skillviz.runs.artifact import LOCALIZE, SCORE
from skillviz.runs.doctor import findings
from skillviz.runs.packed import bytes_of, pack_of
from skillviz.runs.process import silent
from skillviz.runs.score import read_score, score_path
from skillviz.runs.session import Session
from skillviz.studies import status as studies_status
from skillviz.studies.engine import rerunnable, run_study
from skillviz.studies.pack import pack
from skillviz.studies.status import Snapshot, status
from skillviz.studies.step import TABLE
from skillviz.studies.store import TABLES_VERSION, list_studies, open_study
from skillviz.studies.time_left import StudyPace, measured
from skillviz.tasks.project import project_root
from tests.cli.calls import call
from tests.refused import refuses
from tests.studies.tiny_study import Results, Store, StudySpec, few, models_in, study_of, study_plan, tasks

Done = tuple[StudySpec, Store]


def written(folder: Path, study: StudySpec) -> Path:
    """Write the study's file into this folder; return its path."""
    path = folder / "study.yaml"
    path.write_text(study.yaml_text())
    return path


@pytest.fixture(scope="module")
def done(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Return a small finished study. Tests must not change it."""
    folder, study = tmp_path_factory.mktemp("done"), few(tiny)
    written(folder, study)
    with models_in(folder) as store:
        assert run_study(study, store).is_whole
    return study, store


@pytest.fixture
def file(done: Done, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the small study, with its models and runs available."""
    folder = done[1].root.parent
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
    monkeypatch.setenv("SKILLVIZ_RUNS", str(done[1].root))
    return folder / "study.yaml"


@pytest.fixture
def copy(file: Path, done: Done, tmp_path: Path) -> Store:
    """Return a copy of the store of the small study, which a test may change."""
    return Store(shutil.copytree(done[1].root, tmp_path / "runs"))


def test_a_dry_run_tells_steps_and_minutes_and_writes_nothing(tiny: Path, tmp_path: Path, user_runs: Path) -> None:
    path = written(tmp_path, few(tiny))
    before = sorted(tmp_path.rglob("*"))
    said = call("study", "run", path, "--dry-run", "--json")
    assert (
        said.code,
        [
            text
            for text in ("fine-tune one (sgd, seed 0)", "6 of 6 steps to do (", "not measured yet")
            if text not in said.out
        ],
    ) == (0, []), said.err
    assert {step["state"] for step in said.json["steps"]} == {"missing"} and sorted(tmp_path.rglob("*")) == before


@pytest.mark.nightly
def test_status_and_run_of_a_finished_study(file: Path, done: Done) -> None:
    said, again = (call("study", word, file, "--json") for word in ("status", "run"))
    assert (said.code, said.json["states"], said.json["left"]) == (0, {"finished": 6}, "nothing is left")
    assert (again.code, again.json["steps"], sorted(again.json["skipped"])) == (
        0,
        {"finished": 0, "skipped": 6, "failed": 0, "not_reached": 0},
        sorted(run.id for run in done[1].list()),
    )


@pytest.mark.slow
def test_what_is_recorded_holds_anywhere(file: Path, done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record has the device, and the command without local paths."""
    typed = ["skillviz", "study", "run", str(file), "--workers", "1", "--runs-dir", str(done[1].root)]
    monkeypatch.setattr(sys, "argv", typed)
    assert call(*typed[1:]).code == 0
    (folder,) = list_studies(done[1])
    assert folder.record.command == "python -m skillviz study run tiny"
    again = call(*folder.record.command.split()[3:], "--runs-dir", done[1].root)
    assert (
        again.code == 0
        and "0 made" in again.out
        and folder.record.device == done[1].list()[0].record.device is not None
    )


@pytest.mark.slow
def test_tables_without_an_experiment_are_as_declared(done: Done) -> None:
    (folder,) = list_studies(done[1])
    assert {"scores", "differences", "recovered", "composition", "stability", "note"} == set(folder.tables())
    for name in folder.tables():
        pd.testing.assert_frame_equal(check(folder.table(name), name), folder.table(name))


@pytest.mark.nightly
def test_tables_of_another_version_are_made_anew(done: Done, copy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not run_study(done[0], copy).finished
    monkeypatch.setattr(studies_status, "TABLES_VERSION", TABLES_VERSION + 1)
    assert [step.kind for step in run_study(done[0], copy).finished] == ["table"] and not run_study(
        done[0], copy
    ).finished


@pytest.mark.nightly
def test_scores_stored_by_several_at_once_are_whole(done: Done, copy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = study_plan(done[0]).scores
    target = score_path(copy.root, spec)
    kept, computed = read_score(target), scored._computed(spec, spec.run_spec("cpu"), Session(), silent)
    barrier, write_file, under_way = Barrier(3), scored.write_file, list[int]()
    (target.parent / f".{target.name}.dead.part").mkdir()

    def seen(to: Path, write: Callable[[Path], object]) -> None:
        under_way.append(len(list(to.parent.glob(".*.part"))))
        write_file(to, lambda draft: (write(draft), time.sleep(0.2)))

    monkeypatch.setattr(scored, "_computed", lambda *_: (barrier.wait(60), computed)[1])
    monkeypatch.setattr(scored, "write_file", seen)
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: scored.make_score(spec, copy, Session(), device="cpu"), range(3)))
    assert (under_way, [score.metrics for score in made], sorted(path.name for path in target.parent.iterdir())) == (
        [0, 0, 0],
        [kept.metrics] * 3,
        [".locks", target.name, f"{target.stem}.parquet"],
    )


def test_tables_of_a_study(file: Path, tmp_path: Path) -> None:
    stored = call("study", "table", file, "--name", "scores", "--out", tmp_path / "scores.csv", "--json")
    assert stored.code == 0
    assert stored.json["rows"] == call("study", "table", file, "--json").json["rows"]
    assert (tmp_path / "scores.csv").read_text().startswith("base,recipe,variant,setting")
    assert {"ft", "graft_retrain", "graft_movement"} <= {row["method"] for row in stored.json["rows"]}
    missing = call("study", "table", file, "--name", "overlap")
    assert (missing.code, missing.err.count("\n")) == (2, 1) and "it has: " in missing.err


@pytest.mark.parametrize(
    ("change", "more", "localizers", "words"),
    [
        (("  - random", "  - random\n  - biases"), (), {"movement", "random"}, "Not all steps are finished"),
        (("localizer: movement", "localizer: random"), ("--name", "scores"), None, "as it was before"),
    ],
    ids=["not finished", "changed"],
)
def test_a_table_says_that_its_file_is_not_finished_or_has_changed(
    file: Path, tmp_path: Path, change: tuple[str, str], more: tuple[str, ...], localizers: set[str] | None, words: str
) -> None:
    """A study that is not finished shows its runs; the stored table of a changed one is as before."""
    other = tmp_path / "study.yaml"
    other.write_text(file.read_text().replace(*change))
    said, same = (call("study", "table", path, *more, "--json") for path in (other, file))
    assert said.code == 0
    assert same.code == 0
    assert words in said.err
    assert words not in same.err
    rows = said.json["rows"]
    assert {row["localizer"] for row in rows} == localizers if localizers else rows == same.json["rows"]


def test_a_wrong_study_ends_with_one_sentence(tiny: Path, tmp_path: Path, user_runs: Path) -> None:
    path = written(tmp_path, study_of(tiny, {"task": tasks(tiny)[0], "recipe": "sdg"}))
    assert [
        (said.code, said.err.count("\n"), "entry 1" in said.err, "'sdg'" in said.err)
        for said in [call("study", command, path) for command in ("run", "status", "table")]
    ] == [(2, 1, True, True)] * 3 and not user_runs.exists()


def test_a_study_is_packed_without_rankings(file: Path, done: Done, tmp_path: Path) -> None:
    said = call("study", "pack", file, "--to", tmp_path / "packed", "--no-rankings", "--json")
    assert (said.code, said.json["runs"], said.json["scores"]) == (0, 2, 1), said.err
    study, packed = done[0], Store(tmp_path / "packed")
    assert len(packed.list()) == 2 and not packed.unreadable()
    for run in packed.list():
        assert packed.verify(run.id) == []
        assert len(run.ranking()) == 0
        assert run.region() == done[1].open(run.id).region()
        assert "ranking.safetensors" not in run.files
    (folder,), (own,) = list_studies(packed), list_studies(done[1])
    assert folder.table("scores").equals(own.table("scores"))
    assert not (folder.path / "work").exists()
    assert set(status(study, packed).query("kind != 'finetune'")["state"]) == {"finished"}
    assert len(Results(study_plan(study), packed).scores()) == 1
    again = pack(study, done[1], packed)
    assert (again.runs, again.scores, again.there) == (0, 0, 3)


def test_a_study_keeps_its_runs_in_one_file(file: Path, done: Done, copy: Store) -> None:
    one, other = (run.id for run in copy.list())
    said = call("study", "pack", file, "--runs-dir", copy.root, "--as-folder", one, "--json")
    assert (said.code, said.json["runs"], said.json["there"]) == (0, 1, 1), said.err
    assert [path.name for path in copy.folders()] == [one] and not list(findings(copy))
    kept = copy.open(other)
    names = ("run.json", *kept.files)
    assert pack_of(kept.path) == copy.root / "studies" / "tiny" / "runs.parquet"
    assert {n: bytes_of(kept.path, n) for n in names} == {n: (done[1].root / other / n).read_bytes() for n in names}
    assert set(status(done[0], copy)["state"]) == {"finished"}
    assert not run_study(done[0], copy).finished
    assert [(pack(done[0], copy, copy).runs, len(list(copy.folders())), len(copy.list())) for _ in range(2)] == [
        (1, 0, 2),
        (0, 0, 2),
    ]


def test_a_changed_file_is_not_packed(done: Done, copy: Store) -> None:
    path = copy.list()[0].path / "history.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    refuses(CorruptRun, "history.parquet", pack, done[0], copy, copy)
    assert len(copy.folders()) == 2 and not (copy.root / "studies" / "tiny" / "runs.parquet").exists()


@pytest.mark.parametrize(("note", "field", "other"), [
    ("base", "fingerprint", "0" * 64), ("task", "definition", "0" * 64), ("task", "definition", ""),
])  # fmt: skip
def test_what_is_packed_of_other_models_or_definitions_is_packed_anew(
    note: str, field: str, other: str, file: Path, done: Done, tmp_path: Path
) -> None:
    study, packed = done[0], Store(tmp_path / "packed")
    first = pack(study, done[1], packed, as_folders=[run.id for run in done[1].list()])
    (score,) = Snapshot(study_plan(study), packed).of(SCORE).values()
    old = packed.open(sorted(run.id for run in packed.list())[0]).path
    for path in (score.path, old / "run.json"):
        path.write_text(path.read_text().replace(f'"{getattr(getattr(score.record, note), field)}"', f'"{other}"'))
    old.rename(packed.root / f"{old.name}-old")
    again = pack(study, done[1], packed)
    (anew,) = Snapshot(study_plan(study), packed).of(SCORE).values()
    assert first.runs == 2
    assert first.scores == 1
    assert again.runs == 1
    assert again.scores == 1
    assert again.there == 1
    assert (anew.record.base, anew.record.task) == (score.record.base, score.record.task)


def test_what_cannot_be_packed(tiny: Path, store: Store) -> None:
    refuses(BadInput, "has no tables", pack, few(tiny), store, Store(store.root / "to"))


def test_the_time_left_is_measured_on_the_finished_steps(done: Done, file: Path, tiny: Path, store: Store) -> None:
    fresh, now = study_plan(few(tiny, finetune={"steps": 600})), Snapshot(study_plan(done[0]), done[1])
    assert measured(Snapshot(fresh, store)).words(fresh.steps) == NOT_MEASURED
    pace, steps = measured(now), now.plan.steps
    took = [now.seconds(step) or 0.0 for step in steps if step.kind != TABLE]
    assert len(pace.measured) == len(took) >= 3 and f"measured on {len(took)} finished steps" in pace.words(steps)
    assert [pace.left(steps), pace.left(steps, workers=2)] == pytest.approx([sum(took), max(sum(took) / 2, *took)]), (
        "a finished step takes its mean time again"
    )


def test_a_kind_without_a_finished_step_is_not_measured(tiny: Path) -> None:
    steps, pace = study_plan(few(tiny)).steps, StudyPace()
    run, *others = [step for step in steps if step.kind == LOCALIZE]
    pace.add(run, 3.0)
    assert pace.left(others) == pytest.approx(3.0 * len(others)), "another localizer: the mean of its kind"
    assert pace.left(steps) is None, "no model is fine-tuned yet"


@pytest.mark.slow
def test_the_budget_stops_between_steps(tiny: Path, store: Store) -> None:
    study = few(tiny)
    first = run_study(study, store, budget=1e-9)
    assert len(first.finished) == 1
    assert len(first.failed) == 0
    assert len(first.not_reached) == 5
    assert status(study, store)["state"].tolist().count("missing") == 5
    assert open_study(first.path).record.status == "cancelled"  # type: ignore[union-attr]
    second = run_study(study, store, budget=1e9)
    assert (second.is_whole, len(second.skipped), len(second.finished)) == (True, 1, 5)
    assert run_study(study, store, budget=0.0).is_whole, "nothing is left to start"


@pytest.mark.nightly
def test_a_study_runs_as_a_job_and_is_told(tiny: Path, tmp_path: Path, store: Store) -> None:
    path = written(tmp_path, few(tiny))
    before, job = jobs.list(store, finished=True, kind="study"), jobs.start_study(path, store)
    assert (before, job.name, job.status) == ([], "tiny", "running")
    refuses(StoreError, "is running", jobs.start_study, path, store)
    seen, ends = {job.status}, time.monotonic() + 120
    while (job := jobs.status(store, "tiny")).status == "running" and time.monotonic() < ends:
        seen.add(jobs.progress(store, "tiny").title)
        time.sleep(0.05)
    assert job.status == "finished", jobs.log_tail(store, "tiny")
    assert "fine-tune one (sgd, seed 0)" in seen
    assert job.finished_steps == 6
    assert [found.path.name for found in jobs.list(store, finished=True, kind="study")] == ["tiny"]
    assert not job.failed_steps
    refuses(StoreError, "finished: only a queued or running", jobs.cancel, store, "tiny")
    refuses(RunNotFound, "no run 'none'", jobs.status, store, "none")


@pytest.mark.parametrize(
    ("log", "status"),
    [("Interrupted.\n", "stopped"), ("Traceback: no\n", "failed"), ("", "stopped"), (None, "stopped")],
)
def test_a_study_that_ended_before_it_began(log: str | None, status: str, tiny: Path, store: Store) -> None:
    """A study cancelled during the check of its models, or written and never run, has not failed."""
    work = store.root / "studies" / "tiny" / "work"
    work.mkdir(parents=True)
    written(work.parent, few(tiny))
    if log is not None:
        (work / "log.txt").write_text(log and f"about 3 s\n{log}")
    (job,) = jobs.list(store, finished=True, kind="study")
    assert job.status == status
    assert f'"{kinds.INTERRUPTED}"' in Path(str(process.__file__)).read_text(), "what a process says when asked to end"


@pytest.mark.nightly
def test_a_cancelled_study_says_so_and_can_go_on(tiny: Path, tmp_path: Path, store: Store) -> None:
    long, ends = few(tiny, finetune={"steps": 100_000}), time.monotonic() + 60
    jobs.start_study(written(tmp_path, long), store)
    while jobs.progress(store, "tiny").step is None and time.monotonic() < ends:
        time.sleep(0.05)
    job = jobs.cancel(store, "tiny")
    assert (job.status, job.finished_steps, set(status(long, store)["state"])) == ("cancelled", 0, {"missing"})
    assert "fine-tune one" in jobs.log_tail(store, "tiny")


RUN = "python -m skillviz study run"
REPRODUCE = "python -m skillviz reproduce table1 --scale small"
BY_NAME = f"{RUN} 'my study'"


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        (f"{RUN} mine.yaml --runs-dir runs", BY_NAME),
        (f"{RUN} HERE/mine.yaml", BY_NAME),
        (f"{RUN} ../mine.yaml", BY_NAME),
        ("it's one", BY_NAME),
        (f"{REPRODUCE} --finetuned tuned", BY_NAME),
        (f"{REPRODUCE} --tasks=sst2,HERE/mine.yaml", BY_NAME),
        (f"{REPRODUCE} --base ~/me", BY_NAME),
        (f"{REPRODUCE} --workers 1 --runs-dir HERE", REPRODUCE),
        (f"{REPRODUCE} --base org/m --workers 1 --runs-dir HERE", f"{REPRODUCE} --base org/m"),
        (f"{RUN} benchmarks/studies/baselines-minilm.yaml --workers 1 --runs-dir HERE",
         f"{RUN} benchmarks/studies/baselines-minilm.yaml"),
        (f"{BY_NAME} --workers 1 --runs-dir HERE", BY_NAME),
        (f"{RUN} PROJECT/benchmarks/s.yaml", f"{RUN} benchmarks/s.yaml"),
        (f"{REPRODUCE} --write-only --runs-dir=/tmp/x --json", REPRODUCE),
        (f"{RUN} benchmarks/s.yaml --partial --dry-run", f"{RUN} benchmarks/s.yaml"),
        (f"{REPRODUCE} --base '${{SKILLVIZ_REAL}}/m'", f"{REPRODUCE} --base '${{SKILLVIZ_REAL}}/m'"),
        (None, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_command_that_means_something_here_alone_runs_the_stored_study(
    typed: str | None, again: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "tuned").mkdir()
    monkeypatch.chdir(tmp_path)
    typed = typed and typed.replace("HERE", str(tmp_path)).replace("PROJECT", str(project_root()))
    assert rerunnable(typed, "my study") == again
