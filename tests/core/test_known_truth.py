"""Tests of the overlap with a planted region: against loops over entries, at its exact ends, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.known_truth import recovery
from skillviz.core.region import Region
from skillviz.errors import BadInput
from tests.reference import known_truth as twin

SHAPES = {"a": (3, 4), "b": (5,), "c": (2, 3)}
D = 23
seeds = st.integers(0, 10**6)


def drawn(seed: int, share: float) -> Region:
    return Region.from_flat(np.flatnonzero(np.random.default_rng(seed).random(D) < share), SHAPES)


def entries(region: Region) -> set[tuple[str, int]]:
    return {(name, int(flat)) for name, indices in region.indices.items() for flat in indices}


def moved(seed: int, true: Region) -> np.ndarray:
    """Return a movement with zeros inside and outside the true region, in which the first entry moved."""
    draw = np.random.default_rng((seed, 1))
    movement = (draw.normal(size=D) * (draw.random(D) < 0.7)).astype(np.float32)
    movement[true.flat()[0]] = 1.0
    return movement


@given(seeds, st.floats(0.0, 1.0), st.floats(0.2, 1.0))
def test_it_is_what_loops_over_entries_count(seed: int, share: float, true_share: float) -> None:
    region, true = drawn(seed, share), drawn(seed + 1, true_share) | Region.from_flat(np.array([seed % D]), SHAPES)
    movement = moved(seed, true)
    found, wanted = recovery(region, true, movement), twin.recovery(entries(region), entries(true), SHAPES, movement)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, equal_nan=True)


@given(seeds)
def test_the_true_region_is_found_whole_and_the_full_one_by_chance(seed: int) -> None:
    true = drawn(seed, 0.4) | Region.from_flat(np.array([0]), SHAPES)
    movement = moved(seed, true)
    assert recovery(true, true, movement)[::2] == (1.0, 1.0)
    full = recovery(Region.full(SHAPES), true, movement)
    assert full.precision == full.chance and full.recall == 1.0 and full.tensor == 2.0, "all three tensors are level"
    none = recovery(Region.empty(SHAPES), true, movement)
    assert np.isnan(none.precision) and none.recall == 0.0


def test_by_hand() -> None:
    """Tensor a holds the skill: 3 entries moved by 2, 1 and 2. The region has the first, a decoy and an unmoved
    entry.

    An unmoved entry counts neither for nor against.
    """
    movement = np.zeros(D)
    movement[[0, 1, 2]], movement[[12, 13]] = (2.0, 1.0, 2.0), 5.0
    true, region = (Region.from_flat(np.array(flat), SHAPES) for flat in ([0, 1, 2], [0, 12, 22]))
    found = recovery(region, true, movement)
    assert found.precision == 1 / 2 and found.chance == 3 / 5 and found.recall == pytest.approx(4 / 9)
    assert found.tensor == 3, "b has 1 of 5, c 1 of 6, a 1 of 12"


def test_a_planted_error_is_caught() -> None:
    """Recall by counts instead of movement, and precision over all entries, give other numbers."""
    movement = np.zeros(D)
    movement[[0, 1, 2]] = (2.0, 1.0, 2.0)
    true, region = (Region.from_flat(np.array(flat), SHAPES) for flat in ([0, 1, 2], [0, 5, 6]))
    found = recovery(region, true, movement)
    assert found.recall != pytest.approx(1 / 3) and found.precision != pytest.approx(1 / 3)


def test_what_cannot_be_compared_is_refused() -> None:
    true = Region.from_flat(np.array([0]), SHAPES)
    with pytest.raises(BadInput, match="of the same parameters"):
        recovery(Region.empty({"a": (D,)}), true, np.ones(D))
    with pytest.raises(BadInput, match="of the same parameters"):
        recovery(true, true, np.ones(D + 1))
    with pytest.raises(BadInput, match="did not move"):
        recovery(true, true, np.zeros(D))
