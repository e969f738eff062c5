"""Tests of every localizer: its row, the requested size, an unchanged base, the same region for the same seed; and, cut
after any step, it continues with the same steps to the same entries."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import import_module
from itertools import islice
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from skillviz.core.localizers.record import LocalizerStep, Search, Selection, State
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, LOCALIZERS, ExpressionOptions, Workload, localizer
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadModel, UnknownLocalizer
from tests.core.by_hand import by_hand, refused, refuses
from tests.core.problems import (
    examples,
    finish,
    learnable_problem,
    loss_at,
    model_of,
    problem_of,
    problem_with,
    tiny_problem,
)
from tests.reference import region_expression as twin
from tests.test_torch_free import heavy_after
from tests.tiers import first

QUICK: dict[str, dict[str, Any]] = {
    "stagewise": {"steps": 4, "batch_size": 5},
    "stagewise-judged": {"steps": 4, "batch_size": 5, "judged": 2},
    "stagewise-nested": {"steps": 2, "batch_size": 5, "judged": 1},
    "frank-wolfe": {"steps": 4, "batch_size": 5},
    "linearized": {"examples": 6, "iterations": 8},
    "learned": {"steps": 4, "batch_size": 5, "score_every": 2, "base_share": 0.01, "lr": 1e5},
    "learned-ranked": {"steps": 4, "batch_size": 5},
    "first-order": {"examples": 8},
    "expression": {"expression": {"layers": [1], "rows": [[0, 3]]}},
    "layers": {"layers": [1]},
    "kinds": {"kinds": "value"},
    "fisher": {"examples": 8},
    "lottery": {"steps": 4, "batch_size": 5},
    "localize-and-stitch": {"steps": 4, "batch_size": 5},
    "l0-gates": {"steps": 4, "batch_size": 5},
}
NO_SEARCH = [
    name for name, row in LOCALIZERS.items() if not row.cost(row.options(), Workload(1000, 2, 100, 100, 10)).backward
]
BUDGETED = [name for name, row in LOCALIZERS.items() if row.budgeted]


def start(name: str, problem: Problem, size: int, seed: int = 0, resume: State | None = None, **options: Any) -> Search:
    row = localizer(name)
    return row.search(
        problem, size, seed=seed, options=row.make_options({**QUICK.get(name, {}), **options}), resume=resume
    )


FEW = examples(n=8, labels=3)


def moved_by(movement: Callable[[Problem], torch.Tensor]) -> Problem:
    """Return a problem whose fine-tuned side is the base and this movement, which may read the gradient there."""
    problem = tiny_problem()
    problem.train.backward()
    return Problem(problem.flat, problem.base, problem.base + movement(problem), problem.train)


WORLDS: dict[str, Callable[[], Problem]] = {
    "two classes": tiny_problem,
    "bfloat16, four classes, selection": lambda: tiny_problem(
        labels=4, dtype=torch.bfloat16, selection=examples(n=6, labels=4, seed=1)
    ),
    "ties": lambda: tiny_problem(quantum=0.1),
    "ties in bfloat16": lambda: tiny_problem(quantum=0.125, dtype=torch.bfloat16),
    "few entries moved": lambda: tiny_problem(moved=0.01),
    "nothing moved": lambda: moved_by(lambda problem: torch.zeros(problem.d)),
    "nothing gains": lambda: moved_by(lambda problem: 0.05 * problem.flat.grad.sign()),  # every movement goes uphill
    "one class missing": lambda: problem_of(
        model_of(labels=3), replace(FEW, labels=np.where(FEW.labels == 2, 0, FEW.labels))
    ),
    "one example": lambda: tiny_problem(n=1),
    "causal, fused": lambda: tiny_problem("gpt2", "causal", labels=2, n=4),
    "prompt": lambda: tiny_problem("distilbert", "prompt", labels=3, n=5),
}


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> Problem:
    return WORLDS[request.param]()


@pytest.mark.cases(8, 6)
@pytest.mark.parametrize("name", first(BUDGETED))
def test_exactly_the_size_asked_for(world: Problem, name: str) -> None:
    d = world.d
    for size in (1, 7, d // 2, d - 1, d):
        steps, found = finish(start(name, world, size))
        order = found.order
        assert (order.shape, order.dtype, len(np.unique(order))) == ((size,), np.int64, size)
        assert order.min() >= 0 and order.max() < d and found.region(world.table).size == size
        assert found.region(world.table, 1).flat().tolist() == [order[0]]
        assert torch.equal(world.flat.theta, world.base), "the model was not put back to base"
        assert [s.step for s in steps] == sorted({s.step for s in steps}) and steps[0].step >= 1
        most = d if name == "lottery" else size  # its mask starts at the requested size and is cut at the end
        assert [s for s in steps if not 0 <= s.size <= most or s.added < 0 or s.removed < 0] == []


def test_the_learned_mask_reports_a_size_of_its_own(world: Problem) -> None:
    steps, found = finish(start("learned", world, 3))
    assert 0 < len(found.order) == len(np.unique(found.order)) <= world.d
    assert found.notes and f"{len(found.order):,} kept" in found.notes[0]
    assert torch.equal(world.flat.theta, world.base) and [s.step for s in steps] == [1, 2, 3, 4]


@pytest.mark.parametrize("taken", [0, 1, 3])
@pytest.mark.parametrize("name", first(LOCALIZERS))
@problem_with(selection=examples(n=5, seed=3))
def test_the_base_comes_back_wherever_a_search_is_left(problem: Problem, name: str, taken: int) -> None:
    search = start(name, problem, 50)
    list(islice(search, taken))
    search.close()


@pytest.mark.parametrize("name", first(LOCALIZERS))
@problem_with(selection=examples(n=5, seed=3))
def test_the_base_comes_back_when_the_reader_fails(problem: Problem, name: str) -> None:
    search = start(name, problem, 50)
    next(search)
    refuses(RuntimeError, "planted", search.throw, RuntimeError("planted"))


@pytest.mark.parametrize("name", [n for n in LOCALIZERS if n not in NO_SEARCH])
@problem_with(micro_tokens=20)
def test_the_base_comes_back_when_the_model_fails(problem: Problem, name: str) -> None:
    problem.flat.model.register_forward_pre_hook(Mock(side_effect=[None, None, None, RuntimeError("out of memory")]))
    refuses(RuntimeError, "out of memory", finish, start(name, problem, 50))


@pytest.mark.cases(8, 7)
@pytest.mark.parametrize("name", LOCALIZERS)
def test_the_seed_decides(name: str) -> None:
    one, again, other = (finish(start(name, tiny_problem(n=16), 60, seed))[1].order for seed in (0, 0, 1))
    assert np.array_equal(one, again) and np.array_equal(one, other) is not localizer(name).seeded


@pytest.mark.parametrize("name", [n for n, row in LOCALIZERS.items() if row.nested])
@problem_with(quantum=0.1)
def test_nested_ones_answer_smaller_sizes_from_a_larger_ranking(problem: Problem, name: str) -> None:
    large, *smaller = (finish(start(name, problem, size))[1].order for size in (problem.d, 1, 33, problem.d // 2))
    assert [order.tolist() for order in smaller] == [large[: len(order)].tolist() for order in smaller]


# Random draws and the Fisher information do not use fine-tuned weights.
@pytest.mark.parametrize("name", [n for n in BUDGETED if n not in ("random", "dare", "fisher")])
def test_weights_that_overflow_are_told_in_a_sentence(problem: Problem, name: str) -> None:
    problem.finetuned[5:900] = float("nan")
    refuses(BadModel, "not numbers", finish, start(name, problem, 50))


def loss_of(problem: Problem, name: str, size: int) -> float:
    row, searched = localizer(name), {"steps": 20} if "steps" in QUICK.get(name, {}) else {}
    return loss_at(problem, finish(row.search(problem, size, seed=0, options=row.make_options(searched)))[1].order)


@pytest.mark.nightly
@pytest.mark.parametrize("size", [20, 200])
def test_a_search_finds_what_chance_and_one_gradient_do_not(size: int) -> None:
    """On three pairs that learned a task, every search beats random on each and first-order on average."""
    names = ("random", "first-order", "stagewise", "frank-wolfe", "learned-ranked", "linearized")
    problems = [learnable_problem(n=32, seed=seed) for seed in range(3)]
    losses = {name: np.array([loss_of(problem, name, size) for problem in problems]) for name in names}
    for name in names[2:]:
        assert (losses[name] < losses["random"]).all(), (name, losses)
        most = 0.8 if name in ("stagewise", "frank-wolfe") else 1
        assert losses[name].mean() <= most * losses["first-order"].mean(), (name, losses)


PUBLISHED = localizer("learned").shown_options
test_by_hand = by_hand(
    ("the default is budgeted", True, lambda: LOCALIZERS[DEFAULT_LOCALIZER].budgeted),
    (
        "the examples of first-order are a sample: all but eight are left out",
        True,
        lambda: localizer("first-order").seeded,
    ),
    ("names", list(LOCALIZERS), lambda: [row.name for row in LOCALIZERS.values()]),
    (
        "cast",
        (20, 0.5, localizer("stagewise").options().batch_size),
        lambda options: (options.steps, options.start_share, options.batch_size),
        localizer("stagewise").make_options({"steps": "20", "start_share": "0.5"}),
    ),
    ("given entries", (3, 4), lambda: localizer("learned").make_options({"base_indices": (3, 4)}).base_indices),
    (
        "one canonical text",
        ['{"layers":[0,1]}'] * 2,
        lambda: [
            localizer("expression").make_options({"expression": one}).expression
            for one in ({"layers": [1, 0, 1]}, '{"layers": [0,1]}')
        ],
    ),
    ("it needs no torch", {}, heavy_after, "skillviz.core.localizers.table"),
    # PAPER.md, section 4: only the selection rule and its interval differ from the defaults of the published mask.
    ("other than published", {"selection", "score_every"}, lambda: {o.name for o in PUBLISHED if o.paper != o.default}),
    ("without a published value", [], lambda: [o.name for o in PUBLISHED if o.paper is None]),
)
test_an_unknown_localizer_is_refused = refused(UnknownLocalizer, ("known: .*stagewise", localizer, "stagewize"))


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
    assert (step.step, step.total, step.removed) == (1, 1, 0) and step.size == step.added == len(selection.order)
    return selection


@pytest.mark.parametrize("moved", [0.0, 1.0], ids=["unmoved", "moved"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=json.dumps)
def test_it_holds_what_the_twin_counts_by_movement_and_then_by_place(
    expression: dict[str, Any], family: str, moved: float
) -> None:
    problem = tiny_problem(family, "head" if family == "bert" else "causal", n=4, moved=moved)
    ranked, shapes = np.random.default_rng(0).permutation(problem.d), problem.table.shapes
    named = [(n, i) for n, s in shapes.items() for i in range(int(np.prod(s)))]
    result = found(problem, expression, lambda run, size: Region.from_flat(ranked[: size or 40], shapes))
    wanted = twin.entries(expression, problem.table, {"one": ([named[i] for i in ranked], 40)})
    places = np.array([i for i, entry in enumerate(named) if entry in wanted])
    by_movement = torch.sort(problem.tau.abs()[places], descending=True, stable=True).indices
    assert result.order.tolist() == places[by_movement].tolist() and result.order.dtype == np.int64
    unmoved = f"Only 0 of the {len(places):,} chosen entries moved in fine-tuning."
    assert result.notes == (() if moved else (unmoved,)) and torch.equal(problem.flat.theta, problem.base)


def test_a_stored_region_whose_parameters_stand_in_another_order_is_the_same_region(problem: Problem) -> None:
    """The table in a file's header has the file's order of parameters, and a loaded model has its own."""
    turned = dict(reversed(problem.table.shapes.items()))
    result = found(problem, {"run": "one"}, lambda run, size: Region({next(iter(turned)): np.array([2, 5])}, turned))
    assert sorted(result.order) == [int(problem.table.offsets[-2]) + 2, int(problem.table.offsets[-2]) + 5]


@pytest.mark.parametrize("row", LOCALIZERS.values(), ids=LOCALIZERS)
def test_every_row_is_whole_and_what_lies_beyond_its_options_is_refused(row) -> None:  # type: ignore[no-untyped-def]
    module, _, function = row.run.partition(":")
    assert callable(getattr(import_module(module), function))
    assert row.sentence.endswith(".") and row.title and row.source
    assert all("option" in f.metadata or "instead" in f.metadata for f in fields(row.options))
    for option in row.shown_options:
        default = getattr(row.options(), option.name)
        assert option.sentence.endswith(".") and option.title
        assert option.read(default) == default and type(option.read(default)) is type(default)
        assert [option.read(choice) for choice in option.choices] == list(option.choices)
        if option.high is not None:
            row.make_options({option.name: option.high})
            refuses(
                BadInput,
                f"between {option.low:g} and {option.high:g}",
                row.make_options,
                {option.name: option.high * 1.01},
            )
        if option.choices:
            refuses(BadInput, f"use one of {option.choices[0]}", row.make_options, {option.name: "luck"})


TINY = tiny_problem()
test_impossible_options_are_refused = refused(
    BadInput,
    *(
        (option, localizer("stagewise").make_options, {option: value})
        for option, value in (
            ("steps", 0), ("steps", -3), ("steps", "many"), ("steps", 2.5), ("steps", None), ("batch_size", 0),
            ("steps", float("inf")), ("start_share", 1.01), ("start_share", float("nan")),
            ("candidate_share", -0.1), ("switch_share", "x"),
        )
    ),
    ("learned, magnitude", localizer("lottery").make_options, {"by": "luck"}),
    ("'step'; it has: steps", localizer("stagewise").make_options, {"step": 3}),
    ("'steps'; it has: none", localizer("random").make_options, {"steps": 3}),
    ("not JSON", found, TINY, "layers 0"),
    ("an object such as", found, TINY, [0]),
    ("'layer' is not a part", found, TINY, {"layer": [0]}),
    ("no layer '7'", found, TINY, {"layers": [7]}),
    ("without entries", found, TINY, {"layers": []}),
    ("no stored runs are available", found, TINY, {"run": "one"}),
)  # fmt: skip


OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {**options, "steps": 9} if "steps" in options else options for name, options in QUICK.items()},
    "stagewise-judged": {"steps": 9, "batch_size": 3, "judged": 4},
    "stagewise-nested": {"steps": 3, "batch_size": 3, "judged": 2},
    "linearized": {"examples": 11, "iterations": 8, "rounds": 3},
    "fisher": {"examples": 16},
}
"""Those of `QUICK` with more steps, to be cut between them."""


@pytest.fixture
def reports_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "skillviz.core.localizers.linearized.REPORT_EVERY", 3
    )  # several reports in a Jacobian of eleven rows
    monkeypatch.setattr("skillviz.core.localizers.fisher.REPORT_EVERY", 2)


def problem_for(**changes: Any) -> Problem:
    return tiny_problem(n=16, selection=examples(n=10, labels=changes.get("labels", 2), seed=3), **changes)


def whole(problem: Problem, name: str, size: int, resume: State | None = None) -> tuple[list[LocalizerStep], Selection]:
    return finish(start(name, problem, size, 3, resume, **OPTIONS.get(name, {})))


def cut_after(
    problem: Problem, name: str, size: int, k: int, resume: State | None = None
) -> tuple[list[LocalizerStep], State]:
    """Return the first k steps, and a copy of the state after them in the form of a file."""
    steps = list(islice(start(name, problem, size, 3, resume, **OPTIONS.get(name, {})), k))
    return steps, {key: value.detach().cpu().clone() for key, value in steps[-1].state.items()}  # type: ignore[union-attr]


def told(steps: list[LocalizerStep]) -> list[tuple[Any, ...]]:
    """Return the steps without their seconds, with losses to the last bit (NaN equal to itself)."""
    return [(s.step, np.float64(s.loss).tobytes(), s.size, s.added, s.removed, s.total) for s in steps]


@pytest.mark.slow
@pytest.mark.usefixtures("reports_often")
@pytest.mark.cases(3, 12)
@pytest.mark.parametrize("dtype", first([torch.float32, torch.bfloat16], lambda dtype: dtype is torch.float32), ids=str)
@pytest.mark.parametrize("name", LOCALIZERS)
def test_cut_and_resumed_is_as_if_never_cut(name: str, dtype: torch.dtype) -> None:
    steps, found = whole(problem_for(dtype=dtype), name, 60)
    assert {s.total for s in steps} == {len(steps)}, "the total is told from the first step on"
    cuts = (1, 2, 4, 7, 8, 9) if dtype == torch.float32 else (1, 6)
    for k in [k for k in cuts if k <= len(steps)]:
        before, state = cut_after(problem_for(dtype=dtype), name, 60, k)
        fresh = problem_for(dtype=dtype)  # simulates another process
        after, again = whole(fresh, name, 60, state)
        assert told(before + after) == told(steps), k
        assert np.array_equal(again.order, found.order) and again.notes == found.notes, k
        assert torch.equal(fresh.flat.theta, fresh.base)


@pytest.mark.slow
@pytest.mark.usefixtures("reports_often")
@pytest.mark.cases(2, 4)
@pytest.mark.parametrize("name", first(LOCALIZERS))
def test_cut_twice_and_over_several_epochs(name: str) -> None:
    problem, state, taken = problem_for(labels=3), None, list[LocalizerStep]()
    steps, found = whole(problem, name, 200)
    for k in (2, 3) if len(steps) >= 5 else (1,):
        more, state = cut_after(problem, name, 200, k, state)
        taken += more
    rest, again = whole(problem, name, 200, state)
    assert told(taken + rest) == told(steps) and np.array_equal(again.order, found.order)


PLANTED = ("scores", "score", "member", "gamma", "gained", "settled", "chosen", "lr", "summed")
"""The parts of a state in which an error is planted."""


@pytest.mark.slow
@pytest.mark.usefixtures("reports_often")
@pytest.mark.cases(2, 4)
@pytest.mark.parametrize("name", [n for n in LOCALIZERS if n not in ("first-order", *NO_SEARCH)])
def test_nothing_in_a_state_is_idle(name: str) -> None:
    """Plant an error in each part of the state: the outcome must differ."""
    problem, cut = problem_for(), 11 if name == "stagewise-nested" else 7  # a rung with more than a few entries
    (steps, found), (_, state) = whole(problem, name, 60), cut_after(problem, name, 60, cut)
    parts = [part for part in PLANTED if part in state and (name, part) != ("learned", "lr")]
    assert parts, f"none of {PLANTED} is in the state of {name}: {sorted(state)}"
    for lost in parts:
        kept = state[lost]
        damaged = kept.flip(0) if kept.dim() and len(kept) > 1 else kept * 0 + 1e9
        damaged = torch.arange(len(kept)) if lost in ("settled", "chosen") else damaged
        after, again = whole(problem, name, 60, {**state, lost: damaged})
        assert not np.array_equal(again.order, found.order) or told(after) != told(steps[cut:]), lost


@pytest.mark.slow
@pytest.mark.usefixtures("reports_often")
def test_the_best_mask_of_before_the_cut_is_kept() -> None:
    """The published rule keeps the step with the best score, even if that step is before the cut."""
    row, problem = localizer("learned"), problem_for()
    options = row.make_options({**OPTIONS["learned"], "lr": 1e9, "selection": "train+validation"})

    def searched(resume: State | None = None) -> tuple[list[State], Selection]:
        return finish(
            row.search(problem, 1, seed=0, options=options, resume=resume),
            lambda step: {k: v.clone() for k, v in step.state.items()},
        )

    states, found = searched()
    best = [int(state["best_step"]) for state in states if state["judged"]]
    assert best and f"from step {best[-1]} of 9" in found.notes[0]
    for state in states:
        _, again = searched(state)
        assert np.array_equal(again.order, found.order) and again.notes == found.notes
