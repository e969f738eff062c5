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
    *((partial(low_rank, rank=rank), partial(slow_low_rank, rank=rank)) for rank in (1, 2, 3)),
]  # fmt: skip


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("fast", "slow"), TWINS)
def test_each_equals_its_slow_twin(fast: Callable, slow: Callable, shape: tuple[int, ...]) -> None:
    movement = drawn(shape)
    found, count = fast(movement)
    expected, expected_count = slow(movement.astype(np.float64))
    assert found.dtype == np.float32 and found.shape == shape and count == expected_count
    assert found == pytest.approx(expected, rel=1e-4, abs=2e-5)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_no_movement_stays_none_and_more_bytes_are_nearer(name: str) -> None:
    for shape in SHAPES:
        assert not COMPRESSIONS[name](np.zeros(shape, dtype=np.float32))[0].any()
    movement = drawn((40, 60))
    rest = [float(np.linalg.norm(low_rank(movement, rank)[0] - movement)) for rank in (1, 2, 4, 8)]
    assert rest == sorted(rest, reverse=True) and rest[-1] > float(np.linalg.norm(int8(movement)[0] - movement))


def test_a_full_rank_and_a_vector_are_the_movement_itself() -> None:
    for shape, rank in (((12, 7), 7), ((12, 7), 5), ((9,), 1)):
        movement = drawn(shape)
        found, count = low_rank(movement, rank)
        assert np.array_equal(found, movement) and count == 4 * movement.size
    planted = drawn((12, 2)) @ drawn((2, 7), 1)
    found, low = low_rank(planted, 2)[0], low_rank(planted, 1)[0]
    assert np.allclose(found, planted, atol=1e-5) and not np.allclose(low, planted, atol=1e-2)


def test_a_flat_movement_is_approximated_tensor_by_tensor() -> None:
    table = ParameterTable(tuple(Parameter(str(s), s, 0, "query", False) for s in SHAPES), "bert", True)
    tensors = [drawn(shape) for shape in SHAPES]
    for name, compress in COMPRESSIONS.items():
        found, count = compressed(np.concatenate([tensor.ravel() for tensor in tensors]), table, name)
        parts = [compress(tensor) for tensor in tensors]
        assert np.array_equal(found, np.concatenate([part.ravel() for part, _ in parts]))
        assert count == sum(size for _, size in parts)


def test_bytes_by_hand() -> None:
    matrix = np.ones((100, 50), dtype=np.float32)
    assert signs(matrix)[1] == 625 + 4 and int8(matrix)[1] == 5000 + 4 and low_rank(matrix, 4)[1] == 4 * 4 * 150
    assert (
        signs(np.ones(9, dtype=np.float32))[1] == 2 + 4
        and low_rank(np.ones((3, 100, 50), dtype=np.float32), 4)[1] == 3 * 4 * 4 * 150
    )
