"""Tests of the movements of other models of one base: their sum by hand, and refused models."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from skillviz.errors import BadInput, PairMismatch, SkillvizError
from skillviz.models.null_pair import summed_movements
from skillviz.models.pair import load_pair
from skillviz.runs.produce import produce
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_pair


def other_model(world: Path, folder: Path, seed: int) -> Path:
    """Return the world's fine-tuned model with more noise on every floating-point weight."""
    shutil.copytree(world / "finetuned", folder)
    tensors = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(seed)
    moved = {name: t + 0.1 * torch.randn(t.shape, generator=generator) for name, t in tensors.items()}
    save_file(moved, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_the_sum_is_that_of_each_model_less_the_base(world: Path, tmp_path: Path) -> None:
    others = [other_model(world, tmp_path / name, seed) for seed, name in enumerate(("a", "b"))]
    pair = load_pair(world / "base", world / "finetuned", device="cpu")
    total, sentence = summed_movements(pair, str(world / "base"), [str(other) for other in others])
    wanted = sum(load_pair(world / "base", other, device="cpu").finetuned - pair.base for other in others)
    torch.testing.assert_close(total, wanted)
    assert not torch.allclose(total, wanted + pair.finetuned - pair.base)
    assert "a (" in sentence and "b (" in sentence


@pytest.mark.nightly
def test_a_run_takes_them_and_says_so(world: Path, tmp_path: Path) -> None:
    other = other_model(world, tmp_path / "another", 0)
    store = Store(tmp_path / "runs")
    with_others = produce(spec_of(world, localizer="tall-mask", options={"other_models": [str(other)]}), store)
    alone = produce(spec_of(world, localizer="tall-mask"), store)
    pair = load_pair(world / "base", world / "finetuned", device="cpu")
    others, _ = summed_movements(pair, str(world / "base"), [str(other)])
    moved = (pair.finetuned - pair.base).abs()
    ratio = torch.where(moved == 0, 0.0, moved / others.abs())
    size = with_others.record.size
    assert set(with_others.region().flat().tolist()) == set(ratio.topk(size).indices.tolist())
    assert with_others.region() != alone.region()
    assert any("other tasks' vectors are of another (" in note for note in with_others.record.notes)
    assert not any("other tasks' vectors" in note for note in alone.record.notes)


def test_what_is_no_other_model_of_the_base_is_one_sentence(world: Path, tmp_path: Path) -> None:
    pair = load_pair(world / "base", world / "finetuned", device="cpu")
    with pytest.raises(PairMismatch, match="is the fine-tuned model itself; name models of other tasks"):
        summed_movements(pair, str(world / "base"), [str(world / "finetuned")])
    strange = tiny_pair(tmp_path, "gpt2", "head")[1]
    store = Store(tmp_path / "runs")
    for named, error in ((str(strange), SkillvizError), (str(tmp_path / "none"), SkillvizError), (3.5, BadInput)):
        with pytest.raises(error):
            produce(spec_of(world, localizer="tall-mask", options={"other_models": named}), store)
    assert not store.list(), "refused before there is a folder"
