"""Tests of stagewise, Frank-Wolfe and the learned mask, step by step against slow twins on a float64 model."""

from __future__ import annotations

from itertools import islice
from math import exp, log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.localizers import learned as learned_module
from skillviz.core.localizers.candidates import Candidates
from skillviz.core.localizers.frank_wolfe import frank_wolfe
from skillviz.core.localizers.learned import Mask, learned, learned_ranked
from skillviz.core.localizers.record import Search
from skillviz.core.localizers.simple import first_order, movement, random
from skillviz.core.localizers.stagewise import stagewise
from skillviz.core.localizers.table import (
    FirstOrderOptions,
    FrankWolfeOptions,
    LearnedOptions,
    MovementOptions,
    NoOptions,
    RankedOptions,
    StagewiseOptions,
)
from skillviz.core.objective import Objective
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.errors import BadInput
from tests.core.problems import examples, model_of, problem_of, table_of, tiny_problem
from tests.reference.gradient import PlainModel
from tests.reference.ranking import slow_top
from tests.reference.searches import (
    autograd_learned,
    slow_candidates,
    slow_frank_wolfe,
    slow_gains,
    slow_learned,
    slow_stagewise,
)

# The engine runs on a float64 model here, so both sides see the same gradient to the last bit of float32. A different
# region then means different steps, not different rounding.


def both(readout: str = "head", labels: int = 2, n: int = 10, **changes: Any) -> tuple[Problem, PlainModel]:
    family = {"head": "bert", "prompt": "distilbert"}[readout]
    encoded, model = examples(readout, n, labels), model_of(family, readout, labels)
    twin = PlainModel(model, table_of(model).names, encoded, readout)
    problem = problem_of(model, encoded, readout, dtype=torch.float64, micro_tokens=10_000, **changes)
    for name, tuned, base in zip(
        problem.table.names, problem.flat.views(problem.finetuned), problem.flat.views(problem.base), strict=True
    ):
        if name.endswith(("key.bias", "k_lin.bias")):
            tuned.copy_(base)  # softmax ignores a key's bias: its gradient is only rounding noise
    return problem, twin


def arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    return problem.base.numpy().copy(), problem.finetuned.numpy().copy()


def order_of(search: Search) -> list[int]:
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value.order.tolist()


def draws(problem: Problem, batch_size: int, steps: int, seed: int = 3) -> list[np.ndarray]:
    return list(islice(problem.draws(batch_size, seed), steps))


CASES = [{}, {"labels": 4}, {"readout": "prompt", "labels": 3}, {"quantum": 0.1}, {"moved": 0.02}]


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_stagewise_takes_the_twins_steps(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case)
    options = StagewiseOptions(steps=6, batch_size=4, start_share=0.2, switch_share=0.2)
    found = order_of(stagewise(problem, size, seed=3, options=options))
    candidates = slow_candidates(problem.tau.numpy(), 0.1, size)
    start, most = max(1, round(0.2 * size)), max(1, round(0.2 * size))
    args = (*arrays(problem), twin.loss_and_gradient, draws(problem, 4, 6), size, candidates, start, most)
    assert found == slow_stagewise(*args)[0]
    if size > 1 and "moved" not in case:

        def uphill(theta: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
            loss, gradient = twin.loss_and_gradient(theta, rows)
            return loss, -gradient

        assert set(found) != set(slow_stagewise(*args[:2], uphill, *args[3:])[0]), "a dropped sign would pass"
        assert set(found) != set(slow_stagewise(*args[:3], args[3][1:], *args[4:])[0]), "a step less would pass"


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 40])
def test_frank_wolfe_takes_the_twins_steps(case: dict[str, Any], size: int) -> None:
    problem, twin = both(**case)
    options = FrankWolfeOptions(steps=6, batch_size=4, settle_share=0.5)
    found = order_of(frank_wolfe(problem, size, seed=3, options=options))
    candidates = slow_candidates(problem.tau.numpy(), 0.1, size)
    args = (*arrays(problem), twin.loss_and_gradient, draws(problem, 4, 6), size, candidates)
    assert found == slow_frank_wolfe(*args, 3)
    if size > 1 and "moved" not in case:
        assert found != slow_frank_wolfe(*args, 2), "one step of settling less would pass"


def test_stagewise_ends_at_its_size_when_everything_is_wanted() -> None:
    problem, twin = both()
    options = StagewiseOptions(steps=3, batch_size=4)
    size = problem.d - 2
    found = order_of(stagewise(problem, size, seed=3, options=options))
    args = (*arrays(problem), twin.loss_and_gradient, draws(problem, 4, 3), size)
    args = (*args, slow_candidates(problem.tau.numpy(), 0.1, size))
    assert found == slow_stagewise(*args, round(0.1 * size), round(0.02 * size))[0]


