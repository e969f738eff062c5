"""Tests of closed-form localizers and of whole parts of the model, against slow twins and by exact counts; and of the
linearized one: its Jacobian equals autograd's, its problem is solved, rounding keeps the best."""

import math
import statistics
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.composition import composition
from skillviz.core.localizers.candidates import Candidates, biases_of
from skillviz.core.localizers.fisher import add_information, fisher
from skillviz.core.localizers.gates import CLOSED, _draw, l0_gates, localize_and_stitch
from skillviz.core.localizers.learned import learned_ranked
from skillviz.core.localizers.linearized import Linear, Reports, linearize, linearized, minimise, project, rounded
from skillviz.core.localizers.simple import averaged, first_order
from skillviz.core.localizers.table import (
    LOCALIZERS,
    RIVALS,
    FirstOrderOptions,
    FisherOptions,
    GateOptions,
    LinearizedOptions,
    RankedOptions,
    StitchOptions,
    is_rescaled,
    localizer,
    makes_graft,
)
from skillviz.core.methods import METHODS
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadSize
from tests.core.by_hand import by_hand, refused, refuses
from tests.core.localizers.test_every_localizer import start
from tests.core.localizers.test_searches import arrays, both, draws, order_of
from tests.core.problems import (
    difference_gradients,
    examples,
    finish,
    learnable_problem,
    loss_at,
    model_of,
    problem_and_twin,
    problem_with,
    tiny_problem,
)
from tests.reference.gradient import slow_fisher
from tests.reference.searches import slow_averaged, slow_loss, slow_minimum, slow_moved_top, slow_project, slow_top


def found(problem: Problem, size: int, **options: Any) -> list[int]:
    return order_of(averaged(problem, size, seed=3, options=FirstOrderOptions(**options)))


@pytest.mark.parametrize("weigh", ["none", "signs", "noise"])
@pytest.mark.parametrize("case", [{"labels": 3}, {"moved": 0.02}], ids=str)
def test_it_ranks_by_the_twins_scores(case: dict[str, Any], weigh: str) -> None:
    problem, twin = both(n=11, **case)
    batches = np.array_split(draws(problem, 11, 1)[0], 3)

    def ranked(points: int, weigh: str) -> set[int]:
        return set(
            slow_moved_top(
                slow_averaged(*arrays(problem), twin.loss_and_gradient, batches, points, weigh).tolist(),
                problem.tau.tolist(),
                60,
            )
        )

    order = set(found(problem, 60, examples=11, points=2, batches=3, weigh=weigh))
    assert order == ranked(2, weigh) and order not in (
        ranked(1, weigh),
        ranked(2, "none" if weigh == "signs" else "signs"),
    ), "the base alone, or another weight, would pass"


def test_cut_and_resumed_it_takes_the_same_steps() -> None:
    search = partial(
        first_order, size=60, seed=3, options=FirstOrderOptions(examples=11, points=2, batches=4, weigh="noise")
    )
    steps, whole = finish(search(tiny_problem(n=11)), lambda step: (step.loss, step.added))
    for cut in (1, 3, 4):
        *_, last = islice(search(tiny_problem(n=11)), cut)
        state = {name: value.clone() for name, value in last.state.items()}
        after, again = finish(search(tiny_problem(n=11), resume=state), lambda step: (step.loss, step.added))
        assert after == steps[cut:] and np.array_equal(again.order, whole.order)
    state["gained"] = state["gained"].flip(0)
    assert not np.array_equal(finish(search(tiny_problem(n=11), resume=state))[1].order, whole.order)


@pytest.mark.parametrize("weigh", ["none", "signs", "noise"])
@problem_with(n=1, moved=0.01)
def test_every_size_is_exact_with_one_example_and_few_movers(problem: Problem, weigh: str) -> None:
    large, small = (found(problem, size, points=2, weigh=weigh) for size in (problem.d, 7))
    assert sorted(large) == list(range(problem.d)) and large[:7] == small


