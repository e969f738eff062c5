"""Tests of what commands tell of runs: `runs`, `report`, `slices`, `parts`, `regions`, `dashboard` and `study`."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock
from zipfile import ZipFile

import pandas as pd
import pytest
import yaml

import skillviz
from skillviz.analysis.slices import LEAST
from skillviz.commands import dashboard
from skillviz.errors import BadInput
from skillviz.runs.run import Run
from skillviz.runs.store import PARTS, Store, open_run
from tests.cli.calls import call, done, refused, sentence, started
from tests.e2e.server import free_port, wait_until_up
from tests.fake_run import fake_run
from tests.runs.test_texts import run_of, with_columns
from tests.show.reading import read
from tests.tables import check
from tests.tiers import first
from tests.tiny import tiny_pair, tiny_task
from tests.ui.shared_store import SMALL


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
    assert {row["ratio"] for row in said.json["bound"]} > {"not measured", "0.00"} and "variance term" in said.out


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
    assert manifest["not_included"] == [] and report in manifest["files"] and b"plotly" in archive.read(report).lower()
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


@pytest.fixture
def run(user_runs: Path) -> Run:
    return fake_run(Store(user_runs), sizes=("1%",), **SMALL)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


@pytest.mark.slow
def test_it_writes_the_run_as_one_file(run: Run, out: Path) -> None:
    told = done("report", run.id[:-3], "-o", out, "--json").json
    assert told == {"path": str(out), "run_id": run.id, "bytes": out.stat().st_size}
    assert run.id in read(out.read_bytes()).text and not list(out.parent.glob("*.part"))


@pytest.mark.slow
def test_a_folder_of_a_run_elsewhere_will_do(out: Path) -> None:
    store = Store(out.parent / "elsewhere")
    run, _ = (fake_run(store, localizer=name, sizes=("1%",), **SMALL) for name in ("stagewise", "random"))
    done("report", run.path, "-o", out)
    assert "2 runs of this pair" in read(out.read_bytes()).text


@pytest.mark.slow
def test_several_runs_are_a_site_with_links_between_them(user_runs: Path, tmp_path: Path) -> None:
    store, folder = Store(user_runs), tmp_path / "site"
    ids = [fake_run(store, localizer=name, sizes=("1%",), **SMALL).id for name in ("stagewise", "random")]
    assert done("report", *ids, ids[0], "--site", folder, "--json").json == {"path": str(folder), "runs": ids}
    pages = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert set(pages) == {"index.html", "plotly.min.js", *(f"{run_id}.html" for run_id in ids)}
    links = {name: set(re.findall(r'href="([^"#]+)"', html)) for name, html in pages.items() if name.endswith("html")}
    assert links == {
        "index.html": {f"./{run_id}.html" for run_id in ids},
        **{f"{one}.html": {"index.html", f"./{other}.html"} for one, other in (ids, ids[::-1])},
    }
    assert all("script-src" in pages[f"{run_id}.html"] and len(pages[f"{run_id}.html"]) < 3_000_000 for run_id in ids)
    assert '<script src="plotly.min.js">' in pages[f"{ids[0]}.html"]
    refused(call("report", ids[0], "--site", folder), "BadInput: ", "--overwrite")
    done("report", ids[0], "--site", folder, "--overwrite")
    assert not (folder / f"{ids[1]}.html").exists()
    (folder / "notes.txt").write_text("mine")
    refused(call("report", ids[0], "--site", folder, "--overwrite"), "BadInput: ", "notes.txt")
    assert (folder / "notes.txt").read_text() == "mine"
    refused(call("report", *ids, "-o", tmp_path / "both.html"), "BadInput: 2 runs", "--site")


@pytest.mark.slow
def test_a_file_that_is_there_is_kept_unless_asked(run: Run, out: Path) -> None:
    out.write_text("mine")
    refused(call("report", run.id, "-o", out), "--overwrite")
    assert out.read_text() == "mine"
    done("report", run.id, "-o", out, "--force")
    assert out.stat().st_size > 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no-such-run", ""])
def test_an_unknown_run_is_a_sentence(name: str, run: Run, out: Path) -> None:
    sentence(call("report", name, "-o", out), "RunNotFound: ")
    assert not out.exists()


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_a_sentence(run: Run, tmp_path: Path) -> None:
    refused(call("report", run.id, "-o", tmp_path / "gone" / "report.html"), "folder that exists")
    refused(call("report", run.id, "-o", tmp_path, "--overwrite"))


@pytest.mark.slow
def test_a_broken_run_leaves_no_file(run: Run, tmp_path: Path) -> None:
    path = run.path / "layers.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    refused(call("report", run.id, "-o", tmp_path / "report.html"), "layers.parquet")
    assert not list(tmp_path.glob("*report*"))


@pytest.mark.slow
def test_what_fails_half_way_leaves_the_old_file(run: Run, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out.write_text("mine")
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(28, "No space left")))
    refused(call("report", run.id, "-o", out, "--overwrite"))
    assert out.read_text() == "mine"


@pytest.fixture
def sliced(tmp_path: Path, user_runs: Path) -> Run:
    """Make a run whose task's data are available, with extra columns."""
    task = tiny_task(tmp_path / "task", rows=128)
    with_columns(tmp_path / "task", source=lambda n: "web" if n % 3 else "book")
    made = run_of(task, user_runs, n={"validation": 64, "test": 64})
    (made.path / "run.json").write_text(made.record.model_dump_json())
    return made


