"""Tests of the movement summaries of layers.parquet against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skillviz.core.movement import Movement
from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.runs.layers import layers_table, movement_summary

SHAPES = {"transformer.h.0.attn.c_attn.weight": (4, 12), "transformer.h.0.ln_1.weight": (4,)}


def made() -> tuple:
    table = graftable("gpt2", SHAPES, {"n_head": 2})
    rng = np.random.default_rng(0)
    base, tuned = (torch.from_numpy(rng.normal(size=table.d).astype(np.float32)) for _ in range(2))
    region = Region.from_flat(rng.choice(table.d, 17, replace=False), table.shapes)
    return region, table, base, tuned


def test_the_regions_part_of_the_movement_is_that_of_its_entries_alone() -> None:
    region, table, base, tuned = made()
    frame = layers_table(region, movement_summary(Movement(base, tuned, table)), Movement(base, tuned, table))
    squared = {("transformer.h.0.ln_1.weight", "LayerNorm"): 0.0}
    for name, start in zip(table.names, table.offsets[:-1], strict=True):
        for index in region.indices.get(name, []):
            kind = ("query", "key", "value")[index % 12 // 4] if "c_attn" in name else "LayerNorm"
            step = float(tuned[start + index]) - float(base[start + index])
            squared[name, kind] = squared.get((name, kind), 0.0) + step * step
    for row in frame.itertuples():
        assert row.movement_l2_selected == pytest.approx(squared.get((row.parameter, row.kind), 0.0) ** 0.5, rel=1e-12)


def test_the_full_region_holds_all_of_the_movement_and_the_empty_one_none() -> None:
    _, table, base, tuned = made()
    movement = Movement(base, tuned, table)
    summary = movement_summary(movement)
    full = layers_table(Region.full(table.shapes), summary, movement)
    none = layers_table(Region.empty(table.shapes), summary, movement)
    assert np.allclose(full["movement_l2_selected"], full["movement_l2"], rtol=1e-12)
    assert (none["movement_l2_selected"] == 0).all() and (full["movement_l2"] > 0).all()
