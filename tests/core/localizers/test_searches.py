"""Tests of stagewise (also judged, nested and with free signs), Frank-Wolfe and the learned mask, step by step against
slow twins on a float64 model; and of the lottery control, whose other entries are zero."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from skillviz.core.draws import stratified
from skillviz.core.localizers.candidates import Candidates, biases_of
from skillviz.core.localizers.frank_wolfe import frank_wolfe
from skillviz.core.localizers.learned import STARTS, Mask, learned, learned_ranked, lottery
from skillviz.core.localizers.record import Search, State
from skillviz.core.localizers.simple import first_order, movement, random
from skillviz.core.localizers.stagewise import Growth, Judge, stagewise
from skillviz.core.localizers.table import (
    LOCALIZERS,
    FirstOrderOptions,
    FrankWolfeOptions,
    JudgedOptions,
    LearnedOptions,
    LotteryOptions,
    MovementOptions,
    NestedOptions,
    NoOptions,
    RankedOptions,
    StagewiseOptions,
    Workload,
    ladder,
    localizer,
    rest_of,
)
from skillviz.core.objective import Objective
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.errors import BadInput, BadModel, BadSize
from tests.core.by_hand import by_hand, refuses
from tests.core.localizers.test_every_localizer import start
from tests.core.problems import (
    examples,
    finish,
    learnable_problem,
    loss_at,
    model_of,
    problem_and_twin,
    problem_with,
    tiny_problem,
)
from tests.reference.gradient import PlainModel
from tests.reference.searches import (
    Gradient,
    rounded_mask,
    slow_candidates,
    slow_equal_shares,
    slow_frank_wolfe,
    slow_gains,
    slow_judged,
    slow_learned,
    slow_nested,
    slow_stagewise,
    slow_top,
)
from tests.tiers import first

# The engine runs on a float64 model here, so both sides see the same gradient to the last bit of float32. A different
# region then means different steps, not different rounding.


def both(readout: str = "head", labels: int = 2, n: int = 10, **changes: Any) -> tuple[Problem, PlainModel]:
    model = model_of({"head": "bert", "prompt": "distilbert"}[readout], readout, labels)
    changes |= {"dtype": torch.float64, "micro_tokens": 10_000}
    problem, twin = problem_and_twin(model, examples(readout, n, labels), readout, **changes)
    tuned, base = problem.flat.views(problem.finetuned), problem.flat.views(problem.base)
    for number, name in enumerate(problem.table.names):
        if name.endswith(("key.bias", "k_lin.bias")):
            tuned[number].copy_(base[number])  # softmax ignores a key's bias: its gradient is only rounding noise
    return problem, twin


def arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    return problem.base.numpy().copy(), problem.finetuned.numpy().copy()


def order_of(search: Search) -> list[int]:
    return finish(search)[1].order.tolist()


def draws(problem: Problem, batch_size: int, steps: int, rows: np.ndarray | None = None) -> list[np.ndarray]:
    return list(islice(problem.draws(batch_size, 3, rows), steps))


def uphill(twin: PlainModel) -> Gradient:
    """Return the twin's loss and gradient with the sign of the gradient dropped, on batches of four."""

    def planted(theta: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = twin.loss_and_gradient(theta, rows)
        return loss, -gradient if len(rows) == 4 else gradient

    return planted


CASES = [{}, {"labels": 4}, {"readout": "prompt", "labels": 3}, {"quantum": 0.1}, {"moved": 0.02}]


@pytest.mark.cases(8, 8)
@pytest.mark.parametrize("free", [False, True], ids=["fine-tuned signs", "free signs"])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_stagewise_takes_the_twins_steps(case: dict[str, Any], size: int, free: bool) -> None:
    problem, twin = both(**case)
    problem.has_free_signs = free
    found = finish(
        stagewise(
            problem, size, seed=3, options=StagewiseOptions(steps=6, batch_size=4, start_share=0.2, switch_share=0.2)
        )
    )[1]
    rows, start, right = draws(problem, 4, 6), max(1, round(0.2 * size)), twin.loss_and_gradient
    rest = (size, slow_candidates(problem.tau.numpy(), 0.1, size), start, start)
    (order, signs), *planted = (
        slow_stagewise(*arrays(problem), gradient, drawn, *rest, free=is_free)
        for gradient, drawn, is_free in (
            (right, rows, free), (uphill(twin), rows, free), (right, rows[1:], free), (right, rows, not free),
        )
    )  # fmt: skip
    assert found.order.tolist() == order and (found.signs.tolist() == signs if free else found.signs is None)
    assert size == 1 or "moved" in case or (order, signs) not in planted and order != planted[2][0], (
        "a planted error would pass"
    )


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_frank_wolfe_takes_the_twins_steps(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case)
    rest = (draws(problem, 4, 6), size, slow_candidates(problem.tau.numpy(), 0.1, size))
    right, less = (slow_frank_wolfe(*arrays(problem), twin.loss_and_gradient, *rest, settle) for settle in (3, 2))
    assert (
        order_of(frank_wolfe(problem, size, seed=3, options=FrankWolfeOptions(steps=6, batch_size=4, settle_share=0.5)))
        == right
    )
    assert size == 1 or "moved" in case or right != less, "a step of settling less would pass"


def test_stagewise_ends_at_its_size_when_everything_is_wanted() -> None:
    problem, twin = both()
    size = problem.d - 2
    rest = (size, slow_candidates(problem.tau.numpy(), 0.1, size), round(0.1 * size), round(0.02 * size))
    found = order_of(stagewise(problem, size, seed=3, options=StagewiseOptions(steps=3, batch_size=4)))
    assert found == slow_stagewise(*arrays(problem), twin.loss_and_gradient, draws(problem, 4, 3), *rest)[0]


def test_first_order_is_one_gradient_at_the_base() -> None:
    problem, twin = both(labels=3)
    gradient = twin.loss_and_gradient(arrays(problem)[0], draws(problem, 6, 1)[0])[1]
    assert order_of(first_order(problem, 50, seed=3, options=FirstOrderOptions(examples=6))) == slow_top(
        slow_gains(gradient, problem.tau.numpy()).tolist(), 50
    )


@problem_with(quantum=0.1)
def test_movement_and_random(problem: Problem) -> None:
    assert order_of(movement(problem, 300, seed=0, options=MovementOptions())) == slow_top(
        problem.tau.abs().tolist(), 300
    )
    drawn = np.array([order_of(random(problem, 500, seed=s, options=NoOptions())) for s in range(20)])
    # 10,000 draws from d: their mean is d / 2 within four standard errors, and their thirds are even.
    assert abs(drawn.mean() / problem.d - 0.5) < 4 * (1 / 12 / drawn.size) ** 0.5
    assert np.abs(np.bincount(drawn.reshape(-1) * 3 // problem.d) / drawn.size - 1 / 3).max() < 0.02


@pytest.mark.parametrize("changes", [{"quantum": 0.1}, {"moved": 0.3}], ids=str)
def test_each_tensor_gives_an_equal_share_of_its_largest_movers(changes: dict[str, Any]) -> None:
    problem = tiny_problem(**changes)
    distance = [part.abs().tolist() for part in problem.tau.split([p.size for p in problem.table.parameters])]

    def found(size: int, **options: str) -> list[int]:
        return order_of(movement(problem, size, seed=0, options=MovementOptions(per="tensor", **options)))

    sizes = (1, 200, problem.d - 1, problem.d)
    assert [found(size) for size in sizes] == [slow_equal_shares(distance, size) for size in sizes]
    tenth, wanted = found(problem.d // 10), np.diff(problem.table.offsets) / 10
    assert "moved" in changes or (np.abs(np.histogram(tenth, problem.table.offsets)[0] - wanted) < 1.5).all()
    assert set(tenth) != set(slow_top(problem.tau.abs().tolist(), len(tenth))), "one ranking of all would pass"
    assert set(found(20, within="biases")) <= set(biases_of(problem).tolist())


def test_a_search_on_outputs_never_reads_the_labels() -> None:
    problem, _ = both(labels=3, n=12)
    encoded, rng = problem.train.batches.encoded, np.random.default_rng(0)
    targets, permuted = rng.dirichlet(np.ones(3), len(encoded)), rng.permutation(encoded.labels)

    def found(**changes: Any) -> list[int]:
        problem.train = Objective(problem.flat, problem.train.readout, replace(encoded, **changes))
        options = StagewiseOptions(steps=4, batch_size=4, match="outputs")
        return order_of(stagewise(problem, 40, seed=3, options=options))

    assert found(targets=targets) == found(targets=targets, labels=permuted) != found()
    assert found() != found(labels=permuted), "a search on labels would pass"
    assert found(targets=np.eye(3)[encoded.labels]) == found(), "certain outputs are labels"


@pytest.mark.parametrize("share", [0.001, 0.1, 1.0])
@problem_with(quantum=0.1)
def test_candidates_are_the_top_movers(problem: Problem, share: float) -> None:
    problem.train.backward()
    for size in (1, 30, problem.d):
        candidates, index = Candidates.of(problem, share, size), slow_candidates(problem.tau.numpy(), share, size)
        tau = problem.tau[index]
        found = (candidates.index, candidates.tau, candidates.gain(problem), candidates.movers(2))
        wanted = (index, tau.tolist(), (-problem.flat.grad[index] * tau).tolist(), slow_top(tau.abs().tolist(), 2))
        assert tuple(part.tolist() for part in found) == wanted


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize(
    ("case", "base"),
    [
        ({}, ()), ({"labels": 3}, "movement"), ({"readout": "prompt"}, (9,)), ({"labels": 3}, range(0, 3000, 3)),
        ({"labels": 3}, (5, 77, 2000)), ({}, "movement"),
    ],
    ids=str,
)  # fmt: skip
def test_the_learned_mask_is_autograds_at_every_step(case: dict[str, Any], base: Any) -> None:
    """Compare the loss, each score and the rounded mask of each step with float64 autograd through model and mask.

    The mask departs from the largest movers or from given entries, which replace any other base.
    """
    problem, twin = both(**case)
    mask = set(slow_top(problem.tau.abs().tolist(), 9) if base == "movement" else base)
    options = LearnedOptions(
        steps=5, batch_size=4, lr=300, bias=1, base="empty" if base == () else "movement", selection="none",
        base_share=9 / problem.d, base_indices=None if base == "movement" else tuple(base) or None,
    )  # fmt: skip
    start = torch.rand(problem.d, generator=torch.Generator().manual_seed(3)).tolist()

    def steps_of(lr: float = 300, bias: float = 1, of: set[int] = mask) -> tuple[Any, ...]:
        return tuple(zip(*slow_learned(twin, *arrays(problem), draws(problem, 4, 5), start, of, lr, bias), strict=True))

    search, (losses, wanted) = learned(problem, 1, seed=3, options=options), steps_of()
    seen, selection = finish(search, lambda step: (step.loss, step.state["scores"].numpy().copy(), step.size))
    assert [loss for loss, *_ in seen] == pytest.approx(losses, rel=1e-6)
    assert [size for *_, size in seen] == [len(rounded_mask(scores, mask, 1)) for scores in wanted]
    # S is float32, and steps are up to 1e3 times as long.
    np.testing.assert_allclose([scores for _, scores, _ in seen], wanted, rtol=1e-5, atol=1e-5)
    scores, found = wanted[-1], selection.order.tolist()
    assert set(found) == rounded_mask(scores, mask, 1)
    evidence = np.where(np.isin(found, list(mask)), 1 - scores[found], scores[found] - 1)
    evidence[problem.tau[found] == 0] = -1e3  # unmoved entries come last
    assert evidence == pytest.approx(-np.sort(-evidence), rel=1e-4), "the strongest evidence comes first"
    wrong = ({"lr": 150}, {"bias": 2}, {"of": set(range(problem.d)) - mask})
    others = [np.array(start), *(steps_of(**planted)[1][-1] for planted in wrong)]
    assert min(np.abs(other - scores).max() for other in others) > 1e-2, "a planted error would pass"


def regions_of(gains: torch.Tensor, steps: int, base: int = 0) -> tuple[np.ndarray, Any]:
    """Return a mask's first scores, and its region after each step at the published learning rate, where the gradient
    is the same at every point; the first `base` entries are its base."""
    world: Any = SimpleNamespace(
        d=len(gains),
        tau=torch.ones(len(gains)),
        flat=SimpleNamespace(device=torch.device("cpu"), grad=-gains),
        set_soft=lambda gamma: None,
    )
    mask: Any = Mask(world, torch.arange(base), 10.0, seed=0)
    start, regions = mask.scores.double().numpy().copy(), []
    for _ in range(steps):
        mask.soften()
        mask.descend(1e7)
        regions.append(mask.region().numpy())
    return start, regions


@pytest.mark.parametrize("gain", [5e-6, 2e-5, 2e-4, 5e-3])
@pytest.mark.parametrize("in_base", [False, True])
def test_a_coordinate_flips_when_the_paper_says(gain: float, in_base: bool) -> None:
    """PAPER.md, section 11, item 3: S first exceeds the bias between t* and t* + 6."""
    n, signed = 64, -gain if in_base else gain  # inside the base, leaving must be the gain
    start, regions = regions_of(torch.full((n,), signed), round(np.exp(10) / (1e7 * gain)) + 8, n * in_base)
    flipped = np.stack([np.isin(np.arange(n), region) != in_base for region in regions])
    due, step = np.exp(10 - start) / (1e7 * gain), flipped.argmax(axis=0) + 1
    assert flipped.any(axis=0).all() and ((due <= step) & (step <= due + 6)).all(), (due, step)


def test_the_calibrated_rate_flips_about_the_size_asked_for() -> None:
    """exp(bias - 0.5) / (T c_k): if gains do not interact, the size is within a factor e, the initial spread."""
    d, size, steps = 20_000, 500, 50
    gains = torch.randn(d, generator=torch.Generator().manual_seed(0)).mul(3).exp()
    lr = np.exp(10 - 0.5) / (steps * float(gains.sort(descending=True).values[size - 1]))
    assert abs(np.log(len(regions_of(gains * (lr / 1e7), steps)[1][-1]) / size)) < 0.5


def test_learned_ranked_gives_the_strongest_scores() -> None:
    problem, twin = both()
    start = torch.rand(problem.d, generator=torch.Generator().manual_seed(3)).tolist()
    *_, (_, scores) = slow_learned(twin, *arrays(problem), draws(problem, 4, 4), start, set(), 1e6, 10.0)
    assert set(
        order_of(learned_ranked(problem, 60, seed=3, options=RankedOptions(steps=4, batch_size=4, lr=1e6)))
    ) == set(slow_top(scores.tolist(), 60))


def test_the_learned_mask_is_judged_on_every_class_of_a_file_sorted_by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the same after an interruption; a checkpoint from before the sampling keeps the first rows."""
    monkeypatch.setattr("skillviz.core.localizers.learned.SCORED_EXAMPLES", 6)
    drawn = examples(n=24, seed=1)
    problem = tiny_problem(selection=drawn.take(np.argsort(drawn.labels, kind="stable")))
    scored = problem.selection.accuracy = Mock(side_effect=problem.selection.accuracy)  # type: ignore[union-attr]
    options = LearnedOptions(steps=3, batch_size=4, score_every=1, lr=1e5, base_share=0.01)
    search = learned(problem, 1, seed=5, options=options)
    state = next(search).state
    search.close()
    rows = scored.call_args.args[0]
    assert np.bincount(problem.selection.labels[rows]).tolist() == [3, 3]
    for resume, wanted in (
        (state, rows),
        ({name: value for name, value in state.items() if name != "drawn_rows"}, np.arange(6)),
    ):
        scored.reset_mock()
        order_of(learned(problem, 1, seed=5, options=options, resume=resume))
        assert [call.args[0].tolist() for call in scored.mock_calls] == [wanted.tolist()] * 2


@pytest.mark.parametrize("selection", ["validation", "train+validation"])
def test_the_learned_mask_keeps_the_best_step(selection: str) -> None:
    problem = tiny_problem(n=24, selection=examples(n=24, seed=5))
    options = LearnedOptions(steps=9, batch_size=8, lr=3e5, base_share=0.002, selection=selection, score_every=2)
    judged: list[tuple[float, list[int]]] = []
    original, judges = problem.set_region, [problem.selection, problem.train][: selection.count("+") + 1]

    def watching(indices: torch.Tensor) -> None:
        original(indices)
        judged.append((sum(judge.accuracy(np.arange(24)) for judge in judges), indices.tolist()))  # type: ignore[union-attr]

    problem.set_region = watching  # type: ignore[method-assign]
    found = order_of(learned(problem, 1, seed=0, options=options))
    assert len(judged) == 1 + 5, "scored at the start, every second step and the last"
    assert sorted(found) == max(judged, key=lambda row: row[0])[1]


def slow_start(name: str, problem: Problem, count: int, seed: int) -> set[int]:
    """Return a start of the mask by loops over the tensors."""
    moved = problem.tau.abs().tolist()
    if name == "random":
        return {*problem.drawn(count, seed).tolist()}
    lowest, at = [], 0
    for one in problem.table.parameters:
        lowest += range(at, at + one.size) if one.layer == 0 else []
        at += one.size
    of = {"movement": range(problem.d), "lowest-layer": lowest, "empty": []}[name]
    return {*sorted(of, key=lambda entry: (-moved[entry], entry))[:count]}


@pytest.mark.parametrize("name", STARTS)
def test_a_mask_starts_from_so_many_entries_of_its_kind(name: str, problem: Problem) -> None:
    """A rate that flips nothing keeps the start; the seed matters for a random one alone."""
    count = 37

    def kept(seed: int = 2, **changes: Any) -> set[int]:
        values = {"steps": 1, "batch_size": 4, "lr": 1e-3, "selection": "none", "base": name, **changes}
        return set(
            order_of(learned(problem, 1, seed=seed, options=LearnedOptions(base_share=count / problem.d, **values)))
        )

    if name == "empty":
        refuses(BadInput, "empty after 1 steps", kept)
        return
    assert kept() == kept() == slow_start(name, problem, count, 2) and len(kept()) == count
    assert (kept(seed=3) == kept()) == (name != "random") and kept(base_indices=(1, 5)) == {1, 5}
    others = [slow_start(other, problem, count, 2) for other in STARTS if other != name]
    assert kept() not in others, "a planted other start would pass"


def test_the_start_by_movement_is_the_default_to_the_bit() -> None:
    options = {"steps": 4, "batch_size": 4, "lr": 1e5, "base_share": 9e-3}
    found = [
        finish(
            learned(tiny_problem(), 1, seed=3, options=LearnedOptions(**options, **more)),
            lambda step: step.state["scores"],
        )
        for more in ({}, {"base": "movement"}, {"base": "random"})
    ]
    (default, first), (same, second), (other, _) = found
    assert all(map(torch.equal, default, same)) and first.order.tolist() == second.order.tolist()
    assert not all(map(torch.equal, default, other))


def test_a_lowest_layer_is_taken_whole_if_it_is_smaller_and_refused_without_layers(problem: Problem) -> None:
    lowest = sum(one.size for one in problem.table.parameters if one.layer == 0)
    options = {"steps": 1, "batch_size": 4, "lr": 1e-3, "selection": "none", "base": "lowest-layer", "base_share": 1.0}
    assert len(order_of(learned(problem, 1, seed=0, options=LearnedOptions(**options)))) == lowest < problem.d
    bare = [replace(one, layer=None) for one in problem.table.parameters]
    table = replace(problem.table, parameters=tuple(bare))
    other = Mock(wraps=problem, d=problem.d, tau=problem.tau, table=table, flat=problem.flat)
    refuses(BadModel, "use base=movement", order_of, learned(other, 1, seed=0, options=LearnedOptions(**options)))


def test_a_mask_that_flips_nothing_says_what_to_do(problem: Problem) -> None:
    refuses(
        BadInput,
        "larger one, more steps, or the localizer 'learned-ranked'",
        order_of,
        learned(problem, 1, seed=0, options=LearnedOptions(steps=2, batch_size=4, lr=1e-3, base="empty")),
    )


def kept_out(problem: Problem, outside: np.ndarray) -> Problem:
    tuned = problem.finetuned.clone()
    tuned[outside] = problem.base[outside]
    return Problem(problem.flat, problem.base, tuned, problem.train, problem.train, outside=outside)


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize("name", [name for name, row in LOCALIZERS.items() if row.has_null])
@problem_with(n=10)
def test_no_search_that_chooses_by_movement_enters_the_region_that_it_is_kept_out_of(
    problem: Problem, name: str
) -> None:
    outside = np.sort(order_of(start(name, kept_out(problem, np.empty(0, dtype=np.int64)), 60)))
    order = order_of(start(name, kept_out(problem, outside), 60))
    assert not np.isin(order, outside).any() and (len(order) == 60 or not LOCALIZERS[name].budgeted)


@problem_with(n=10)
def test_a_search_that_would_have_to_enter_it_is_refused(problem: Problem) -> None:
    narrow, last = kept_out(problem, np.arange(problem.d - 20)), range(problem.d - 20, problem.d)
    refuses(BadSize, r"10 of the 30 chosen entries .* choose a smaller size", order_of, start("movement", narrow, 30))
    assert set(order_of(start("movement", narrow, 20))) == set(last)


SIGNED = {
    "stagewise": StagewiseOptions(steps=6, batch_size=4, start_share=0.2, switch_share=0.2),
    "stagewise-judged": JudgedOptions(steps=6, batch_size=4, start_share=0.2, grow_share=0.5, judged=3, examples=3),
    "stagewise-nested": NestedOptions(steps=4, batch_size=4, grow_share=0.5, judged=2, examples=3),
}


def search_of(
    problem: Problem, name: str, size: int, resume: State | None = None, options: Any = None, seed: int = 3
) -> Search:
    return localizer(name).search(problem, size, seed=seed, options=options or SIGNED[name], resume=resume)


def held_and_drawn(problem: Problem, steps: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the rows of each step, and the three rows on which regions are judged."""
    held = stratified(problem.train.labels, 3, 3)
    return draws(problem, 4, steps, np.setdiff1d(np.arange(problem.train.n), held)), held


@pytest.mark.slow
@pytest.mark.cases(0, 3)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_it_takes_the_twins_steps(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case, n=12)
    rest = (size, slow_candidates(problem.tau.numpy(), 0.1, size), max(1, round(0.2 * size)))
    (order, chosen, _), *planted = (
        slow_judged(*arrays(problem), gradient, *held_and_drawn(problem, 6), *rest, rate, 3)
        for gradient, rate in ((twin.loss_and_gradient, 1 / 3), (uphill(twin), 1 / 3), (twin.loss_and_gradient, 1 / 6))
    )
    found = finish(search_of(problem, "stagewise-judged", size))[1]
    words = ("top movement" if chosen == "movement" else f"step {chosen} of 6", "3 held training examples")
    assert ([word in found.notes[0] for word in words], found.order.tolist()) == ([True, True], order)
    assert size == 1 or "moved" in case or all(order != other for other, *_ in planted), (
        "a dropped sign or another rate would pass"
    )


@pytest.mark.slow
@problem_with(n=24, labels=3)
def test_the_gradients_never_see_a_held_example(problem: Problem) -> None:
    train = problem.train
    train.backward, train.loss = Mock(side_effect=train.backward), Mock(side_effect=train.loss)  # type: ignore[method-assign]
    finish(search_of(problem, "stagewise-judged", 40))
    drawn, judges = ([call.args[0] for call in one.mock_calls] for one in (train.backward, train.loss))
    assert ([rows.tolist() for rows in judges], np.bincount(train.labels[judges[0]]).tolist()) == (
        [judges[0].tolist()] * (3 + 1),
        [1, 1, 1],
    )
    assert not np.intersect1d(np.concatenate(drawn), judges[0]).size


LONG = JudgedOptions(steps=12, batch_size=8, judged=5, examples=12)


@pytest.mark.slow
def test_no_region_that_was_judged_is_better_than_the_one_kept() -> None:
    problem = learnable_problem(n=48)
    found = finish(search_of(problem, "stagewise-judged", 60, options=LONG, seed=0))[1]
    candidates, judge = Candidates.of(problem, LONG.candidate_share, 60), Judge(problem, LONG.examples, 0)
    kept, growth = loss_at(problem, found.order, judge.rows), Growth(candidates, 60, 12, 0.1, 6)
    judge.consider(0, candidates, growth.movers(60), growth.score)
    problem.reset()
    assert kept <= judge.loss and f"loss {kept:.3f}" in found.notes[0]


@pytest.mark.slow
def test_it_falls_back_to_top_movement_where_the_search_finds_nothing_better() -> None:
    """Every gradient has the wrong sign, so the search's predicted gains are losses."""
    problem = learnable_problem(n=48)
    candidates, backward = Candidates.of(problem, 0.1, 60), problem.train.backward

    def misleading(rows: np.ndarray) -> float:
        loss = backward(rows)
        problem.flat.grad.neg_()
        return loss

    problem.train.backward = misleading  # type: ignore[method-assign]
    found = finish(search_of(problem, "stagewise-judged", 60, options=LONG, seed=0))[1]
    assert set(found.order) == set(candidates.index[candidates.movers(60)].tolist())
    assert "which no region of the search beat" in found.notes[0]


@pytest.mark.slow
def test_one_loud_batch_does_not_outshout_the_others() -> None:
    candidates = Candidates.of(tiny_problem(), 0.1, 40)
    growth = Growth(candidates, 40, 7, 0.1, 4)
    usual = torch.randn(len(candidates), generator=torch.Generator().manual_seed(0))
    for scale in (1, 1, 1, 1, 1, -1000):
        growth.add(scale * usual)
    assert torch.allclose(growth.score, 4 * usual, rtol=1e-4), "without the scale it would be -995 times as large"
    growth.add(0.01 * usual)
    assert torch.allclose(growth.score, 4.01 * usual, rtol=1e-4), "a quiet batch is not made louder"


@pytest.mark.slow
def test_switches_become_fewer_once_the_region_is_full() -> None:
    candidates = Candidates.of(tiny_problem(), 0.1, 200)
    growth, noise, seen = Growth(candidates, 200, 30, 1 / 9, 20), torch.Generator().manual_seed(0), []
    for step in range(1, 31):
        growth.add(torch.randn(len(candidates), generator=noise))
        seen.append((growth.switch(step)[0], int(growth.selected.sum())))
    added, sizes = zip(*seen, strict=True)
    full = sizes.index(200) + 1
    assert max(added[:full]) <= 2 * round(200 / 9) and full < 20
    assert max(added[-4:-1]) <= 4 < min(added[full : full + 3]), "each step would switch as many as at first"


@pytest.mark.slow
@pytest.mark.parametrize(("n", "judging", "others"), [(1, 1, 1), (3, 3, 3), (4, 1, 3)])
def test_with_hardly_any_examples_it_judges_on_those_there_are(n: int, judging: int, others: int) -> None:
    problem = tiny_problem(n=n)
    judge, order = Judge(problem, 512, 0), order_of(search_of(problem, "stagewise-judged", 10))
    assert (len(judge.rows), len(judge.others), len(order)) == (judging, others, 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"),
    [("stagewise-judged", 40), ("stagewise-nested", 1), ("stagewise-nested", 40), ("stagewise-nested", None)],
)
@problem_with(n=24)
def test_the_cost_counts_what_the_model_is_run_on(problem: Problem, name: str, size: int | None) -> None:
    size = size or problem.d
    problem.train.loss = Mock(side_effect=problem.train.loss)  # type: ignore[method-assign]
    steps, _ = finish(search_of(problem, name, size))
    cost = localizer(name).cost(SIGNED[name], Workload(problem.d, 2, 24, 0, size))
    assert (cost.forward, cost.backward) == (
        sum(len(call.args[0]) for call in problem.train.loss.mock_calls),
        4 * len(steps),
    )
    assert name == "stagewise-judged" or {step.total for step in steps} == {len(steps)}


@pytest.mark.slow
@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("case", first([CASES[0], CASES[1], CASES[3]], lambda case: case == CASES[0]), ids=str)
def test_the_climb_takes_the_twins_steps(case: dict[str, Any]) -> None:
    problem, twin = both(**case, n=12)
    rungs = [rung for rung in ladder(problem.d) if rung < 200]
    found = order_of(search_of(problem, "stagewise-nested", rungs[-1]))
    args = (*arrays(problem), twin.loss_and_gradient, *held_and_drawn(problem, 4 * len(rungs)), rungs, 4, 0.1)
    assert len(found) == rungs[-1] and found == slow_nested(*args, 1 / 2, 2)[0] != slow_nested(*args, 1 / 4, 2)[0]


@pytest.mark.slow
def test_the_ladder_is_that_of_the_model() -> None:
    large = ladder(10_646_784)
    assert (large[1:7:2], large[-1], ladder(3), ladder(1)) == ([1065, 10647, 106468], 10_646_784, [1, 3], [1])


@pytest.mark.slow
def test_every_rung_is_a_region_of_its_own() -> None:
    problem, options = learnable_problem(n=48), NestedOptions(steps=6, batch_size=8, examples=12)
    large, judge = finish(search_of(problem, "stagewise-nested", 400, options=options))[1].order, Judge(problem, 12, 3)
    rungs = (0, ladder(problem.d)[0], max(rung for rung in ladder(problem.d) if rung <= 400))
    losses = [loss_at(problem, large[:rung], judge.rows) for rung in rungs]
    assert losses[2] < min(losses[:2])
    for size in (20, 141, 300):
        assert order_of(search_of(problem, "stagewise-nested", size, options=options)) == large[:size].tolist()


def zeroed(problem: Problem) -> Problem:
    return Problem(problem.flat, torch.zeros_like(problem.base), problem.finetuned, problem.train, problem.selection)


test_by_hand = by_hand(
    ("a coordinate that loses never flips", [[]] * 100,
     lambda: [region.tolist() for region in regions_of(torch.full((16,), -5e-3), 100)[1]]),
    ("the rest", {"lottery": "zero"},
     lambda: {name: row.rest for name, row in LOCALIZERS.items() if row.rest != "base"}),
    ("by name", ["zero", "base", "base"], lambda: [rest_of(name) for name in ("lottery", "stagewise", "unheard of")]),
    ("a control", True, lambda: "control" in localizer("lottery").sentence),
    ("its title", True, lambda: "rest is zero" in localizer("lottery").title),
    ("searches that learn signs", {"stagewise", "stagewise-judged", "stagewise-nested"},
     lambda: {row.name for row in LOCALIZERS.values() if row.learns_signs}),
)  # fmt: skip


@problem_with(quantum=0.1)
def test_by_magnitude_it_is_the_largest_fine_tuned_weights(problem: Problem) -> None:
    for size in (1, 60, problem.d):
        steps, found = finish(lottery(problem, size, seed=0, options=LotteryOptions(by="magnitude")))
        wanted = slow_top(problem.finetuned.abs().tolist(), size)
        assert (found.order.tolist(), len(steps), "control" in found.notes[0]) == (wanted, 1, True)


@problem_with(n=16)
def test_the_base_of_the_problem_makes_no_difference(problem: Problem) -> None:
    """delta is theta_ft for any pre-trained values."""
    options = LotteryOptions(steps=4, batch_size=5)
    zero, own = (order_of(lottery(one, 90, seed=0, options=options)) for one in (zeroed(problem), problem))
    assert zero == own


def test_the_mask_descends_at_the_zeroed_model() -> None:
    """Compute one step with autograd: theta = gamma * theta_ft, gamma soft, starting at the largest weights."""
    problem, lr = tiny_problem(n=6), 1e3
    work = zeroed(problem)
    mask = Mask(work, top(problem.finetuned.abs(), 400), 10.0, 0)
    scores, inside = mask.scores.clone().requires_grad_(True), torch.zeros(problem.d).index_fill_(0, mask.base, 1.0)
    theta = (inside + (1 - 2 * inside) * torch.sigmoid(scores - 10.0)) * problem.finetuned
    mask.soften()
    torch.testing.assert_close(work.flat.theta, theta.detach(), rtol=1e-6, atol=1e-7)
    work.train.backward()
    (slope,) = torch.autograd.grad(theta, scores, work.flat.grad)
    mask.descend(lr)
    torch.testing.assert_close(mask.scores, scores.detach() - lr * slope, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(mask.scores, scores + lr * slope, rtol=1e-5, atol=1e-5), "a turned sign would pass"
    problem.reset()


def test_the_ends_are_exact() -> None:
    """With no entry every graftable value is zero; with all entries the model is the fine-tuned one, bit for bit."""
    work = zeroed(tiny_problem())
    work.set_region(torch.empty(0, dtype=torch.long))
    assert not work.flat.theta.any()
    work.set_region(torch.from_numpy(finish(lottery(work, work.d, seed=0, options=LotteryOptions(steps=2)))[1].order))
    assert torch.equal(work.flat.theta, work.finetuned)


@pytest.mark.slow
def test_learning_does_no_worse_than_magnitude_alone() -> None:
    work = zeroed(learnable_problem(n=32))
    searches = [lottery(work, work.d // 2, seed=0, options=LotteryOptions(by=by)) for by in ("learned", "magnitude")]
    learned_loss, magnitude_loss = (loss_at(work, finish(search)[1].order) for search in searches)
    assert learned_loss <= magnitude_loss + 1e-6


def searched(problem: Problem, name: str, size: int, resume: State | None = None) -> tuple[list[int], list[float]]:
    problem.has_free_signs = True
    found = finish(search_of(problem, name, size, resume))[1]
    return found.order.tolist(), found.signs.tolist()  # type: ignore[union-attr]


def test_judged_takes_the_twins_steps_and_signs() -> None:
    problem, twin = both(n=12)
    rest = (40, slow_candidates(problem.tau.numpy(), 0.1, 40), 8, 1 / 3, 3)
    args = (*arrays(problem), twin.loss_and_gradient, *held_and_drawn(problem, 6), *rest)
    order, chosen, signs = slow_judged(*args, (), {})
    assert chosen != "movement" and searched(problem, "stagewise-judged", 40) == (order, [signs[i] for i in order])
    assert order != slow_judged(*args)[0], "the fine-tuned signs would pass"


def test_nested_keeps_the_signs_of_the_rungs_below() -> None:
    problem, twin = both(n=12)
    rungs = [rung for rung in ladder(problem.d) if rung < 200]
    args = (*arrays(problem), twin.loss_and_gradient, *held_and_drawn(problem, 4 * len(rungs)), rungs)
    order, signs = slow_nested(*args, 4, 0.1, 1 / 2, 2, free=True)
    assert searched(problem, "stagewise-nested", rungs[-1]) == (order, [signs[i] for i in order])


@pytest.mark.parametrize("name", SIGNED)
def test_a_constant_gradient_gives_the_largest_products_with_the_signs_of_descent(name: str) -> None:
    """The loss is c * theta: including entry i with its better sign gains |c_i tau_i|."""
    problem, size = tiny_problem(n=16), 10
    slope = torch.randn(problem.d, generator=torch.Generator().manual_seed(7))
    problem.train.loss = lambda rows: float(slope @ problem.flat.theta)  # type: ignore[assignment, method-assign]
    problem.train.backward = lambda rows: (  # type: ignore[assignment, method-assign]
        problem.flat.grad.copy_(slope),
        problem.train.loss(rows),
    )[1]
    order, signs = searched(problem, name, size)
    assert signs == (-slope[order].sign()).tolist() and len(order) == size
    gains = (slope * problem.tau).abs()
    best = sorted(slow_candidates(problem.tau.numpy(), 0.1, size), key=lambda i: -gains[i])[:size]
    # The first two are the largest movers, or a rung's.
    assert len(set(order) & set(best)) >= (6 if name == "stagewise-nested" else size - 2)
    problem.set_soft_at(torch.tensor(order), torch.tensor(signs), problem.tau[order].abs())
    assert float(slope @ problem.flat.theta) == pytest.approx(
        float(slope @ problem.base - gains[order].sum()), abs=1e-4
    )


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("steps", [1, 4, 5, 6])
def test_a_search_resumes_with_its_signs(name: str, steps: int) -> None:
    problem = tiny_problem(n=16)
    problem.has_free_signs = True
    *_, last = islice(search_of(problem, name, 60), steps)
    whole, resumed = (
        searched(tiny_problem(n=16), name, 60, start)
        for start in (None, {key: value.detach().clone() for key, value in last.state.items()})
    )
    assert resumed == whole and len(whole[0]) == len(whole[1]) == 60