@pytest.mark.parametrize("weigh", ["none", "signs"])
@problem_with(labels=3)
def test_one_point_and_one_batch_are_first_order(problem: Problem, weigh: str) -> None:
    wanted = order_of(first_order(problem, 300, seed=3, options=FirstOrderOptions(examples=8)))
    assert found(problem, 300, examples=8, points=1, batches=1, weigh=weigh) == wanted


def test_the_gains_add_up_to_what_the_path_removes() -> None:
    """Integrated gradients are complete: over all entries they sum to the base's loss less the fine-tuned model's."""
    problem = learnable_problem(steps=30, n=8)
    removed = problem.train.loss() - loss_at(problem, np.arange(problem.d))

    def total(points: int) -> float:
        return float(
            next(averaged(problem, 1, seed=0, options=FirstOrderOptions(examples=8, points=points, batches=1)))
            .state["gained"]
            .sum()
        )

    assert total(100) == pytest.approx(removed, rel=0.05) and total(1) != pytest.approx(removed, rel=0.2)


NEW = ("random-matched", "magnitude", "tall-mask", "localize-and-stitch", "l0-gates", "dare")


def order_by(name: str, problem: Problem, size: int = 5, seed: int = 0, **options: Any) -> np.ndarray:
    return finish(start(name, problem, size, seed, **options))[1].order


def by_tensor(problem: Problem, entries: np.ndarray) -> list[int]:
    return np.histogram(entries, problem.table.offsets)[0].tolist()


@pytest.mark.parametrize("size", [1, 60, 900])
@problem_with(seed=3)
def test_the_matched_draw_has_as_many_entries_in_each_tensor(problem: Problem, size: int) -> None:
    reference, uniform = order_by("movement", problem, size), order_by("random", problem, size)
    drawn = [order_by("random-matched", problem, size, seed) for seed in (0, 1)]
    counts = by_tensor(problem, reference)
    assert [by_tensor(problem, order) for order in drawn] == [counts, counts]
    assert size == 1 or by_tensor(problem, uniform) != counts, "an unmatched draw would pass"
    assert size == 1 or set(drawn[0]) != set(drawn[1]) != set(reference)


def test_a_region_can_be_matched_at_its_size_and_below(problem: Problem) -> None:
    given = tuple(range(40, 90))
    order, small = (order_by("random-matched", problem, size, reference_indices=given) for size in (50, 20))
    assert by_tensor(problem, order) == by_tensor(problem, np.array(given)) and small.tolist() == order[:20].tolist()
    refuses(BadSize, "51 entries.* has 50", order_by, "random-matched", problem, 51, reference_indices=given)


def test_the_matched_draw_is_uniform_within_a_tensor(problem: Problem) -> None:
    sizes = np.diff(problem.table.offsets)
    begin, count = int(problem.table.offsets[sizes.argmin()]), int(sizes.min())
    seen = [
        order_by("random-matched", problem, 2, seed, reference_indices=(begin, begin + 1)) for seed in range(60 * count)
    ]
    times = np.bincount(np.concatenate(seen) - begin, minlength=count)
    assert len(times) == count and (np.abs(times - 120) < 5 * 120**0.5).all()


@problem_with(quantum=0.1)
def test_magnitude_ranks_by_the_fine_tuned_weights(problem: Problem) -> None:
    order = slow_moved_top(problem.finetuned.abs().tolist(), problem.tau.tolist(), 90)
    assert order_by("magnitude", problem, 90).tolist() == order != slow_top(problem.tau.abs().tolist(), 90)


def by_threshold(movement: np.ndarray, rest: np.ndarray) -> list[int]:
    """Return all entries by the largest lambda at which |movement| >= lambda |rest|, then by movement."""
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = np.where(movement == 0, 0, np.abs(movement) / np.abs(rest))
    return np.lexsort((-np.abs(movement), -threshold)).tolist()


