"""Tests of a region's parts: every entry is in the slow twin's part, and controls have equal size and location."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core import region_parts
from skillviz.core.architectures import FAMILIES, HEADED, KINDS
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.core.region_parts import (
    ALONE,
    CELLS,
    EXPERTS,
    HEADS,
    WITHOUT,
    grafts_of,
    other_entries,
    parts_of,
    rest_of_region,
)
from skillviz.errors import BadInput
from tests.core.problems import model_of, table_of
from tests.reference.region_parts import cell_of, heads_of
from tests.tiny import FAMILIES as TINY
from tests.tiny_families import family_model

TABLES = {family: table_of(model_of(family, "head")) for family in TINY}
HEAD_WIDTH = 8
regions = st.tuples(st.sampled_from(TINY), st.integers(0, 10**6), st.floats(0.001, 1))


def drawn(family: str, seed: int, share: float) -> tuple[ParameterTable, Region]:
    """Return a random region of a tiny model's parameters."""
    table = TABLES[family]
    flat = np.random.default_rng(seed).choice(table.d, max(1, int(share * table.d)), replace=False)
    return table, Region.from_flat(flat, table.shapes)


def by_entry(table: ParameterTable, region: Region, places) -> dict[tuple, list[int]]:
    """Return place -> sorted global indices, one entry at a time."""
    found: dict[tuple, list[int]] = {}
    for parameter, offset in zip(table.parameters, table.offsets[:-1], strict=True):
        for flat in region.indices.get(parameter.name, ()):
            for place in places(parameter, int(flat)):
                found.setdefault(place, []).append(int(flat + offset))
    return found


def as_lists(parts) -> dict[tuple, list[int]]:
    return {part.place: part.entries.tolist() for part in parts}


@settings(max_examples=25, deadline=None)
@given(regions)
def test_cells_are_those_of_the_twin_and_divide_the_region(given_region) -> None:
    table, region = drawn(*given_region[:2], min(given_region[2], 0.2))
    parts = parts_of(region, table, CELLS)
    assert as_lists(parts) == by_entry(table, region, lambda p, flat: [cell_of(p, flat)])
    together = np.concatenate([part.entries for part in parts])
    assert np.array_equal(np.sort(together), region.flat())  # each entry once


@settings(max_examples=25, deadline=None)
@given(regions)
def test_heads_are_those_of_the_twin(given_region) -> None:
    family, seed, share = given_region
    table, region = drawn(family, seed, min(share, 0.2))

    def places(parameter, flat: int):
        heads = heads_of(parameter, flat, table.model_type, table.heads or 0, HEAD_WIDTH)
        return [(parameter.layer, "", head) for head in heads]

    assert as_lists(parts_of(region, table, HEADS)) == by_entry(table, region, places)


def test_a_wrong_place_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant two errors that the twin must catch: heads along the other axis, and key entries in the value's cell."""
    table, region = drawn("bert", 0, 0.2)
    right = as_lists(parts_of(region, table, HEADS))
    monkeypatch.setitem(FAMILIES, "bert", replace(FAMILIES["bert"], head_axes=dict.fromkeys(HEADED, "column")))
    assert as_lists(parts_of(region, replace(table), HEADS)) != right


def test_whole_heads_have_equal_sizes() -> None:
    for family, table in TABLES.items():
        sizes = {part.size for part in parts_of(Region.full(table.shapes), table, HEADS)}
        assert len(sizes) == 1, family
        assert len(parts_of(Region.full(table.shapes), table, HEADS)) == 2 * (table.heads or 0)


@settings(max_examples=25, deadline=None)
@given(regions, st.sampled_from([CELLS, HEADS]))
def test_controls_have_the_parts_size_and_lie_where_they_should(given_region, grouping: str) -> None:
    table, region = drawn(*given_region)
    inside = set(region.flat().tolist())
    generator = np.random.default_rng(0)
    for part in parts_of(region, table, grouping):
        other, rest = (
            other_entries(region, table, part, generator),
            rest_of_region(region, part, generator),
        )
        if other is not None:
            assert len(np.unique(other)) == part.size and not inside & set(other.tolist())
            of_control = parts_of(Region.from_flat(other, table.shapes), table, grouping)
            same = next(one for one in of_control if one.place == part.place)
            assert np.array_equal(same.entries, other)  # all of them are in the same cell or head
            tensors = [np.searchsorted(table.offsets, e, side="right") for e in (other, part.entries)]
            assert np.array_equal(*tensors)  # the same count in each tensor
        if rest is not None:
            assert len(np.unique(rest)) == part.size and set(rest.tolist()) <= inside - set(part.entries.tolist())
        else:
            assert 2 * part.size > region.size


