"""Tests of approximate movements: slow twins, exact ends, and the bytes of their files by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from skillviz.core.compressed import COMPRESSIONS, compressed, int8, low_rank, signs
from skillviz.core.parameters import Parameter, ParameterTable
from tests.reference.compressed import slow_int8, slow_low_rank, slow_signs

SHAPES = ((1,), (9,), (12, 7), (7, 12), (3, 10, 12))
TWINS: list[tuple[Callable, Callable]] = [
    (signs, slow_signs), (int8, slow_int8),
    *((partial(low_rank, rank=rank), partial(slow_low_rank, rank=rank)) for rank in (1, 2, 3, 5, 7)),
]  # fmt: skip


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("fast", "slow"), TWINS)
def test_each_equals_its_slow_twin_and_no_movement_stays_none(fast: Callable, slow: Callable, shape: tuple) -> None:
    movement = drawn(shape)
    (found, count), (expected, expected_count) = fast(movement), slow(movement.astype(np.float64))
    assert (found.dtype, found.shape, count) == (np.float32, shape, expected_count)
    assert found == pytest.approx(expected, rel=1e-4, abs=2e-5)
    assert not np.array_equal(expected, movement) or np.array_equal(found, movement), "a full rank is exact"
    assert not fast(np.zeros(shape, dtype=np.float32))[0].any()


def test_more_bytes_are_nearer() -> None:
    movement = drawn((40, 60))
    rest = [np.linalg.norm(low_rank(movement, rank)[0] - movement) for rank in (1, 2, 4, 8)]
    assert rest == sorted(rest, reverse=True) and rest[-1] > np.linalg.norm(int8(movement)[0] - movement)


def test_a_flat_movement_is_approximated_tensor_by_tensor() -> None:
    table = ParameterTable(tuple(Parameter(str(s), s, 0, "query", False) for s in SHAPES), "bert", True)
    flat = np.concatenate([drawn(shape).ravel() for shape in SHAPES])
    for name, compress in COMPRESSIONS.items():
        (found, count), parts = compressed(flat, table, name), [compress(drawn(shape)) for shape in SHAPES]
        assert np.array_equal(found, np.concatenate([part.ravel() for part, _ in parts]))
        assert count == sum(size for _, size in parts)
