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
def test_the_parts_sum_to_the_region(family: str) -> None:
    table = table_of(model_of(family))
    drawn = np.random.default_rng(0).choice(table.d, size=table.d // 3, replace=False)
    some = Region.from_flat(drawn, table.shapes)
    for region in (some, Region.empty(table.shapes), Region.full(table.shapes)):
        frame = composition(region, table)
        assert tuple(frame.columns) == COLUMNS and frame.total.sum() == table.d
        assert (frame.rows * frame.cols == frame.total).all() and (frame.selected <= frame.total).all()
        whole = frame.groupby("parameter", sort=False).selected.sum().to_dict()
        assert list(whole.items()) == [(name, len(region.indices.get(name, ()))) for name in table.names]


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
def test_a_fused_tensor_gives_three_rows_and_its_entries_go_to_the_right_one(family: str) -> None:
    table = table_of(model_of(family))
    for parameter in (p for p in table.parameters if p.fused):
        values = np.flatnonzero(parameter.kind_numbers(np.arange(parameter.size)) == 2)
        right, off_by_one = (
            composition(Region({parameter.name: entries}, table.shapes), table).query("selected > 0")
            for entries in (values, values - 1)
        )
        assert right[["kind", "selected"]].to_numpy().tolist() == [["value", parameter.size // 3]]
        assert len(off_by_one) > 1


def test_what_two_regions_share_is_counted_part_by_part() -> None:
    """Compare with sets over pairs of random regions of a model with a fused tensor."""
    shapes = {"transformer.h.0.attn.c_attn.weight": (4, 12), "transformer.h.0.mlp.c_fc.weight": (4, 16)}
    table, generator = graftable("gpt2", shapes, {"n_head": 2}), np.random.default_rng(0)
    drawn = [np.sort(generator.choice(table.d, size, replace=False)) for size in (20, 30, 0)]
    one, two, none = (Region.from_flat(flat, table.shapes) for flat in drawn)
    rows = shared_composition([(one, two), (two, none)], table).set_index(["parameter", "kind"])
    for parameter, start in zip(table.parameters, table.offsets[:-1], strict=True):
        numbers = parameter.kind_numbers(np.arange(parameter.size))
        for number, kind in enumerate(parameter.kinds):
            part = {int(start) + int(i) for i in np.flatnonzero(numbers == number)}
            a, b, _ = (part & set(flat.tolist()) for flat in drawn)
            wanted = [len(a & b), len(a - b) + len(b), len(b - a), len(a) * len(b) / len(part)]
            row = rows.loc[(parameter.name, kind), ["both", "only_a", "only_b", "expected"]]
            assert (2 * row).tolist() == pytest.approx(wanted), (parameter.name, kind)
    assert rows[["only_a", "both"]].to_numpy().sum() * 2 == 20 + 30
