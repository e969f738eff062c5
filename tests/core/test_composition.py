"""Where a region lies sums to the region, whatever the family; fused tensors are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.composition import COLUMNS, composition
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
        moved = values - 1  # off by one: some of them are no longer values
        frame = composition(Region({parameter.name: moved}, table.shapes), table).query("selected > 0")
        assert len(frame) > 1
