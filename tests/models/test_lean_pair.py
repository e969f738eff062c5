"""Tests of a pair in lean mode: the states of the ordinary mode, bit for bit, with one model in memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.frozen_tensors import strip
from skillviz.models.lean_pair import LeanPair, load_lean
from skillviz.models.pair import STATES, ModelPair, load_pair
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs.layers import movement_summary
from skillviz.runs.selfcheck import ends_check, fingerprint_of
from skillviz.runs.wise import grid_logits, on_path
from tests.models.examples import change_weights, differing, examples
from tests.refused import refuses

GRID = np.array([0.0, 0.4, 1.0])
SLOW = pytest.mark.slow


@pytest.fixture
def lean(base: Path, tuned: Path, readout: str) -> LeanPair:
    return load_lean(base, tuned, readout=readout)


def case(family: str, readout: str, dtype: str, moves: bool, *marks: pytest.MarkDecorator) -> object:
    options = {"dtype": getattr(torch, dtype), "move_embeddings": moves}
    return pytest.param(family, readout, dtype, options, marks=marks, id=f"{family}-{readout}-{dtype}")


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("family", "readout", "load_dtype", "options"),
    [
        case("bert", "head", "float32", True),
        case("roberta", "prompt", "float32", False),
        case("llama", "causal", "bfloat16", True),
        case("gpt2", "causal", "float32", True, SLOW),
        case("opt", "head", "float32", False, SLOW),
        case("distilbert", "head", "bfloat16", False, SLOW),
    ],
)
def test_states_are_those_of_the_ordinary_mode(
    pair: ModelPair, lean: LeanPair, tmp_path: Path, load_dtype: str
) -> None:
    assert lean.notes == pair.notes and lean.flat.dtype == getattr(torch, load_dtype)
    assert dict(lean.outside).keys() == pair.outside.keys()
    region = Region.from_flat(np.arange(3, pair.d, 5), pair.table.shapes)
    before, encoded = fingerprint_of(lean), examples(tmp_path, pair, rows=6)
    for state in STATES:
        chosen = region if state in ("grafted", "complement") else None
        with pair.at(state, chosen), lean.at(state, chosen):
            assert fingerprint_of(lean) == fingerprint_of(pair), state
        assert np.array_equal(predict(pair, encoded, state, chosen), predict(lean, encoded, state, chosen))
    for path in ("wise-ft", "wise-graft"):
        with on_path(pair, path, 0.3, region), on_path(lean, path, 0.3, region):
            assert fingerprint_of(lean) == fingerprint_of(pair), path
    assert fingerprint_of(lean) == before and ends_check(lean, encoded).passed
    # The ordinary mode computes the layers below these regions once for all of them; lean mode does not.
    top = [p.name for p in pair.table.parameters if p.layer == pair.table.layers - 1]
    uppers = [Region({name: np.arange(count) for name in top[:2]}, pair.table.shapes) for count in (3, 5)]
    np.testing.assert_array_equal(predict_grafts(pair, encoded, uppers), predict_grafts(lean, encoded, uppers))
    for one, other in zip(*(grid_logits(p, encoded, {6: uppers[0]}, GRID) for p in (pair, lean)), strict=True):
        assert one[:3] == other[:3] and np.array_equal(one[3], other[3])
    assert not differing(pair.graft(region).values, lean.graft(region).values)
    assert movement_summary(pair.movement).equals(movement_summary(lean.movement))


@pytest.mark.parametrize("family", ["opt"])
def test_a_gradient_is_the_same_where_activations_are_computed_again(
    pair: ModelPair, lean: LeanPair, tmp_path: Path
) -> None:
    encoded, index, counted = examples(tmp_path, pair, rows=6), torch.arange(pair.d), []
    whole, problem = pair.problem(encoded), lean.problem(encoded)
    problem.watch(index)
    lean.model.base_model.decoder.layers[0].fc1.register_forward_hook(lambda *_: counted.append(1))
    assert whole.train.backward() == problem.train.backward()
    assert torch.equal(whole.flat.grad, problem.gradient_at(index))
    assert len(counted) == 2  # forward, and again in the backward pass


def test_values_come_from_the_files_not_from_the_model(pair: ModelPair, base: Path, tuned: Path) -> None:
    """With float32 files in a bfloat16 model, the graft has the values of the files."""
    lean = load_lean(base, tuned, dtype="bfloat16")
    region = Region.from_flat(np.arange(50), pair.table.shapes)
    assert lean.flat.dtype == torch.bfloat16
    assert not differing(lean.graft(region).values, pair.graft(region).values)


def test_a_file_that_is_not_as_the_model_has_it_is_refused(base: Path, tuned: Path) -> None:
    change_weights(
        tuned, lambda t: {n.replace("0.attention.self.query.w", "0.attention.self.asked.w"): t[n] for n in t}
    )
    refuses((BadInput, PairMismatch), None, load_lean, base, tuned)


@pytest.mark.parametrize("readout", ["prompt"])
def test_a_model_that_did_not_move_is_refused(base: Path, tmp_path: Path) -> None:
    refuses(PairMismatch, "identical", load_lean, base, shutil.copytree(base, tmp_path / "copy"))


@pytest.mark.parametrize("readout", ["prompt"])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_difference_is_read_from_both_files(base: Path, tuned: Path, dtype: str | None) -> None:
    strip(tuned, base, dtype)
    pair, lean = load_pair(base, tuned), load_lean(base, tuned)
    assert lean.notes == pair.notes and "stored without" in lean.notes[0]
    region = Region.from_flat(np.arange(3, pair.d, 5), pair.table.shapes)
    for state in STATES:
        chosen = region if state in ("grafted", "complement") else None
        with pair.at(state, chosen), lean.at(state, chosen):
            assert fingerprint_of(lean) == fingerprint_of(pair), state
