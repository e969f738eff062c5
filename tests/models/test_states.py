"""Tests of the four states: exact to the bit, and restored after use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from skillviz.core.overlap import iou_matrix
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import STATES, ModelPair
from tests.models.examples import FITTING, open_pair, some_region
from tests.tiers import first

AUTO = {
    "head": AutoModelForSequenceClassification,
    "prompt": AutoModelForMaskedLM,
    "causal": AutoModelForCausalLM,
}
DTYPES = ["float32", "bfloat16"]


def bits(pair: ModelPair) -> dict[str, torch.Tensor]:
    return {name: p.detach().view(-1).view(torch.uint8).clone() for name, p in pair.model.named_parameters()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


@pytest.mark.cases(5, 4)
@pytest.mark.parametrize(("family", "readout"), FITTING)
@pytest.mark.parametrize("dtype", first(DTYPES, "float32".__eq__))
def test_finetuned_is_the_fine_tuned_model_whole(tmp_path: Path, family: str, readout: str, dtype: str) -> None:
    pair = open_pair(tmp_path, family, readout, move_embeddings=True, load_dtype=dtype)
    alone = AUTO[readout].from_pretrained(tmp_path / "finetuned", dtype=getattr(torch, dtype))
    with pair.at("finetuned"):
        ours = pair.model.state_dict()
        assert all(torch.equal(ours[name], tensor) for name, tensor in alone.state_dict().items())


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal"), ("llama", "causal")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pretrained_is_the_base_whole(tmp_path: Path, family: str, readout: str, dtype: str) -> None:
    pair = open_pair(tmp_path, family, readout, move_embeddings=True, load_dtype=dtype)
    alone = AUTO[readout].from_pretrained(tmp_path / "base", dtype=getattr(torch, dtype))
    for state, region in (("pretrained", None), ("grafted", Region.empty(pair.table.shapes))):
        with pair.at(state, region):
            ours = pair.model.state_dict()
            assert all(torch.equal(ours[name], tensor) for name, tensor in alone.state_dict().items())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("embeddings", [False, True])
def test_the_ends_of_graft_and_complement(tmp_path: Path, dtype: str, embeddings: bool) -> None:
    pair = open_pair(tmp_path, move_embeddings=embeddings, load_dtype=dtype)
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    for state, region, wanted in (
        ("grafted", empty, pair.base),
        ("grafted", full, pair.finetuned),
        ("complement", empty, pair.finetuned),
        ("complement", full, pair.base),
    ):
        with pair.at(state, region):
            assert torch.equal(pair.flat.theta, wanted)
            place = 0 if state == "grafted" else 1
            named = dict(pair.model.named_parameters())
            assert all(torch.equal(named[name], both[place]) for name, both in pair.outside.items())


@pytest.mark.parametrize("dtype", DTYPES)
def test_graft_and_complement_share_no_entry_and_miss_none(tmp_path: Path, dtype: str) -> None:
    pair, region = open_pair(tmp_path, load_dtype=dtype), None
    region = some_region(pair, 0.3)
    inside = torch.zeros(pair.d, dtype=torch.bool)
    inside[torch.from_numpy(region.flat())] = True
    with pair.at("grafted", region):
        assert torch.equal(pair.flat.theta, torch.where(inside, pair.finetuned, pair.base))
    with pair.at("complement", region):
        assert torch.equal(pair.flat.theta, torch.where(inside, pair.base, pair.finetuned))


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_left_bit_for_bit_even_after_an_error(tmp_path: Path, state: str, dtype: str) -> None:
    pair = open_pair(tmp_path, move_embeddings=True, load_dtype=dtype)
    # A soft graft in the middle of a search, with both zeros and a NaN.
    pair.flat.theta.lerp_(pair.finetuned, 0.3)
    pair.flat.theta[:3] = torch.tensor([0.0, -0.0, float("nan")])
    before = bits(pair)
    with pytest.raises(KeyError), pair.at(state, some_region(pair)):
        assert not same(bits(pair), before)
        pair.flat.theta.fill_(7)
        raise KeyError
    assert same(bits(pair), before)


def test_negative_zero_at_rest_survives(tmp_path: Path) -> None:
    """The base's zeros must not replace the model's negative zeros: they are equal, but have other bits."""
    pair = open_pair(tmp_path)
    pair.base[:2] = torch.tensor([0.0, -0.0])
    pair.flat.theta.copy_(pair.base)
    pair.flat.theta[:2] = torch.tensor([-0.0, 0.0])
    before = bits(pair)
    with pair.at("finetuned"):
        pass
    assert same(bits(pair), before)


def test_states_nest(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, move_embeddings=True)
    rest = bits(pair)
    with pair.at("finetuned"):
        outer = bits(pair)
        with pair.at("grafted", some_region(pair)):
            assert not same(bits(pair), outer)
        assert same(bits(pair), outer)
    assert same(bits(pair), rest)


@pytest.mark.parametrize("lean", [False, True])
def test_a_region_whose_parameters_are_in_another_order_is_the_same_graft(tmp_path: Path, lean: bool) -> None:
    """Files order their parameters by name and models by layer: flat indices are valid in one order only."""
    pair = open_pair(tmp_path, move_embeddings=True)
    if lean:
        pair = load_lean(tmp_path / "base", tmp_path / "finetuned", readout=pair.readout_name, device="cpu")
    region = some_region(pair)
    turned = Region(region.indices, dict(reversed(region.shapes.items())))
    assert turned == region and not np.array_equal(turned.flat(), region.flat())
    for state in ("grafted", "complement"):
        with pair.at(state, region):
            expected = bits(pair)
        with pair.at(state, turned):
            assert same(bits(pair), expected)
    assert (iou_matrix({"one": region, "other": turned}).to_numpy() == 1).all()
    if lean:
        return
    with pair.at("pretrained"):
        pair.put_between(0.5, region)
        expected = bits(pair)
    with pair.at("pretrained"):
        pair.put_between(0.5, turned)
        assert same(bits(pair), expected)
    values, again = pair.graft(region).values, pair.graft(turned).values
    assert values.keys() == again.keys() and all(torch.equal(values[name], again[name]) for name in values)


def test_a_state_needs_what_it_needs(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    for state in ("grafted", "complement"):
        with pytest.raises(BadInput, match="needs a region"), pair.at(state):
            pass
    with pytest.raises(BadInput, match="known: pretrained, finetuned, grafted, complement"), pair.at("soft"):
        pass
    other = Region.empty({"a": (2, 2)})
    with pytest.raises(BadInput, match="another architecture"), pair.at("grafted", other):
        pass
