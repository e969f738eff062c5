"""Tests of a cluster's settings, of squeue's output and of errors, without Slurm."""

import os
import re
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest

from skillviz import jobs
from skillviz.commands.cluster import without_option
from skillviz.errors import BadInput, NoCluster
from skillviz.jobs import kinds, slurm
from skillviz.jobs.slurm import SLURM_BACKEND, VARIABLE, ClusterSettings, checked_settings, seconds_of, settings
from skillviz.runs import liveness, slurm_queue
from skillviz.runs.folder import RunFolder
from skillviz.runs.liveness import hold, is_alive, jobs_of, name_jobs
from skillviz.runs.process import Progress, Suspended, gently, silent
from skillviz.runs.record_failure import record_failure
from skillviz.runs.slurm_queue import ahead, jobs_ahead, read, state_of
from skillviz.studies import array
from skillviz.studies.status import Snapshot
from tests.cli.calls import call
from tests.core.by_hand import by_hand, refuses
from tests.runs.tiny_world import Store, spec_of
from tests.studies.conftest import tiny
from tests.studies.tiny_study import few, study_plan

SQUEUE = """
12_0|RUNNING|None|gpu|100
12_1|PENDING|Resources|gpu|100
13|PENDING|Priority|gpu|90
14|PENDING|Priority|gpu|200
15|PENDING|Dependency|gpu|300
16|PENDING|Priority|cpu|900
17|CANCELLED by 0|None|gpu|1
slurm_load_jobs error: Unable to contact slurm controller
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the settings, which are those of an hour, where Slurm's commands are installed."""
    found = tmp_path / "slurm.yaml"
    found.write_text("time: 60\n")
    monkeypatch.setenv(VARIABLE, str(found))
    monkeypatch.setattr(slurm.shutil, "which", lambda name: "/usr/bin/sbatch")
    return found


@pytest.fixture
def squeue(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """Replace Slurm with one that prints the texts in this dictionary, by command."""
    says: dict[str, str | None] = {"squeue": SQUEUE, "sacct": None}
    monkeypatch.setattr(slurm_queue, "_ask", lambda words, fresh=False: says[words[0]])
    for module in (slurm_queue, slurm):
        monkeypatch.setattr(module, "is_there", lambda: True)
    monkeypatch.setattr(slurm_queue, "_ended", {})
    return says


def test_settings_are_read_as_typed(path: Path) -> None:
    path.write_text("partition: gpu\ngpus: 2\ntime: 2:00:00\nmemory: 32G\nextra: {account: no, exclusive: true}\n")
    assert (settings(), settings().notice) == (
        ClusterSettings(
            partition="gpu", gpus=2, time="2:00:00", memory="32G", extra={"account": "no", "exclusive": "true"}
        ),
        90,
    ) and slurm.is_set_up()


test_words_and_times_are_read_as_slurm_reads_them = by_hand(
    *((f"a limit of {time}", seconds, seconds_of, time) for time, seconds in {
        "90": 5400, "1:30": 90, "2:00:00": 7200, "1-0": 86400, "1-2:03": 93780, "1-02:03:04": 93784,
    }.items()),
    ("words without the option", ["a", "--b", "c"], without_option, ["a", "--cluster", "slurm", "--b", "c"]),
    ("words without the option in one", ["slurm"], without_option, ["--cluster=slurm", "slurm"]),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("partition: gpu\n", "'time' of the cluster settings cannot be used: it must be given."),
        ("time: soon\n", "it is 'soon'; allowed are minutes"),
        ("time: 0:30\n", "at least a minute"),
        ("time: 60\nmemory: much\n", "it is 'much'; allowed is a number and K, M, G or T"),
        ("time: 60\ngpus: -1\n", "'gpus' of the cluster settings cannot be used"),
        ("time: 60\nqueue: gpu\n", "'queue' is not a cluster setting; known: partition, gpus, time, memory, extra."),
        ("time: 60\nextra: {time: 3}\n", "'time' is set by skillviz"),
        ("time: 60\nextra: {--account: a}\n", "'--account' is no long option"),
        ('time: 60\nextra: {account: "a\\n#SBATCH --uid=0"}\n', "a character that cannot be printed"),
        ("time: 60\ntime: 90\n", "given twice"),
        ("- time\n", "are not a list of `name: value` lines"),
    ],
)
def test_settings_that_cannot_be_used_are_one_sentence(path: Path, text: str, sentence: str) -> None:
    path.write_text(text)
    refuses(BadInput, re.escape(sentence), settings)


