"""Tests of `report`: one file, complete or absent, and a clear message for each user error."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from skillviz.runs.run import Run
from skillviz.runs.store import Store
from tests.cli.calls import call, done, refused, sentence
from tests.fake_run import fake_run
from tests.show.reading import read
from tests.ui.shared_store import SMALL

pytestmark = pytest.mark.slow


@pytest.fixture
def run(user_runs: Path) -> Run:
    return fake_run(Store(user_runs), sizes=("1%",), **SMALL)


def test_it_writes_the_run_as_one_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    told = done("report", run.id[:-3], "-o", out, "--json").json
    assert told == {"path": str(out), "run_id": run.id, "bytes": out.stat().st_size}
    assert run.id in read(out.read_bytes()).text and not list(tmp_path.glob("*.part"))


def test_a_folder_of_a_run_elsewhere_will_do(tmp_path: Path) -> None:
    store, out = Store(tmp_path / "elsewhere"), tmp_path / "r.html"
    run, _ = (fake_run(store, localizer=name, sizes=("1%",), **SMALL) for name in ("stagewise", "random"))
    done("report", run.path, "-o", out)
    assert "2 runs of this pair" in read(out.read_bytes()).text


def test_a_file_that_is_there_is_kept_unless_asked(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("mine")
    refused(call("report", run.id, "-o", out), "--overwrite")
    assert out.read_text() == "mine"
    done("report", run.id, "-o", out, "--force")
    assert out.stat().st_size > 1_000_000


@pytest.mark.parametrize("name", ["no-such-run", ""])
def test_an_unknown_run_is_a_sentence(name: str, run: Run, tmp_path: Path) -> None:
    sentence(call("report", name, "-o", tmp_path / "report.html"), "RunNotFound: ")
    assert not (tmp_path / "report.html").exists()


def test_a_folder_that_is_not_there_is_a_sentence(run: Run, tmp_path: Path) -> None:
    refused(call("report", run.id, "-o", tmp_path / "gone" / "report.html"), "folder that exists")
    refused(call("report", run.id, "-o", tmp_path, "--overwrite"))


def test_a_broken_run_leaves_no_file(run: Run, tmp_path: Path) -> None:
    path = run.path / "layers.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    refused(call("report", run.id, "-o", tmp_path / "report.html"), "layers.parquet")
    assert not list(tmp_path.glob("*report*"))


def test_what_fails_half_way_leaves_the_old_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("mine")
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(28, "No space left")))
    refused(call("report", run.id, "-o", out, "--overwrite"))
    assert out.read_text() == "mine"
