"""Tests of null pairs: a movement without its positions or signs, used like any other pair; lean mode is exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.api import ModelPair, Region, load_pair
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, SHUFFLED, SIGNS
from skillviz.errors import BadInput
from skillviz.models.lean_pair import LeanPair, load_lean
from skillviz.models.null_pair import null_pair, with_signs
from skillviz.models.predict import predict
from skillviz.runs.selfcheck import fingerprint_of
from tests.models.examples import examples

both_dtypes = pytest.mark.parametrize(
    ("options", "load_dtype"),
    [({"dtype": torch.float32}, "own"), ({"dtype": torch.bfloat16}, "own")],
    ids=["float32", "bfloat16"],
)
COMPARED = {SHUFFLED: lambda tau: tau.sort().values, SIGNS: torch.abs, LEARNED_SIGNS: torch.abs}


@pytest.fixture
def lean(base: Path, tuned: Path) -> LeanPair:
    return load_lean(base, tuned)


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@both_dtypes
def test_a_null_pair_moves_from_the_same_base(pair: ModelPair, kind: str) -> None:
    null, compared = null_pair(pair, kind, 0), COMPARED.get(kind)
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
    with pytest.raises(BadInput, match=words):
        null_pair(load_pair(base, tuned, rest=rest), kind, 0)
