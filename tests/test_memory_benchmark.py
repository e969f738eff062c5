"""The memory of a search in lean mode: at most 1.35 times the model's own bytes, plus activations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import memory
from tests.scripts import ROOT

GIB = 2**30


def rows(shape: str, *names: str, ordinary: bool = False) -> dict[tuple[str, str], float]:
    """Localizer and mode to the peak without activations, over the model's bytes."""
    found = list(memory.rows_of(memory.SHAPES[shape], names, ordinary))
    assert found[0].what == memory.BARE
    return {(row.what, row.mode): memory.over_model(row, found[0]) for row in found[1:]}


@pytest.mark.nightly
def test_a_small_model_stays_within_the_bound() -> None:
    found = rows("11M", "stagewise", "movement", ordinary=True)
    assert found["stagewise", "lean"] <= memory.BOUND and found["movement", "lean"] <= memory.BOUND
    assert found["stagewise", "ordinary"] > 4  # the ruler sees what lean mode spares


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ["134M", "1100M"])
def test_a_large_model_stays_within_the_bound(shape: str) -> None:
    found = rows(shape, "stagewise", "frank-wolfe", "first-order", "movement")
    assert max(found.values()) <= memory.BOUND, found


def test_the_stored_result_is_within_the_bound() -> None:
    stored = [
        memory.Measured(**row) for row in json.loads((ROOT / "benchmarks/results/memory.json").read_text())["rows"]
    ]
    bares = {row.shape: row for row in stored if row.what == memory.BARE}
    lean = [row for row in stored if row.mode == "lean" and row.what not in (memory.BARE, "random")]
    assert max(memory.over_model(row, bares.get(row.shape)) for row in lean) <= memory.BOUND
    assert max(row.peak for row in stored) <= 10 * GIB
    assert "extrapolated" in memory.table(stored)


@pytest.mark.gpu
@pytest.mark.nightly
def test_seven_billion_parameters_fit_24_gb(tmp_path: Path) -> None:
    """A Llama's shape of 7 B in bfloat16, random weights, on a GPU that gives out no more than 24 GB."""
    import numpy as np

    from skillviz.core.encoded import Encoded
    from skillviz.core.localizers.table import LEAN_CANDIDATES, localizer
    from skillviz.models.lean_pair import load_lean

    memory.make_pair(memory.SEVEN, tmp_path)
    limit = 24e9
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(0).total_memory))
    pair = load_lean(tmp_path / "base", tmp_path / "finetuned", device="cuda:0")
    assert sum(p.numel() for p in pair.model.parameters()) > 6.4e9
    draw = np.random.default_rng(0)
    texts = [draw.integers(5, 60, size=32).astype(np.int64) for _ in range(256)]
    encoded = Encoded([str(i) for i in range(256)], texts, np.arange(256) % 2, 2)
    row = localizer("stagewise")
    options = row.make_options({"steps": 3, "batch_size": 128, "candidate_share": LEAN_CANDIDATES})
    size = pair.d // 1000
    search, problem = [], pair.problem(encoded)
    for step in row.search(problem, size, seed=0, options=options):
        search.append(step)
    assert len(search) == 3 and search[-1].size == size
    assert torch.cuda.max_memory_allocated() <= limit
