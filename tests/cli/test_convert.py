"""Test of `--convert`: a model with pickled weights goes from preflight to a run, and only with that option."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from skillviz.models import convert
from skillviz.tasks.project import CACHE_VARIABLE
from tests.cli.calls import call
from tests.cli.conftest import QUICK


@pytest.mark.slow
def test_a_pair_of_pickled_weights_from_preflight_to_a_run(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "pickled"
    shutil.copytree(pair[1], folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    members = ("--base", pair[0], "--finetuned", folder, "--task", task_file)
    assert call("preflight", *members).code != 0
    checked = call("preflight", *members, "--convert")
    assert checked.code == 0 and "sha256" in checked.err and convert.wanted.get() is None
    made = call("localize", *members, "--size", "1%", *QUICK, "--runs-dir", tmp_path / "runs", "--json")
    assert made.code == 0, "the conversion is found, and nothing pickled is read"
    same = call("localize", "--base", pair[0], "--finetuned", pair[1], *members[4:], "--size", "1%", *QUICK,
                "--runs-dir", tmp_path / "same", "--json")  # fmt: skip
    regions = [next((tmp_path / store).glob("*/region.safetensors")) for store in ("runs", "same")]
    assert load_file(regions[0]).keys() == load_file(regions[1]).keys()
    assert all(torch.equal(value, load_file(regions[1])[name]) for name, value in load_file(regions[0]).items())
    assert made.json["metrics"] == same.json["metrics"]
