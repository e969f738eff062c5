"""Tests of pipes in place of files: every reader refuses them and does not wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillviz import json_text
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import BadInput, SkillvizError
from skillviz.regular_file import regular
from skillviz.runs.run import Run, read_record
from skillviz.runs.store import Store
from tests.fake_run import fake_run
from tests.patience import within

FILES = (
    "curve.parquet", "history.parquet", "interpolation.parquet", "interpolation_bins.parquet", "layers.parquet",
    "predictions.parquet", "ranking.safetensors", "region.safetensors", "run.json",
)  # fmt: skip
READERS: dict[str, tuple[Callable[[Path], Any], type[Exception]]] = {
    "a path": (regular, FileNotFoundError),
    "JSON": (json_text.read, FileNotFoundError),
    "a graft": (Graft.load, BadInput),
    "a region": (Region.load, BadInput),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_no_file(name: str, tmp_path: Path) -> None:
    read, error = READERS[name]
    os.mkfifo(tmp_path / "pipe")
    with within(5), pytest.raises(error):
        read(tmp_path / "pipe")


@pytest.mark.cases(2, 1)
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_among_a_runs_files_keeps_nobody_waiting(name: str, tmp_path: Path) -> None:
    """The list opens without the run, and reading that file gives an error."""
    run = fake_run(Store(tmp_path), interpolation=True)
    folder = run.path
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == list(FILES)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with within(20):
        assert Store(tmp_path).list() == []
        with pytest.raises(SkillvizError):
            read_whole(Run(folder, read_record(folder)) if name == "run.json" else run)


def read_whole(run: Run) -> None:
    """Read every table, the region and the ranking of a run."""
    for table in (run.predictions, run.curve, run.history, run.layers, run.interpolation, run.interpolation_bins):
        table()
    run.region()
    run.ranking()
