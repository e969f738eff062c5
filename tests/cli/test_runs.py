"""Tests of `runs`, `study`, `dashboard` and `preflight`: their output and exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from skillviz.commands import dashboard
from skillviz.runs.store import Store, open_run
from tests.cli.calls import call, started
from tests.e2e.server import free_port, wait_until_up
from tests.tiny import tiny_pair


@pytest.fixture
def store(localized: tuple[Path, object], user_runs: Path) -> tuple[Path, str]:
    """Return a store for this test only with the finished run in it, and the run's id."""
    shutil.copytree(localized[0], user_runs)
    return user_runs, Store(user_runs).list()[0].id


def test_list_says_task_method_size_and_metrics(store):
    said = call("runs", "list", "--json")
    assert said.code == 0
    for words in (store[1], "tiny", "stagewise", "444", "10%"):
        assert words in said.out
    assert [r["run_id"] for r in said.json["runs"]][0] == store[1]


def test_an_empty_store_says_how_to_make_a_run(user_runs, monkeypatch, tmp_path):
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "none")
    said = call("runs", "list")
    assert said.code == 0 and "localize --help" in said.out


@pytest.mark.parametrize("way", ["id", "prefix", "folder"])
def test_a_run_is_named_by_id_prefix_or_folder(store, way):
    name = {"id": store[1], "prefix": store[1][:-3], "folder": str(store[0] / store[1])}[way]
    assert open_run(name).id == store[1]
    said = call("runs", "show", name, "--json")
    assert said.json["run_id"] == store[1]
    assert "Reproduce: python -m skillviz localize" in said.out


def test_verify_finds_a_flipped_bit(store, monkeypatch, tmp_path):
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")  # hundreds ship
    assert call("runs", "verify", store[1]).code == 0
    assert call("runs", "verify", "--runs-dir", store[0]).code == 0
    file = store[0] / store[1] / "predictions.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    said = call("runs", "verify", store[1])
    assert said.code == 2 and "predictions.parquet" in said.out and said.err.startswith("CorruptRun")
    file.write_bytes(bytes(content[:-1]))  # no longer listed, but still different from the checksum in run.json
    said = call("runs", "verify", "--runs-dir", store[0])
    assert said.code == 2 and "predictions.parquet" in said.out


@pytest.mark.nightly
def test_export_writes_everything_of_runs_as_one_zip(store, pair, tmp_path):
    out = tmp_path / "run.zip"
    said = call("runs", "export", store[1][:-3], store[1], "-o", out, "--graft", "--json")
    assert said.code == 0, said.err
    assert said.json["runs"] == said.json["grafts"] == [store[1]] and said.json["bytes"] == out.stat().st_size
    archive = ZipFile(out)
    manifest = json.loads(archive.read("manifest.json"))
    assert manifest["not_included"] == [] and f"reports/{store[1]}.html" in manifest["files"]
    assert b"plotly" in archive.read(f"reports/{store[1]}.html").lower()
    archive.extract(f"grafts/{store[1]}.safetensors", tmp_path)
    graft = tmp_path / "grafts" / f"{store[1]}.safetensors"
    applied = call("apply", "--base", pair[0], "--graft", graft, "--out", tmp_path / "model")
    assert applied.code == 0, applied.err
    again = call("runs", "export", store[1], "-o", out)
    assert again.code == 2 and again.err == f"BadInput: {out} exists; name another file, or add --overwrite.\n"
    plain = call("runs", "export", store[1], "-o", out, "--overwrite", "--no-report")
    assert plain.code == 0 and not any("reports" in name or "grafts" in name for name in ZipFile(out).namelist())


def test_delete_asks_and_then_deletes(store):
    kept = call("runs", "delete", store[1])  # stdin is empty, so the question is not answered
    assert kept.code != 0 and (store[0] / store[1]).is_dir()
    elsewhere = call("runs", "delete", store[0] / store[1], "--yes", "--runs-dir", store[0] / "other")
    assert elsewhere.code == 2 and (store[0] / store[1]).is_dir()
    assert call("runs", "delete", store[0] / store[1], "--yes").code == 0
    assert not (store[0] / store[1]).exists()
    gone = call("runs", "show", store[1])
    assert gone.code == 2 and str(store[0]) in gone.err and "cached_runs" in gone.err


