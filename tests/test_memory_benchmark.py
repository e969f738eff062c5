"""Tests of the memory of a search in lean mode: at most 1.35 times the model's own bytes, plus activations."""

from __future__ import annotations

import pytest

from benchmarks import memory
from benchmarks.frame import RESULTS

GIB, BOUND = 2**30, 1.35


def rows(shape: str, *names: str, ordinary: bool = False) -> dict[tuple[str, str], float]:
    """Return (localizer, mode) -> the peak without activations, divided by the model's bytes."""
    found = list(memory.rows_of(memory.SHAPES[shape], names, ordinary))
    assert found[0].what == memory.BARE
    return {(row.what, row.mode): row.over_model(found[0]) for row in found[1:]}


@pytest.mark.nightly
def test_a_small_model_stays_within_the_bound() -> None:
    found = rows("11M", "stagewise", "movement", ordinary=True)
    assert found["stagewise", "lean"] <= BOUND and found["movement", "lean"] <= BOUND
    assert found["stagewise", "ordinary"] > 4  # the measurement shows the saving of lean mode


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ["134M", "1100M"])
def test_a_large_model_stays_within_the_bound(shape: str) -> None:
    found = rows(shape, "stagewise", "frank-wolfe", "first-order", "movement")
    assert max(found.values()) <= BOUND, found


def test_the_stored_result_is_within_the_bound() -> None:
    stored = memory.stored(RESULTS)
    bares = {row.shape: row for row in stored if row.what == memory.BARE}
    lean = [row for row in stored if row.mode != "ordinary" and row.what not in (memory.BARE, "random")]
    assert max(row.over_model(bares[row.shape]) for row in lean) <= BOUND
    assert max(row.peak for row in stored if row.mode != memory.ON_GPU) <= 10 * GIB
    assert "\n".join(memory.table(stored)) in memory.PAGE.read_text() and "extrapolated" in memory.table(stored)[-1]


@pytest.mark.gpu
@pytest.mark.nightly
def test_seven_billion_parameters_fit_24_gb() -> None:
    """Use a Llama of 7 B in bfloat16 with random weights, on a GPU limited to 24 GB."""
    bare, search = memory.rows_of(memory.SEVEN, ["stagewise"], False, memory.ON_GPU)
    assert search.parameters > 6.4e9 and max(bare.peak, search.peak) <= memory.GPU_LIMIT
    assert search.over_model(bare) <= BOUND
