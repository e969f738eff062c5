"""Tests of read-only mode: no entry point starts or writes anything, and every page still opens."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import streamlit

from skillviz import jobs
from skillviz.atomic import folder_lock, remove_folder, whole_folder, write_text
from skillviz.cli import app
from skillviz.errors import ReadOnly
from skillviz.live.client import Client
from skillviz.models.fetch import graft_file, resolve
from skillviz.runs.disk_cache import DiskCache
from skillviz.runs.doctor import mended
from skillviz.runs.example_sets import ExampleSet, change_set
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.serving import read_only
from skillviz.serving.settings import READONLY_VARIABLE, settings
from skillviz.tasks.reading import from_hub
from skillviz.tasks.registry import task
from skillviz.ui.page_table import PAGES
from tests.fake_run import fake_run
from tests.refused import refuses
from tests.visitor import confirmed, opened

SPEC = RunSpec(base="base", finetuned="finetuned", task="sst2", localizer="movement", sizes=("0.1%",))
DOORS: dict[str, Callable[[Store, Path], object]] = {
    "a file": lambda store, tmp: write_text(tmp / "file", "words"),
    "a folder": lambda store, tmp: whole_folder(tmp / "folder").__enter__(),
    "a lock": lambda store, tmp: folder_lock(tmp / "locked").__enter__(),
    "a deletion": lambda store, tmp: remove_folder(store.root),
    "a run": lambda store, tmp: store.create(SPEC, size=1),
    "a run deleted": lambda store, tmp: store.delete(store.list()[0].id),
    "a note": lambda store, tmp: store.set_note(store.list()[0].id, "words"),
    "a set of examples": lambda store, tmp: change_set(store, "sst2", "", ExampleSet(name="a", examples="", ids=())),
    "a repair": lambda store, tmp: mended(store),
    "a job": lambda store, tmp: jobs.start(SPEC, store),
    "a job cancelled": lambda store, tmp: jobs.cancel(store, store.list()[0].id),
    "a job resumed": lambda store, tmp: jobs.resume(store, store.list()[0].id),
    "a study": lambda store, tmp: jobs.start_study(tmp / "study.yaml", store),
    "a live answer": lambda store, tmp: Client(store.root).ask("score_text"),
    "a model of the hub": lambda store, tmp: resolve("org/name"),
    "a graft of the hub": lambda store, tmp: graft_file("org/name"),
    "a data set of the hub": lambda store, tmp: from_hub(task("sst2").data, "test", task("sst2")),
}

# Functions that a read-only command must not reach.
WORK = (
    "skillviz.commands.parts.PartScoring", "skillviz.runs.export.export", "skillviz.core.graft.Graft.load",
    "skillviz.models.difference.write_difference", "skillviz.commands.runs.report_of",
    "skillviz.commands.runs.bundle", "skillviz.commands.runs.typer.confirm",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a store with one run, then switch to read-only mode."""
    store = Store(tmp_path / "runs")
    fake_run(store)
    monkeypatch.setenv(READONLY_VARIABLE, "1")
    return store


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below the folder; a folder has empty bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: pytest.fail(f"a process was started: {arguments}"))


@pytest.mark.cases(0, 5)
@pytest.mark.parametrize("door", DOORS)
def test_no_door_is_open(door: str, store: Store, tmp_path: Path, no_process: None) -> None:
    before = contents(tmp_path)
    refuses(
        ReadOnly, "read-only: it shows stored runs, starts nothing and stores nothing", DOORS[door], store, tmp_path
    )
    assert contents(tmp_path) == before


def test_a_door_left_open_is_seen(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant an error: a writer that does not check read-only mode."""
    monkeypatch.setattr("skillviz.atomic.read_only.refuse", lambda: None)
    before = contents(tmp_path)
    write_text(tmp_path / "file", "words")
    assert contents(tmp_path) != before


def test_a_cached_answer_is_computed_and_not_kept(store: Store, tmp_path: Path) -> None:
    assert not DiskCache(tmp_path / "cache").put("key", {"a": 1}) and not (tmp_path / "cache" / "key.parquet").exists()


COMMANDS = {
    "parts": ["parts", "RUN"],
    "rivals": ["rivals", "RUN"],
    "parts to a file": ["parts", "RUN", "--out", "OUT"],
    "slices to a file": ["slices", "RUN", "--out", "OUT"],
    "export without sending": ["export", "RUN", "--push-to-hub", "org/name", "--dry-run"],
    "export": ["export", "RUN", "--out", "OUT"],
    "apply": ["apply", "--base", "base", "--graft", "org/name", "--out", "OUT"],
    "difference": ["difference", "--base", "base", "--finetuned", "finetuned", "--out", "OUT"],
    "runs delete for sure": ["runs", "delete", "RUN", "--yes"],
    "report": ["report", "RUN", "--out", "OUT"],
    "runs export": ["runs", "export", "RUN", "--out", "OUT"],
    "runs delete": ["runs", "delete", "RUN"],
}


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_writes_refuses_before_it_works_or_asks(
    name: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for work in WORK:
        monkeypatch.setattr(work, lambda *_, work=work, **more: pytest.fail(f"{work} was reached"))
    run_id = store.list()[0].id
    values = {"RUN": run_id, "OUT": str(tmp_path / "out")}
    refuses(
        SystemExit,
        "^[1-9]",
        app,
        [
            *(values.get(word, word) for word in COMMANDS[name]),
            *(["--runs-dir", str(store.root)] if "RUN" in COMMANDS[name] else []),
        ],
    )
    assert read_only.REASON in capsys.readouterr().err.replace("\n", " ") and (store.root / run_id).is_dir()


@pytest.mark.parametrize("value", ["", "0", " 0 "])
def test_it_is_off_unless_asked_for(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(READONLY_VARIABLE, value)
    assert not settings.read_only


@pytest.mark.cases(0, 4)
@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_page_opens_and_its_actions_are_off(
    name: str, ids: dict[str, str], made: tuple[Path, dict[str, str]], no_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A click on a disabled button changes nothing; a browser does not even send it."""
    monkeypatch.setenv(READONLY_VARIABLE, "1")
    before = contents(made[0])
    test = confirmed(opened(name, run=next(iter(ids.values()))))
    assert (
        not test.exception
        and (read_only.REASON in json.dumps([str(part.value) for part in test.markdown])) == PAGES[name].starts
    )
    verbs = ("Start", "Save", "Find its region", "Delete", "Resume", "Cancel", "Score the", "Download ")
    acting = [button for button in test.button if button.label.startswith(verbs) and button.label != "Start over"]
    assert {(button.disabled, button.help) for button in acting} <= {(True, read_only.REASON)} and contents(
        made[0]
    ) == before


def test_launch_is_in_no_menu(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = Mock(side_effect=streamlit.Page)
    monkeypatch.setattr(streamlit, "Page", page)
    monkeypatch.setenv(READONLY_VARIABLE, "1")
    opened("runs")
    assert {
        one["url_path"] for one in [call.kwargs for call in page.call_args_list] if one["visibility"] == "hidden"
    } == {"launch", "jobs"}