def test_the_task_vector_threshold_ranks_by_relative_movement() -> None:
    problem = tiny_problem(moved=0.2)
    problem.base[:60] = problem.finetuned[30:60] = 0.0
    wanted, sizes = by_threshold(problem.tau.numpy(), problem.base.numpy()), (5, 100, problem.d)
    assert [order_by("tall-mask", problem, size).tolist() for size in sizes] == [wanted[:size] for size in sizes]


@problem_with(moved=0.3)
def test_with_other_tasks_the_threshold_is_the_published_one(problem: Problem) -> None:
    """|tau| >= lambda |tau_MTL - tau|, where tau_MTL is the sum of all tasks' vectors, entry by entry."""
    others = torch.randn(2, problem.d, generator=torch.Generator().manual_seed(5)).sum(0)
    others[:20] = 0.0
    wanted = set(by_threshold(problem.tau.double().numpy(), others.double().numpy())[:80])
    found, alone, wrong = (
        set(order_by("tall-mask", problem, 80, **options).tolist())
        for options in ({"other_movement": others[None]}, {}, {"other_movement": (others + problem.tau)[None]})
    )
    assert found == wanted and wanted not in (alone, wrong), "tau_MTL itself on the right side would pass"


@pytest.mark.parametrize("within", ["all", "biases"])
@problem_with(moved=0.3)
def test_with_models_of_other_seeds_the_shared_movement_counts_beside_its_spread(problem: Problem, within: str) -> None:
    """Compute the score entry by entry in float64: mean over three models, in the own direction, over its noise."""
    own, noise = problem.tau.double(), torch.Generator().manual_seed(3)
    models = torch.stack([own, *(own + 0.01 * torch.randn(2, problem.d, generator=noise, dtype=torch.float64))])
    models[:, :20] = models[:1, :20]  # no spread
    deviation = [statistics.pstdev(values) for values in models.T.tolist()]
    usual = statistics.median_low([one for one, moved in zip(deviation, own.tolist(), strict=True) if moved])
    scores = [
        statistics.fmean(values) * math.copysign(1, values[0]) / (spread + usual) if values[0] else -math.inf
        for values, spread in zip(models.T.tolist(), deviation, strict=True)
    ]
    moments = torch.stack([models[1:].sum(0), models[1:].square().sum(0)]).float()
    among = biases_of(problem).tolist() if within == "biases" else range(problem.d)
    shared, alone = (
        set(order_by("movement", problem, 30, within=within, **others).tolist())
        for others in ({"other_models": "one,other", "other_movement": moments}, {})
    )
    assert shared == set(sorted(among, key=lambda entry: -scores[entry])[:30]) != alone


def test_localize_and_stitch_descends_as_published() -> None:
    """Compute the formula entry by entry in float64; the mask starts with the largest movers."""
    problem, lr, bias = tiny_problem(n=6), 300.0, 3.0
    options = StitchOptions(steps=3, batch_size=6, lr=lr, bias=bias, base_share=20 / problem.d)
    found = set(finish(localize_and_stitch(problem, 80, seed=0, options=options))[1].order)
    tau, distance = (problem.finetuned - problem.base).double(), problem.tau.abs().numpy()
    movers = slow_top(distance.tolist(), 80)
    s = torch.full((problem.d,), -bias, dtype=torch.float64).index_fill(0, torch.tensor(movers[:20]), bias)
    for _ in range(3):
        u = s.sigmoid()
        problem.flat.theta.copy_(problem.base + (u * tau).float())
        problem.train.backward()
        s -= lr * problem.flat.grad.double() * tau * u * (1 - u)
    problem.reset()
    assert found == set(np.lexsort((-distance, -s.numpy()))[:80]) != set(movers)


