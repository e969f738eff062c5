"""Tests of runs in one zip: its manifest is right to the byte, and the unzipped folder is a store that opens."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest

from skillviz.errors import CorruptRun
from skillviz.runs.store import Library, Store
from skillviz.show.bundle import MANIFEST, README, bundle, stored_bytes

Made = tuple[Path, dict[str, str]]


def zipped(root: Path, *names: str, reports: bool = False, grafts: dict[str, Path] | None = None) -> ZipFile:
    store, made = Store(root), io.BytesIO()
    makes = {name: name.encode for name in names} if reports else {}
    bundle([store.open(name) for name in names], Library([store]), made, reports=makes, grafts=grafts or {})
    return ZipFile(made)


@pytest.mark.slow
def test_the_manifest_vouches_for_every_file(made: Made) -> None:
    root, ids = made
    names = [ids["stagewise0"], ids["random"]]
    archive = zipped(root, *names, reports=True)
    manifest = json.loads(archive.read(MANIFEST))
    contents = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    files = {name: {"sha256": hashlib.sha256(one).hexdigest(), "bytes": len(one)} for name, one in contents.items()}
    assert (manifest["runs"], manifest["files"], archive.testzip()) == (names, files, None)


@pytest.mark.slow
def test_unzipped_it_is_a_store_whose_runs_verify(made: Made, tmp_path: Path) -> None:
    root, ids = made
    zipped(root, *ids.values()).extractall(tmp_path)
    copy = Store(tmp_path / "runs")
    assert {run.id for run in copy.list()} == set(ids.values())
    for name in ids.values():
        assert (copy.verify(name), copy.open(name).record) == ([], Store(root).open(name).record)


@pytest.mark.slow
def test_tables_read_back_as_they_are_stored(made: Made) -> None:
    root, ids = made
    run, archive = Store(root).open(ids["stagewise0"]), zipped(root, ids["stagewise0"])

    def stored(name: str) -> pd.DataFrame:
        return pd.read_csv(io.BytesIO(archive.read(f"tables/{run.id}/{name}.csv")))

    for name in ("scores", "predictions", "curve", "history", "layers", "interpolation"):
        read, own = stored(name), getattr(run, name)()
        assert list(read) == list(own) and len(read) == len(own) > 0, name
        numbers = list(own.select_dtypes("float64"))
        pd.testing.assert_frame_equal(read[numbers], own[numbers].reset_index(drop=True), check_exact=True)
    assert len(stored("predictions-imdb")) == len(run.predictions("imdb")) > 0
    assert f"tables/{ids['random']}/interpolation.csv" not in zipped(root, ids["random"]).namelist(), "it has no rows"


def test_what_is_not_in_it_is_named_with_the_command_that_makes_it(made: Made) -> None:
    archive = zipped(made[0], run_id := made[1]["stagewise0"])
    commands = {row["what"]: row["command"] for row in json.loads(archive.read(MANIFEST))["not_included"]}
    assert set(commands) == {"graft", "report"}
    assert commands["graft"].startswith(f"python -m skillviz export {run_id}")
    readme = archive.read(README).decode()
    for command in commands.values():
        assert command.endswith(" --runs-dir runs") and command in readme, "the run may be in the zip alone"


def test_reports_and_grafts_that_are_given_are_in_it(made: Made, tmp_path: Path) -> None:
    root, run_id, graft = made[0], made[1]["movement"], tmp_path / "graft"
    graft.write_bytes(b"values")
    archive = zipped(root, run_id, reports=True, grafts={run_id: graft})
    given = archive.read(f"reports/{run_id}.html"), archive.read(f"grafts/{run_id}.safetensors")
    assert given == (run_id.encode(), b"values")
    assert json.loads(archive.read(MANIFEST))["not_included"] == []
    assert "Nothing is missing" in archive.read(README).decode()


def test_a_changed_file_is_refused(made: Made, tmp_path: Path) -> None:
    run_id = made[1]["movement"]
    file = shutil.copytree(made[0] / run_id, tmp_path / run_id) / "curve.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(CorruptRun, match=rf": runs/{run_id}/curve.parquet was changed: its SHA-256 .*`runs verify`"):
        zipped(tmp_path, run_id)


def test_the_bytes_are_those_of_the_stored_files(made: Made) -> None:
    run = Store(made[0]).open(made[1]["movement"])
    assert stored_bytes([run]) == sum((run.path / name).stat().st_size for name in run.files)
    assert stored_bytes([]) == 0
