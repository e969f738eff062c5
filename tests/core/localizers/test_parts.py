"""Tests of whole parts of the model: exact counts, options as text, and rankings limited to the biases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.composition import composition
from skillviz.core.localizers.candidates import biases_of
from skillviz.core.localizers.learned import learned_ranked
from skillviz.core.localizers.table import RankedOptions, localizer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadSize
from tests.core.problems import finish, tiny_problem
from tests.refused import refused


def found(name: str, problem: Problem, size: int = 5, seed: int = 0, **options: Any) -> np.ndarray:
    row = localizer(name)
    return finish(row.search(problem, size, seed=seed, options=row.make_options(options)))[1].order


def inside(problem: Problem, order: np.ndarray) -> set[str]:
    places = np.searchsorted(problem.table.offsets, order, side="right") - 1
    return {problem.table.names[i] for i in places}


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal"), ("distilbert", "prompt")])
def test_biases_are_all_of_them_and_nothing_else(family: str, readout: str) -> None:
    problem = tiny_problem(family, readout, n=4)
    order, biases = found("biases", problem), [p for p in problem.table.parameters if p.name.endswith("bias")]
    names = {p.name for p in biases}
    assert inside(problem, order) == names and any("norm" in n.lower() or "ln_" in n for n in names)
    assert len(order) == sum(p.size for p in biases) and sorted(order.tolist()) == biases_of(problem).tolist()
    moves = problem.tau[torch.from_numpy(order)].abs()
    assert (moves[:-1] >= moves[1:]).all(), "those that moved most come first"


@pytest.mark.parametrize(("name", "options"), [("biases", {}), ("layers", {"layers": "1"})])
def test_ties_are_broken_by_place(name: str, options: dict[str, str]) -> None:
    order = found(name, tiny_problem(moved=0.0), **options).tolist()
    assert order == sorted(order)


def test_layers_are_whole() -> None:
    problem = tiny_problem()
    first, second = (found("layers", problem, layers=text) for text in ("0", "1"))
    assert problem.table.layers == 2 and sorted([*first, *second]) == list(range(problem.d))
    assert {".".join(n.split(".")[2:4]) for n in inside(problem, second)} == {"layer.1"}


def test_kinds_are_whole() -> None:
    problem = tiny_problem()
    region = Region.from_flat(found("kinds", problem, kinds="value,key"), problem.table.shapes)
    rows = composition(region, problem.table).groupby("kind")[["selected", "total"]].sum().query("selected > 0")
    assert set(rows.index) == {"value", "key"} and (rows["selected"] == rows["total"]).all()


@pytest.mark.parametrize("name", ["layers", "kinds"])
def test_all_parts_are_every_graftable_entry(name: str) -> None:
    problem, row = tiny_problem(), localizer(name)
    steps, whole = finish(row.search(problem, 1, seed=0, options=row.make_options({})))
    assert len(whole.order) == problem.d == steps[0].size and "every graftable entry" in whole.notes[0]


def test_fused_query_key_value_are_told_apart() -> None:
    problem = tiny_problem("gpt2", "causal", n=4)
    sizes = {len(found("kinds", problem, kinds=kind)) for kind in ("query", "key", "value")}
    assert sizes == {sum(p.size for p in problem.table.parameters if p.fused) // 3}


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("layers", [1, 0], "0,1"), ("layers", "3, 1,1", "1,3"), ("layers", 2, "2"), ("layers", "all", "all"),
        ("layers", (5,), "5"), ("kinds", ["value", "query"], "query,value"), ("kinds", "all", "all"),
        ("kinds", "MLP out, attention output", "attention output,MLP out"),
    ],
)  # fmt: skip
def test_options_have_one_form(name: str, given: object, kept: str) -> None:
    assert getattr(localizer(name).make_options({name: given}), name) == kept


UNREADABLE = {"layers": ("", [], -1, "0,x", "0,all", 1.5, True, None), "kinds": ("", "queries", "query,all", 3)}
test_options_that_cannot_be_read_are_refused = refused(
    BadInput,
    *(
        (f"{name}=.* or all", localizer(name).make_options, {name: given})
        for name, values in UNREADABLE.items()
        for given in values
    ),
)


test_what_the_model_lacks_is_told = refused(
    BadInput,
    ("no biases", lambda: found("biases", tiny_problem("llama", "causal", n=4))),
    ("layer", lambda: found("layers", tiny_problem(), layers=[7])),
    (None, lambda: found("kinds", tiny_problem(), kinds="other")),
)


@pytest.mark.parametrize(
    ("name", "options"), [("movement", {}), ("learned-ranked", {"steps": 4, "batch_size": 5})], ids=["movement", "mask"]
)
def test_a_ranking_within_the_biases_keeps_to_them_at_exactly_the_size(name: str, options: dict[str, int]) -> None:
    problem = tiny_problem(quantum=0.1)
    biases = set(biases_of(problem).tolist())
    for size in (1, 7, len(biases)):
        order = set(found(name, problem, size, within="biases", **options).tolist())
        assert len(order) == size and order <= biases and torch.equal(problem.flat.theta, problem.base)
    with pytest.raises(BadSize, match="biases of this model"):
        found(name, problem, len(biases) + 1, within="biases", **options)
    with pytest.raises(BadInput, match="use one of all, biases"):
        found(name, problem, 3, within="weights")


def test_the_mask_within_the_biases_descends_as_the_free_one_does_there() -> None:
    """After one step the scores of biases equal those of the free mask, whose other entries hardly move the model."""
    problem, options = tiny_problem(n=8), {"steps": 1, "batch_size": 8, "lr": 1e6}
    free = found("learned-ranked", problem, problem.d, **options)
    held = found("learned-ranked", problem, 40, within="biases", **options)
    assert len(np.intersect1d(held, free[np.isin(free, biases_of(problem))][:40])) >= 38


def test_all_is_what_it_was_before_there_was_a_choice() -> None:
    problem = tiny_problem()
    assert np.array_equal(found("movement", problem, 50), found("movement", problem, 50, within="all"))
    assert RankedOptions() == RankedOptions(within="all")


def test_a_mask_that_departs_from_movement_lets_go_of_what_it_may_not_have() -> None:
    problem = tiny_problem()
    options = RankedOptions(steps=3, batch_size=5, base="movement", base_share=0.5, within="biases")
    order = finish(learned_ranked(problem, 30, seed=0, options=options))[1].order
    assert set(order.tolist()) <= set(biases_of(problem).tolist())
