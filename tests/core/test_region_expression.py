"""Tests of region expressions and of a region's parts and composition against slow twins that check every entry, of
controls that match a part, and of every error in an expression."""

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.composition import COLUMNS, composition, composition_of_parts, shared_composition
from skillviz.core.parameters import KINDS, ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.core.region_expression import DEPTH, canonical, checked_expression, parsed, parts, region_of, runs_in
from skillviz.core.region_parts import (
    _SEED_NUMBERS,
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
from tests.core.by_hand import by_hand, refused
from tests.core.problems import model_of, table_of
from tests.reference import region_expression as twin
from tests.tiny import FAMILIES as TINY
from tests.tiny_families import family_model

TABLES = {
    "bert": graftable("bert", {
        f"bert.encoder.layer.{layer}.{module}": shape
        for layer in range(3)
        for module, shape in {
            "attention.self.query.weight": (3, 3), "attention.self.query.bias": (3,),
            "attention.output.dense.weight": (3, 3), "attention.output.LayerNorm.weight": (3,),
            "intermediate.dense.weight": (5, 3), "intermediate.dense.bias": (5,), "output.dense.weight": (3, 5),
        }.items()
    }),
    "gpt2": graftable("gpt2", {
        f"transformer.h.{layer}.{module}": shape
        for layer in range(2)
        for module, shape in {
            "attn.c_attn.weight": (4, 12), "attn.c_attn.bias": (12,), "mlp.c_fc.weight": (4, 6),
        }.items()
    }),
    "gpt_neox": graftable("gpt_neox", {
        f"gpt_neox.layers.{layer}.{module}": shape
        for layer in range(2)
        for module, shape in {
            "attention.query_key_value.weight": (12, 4), "attention.query_key_value.bias": (12,),
            "mlp.dense_h_to_4h.bias": (6,),
        }.items()
    }, {"num_attention_heads": 2}),
}  # fmt: skip


def stored_runs(table: ParameterTable) -> dict[str, tuple[np.ndarray, int]]:
    """Return two invented runs: global entries in order, and the main region's size."""
    return {run: (np.random.default_rng(seed).permutation(table.d)[:40], 12) for seed, run in enumerate(("one", "two"))}


def stored_in(table: ParameterTable) -> Any:

    def stored(run: str, size: int | None) -> Region:
        order, main = stored_runs(table)[run]
        return Region.from_flat(order[: main if size is None else size], table.shapes)

    return stored


def expressions(table: ParameterTable) -> st.SearchStrategy[dict[str, Any]]:
    spans = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted)
    conditions = {
        "layers": st.lists(st.integers(0, table.layers - 1), max_size=3),
        "kinds": st.lists(st.sampled_from(KINDS), max_size=4),
        "parameters": st.lists(st.sampled_from(table.names), max_size=4),
        "rows": st.lists(st.one_of(st.integers(0, 13), spans), max_size=3),
        "biases": st.booleans(),
    }
    runs = st.fixed_dictionaries({"run": st.sampled_from(["one", "two"])}, optional={"size": st.integers(0, 40)})
    return st.recursive(
        st.one_of(st.fixed_dictionaries({}, optional=conditions), runs),
        lambda part: st.tuples(
            st.sampled_from(["union", "intersection", "difference"]), st.lists(part, min_size=1, max_size=3)
        ).map(lambda pair: {pair[0]: pair[1]}),
        max_leaves=5,
    )


