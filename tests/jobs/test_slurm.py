"""Tests of jobs on a real Slurm of two nodes: local results, despite time limits, lost nodes and cancels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from skillviz import jobs
from skillviz.errors import NoCluster, StoreError
from skillviz.jobs.slurm import SLURM_BACKEND, VARIABLE
from skillviz.models import state_file
from skillviz.runs import slurm_queue
from skillviz.runs.folder import CHECKPOINT
from skillviz.runs.liveness import jobs_of
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, Unfinished
from skillviz.studies.engine import run_study
from skillviz.studies.plan import study_plan
from skillviz.studies.store import open_study
from tests.cli.calls import call
from tests.jobs.conftest import LONG, ended, long_spec, stepped, until
from tests.jobs.slurm_cluster import SlurmCluster, missing, run
from tests.runs.tiny_world import spec_of
from tests.studies.conftest import tiny
from tests.studies.tiny_study import few

STEPS = 300
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Start a cluster of two nodes with one core each."""
    found = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(found.folder / "slurm.conf"))
        try:
            found.start()
            yield found
        finally:
            found.stop()


@pytest.fixture(autouse=True)
def settings(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the cluster's settings, set in the variable; checkpoints are written at every step."""
    path = tmp_path / "cluster.yaml"
    path.write_text("partition: tests\ntime: 0:10:00\nextra: {cpus-per-task: 1}\n")
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setenv(state_file.ENVIRONMENT, "0.05")
    slurm_queue.forget()
    slurm_queue._ended.clear()
    return path


@pytest.fixture(scope="module")
def here(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the run of `search`, made in this process without interruption."""
    from skillviz.runs.produce import produce  # torch

    return produce(search(world), Store(tmp_path_factory.mktemp("here")))


def search(world: Path) -> RunSpec:
    """Return a search of some seconds."""
    return long_spec(world, steps=STEPS)


def same(one: Run, other: Run) -> None:
    """Assert that both runs found the same region in the same steps, with the same scores."""
    assert one.region().sha256() == other.region().sha256()
    columns = ["target", "step", "loss", "size", "added", "removed"]
    pd.testing.assert_frame_equal(one.history()[columns], other.history()[columns])
    assert one.record.metrics == other.record.metrics and one.record.notes == other.record.notes


def finished(store: Store, name: str, seconds: float = LONG) -> Run:
    """Return the run of a job, once it is finished."""
    done = ended(store, name, seconds)
    assert done.status == "finished", (done.error, jobs.log_tail(store, name))
    assert store.verify(name) == []
    return store.open(name)


def node_of(name: str) -> str:
    """Return the node that a job runs on."""
    return run("squeue", "--noheader", "--array", f"--jobs={name}", "--format=%N").strip()


def test_localize_on_the_cluster_ends_equal_to_a_local_one(store: Store, world: Path) -> None:
    spec = spec_of(world)
    words = ["--base", spec.base, "--finetuned", spec.finetuned, "--task", spec.task, "--size", "5%", "--steps", "5"]
    words += ["--runs-dir", store.root, "--device", "cpu"]
    there = call("localize", *words, "--cluster", "slurm")
    assert there.code == 0, there.err
    name = there.out.strip().splitlines()[-1]
    assert "jobs watch" in there.err and jobs.status(store, name).slot.startswith("slurm")
    local = call("localize", *words, "--json").json["run_id"]
    same(finished(store, name), store.open(local))
    assert "queued for slurm" in jobs.log_tail(store, name)


def test_at_the_signal_before_its_time_limit_a_job_goes_back_into_the_queue(
    store: Store, world: Path, here: Run
) -> None:
    job = jobs.start(search(world), store, backend=SLURM_BACKEND)
    until(stepped(store, job.run_id, 30))
    (number,) = jobs_of(job.path / "work")
    run("scancel", "--signal=USR2", "--batch", number)
    until(lambda: "Restarts=1" in run("scontrol", "show", "job", number))
    waiting = jobs.status(store, job.run_id)
    assert waiting.is_open and not waiting.is_resumable
    same(finished(store, job.run_id), here)
    assert "resuming after" in jobs.log_tail(store, job.run_id) and len(store.list()) == 1


@pytest.mark.nightly
def test_slurm_s_own_time_limit_is_no_end(store: Store, world: Path, settings: Path) -> None:
    """The search takes longer than the limit of two minutes; the signal arrives up to a minute early."""
    settings.write_text("partition: tests\ntime: 0:02:00\n")
    spec = long_spec(world, steps=40 * STEPS)
    job = jobs.start(spec, store, backend=SLURM_BACKEND)
    (number,) = jobs_of(job.path / "work")
    one = finished(store, job.run_id, 10 * LONG)
    assert "Restarts=0" not in run("scontrol", "show", "job", number)
    local = jobs.start(spec, Store(store.root.with_name("local")))
    same(one, finished(Store(store.root.with_name("local")), local.run_id, 10 * LONG))


def test_jobs_wait_in_turn_and_can_be_cancelled_and_resumed(store: Store, world: Path, here: Run) -> None:
    endless = long_spec(world, steps=1_000_000)
    running = [jobs.start(endless.model_copy(update={"seed": seed}), store, backend=SLURM_BACKEND) for seed in (1, 2)]
    for job in running:
        until(stepped(store, job.run_id, 30))
    waiting = [jobs.start(search(world).model_copy(update={"seed": s}), store, backend=SLURM_BACKEND) for s in (0, 3)]
    until(lambda: jobs.status(store, waiting[1].run_id).position is not None)
    slurm_queue.forget()
    listed = [jobs.status(store, job.run_id) for job in waiting]
    assert [(job.status, job.slot, job.position) for job in listed] == [
        ("queued", "slurm tests", 0), ("queued", "slurm tests", 1),
    ]  # fmt: skip
    shown = call("jobs", "list", "--runs-dir", store.root)
    assert "1 before it" in shown.out and "slurm tests" in shown.out
    assert "1 job ahead of it" in call("jobs", "log", waiting[1].run_id, "--runs-dir", store.root).err
    with pytest.raises(StoreError, match="only a failed, cancelled or stopped"):
        jobs.resume(store, waiting[0].run_id)
    assert jobs.cancel(store, waiting[1].run_id).status == "cancelled"
    cut = jobs.cancel(store, running[0].run_id)
    assert not jobs_of(cut.path / "work") and "cancelled" in jobs.log_tail(store, cut.run_id)
    run("scancel", *jobs_of(running[1].path / "work"))  # cancelled outside skillviz
    for gone in (cut, ended(store, running[1].run_id)):
        assert gone.status == "cancelled" and gone.is_resumable and (gone.path / "work" / CHECKPOINT).is_file()
    same(finished(store, waiting[0].run_id), here)
    again = jobs.resume(store, running[0].run_id)
    assert jobs.cancel(store, again.run_id).status == "cancelled"


def test_slurm_s_refusal_is_one_sentence_and_leaves_no_run(store: Store, world: Path, settings: Path) -> None:
    settings.write_text("partition: nowhere\ntime: 60\n")
    with pytest.raises(NoCluster, match="Slurm refused the job: .*partition"):
        jobs.start(spec_of(world), store, backend=SLURM_BACKEND)
    assert store.folders() == []


def test_a_node_that_is_lost_in_the_middle_of_a_study(
    cluster: SlurmCluster, store: Store, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its step resumes on the other node from its checkpoint; each step ends once, with a local study's results."""
    study = few(tiny, localizer=["stagewise", "frank-wolfe"], steps=STEPS, batch_size=4)
    file = tmp_path / "study.yaml"
    file.write_text(study.yaml_text())
    said = call("study", "run", file, "--cluster", "slurm", "--runs-dir", store.root)
    assert said.code == 0 and said.out.strip() == "tiny", said.err
    with pytest.raises(StoreError, match="is running"):
        jobs.submit_study(study, store, SLURM_BACKEND)

    def searched() -> Unfinished | None:
        for entry in store.unfinished():
            if entry.record.spec.localizer == "stagewise" and (entry.path / "work" / CHECKPOINT).is_file():
                return entry
        assert jobs.status(store, "tiny").is_open, jobs.log_tail(store, "tiny", 500)
        return None

    lost = until(searched)
    (number,) = jobs_of(lost.path / "work")
    name = node_of(number)
    cluster.kill_node(name)
    assert store.look(lost.id).record.status == "running", "Slurm has not noticed yet, or will start it again"
    done = ended_study(store)
    assert done.status == "finished", (done.failed_steps, jobs.log_tail(store, "tiny", 500))
    cluster.start_node(name)
    assert "resuming after" in jobs.log_tail(store, lost.id)

    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "other"))
    local = Store(tmp_path / "local")
    assert run_study(study, local).is_whole
    there, own = ({run.record.key: run for run in s.list()} for s in (store, local))
    assert len(store.list()) == len(there) == len(local.list()) and store.unfinished() == []
    assert {key: run.region().sha256() for key, run in there.items()} == {
        k: r.region().sha256() for k, r in own.items()
    }
    for one in open_study(done.path).tables():
        frames = [open_study(s.root / "studies" / "tiny").table(one) for s in (store, local)]
        pd.testing.assert_frame_equal(*(frame.drop(columns="run", errors="ignore") for frame in frames))
    text = (done.path / "work" / "log.txt").read_text()
    assert [text.count(f" finished: {step.title}") for step in study_plan(study).steps] == [1] * len(
        study_plan(study).steps
    )


