"""Tests of a graft as an adapter: with peft and the base it gives the graft's logits, and reports its limits."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file

from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.applied import applied, opened_base
from skillviz.models.frozen_tensors import strip
from skillviz.models.load import auto_class
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.peft_adapter import FILE, Adapter, write_adapter
from tests.tiers import first
from tests.tiny import tiny_pair
from tests.tiny_families import family_pair, family_readout

# peft adds sparse tensors without setting torch's check of their invariants.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
CASES = [
    ("bert", "head"), ("roberta", "prompt"), ("opt", "causal"), ("distilbert", "head"), ("roberta", "head"),
    ("llama", "head"), ("bert", "prompt"), ("distilbert", "prompt"), ("gpt_neox", "head"), ("llama", "causal"),
]  # fmt: skip


def some(pair: ModelPair, size: int = 200) -> Region:
    return Region.from_flat(np.random.default_rng(0).permutation(pair.d)[:size], pair.table.shapes)


def written(folder: Path, base: Path, graft: Graft) -> tuple[Path, Adapter]:
    out = folder / "adapter"
    out.mkdir()
    return out, write_adapter(out, opened_base(base, graft).model, graft, str(base))


def opened(base: Path, adapter: Path, readout: str, pad: int | None, dtype: torch.dtype = torch.float32) -> Any:
    """Open the base with the adapter like a user of peft."""
    labels = {"num_labels": 2} if readout == "head" else {}
    model = auto_class(readout).from_pretrained(base, dtype=dtype, **labels).float()
    model.config.pad_token_id = pad
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*")
        return PeftModel.from_pretrained(model, str(adapter)).eval()


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    ids = torch.randint(5, 20, (4, 9), generator=torch.Generator().manual_seed(1))
    return model(input_ids=ids).logits


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("case", first(CASES, CASES[:4].__contains__), ids="-".join)
def test_peft_gives_the_logits_of_the_graft(tmp_path, case):
    family, readout = case
    base, tuned = tiny_pair(tmp_path, family, readout)
    pair = load_pair(base, tuned, device="cpu")
    graft = pair.graft(some(pair))
    whole = applied(base, graft).model
    out, adapter = written(tmp_path, base, graft)
    model = opened(base, out, readout, whole.config.pad_token_id)
    assert adapter.difference == 0
    assert torch.equal(logits(model), logits(whole))
    assert not torch.equal(logits(whole), logits(opened_base(base, graft).model))
    # Check that one missing entry changes the logits.
    tensors = load_file(out / FILE)
    name = next(n for n in tensors if n.endswith("shira_weight") and tensors[n].any())
    tensors[name] = torch.zeros_like(tensors[name])
    save_file(tensors, out / FILE, {"format": "pt"})
    assert not torch.equal(logits(opened(base, out, readout, whole.config.pad_token_id)), logits(whole))


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["t5", "apertus", "mixtral"])
def test_small_modules_of_other_kinds_are_stored_whole(tmp_path, family):
    """Check T5's table of positions, Apertus' activation with buffers, and a router; experts are refused."""
    base, tuned = family_pair(tmp_path, family)
    pair = load_pair(base, tuned, device="cpu")
    region = some(pair, 400)
    small = Region({n: i for n, i in region.indices.items() if ".experts." not in n}, region.shapes)
    graft = pair.graft(small)
    whole = applied(base, graft).model
    out, _ = written(tmp_path, base, graft)
    model = opened(base, out, family_readout(family), whole.config.pad_token_id)
    ids = torch.tensor([[5, 6, 7, 8, 2]])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, whole(input_ids=ids).logits)
        assert not torch.equal(whole(input_ids=ids).logits, opened_base(base, graft).model(input_ids=ids).logits)
    if small != region:
        shutil.rmtree(out)
        with pytest.raises(BadInput, match="belongs to a MixtralExperts"):
            written(tmp_path, base, pair.graft(region))


def test_merged_it_is_the_grafted_model(tmp_path):
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    pair = load_pair(base, tuned, device="cpu")
    graft = pair.graft(some(pair))
    whole = applied(base, graft).model
    out, _ = written(tmp_path, base, graft)
    merged = opened(base, out, "head", whole.config.pad_token_id).merge_and_unload()
    for name, parameter in whole.named_parameters():
        assert torch.equal(merged.get_parameter(name), parameter), name


def test_the_base_of_a_float16_difference_is_rounded_first(tmp_path):
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    strip(tuned, base, dtype="float16")
    pair = load_pair(base, tuned, device="cpu")
    graft = pair.graft(some(pair))
    whole = applied(base, graft)
    assert whole.info.rounded
    with pair.at("grafted", graft.region):
        for name in pair.table.names:
            assert torch.equal(whole.model.get_parameter(name).float(), pair.model.get_parameter(name)), name
    out, _ = written(tmp_path, base, graft)
    pad = whole.model.config.pad_token_id
    expected = logits(whole.model.float())
    assert torch.equal(logits(opened(base, out, "head", pad, torch.float16)), expected)
    assert not torch.equal(logits(opened(base, out, "head", pad)), expected)


def test_a_value_that_no_difference_reaches_is_within_the_bound_that_is_said(tmp_path):
    base, tuned = tiny_pair(tmp_path, "bert", "prompt")
    pair = load_pair(base, tuned, device="cpu")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    region = Region({name: np.arange(5)}, pair.table.shapes)
    graft = pair.graft(region)
    # Values far smaller than the base's lose their last digits in base + difference.
    graft.values[name][:] = torch.tensor([1e-9, -3e-8, 7e-7, 1.2345678e-5, 0.0])
    out, adapter = written(tmp_path, base, graft)
    model = opened(base, out, "prompt", None)
    there = model.merge_and_unload().get_parameter(name).flatten()[:5]
    error = (there - graft.values[name]).abs()
    movement = (graft.values[name] - pair.model.get_parameter(name).flatten()[:5]).abs()
    assert 0 < float(error.max()) == pytest.approx(adapter.difference, rel=1e-6)
    assert bool((error <= 2.0**-24 * movement * (1 + 1e-6)).all())


def test_a_region_without_a_matrix_is_held_too(tmp_path):
    base, tuned = tiny_pair(tmp_path, "bert", "prompt")
    pair = load_pair(base, tuned, device="cpu")
    vectors = {n: np.arange(3) for n, shape in pair.table.shapes.items() if len(shape) == 1}
    graft = pair.graft(Region(vectors, pair.table.shapes))
    out, adapter = written(tmp_path, base, graft)
    assert (adapter.sparse, adapter.biases > 0, adapter.whole > 0) == (0, True, True)
    assert torch.equal(logits(opened(base, out, "prompt", None)), logits(applied(base, graft).model))


def test_a_matrix_that_is_filled_densely_is_stored_whole(tmp_path):
    base, tuned = tiny_pair(tmp_path, "bert", "prompt")
    pair = load_pair(base, tuned, device="cpu")
    layer = "bert.encoder.layer.0.attention.self."
    chosen = {f"{layer}query.weight": np.arange(200), f"{layer}key.weight": np.arange(9)}
    graft = pair.graft(Region(chosen, pair.table.shapes))
    out, adapter = written(tmp_path, base, graft)
    assert (adapter.sparse, adapter.whole, adapter.rank) == (1, 1, 1)
    assert torch.equal(logits(opened(base, out, "prompt", None)), logits(applied(base, graft).model))


def test_what_an_adapter_cannot_hold_is_refused(tmp_path):
    base, tuned = tiny_pair(tmp_path / "gpt2", "gpt2", "causal")
    pair = load_pair(base, tuned, device="cpu")
    with pytest.raises(BadInput, match=r"belongs to a Conv1D, and peft's sparse adapter \(SHiRA\) supports nn.Linear"):
        written(tmp_path / "gpt2", base, pair.graft(some(pair)))
    base, tuned = tiny_pair(tmp_path / "bert", "bert", "prompt")
    pair = load_pair(base, tuned, device="cpu")
    with pytest.raises(BadInput, match="an adapter would be larger than the model"):
        written(tmp_path / "bert", base, pair.graft(some(pair, pair.d)))
