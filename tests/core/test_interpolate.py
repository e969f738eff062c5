"""Interpolation: exact ends, the middle by hand, WiSE-Graft outside and inside its region."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.interpolate import alphas, interpolated
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY
from tests.reference import interpolate as slow


def ends(seed: int = 0, n: int = 50, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of a few tenths whose differences round."""
    random = np.random.default_rng(seed)
    return random.normal(size=n).astype(dtype), random.normal(size=n).astype(dtype)


@PROPERTY
@given(st.integers(0, 1000), st.floats(0, 1), st.booleans())
def test_it_equals_its_slow_twin(seed: int, alpha: float, within: bool) -> None:
    base, end = ends(seed, dtype=np.float64)
    region = np.random.default_rng(seed).choice(50, 7, replace=False) if within else None
    expected = slow.interpolated(base, end, alpha, region)
    np.testing.assert_allclose(interpolated(base, end, alpha, region), expected, rtol=1e-12, atol=1e-14)
    turned = interpolated(end, base, alpha, region)
    assert abs(alpha - 0.5) < 0.01 or not np.allclose(turned, expected, rtol=1e-6, atol=1e-14)  # swapped ends


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ends_are_exact_and_new(dtype: type) -> None:
    base, end = ends(dtype=dtype)
    region = np.array([3, 4, 40])
    assert np.array_equal(interpolated(base, end, 0.0), base) and np.array_equal(interpolated(base, end, 1.0), end)
    graft = interpolated(base, end, 1.0, region)
    assert np.array_equal(graft[region], end[region])
    assert np.array_equal(np.delete(graft, region), np.delete(base, region))
    assert graft.dtype == dtype
    kept = base.copy()
    interpolated(base, end, 0.0)[0] = 9.0
    assert np.array_equal(base, kept)


def test_the_middle_by_hand_and_unmoved_entries_bit_for_bit() -> None:
    assert interpolated(np.array([0.0, 1.0]), np.array([1.0, 3.0]), 0.5).tolist() == [0.5, 2.0]
    base, _ = ends()
    for alpha in alphas(37):
        assert np.array_equal(interpolated(base, base.copy(), alpha), base)


def test_an_empty_region_is_the_base_and_matrices_keep_their_shape() -> None:
    base, end = (v.reshape(5, 10) for v in ends())
    assert np.array_equal(interpolated(base, end, 0.7, np.array([], dtype=np.int64)), base)
    mixed = interpolated(base, end, 1.0, np.array([10]))
    assert mixed.shape == (5, 10) and mixed[1, 0] == end[1, 0] and (mixed != base).sum() == 1


def test_the_grid() -> None:
    assert alphas().tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert alphas(2).tolist() == [0.0, 1.0]
    for points in (1, 1002):
        with pytest.raises(BadInput, match="2 to 1001"):
            alphas(points)


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="one shape"):
        interpolated(np.zeros(3), np.zeros(4), 0.5)
    for alpha in (-0.1, 1.1, float("nan")):
        with pytest.raises(BadInput, match=r"0\.\.1"):
            interpolated(np.zeros(3), np.zeros(3), alpha)