def ended_study(store: Store) -> jobs.Job:
    """Return the study's job once it is closed."""
    return until(lambda: None if (job := jobs.status(store, "tiny")).is_open else job, 3 * LONG)


@pytest.mark.nightly
def test_a_study_on_the_cluster_is_cancelled_and_goes_on(store: Store, tiny: Path) -> None:
    study = few(tiny, localizer="stagewise", steps=1_000_000, batch_size=4)
    jobs.submit_study(study, store, SLURM_BACKEND)

    def searched() -> Unfinished | None:
        found = [entry for entry in store.unfinished() if (entry.path / "work" / CHECKPOINT).is_file()]
        return next((entry for entry in found if entry.record.spec.localizer == "stagewise"), None)

    entry = until(searched)
    assert jobs.status(store, "tiny").status == "running" and jobs.progress(store, "tiny").step >= 1
    cut = jobs.cancel(store, "tiny")
    assert cut.status == "cancelled" and cut.is_resumable and cut.finished_steps >= 1
    until(lambda: store.look(entry.id).record.status == "cancelled")
    assert jobs.resume(store, "tiny").is_open
    until(lambda: store.look(entry.id).record.status == "running")
    assert jobs.cancel(store, "tiny").status == "cancelled"
    made = [one.record.key for one in (*store.list(), *store.unfinished())]
    assert len(made) == len(set(made)), "one run a step, however often it was interrupted"


@pytest.mark.nightly
def test_finetune_on_the_cluster_waits_for_its_job(store: Store, tiny: Path, tmp_path: Path) -> None:
    words = ["finetune", "--base", tiny / "base", "--task", tiny / "one" / "task.yaml", "--steps", 6, "--device", "cpu"]
    words += ["--runs-dir", store.root]
    there = [sys.executable, "-m", "skillviz", *map(str, words), "--out", str(tmp_path / "there"), "--cluster", "slurm"]
    done = subprocess.run(there, capture_output=True, text=True, timeout=LONG)
    said = (done.stdout, done.stderr)
    assert done.returncode == 0 and "Kept step" in said[0] and "Slurm job" in said[1], said
    assert call(*words, "--out", tmp_path / "here").code == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("there", "here")]
    assert weights[0] == weights[1]
