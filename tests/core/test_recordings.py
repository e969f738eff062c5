"""Tests that recorded computations on padded batches give the same results as passes; for a GPU see test_cuda.py.

Here a recording's kernels are the pass itself, started again; all else is the same as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from skillviz.core.batches import rounded_up
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.problem import Problem
from skillviz.core.recordings import Recordings
from tests.core.by_hand import by_hand
from tests.core.localizers.test_resume import cut_after, problem_for, told, whole
from tests.core.problems import tiny_problem


class Repeated(Recordings):
    """Recordings whose passes are computed again at the same addresses, on any device."""

    def captured(self, run: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Return a function that computes `run` again, and the tensor that holds its result."""
        takes_gradients, result = torch.is_grad_enabled(), run()

        def again() -> None:
            with torch.set_grad_enabled(takes_gradients):
                result.copy_(run())

        return again, result


RECORDABLE = [name for name, row in LOCALIZERS.items() if row.is_search and not row.compares_answers]


def recorded(problem: Problem, kind: type[Recordings] = Recordings) -> Problem:
    for objective in filter(None, (problem.train, problem.selection)):
        objective.recordings = kind(problem.flat, objective.batches)
    return problem


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("distilbert", "prompt"), ("gpt2", "head")])
@pytest.mark.parametrize("micro_tokens", [40, 1000])
def test_padded_passes_are_those_of_the_batch(family: str, readout: str, micro_tokens: int) -> None:
    """Rows and tokens added by padding do not count, regardless of earlier passes."""
    plain, padded = (tiny_problem(family, readout, n=20, labels=3, micro_tokens=micro_tokens) for _ in range(2))
    recorded(padded, Repeated)
    for seed in (0, 1, 0):
        rows = np.random.default_rng(seed).permutation(20)[:13]
        assert padded.train.backward(rows) == pytest.approx(plain.train.backward(rows), rel=1e-6)
        off = (padded.flat.grad - plain.flat.grad).norm()
        assert off < 1e-6 * plain.flat.grad.norm()  # float32: sums of other lengths
        np.testing.assert_allclose(padded.train.logits(rows), plain.train.logits(rows), rtol=1e-5, atol=1e-6)
    kept = padded.train.recordings.kept  # type: ignore[union-attr]
    assert all(recording.batch.inputs["input_ids"].shape == key[-2:] for key, recording in kept.items())
    # If a batch is whole there is one recording, because every batch then has the same number of rows.
    assert (len(kept) == 2) == (micro_tokens == 1000) and {key[0] for key in kept} == {"gradient", "scores"}


def test_a_label_of_padding_would_count() -> None:
    problem, rows = recorded(tiny_problem(n=20, micro_tokens=40), Repeated), np.arange(13)
    batches, loss = problem.train.batches, problem.train.backward(rows)
    assert any(part % 8 for part in map(len, batches.plan(rows))), "no row is added here"
    padded = batches.padded

    def labelled(rows: np.ndarray, n: int):  # type: ignore[no-untyped-def]
        batch = padded(rows, n)
        batch.labels[len(rows) :] = 0
        return batch

    batches.padded = labelled  # type: ignore[method-assign]
    assert problem.train.backward(rows) > 1.05 * loss


@pytest.mark.cases(3, 4)
@pytest.mark.parametrize("name", RECORDABLE)
def test_a_search_finds_the_region_of_plain_passes_and_resumes_exactly(name: str) -> None:
    """The selection's scores also come from recordings."""
    plain, *several = (problem_for(), *(recorded(problem_for(), Repeated) for _ in range(3)))
    (wanted, without), (steps, found) = (whole(problem, name, 40) for problem in (plain, several[0]))
    assert np.array_equal(found.order, without.order)
    np.testing.assert_allclose([step.loss for step in steps], [step.loss for step in wanted], rtol=1e-5)
    before, state = cut_after(several[1], name, 40, 2)
    after, resumed = whole(several[2], name, 40, state)
    assert told(before + after) == told(steps) and np.array_equal(resumed.order, found.order)


ROUNDED = [rounded_up(n) for n in range(1, 1025)]
test_by_hand = by_hand(
    ("room for all", [], lambda: [n for n, size in enumerate(ROUNDED, 1) if size < n]),
    ("few shapes", 8 + 4 * 4, lambda: len(set(ROUNDED))),
    (
        "at most a quarter more",
        [],
        lambda: [(a, b) for a, b in pairwise(sorted(set(ROUNDED))) if a >= 64 and b > 1.25 * a],
    ),
)
