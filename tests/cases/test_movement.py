"""Tests of what moved: rounding by a file's dtype is said and never counted or localized, and unmoved entries are
ranked last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from skillviz.core.draws import uniform
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.movement import Counts, Movement
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.errors import PairMismatch
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import load_pair
from skillviz.tasks.splits import load as splits_of
from skillviz.tasks.user_file import read_task
from tests.cases.build import bert, saved, task_file
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import table_of, tiny_problem
from tests.tiny import tiny_rows, tiny_tokenizer

NARROW = [torch.bfloat16, torch.float16]
MOVED = "encoder.layer.1.attention.self.query.weight"


def stored(folder: Path, dtype: torch.dtype, moved: int = 0, by: float = 0.5, times: float = 1.0) -> Path:
    """Save the same classifier in a dtype, with this many entries of one query moved; return the folder."""
    model = bert()
    with torch.no_grad():
        dict(model.bert.named_parameters())[MOVED].view(-1)[:moved].mul_(times).add_(by)
    return saved(folder, model.to(dtype), tiny_tokenizer("bert"))


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("load", [load_pair, load_lean])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_base_saved_in_16_bits_is_no_fine_tuned_model(tmp_path: Path, dtype: torch.dtype, load) -> None:
    """Regression, in both directions: either the base or the fine-tuned model may be the one with full precision."""
    whole, narrow = stored(tmp_path / "whole", torch.float32), stored(tmp_path / "narrow", dtype)
    name = str(dtype).removeprefix("torch.")
    for base, tuned in ((whole, narrow), (narrow, whole)):
        with pytest.raises(PairMismatch, match=f"differ only by rounding: one is the other stored as {name}"):
            load(base, tuned, device="cpu", dtype="float32")


@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_a_bfloat16_base_saved_in_float16_is_no_fine_tuned_model(tmp_path: Path, load) -> None:
    """float16 rounds the smallest values, and bfloat16 can represent the results."""
    base = stored(tmp_path / "base", torch.bfloat16, moved=100, by=0.0, times=1e-4)
    model = type(bert()).from_pretrained(base, dtype=torch.float16)
    with pytest.raises(PairMismatch, match="differ only by rounding: one is the other stored as float16"):
        load(base, saved(tmp_path / "tuned", model, tiny_tokenizer("bert")), device="cpu", dtype="float32")


@pytest.mark.parametrize("upcast", [False, True])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_only_what_moved_beyond_rounding_counts(tmp_path: Path, dtype: torch.dtype, upcast: bool) -> None:
    """This includes a 16-bit file that was saved again as float32."""
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", dtype, moved=40)
    if upcast:
        path = tuned / "model.safetensors"
        save_file({name: t.float() for name, t in load_file(path).items()}, path, metadata={"format": "pt"})
    pair = load_pair(base, tuned, device="cpu")
    counts, differ = pair.movement.counts(), int((pair.base != pair.finetuned).sum())
    assert counts == Counts(40, differ - 40, 0, str(dtype).removeprefix("torch.")) and differ > 10_000
    assert f"40 of {pair.d:,} graftable entries moved in fine-tuning." in pair.notes
    assert any(note.startswith(f"{differ - 40:,} more differ only by rounding") for note in pair.notes)
    assert not any("Fine-tuning also moved" in note for note in pair.notes)
    assert upcast or load_lean(base, tuned, device="cpu", dtype="float32").movement.counts() == counts


def test_no_ranking_chooses_what_was_rounded(tmp_path: Path) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", torch.bfloat16, moved=40)
    task = read_task(task_file(tmp_path / "task", tiny_rows(16), tiny_rows(16)))
    pair = load_pair(base, tuned, device="cpu")
    problem = pair.problem(pair.encode(task, splits_of(task).train))
    moved = set(torch.nonzero(problem.tau).view(-1).tolist())
    assert len(moved) == 40
    for name in ("movement", "first-order", "stagewise", "learned-ranked"):
        assert set(finish(start(name, problem, 40))[1].order.tolist()) == moved
    with pair.at("grafted", full := Region.full(pair.table.shapes)):
        assert full.size == pair.d and pair.is_at("finetuned")


def test_a_base_in_16_bits_leaves_open_what_moved(tmp_path: Path) -> None:
    """A float32 fine-tuned model may have started with more precision than the base's file: a note says so."""
    base, tuned = stored(tmp_path / "base", torch.bfloat16), stored(tmp_path / "finetuned", torch.float32, moved=40)
    pair = load_pair(base, tuned, device="cpu")
    counts = pair.movement.counts()
    assert counts.unclear == counts.moved - 40 > 10_000 and counts.rounded == 0
    assert any("is unknown" in note and f"{counts.unclear:,} entries" in note for note in pair.notes)


