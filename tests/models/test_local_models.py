"""Tests of the search for local models: bounded, hidden and broken folders skipped, names that reproduce a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillviz.models import local_models
from skillviz.models.local_models import find_models, roots
from skillviz.serving.settings import MODELS_VARIABLE
from tests.test_torch_free import heavy_after


def model(folder: Path, adapter: bool = False, **config: object) -> Path:
    """Make a folder that looks like a model's; its weights are unusable."""
    folder.mkdir(parents=True)
    prefix = "adapter_" if adapter else ""
    (folder / f"{prefix}model.safetensors").write_bytes(b"12345")
    (folder / f"{prefix}config.json").write_text(json.dumps(config or {"model_type": "bert"}))
    return folder


def names(root: Path, **bounds: int) -> list[str]:
    return [model.name for model in find_models([root], **bounds).models]


def test_finds_models_and_adapters_with_what_a_reader_must_know_and_passes_over_others(tmp_path: Path) -> None:
    model(tmp_path / "lora", adapter=True, base_model_name_or_path="org/base")
    for place in ("b/tuned", ".hidden", "pickled", "bare", "broken"):
        model(tmp_path / place)
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    (tmp_path / "bare" / "config.json").unlink()
    (tmp_path / "broken" / "config.json").write_text("{")
    found = find_models([model(tmp_path / "a", model_type="gpt2").parent, tmp_path / "nowhere"]).models
    assert {one.name: (one.model_type, one.bytes, one.is_adapter, one.base, one.source) for one in found} == {
        "a": ("gpt2", 5, False, "", str(tmp_path / "a")),
        "b/tuned": ("bert", 5, False, "", str(tmp_path / "b" / "tuned")),
        "lora": ("", 5, True, "org/base", str(tmp_path / "lora")),
    }


def test_is_bounded_in_depth_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("a/b/c", *(f"m{number}" for number in range(5))):
        model(tmp_path / place)
    assert names(tmp_path, depth=2) == [f"m{n}" for n in range(5)] and "a/b/c" in names(tmp_path, depth=3)
    few = find_models([tmp_path], most=3)
    assert (len(few.models), few.is_cut, find_models([tmp_path]).is_cut) == (3, True, False)
    monkeypatch.setattr(local_models, "LOOKED_AT", 2)
    assert find_models([tmp_path]).is_cut


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    model(tmp_path / "m")
    os.symlink(tmp_path, tmp_path / "m" / "again")
    assert len(names(tmp_path)) <= 3


def test_the_hubs_cache_shows_the_hubs_names(tmp_path: Path) -> None:
    model(tmp_path / "models--org--name" / "snapshots" / ("0123456789" * 4))
    assert names(tmp_path) == ["org/name@0123456"]


def test_a_folder_of_the_project_is_named_from_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "project_root", lambda: tmp_path)
    model(tmp_path / "models" / "mine")
    assert [model.source for model in find_models([tmp_path / "models"]).models] == ["models/mine"]


def test_the_roots_are_those_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert roots()[-1] == tmp_path / "models" and len(roots()) == 2
    monkeypatch.setenv(MODELS_VARIABLE, os.pathsep.join(["/one", "two", "", "/one"]))
    assert roots() == [Path("/one"), tmp_path / "two"]


@pytest.mark.slow
def test_it_needs_no_torch() -> None:
    assert heavy_after("skillviz.models.local_models", "skillviz.jobs.devices") == {}
