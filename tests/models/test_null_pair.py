"""Tests of null pairs: a movement without its positions or signs, used like any other pair; lean mode is exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.nulls import LEARNED_SIGNS, NULLS, SHUFFLED, SIGNS
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.lean_pair import load_lean
from skillviz.models.null_pair import null_pair, with_signs
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.runs.selfcheck import fingerprint_of
from tests.models.examples import examples
from tests.tiny import tiny_pair


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_null_pair_moves_from_the_same_base(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    models = tiny_pair(tmp_path, "bert", "head", dtype)
    pair = load_pair(*models, dtype=str(dtype).removeprefix("torch."))
    null = null_pair(pair, kind, 0)
    assert (
        null.flat is pair.flat and torch.equal(null.base, pair.base) and not torch.equal(null.finetuned, pair.finetuned)
    )
    tau = pair.finetuned.float() - pair.base.float()
    moved = null.finetuned.float() - null.base.float()
    tolerance = {"atol": 1e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    for start, end in zip(pair.table.offsets[:-1], pair.table.offsets[1:], strict=True):
        own, other = tau[start:end], moved[start:end]
        if kind == SHUFFLED:
            own, other = own.sort().values, other.sort().values
        elif kind in (SIGNS, LEARNED_SIGNS):
            own, other = own.abs(), other.abs()
        else:
            own = -own
        assert torch.allclose(own, other, **tolerance)
    assert not NULLS[kind].is_drawn or not torch.equal(null.finetuned, null_pair(pair, kind, 1).finetuned)


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lean_null_pairs_are_those_of_the_ordinary_mode(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    models = tiny_pair(tmp_path, "bert", "head", dtype)
    pair, lean = load_pair(*models, dtype="own"), load_lean(*models)
    null, lean_null = null_pair(pair, kind, 3), null_pair(lean, kind, 3)
    region = Region.from_flat(np.arange(2, pair.d, 7), pair.table.shapes)
    encoded = examples(tmp_path, pair, rows=6)
    before = fingerprint_of(pair)
    with null.at("grafted", region), lean_null.at("grafted", region):
        assert fingerprint_of(null) == fingerprint_of(lean_null) != before
    assert fingerprint_of(pair) == fingerprint_of(lean) == before, "both rest at the base again"
    assert np.array_equal(predict(null, encoded, "grafted", region), predict(lean_null, encoded, "grafted", region))
    index = torch.tensor([5, 0, pair.d - 1, 9])
    assert torch.equal(null.finetuned[index], lean_null.finetuned[index])
    assert torch.equal(null.finetuned[3:40], lean_null.finetuned[3:40])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_grafts_signs_are_those_given_in_both_modes(tmp_path: Path, dtype: torch.dtype) -> None:
    models = tiny_pair(tmp_path, "bert", "head", dtype)
    pair, lean = load_pair(*models, dtype="own"), load_lean(*models)
    order = np.random.default_rng(0).permutation(pair.d)[:500]
    signs = np.resize(np.array([1, -1, 0, -1], dtype=np.float32), 500)
    signed, lean_signed = (with_signs(null_pair(one, LEARNED_SIGNS, 0), order, signs) for one in (pair, lean))
    tau = (null_pair(pair, LEARNED_SIGNS, 0).finetuned.float() - pair.base.float())[order]
    wanted = (pair.base[order].float() + torch.from_numpy(signs) * tau).to(dtype)
    assert torch.equal(signed.finetuned[order], wanted)
    assert not torch.equal(signed.finetuned[order], (pair.base[order].float() + tau).to(dtype)), "no signs would pass"
    region = Region.from_flat(np.sort(order), pair.table.shapes)
    with signed.at("grafted", region), lean_signed.at("grafted", region):
        assert fingerprint_of(signed) == fingerprint_of(lean_signed)
    assert fingerprint_of(pair) == fingerprint_of(lean)


def test_unknown_nulls_and_controls_are_refused(tmp_path: Path) -> None:
    models = tiny_pair(tmp_path, "bert", "head")
    with pytest.raises(BadInput, match="mixed"):
        null_pair(load_pair(*models), "mixed", 0)
    with pytest.raises(BadInput, match="control"):
        null_pair(load_pair(*models, rest="zero"), SHUFFLED, 0)
