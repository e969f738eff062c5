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
    archive = zipped(root, ids["stagewise0"], ids["random"], reports=True)
    manifest = json.loads(archive.read(MANIFEST))
    assert manifest["runs"] == [ids["stagewise0"], ids["random"]]
    assert set(manifest["files"]) == set(archive.namelist()) - {MANIFEST}
    for name, note in manifest["files"].items():
        content = archive.read(name)
        assert (note["sha256"], note["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content)), name
    assert archive.testzip() is None


@pytest.mark.slow
def test_unzipped_it_is_a_store_whose_runs_verify(made: Made, tmp_path: Path) -> None:
    root, ids = made
    zipped(root, *ids.values()).extractall(tmp_path)
    copy = Store(tmp_path / "runs")
    assert {run.id for run in copy.list()} == set(ids.values())
    assert all(not copy.verify(run_id) for run_id in ids.values())
    for name in ids.values():
        assert copy.open(name).record == Store(root).open(name).record


@pytest.mark.slow
def test_tables_read_back_as_they_are_stored(made: Made) -> None:
    root, ids = made
    run, archive = Store(root).open(ids["stagewise0"]), zipped(root, ids["stagewise0"])
    for name in ("scores", "predictions", "curve", "history", "layers", "interpolation"):
        read = pd.read_csv(io.BytesIO(archive.read(f"tables/{run.id}/{name}.csv")))
        stored = getattr(run, name)()
        assert list(read) == list(stored) and len(read) == len(stored) > 0, name
        for column in stored.select_dtypes("float64"):
            pd.testing.assert_series_equal(read[column], stored[column], check_exact=True)
    elsewhere = pd.read_csv(io.BytesIO(archive.read(f"tables/{run.id}/predictions-imdb.csv")))
    assert len(elsewhere) == len(run.predictions("imdb")) > 0
    assert f"tables/{ids['random']}/interpolation.csv" not in zipped(root, ids["random"]).namelist(), "it has no rows"


def test_what_is_not_in_it_is_named_with_the_command_that_makes_it(made: Made) -> None:
    root, ids = made
    run_id = ids["stagewise0"]
    archive = zipped(root, run_id)
    rows = {row["what"]: row for row in json.loads(archive.read(MANIFEST))["not_included"]}
    assert set(rows) == {"graft", "report"}
    assert rows["graft"]["command"].startswith(f"python -m skillviz export {run_id}")
    assert all(row["command"].endswith(" --runs-dir runs") for row in rows.values()), "the run may be in the zip alone"
    assert all(row["command"] in archive.read(README).decode() for row in rows.values())


def test_reports_and_grafts_that_are_given_are_in_it(made: Made, tmp_path: Path) -> None:
    root, ids = made
    graft = tmp_path / "graft"
    graft.write_bytes(b"values")
    archive = zipped(root, ids["movement"], reports=True, grafts={ids["movement"]: graft})
    assert archive.read(f"reports/{ids['movement']}.html") == ids["movement"].encode()
    assert archive.read(f"grafts/{ids['movement']}.safetensors") == b"values"
    assert json.loads(archive.read(MANIFEST))["not_included"] == []
    assert "Nothing is missing" in archive.read(README).decode()


def test_a_changed_file_is_refused(made: Made, tmp_path: Path) -> None:
    root, ids = made
    shutil.copytree(root / ids["movement"], tmp_path / ids["movement"])
    file = tmp_path / ids["movement"] / "curve.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(CorruptRun) as error:
        zipped(tmp_path, ids["movement"])
    assert error.value.args[0] == (
        f"runs/{ids['movement']}/curve.parquet was changed: its SHA-256 is not the stored one. "
        "`runs verify` lists all changed files."
    )


def test_the_bytes_are_those_of_the_stored_files(made: Made) -> None:
    run = Store(made[0]).open(made[1]["movement"])
    assert stored_bytes([run]) == sum((run.path / name).stat().st_size for name in run.files)
    assert stored_bytes([]) == 0
