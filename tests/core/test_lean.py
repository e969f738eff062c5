"""Tests of lean mode: the same regions as the ordinary mode, bit for bit, with gradients that are used and freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from skillviz.core import lean as lean_module
from skillviz.core.encoded import Encoded
from skillviz.core.lean import LeanModel, LeanProblem
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.objective import Objective
from skillviz.core.parameters import ParameterTable
from skillviz.core.problem import Problem
from skillviz.core.random_entries import uniform
from skillviz.core.ranking import Best, top, top_of_parts
from skillviz.core.readout import make_readout
from skillviz.errors import BadInput, BadModel
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import examples, model_of, problem_of, table_of
from tests.tiers import first, in_the_night

LEAN = [name for name, row in LOCALIZERS.items() if row.lean]


class InMemory:
    """A vector in memory that replaces a file."""

    def __init__(self, values: Tensor, table: ParameterTable) -> None:
        self.values, self.table = values, table

    def __len__(self) -> int:
        return len(self.values)

    def part(self, number: int, start: int, end: int) -> Tensor:
        first = int(self.table.offsets[number])
        return self.values[first + start : first + end]

    def __getitem__(self, at: Any) -> Tensor:
        return self.values[at]


def pair_of_problems(
    family: str = "bert", dtype: torch.dtype = torch.float32, stored: torch.dtype | None = None, **changes: Any
) -> tuple[Problem, LeanProblem]:
    """Return the same problem in ordinary and in lean mode; `stored` is the dtype of the files."""
    readout = "causal" if family in ("gpt2", "llama") else "head"
    encoded: Encoded = examples(readout, n=16)
    ordinary = problem_of(model_of(family, readout), encoded, readout, dtype=dtype, micro_tokens=40, **changes)
    model = model_of(family, readout).to(dtype)
    lean = LeanModel(model, table_of(model))
    base, tuned = (InMemory(v.to(stored or dtype), lean.table) for v in (ordinary.base, ordinary.finetuned))
    train = Objective(lean, make_readout(readout, encoded), encoded, 40)
    return ordinary, LeanProblem(lean, base, tuned, train)  # type: ignore[arg-type]


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize(
    ("family", "dtype"), [("bert", torch.float32), ("llama", torch.float32), ("bert", torch.bfloat16)]
)
@pytest.mark.parametrize("name", first(LEAN, ("stagewise", "stagewise-nested").__contains__, in_the_night))
def test_lean_region_is_that_of_the_ordinary_mode(name: str, family: str, dtype: torch.dtype) -> None:
    ordinary, lean = pair_of_problems(family, dtype, quantum=0.05)
    before = [parameter.detach().clone() for parameter in lean.flat.parameters]
    steps, selection = finish(start(name, ordinary, 37))
    lean_steps, lean_selection = finish(start(name, lean, 37))
    assert np.array_equal(selection.order, lean_selection.order)
    assert selection.notes == lean_selection.notes
    assert [repr(s.loss) for s in steps] == [repr(s.loss) for s in lean_steps]
    lean.reset()
    assert all(torch.equal(a, b) for a, b in zip(before, lean.flat.parameters, strict=True))


def test_a_wrong_gradient_would_change_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary, lean = pair_of_problems()
    _, selection = finish(start("stagewise", ordinary, 37))
    right = lean_module._add_at
    monkeypatch.setattr(lean_module, "_add_at", lambda kept, local, gradient: right(kept, local.flip(0), gradient))
    _, other = finish(start("stagewise", lean, 37))
    assert not np.array_equal(selection.order, other.order)


def test_gradients_are_freed_as_they_come() -> None:
    _, lean = pair_of_problems()
    index = torch.arange(0, lean.d, 7)
    lean.watch(index)
    lean.train.backward()
    assert len(lean.flat.grad) == len(index) and lean.flat.grad.any()
    assert all(parameter.grad is None for parameter in lean.flat.model.parameters())


def test_movements_too_small_for_bfloat16_are_not_lost() -> None:
    """Files are float32 and the model bfloat16: movements below its resolution are still ranked first."""
    model = model_of().to(torch.bfloat16)
    flat = LeanModel(model, table_of(model))
    base = torch.cat([p.detach().float().reshape(-1) for p in flat.parameters])
    draw = torch.Generator().manual_seed(0)
    moved = base.nonzero().squeeze(1)[torch.randperm(int((base != 0).sum()), generator=draw)[:50]]
    tuned = base.clone()
    tuned[moved] *= 1 + 2**-12  # the resolution of bfloat16 is 2**-8
    assert torch.equal(tuned.bfloat16(), base.bfloat16())
    train = Objective(flat, make_readout("head", examples()), examples())
    lean = LeanProblem(flat, InMemory(base, flat.table), InMemory(tuned, flat.table), train)  # type: ignore[arg-type]
    _, selection = finish(start("movement", lean, 50))
    assert set(selection.order.tolist()) == set(moved.tolist())
    assert not selection.notes  # all of them moved
    narrow = Problem(
        problem_of(model_of(), examples(), dtype=torch.bfloat16).flat, base.bfloat16(), tuned.bfloat16(), train
    )
    assert not narrow.tau.any()  # the ordinary mode in bfloat16 misses these movements


@pytest.mark.parametrize("use", [lambda p: p.tau, lambda p: p.flat.theta, lambda p: p.set_soft(torch.zeros(p.d))])
def test_what_needs_a_whole_vector_is_refused(use: Callable[[Problem], Any]) -> None:
    _, lean = pair_of_problems()
    with pytest.raises(BadInput, match="ordinary mode"):
        use(lean)


@pytest.mark.parametrize("seed", range(6))
def test_parts_are_ranked_as_a_whole_is(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = (torch.randn(500, generator=draw) * 4).round() / 4 if seed % 2 else torch.randn(500, generator=draw)
    scores[::50] = -0.0
    parts = scores.split([100, 1, 250, 149])
    for k in (0, 1, 17, 250, 499, 500):
        index, values = top_of_parts(lambda: parts, 500, k)
        assert torch.equal(index, top(scores, k).sort().values) and torch.equal(values, scores[index])
        best = Best(k)
        for begin, part in ((351, parts[3]), (0, parts[0]), (101, parts[2]), (100, parts[1])):
            best.add(part, begin)
        assert torch.equal(best.order(), top(scores, k))


def test_a_score_that_is_no_number_is_refused() -> None:
    scores = torch.tensor([1.0, float("nan"), 2.0])
    with pytest.raises(BadModel, match="not numbers"):
        top_of_parts(lambda: [scores], 3, 2)
    with pytest.raises(BadModel, match="not numbers"):
        Best(1).add(scores, 0)


def test_a_draw_in_a_file_is_the_draw_in_memory() -> None:
    assert np.array_equal(uniform(10_001, 300, 5), uniform(10_001, 300, 5, in_file=True))