def test_no_control_where_the_region_fills_the_place() -> None:
    table = TABLES["bert"]
    full = Region.full(table.shapes)
    part = parts_of(full, table, CELLS)[0]
    assert other_entries(full, table, part, np.random.default_rng(0)) is None
    alone = Region.from_flat(part.entries, table.shapes)
    assert rest_of_region(alone, parts_of(alone, table, CELLS)[0], np.random.default_rng(0)) is None


def test_grafts_are_the_part_and_the_rest_of_the_region_and_repeat_themselves() -> None:
    table, region = drawn("bert", 3, 0.1)
    for part in parts_of(region, table, CELLS):
        grafts = {(c, k): entries for c, k, entries in grafts_of(region, table, part, 2, seed=5)}
        assert np.array_equal(grafts[ALONE, 0], part.entries)
        assert np.array_equal(np.union1d(grafts[ALONE, 0], grafts[WITHOUT, 0]), region.flat())
        assert len(grafts[WITHOUT, 0]) == region.size - part.size == len(grafts[WITHOUT, 1])
        assert np.isin(grafts[WITHOUT, 1], region.flat()).all()
        assert not np.array_equal(grafts[ALONE, 1], grafts[ALONE, 2])
        again = {(c, k): entries for c, k, entries in grafts_of(region, table, part, 1, seed=5)}
        assert all(np.array_equal(entries, grafts[key]) for key, entries in again.items())


def test_what_cannot_be_divided_is_said() -> None:
    table, region = drawn("bert", 0, 0.1)
    with pytest.raises(BadInput, match="'rows' is not a way to divide a region; known: cells, heads, experts"):
        parts_of(region, table, "rows")
    with pytest.raises(BadInput, match="another architecture"):
        parts_of(region, TABLES["gpt2"], CELLS)
    with pytest.raises(BadInput, match="this 'bert' model has no experts; divide the region by cells instead"):
        parts_of(region, table, EXPERTS)
    unknown = graftable("bert", table.shapes)
    with pytest.raises(BadInput, match="the attention heads of this 'bert' model are not known"):
        parts_of(region, unknown, HEADS)


def test_the_groupings_are_named_once() -> None:
    assert tuple(region_parts.GROUPINGS) == (CELLS, HEADS, EXPERTS)


@pytest.mark.parametrize("family", ["phi3", "falcon", "gpt_bigcode", "deberta", "codegen", "xlnet", "bart"])
def test_every_head_of_a_fused_or_grouped_attention_has_its_share(family: str) -> None:
    model = family_model(family)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    table = graftable(family, shapes, model.config.to_dict())
    parts = parts_of(Region.full(table.shapes), table, HEADS)
    layers, heads = table.layers, table.heads or 0
    assert [part.place for part in parts] == [(layer, "", head) for layer in range(layers) for head in range(heads)]
    assert len({part.size for part in parts}) == 1
    inside = np.unique(np.concatenate([part.entries for part in parts]))
    attention = sum(
        int(np.prod(p.part_shape(number)))
        for p in table.parameters
        for number, kind in enumerate(p.kinds)
        if kind in ("query", "key", "value") or (kind == "attention output" and not p.is_bias)
    )
    assert len(inside) == attention  # every such entry belongs to a head


@pytest.mark.parametrize(("family", "tensors"), [("mixtral", 2), ("gpt_oss", 4), ("jetmoe", 2), ("deepseek_v3", 2)])
def test_an_expert_is_its_own_slice_of_each_tensor(family: str, tensors: int) -> None:
    """The entries that experts share (their bias, a shared expert, the router) belong to no expert."""
    model = family_model(family)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    table = graftable(family, shapes, model.config.to_dict())
    flat = np.random.default_rng(0).choice(table.d, table.d // 5, replace=False)
    region = Region.from_flat(flat, table.shapes)
    stacked = [p for p in table.parameters if "expert" in p.kind and p.shape[0] == 4 and "shared" not in p.name]
    layers = sorted({p.layer for p in stacked})
    assert len(stacked) == tensors * len(layers)

    def places(parameter, entry: int):
        if parameter not in stacked:
            return []
        return [(parameter.layer, "expert", int(np.unravel_index(entry, parameter.shape)[0]))]

    parts = parts_of(region, table, EXPERTS)
    assert as_lists(parts) == by_entry(table, region, places)
    assert [part.place for part in parts] == [(layer, "expert", expert) for layer in layers for expert in range(4)]
    part, generator = parts[1], np.random.default_rng(0)
    control = other_entries(region, table, part, generator)
    assert control is not None and len(control) == part.size and not np.isin(control, region.flat()).any()
    (same,) = parts_of(Region.from_flat(control, table.shapes), table, EXPERTS)
    assert same.place == part.place and same.size == part.size


def test_stored_draws_can_be_repeated() -> None:
    """The first kinds keep the numbers used for stored draws, and every kind has a number."""
    first = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm", "other", "bias", "")
    numbers = region_parts._SEED_NUMBERS
    assert numbers[: len(first)] == first
    assert sorted(numbers) == sorted({*KINDS, "bias", "", "expert"})