def test_all_columns_and_some(sliced: Run, tmp_path: Path) -> None:
    said, csv = done("slices", sliced.id, "--json"), tmp_path / "slices.csv"
    rows = said.json["slices"]
    assert {row["column"] for row in rows} == {"class", "words", "source"}
    assert "The graft is " in said.out and "comparisons" not in said.out and "true class" in said.out
    ranks = [(row["n"] < LEAST["accuracy"], row["value"]) for row in rows]
    assert ranks == sorted(ranks)
    assert {
        row["name"] for row in call("slices", sliced.id, "--by", "source", "--metric", "nll", "--json").json["slices"]
    } == {"web", "book"}
    call("slices", sliced.id, "--out", csv)
    assert list(pd.read_csv(csv)["value"]) == pytest.approx([value for _, value in ranks])


def test_without_the_data_it_is_by_class(user_runs: Path) -> None:
    made = fake_run(Store(user_runs), task="nowhere.yaml", sizes=("1%",), **SMALL)
    said = done("slices", made.id, "--json")
    assert "By class only:" in said.err and {row["column"] for row in said.json["slices"]} == {"class"}
    refused(call("slices", made.id, "--by", "words"), "nowhere.yaml")


def test_wrong_names(sliced: Run) -> None:
    refused(
        call("slices", sliced.id, "--by", "colour"), "'colour' is not a column with slices; known: class, words, source"
    )
    refused(call("slices", sliced.id, "--metric", "ece"), "known: accuracy, nll")


@pytest.mark.slow
@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("by", first(["cells", "heads", "rows"], "cells".__eq__))
def test_parts_are_scored_and_stored_beside_the_run(store: tuple[Path, str], tmp_path: Path, by: str) -> None:
    root, run = store
    words, csv, html = ("parts", run, "--by", by), tmp_path / "parts.csv", tmp_path / "run.html"
    said = done(*words, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes over at most 8 examples" in said.out and "At most about " in said.out
    told = said.json
    assert (told["n"], told["grouping"], told["subskills"], len(told["effects"])) == (8, by, None, 2 * told["parts"])
    assert told["parts"] > 1 and (root / PARTS / run / by / "parts.parquet").is_file() and Store(root).verify(run) == []
    again = call(*words, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes" not in again.out and again.json["effects"] == told["effects"]
    more = (*words, "--sample", "9", "--draws", "2")
    other = call(*more, "--json").json
    groups, effects = other["subskills"], other["effects"]
    assert other["n"] == 9 and {row["subskill"] for row in effects} - {None} <= {
        row["subskill"] for row in groups if row["metric"] == "share"
    }
    assert [row for row in groups[2:] if row["low"] is None] == []
    call(*more, "--out", csv)
    rows = pd.read_csv(csv)
    is_group = rows["condition"] == "sub-skills"
    assert (is_group.sum(), (~is_group).sum(), set(rows["metric"][~is_group])) == (
        len(groups),
        2 * len(effects),
        {"accuracy", "nll"},
    )
    call("report", run, "--out", html)
    text = html.read_text(encoding="utf-8")
    assert f"What each {by.removesuffix('s')} of the region does" in text and "Slice by slice" in text


@pytest.mark.slow
def test_a_wrong_division_is_named(store: tuple[Path, str]) -> None:
    refused(call("parts", store[1], "--by", "columns"), "'cells', 'heads'")


@pytest.mark.slow
def test_localize_scores_them_right_away(members, tmp_path: Path) -> None:
    words = ("localize", *members, "--size", "5%", "--method", "movement", "--parts", "--runs-dir", tmp_path)
    refused(call(*words, "--detach"), "leave out --detach")
    said = done(*words, "--device", "cpu", "--json")
    assert "forward passes" in said.out and (tmp_path / PARTS / said.json["run_id"] / "cells").is_dir()


@pytest.mark.slow
def test_each_kind_is_stored_and_printed_with_what_it_comes_to(store: tuple[Path, str], tmp_path: Path) -> None:
    (root, run), csv = store, tmp_path / "regions.csv"
    assert "No other region is stored" in call("regions", run).out
    for kind in ("minimal", "adversarial"):
        said = done("regions", run, "--find", kind, "--draws", 2, "--sample", 8, "--json")
    rows = said.json["regions"]
    assert said.json["n"] == 8 and {row["kind"] for row in rows} == {"own", "minimal", "adversarial"}
    assert "of the region suffices" in said.out and "hurt most change" in said.out
    assert (root / PARTS / run / "regions" / "regions.safetensors").is_file() and Store(root).verify(run) == []
    assert call("regions", run, "--out", csv, "--json").json["regions"] == rows and len(pd.read_csv(csv)) == len(rows)
    refused(call("regions", run, "--find", "nearby"))


@pytest.mark.slow
def test_python_has_the_same_table(store: tuple[Path, str]) -> None:
    run, told = skillviz.open_run(store[1]), list[str]()
    with pytest.raises(BadInput, match="no other region of run .* is stored; find some"):
        skillviz.regions(run)
    found = skillviz.regions(run.id, "adversarial", sample=8, told=told.append)
    assert told and skillviz.regions(run).equals(found) and found["kind"].tolist() == ["own", "adversarial"] * 2
