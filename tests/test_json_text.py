"""Tests of untrusted JSON: lists nested 100,000 deep or numbers of 5,000 digits are an error in each reader."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from skillviz import json_text
from skillviz.commands.localize import read_options
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.core.region_expression import parsed
from skillviz.core.size import parse_size
from skillviz.errors import BadData, SkillvizError
from skillviz.models.checkpoint import read_header
from skillviz.models.local_models import _read as model_config
from skillviz.runs.checkpoint import Checkpoint
from skillviz.runs.process import launch_of
from skillviz.runs.run import read_record
from skillviz.runs.score import read_score
from skillviz.studies.store import open_study
from skillviz.tasks.reading import from_file

STRANGE = {"deep": "[" * 100_000, "long": "9" * 5_000}


@pytest.fixture(params=STRANGE)
def strange(request: pytest.FixtureRequest) -> str:
    return STRANGE[request.param]


def test_it_is_one_kind_of_error(strange: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json_text.loads(strange)
    assert json_text.loads('{"a": [1, 2]}') == {"a": [1, 2]}


def with_header(path: Path, key: str, text: str) -> Path:
    save_file({"x": torch.ones(1)}, path, {key: text, "sha256": ""})
    return path


REFUSED: dict[str, Callable[[Path, str], object]] = {
    "a run": lambda folder, text: ((folder / "run.json").write_text(text), read_record(folder)),
    "a graft": lambda folder, text: Graft.load(with_header(folder / "g.safetensors", "skillviz", text)),
    "a region": lambda folder, text: Region.header(with_header(folder / "r.safetensors", "skillviz", text)),
    "a checkpoint": lambda folder, text: Checkpoint.read(with_header(folder / "c.safetensors", "checkpoint", text)),
    "an expression": lambda folder, text: parsed(text),
    "a file of a model": lambda folder, text: (
        (folder / "t.json").write_text(text),
        json_text.read_object(folder / "t.json"),
    ),
    "weights": lambda folder, text: (
        (folder / "w").write_bytes(len(text).to_bytes(8, "little") + text.encode()),
        read_header(folder / "w"),
    ),
    "a size": lambda folder, text: parse_size(text, 1000),
    "a share": lambda folder, text: parse_size(f"{text}%", 1000),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_a_short_sentence(tmp_path: Path, what: str, strange: str) -> None:
    with pytest.raises(SkillvizError) as caught:
        REFUSED[what](tmp_path, strange)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


def test_what_is_passed_over_stays_passed_over(tmp_path: Path, strange: str) -> None:
    for name in ("study.json", "score.json", "launch.json", "config.json", "lines.jsonl"):
        (tmp_path / name).write_text(strange)
    assert open_study(tmp_path) is None and read_score(tmp_path) is None
    assert launch_of(tmp_path) == {"cwd": Path.cwd()} and model_config(tmp_path / "config.json") == {}
    with pytest.raises(BadData, match="is not JSON"):
        from_file(tmp_path / "lines.jsonl")
    assert read_options([f"examples={strange}"]) == {"examples": strange}


def test_a_file_that_becomes_a_pipe_between_look_and_read_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "config.json")
    monkeypatch.setattr(json_text, "regular", Path)
    with pytest.raises(OSError, match="not a regular file"):
        json_text.read(tmp_path / "config.json")
