"""Tests of composition: the parts of a region sum to the region in every family, and fused tensors are split."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.composition import COLUMNS, composition, shared_composition
from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from tests.core.problems import model_of, table_of
from tests.tiny import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_sums(family: str) -> None:
    table = table_of(model_of(family))
    rng = np.random.default_rng(0)
    region = Region.from_flat(rng.choice(table.d, size=table.d // 3, replace=False), table.shapes)
    frame = composition(region, table)
    assert tuple(frame.columns) == COLUMNS
    assert frame.selected.sum() == region.size and frame.total.sum() == table.d
    assert (frame.rows * frame.cols == frame.total).all()
    assert (frame.selected <= frame.total).all()
    whole = frame.groupby("parameter", sort=False).selected.sum()
    assert list(whole.index) == list(table.names)
    assert [len(region.indices.get(n, ())) for n in table.names] == whole.tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_ends(family: str) -> None:
    table = table_of(model_of(family))
    assert composition(Region.empty(table.shapes), table).selected.sum() == 0
    full = composition(Region.full(table.shapes), table)
    assert (full.selected == full.total).all()


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
def test_a_fused_tensor_gives_three_rows_and_its_entries_go_to_the_right_one(family: str) -> None:
    table = table_of(model_of(family))
    for parameter in (p for p in table.parameters if p.fused):
        kinds = parameter.kind_numbers(np.arange(parameter.size))
        values = np.flatnonzero(kinds == 2)
        frame = composition(Region({parameter.name: values}, table.shapes), table).query("selected > 0")
        assert frame[["kind", "selected"]].to_numpy().tolist() == [["value", parameter.size // 3]]
        moved = values - 1  # off by one: some entries are no longer values
        frame = composition(Region({parameter.name: moved}, table.shapes), table).query("selected > 0")
        assert len(frame) > 1


def test_what_two_regions_share_is_counted_part_by_part() -> None:
    """Compare with sets over pairs of random regions of a model with a fused tensor."""
    shapes = {"transformer.h.0.attn.c_attn.weight": (4, 12), "transformer.h.0.mlp.c_fc.weight": (4, 16)}
    table = graftable("gpt2", shapes, {"n_head": 2})
    generator = np.random.default_rng(0)
    regions = [
        Region.from_flat(np.sort(generator.choice(table.d, size, replace=False)), table.shapes) for size in (20, 30, 0)
    ]
    pairs = [(regions[0], regions[1]), (regions[1], regions[2])]
    rows = shared_composition(pairs, table).set_index(["parameter", "kind"])
    for parameter, start in zip(table.parameters, table.offsets[:-1], strict=True):
        for number, kind in enumerate(parameter.kinds):
            numbers = parameter.kind_numbers(np.arange(parameter.size))
            part = {int(start) + i for i in range(parameter.size) if numbers[i] == number}
            a, b, c = (part & set(region.flat().tolist()) for region in regions)
            row = rows.loc[(parameter.name, kind)]
            assert row["only_a"] == (len(a - b) + len(b)) / 2 and row["both"] == len(a & b) / 2
            assert row["only_b"] == len(b - a) / 2 and not c
            assert row["expected"] == pytest.approx(len(a) * len(b) / len(part) / 2)
    assert rows[["only_a", "both"]].to_numpy().sum() * 2 == 20 + 30