def test_first_order_is_one_gradient_at_the_base() -> None:
    problem, twin = both(labels=3)
    found = order_of(first_order(problem, 50, seed=3, options=FirstOrderOptions(examples=6)))
    base, _ = arrays(problem)
    gradient = twin.loss_and_gradient(base, draws(problem, 6, 1)[0])[1]
    assert found == slow_top(slow_gains(gradient, problem.tau.numpy()).tolist(), 50)


def test_movement_and_random() -> None:
    problem = tiny_problem(quantum=0.1)
    found = order_of(movement(problem, 300, seed=0, options=MovementOptions()))
    assert found == slow_top(problem.tau.abs().tolist(), 300)
    drawn = np.array([order_of(random(problem, 500, seed=s, options=NoOptions())) for s in range(20)])
    # 10,000 draws from d: their mean is d / 2 within four standard errors, and their thirds are even.
    assert abs(drawn.mean() / problem.d - 0.5) < 4 * (1 / 12 / drawn.size) ** 0.5
    assert np.abs(np.bincount(drawn.reshape(-1) * 3 // problem.d) / drawn.size - 1 / 3).max() < 0.02


@pytest.mark.parametrize("share", [0.001, 0.1, 1.0])
def test_candidates_are_the_top_movers(share: float) -> None:
    problem = tiny_problem(quantum=0.1)
    for size in (1, 30, problem.d):
        candidates = Candidates.of(problem, share, size)
        assert candidates.index.tolist() == slow_candidates(problem.tau.numpy(), share, size)
        assert torch.equal(candidates.tau, problem.tau[candidates.index])
    problem.train.backward()
    gain = candidates.gain(problem)
    assert torch.equal(gain, -problem.flat.grad[candidates.index] * candidates.tau)
    assert candidates.movers(5).tolist() == slow_top(candidates.tau.abs().tolist(), 5)


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("base", ["empty", "movement", "region"])
@pytest.mark.parametrize("case", [{}, {"labels": 3}], ids=str)
def test_the_learned_mask_takes_the_twins_steps(case: dict[str, Any], base: str) -> None:
    problem, twin = both(**case)
    given = {"empty": (), "movement": None, "region": (5, 77, 2000)}[base]  # a given region replaces any base
    mask = set(slow_top(problem.tau.abs().tolist(), 9)) if given is None else set(given)
    options = LearnedOptions(
        steps=4, batch_size=4, lr=1e6, base="movement" if given is None or given else "empty",
        base_share=9 / problem.d, selection="none", base_indices=given or None,
    )  # fmt: skip
    found = order_of(learned(problem, 1, seed=3, options=options))
    start = torch.rand(problem.d, generator=torch.Generator().manual_seed(3)).tolist()
    args = (*arrays(problem), twin.loss_and_gradient, draws(problem, 4, 4), start, mask, 1e6, 10.0)
    scores, wanted = slow_learned(*args)
    assert set(found) == wanted and len(wanted ^ mask) > 9
    evidence = [-(s - 10) if i in mask else s - 10 for i, s in enumerate(scores)]
    got = [evidence[i] for i in found]
    assert got == pytest.approx(sorted((evidence[i] for i in wanted), reverse=True), rel=1e-4)  # S is float32
    assert wanted != slow_learned(*args[:-1], 9.0)[1], "another bias would pass"
    if mask:
        assert wanted != slow_learned(*args[:5], set(), *args[6:])[1], "a base that is ignored would pass"


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(("case", "mask"), [({}, ()), ({"labels": 3}, (5, 77, 2000)), ({"readout": "prompt"}, (9,))])
def test_the_learned_mask_is_autograds_at_every_step(case: dict[str, Any], mask: tuple[int, ...]) -> None:
    """Compare the loss, each score and the rounded mask of each step with float64 autograd through model and mask."""
    problem, twin = both(**case)
    options = LearnedOptions(
        steps=5, batch_size=4, lr=300, bias=1, base="empty", selection="none", base_indices=mask or None
    )
    start = torch.rand(problem.d, generator=torch.Generator().manual_seed(3)).tolist()

    def steps_of(lr: float = 300, bias: float = 1, of: set[int] | None = None) -> list[Any]:
        rows, inside = draws(problem, 4, 5), set(mask) if of is None else of
        return list(autograd_learned(twin, *arrays(problem), rows, start, inside, lr, bias))

    wanted, seen = steps_of(), []
    for step in learned(problem, 1, seed=3, options=options):
        seen.append((step.loss, step.state()["scores"].numpy().copy(), step.size))
    assert len(seen) == len(wanted) == 5
    for (loss, scores, size), (wanted_loss, wanted_scores) in zip(seen, wanted, strict=True):
        assert loss == pytest.approx(wanted_loss, rel=1e-6)
        np.testing.assert_allclose(
            scores, wanted_scores, rtol=1e-5, atol=1e-5
        )  # S is float32, and steps are up to 1e3 times as long
        chosen = {i for i, x in enumerate(wanted_scores) if (i in mask) != (x > 1)}
        assert size == len(chosen)
    moved = wanted[-1][1] - np.array(start)
    assert np.abs(moved).max() > 1e-2
    for wrong in (steps_of(lr=150), steps_of(bias=2), steps_of(of=set(range(problem.d)))):
        assert np.abs(wrong[-1][1] - wanted[-1][1]).max() > 1e-2, "a planted error would pass"


def soft_gradient(
    problem: Problem, twin: PlainModel, scores: torch.Tensor, base: torch.Tensor, bias: float
) -> np.ndarray:
    """Compute dL/dS with autograd through soft(S) in float64: the loss as a function of S (PAPER.md, section 4)."""
    s = scores.double().requires_grad_(True)
    u = torch.sigmoid(s - bias)
    soft = base * (1 - u) + (1 - base) * u
    theta = soft * problem.finetuned + (1 - soft) * problem.base
    slope = twin.loss_and_gradient(theta.detach().numpy(), np.arange(problem.train.n))[1]
    theta.backward(torch.from_numpy(slope))
    assert s.grad is not None
    return s.grad.numpy()


@pytest.mark.parametrize("kind", ["zeros", "ones", "mixed"])
def test_the_written_out_gradient_is_autograds(kind: str) -> None:
    problem, twin = both(labels=3)
    base = torch.zeros(problem.d, dtype=torch.float64)
    if kind == "ones":
        base += 1
    elif kind == "mixed":
        base[::3] = 1
    mask = Mask(problem, base.nonzero().squeeze(1), bias=0.5, seed=1)
    before = mask.scores.clone()
    mask.soften()
    problem.train.backward()
    mask.descend(1e9)  # so large that S is negligible beside its change
    found = (before.double() - mask.scores.double()).numpy() / 1e9
    wanted = soft_gradient(problem, twin, before, base, 0.5)
    # float32 products and scores: relative 1e-6, plus 1e-9 for the rounding of S itself.
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-9)
    if kind != "zeros":
        wrong = soft_gradient(problem, twin, before, base * 0, 0.5)
        assert np.abs(wrong - wanted).max() > 0.1 * np.abs(wanted).max(), "a base that is ignored would pass"
    problem.reset()


@pytest.mark.parametrize("bias", [0.5, 10.0])
def test_the_gradient_formula_in_float64(bias: float) -> None:
    """PAPER.md, section 11, item 2: (1 - 2 base) tau dL/dtheta u (1 - u), relative error below 1e-6."""
    problem, twin = both()
    base = (torch.arange(problem.d) % 2).double()
    scores = torch.rand(problem.d, generator=torch.Generator().manual_seed(0)).double()
    u = torch.sigmoid(scores - bias)
    soft = base * (1 - u) + (1 - base) * u
    theta = (problem.base + soft * (problem.finetuned - problem.base)).numpy()
    slope = twin.loss_and_gradient(theta, np.arange(problem.train.n))[1]
    tau = (problem.finetuned - problem.base).numpy()
    written = (1 - 2 * base.numpy()) * tau * slope * (u * (1 - u)).numpy()
    np.testing.assert_allclose(written, soft_gradient(problem, twin, scores, base, bias), rtol=1e-6, atol=1e-14)


def constant_problem(gains: torch.Tensor) -> Any:
    """Return a problem of entries that do not interact: the gradient is the same at every point."""
    flat = SimpleNamespace(device=torch.device("cpu"), grad=-gains)
    return SimpleNamespace(d=len(gains), tau=torch.ones(len(gains)), flat=flat, set_soft=lambda gamma: None)


@pytest.mark.parametrize("gain", [5e-6, 2e-5, 2e-4, 5e-3])
@pytest.mark.parametrize("in_base", [False, True])
def test_a_coordinate_flips_when_the_paper_says(gain: float, in_base: bool) -> None:
    """PAPER.md, section 11, item 3: S first exceeds the bias between t* and t* + 6."""
    lr, bias, n = 1e7, 10.0, 64
    signed = -gain if in_base else gain  # inside the base, leaving must be the gain
    base = torch.arange(n if in_base else 0)
    mask = Mask(constant_problem(torch.full((n,), signed)), base, bias, seed=0)
    start = mask.scores.tolist()
    flipped = [0] * n
    last = round(exp(bias) / (lr * gain)) + 8
    for step in range(1, last + 1):
        mask.soften()
        mask.descend(lr)
        region = set(mask.region().tolist())
        for i in range(n):
            if not flipped[i] and (i in region) != in_base:
                flipped[i] = step
    for s, step in zip(start, flipped, strict=True):
        due = exp(bias - s) / (lr * gain)
        assert due <= step <= due + 6, (s, due, step)


def test_a_coordinate_that_loses_never_flips() -> None:
    mask = Mask(constant_problem(torch.full((16,), -5e-3)), torch.arange(0), 10.0, seed=0)
    for _ in range(100):
        mask.soften()
        mask.descend(1e7)
    assert not len(mask.region())


def test_the_calibrated_rate_flips_about_the_size_asked_for() -> None:
    """exp(bias - 0.5) / (T c_k): if gains do not interact, the size is within a factor e, the initial spread."""
    d, size, steps = 20_000, 500, 50
    gains = torch.randn(d, generator=torch.Generator().manual_seed(0)).mul(3).exp()
    lr = exp(10 - 0.5) / (steps * float(top_value(gains, size)))
    mask = Mask(constant_problem(gains), torch.arange(0), 10.0, seed=0)
    for _ in range(steps):
        mask.soften()
        mask.descend(lr)
    assert abs(log(len(mask.region()) / size)) < 0.5


def top_value(values: torch.Tensor, k: int) -> torch.Tensor:
    return values[top(values, k)[-1]]


def test_learned_ranked_gives_the_strongest_scores() -> None:
    problem, twin = both()
    options = RankedOptions(steps=4, batch_size=4, lr=1e6)
    found = order_of(learned_ranked(problem, 60, seed=3, options=options))
    start = torch.rand(problem.d, generator=torch.Generator().manual_seed(3)).tolist()
    draws_ = draws(problem, 4, 4)
    scores, _ = slow_learned(*arrays(problem), twin.loss_and_gradient, draws_, start, set(), 1e6, 10.0)
    assert set(found) == set(slow_top(scores, 60))


def test_the_learned_mask_is_judged_on_every_class_of_a_file_sorted_by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the same after an interruption; a checkpoint from before the sampling keeps the first rows."""
    monkeypatch.setattr(learned_module, "SCORED_EXAMPLES", 6)
    drawn = examples(n=24, seed=1)
    problem = tiny_problem(selection=drawn.take(np.argsort(drawn.labels, kind="stable")))
    scored: list[np.ndarray] = []
    accuracy = Objective.accuracy

    def watched(self: Objective, rows: np.ndarray | None = None) -> float:
        if self is problem.selection and rows is not None:
            scored.append(rows)
        return accuracy(self, rows)

    monkeypatch.setattr(Objective, "accuracy", watched)
    options = LearnedOptions(steps=3, batch_size=4, score_every=1, lr=1e5, base_share=0.01)
    search = learned(problem, 1, seed=5, options=options)
    state = next(search).state()
    search.close()
    assert problem.selection is not None
    assert np.bincount(problem.selection.labels[scored[0]]).tolist() == [3, 3]
    for old, rows in ((False, scored[0]), (True, np.arange(6))):
        scored.clear()
        kept = {name: value for name, value in state.items() if not old or name != "drawn_rows"}
        order_of(learned(problem, 1, seed=5, options=options, resume=kept))
        assert len(scored) == 2 and all(np.array_equal(rows, one) for one in scored)


@pytest.mark.parametrize("selection", ["validation", "train+validation"])
def test_the_learned_mask_keeps_the_best_step(selection: str) -> None:
    problem = tiny_problem(n=24, selection=examples(n=24, seed=5))
    options = LearnedOptions(steps=9, batch_size=8, lr=3e5, base_share=0.002, selection=selection, score_every=2)
    search, seen = learned(problem, 1, seed=0, options=options), {}
    judged: list[tuple[int, float, int]] = []
    original = problem.set_region

    def watching(indices: torch.Tensor) -> None:
        original(indices)
        rows = np.arange(24)
        score = problem.selection.accuracy(rows) + (problem.train.accuracy(rows) if "train" in selection else 0)  # type: ignore[union-attr]
        judged.append((len(judged), score, len(indices)))
        seen[len(judged) - 1] = indices.clone()

    problem.set_region = watching  # type: ignore[method-assign]
    found = order_of(search)
    assert len(judged) == 1 + 5, "scored at the start, every second step and the last"
    best = max(judged, key=lambda row: (row[1], -row[0]))
    assert sorted(found) == seen[best[0]].tolist()


def test_a_mask_that_flips_nothing_says_what_to_do() -> None:
    problem = tiny_problem()
    options = LearnedOptions(steps=2, batch_size=4, lr=1e-3, base="empty")
    with pytest.raises(BadInput, match="larger one, more steps, or the localizer 'learned-ranked'"):
        order_of(learned(problem, 1, seed=0, options=options))
    assert torch.equal(problem.flat.theta, problem.base)
