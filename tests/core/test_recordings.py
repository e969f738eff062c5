"""Tests of computations that are kept: recorded ones on padded batches give the same results as passes (for a GPU see
test_cuda.py), and grafts that share their lower layers give, bit for bit, those of whole passes, with fewer blocks.

Here a recording's kernels are the pass itself, started again; all else is the same as on a GPU.
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.architectures import FAMILIES, UNKNOWN
from skillviz.core.batches import rounded_up
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.prefix import Change, _parts, blocks_of, logits_of, lowest_layer
from skillviz.core.problem import Problem
from skillviz.core.recordings import Recordings
from skillviz.core.region import Region
from tests.core.by_hand import by_hand
from tests.core.localizers.test_every_localizer import cut_after, problem_for, told, whole
from tests.core.problems import tiny_problem


class Repeated(Recordings):
    """Recordings whose passes are computed again at the same addresses, on any device."""

    def captured(self, run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
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
        assert (
            padded.flat.grad - plain.flat.grad
        ).norm() < 1e-6 * plain.flat.grad.norm()  # float32: sums of other lengths
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
TOKENS = 40  # per micro-batch: three or four examples


def problem_of(family: str, **changes: Any) -> Problem:
    return tiny_problem(
        family,
        {"bert": "head", "roberta": "prompt", "distilbert": "head"}.get(family, "causal"),
        micro_tokens=TOKENS,
        **changes,
    )


def changes_of(problem: Problem) -> list[Change]:
    """Return changes from the top layer alone to all layers, and an empty one; shuffled, as order must not matter."""
    draw = np.random.default_rng(0)
    layer = np.repeat([p.layer for p in problem.table.parameters], [p.size for p in problem.table.parameters])
    entries = [draw.choice(np.flatnonzero(layer >= first), 300, replace=False) for first in (1, 0, 1, 1)]
    entries.insert(1, np.empty(0, dtype=np.int64))
    return [Change(one, lambda one=one: problem.finetuned[one]) for one in map(torch.from_numpy, entries)]


def equals_whole_passes(problem: Problem) -> bool:
    """Return whether the changes give the scores of whole passes; check that they differ, and the model afterwards."""
    changes, wanted = changes_of(problem), []
    for change in changes:
        problem.set_region(change.entries)
        wanted.append(problem.train.logits())
    problem.reset()
    found = list(logits_of(problem.train, changes))
    assert not np.array_equal(found[0], found[1]), "the change does nothing: the comparison would say nothing"
    return is_as_it_was(problem) and np.array_equal(found, wanted)


def is_as_it_was(problem: Problem) -> bool:
    return torch.equal(problem.flat.theta, problem.base) and not any(
        "forward" in block.__dict__ for block in blocks_of(problem.flat.model, problem.table)
    )


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(
    ("family", "dtype"),
    [(family, torch.float32) for family, row in FAMILIES.items() if row.sequential]
    + [
        ("bert", torch.bfloat16),
        ("gpt2", torch.bfloat16),
    ],
    ids=str,
)
def test_scores_are_those_of_whole_passes(family: str, dtype: torch.dtype) -> None:
    assert equals_whole_passes(problem_of(family, dtype=dtype))


def test_layers_below_every_change_run_once_for_each_micro_batch() -> None:
    problem, runs = problem_of("bert"), Counter[int]()
    changes = [change for change in changes_of(problem) if not bool((change.entries < problem.d // 2).any())]
    blocks, batches = blocks_of(problem.flat.model, problem.table), problem.train.batches
    for number, block in enumerate(blocks):
        block.attention.register_forward_hook(lambda *_, number=number: runs.update([number]))
    list(logits_of(problem.train, [*changes, *(change for change in changes if not len(change.entries))]))
    parts = len(batches.plan(np.arange(problem.train.n)))
    assert parts > 2 and len(changes) == 4
    assert runs == {0: parts, 1: 4 * parts}, "three changes of layer 1, and none twice"


def test_few_activations_are_kept_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr("skillviz.core.prefix.KEPT_TOKENS", 2 * TOKENS)
    batches = problem.train.batches
    assert len(next(iter(_parts(batches.plan(np.arange(problem.train.n)), batches.lengths, 1)))) == 2
    assert equals_whole_passes(problem)


def test_a_failure_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr(problem.train, "answers", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(logits_of(problem.train, changes_of(problem)))
    assert is_as_it_was(problem)


def test_other_families_make_whole_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of("bert")
    monkeypatch.setattr("skillviz.core.prefix.family_of", lambda model_type: UNKNOWN)
    assert blocks_of(problem.flat.model, problem.table) == [] and equals_whole_passes(problem)


def lowest_of(*layers: int) -> int:
    table = problem_of("bert").table
    return lowest_layer(
        Region({p.name: np.array([0]) for p in table.parameters if p.layer in layers}, table.shapes), table
    )


test_by_hand = by_hand(
    ("the lowest layer of one", 1, lowest_of, 1),
    ("the lowest layer of both", 0, lowest_of, 1, 0),
    ("the lowest layer of none", 2, lowest_of),
    ("room for all", [], lambda: [n for n, size in enumerate(ROUNDED, 1) if size < n]),
    ("few shapes", 8 + 4 * 4, lambda: len(set(ROUNDED))),
    (
        "at most a quarter more",
        [],
        lambda: [(a, b) for a, b in pairwise(sorted(set(ROUNDED))) if a >= 64 and b > 1.25 * a],
    ),
)
