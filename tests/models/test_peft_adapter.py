"""Tests of a graft as an adapter: with peft and the base it gives the graft's logits, and reports its limits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel

from skillviz.api import Graft, ModelPair, Region, load_pair
from skillviz.errors import BadInput
from skillviz.models.applied import applied, opened_base
from skillviz.models.frozen_tensors import strip
from skillviz.models.load import auto_class
from skillviz.models.peft_adapter import FILE, Adapter, write_adapter
from tests.models.examples import change_weights, differing, some_region, weights
from tests.refused import refuses
from tests.tiny_families import family_pair, family_readout

# peft adds sparse tensors without setting torch's check of their invariants.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
CASES = [
    ("bert", "head"), ("roberta", "prompt"), ("distilbert", "head"), ("roberta", "head"), ("llama", "head"),
    ("opt", "causal"), ("bert", "prompt"), ("distilbert", "prompt"), ("gpt_neox", "head"), ("llama", "causal"),
]  # fmt: skip
IDS = torch.randint(5, 20, (4, 9), generator=torch.Generator().manual_seed(1))
QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the empty folder of the adapter."""
    folder = tmp_path / "adapter"
    folder.mkdir()
    return folder


def written(out: Path, base: Path, graft: Graft) -> Adapter:
    return write_adapter(out, opened_base(base, graft).model, graft, str(base))


def opened(base: Path, adapter: Path, readout: str, pad: int | None, dtype: torch.dtype = torch.float32) -> Any:
    """Open the base with the adapter like a user of peft."""
    labels = {"num_labels": 2} if readout == "head" else {}
    model = auto_class(readout).from_pretrained(base, dtype=dtype, **labels).float()
    model.config.pad_token_id = pad
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*")
        return PeftModel.from_pretrained(model, str(adapter)).eval()


@torch.no_grad()
def logits(model: Any, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(input_ids=ids).logits


def checked(out: Path, base: Path, graft: Graft, readout: str, ids: torch.Tensor = IDS) -> Adapter:
    """Return the written adapter; check that peft's logits with it are the graft's, and not the base's."""
    whole, adapter = applied(base, graft).model, written(out, base, graft)
    wanted = logits(whole, ids)
    assert torch.equal(logits(opened(base, out, readout, whole.config.pad_token_id), ids), wanted)
    assert not torch.equal(wanted, logits(opened_base(base, graft).model, ids))
    return adapter


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(("family", "readout"), CASES)
def test_peft_gives_the_logits_of_the_graft(base: Path, graft: Graft, out: Path, readout: str) -> None:
    assert checked(out, base, graft, readout).difference == 0
    # Check that one missing entry changes the logits.
    name = next(n for n, tensor in weights(out, FILE).items() if n.endswith("shira_weight") and tensor.any())
    change_weights(out, lambda tensors: {**tensors, name: torch.zeros_like(tensors[name])}, FILE)
    whole = applied(base, graft).model
    assert not torch.equal(logits(opened(base, out, readout, whole.config.pad_token_id)), logits(whole))


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["t5", "apertus", "mixtral"])
def test_small_modules_of_other_kinds_are_stored_whole(tmp_path: Path, out: Path, family: str) -> None:
    """Check T5's table of positions, Apertus' activation with buffers, and a router; experts are refused."""
    base, tuned = family_pair(tmp_path, family)
    pair = load_pair(base, tuned, device="cpu")
    region = some_region(pair, size=400)
    small = Region({n: i for n, i in region.indices.items() if ".experts." not in n}, region.shapes)
    if small != region:
        refuses(BadInput, "belongs to a MixtralExperts", written, out, base, pair.graft(region))
    checked(out, base, pair.graft(small), family_readout(family), torch.tensor([[5, 6, 7, 8, 2]]))


def test_merged_it_is_the_grafted_model(base: Path, graft: Graft, out: Path) -> None:
    whole = applied(base, graft).model
    written(out, base, graft)
    merged = opened(base, out, "head", whole.config.pad_token_id).merge_and_unload()
    assert not differing(dict(merged.named_parameters()), dict(whole.named_parameters()))


def test_the_base_of_a_float16_difference_is_rounded_first(base: Path, tuned: Path, out: Path) -> None:
    strip(tuned, base, dtype="float16")
    pair = load_pair(base, tuned, device="cpu")
    graft = pair.graft(some_region(pair, size=200))
    whole = applied(base, graft)
    ours = {name: whole.model.get_parameter(name).float() for name in pair.table.names}
    with pair.at("grafted", graft.region):
        assert whole.info.rounded and not differing(ours, {name: pair.model.get_parameter(name) for name in ours})
    written(out, base, graft)
    pad, expected = whole.model.config.pad_token_id, logits(whole.model.float())
    assert torch.equal(logits(opened(base, out, "head", pad, torch.float16)), expected)
    assert not torch.equal(logits(opened(base, out, "head", pad)), expected)


@pytest.mark.parametrize("readout", ["prompt"])
def test_a_value_that_no_difference_reaches_is_within_the_bound_that_is_said(
    pair: ModelPair, base: Path, out: Path
) -> None:
    graft = pair.graft(Region({QUERY: np.arange(5)}, pair.table.shapes))
    # Values far smaller than the base's lose their last digits in base + difference.
    graft.values[QUERY][:] = torch.tensor([1e-9, -3e-8, 7e-7, 1.2345678e-5, 0.0])
    adapter = written(out, base, graft)
    there = opened(base, out, "prompt", None).merge_and_unload().get_parameter(QUERY).flatten()[:5]
    error = (there - graft.values[QUERY]).abs()
    movement = (graft.values[QUERY] - pair.model.get_parameter(QUERY).flatten()[:5]).abs()
    assert 0 < float(error.max()) == pytest.approx(adapter.difference, rel=1e-6)
    assert bool((error <= 2.0**-24 * movement * (1 + 1e-6)).all())


@pytest.mark.parametrize("readout", ["prompt"])
def test_a_region_without_a_matrix_is_held_too(pair: ModelPair, base: Path, out: Path) -> None:
    vectors = {n: np.arange(3) for n, shape in pair.table.shapes.items() if len(shape) == 1}
    adapter = checked(out, base, pair.graft(Region(vectors, pair.table.shapes)), "prompt")
    assert (adapter.sparse, adapter.biases > 0, adapter.whole > 0) == (0, True, True)


@pytest.mark.parametrize("readout", ["prompt"])
def test_a_matrix_that_is_filled_densely_is_stored_whole(pair: ModelPair, base: Path, out: Path) -> None:
    chosen = {QUERY: np.arange(200), QUERY.replace("query", "key"): np.arange(9)}
    adapter = checked(out, base, pair.graft(Region(chosen, pair.table.shapes)), "prompt")
    assert (adapter.sparse, adapter.whole, adapter.rank) == (1, 1, 1)


@pytest.mark.parametrize(
    ("family", "readout", "share", "words"),
    [
        ("gpt2", "causal", 0.1, r"belongs to a Conv1D, and peft's sparse adapter \(SHiRA\) supports nn.Linear"),
        ("bert", "prompt", 1, "an adapter would be larger than the model"),
    ],
)
def test_what_an_adapter_cannot_hold_is_refused(
    pair: ModelPair, base: Path, out: Path, share: float, words: str
) -> None:
    refuses(BadInput, words, written, out, base, pair.graft(some_region(pair, share)))
