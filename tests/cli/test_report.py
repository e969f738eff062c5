"""Tests of `report`: one file, complete or absent, and a clear message for each user error."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show.report import page
from tests.cli.calls import call
from tests.fake_run import fake_run
from tests.show.reading import read
from tests.ui.shared_store import SMALL

pytestmark = pytest.mark.slow


@pytest.fixture
def run(user_runs: Path) -> Run:
    return fake_run(Store(user_runs), sizes=("1%",), **SMALL)


def test_it_writes_the_run_as_one_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    said = call("report", run.id[:-3], "-o", out, "--json")
    assert said.code == 0, said.err
    assert said.json == {"path": str(out), "run_id": run.id, "bytes": out.stat().st_size}
    assert run.id in read(out.read_bytes()).text
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_a_folder_of_a_run_elsewhere_will_do(tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path / "elsewhere"), sizes=("1%",), **SMALL)
    other = fake_run(Store(tmp_path / "elsewhere"), localizer="random", sizes=("1%",), **SMALL)
    said = call("report", run.path, "-o", tmp_path / "r.html")
    assert said.code == 0, said.err
    assert "2 runs of this pair" in read((tmp_path / "r.html").read_bytes()).text and other.id != run.id


def test_a_file_that_is_there_is_kept_unless_asked(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("mine")
    said = call("report", run.id, "-o", out)
    assert said.code == 2 and "--overwrite" in said.err and out.read_text() == "mine"
    assert call("report", run.id, "-o", out, "--force").code == 0
    assert out.stat().st_size > 1_000_000


@pytest.mark.parametrize("name", ["no-such-run", ""])
def test_an_unknown_run_is_a_sentence(name: str, run: Run, tmp_path: Path) -> None:
    said = call("report", name, "-o", tmp_path / "report.html")
    assert said.code == 2 and said.err.startswith("RunNotFound: ") and len(said.err.splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_a_folder_that_is_not_there_is_a_sentence(run: Run, tmp_path: Path) -> None:
    said = call("report", run.id, "-o", tmp_path / "gone" / "report.html")
    assert said.code == 2 and "folder that exists" in said.err
    assert call("report", run.id, "-o", tmp_path, "--overwrite").code == 2


def test_a_broken_run_leaves_no_file(run: Run, tmp_path: Path) -> None:
    path = run.path / "layers.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    said = call("report", run.id, "-o", tmp_path / "report.html")
    assert said.code == 2 and "layers.parquet" in said.err and not list(tmp_path.glob("*report*"))


def test_what_fails_half_way_leaves_the_old_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("mine")
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: (_ for _ in ()).throw(OSError(28, "No space left")))
    said = call("report", run.id, "-o", out, "--overwrite")
    assert said.code == 2 and out.read_text() == "mine" and page.report
