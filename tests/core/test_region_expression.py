"""Tests of region expressions against a slow twin that checks every entry, and of every error in an expression."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.composition import composition, composition_of_parts
from skillviz.core.parameters import KINDS, ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.core.region_expression import DEPTH, canonical, checked_expression, parsed, parts, region_of, runs_in
from skillviz.errors import BadInput
from tests.core.by_hand import by_hand, refused
from tests.reference import region_expression as twin

BERT = {
    f"bert.encoder.layer.{layer}.{module}": shape
    for layer in range(3)
    for module, shape in {
        "attention.self.query.weight": (3, 3), "attention.self.query.bias": (3,),
        "attention.output.dense.weight": (3, 3), "attention.output.LayerNorm.weight": (3,),
        "intermediate.dense.weight": (5, 3), "intermediate.dense.bias": (5,), "output.dense.weight": (3, 5),
    }.items()
}  # fmt: skip
FUSED = {
    f"transformer.h.{layer}.{module}": shape
    for layer in range(2)
    for module, shape in {"attn.c_attn.weight": (4, 12), "attn.c_attn.bias": (12,), "mlp.c_fc.weight": (4, 6)}.items()
}
HEADED = {
    f"gpt_neox.layers.{layer}.{module}": shape
    for layer in range(2)
    for module, shape in {
        "attention.query_key_value.weight": (12, 4), "attention.query_key_value.bias": (12,),
        "mlp.dense_h_to_4h.bias": (6,),
    }.items()
}  # fmt: skip
TABLES = {
    "bert": graftable("bert", BERT),
    "gpt2": graftable("gpt2", FUSED),
    "gpt_neox": graftable("gpt_neox", HEADED, {"num_attention_heads": 2}),
}


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


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ({"union": [{"kinds": [kind]} for kind in KINDS]}, {}),
        ({"layers": []}, {"rows": [1000]}),
        ({"difference": [{}, {"layers": [0]}, {"layers": [1]}]}, {"layers": [2]}),
        ({"rows": [[0, 1]]}, {"rows": [0, 1]}),
    ],
)
def test_the_ends(expression: dict[str, Any], same: dict[str, Any]) -> None:
    table = TABLES["bert"]
    found, wanted = region_of(expression, table), region_of(same, table)
    assert found == wanted and found.size == len(twin.entries(expression, table, {}))
    assert same or found == Region.full(table.shapes)


def test_a_fused_tensor_is_cut_by_kind() -> None:
    query, key, value = (region_of({"kinds": [kind]}, TABLES["gpt_neox"]) for kind in ("query", "key", "value"))
    assert query.size == key.size == value.size == 2 * (12 * 4 + 12) // 3
    assert not (query & key).size and not (key & value).size
    # Heads alternate: the second head's query begins in the middle of the tensor.
    assert np.flatnonzero(query.mask("gpt_neox.layers.0.attention.query_key_value.bias")).tolist() == [0, 1, 6, 7]


test_by_hand = by_hand(
    ("one order of conditions", '{"layers":[0,1],"rows":[[1,5]]}', canonical,
     {"rows": [3, 1, [2, 5]], "layers": (1, 0, 1)}),
    ("each kind once", canonical({"kinds": ["value", "query"]}), canonical, {"kinds": ["query", "value", "query"]}),
    ("a difference keeps its order", '{"difference":[{"run":"a"},{}]}', canonical, {"difference": [{"run": "a"}, {}]}),
    ("the runs needed", ("b", "a"), runs_in,
     {"union": [{"run": "b"}, {"intersection": [{"run": "a", "size": 3}, {"run": "b"}, {"layers": [0]}]}]}),
    ("no run needed", (), runs_in, {}),
)  # fmt: skip


def nested(depth: int) -> dict[str, Any]:
    return {"union": [nested(depth - 1)]} if depth else {}


test_what_an_expression_may_not_be = refused(
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
)
