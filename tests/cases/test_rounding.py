"""Tests of rounding: differences made by a file's dtype are reported, not counted, ranked or localized."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from skillviz.core.movement import Counts, Movement
from skillviz.errors import PairMismatch
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import load_pair
from tests.cases.build import bert, saved, task_file
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import table_of
from tests.tiny import tiny_rows, tiny_tokenizer

NARROW = [torch.bfloat16, torch.float16]
MOVED = "encoder.layer.1.attention.self.query.weight"


def stored(folder: Path, dtype: torch.dtype, moved: int = 0, by: float = 0.5) -> Path:
    """Save the same classifier in a dtype, with this many entries of one query moved; return the folder."""
    model = bert()
    with torch.no_grad():
        dict(model.bert.named_parameters())[MOVED].view(-1)[:moved] += by
    return saved(folder, model.to(dtype), tiny_tokenizer("bert"))


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("load", [load_pair, load_lean])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_base_saved_in_16_bits_is_no_fine_tuned_model(tmp_path: Path, dtype: torch.dtype, load) -> None:
    """Regression, in both directions: either the base or the fine-tuned model may be the one with full precision."""
    whole, narrow = stored(tmp_path / "whole", torch.float32), stored(tmp_path / "narrow", dtype)
    for base, tuned in ((whole, narrow), (narrow, whole)):
        name = str(dtype).removeprefix("torch.")
        with pytest.raises(PairMismatch, match=f"differ only by rounding: one is the other stored as {name}"):
            load(base, tuned, device="cpu", dtype="float32")


@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_a_bfloat16_base_saved_in_float16_is_no_fine_tuned_model(tmp_path: Path, load) -> None:
    """float16 rounds the smallest values, and bfloat16 can represent the results."""
    model = bert()
    with torch.no_grad():
        dict(model.bert.named_parameters())[MOVED].view(-1)[:100] *= 1e-4
    base = saved(tmp_path / "base", model.to(torch.bfloat16), tiny_tokenizer("bert"))
    tuned = saved(tmp_path / "tuned", model.to(torch.float16), tiny_tokenizer("bert"))
    with pytest.raises(PairMismatch, match="differ only by rounding: one is the other stored as float16"):
        load(base, tuned, device="cpu", dtype="float32")


@pytest.mark.parametrize("upcast", [False, True])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_only_what_moved_beyond_rounding_counts(tmp_path: Path, dtype: torch.dtype, upcast: bool) -> None:
    """This includes a 16-bit file that was saved again as float32."""
    base = stored(tmp_path / "base", torch.float32)
    tuned = stored(tmp_path / "finetuned", dtype, moved=40)
    if upcast:
        path = tuned / "model.safetensors"
        save_file({name: t.float() for name, t in load_file(path).items()}, path, metadata={"format": "pt"})
    pair = load_pair(base, tuned, device="cpu")
    counts = pair.movement.counts()
    differ = int((pair.base != pair.finetuned).sum())
    assert counts == Counts(40, differ - 40, 0, str(dtype).removeprefix("torch.")) and differ > 10_000
    assert f"40 of {pair.d:,} graftable entries moved in fine-tuning." in pair.notes
    assert any(note.startswith(f"{differ - 40:,} more differ only by rounding") for note in pair.notes)
    assert not any("Fine-tuning also moved" in note for note in pair.notes)
    if not upcast:
        assert load_lean(base, tuned, device="cpu", dtype="float32").movement.counts() == counts


def test_no_ranking_chooses_what_was_rounded(tmp_path: Path) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", torch.bfloat16, moved=40)
    task = task_file(tmp_path / "task", tiny_rows(16), tiny_rows(16))
    from skillviz.tasks.splits import load
    from skillviz.tasks.user_file import read_task

    pair = load_pair(base, tuned, device="cpu")
    problem = pair.problem(pair.encode(read_task(task), load(read_task(task)).train))
    moved = set(torch.nonzero(problem.tau).view(-1).tolist())
    assert len(moved) == 40
    for name in ("movement", "first-order", "stagewise", "learned-ranked"):
        assert set(finish(start(name, problem, 40))[1].order.tolist()) == moved
    with pair.at("grafted", full := region_of_all(pair)):
        assert full.size == pair.d and pair.is_at("finetuned")


def region_of_all(pair):
    from skillviz.core.region import Region

    return Region.full(pair.table.shapes)


def test_a_base_in_16_bits_leaves_open_what_moved(tmp_path: Path) -> None:
    """A float32 fine-tuned model may have started with more precision than the base's file: a note says so."""
    base, tuned = stored(tmp_path / "base", torch.bfloat16), stored(tmp_path / "finetuned", torch.float32, moved=40)
    pair = load_pair(base, tuned, device="cpu")
    counts = pair.movement.counts()
    assert counts.unclear == counts.moved - 40 > 10_000 and counts.rounded == 0
    assert any("is unknown" in note and f"{counts.unclear:,} entries" in note for note in pair.notes)


def test_a_model_that_was_trained_in_float32_counts_as_before(tmp_path: Path) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", torch.float32, 40, 1e-6)
    pair = load_pair(base, tuned, device="cpu")
    assert pair.movement.counts() == Counts(40, 0, 0, "")


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW], ids=str)
def test_counts_are_those_of_the_slow_twin(dtype: torch.dtype) -> None:
    """Compare with a loop over entries and tensors, where only some tensors have the fine-tuned dtype."""
    model, draw = bert(num_hidden_layers=1), torch.Generator().manual_seed(0)
    table = table_of(model)
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
    assert torch.equal(movement.whole(), change)
    counts = movement.counts()
    assert (counts.moved, counts.rounded) == (int((change != 0).sum()), slow) and (slow > 0) == (dtype != torch.float32)
