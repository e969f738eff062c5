"""Tests of lean mode: the same regions as the ordinary mode, bit for bit, with gradients that are used and freed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.lean import LeanModel, LeanProblem
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.objective import Objective
from skillviz.core.parameters import ParameterTable
from skillviz.core.problem import Problem
from skillviz.core.readout import make_readout
from skillviz.errors import BadInput
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import examples, model_of, problem_of, table_of
from tests.refused import refused
from tests.tiers import first, in_the_night

LEAN = [name for name, row in LOCALIZERS.items() if row.lean]
SIGNED = [f"{name} with free signs" for name in LEAN if LOCALIZERS[name].learns_signs]
FIRST = ("stagewise", "stagewise-nested", *SIGNED)


@dataclass
class InMemory:
    """A vector in memory that replaces a file."""

    values: torch.Tensor
    table: ParameterTable

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, at: Any) -> torch.Tensor:
        return self.values[at]

    def part(self, number: int, start: int, end: int) -> torch.Tensor:
        return self.values[int(self.table.offsets[number]) :][start:end]


def pair_of_problems(
    family: str = "bert", dtype: torch.dtype = torch.float32, **changes: Any
) -> tuple[Problem, LeanProblem]:
    readout = "causal" if family in ("gpt2", "llama") else "head"
    encoded, model = examples(readout, n=16), model_of(family, readout).to(dtype)
    ordinary = problem_of(model_of(family, readout), encoded, readout, dtype=dtype, micro_tokens=40, **changes)
    lean = LeanModel(model, table_of(model))
    base, tuned = (InMemory(v, lean.table) for v in (ordinary.base, ordinary.finetuned))
    return ordinary, LeanProblem(lean, base, tuned, Objective(lean, make_readout(readout, encoded), encoded, 40))  # type: ignore[arg-type]


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize(
    ("family", "dtype"), [("bert", torch.float32), ("llama", torch.float32), ("bert", torch.bfloat16)]
)
@pytest.mark.parametrize("case", first([*LEAN, *SIGNED], FIRST.__contains__, in_the_night))
def test_lean_region_is_that_of_the_ordinary_mode(case: str, family: str, dtype: torch.dtype) -> None:
    ordinary, lean = pair_of_problems(family, dtype, quantum=0.05)
    name, _, signs = case.partition(" with ")
    ordinary.has_free_signs = lean.has_free_signs = bool(signs)
    before = [parameter.detach().clone() for parameter in lean.flat.parameters]
    (steps, wanted), (lean_steps, found) = (finish(start(name, problem, 37)) for problem in (ordinary, lean))
    assert np.array_equal(wanted.order, found.order) and np.array_equal(wanted.signs, found.signs)
    assert (found.notes, found.signs is not None) == (wanted.notes, bool(signs))
    assert [repr(s.loss) for s in steps] == [repr(s.loss) for s in lean_steps]
    lean.reset()
    assert [torch.equal(a, b) for a, b in zip(before, lean.flat.parameters, strict=True)] == [True] * len(before)


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
    flat, draw = LeanModel(model, table_of(model)), torch.Generator().manual_seed(0)
    base = torch.cat([p.detach().float().reshape(-1) for p in flat.parameters])
    moved = base.nonzero().squeeze(1)[torch.randperm(int((base != 0).sum()), generator=draw)[:50]]
    tuned = base.index_put((moved,), base[moved] * (1 + 2**-12))  # the resolution of bfloat16 is 2**-8
    assert torch.equal(tuned.bfloat16(), base.bfloat16()), "the ordinary mode in bfloat16 misses these movements"
    files = (InMemory(values, flat.table) for values in (base, tuned))
    lean = LeanProblem(flat, *files, Objective(flat, make_readout("head", examples()), examples()))  # type: ignore[arg-type]
    selection = finish(start("movement", lean, 50))[1]
    assert set(selection.order.tolist()) == set(moved.tolist()) and not selection.notes, "all of them moved"


test_what_needs_a_whole_vector_is_refused = refused(
    BadInput,
    *(
        ("ordinary mode", lambda use=use: use(pair_of_problems()[1]))
        for use in [
            lambda p: p.tau,
            lambda p: p.flat.theta,
            lambda p: p.set_soft(torch.zeros(p.d)),
        ]
    ),
)