def test_preflight_says_whether_a_pair_fits(pair, task_file, tmp_path):
    good = call("preflight", "--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--json")
    assert good.code == 0 and good.json["fits"] and good.json["d"] == 4448
    other = tiny_pair(tmp_path, "gpt2")[1]
    bad = call("preflight", "--base", pair[0], "--finetuned", other, "--json")
    assert bad.out.count("\n") == 1, "no remark beside what does not fit"
    assert bad.code == 2 and not bad.json["fits"] and "gpt2" in bad.err


def study_file(tmp_path: Path, pair: tuple[Path, Path], task_file: Path, **fields: object) -> Path:
    members = {"base": str(pair[0]), "finetuned": str(pair[1]), "task": str(task_file), "device": "cpu"}
    runs = [{"localizer": ["movement", "random"], "size": ["10%"], "seed": [0, 1]}]
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "both", "defaults": members, "runs": runs, **fields}))
    return path


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped(pair, task_file, tmp_path, user_runs):
    file = study_file(tmp_path, pair, task_file)
    first = call("study", "run", file, "--json")
    assert first.code == 0 and len(first.json["finished"]) == 4, first.err
    again = call("study", "run", file, "--json")
    assert again.json["finished"] == [] and sorted(again.json["skipped"]) == sorted(first.json["finished"])
    out = tmp_path / "table.csv"
    table = call("study", "table", file, "--json", "--out", out)
    grafts = {row["localizer"] for row in table.json["rows"] if row["method"].startswith("graft_")}
    assert grafts == {"movement", "random"}
    assert out.read_text().startswith("base,recipe,variant,setting")
    nowhere = call("study", "table", file, "--out", tmp_path / "no-folder" / "table.csv")
    assert (nowhere.code, nowhere.err.count("\n")) == (2, 1) and "no-folder" in nowhere.err
    assert call("study", "table", file, "--differences").code == 0


def test_a_study_with_a_run_that_fails_makes_the_others(pair, task_file, tmp_path, user_runs):
    empty = {"localizer": "expression", "options": {"expression": {"layers": []}}}
    runs = [{"localizer": "movement", "size": "10%"}, empty]
    said = call("study", "run", study_file(tmp_path, pair, task_file, runs=runs), "--json")
    assert said.code == 2 and len(said.json["finished"]) == 1 and len(said.json["failed"]) == 1
    assert "a region without entries" in said.err and said.json["steps"]["not_reached"] == 1  # the tables


def test_a_study_that_cannot_be_made_says_which_entry_before_anything_is_made(pair, task_file, tmp_path, user_runs):
    runs = [{"localizer": "movement", "size": "10%"}, {"localizer": "movement", "size": "999999999"}]
    said = call("study", "run", study_file(tmp_path, pair, task_file, runs=runs), "--json")
    assert (said.code, said.err.count("\n")) == (2, 1) and "BadSize" in said.err and "entry 2" in said.err
    assert not user_runs.exists()


def test_a_study_without_runs_yet_says_so(pair, task_file, tmp_path, user_runs):
    said = call("study", "table", study_file(tmp_path, pair, task_file))
    assert said.code == 2 and "study run" in said.err


def test_dashboard_starts_streamlit_on_the_script_with_the_runs(monkeypatch, tmp_path):
    seen = {}

    def served(words: list[str], **options: object) -> None:
        seen.update(words=words, cwd=Path.cwd(), runs=os.environ["SKILLVIZ_RUNS"])

    monkeypatch.setattr("streamlit.web.cli.main", served)
    monkeypatch.setenv("SKILLVIZ_RUNS", "elsewhere")
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = call("dashboard", "--port", port)
        assert said.code == 2 and f"port {port} is in use" in said.err and "--port" in said.err and not seen
    said = call("dashboard", "--port", port, "--no-browser", "--runs-dir", "mine")
    assert said.code == 0
    assert seen["words"][0] == "run"
    assert Path(seen["words"][1]).name == "dashboard.py" and seen["cwd"] == Path(seen["words"][1]).parent
    assert str(port) in seen["words"] and "--server.headless" in seen["words"]
    assert seen["runs"] == str(tmp_path / "mine")


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_whatever_ends_the_command_ends_its_server(number: signal.Signals, tmp_path: Path) -> None:
    port = free_port()
    words = ("dashboard", "--no-browser", "--port", port, "--runs-dir", tmp_path)
    command = started(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_up(f"http://127.0.0.1:{port}")
        command.send_signal(number)
        assert command.wait(30) == (0 if number == signal.SIGINT else -number)
    finally:
        command.kill()
        command.wait()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "its server lives on"


def test_dashboard_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(dashboard.importlib.util, "find_spec", lambda name: None)
    said = call("dashboard")
    assert said.code == 2 and "requirements.txt" in said.err
