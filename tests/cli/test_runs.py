"""Tests of `runs`, `study`, `dashboard` and `preflight`: their output and exit codes."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from skillviz.commands import dashboard
from skillviz.runs.store import Store, open_run
from tests.cli.calls import call, done, refused, sentence, started
from tests.e2e.server import free_port, wait_until_up
from tests.tables import check
from tests.tiny import tiny_pair


def test_list_says_task_method_size_and_metrics(store):
    said = done("runs", "list", "--json")
    check(said.out, (store[1], "tiny", "stagewise", "444", "10%"))
    assert said.json["runs"][0]["run_id"] == store[1]


def test_a_note_and_its_tags_are_kept_and_searched(store):
    (root, run_id), said = store, "for the talk #talk"
    assert done("runs", "note", run_id).out == f"No note on {run_id}.\n"
    done("runs", "note", run_id[:-3], said)
    assert Store(root).note(run_id) == said and done("runs", "note", run_id).out == f"{said}\n"
    assert "#talk" in done("runs", "list").out
    found = {word: done("runs", "list", "--search", word, "--json") for word in ("#talk", "TINY the", "#tal", "poem")}
    assert [[run["run_id"] for run in one.json["runs"]] for one in found.values()] == [[run_id], [run_id], [], []]
    assert found["#talk"].json["runs"][0]["note"] == said and "No run matches 'poem'" in found["poem"].out
    done("runs", "note", run_id, "")
    assert Store(root).note(run_id) == ""


def test_a_note_on_a_run_that_ships_is_refused(store):
    refused(call("runs", "note", "mr-minilm-l6-stagewise-10646-s0-660172", "mine"), "BadInput: ", "your own runs")


def test_an_empty_store_says_how_to_make_a_run(empty):
    assert "localize --help" in done("runs", "list").out


@pytest.mark.parametrize("way", ["id", "prefix", "folder"])
def test_a_run_is_named_by_id_prefix_or_folder(store, way):
    name = {"id": store[1], "prefix": store[1][:-3], "folder": str(store[0] / store[1])}[way]
    said = call("runs", "show", name, "--json")
    assert open_run(name).id == said.json["run_id"] == store[1] and "Reproduce: python -m skillviz localize" in said.out


def test_verify_finds_a_flipped_bit(store, monkeypatch, tmp_path):
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")  # hundreds ship
    one, every = ("runs", "verify", store[1]), ("runs", "verify", "--runs-dir", store[0])
    for words in (one, every):
        done(*words)
    file = store[0] / store[1] / "predictions.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    # Without its last byte it is no longer listed, but still different from the checksum in run.json.
    for words, changed in ((one, content), (every, content[:-1])):
        file.write_bytes(bytes(changed))
        said = call(*words)
        refused(said, "CorruptRun: ")
        assert "predictions.parquet" in said.out


@pytest.mark.nightly
def test_export_writes_everything_of_runs_as_one_zip(store, pair, tmp_path):
    out, report, graft = tmp_path / "run.zip", f"reports/{store[1]}.html", f"grafts/{store[1]}.safetensors"
    told = done("runs", "export", store[1][:-3], store[1], "-o", out, "--graft", "--json").json
    assert [told[name] for name in ("runs", "grafts", "bytes")] == [[store[1]], [store[1]], out.stat().st_size]
    archive = ZipFile(out)
    manifest = json.loads(archive.read("manifest.json"))
    assert manifest["not_included"] == [] and report in manifest["files"]
    assert b"plotly" in archive.read(report).lower()
    archive.extract(graft, tmp_path)
    done("apply", "--base", pair[0], "--graft", tmp_path / graft, "--out", tmp_path / "model")
    words = ("runs", "export", store[1], "-o", out)
    sentence(call(*words), f"BadInput: {out} exists", "--overwrite")
    done(*words, "--overwrite", "--no-report")
    assert not any("reports" in name or "grafts" in name for name in ZipFile(out).namelist())


def test_delete_asks_and_then_deletes(store):
    root, run = store
    kept = call("runs", "delete", run)  # stdin is empty, so the question is not answered
    refused(call("runs", "delete", root / run, "--yes", "--runs-dir", root / "other"))
    assert kept.code != 0 and (root / run).is_dir()
    done("runs", "delete", root / run, "--yes")
    assert not (root / run).exists()
    refused(call("runs", "show", run), str(root), "cached_runs")


def test_preflight_says_whether_a_pair_fits(members, pair, tmp_path):
    good = done("preflight", *members, "--json").json
    bad = call("preflight", "--base", pair[0], "--finetuned", tiny_pair(tmp_path, "gpt2")[1], "--json")
    refused(bad, "gpt2")
    assert (good["fits"], good["d"], bad.json["fits"]) == (True, 4448, False)
    assert bad.out.count("\n") == 1, "no remark beside what does not fit"


@pytest.fixture
def study(tmp_path: Path, pair: tuple[Path, Path], task_file: Path) -> Callable[..., Path]:
    """Return a function that writes the file of a study with these runs."""
    defaults = {"base": str(pair[0]), "finetuned": str(pair[1]), "task": str(task_file), "device": "cpu"}

    def written(*runs: dict[str, object]) -> Path:
        (tmp_path / "study.yaml").write_text(yaml.safe_dump({"name": "both", "defaults": defaults, "runs": list(runs)}))
        return tmp_path / "study.yaml"

    return written


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped(study, tmp_path, user_runs):
    file, out = study({"localizer": ["movement", "random"], "size": ["10%"], "seed": [0, 1]}), tmp_path / "table.csv"
    first, again = (done("study", "run", file, "--json").json for _ in range(2))
    assert (again["finished"], sorted(again["skipped"])) == ([], sorted(first["finished"])) and len(
        again["skipped"]
    ) == 4
    table = call("study", "table", file, "--json", "--out", out).json["rows"]
    assert {row["localizer"] for row in table if row["method"].startswith("graft_")} == {"movement", "random"}
    assert out.read_text().startswith("base,recipe,variant,setting")
    sentence(call("study", "table", file, "--out", tmp_path / "no-folder" / "table.csv"), "no-folder")
    done("study", "table", file, "--differences")


MOVEMENT = {"localizer": "movement", "size": "10%"}


def test_a_study_with_a_run_that_fails_makes_the_others(study, user_runs):
    empty = {"localizer": "expression", "options": {"expression": {"layers": []}}}
    said = call("study", "run", study(MOVEMENT, empty), "--json")
    refused(said, "a region without entries")
    assert (len(said.json["finished"]), len(said.json["failed"]), said.json["steps"]["not_reached"]) == (1, 1, 1), (
        "the tables are not reached"
    )


def test_a_study_that_cannot_be_made_says_which_entry_before_anything_is_made(study, user_runs):
    sentence(call("study", "run", study(MOVEMENT, {**MOVEMENT, "size": "999999999"}), "--json"), "BadSize", "entry 2")
    assert not user_runs.exists()


def test_a_study_without_runs_yet_says_so(study, user_runs):
    refused(call("study", "table", study(MOVEMENT)), "study run")


def test_dashboard_starts_streamlit_on_the_script_with_the_runs(monkeypatch, tmp_path):
    seen = {}

    def served(words: list[str], **options: object) -> None:
        seen.update(words=words, cwd=Path.cwd(), runs=os.environ["SKILLVIZ_RUNS"])

    monkeypatch.setattr("streamlit.web.cli.main", served)
    monkeypatch.setenv("SKILLVIZ_RUNS", "elsewhere")
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(call("dashboard", "--port", port), f"port {port} is in use", "--port")
    assert not seen
    done("dashboard", "--port", port, "--no-browser", "--runs-dir", "mine")
    run, script, *words = seen["words"]
    assert (run, Path(script), seen["runs"]) == ("run", seen["cwd"] / "dashboard.py", str(tmp_path / "mine"))
    assert {str(port), "--server.headless"} <= set(words)


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
    refused(call("dashboard"), "requirements.txt")