@pytest.mark.nightly
@pytest.mark.parametrize("family", TABLES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_an_expression_is_what_its_slow_twin_counts(family: str, data: st.DataObject) -> None:
    table = TABLES[family]
    expression = data.draw(expressions(table))
    region = region_of(expression, table, stored_in(table))
    found = {(name, int(i)) for name, indices in region.indices.items() for i in indices}
    places = [(p.name, i) for p in table.parameters for i in range(p.size)]
    assert found == twin.entries(
        expression,
        table,
        {run: ([places[i] for i in order], size) for run, (order, size) in stored_runs(table).items()},
    )
    assert (
        region_of(checked_expression(expression), table, stored_in(table)),
        canonical(checked_expression(expression)),
    ) == (region, canonical(expression))


@pytest.mark.parametrize("family", TABLES)
def test_told_tensor_by_tensor_it_is_the_same(family: str) -> None:
    table = TABLES[family]
    expression = {"difference": [{"union": [{"run": "one"}, {"rows": [0, 2]}]}, {"layers": [1], "kinds": ["key"]}]}
    told, whole = list(parts(expression, table, stored_in(table))), region_of(expression, table, stored_in(table))
    assert [(p.name, entries.tolist()) for p, entries in told] == [
        (name, np.flatnonzero(whole.mask(name)).tolist()) for name in table.names
    ]
    pd.testing.assert_frame_equal(composition_of_parts(told), composition(whole, table))


def nested(depth: int) -> dict[str, Any]:
    return {"union": [nested(depth - 1)]} if depth else {}


MODELS = {family: table_of(model_of(family, "head")) for family in TINY}
regions = st.tuples(st.sampled_from(TINY), st.integers(0, 10**6), st.floats(0.001, 1))


def drawn(family: str, seed: int, share: float) -> tuple[ParameterTable, Region]:
    table = MODELS[family]
    return table, Region.from_flat(
        np.random.default_rng(seed).choice(table.d, max(1, int(share * table.d)), replace=False), table.shapes
    )


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
        return [
            (parameter.layer, "", head)
            for head in twin.heads_of(parameter, flat, table.model_type, table.heads or 0, width=8)
        ]

    cells = as_lists(parts_of(region, table, CELLS))
    assert (
        cells == by_entry(table, region, lambda p, flat: [twin.cell_of(p, flat)])
        and sorted(sum(cells.values(), [])) == region.flat().tolist()
    )  # each entry once
    assert as_lists(parts_of(region, table, HEADS)) == by_entry(table, region, heads)


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("share", [0.003, 0.1, 1.0])
def test_rows_are_the_densest_of_the_twin_and_the_first_among_equals(family: str, share: float) -> None:
    table, region = drawn(family, 7, share)
    every = by_entry(table, region, twin.row_of)
    length = Counter[tuple]()
    for parameter in table.parameters:
        length.update(
            dict.fromkeys(
                {place for flat in range(parameter.size) for place in twin.row_of(parameter, flat)}, parameter.shape[-1]
            )
        )
    chosen = sorted(every, key=lambda place: -Fraction(len(every[place]), length[place]))[:MOST_ROWS]
    assert as_lists(parts_of(region, table, ROWS)) == {place: every[place] for place in chosen}
    assert len(chosen) == MOST_ROWS or share < 0.1


@settings(max_examples=25, deadline=None)
@given(regions, st.sampled_from([CELLS, HEADS, ROWS]))
def test_controls_have_the_parts_size_and_lie_where_they_should(given_region, grouping: str) -> None:
    table, region = drawn(*given_region)
    inside, generator = region.flat(), np.random.default_rng(0)
    for part in parts_of(region, table, grouping):
        other, rest = other_entries(region, table, part, generator), rest_of_region(region, part, generator)
        if other is not None:
            assert len(np.unique(other)) == part.size and not np.isin(other, inside).any()
            assert (
                as_lists(parts_of(Region.from_flat(other, table.shapes), table, grouping))[part.place] == other.tolist()
            )  # all of them are in the same cell or head
            tensors = [np.searchsorted(table.offsets, e, side="right") for e in (other, part.entries)]
            assert np.array_equal(*tensors)  # the same count in each tensor
        assert (rest is None) == (2 * part.size > region.size)
        if rest is not None:
            assert len(np.unique(rest)) == part.size and np.isin(rest, np.setdiff1d(inside, part.entries)).all()


def test_grafts_are_the_part_and_the_rest_of_the_region_and_repeat_themselves() -> None:
    table, region = drawn("bert", 3, 0.1)
    for part in parts_of(region, table, CELLS):
        grafts, again = (
            {(c, k): entries.tolist() for c, k, entries in grafts_of(region, table, part, draws, seed=5)}
            for draws in (2, 1)
        )
        alone, without, flat = grafts[ALONE, 0], grafts[WITHOUT, 0], region.flat().tolist()
        assert alone == part.entries.tolist() and sorted(alone + without) == flat and again.items() <= grafts.items()
        assert len(grafts[WITHOUT, 1]) == len(without) == region.size - part.size
        assert set(grafts[WITHOUT, 1]) <= set(flat) and grafts[ALONE, 1] != grafts[ALONE, 2]


TABLE, SOME = drawn("bert", 0, 0.1)
FULL = Region.full(TABLE.shapes)
ALL_OF_IT = parts_of(FULL, TABLE, CELLS)[0]
CELL = Region.from_flat(ALL_OF_IT.entries, TABLE.shapes)
STORED = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm", "other", "bias", "")


@pytest.mark.parametrize("family", [*TINY, "phi3", "falcon", "gpt_bigcode", "deberta", "codegen", "xlnet", "bart"])
def test_every_head_also_of_a_fused_or_grouped_attention_has_its_share(family: str) -> None:
    table = MODELS.get(family) or table_of(family_model(family))
    parts = parts_of(Region.full(table.shapes), table, HEADS)
    wanted = [(layer, "", head) for layer in range(table.layers) for head in range(table.heads or 0)]
    assert [part.place for part in parts] == wanted and len({part.size for part in parts}) == 1
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
    table, generator = table_of(family_model(family)), np.random.default_rng(0)
    region = Region.from_flat(generator.choice(table.d, table.d // 5, replace=False), table.shapes)
    stacked = [p for p in table.parameters if "expert" in p.kind and p.shape[0] == 4 and "shared" not in p.name]
    layers = sorted({p.layer for p in stacked})
    assert len(stacked) == tensors * len(layers)

    def places(parameter, entry: int):
        return (
            [(parameter.layer, "expert", int(np.unravel_index(entry, parameter.shape)[0]))]
            if parameter in stacked
            else []
        )

    parts = parts_of(region, table, EXPERTS)
    assert as_lists(parts) == by_entry(table, region, places)
    assert [part.place for part in parts] == [(layer, "expert", expert) for layer in layers for expert in range(4)]
    control = other_entries(region, table, parts[1], generator)
    assert control is not None and not np.isin(control, region.flat()).any()
    (same,) = parts_of(Region.from_flat(control, table.shapes), table, EXPERTS)
    assert same.place == parts[1].place and same.size == len(control) == parts[1].size


@pytest.mark.parametrize("family", TINY)
def test_the_parts_sum_to_the_region(family: str) -> None:
    table = table_of(model_of(family))
    flat = np.random.default_rng(0).choice(table.d, size=table.d // 3, replace=False)
    for region in (Region.from_flat(flat, table.shapes), Region.empty(table.shapes), Region.full(table.shapes)):
        frame = composition(region, table)
        assert tuple(frame.columns) == COLUMNS and frame.total.sum() == table.d
        assert (frame.rows * frame.cols == frame.total).all() and (frame.selected <= frame.total).all()
        assert list(frame.groupby("parameter", sort=False).selected.sum().to_dict().items()) == [
            (name, len(region.indices.get(name, ()))) for name in table.names
        ]


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
def test_a_fused_tensor_gives_three_rows_and_its_entries_go_to_the_right_one(family: str) -> None:
    table = table_of(model_of(family))
    for parameter in (p for p in table.parameters if p.fused):
        values = np.flatnonzero(parameter.kind_numbers(np.arange(parameter.size)) == 2)
        right, off_by_one = (
            composition(Region({parameter.name: entries}, table.shapes), table).query("selected > 0")
            for entries in (values, values - 1)
        )
        assert (
            right[["kind", "selected"]].to_numpy().tolist() == [["value", parameter.size // 3]] and len(off_by_one) > 1
        )


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
            assert (
                2 * rows.loc[(parameter.name, kind), ["both", "only_a", "only_b", "expected"]]
            ).tolist() == pytest.approx([len(a & b), len(a - b) + len(b), len(b - a), len(a) * len(b) / len(part)]), (
                parameter.name,
                kind,
            )
    assert rows[["only_a", "both"]].to_numpy().sum() * 2 == 20 + 30


ENDS = (
    ({"union": [{"kinds": [kind]} for kind in KINDS]}, {}),
    ({"layers": []}, {"rows": [1000]}),
    ({"difference": [{}, {"layers": [0]}, {"layers": [1]}]}, {"layers": [2]}),
    ({"rows": [[0, 1]]}, {"rows": [0, 1]}),
)
QUERY, KEY, VALUE = (region_of({"kinds": [kind]}, TABLES["gpt_neox"]) for kind in ("query", "key", "value"))
test_by_hand = by_hand(
    ("all kinds are the whole region", Region.full(TABLES["bert"].shapes), region_of, ENDS[0][0], TABLES["bert"]),
    *((f"{expression} is {same}", (region_of(same, TABLES["bert"]), len(twin.entries(expression, TABLES["bert"], {}))),
       lambda region: (region, region.size), region_of(expression, TABLES["bert"])) for expression, same in ENDS),
    ("a fused tensor is cut by kind", [2 * (12 * 4 + 12) // 3] * 3, lambda: [one.size for one in (QUERY, KEY, VALUE)]),
    ("its kinds share nothing", (0, 0), lambda: ((QUERY & KEY).size, (KEY & VALUE).size)),
    # Heads alternate: the second head's query begins in the middle of the tensor.
    ("its heads alternate", [0, 1, 6, 7],
     lambda: np.flatnonzero(QUERY.mask("gpt_neox.layers.0.attention.query_key_value.bias")).tolist()),
    ("one order of conditions", '{"layers":[0,1],"rows":[[1,5]]}', canonical,
     {"rows": [3, 1, [2, 5]], "layers": (1, 0, 1)}),
    ("each kind once", canonical({"kinds": ["value", "query"]}), canonical, {"kinds": ["query", "value", "query"]}),
    ("a difference keeps its order", '{"difference":[{"run":"a"},{}]}', canonical, {"difference": [{"run": "a"}, {}]}),
    ("the runs needed", ("b", "a"), runs_in,
     {"union": [{"run": "b"}, {"intersection": [{"run": "a", "size": 3}, {"run": "b"}, {"layers": [0]}]}]}),
    ("no run needed", (), runs_in, {}),
    ("no control of what fills its place", None, other_entries, FULL, TABLE, ALL_OF_IT, np.random.default_rng(0)),
    ("no control within a region of one part", None,
     lambda: rest_of_region(CELL, parts_of(CELL, TABLE, CELLS)[0], np.random.default_rng(0))),
    ("kinds keep the numbers of stored draws", STORED, lambda: _SEED_NUMBERS[: len(STORED)]),
    ("every kind has a number", sorted({*KINDS, "bias", "", "expert"}), lambda: sorted(_SEED_NUMBERS)),
)  # fmt: skip


test_what_cannot_be_read_or_divided_is_refused = refused(
    BadInput,
    *(
        (words, region_of, expression, TABLES["bert"], stored_in(TABLES["bert"]))
        for expression, words in (
            ([], "object"),
            ("layers", "object"),
            ({"layer": [0]}, "'layer' is not a part"),
            ({"run": "one", "layers": [0]}, "cannot be combined with"),
            ({"size": 3}, "cannot be combined with"),
            ({"union": [{}], "difference": [{}]}, "cannot be combined with"),
            ({"union": []}, "one or more"),
            ({"union": {"layers": [0]}}, "one or more"),
            ({"run": ""}, "run's id"),
            ({"run": "one", "size": -1}, "whole numbers"),
            ({"run": "one", "size": 1.5}, "whole numbers"),
            ({"run": "one", "size": True}, "whole numbers"),
            ({"layers": 0}, "takes a list"),
            ({"layers": ["0"]}, "whole numbers"),
            ({"layers": [9]}, "no layer '9'; it has 0 to 2"),
            ({"parameters": ["pooler"]}, "no parameter 'pooler'"),
            ({"kinds": ["gate"]}, "not a kind"),
            ({"kinds": [["value"]]}, "not a kind"),
            ({"rows": [[4, 2]]}, r"\[first, last\]"),
            ({"rows": [[1, 2, 3]]}, r"\[first, last\]"),
            ({"biases": 1}, "true"),
            (nested(DEPTH + 1), "nested"),
        )
    ),
    ("no stored runs", region_of, {"run": "one"}, TABLES["bert"]),
    ("another architecture", region_of, {"run": "one"}, TABLES["bert"], stored_in(TABLES["gpt2"])),
    ("is not JSON", lambda: parsed("[" * 100_000)),
    ("'columns'.* known: cells, heads, experts, rows", lambda: parts_of(SOME, TABLE, "columns")),
    ("another architecture", lambda: parts_of(SOME, MODELS["gpt2"], CELLS)),
    ("'bert' model has no experts.* by cells", lambda: parts_of(SOME, TABLE, EXPERTS)),
    ("heads of this 'bert' model are not known", lambda: parts_of(SOME, graftable("bert", TABLE.shapes), HEADS)),
)
