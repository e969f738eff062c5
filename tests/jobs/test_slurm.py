"""Tests of jobs on a real Slurm of two nodes: local results, despite time limits, lost nodes and cancels."""

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
from skillviz.runs.store import Store, Unfinished
from skillviz.studies.store import open_study
from tests.cli.calls import call
from tests.jobs.conftest import LONG, Run, RunSpec, ended, long_spec, spec_of, stepped, until
from tests.jobs.slurm_cluster import SlurmCluster, missing, run
from tests.refused import refuses
from tests.studies.conftest import tiny
from tests.studies.tiny_study import few, run_study, study_plan

STEPS = 300
ENDLESS = 1_000_000
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
    for name, value in {VARIABLE: str(path), state_file.ENVIRONMENT: "0.05"}.items():
        monkeypatch.setenv(name, value)
    slurm_queue.forget()
    slurm_queue._ended.clear()
    return path


@pytest.fixture
def search(world: Path) -> RunSpec:
    return long_spec(world, steps=STEPS)


@pytest.fixture(scope="module")
def here(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the run of `search`, made in this process without interruption."""
    from skillviz.runs.produce import produce  # torch

    return produce(long_spec(world, steps=STEPS), Store(tmp_path_factory.mktemp("here")))


def submitted(spec: RunSpec, store: Store, **changes: object) -> jobs.Job:
    return jobs.start(spec.model_copy(update=changes), store, backend=SLURM_BACKEND)


def same(one: Run, other: Run) -> None:
    """Assert that both runs found the same region in the same steps, with the same scores."""
    columns = ["target", "step", "loss", "size", "added", "removed"]
    pd.testing.assert_frame_equal(one.history()[columns], other.history()[columns])
    found = [(run.region().sha256(), run.record.metrics, run.record.notes) for run in (one, other)]
    assert found[0] == found[1]


def finished(store: Store, name: str, seconds: float = LONG) -> Run:
    done = ended(store, name, seconds)
    assert done.status == "finished", (done.error, jobs.log_tail(store, name))
    assert store.verify(name) == []
    return store.open(name)


def test_localize_on_the_cluster_ends_equal_to_a_local_one(store: Store, world: Path) -> None:
    spec = spec_of(world)
    words = ["--base", spec.base, "--finetuned", spec.finetuned, "--task", spec.task, "--size", "5%", "--steps", "5"]
    words += ["--runs-dir", store.root, "--device", "cpu"]
    there = call("localize", *words, "--cluster", "slurm")
    assert there.code == 0 and "jobs watch" in there.err, there.err
    name = there.out.strip().splitlines()[-1]
    assert jobs.status(store, name).slot.startswith("slurm")
    same(finished(store, name), store.open(call("localize", *words, "--json").json["run_id"]))
    assert "queued for slurm" in jobs.log_tail(store, name)


def test_at_the_signal_before_its_time_limit_a_job_goes_back_into_the_queue(
    store: Store, search: RunSpec, here: Run
) -> None:
    job = submitted(search, store)
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
    spec, elsewhere = long_spec(world, steps=40 * STEPS), Store(store.root.with_name("local"))
    job = submitted(spec, store)
    (number,) = jobs_of(job.path / "work")
    one = finished(store, job.run_id, 10 * LONG)
    assert "Restarts=0" not in run("scontrol", "show", "job", number)
    same(one, finished(elsewhere, jobs.start(spec, elsewhere).run_id, 10 * LONG))


def test_jobs_wait_in_turn_and_can_be_cancelled_and_resumed(store: Store, search: RunSpec, here: Run) -> None:
    running = [submitted(search, store, steps=ENDLESS, seed=seed) for seed in (1, 2)]
    for job in running:
        until(stepped(store, job.run_id, 30))
    waiting = [submitted(search, store, seed=seed) for seed in (0, 3)]
    until(lambda: jobs.status(store, waiting[1].run_id).position is not None)
    slurm_queue.forget()
    listed = (jobs.status(store, job.run_id) for job in waiting)
    assert [(job.status, job.slot, job.position) for job in listed] == [
        ("queued", "slurm tests", 0),
        ("queued", "slurm tests", 1),
    ]
    shown = call("jobs", "list", "--runs-dir", store.root)
    assert (
        "1 before it" in shown.out
        and "slurm tests" in shown.out
        and "1 job ahead of it" in call("jobs", "log", waiting[1].run_id, "--runs-dir", store.root).err
    )
    refuses(StoreError, "only a failed, cancelled or stopped", jobs.resume, store, waiting[0].run_id)
    assert jobs.cancel(store, waiting[1].run_id).status == "cancelled"
    cut = jobs.cancel(store, running[0].run_id)
    assert not jobs_of(cut.path / "work") and "cancelled" in jobs.log_tail(store, cut.run_id)
    run("scancel", *jobs_of(running[1].path / "work"))  # cancelled outside skillviz
    for gone in (cut, ended(store, running[1].run_id)):
        assert gone.status == "cancelled" and gone.is_resumable and (gone.path / "work" / CHECKPOINT).is_file()
    same(finished(store, waiting[0].run_id), here)
    assert jobs.cancel(store, jobs.resume(store, running[0].run_id).run_id).status == "cancelled"


def test_slurm_s_refusal_is_one_sentence_and_leaves_no_run(store: Store, world: Path, settings: Path) -> None:
    settings.write_text("partition: nowhere\ntime: 60\n")
    refuses(NoCluster, "Slurm refused the job: .*partition", submitted, spec_of(world), store)
    assert store.folders() == []


def searched(store: Store) -> Unfinished | None:
    """Return the run of a study whose search has a checkpoint, once there is one."""
    assert jobs.status(store, "tiny").is_open, jobs.log_tail(store, "tiny", 500)
    found = [entry for entry in store.unfinished() if (entry.path / "work" / CHECKPOINT).is_file()]
    return next((entry for entry in found if entry.record.spec.localizer == "stagewise"), None)


def test_a_node_that_is_lost_in_the_middle_of_a_study(
    cluster: SlurmCluster, store: Store, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its step resumes on the other node from its checkpoint; each step ends once, with a local study's results."""
    study, file = few(tiny, localizer=["stagewise", "frank-wolfe"], steps=STEPS, batch_size=4), tmp_path / "study.yaml"
    file.write_text(study.yaml_text())
    said = call("study", "run", file, "--cluster", "slurm", "--runs-dir", store.root)
    assert (said.code, said.out.strip()) == (0, "tiny"), said.err
    refuses(StoreError, "is running", jobs.submit_study, study, store, SLURM_BACKEND)
    lost = until(lambda: searched(store))
    name = run("squeue", "--noheader", "--array", f"--jobs={jobs_of(lost.path / 'work')[0]}", "--format=%N").strip()
    cluster.kill_node(name)
    assert store.look(lost.id).record.status == "running", "Slurm has not noticed yet, or will start it again"
    done = until(lambda: None if (job := jobs.status(store, "tiny")).is_open else job, 3 * LONG)
    assert done.status == "finished", (done.failed_steps, jobs.log_tail(store, "tiny", 500))
    cluster.start_node(name)
    assert "resuming after" in jobs.log_tail(store, lost.id)

    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "other"))
    stores = [store, Store(tmp_path / "local")]
    assert run_study(study, stores[1]).is_whole and store.unfinished() == []
    there, own = ([(run.record.key, run.region().sha256()) for run in one.list()] for one in stores)
    assert sorted(there) == sorted(own) and len(dict(there)) == len(there)
    for one in open_study(done.path).tables():
        pd.testing.assert_frame_equal(
            *(
                frame.drop(columns="run", errors="ignore")
                for frame in [open_study(s.root / "studies" / "tiny").table(one) for s in stores]
            )
        )
    text, titles = (done.path / "work" / "log.txt").read_text(), [step.title for step in study_plan(study).steps]
    assert [text.count(f" finished: {title}") for title in titles] == [1] * len(titles)


@pytest.mark.nightly
def test_a_study_on_the_cluster_is_cancelled_and_goes_on(store: Store, tiny: Path) -> None:
    jobs.submit_study(few(tiny, localizer="stagewise", steps=ENDLESS, batch_size=4), store, SLURM_BACKEND)
    entry = until(lambda: searched(store))
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
    assert done.returncode == 0 and "Kept step" in done.stdout and "Slurm job" in done.stderr, (
        done.stdout,
        done.stderr,
    )
    assert call(*words, "--out", tmp_path / "here").code == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("there", "here")]
    assert weights[0] == weights[1]
