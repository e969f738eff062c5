"""Tests of a pair in lean mode: the states of the ordinary mode, bit for bit, with one model in memory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.frozen_tensors import strip
from skillviz.models.lean_pair import LeanPair, load_lean
from skillviz.models.pair import STATES, ModelPair, load_pair
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs.layers import movement_summary
from skillviz.runs.selfcheck import ends_check, fingerprint_of
from skillviz.runs.wise import grid_logits, on_path
from tests.models.examples import examples
from tests.tiny import tiny_pair

GRID = np.array([0.0, 0.4, 1.0])


def both(folder: Path, family: str, readout: str, dtype: torch.dtype, moves: bool) -> tuple[ModelPair, LeanPair]:
    models = tiny_pair(folder, family, readout, dtype, move_embeddings=moves)
    name = "bfloat16" if dtype == torch.bfloat16 else "float32"
    return load_pair(*models, readout=readout, dtype=name), load_lean(*models, readout=readout)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("family", "readout", "dtype", "moves"),
    [
        ("bert", "head", torch.float32, True),
        ("roberta", "prompt", torch.float32, False),
        ("llama", "causal", torch.bfloat16, True),
        pytest.param("gpt2", "causal", torch.float32, True, marks=pytest.mark.slow),
        pytest.param("opt", "head", torch.float32, False, marks=pytest.mark.slow),
        pytest.param("distilbert", "head", torch.bfloat16, False, marks=pytest.mark.slow),
    ],
)
def test_states_are_those_of_the_ordinary_mode(
    tmp_path: Path, family: str, readout: str, dtype: torch.dtype, moves: bool
) -> None:
    pair, lean = both(tmp_path, family, readout, dtype, moves)
    assert lean.notes == pair.notes and lean.flat.dtype == dtype and dict(lean.outside).keys() == pair.outside.keys()
    region = Region.from_flat(np.arange(3, pair.d, 5), pair.table.shapes)
    before = fingerprint_of(lean)
    encoded = examples(tmp_path, pair, rows=6)
    for state in STATES:
        chosen = region if state in ("grafted", "complement") else None
        with pair.at(state, chosen), lean.at(state, chosen):
            assert fingerprint_of(lean) == fingerprint_of(pair), state
        assert np.array_equal(predict(pair, encoded, state, chosen), predict(lean, encoded, state, chosen))
    for path in ("wise-ft", "wise-graft"):
        with on_path(pair, path, 0.3, region), on_path(lean, path, 0.3, region):
            assert fingerprint_of(lean) == fingerprint_of(pair)
    assert fingerprint_of(lean) == before
    assert ends_check(lean, encoded).passed
    # The ordinary mode computes the layers below these regions once for all of them; lean mode does not.
    top = [p.name for p in pair.table.parameters if p.layer == pair.table.layers - 1]
    uppers = [Region({name: np.arange(count) for name in top[:2]}, pair.table.shapes) for count in (3, 5)]
    for one, other in zip(predict_grafts(pair, encoded, uppers), predict_grafts(lean, encoded, uppers), strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(*(grid_logits(p, encoded, {6: uppers[0]}, GRID) for p in (pair, lean)), strict=True):
        assert one[:3] == other[:3] and np.array_equal(one[3], other[3])
    graft, other = pair.graft(region), lean.graft(region)
    assert all(torch.equal(graft.values[name], other.values[name]) for name in region.indices)
    assert movement_summary(pair.movement).equals(movement_summary(lean.movement))


def test_a_gradient_is_the_same_where_activations_are_computed_again(tmp_path: Path) -> None:
    pair, lean = both(tmp_path, "opt", "head", torch.float32, False)
    encoded = examples(tmp_path, pair, rows=6)
    whole, problem = pair.problem(encoded), lean.problem(encoded)
    index = torch.arange(pair.d)
    problem.watch(index)
    counted = []
    lean.model.base_model.decoder.layers[0].fc1.register_forward_hook(lambda *_: counted.append(1))
    assert whole.train.backward() == problem.train.backward()
    assert torch.equal(whole.flat.grad, problem.gradient_at(index))
    assert len(counted) == 2  # forward, and again in the backward pass


def test_values_come_from_the_files_not_from_the_model(tmp_path: Path) -> None:
    """With float32 files in a bfloat16 model, the graft has the values of the files."""
    models = tiny_pair(tmp_path)
    lean, pair = load_lean(*models, dtype="bfloat16"), load_pair(*models)
    assert lean.flat.dtype == torch.bfloat16
    region = Region.from_flat(np.arange(50), pair.table.shapes)
    for name, values in lean.graft(region).values.items():
        assert torch.equal(values, pair.graft(region).values[name])


@pytest.mark.parametrize("what", ["moved", "absent"])
def test_a_file_that_is_not_as_the_model_has_it_is_refused(tmp_path: Path, what: str) -> None:
    base, finetuned = tiny_pair(tmp_path)
    path = finetuned / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if "layer.0" in name and name.endswith("query.weight"))
    tensors[name.replace("query", "asked")] = tensors.pop(name)
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises((BadInput, PairMismatch)):
        load_lean(base, finetuned)


def test_a_model_that_did_not_move_is_refused(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path, readout="prompt")
    with pytest.raises(PairMismatch, match="identical"):
        load_lean(base, shutil.copytree(base, tmp_path / "copy"))


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_difference_is_read_from_both_files(tmp_path: Path, dtype: str | None) -> None:
    base, finetuned = tiny_pair(tmp_path, readout="prompt")
    strip(finetuned, base, dtype)
    pair, lean = load_pair(base, finetuned), load_lean(base, finetuned)
    assert lean.notes == pair.notes and "stored without" in lean.notes[0]
    region = Region.from_flat(np.arange(3, pair.d, 5), pair.table.shapes)
    for state in STATES:
        chosen = region if state in ("grafted", "complement") else None
        with pair.at(state, chosen), lean.at(state, chosen):
            assert fingerprint_of(lean) == fingerprint_of(pair), state