def drawn(odds: torch.Tensor, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a draw of the gates [d], and its derivative with respect to the log-odds [d]."""
    gate, slope, rest = (torch.empty_like(odds) for _ in range(3))
    _draw(odds, seed, step, gate, slope, rest)
    return gate, slope


def test_the_gates_are_hard_concrete() -> None:
    """Check their derivative with finite differences, and their open rate: sigmoid(log-odds - CLOSED)."""
    each, change = torch.tensor([-2.0, -0.5, 0.0, 1.5]), 1e-3
    odds = each.repeat_interleave(20_000)
    (gate, slope), (up, _), (down, _) = (drawn(odds + by, 0, 1) for by in (0, change, -change))
    assert gate.min() == 0 and gate.max() == 1 and not torch.equal(gate, drawn(odds, 0, 2)[0])
    assert torch.allclose((gate > 0).float().view(4, -1).mean(1), (each - CLOSED).sigmoid(), atol=0.015)
    settled = (gate > 0.01) & (gate < 0.99)
    assert torch.allclose(slope[settled], ((up - down) / (2 * change))[settled], atol=2e-3)
    assert (slope[(gate == 0) | (gate == 1)] == 0).all()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_both_masks_find_what_chance_does_not(seed: int) -> None:
    problem = learnable_problem(n=32, seed=seed)
    searches = (
        start("random", problem, 200),
        localize_and_stitch(problem, 200, seed=0, options=StitchOptions(steps=20)),
        l0_gates(problem, 200, seed=0, options=GateOptions(steps=20)),
    )
    by_chance, *learned = (loss_at(problem, finish(search)[1].order) for search in searches)
    assert max(learned) < by_chance


def information(problem: Problem, rows: list[int]) -> torch.Tensor:
    summed = torch.zeros(problem.d)
    for singles in problem.train.singly(np.array(rows)):
        add_information(problem.train, singles, summed)
    return summed / len(rows)


@pytest.mark.parametrize(("readout", "labels"), [("head", 2), ("head", 4), ("prompt", 3)])
def test_it_is_the_expectation_over_the_classes_of_single_squared_gradients(readout: str, labels: int) -> None:
    problem, twin = both(readout, labels, n=7)
    base, rows = problem.base.numpy(), np.arange(7)
    wanted, found = slow_fisher(twin, base, rows.tolist()), information(problem, rows.tolist()).double().numpy()
    # Gradients are rounded to float32 once, so values far below the largest are known only to that rounding.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-13 * wanted.max())
    # Plant two errors: the gradient of the label (empirical Fisher), and the square of the mean gradient.
    empirical = np.mean([twin.loss_and_gradient(base, rows[[i]])[1] ** 2 for i in rows], axis=0)
    for other in (empirical, twin.loss_and_gradient(base, rows)[1] ** 2):
        assert not np.allclose(found, other, rtol=1e-2, atol=1e-9 * wanted.max())
    # Two sums of squares that are equal to seven digits may swap.
    order, (steps, selection) = (
        slow_top(wanted.tolist(), 300),
        finish(fisher(problem, 300, seed=0, options=FisherOptions())),
    )
    assert len(set(selection.order.tolist()) & set(order)) >= 299 and np.mean(selection.order == order) > 0.97
    assert [s.size for s in steps] == [300] and "the base on 7 ex" in selection.notes[0]


@problem_with(n=4)
def test_a_sure_model_has_the_information_that_is_left_and_never_a_negative_one(problem: Problem) -> None:
    """Computed by hand for two classes as p(1 - p) h^2; E[h^2] - E[h]^2 would cancel to noise."""
    problem.flat.model.get_parameter("classifier.bias").data[0] += 30.0
    logits, gradients = difference_gradients(problem.train, np.array([0]))
    p, found = logits[0].double().softmax(0), information(problem, [0])
    wanted = float(p[0] * p[1]) * gradients[0, 0].double() ** 2
    assert 0 < float(p[1]) < 1e-11 and (found >= 0).all() and found.max() > 0
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=float(1e-8 * wanted.max()))


@pytest.mark.parametrize("changed", ["fine-tuned model", "labels", "seed"])
def test_only_the_base_and_the_head_and_all_texts_are_looked_at(changed: str) -> None:
    one, other = tiny_problem(n=9), tiny_problem(n=9)
    if changed == "fine-tuned model":
        other.finetuned.copy_(other.base + torch.randn(other.d))
    elif changed == "labels":
        other.train.labels = 1 - other.train.labels
    assert order_of(fisher(other, 80, seed=5 * (changed == "seed"), options=FisherOptions())) == order_of(
        fisher(one, 80, seed=0, options=FisherOptions())
    )


@problem_with(n=20)
def test_the_examples_asked_for_are_drawn_and_reported(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.core.localizers.fisher.REPORT_EVERY", 4)
    steps, found = finish(fisher(problem, 10, seed=1, options=FisherOptions(examples=10)))
    rows = np.sort(next(problem.draws(10, 1)))
    assert found.order.tolist() == slow_top(information(problem, rows.tolist()).tolist(), 10)
    assert [s.size for s in steps] == [0, 0, 10] and {s.total for s in steps} == {3}
    assert steps[-1].loss == pytest.approx(problem.train.loss(rows), rel=1e-5)


def inside(problem: Problem, order: np.ndarray) -> set[str]:
    return {problem.table.names[i] for i in np.searchsorted(problem.table.offsets, order, side="right") - 1}


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal"), ("distilbert", "prompt")])
def test_biases_are_all_of_them_and_nothing_else(family: str, readout: str) -> None:
    problem = tiny_problem(family, readout, n=4)
    order, biases = order_by("biases", problem), [p for p in problem.table.parameters if p.name.endswith("bias")]
    names = {p.name for p in biases}
    assert inside(problem, order) == names and any("norm" in n.lower() or "ln_" in n for n in names)
    assert len(order) == sum(p.size for p in biases) and sorted(order.tolist()) == biases_of(problem).tolist()
    moves = problem.tau[torch.from_numpy(order)].abs()
    assert (moves[:-1] >= moves[1:]).all(), "those that moved most come first"


def is_sorted(order: np.ndarray) -> bool:
    return order.tolist() == sorted(order.tolist())


def all_parts(name: str) -> tuple[int, int, bool]:
    """Return the sizes of the order and of the step, and whether the note says that they are all."""
    steps, whole = finish(localizer(name).search(tiny_problem(), 1, seed=0, options=localizer(name).make_options({})))
    return len(whole.order), steps[0].size, "every graftable entry" in whole.notes[0]


def whole_kinds(kinds: str) -> dict[str, bool]:
    """Return whether each kind of the region is whole."""
    rows = (
        composition(Region.from_flat(order_by("kinds", TINY, kinds=kinds), TINY.table.shapes), TINY.table)
        .groupby("kind")[["selected", "total"]]
        .sum()
        .query("selected > 0")
    )
    return (rows["selected"] == rows["total"]).to_dict()


TINY, UNMOVED, FUSED = tiny_problem(), tiny_problem(moved=0.0), tiny_problem("gpt2", "causal", n=4)
METHODS_OF = {LOCALIZERS[name].method for name in NEW}
test_by_hand = by_hand(
    ("first-order is at the base alone", (True, True), lambda: (
        localizer("first-order").has_null, FirstOrderOptions() == FirstOrderOptions(points=1, weigh="none"))),
    ("dare draws as random", order_by("random", TINY, 70, 4).tolist(), lambda: order_by("dare", TINY, 70, 4).tolist()),
    ("its note", True, lambda: "not the fine-tuned ones" in finish(start("dare", TINY, 70, 4))[1].notes[0]),
    ("it is a control", True, lambda: "control" in localizer("dare").title),
    ("no grafts", {"dare", "lottery"}, lambda: {name for name in LOCALIZERS if not makes_graft(name)}),
    ("rescaled", ["dare"], lambda: [name for name in LOCALIZERS if is_rescaled(name)]),
    ("methods of their own", len(NEW), len, METHODS_OF),
    ("studies compare with them", True, lambda: METHODS_OF <= set(RIVALS) <= set(METHODS)),
    ("ties of biases", True, lambda: is_sorted(order_by("biases", UNMOVED))),
    ("ties of a layer", True, lambda: is_sorted(order_by("layers", UNMOVED, layers="1"))),
    ("layers", list(range(TINY.d)),
     lambda: sorted(entry for layer in "01" for entry in order_by("layers", TINY, layers=layer).tolist())),
    ("a layer", {"layer.1"},
     lambda: {".".join(n.split(".")[2:4]) for n in inside(TINY, order_by("layers", TINY, layers="1"))}),
    ("kinds", {"key": True, "value": True}, whole_kinds, "value,key"),
    *((f"all {name}", (TINY.d, TINY.d, True), all_parts, name) for name in ("layers", "kinds")),
    ("fused kinds", {sum(p.size for p in FUSED.table.parameters if p.fused) // 3},
     lambda: {len(order_by("kinds", FUSED, kinds=kind)) for kind in ("query", "key", "value")}),
    *((f"{name} as {kept}", kept, lambda name=name, given=given: getattr(
        localizer(name).make_options({name: given}), name))
      for name, given, kept in (
        ("layers", [1, 0], "0,1"), ("layers", "3, 1,1", "1,3"), ("layers", 2, "2"), ("layers", "all", "all"),
        ("layers", (5,), "5"), ("kinds", ["value", "query"], "query,value"), ("kinds", "all", "all"),
        ("kinds", "MLP out, attention output", "attention output,MLP out"))),
    ("all is the default", RankedOptions(), lambda: RankedOptions(within="all")),
    ("within all", order_by("movement", TINY, 50).tolist(),
     lambda: order_by("movement", TINY, 50, within="all").tolist()),
    ("a mask lets go of what it may not have", set(),
     lambda: set(order_of(learned_ranked(TINY, 30, seed=0, options=RankedOptions(
         steps=3, batch_size=5, base="movement", base_share=0.5, within="biases")))) - set(biases_of(TINY).tolist())),
)  # fmt: skip
test_options_that_cannot_be_read_are_refused = refused(
    BadInput,
    *(
        (f"{name}=.* or all", localizer(name).make_options, {name: given})
        for name, values in {
            "layers": ("", [], -1, "0,x", "0,all", 1.5, True, None),
            "kinds": ("", "queries", "query,all", 3),
        }.items()
        for given in values
    ),
    ("no biases", lambda: order_by("biases", tiny_problem("llama", "causal", n=4))),
    ("layer", lambda: order_by("layers", tiny_problem(), layers=[7])),
    (None, lambda: order_by("kinds", tiny_problem(), kinds="other")),
    ("use one of all, biases", lambda: order_by("movement", TINY, 3, within="weights")),
)


@pytest.mark.parametrize(
    ("name", "options"), [("movement", {}), ("learned-ranked", {"steps": 4, "batch_size": 5})], ids=["movement", "mask"]
)
@problem_with(quantum=0.1)
def test_a_ranking_within_the_biases_keeps_to_them_at_exactly_the_size(
    problem: Problem, name: str, options: dict[str, int]
) -> None:
    biases = set(biases_of(problem).tolist())
    for size in (1, 7, len(biases)):
        order = set(order_by(name, problem, size, within="biases", **options).tolist())
        assert len(order) == size and order <= biases
    refuses(BadSize, "biases of this model", order_by, name, problem, len(biases) + 1, within="biases", **options)


@problem_with(n=8)
def test_the_mask_within_the_biases_descends_as_the_free_one_does_there(problem: Problem) -> None:
    """After one step the scores of biases equal those of the free mask, whose other entries hardly move the model."""
    options = {"steps": 1, "batch_size": 8, "lr": 1e6}
    free = order_by("learned-ranked", problem, problem.d, **options)
    found = order_by("learned-ranked", problem, 40, within="biases", **options)
    assert len(np.intersect1d(found, free[np.isin(free, biases_of(problem))][:40])) >= 38


def drawn_linear(n: int = 20, c: int = 12, labels: int = 2, seed: int = 0, scale: float = 2.0) -> Linear:
    rng = np.random.default_rng(seed)
    jacobian = torch.tensor((rng.normal(size=(n, labels - 1, c)) * scale).astype(np.float32))
    return Linear(
        torch.tensor(rng.normal(size=(n, labels)).astype(np.float32)),
        jacobian,
        torch.tensor(rng.integers(labels, size=n)),
        torch.zeros(c),
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12), st.data())
def test_projection_is_the_nearest_point(point: list[float], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(point)))
    found = project(torch.tensor(point), size)
    assert found.min() >= 0 and found.max() <= 1 and found.double().sum() <= size + 1e-5
    np.testing.assert_allclose(found, slow_project(np.array(point), size), atol=2e-6)  # float32 point and shift
    np.testing.assert_allclose(project(found, size), found, atol=2e-6)


@pytest.mark.parametrize("labels", [2, 4])
def test_loss_and_gradient_of_the_linear_model(labels: int) -> None:
    linear = replace(drawn_linear(labels=labels), at=torch.full((12,), 0.2))
    gamma = torch.rand(12, generator=torch.Generator().manual_seed(0))
    parts = [one.numpy() for one in (linear.logits, linear.jacobian, linear.labels, linear.at)]
    (loss, slope), (wanted_loss, wanted) = linear.gradient(gamma), slow_loss(*parts, gamma.double().numpy())
    assert loss == pytest.approx(wanted_loss, rel=1e-6)
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-5, atol=1e-6)  # float32 sums of 20 terms
    ends = [[slow_loss(*parts, gamma.double().numpy() + s)[0] for s in (step, -step)] for step in np.eye(12) * 1e-5]
    np.testing.assert_allclose(
        wanted, [(up - down) / 2e-5 for up, down in ends], rtol=1e-4, atol=1e-7
    )  # the twin's own check


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("size", [1, 3, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_minimum_is_the_minimum(labels: int, size: int, seed: int) -> None:
    linear = drawn_linear(labels=labels, seed=seed)
    gamma, loss = minimise(linear, size, 500, tolerance=1e-9)
    parts, found = [one.numpy() for one in (linear.logits, linear.jacobian, linear.labels)], gamma.double().numpy()
    there, slope = slow_loss(*parts, np.zeros(12), found)
    assert loss == pytest.approx(slow_minimum(*parts, size)[1], rel=1e-5)  # float32 losses
    assert loss == pytest.approx(there, rel=1e-6) and found.sum() <= size + 1e-5
    # First-order conditions: one multiplier separates the entries at 1, in between and at 0.
    gain, at_one, at_zero, slack = -slope, found > 1 - 1e-4, found < 1e-4, 5e-3
    shift = max(gain[~at_one].max(initial=0), 0)  # the gain of one more entry
    assert (gain[at_one] >= shift - slack).all() and (gain[at_zero] <= shift + slack).all()
    assert (np.abs(gain[~at_one & ~at_zero] - shift) < slack).all()
    assert shift < slack or found.sum() > size - 1e-4, "the budget is left unused though an entry would gain"


def test_an_easy_start_and_a_hopeless_one_end_at_once() -> None:
    linear = drawn_linear()
    easy = {"logits": 0 * linear.logits, "jacobian": torch.ones_like(linear.jacobian), "labels": 0 * linear.labels}
    for hopeless in (replace(linear, jacobian=0 * linear.jacobian), replace(linear, **easy)):
        gamma, loss = minimise(hopeless, 3, 100)
        assert float(gamma.sum()) == 0 and loss == pytest.approx(hopeless.gradient(gamma)[0])


@pytest.mark.parametrize(("family", "readout", "labels"), [("bert", "head", 2), ("distilbert", "prompt", 4)])
def test_the_jacobian_is_autograds_times_the_movement(family: str, readout: str, labels: int) -> None:
    encoded = examples(readout, 5, labels)
    problem, twin = problem_and_twin(model_of(family, readout, labels), encoded, readout)
    candidates, rows = Candidates.of(problem, 0.05, 10), np.array([3, 0, 4])
    reports = Reports(round=0, steps=1, rounds=1, behind=0, chosen=torch.empty(0, dtype=torch.int64))
    linear = finish(linearize(problem, candidates, rows, torch.zeros(len(candidates)), reports))[1]
    base, tau = problem.base.double(), problem.finetuned.double() - problem.base.double()
    assert linear.labels.tolist() == encoded.labels[rows].tolist()
    torch.testing.assert_close(linear.logits.double(), twin.logits_at(base, rows), rtol=1e-5, atol=1e-5)
    gradients = np.stack([twin.difference_gradients(base.numpy(), int(row)) for row in rows])
    wanted = (gradients * tau.numpy())[:, :, candidates.index]
    np.testing.assert_allclose(linear.jacobian, wanted, rtol=1e-4, atol=3e-6 * np.abs(wanted).max())  # float32
    here, there = (
        z - z[:, :1]
        for z in (
            twin.logits_at(base, rows),
            twin.logits_at(base.index_add(0, candidates.index, 1e-4 * tau[candidates.index]), rows),
        )
    )
    torch.testing.assert_close(
        linear.jacobian.sum(2), (there - here)[:, 1:].float() / 1e-4, rtol=2e-2, atol=1e-3
    )  # finite difference


def test_rounding_keeps_the_largest_and_fills_by_gain() -> None:
    linear, gamma = drawn_linear(seed=4), torch.tensor([0, 1, 0.5, 1, 0, 0, 0.5, 0, 0, 0, 0, 0.25])
    slope = linear.gradient(gamma)[1].tolist()
    by_both = sorted(range(12), key=lambda i: (-float(gamma[i]), slope[i], i))
    assert [rounded(gamma, linear, size, torch.ones(12)).tolist() for size in range(1, 13)] == [
        by_both[:size] for size in range(1, 13)
    ]


def test_the_whole_is_the_sum_of_its_parts() -> None:
    """With one small problem, the region is the top of the slow twin's solution."""
    problem, twin = problem_and_twin(model_of(), examples(n=8), moved=0.003)
    share = int((problem.tau != 0).sum()) / problem.d
    steps, selection = finish(
        linearized(problem, 5, seed=0, options=LinearizedOptions(examples=8, candidate_share=share, iterations=2000))
    )
    base, places = problem.base.double().numpy(), Candidates.of(problem, share, 5).index.numpy()
    jacobian = np.stack([twin.difference_gradients(base, i) for i in range(8)]) * problem.tau.double().numpy()
    logits, found = twin.logits_at(base, range(8)).numpy(), set(selection.order.tolist())
    gamma, lowest = slow_minimum(logits, jacobian[:, :, places], problem.train.labels, 5, steps=4_000)
    assert steps[-1].loss == pytest.approx(lowest, rel=2e-3)  # `minimise` stops at a relative gain of 1e-5 a step
    assert set(places[gamma > 0.9].tolist()) <= found <= set(places[gamma > 1e-3].tolist())


@pytest.mark.parametrize("rounds", [1, 3])
def test_sizes_beyond_the_candidates_are_filled_by_movement(problem: Problem, rounds: int) -> None:
    options = LinearizedOptions(examples=4, iterations=5, jacobian_gib=64 * 100 * 4 / 2**30, rounds=rounds)
    steps, selection = finish(linearized(problem, 150, seed=0, options=options))
    order = selection.order.tolist()
    assert len(set(order)) == 150 and steps[-1].size == 100
    assert order[100:] == problem.tau.abs().index_fill(0, torch.tensor(order[:100]), -1).topk(50).indices.tolist()