def test_where_no_controller_answers_nothing_is_submitted(path: Path, squeue: dict[str, str | None]) -> None:
    assert checked_settings().time == "60"
    squeue["squeue"] = None
    refuses(NoCluster, "Slurm's controller does not answer", SLURM_BACKEND.refuse)


def test_without_settings_nothing_is_submitted(path: Path, squeue: dict[str, str | None]) -> None:
    path.unlink()
    refuses(NoCluster, "there are no cluster settings in .*SKILLVIZ_CLUSTER", checked_settings)


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["localize", "finetune", "reproduce", "preflight"])
def test_without_slurm_it_is_refused_before_anything_is_made(
    path: Path, store: Store, world: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    spec = spec_of(world)
    task = ("--base", spec.base, "--task", spec.task)
    words = {"finetune": task, "reproduce": ("table2",)}.get(command, (*task, "--finetuned", spec.finetuned))
    said = call(command, *words, "--runs-dir", store.root, "--cluster", "slurm")
    assert said.code == 2 and said.err.strip().endswith(
        "Slurm is not on this machine; leave out --cluster, or run this on a login node of your cluster."
    ), said
    assert not store.root.exists()


def test_a_waiting_job_counts_those_before_it_in_its_partition() -> None:
    waiting = {name: row for name, row in read(SQUEUE).items() if row.state == slurm_queue.PENDING}
    assert ([jobs_ahead(job, waiting) for job in ("14", "12_1", "13", "16", "12_0")], len(read(SQUEUE))) == (
        [0, 1, 2, 0, None],
        7,
    ) and "slurm_load_jobs error: Unable to contact slurm controller" not in read(SQUEUE)


def test_the_state_of_a_job_is_slurm_s(squeue: dict[str, str | None]) -> None:
    assert [state_of(job) for job in ("12_0", "13", "17", "99")] == ["RUNNING", "PENDING", "CANCELLED", "UNKNOWN"]
    squeue["squeue"] = None
    assert state_of("13") is None and slurm_queue.is_open("13"), "a controller that is busy ends no job"
    assert state_of("17") == "CANCELLED", "once seen"
    squeue.update(squeue="", sacct="OUT_OF_MEMORY\n")
    assert (state_of("13"), slurm_queue.is_open("13"), ahead("13")) == ("OUT_OF_MEMORY", False, None)


@pytest.mark.parametrize(
    ("state", "status", "kind"),
    [
        ("OUT_OF_MEMORY", "failed", "out of memory"),
        ("TIMEOUT", "failed", "time limit"),
        ("NODE_FAIL", "failed", "node failure"),
        ("PREEMPTED", "failed", "preempted"),
        ("FAILED", "failed", "killed"),
        ("CANCELLED by 0", "cancelled", None),
    ],
)
def test_how_slurm_ended_a_job_is_kept(
    store: Store, world: Path, squeue: dict[str, str | None], state: str, status: str, kind: str | None
) -> None:
    """The run waits for the job 13 of Slurm."""
    folder = store.create(spec_of(world), size=9, task="tiny")
    name_jobs(folder.work, ["13"])
    job = jobs.status(store, folder.id)
    assert (job.status, job.slot, job.position) == ("queued", "slurm gpu", 2)
    for said in (f"13|{state}|None|gpu|1\n", ""):  # Slurm says it once, and forgets it
        squeue["squeue"] = said
        slurm_queue._ended.clear()
        ended = jobs.status(store, folder.id)
        assert (ended.status, ended.error and ended.error.kind, ended.is_resumable) == (status, kind, True)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return a stand-in of submitit; the number of a job is that of its call."""
    monkeypatch.setattr(slurm, "checked_settings", lambda: ClusterSettings(time="60"))
    monkeypatch.setattr(slurm, "_submit", Mock(side_effect=map(str, range(1, 9))))
    return slurm._submit


def test_a_job_on_the_cluster_takes_no_place_among_those_of_this_machine(
    store: Store, world: Path, submitted: Mock, squeue: dict[str, str | None]
) -> None:
    squeue["squeue"] = "1|PENDING|Priority|gpu|7\n"
    job = jobs.start(spec_of(world), store, backend=SLURM_BACKEND)
    assert job.status == "queued"
    assert job.slot == "slurm gpu"
    assert job.position == 0
    assert [tuple(call.args[1]) for call in submitted.call_args_list] == [("work", str(job.path.resolve()))]
    assert not (store.root / ".slots").exists()
    assert kinds.backend_of(job) is SLURM_BACKEND
    squeue["squeue"] = "1|CANCELLED|None|gpu|7\n"


def test_levels_wait_for_each_other_and_a_long_one_is_several_arrays(
    tmp_path: Path, submitted: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "MOST_TASKS", 2)
    (tmp_path / "work").mkdir()
    SLURM_BACKEND.start_steps(tmp_path, [3, 1], ["each"], ["last"], tmp_path)
    assert [(*call.args[1], "after", *call.args[4], *call.args[5:]) for call in submitted.call_args_list] == [
        ("each", "0", "0", "after", 2), ("each", "0", "2", "after", 1), ("each", "1", "0", "after", "1", "2", 1),
        ("last", "after", "3"),
    ]  # fmt: skip
    assert jobs_of(tmp_path / "work") == ["1_0", "1_1", "2_0", "3_0", "4"]


def test_steps_of_a_level_need_none_of_it(tiny: Path, store: Store) -> None:
    rows = array.levels(Snapshot(study_plan(few(tiny)), store))
    assert [[step.kind for step in row] for row in rows] == [
        ["finetune"], ["localize", "localize"], ["finetune"], ["score"],
    ]  # fmt: skip
    for number, row in enumerate(rows):
        assert {need for step in row for need in step.needs} <= {
            step.key for earlier in rows[:number] for step in earlier
        }


@pytest.fixture
def in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one of the job 13 of Slurm."""
    for name, value in {slurm_queue.BATCH: "slurm", "SLURM_JOB_ID": "13"}.items():
        monkeypatch.setenv(name, value)


def test_a_job_of_the_cluster_that_is_interrupted_waits_again(
    store: Store, world: Path, monkeypatch: pytest.MonkeyPatch, squeue: dict[str, str | None], in_a_job: None
) -> None:
    """The signal before the time limit makes the job wait again; a cancel cancels it."""
    folder = store.create(spec_of(world), size=9, task="tiny")

    def interrupted(number: signal.Signals) -> KeyboardInterrupt:
        stop = gently(silent, lambda: folder.is_to_stop)
        with pytest.raises(KeyboardInterrupt) as caught, stop as report, record_failure(folder):
            folder.start()
            os.kill(os.getpid(), number)
            report(Progress("search"))
        return caught.value

    for number, is_up in ((signal.SIGUSR2, True), (signal.SIGTERM, False)):
        stopped = interrupted(number)
        assert isinstance(stopped, Suspended)
        assert stopped.time_is_up == is_up
        assert RunFolder(folder.path).record.status == "queued"
        assert jobs_of(folder.work) == ["13"]
    with monkeypatch.context() as patched:
        patched.delenv(slurm_queue.BATCH)
        assert jobs.status(store, folder.id).status == "queued" and is_alive(folder.work)
    (folder.work / "cancel").touch()
    assert (
        not isinstance(interrupted(signal.SIGTERM), Suspended) and jobs.status(store, folder.id).status == "cancelled"
    )


def test_a_process_of_an_earlier_attempt_on_a_lost_node_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, squeue: dict[str, str | None], in_a_job: None
) -> None:
    assert hold(tmp_path) and is_alive(tmp_path)
    monkeypatch.setattr(liveness, "_held", {})  # what is patched stays open: the lock of the lost node may be held
    assert not is_alive(tmp_path) and hold(tmp_path), "Slurm starts a job once at a time"
