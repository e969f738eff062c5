"""Tests of a region's parts: every entry is in the slow twin's part, and controls have equal size and location."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core import region_parts
from skillviz.core.architectures import KINDS
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.core.region_parts import (
    ALONE,
    CELLS,
    EXPERTS,
    HEADS,
    MOST_ROWS,
    ROWS,
    WITHOUT,
    grafts_of,
    other_entries,
    parts_of,
    rest_of_region,
)
from skillviz.errors import BadInput
from tests.core.problems import model_of, table_of
from tests.reference.region_parts import cell_of, heads_of, row_of
from tests.refused import refused
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
    found = defaultdict(list)
    for parameter, offset in zip(table.parameters, table.offsets[:-1], strict=True):
        for flat in region.indices.get(parameter.name, ()):
            for place in places(parameter, int(flat)):
                found[place].append(int(flat + offset))
    return found


def as_lists(parts) -> dict[tuple, list[int]]:
    return {part.place: part.entries.tolist() for part in parts}


@settings(max_examples=25, deadline=None)
@given(regions)
def test_cells_and_heads_are_those_of_the_twin_and_cells_divide_the_region(given_region) -> None:
    family, seed, share = given_region
    table, region = drawn(family, seed, min(share, 0.2))

    def heads(parameter, flat: int):
        heads = heads_of(parameter, flat, table.model_type, table.heads or 0, HEAD_WIDTH)
        return [(parameter.layer, "", head) for head in heads]

    for grouping, places in ((CELLS, lambda p, flat: [cell_of(p, flat)]), (HEADS, heads)):
        assert as_lists(parts_of(region, table, grouping)) == by_entry(table, region, places)
    together = np.concatenate([part.entries for part in parts_of(region, table, CELLS)])
    assert np.array_equal(np.sort(together), region.flat())  # each entry once


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("share", [0.003, 0.1, 1.0])
def test_rows_are_the_densest_of_the_twin_and_the_first_among_equals(family: str, share: float) -> None:
    table, region = drawn(family, 7, share)
    every = by_entry(table, region, row_of)
    length = {place: 0 for place in every}
    for parameter in table.parameters:
        for place in {place for flat in range(parameter.size) for place in row_of(parameter, flat)} & set(every):
            length[place] += parameter.shape[1]
    chosen = sorted(every, key=lambda place: -Fraction(len(every[place]), length[place]))[:MOST_ROWS]
    assert as_lists(parts_of(region, table, ROWS)) == {place: every[place] for place in chosen}
    assert len(chosen) == MOST_ROWS or share < 0.1


@pytest.mark.parametrize("family", TINY)
def test_whole_heads_have_equal_sizes(family: str) -> None:
    table = TABLES[family]
    sizes = [part.size for part in parts_of(Region.full(table.shapes), table, HEADS)]
    assert len(set(sizes)) == 1 and len(sizes) == 2 * (table.heads or 0)


@settings(max_examples=25, deadline=None)
@given(regions, st.sampled_from([CELLS, HEADS, ROWS]))
def test_controls_have_the_parts_size_and_lie_where_they_should(given_region, grouping: str) -> None:
    table, region = drawn(*given_region)
    inside, generator = region.flat(), np.random.default_rng(0)
    for part in parts_of(region, table, grouping):
        other, rest = other_entries(region, table, part, generator), rest_of_region(region, part, generator)
        if other is not None:
            assert len(np.unique(other)) == part.size and not np.isin(other, inside).any()
            of_control = as_lists(parts_of(Region.from_flat(other, table.shapes), table, grouping))
            assert of_control[part.place] == other.tolist()  # all of them are in the same cell or head
            tensors = [np.searchsorted(table.offsets, e, side="right") for e in (other, part.entries)]
            assert np.array_equal(*tensors)  # the same count in each tensor
        assert (rest is None) == (2 * part.size > region.size)
        if rest is not None:
            assert len(np.unique(rest)) == part.size and np.isin(rest, np.setdiff1d(inside, part.entries)).all()


def test_no_control_where_the_region_fills_the_place() -> None:
    table, generator = TABLES["bert"], np.random.default_rng(0)
    full = Region.full(table.shapes)
    part = parts_of(full, table, CELLS)[0]
    assert other_entries(full, table, part, generator) is None
    alone = Region.from_flat(part.entries, table.shapes)
    assert rest_of_region(alone, parts_of(alone, table, CELLS)[0], generator) is None


def test_grafts_are_the_part_and_the_rest_of_the_region_and_repeat_themselves() -> None:
    table, region = drawn("bert", 3, 0.1)
    for part in parts_of(region, table, CELLS):
        grafts, again = (
            {(c, k): entries.tolist() for c, k, entries in grafts_of(region, table, part, draws, seed=5)}
            for draws in (2, 1)
        )
        without = grafts[WITHOUT, 0]
        assert (
            grafts[ALONE, 0] == part.entries.tolist() and sorted(grafts[ALONE, 0] + without) == region.flat().tolist()
        )
        assert len(without) == region.size - part.size == len(grafts[WITHOUT, 1])
        assert set(grafts[WITHOUT, 1]) <= set(region.flat().tolist()) and grafts[ALONE, 1] != grafts[ALONE, 2]
        assert again.items() <= grafts.items()


BERT, SOME = drawn("bert", 0, 0.1)


test_what_cannot_be_divided_is_said = refused(
    BadInput,
    ("'columns'.* known: cells, heads, experts, rows", lambda: parts_of(SOME, BERT, "columns")),
    ("another architecture", lambda: parts_of(SOME, TABLES["gpt2"], CELLS)),
    ("'bert' model has no experts.* by cells", lambda: parts_of(SOME, BERT, EXPERTS)),
    ("heads of this 'bert' model are not known", lambda: parts_of(SOME, graftable("bert", BERT.shapes), HEADS)),
)


def table_of_family(family: str) -> ParameterTable:
    model = family_model(family)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return graftable(family, shapes, model.config.to_dict())


@pytest.mark.parametrize("family", ["phi3", "falcon", "gpt_bigcode", "deberta", "codegen", "xlnet", "bart"])
def test_every_head_of_a_fused_or_grouped_attention_has_its_share(family: str) -> None:
    table = table_of_family(family)
    parts, wanted = (
        parts_of(Region.full(table.shapes), table, HEADS),
        product(range(table.layers), range(table.heads or 0)),
    )
    assert [part.place for part in parts] == [(layer, "", head) for layer, head in wanted]
    assert len({part.size for part in parts}) == 1
    attention = sum(
        int(np.prod(p.part_shape(number)))
        for p in table.parameters
        for number, kind in enumerate(p.kinds)
        if kind in ("query", "key", "value") or (kind == "attention output" and not p.is_bias)
    )
    assert len(np.unique(np.concatenate([part.entries for part in parts]))) == attention  # each belongs to a head


@pytest.mark.parametrize(("family", "tensors"), [("mixtral", 2), ("gpt_oss", 4), ("jetmoe", 2), ("deepseek_v3", 2)])
def test_an_expert_is_its_own_slice_of_each_tensor(family: str, tensors: int) -> None:
    """The entries that experts share (their bias, a shared expert, the router) belong to no expert."""
    table, generator = table_of_family(family), np.random.default_rng(0)
    region = Region.from_flat(generator.choice(table.d, table.d // 5, replace=False), table.shapes)
    stacked = [p for p in table.parameters if "expert" in p.kind and p.shape[0] == 4 and "shared" not in p.name]
    layers = sorted({p.layer for p in stacked})
    assert len(stacked) == tensors * len(layers)

    def places(parameter, entry: int):
        expert = int(np.unravel_index(entry, parameter.shape)[0])
        return [(parameter.layer, "expert", expert)] if parameter in stacked else []

    parts = parts_of(region, table, EXPERTS)
    assert as_lists(parts) == by_entry(table, region, places)
    assert [part.place for part in parts] == [(layer, "expert", expert) for layer in layers for expert in range(4)]
    control = other_entries(region, table, parts[1], generator)
    assert control is not None and not np.isin(control, region.flat()).any()
    (same,) = parts_of(Region.from_flat(control, table.shapes), table, EXPERTS)
    assert same.place == parts[1].place and same.size == len(control) == parts[1].size


def test_stored_draws_can_be_repeated() -> None:
    """The first kinds keep the numbers used for stored draws, and every kind has a number."""
    first = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm", "other", "bias", "")
    numbers = region_parts._SEED_NUMBERS
    assert numbers[: len(first)] == first and sorted(numbers) == sorted({*KINDS, "bias", "", "expert"})
