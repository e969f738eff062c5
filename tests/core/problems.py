"""Tiny examples and problems, built in code, for the tests of the engine and the localizers."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.objective import Objective
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.core.problem import Problem
from skillviz.core.readout import make_readout
from tests.reference.gradient import PlainModel
from tests.tiny import tiny_model

MASK, PAD = 9, 1
LABEL_IDS = (20, 21, 22, 23)
SIGNAL_IDS = (60, 61, 62, 63)


def examples(readout: str = "head", n: int = 12, labels: int = 2, seed: int = 0) -> Encoded:
    """Return n examples of 4 to 11 random tokens, two of which determine the label; labels alternate."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(30, 60, size=rng.integers(4, 12)) for _ in range(n)]
    wanted = np.arange(n) % labels
    places = [rng.choice(len(row), size=3, replace=False) for row in rows]
    for row, label, place in zip(rows, wanted, places, strict=True):
        row[place[:2]] = SIGNAL_IDS[label]
        row[place[2]] = MASK
    answers = [[rng.integers(30, 60, size=rng.integers(1, 4)) for _ in range(labels)] for _ in range(n)]
    prompt = readout == "prompt"
    return Encoded(
        ids=[f"train-{i}" for i in range(n)],
        input_ids=[row.astype(np.int64) for row in rows],
        labels=wanted.astype(np.int64),
        n_labels=labels,
        pad_id=PAD,
        positions=np.array([p[2] for p in places]) if prompt else None,
        label_ids=np.array(LABEL_IDS[:labels]) if prompt else None,
        answers=[[a.astype(np.int64) for a in row] for row in answers] if readout == "causal" else None,
    )


def model_of(family: str = "bert", readout: str = "head", labels: int = 2, seed: int = 0) -> torch.nn.Module:
    model = tiny_model(family, readout, seed=seed, labels=labels)
    model.config.pad_token_id = PAD
    return model


def table_of(model: torch.nn.Module) -> ParameterTable:
    return graftable(
        model.config.model_type, {name: tuple(p.shape) for name, p in model.named_parameters()}, model.config.to_dict()
    )


def problem_of(
    model: torch.nn.Module,
    encoded: Encoded,
    readout: str = "head",
    *,
    dtype: torch.dtype = torch.float32,
    moved: float = 1.0,
    quantum: float = 0.0,
    selection: Encoded | None = None,
    micro_tokens: int | None = None,
    seed: int = 0,
) -> Problem:
    """Return the problem of a model whose fine-tuned side is a random movement of a share `moved` of its entries.

    With `quantum` every movement is a multiple of it, so that many are tied. Both sides hold float32 values that
    `dtype` can represent.
    """
    flat, draw = FlatModel(model.to(dtype), table_of(model)), torch.Generator().manual_seed(seed)
    change = 0.1 * torch.randn(len(flat.theta), generator=draw)
    change = (change / quantum).round() * quantum if quantum else change
    change[torch.rand(len(change), generator=draw) >= moved] = 0
    sets = (one and Objective(flat, make_readout(readout, encoded), one, micro_tokens) for one in (encoded, selection))
    return Problem(flat, flat.theta.clone(), (flat.theta.float() + change.to(flat.theta.device)).to(dtype), *sets)


def problem_and_twin(
    model: torch.nn.Module, encoded: Encoded, readout: str = "head", **changes: Any
) -> tuple[Problem, PlainModel]:
    return problem_of(model, encoded, readout, **changes), PlainModel(model, table_of(model).names, encoded, readout)


def tiny_problem(
    family: str = "bert", readout: str = "head", labels: int = 2, n: int = 12, seed: int = 0, **changes: object
) -> Problem:
    return problem_of(
        model_of(family, readout, labels, seed), examples(readout, n, labels, seed), readout, seed=seed, **changes
    )  # type: ignore[arg-type]


def problem_with(**changes: Any) -> pytest.MarkDecorator:
    """Return a mark of a test whose `problem` has these changes."""
    return pytest.mark.parametrize("problem", [changes], indirect=True, ids=[" ".join(changes)])


@pytest.fixture
def problem(request: pytest.FixtureRequest) -> Iterator[Problem]:
    """Return the tiny problem with the test's changes, and check that the model is at its base after the test."""
    made = tiny_problem(**getattr(request, "param", {}))
    yield made
    assert torch.equal(made.flat.theta, made.base), "the model was not put back to base"


def loss_at(problem: Problem, order: np.ndarray, rows: np.ndarray | None = None) -> float:
    """Return the loss of the graft of these entries; the model is at its base afterwards."""
    with problem.at_base_afterwards():
        problem.set_region(torch.from_numpy(order))
        return problem.train.loss(rows)


def learnable_problem(steps: int = 60, n: int = 64, seed: int = 0) -> Problem:
    """Return a problem whose fine-tuned side was trained on its examples with plain gradient descent on the blocks."""
    problem = tiny_problem(n=n, seed=seed, selection=examples(n=n, seed=seed + 100))
    problem.reset()
    velocity = torch.zeros(problem.d)
    for _ in range(steps):
        problem.train.backward()
        velocity.mul_(0.9).add_(problem.flat.grad)
        problem.flat.theta.add_(velocity, alpha=-0.05)
    tuned = problem.flat.theta.clone()
    problem.reset()
    return Problem(problem.flat, problem.base, tuned, problem.train, problem.selection)


def difference_gradients(objective: Objective, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits [n, label] of examples, and gradients [n, label - 1, d] of logit c minus logit 0 for each."""
    sizes, labels = [parameter.size for parameter in objective.flat.table.parameters], objective.n_labels
    logits = torch.full((len(rows), labels), float("nan"))
    found = torch.full((len(rows), labels - 1, sum(sizes)), float("nan"))
    places = {int(row): place for place, row in enumerate(rows)}
    for singles in objective.singly(rows):
        where = [places[int(row)] for row in singles.rows]
        logits[where] = singles.logits.float()
        for c in range(1, labels):
            weights = torch.zeros_like(singles.logits)
            weights[:, c], weights[:, 0] = 1, -1

            def keep(example: int, number: int, gradient: torch.Tensor, c: int = c, where: list[int] = where) -> None:
                found[where[example], c - 1].split(sizes)[number].copy_(gradient)

            singles.backward(weights, keep, last=c + 1 == labels)
    return logits, found


def one_by_one(problem: Problem) -> Objective:
    """Return the problem's training examples with one pass per example for gradients."""
    alone = Objective(problem.flat, problem.train.readout, problem.train.batches.encoded)
    alone.taps = None
    return alone


def finish(search: Generator[Any, None, Any], keep: Callable[[Any], Any] = lambda step: step) -> tuple[list[Any], Any]:
    """Return what to keep of each step of a search (or of other work in steps) and its result."""
    ended: list[Any] = []

    def whole() -> Generator[Any, None, None]:
        ended.append((yield from search))

    return [keep(step) for step in whole()], ended[0]
