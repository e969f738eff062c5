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
    name = "adapter_model" if adapter else "model"
    (folder / f"{name}.safetensors").write_bytes(b"12345")
    file = "adapter_config.json" if adapter else "config.json"
    (folder / file).write_text(json.dumps(config or {"model_type": "bert"}))
    return folder


def names(root: Path, **bounds: int) -> list[str]:
    return [model.name for model in find_models([root], **bounds).models]


def test_finds_models_and_adapters_with_what_a_reader_must_know(tmp_path: Path) -> None:
    model(tmp_path / "b" / "tuned")
    model(tmp_path / "a", model_type="gpt2")
    model(tmp_path / "lora", adapter=True, base_model_name_or_path="org/base")
    first, lora, tuned = sorted(find_models([tmp_path]).models, key=lambda model: model.name.rpartition("/")[2])
    assert (first.name, first.model_type, first.bytes, first.is_adapter) == ("a", "gpt2", 5, False)
    assert (tuned.name, tuned.source) == ("b/tuned", str(tmp_path / "b" / "tuned"))
    assert lora.is_adapter and lora.base == "org/base"


def test_passes_over_what_could_not_be_loaded(tmp_path: Path) -> None:
    model(tmp_path / ".hidden")
    model(tmp_path / "pickled").joinpath("model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    (model(tmp_path / "bare") / "config.json").unlink()
    (model(tmp_path / "broken") / "config.json").write_text("{")
    assert names(tmp_path) == [] and find_models([tmp_path / "nowhere"]).models == ()


def test_is_bounded_in_depth_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "a" / "b" / "c")
    for number in range(5):
        model(tmp_path / f"m{number}")
    assert names(tmp_path, depth=2) == [f"m{n}" for n in range(5)]
    assert "a/b/c" in names(tmp_path, depth=3)
    assert len(names(tmp_path, most=3)) == 3 and find_models([tmp_path], most=3).is_cut
    assert not find_models([tmp_path]).is_cut
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
