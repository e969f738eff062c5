"""Test of `--convert`: a model with pickled weights goes from preflight to a run, and only with that option."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from skillviz.models import convert
from skillviz.tasks.project import CACHE_VARIABLE
from tests.cli.calls import call, done, refused
from tests.cli.conftest import QUICK, Members, members_of


@pytest.mark.slow
def test_a_pair_of_pickled_weights_from_preflight_to_a_run(
    members: Members, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = shutil.copytree(members[3], tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    converted = members_of(members[1], folder, task_file)
    refused(call("preflight", *converted))
    assert "sha256" in done("preflight", *converted, "--convert").err and convert.wanted.get() is None
    # The conversion is found, and nothing pickled is read.
    words = ("--size", "1%", *QUICK, "--json", "--runs-dir")
    made, same = (
        done("localize", *pair, *words, tmp_path / name) for pair, name in ((converted, "runs"), (members, "same"))
    )
    one, other = (load_file(next((tmp_path / name).glob("*/region.safetensors"))) for name in ("runs", "same"))
    assert one.keys() == other.keys() and [name for name in one if not torch.equal(one[name], other[name])] == []
    assert made.json["metrics"] == same.json["metrics"]