def test_a_model_that_was_trained_in_float32_counts_as_before(tmp_path: Path) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", torch.float32, 40, 1e-6)
    assert load_pair(base, tuned, device="cpu").movement.counts() == Counts(40, 0, 0, "")


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW], ids=str)
def test_counts_are_those_of_the_slow_twin(dtype: torch.dtype) -> None:
    """Compare with a loop over entries and tensors, where only some tensors have the fine-tuned dtype."""
    table, draw = table_of(bert(num_hidden_layers=1)), torch.Generator().manual_seed(0)
    base = torch.randn(table.d, generator=draw)
    tuned = base + 0.1 * torch.randn(table.d, generator=draw) * (torch.rand(table.d, generator=draw) < 0.3)
    slow, change = 0, tuned - base
    for number, (a, b) in enumerate(zip(table.offsets[:-1], table.offsets[1:], strict=True)):
        if dtype != torch.float32 and number % 2:
            tuned[a:b] = tuned[a:b].to(dtype).float()
            change[a:b] = tuned[a:b] - base[a:b]
            for i in range(a, b):
                if float(base[i].to(dtype)) == float(tuned[i]):
                    slow, change[i] = slow + int(base[i] != tuned[i]), 0.0
    movement = Movement(base, tuned, table)
    counts = movement.counts()
    assert torch.equal(movement.whole(), change)
    assert (counts.moved, counts.rounded) == (int((change != 0).sum()), slow) and (slow > 0) == (dtype != torch.float32)


DRAWS = ("random", "random-matched", "dare")
RANKING = [name for name, row in LOCALIZERS.items() if row.budgeted and row.rest == "base" and name not in DRAWS]


def few_moved(uphill: bool = False) -> tuple[Problem, set[int]]:
    """Return a problem in which about 1 in 50 entries moved, and their set; with `uphill`, no entry lowers the loss."""
    problem = tiny_problem(moved=0.02)
    moved = torch.nonzero(problem.tau).squeeze(1)
    if uphill:
        problem.train.backward()
        tuned, slope = problem.base.clone(), problem.flat.grad[moved]
        tuned[moved] += 0.05 * slope.sign() + 0.01 * (slope == 0)
        problem = Problem(problem.flat, problem.base, tuned, problem.train)
    return problem, set(moved.tolist())


@pytest.mark.cases(10, 8)
@pytest.mark.parametrize("uphill", [False, True])
@pytest.mark.parametrize("name", RANKING)
def test_no_unmoved_entry_is_chosen_while_a_moved_one_is_left_and_others_are_said(name: str, uphill: bool) -> None:
    problem, moved = few_moved(uphill)
    for size in (len(moved) // 3, len(moved), 3 * len(moved)):
        _, found = finish(start(name, problem, size))
        order, few = found.order.tolist(), f"Only {len(moved):,} of the {size:,} chosen entries moved in fine-tuning."
        assert len(set(order)) == len(order) == size and len(moved & set(order[: len(moved)])) == min(size, len(moved))
        assert [note for note in found.notes if "moved in fine-tuning" in note] == [few] * (size > len(moved))


def test_draws_are_the_draws_that_they_were() -> None:
    problem, _ = few_moved()
    for name in ("random", "dare"):
        np.testing.assert_array_equal(finish(start(name, problem, 50, seed=3))[1].order, uniform(problem.d, 50, 3))
    assert len(set(finish(start("random-matched", problem, 50))[1].order.tolist())) == 50


def test_a_region_of_outcome_size_says_it_too() -> None:
    problem, moved = few_moved()
    _, found = finish(start("layers", problem, 1))
    count = len(moved & set(found.order.tolist()))
    assert found.notes[-1] == f"Only {count:,} of the {len(found.order):,} chosen entries moved in fine-tuning."
