"""Tests of hand-made regions: they match the slow twin of expressions, with the largest movers first."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers.record import Selection
from skillviz.core.localizers.table import ExpressionOptions, localizer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput
from tests.core.problems import finish, tiny_problem
from tests.reference import region_expression as twin
from tests.refused import refused

EXPRESSIONS: list[dict[str, Any]] = [
    {},
    {"layers": [1]},
    {"kinds": ["query", "LayerNorm"], "biases": False},
    {"rows": [0, [3, 5]], "layers": [0]},
    {"union": [{"kinds": ["value"]}, {"biases": True}]},
    {"difference": [{"layers": [0]}, {"kinds": ["MLP in"]}]},
    {"intersection": [{"run": "one", "size": 300}, {"layers": [1]}]},
]


def found(problem: Problem, expression: Any, stored: Any = None) -> Selection:
    row = localizer("expression")
    options = ExpressionOptions(row.make_options({"expression": expression}).expression, stored)
    (step,), selection = finish(row.search(problem, 1, seed=0, options=options))
    assert (step.step, step.total, step.removed) == (1, 1, 0)
    assert step.size == step.added == len(selection.order)
    return selection


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=json.dumps)
def test_it_holds_what_the_twin_counts(expression: dict[str, Any], family: str) -> None:
    problem = tiny_problem(family, "head" if family == "bert" else "causal", n=4)
    ranked, shapes = np.random.default_rng(0).permutation(problem.d), problem.table.shapes
    named = [(n, i) for n, s in shapes.items() for i in range(int(np.prod(s)))]
    order = found(problem, expression, lambda run, size: Region.from_flat(ranked[: size or 40], shapes)).order
    assert {named[i] for i in order} == twin.entries(
        expression, problem.table, {"one": ([named[i] for i in ranked], 40)}
    )
    assert len(np.unique(order)) == len(order) and order.dtype == np.int64
    moved = problem.tau.abs()[torch.from_numpy(order)]
    assert torch.equal(moved, moved.sort(descending=True).values) and torch.equal(problem.flat.theta, problem.base)


def test_equal_movements_are_ordered_by_place_and_unmoved_ones_are_counted() -> None:
    result = found(tiny_problem(moved=0.0), {"layers": [0]})
    assert result.order.tolist() == sorted(result.order.tolist())
    assert result.notes == (f"Only 0 of the {len(result.order):,} chosen entries moved in fine-tuning.",)
    assert found(tiny_problem(), {"layers": [0]}).notes == ()


def test_a_stored_region_whose_parameters_stand_in_another_order_is_the_same_region() -> None:
    """The table in a file's header has the file's order of parameters, and a loaded model has its own."""
    problem = tiny_problem()
    turned = dict(reversed(problem.table.shapes.items()))
    name = next(iter(turned))
    result = found(problem, {"run": "one"}, lambda run, size: Region({name: np.array([2, 5])}, turned))
    assert sorted(result.order) == [int(problem.table.offsets[-2]) + 2, int(problem.table.offsets[-2]) + 5]


def test_the_option_is_kept_as_one_canonical_text() -> None:
    row = localizer("expression")
    given = {"layers": [1, 0, 1]}, '{"layers": [0,1]}'
    one, other = (row.make_options({"expression": expression}) for expression in given)
    assert one.expression == other.expression == '{"layers":[0,1]}'


def made(expression: Any) -> Selection:
    return found(tiny_problem(), expression)


test_what_cannot_be_made_is_one_sentence = refused(
    BadInput,
    ("not JSON", made, "layers 0"),
    ("an object such as", made, [0]),
    ("'layer' is not a part", made, {"layer": [0]}),
    ("no layer '7'", made, {"layers": [7]}),
    ("without entries", made, {"layers": []}),
    ("no stored runs are available", made, {"run": "one"}),
)
