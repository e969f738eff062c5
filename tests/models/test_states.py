"""Tests of the four states: exact to the bit, and restored after use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.overlap import iou_matrix
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import STATES, ModelPair
from tests.models.examples import FITTING, state_of
from tests.models.folders import differing
from tests.tiers import first
from tests.tiny import AUTO

DTYPES = ["float32", "bfloat16"]
moved_embeddings = pytest.mark.parametrize("options", [{"move_embeddings": True}], ids=["embeddings"])


def alone(folder: Path, readout: str, dtype: str) -> dict[str, torch.Tensor]:
    """Return the tensors of the folder's model, opened by transformers."""
    return AUTO[readout].from_pretrained(folder, dtype=getattr(torch, dtype)).state_dict()


@pytest.mark.cases(5, 4)
@moved_embeddings
@pytest.mark.parametrize(("family", "readout"), FITTING)
@pytest.mark.parametrize("load_dtype", first(DTYPES, "float32".__eq__))
def test_finetuned_is_the_fine_tuned_model_whole(pair: ModelPair, tuned: Path, readout: str, load_dtype: str) -> None:
    assert not differing(state_of(pair, "finetuned"), alone(tuned, readout, load_dtype))


@pytest.mark.cases(3, 3)
@moved_embeddings
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal"), ("llama", "causal")])
@pytest.mark.parametrize("load_dtype", DTYPES)
def test_pretrained_is_the_base_whole(pair: ModelPair, base: Path, readout: str, load_dtype: str) -> None:
    wanted = alone(base, readout, load_dtype)
    for state, region in (("pretrained", None), ("grafted", Region.empty(pair.table.shapes))):
        assert not differing(state_of(pair, state, region), wanted), state


@pytest.mark.parametrize("load_dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"move_embeddings": True}], ids=["blocks", "embeddings"])
def test_the_ends_of_graft_and_complement(pair: ModelPair) -> None:
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    for state, region, wanted in (
        ("grafted", empty, pair.base),
        ("grafted", full, pair.finetuned),
        ("complement", empty, pair.finetuned),
        ("complement", full, pair.base),
    ):
        outside = {name: both[state == "complement"] for name, both in pair.outside.items()}
        with pair.at(state, region):
            found = {name: pair.model.get_parameter(name) for name in outside}
            assert torch.equal(pair.flat.theta, wanted) and not differing(found, outside), state


@pytest.mark.parametrize("load_dtype", DTYPES)
def test_graft_and_complement_share_no_entry_and_miss_none(pair: ModelPair, region: Region) -> None:
    inside = torch.zeros(pair.d, dtype=torch.bool)
    inside[torch.from_numpy(region.flat())] = True
    for state, own, rest in (("grafted", pair.finetuned, pair.base), ("complement", pair.base, pair.finetuned)):
        with pair.at(state, region):
            assert torch.equal(pair.flat.theta, torch.where(inside, own, rest)), state


@pytest.mark.cases(3, 3)
@moved_embeddings
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("load_dtype", DTYPES)
def test_left_bit_for_bit_even_after_an_error(pair: ModelPair, region: Region, state: str) -> None:
    # A soft graft in the middle of a search, with both zeros and a NaN.
    pair.flat.theta.lerp_(pair.finetuned, 0.3)
    pair.flat.theta[:3] = torch.tensor([0.0, -0.0, float("nan")])
    before = {name: tensor.clone() for name, tensor in pair.model.state_dict().items()}
    with pytest.raises(KeyError), pair.at(state, region):
        assert differing(pair.model.state_dict(), before)
        pair.flat.theta.fill_(7)
        raise KeyError
    assert not differing(pair.model.state_dict(), before)


def test_negative_zero_at_rest_survives(pair: ModelPair) -> None:
    """The base's zeros must not replace the model's negative zeros: they are equal, but have other bits."""
    zeros = torch.tensor([0.0, -0.0])
    pair.base[:2] = zeros
    pair.flat.theta.copy_(pair.base)
    pair.flat.theta[:2] = -zeros
    before = {name: tensor.clone() for name, tensor in pair.model.state_dict().items()}
    state_of(pair, "finetuned")
    assert not differing(pair.model.state_dict(), before)


@moved_embeddings
def test_states_nest(pair: ModelPair, region: Region) -> None:
    wanted = {state: state_of(pair, state, region) for state in ("pretrained", "finetuned", "grafted")}
    with pair.at("finetuned"):
        assert not differing(state_of(pair, "grafted", region), wanted["grafted"])
        assert not differing(pair.model.state_dict(), wanted["finetuned"])
    assert not differing(pair.model.state_dict(), wanted["pretrained"])
    assert differing(wanted["grafted"], wanted["finetuned"])


@moved_embeddings
@pytest.mark.parametrize("lean", [False, True])
def test_a_region_whose_parameters_are_in_another_order_is_the_same_graft(
    pair: ModelPair, base: Path, tuned: Path, region: Region, lean: bool
) -> None:
    """Files order their parameters by name and models by layer: flat indices are valid in one order only."""
    turned = Region(region.indices, dict(reversed(region.shapes.items())))
    assert turned == region and not np.array_equal(turned.flat(), region.flat())
    assert (iou_matrix({"one": region, "other": turned}).to_numpy() == 1).all()
    pair = load_lean(base, tuned, readout="head", device="cpu") if lean else pair
    for state in ("grafted", "complement"):
        assert not differing(state_of(pair, state, region), state_of(pair, state, turned)), state
    if not lean:
        assert not differing(between(pair, region), between(pair, turned))
        assert not differing(pair.graft(region).values, pair.graft(turned).values)


def between(pair: ModelPair, region: Region) -> dict[str, torch.Tensor]:
    """Return the model's tensors halfway to the region's graft."""
    with pair.at("pretrained"):
        pair.put_between(0.5, region)
        return {name: tensor.clone() for name, tensor in pair.model.state_dict().items()}


@pytest.mark.parametrize(
    ("state", "shapes", "words"),
    [
        ("grafted", None, "needs a region"),
        ("complement", None, "needs a region"),
        ("soft", None, "known: pretrained, finetuned, grafted, complement"),
        ("grafted", {"a": (2, 2)}, "another architecture"),
    ],
)
def test_a_state_needs_what_it_needs(
    pair: ModelPair, state: str, shapes: dict[str, tuple[int, ...]] | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words), pair.at(state, None if shapes is None else Region.empty(shapes)):
        pytest.fail("it was entered")
