"""Tests of `jobs` and studies: a running study is listed, watched, cancelled, resumed and logged by its name."""

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from skillviz.jobs import control, kinds, start_study
from skillviz.jobs.backend import LocalBackend
from skillviz.runs.store import Store
from tests.cli.calls import call, done, refused
from tests.fake_run import fake_run
from tests.studies.fake_study import fake_running, fake_study, works_on
from tests.tables import check


class Started(NamedTuple):
    """A record of a process that was not really started."""

    folder: Path
    words: Sequence[str]
    cwd: Path

    @property
    def workers(self) -> int:
        return int(self.words[self.words.index("--workers") + 1])


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """Record the processes to be started and start none, so the models that the studies name need not exist."""
    started: list[Started] = []
    for module in (control, kinds):
        monkeypatch.setattr(module, "check", lambda at: None)
    monkeypatch.setattr(LocalBackend, "start", lambda self, *words: started.append(Started(*words)))
    return started


def test_a_study_under_way_is_listed_and_others_are_not(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_study(empty, "table1")
    assert "No job is queued or running" in call("jobs", "list").out
    fake_running(empty, sleeper)
    said = call("jobs", "list", "--json")
    check(said.out, ("table2-small", "step 4 of 31"), ("Nothing waits", "table1-small"))
    (told,) = said.json["studies"]
    assert told.items() >= {"study": "table2-small", "status": "running", "step": 4, "steps": 31}.items()


def test_a_study_under_way_is_cancelled_by_its_name(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_running(empty, sleeper)
    assert done("jobs", "cancel", "table2-small").out.startswith("table2-small is stopped")
    assert sleeper.wait(10) is not None and call("jobs", "list", "--json").json == {"jobs": [], "studies": []}
    refused(call("jobs", "cancel", "table2-small"), "only a queued or running job can be cancelled")


def test_a_name_that_a_run_has_too_means_the_run_unless_the_study_runs(
    empty: Path, sleeper: subprocess.Popen[str]
) -> None:
    run = fake_run(Store(empty), task="sst2")
    fake_study(empty, "table1", name=run.id)
    refused(call("jobs", "cancel", run.id), f"run {run.id} is finished")
    fake_running(empty, sleeper, run.id[:5])
    assert call("jobs", "cancel", run.id[:5]).out.startswith(f"{run.id[:5]} is stopped")
    assert sleeper.wait(10) is not None


def test_watching_a_study_ends_with_it(empty: Path) -> None:
    fake_study(empty, "table1")
    assert done("jobs", "watch", "table1-small", "--json").json["status"] == "finished"
    fake_running(empty, None)
    cut = call("jobs", "watch", "table2-small")
    assert cut.code == 2 and "table2-small has stopped." in cut.out


def test_the_log_of_a_study_is_printed(empty: Path) -> None:
    fake_running(empty, None)
    said = call("jobs", "log", "table2-small")
    assert said.out == "3 of 31 finished: fine-tune mr\n"
    assert "table2-small has stopped." in said.err and "`python -m skillviz jobs resume table2-small`" in said.err


def test_the_log_says_what_the_page_says(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_running(empty, sleeper)
    assert "table2-small is running: step 4 of 31: " in call("jobs", "log", "table2-small").err
    run = fake_run(Store(empty), seed=1)
    record, work = run.path / "run.json", run.path / "work"
    content = json.loads(record.read_text())
    record.write_text(
        json.dumps(
            {**content, "status": "failed", "error": {"kind": "BadData", "message": "no rows", "hint": "Add some."}}
        )
    )
    check(call("jobs", "log", run.id).err, (f"{run.id} has failed.", "BadData: no rows Add some.", "resume"))
    record.write_text(json.dumps({**content, "status": "running"}))
    work.mkdir(exist_ok=True)
    works_on(sleeper, work)
    step = {"phase": "search", "search": 1, "searches": 1, "step": 31, "total": 50, "size": 9, "added": 1, "removed": 0,
            "loss": 0.412, "time": time.time(), "left": 75, "target": 9}  # fmt: skip
    (work / "events.jsonl").write_text(json.dumps(step) + "\n")
    assert (
        f"{run.id} is running: searching: step 31 of 50, loss 0.412, about 75 s left" in call("jobs", "log", run.id).err
    )


@pytest.mark.parametrize("workers", [3, None])
def test_a_study_that_was_cut_goes_on_with_as_many_processes(
    workers: int | None, empty: Path, begun: list[Started]
) -> None:
    """One that never began takes as many as the command."""
    folder = fake_running(empty, None)
    record = folder / "study.json"
    record.write_text(record.read_text().replace('"workers": 1', f'"workers": {workers}'))
    if workers is None:
        record.unlink()
    assert call("jobs", "resume", "table2-small").out == "table2-small\n"
    assert [(one.folder, one.words[:3], one.workers) for one in begun] == [
        (folder, ["study", "run", str(folder / "study.yaml")], workers or 1)
    ]


def test_a_study_goes_on_from_the_folder_it_was_started_in(
    empty: Path, begun: list[Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative names in a study's file refer to the same files, from any folder in which it is resumed."""
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    file = fake_running(empty, None) / "study.yaml"
    monkeypatch.chdir(first)
    start_study(file, Store(empty), workers=2)
    monkeypatch.chdir(second)
    call("jobs", "resume", "table2-small")
    shutil.rmtree(first)
    call("jobs", "resume", "table2-small")
    assert [process.cwd for process in begun] == [first, first, second], "at last the folder is gone"
    assert [process.workers for process in begun] == [2, 2, 2]


def test_a_finished_study_is_not_resumed(empty: Path, begun: list[Started]) -> None:
    fake_study(empty, "table1")
    refused(call("jobs", "resume", "table1-small"), "only a failed, cancelled or stopped job can be resumed")
    assert not begun
