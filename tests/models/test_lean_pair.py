"""Tests of a pair in lean mode: the states of the ordinary mode, bit for bit, with one model in memory; and of null
pairs: a movement without its positions or signs, used like any other pair, also in lean mode."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.nulls import LEARNED_SIGNS, NULLS, SHUFFLED, SIGNS
from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.frozen_tensors import strip
from skillviz.models.lean_pair import LeanPair, load_lean
from skillviz.models.null_pair import null_pair, with_signs
from skillviz.models.pair import STATES, ModelPair, load_pair
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs.layers import movement_summary
from skillviz.runs.selfcheck import ends_check, fingerprint_of
from skillviz.runs.wise import grid_logits, on_path
from tests.models.examples import change_weights, differing, examples, refuses

SLOW = pytest.mark.slow


@pytest.fixture
def lean(base: Path, tuned: Path, readout: str) -> LeanPair:
    return load_lean(base, tuned, readout=readout)


def case(family: str, readout: str, dtype: str, moves: bool, *marks: pytest.MarkDecorator) -> object:
    return pytest.param(
        family,
        readout,
        dtype,
        {"dtype": getattr(torch, dtype), "move_embeddings": moves},
        marks=marks,
        id=f"{family}-{readout}-{dtype}",
    )


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
    for one, other in zip(
        *(grid_logits(p, encoded, {6: uppers[0]}, np.array([0.0, 0.4, 1.0])) for p in (pair, lean)), strict=True
    ):
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
    assert lean.flat.dtype == torch.bfloat16 and not differing(lean.graft(region).values, pair.graft(region).values)


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


both_dtypes = pytest.mark.parametrize(
    ("options", "load_dtype"),
    [({"dtype": torch.float32}, "own"), ({"dtype": torch.bfloat16}, "own")],
    ids=["float32", "bfloat16"],
)


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@both_dtypes
def test_a_null_pair_moves_from_the_same_base(pair: ModelPair, kind: str) -> None:
    null, compared = (
        null_pair(pair, kind, 0),
        {SHUFFLED: lambda tau: tau.sort().values, SIGNS: torch.abs, LEARNED_SIGNS: torch.abs}.get(kind),
    )
    assert null.flat is pair.flat and torch.equal(null.base, pair.base)
    tau, moved = (one.finetuned.float() - one.base.float() for one in (pair, null))
    atol, rtol = (1e-6, 1e-5) if pair.base.dtype == torch.float32 else (2e-2, 2e-2)
    for start, end in zip(pair.table.offsets[:-1], pair.table.offsets[1:], strict=True):
        own, other = tau[start:end], moved[start:end]
        wanted, found = (compared(own), compared(other)) if compared else (-own, other)
        assert torch.allclose(wanted, found, atol=atol, rtol=rtol)
    assert not torch.equal(null.finetuned, pair.finetuned)
    assert not NULLS[kind].is_drawn or not torch.equal(null.finetuned, null_pair(pair, kind, 1).finetuned)


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@both_dtypes
def test_lean_null_pairs_are_those_of_the_ordinary_mode(
    pair: ModelPair, lean: LeanPair, tmp_path: Path, kind: str
) -> None:
    null, lean_null = null_pair(pair, kind, 3), null_pair(lean, kind, 3)
    region = Region.from_flat(np.arange(2, pair.d, 7), pair.table.shapes)
    encoded, before = examples(tmp_path, pair, rows=6), fingerprint_of(pair)
    with null.at("grafted", region), lean_null.at("grafted", region):
        assert fingerprint_of(null) == fingerprint_of(lean_null) != before
    assert fingerprint_of(pair) == fingerprint_of(lean) == before, "both rest at the base again"
    assert np.array_equal(predict(null, encoded, "grafted", region), predict(lean_null, encoded, "grafted", region))
    for index in (torch.tensor([5, 0, pair.d - 1, 9]), slice(3, 40)):
        assert torch.equal(null.finetuned[index], lean_null.finetuned[index])


@both_dtypes
def test_a_grafts_signs_are_those_given_in_both_modes(pair: ModelPair, lean: LeanPair) -> None:
    order = np.random.default_rng(0).permutation(pair.d)[:500]
    signs = np.resize(np.array([1, -1, 0, -1], dtype=np.float32), 500)
    signed, lean_signed = (with_signs(null_pair(one, LEARNED_SIGNS, 0), order, signs) for one in (pair, lean))
    base = pair.base[order].float()
    tau = null_pair(pair, LEARNED_SIGNS, 0).finetuned[order].float() - base
    wanted, unsigned = ((base + factor * tau).to(pair.base.dtype) for factor in (torch.from_numpy(signs), 1))
    found = signed.finetuned[order]
    assert torch.equal(found, wanted) and not torch.equal(found, unsigned), "no signs would pass"
    region = Region.from_flat(np.sort(order), pair.table.shapes)
    with signed.at("grafted", region), lean_signed.at("grafted", region):
        assert fingerprint_of(signed) == fingerprint_of(lean_signed)
    assert fingerprint_of(pair) == fingerprint_of(lean)


@pytest.mark.parametrize(("kind", "rest", "words"), [("mixed", "base", "mixed"), (SHUFFLED, "zero", "control")])
def test_unknown_nulls_and_controls_are_refused(base: Path, tuned: Path, kind: str, rest: str, words: str) -> None:
    refuses(BadInput, words, null_pair, load_pair(base, tuned, rest=rest), kind, 0)
