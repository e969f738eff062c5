"""Tests of the overlap with a planted region: against loops over entries, at its exact ends, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.planted import recovery
from tests.reference import known_truth as twin
from tests.refused import refused

SHAPES = {"a": (3, 4), "b": (5,), "c": (2, 3)}
D = 23
seeds = st.integers(0, 10**6)


def of(*flat: int) -> Region:
    return Region.from_flat(np.array(flat, dtype=np.int64), SHAPES)


def drawn(seed: int, share: float) -> Region:
    return of(*np.flatnonzero(np.random.default_rng(seed).random(D) < share))


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
    region, true = drawn(seed, share), drawn(seed + 1, true_share) | of(seed % D)
    movement = moved(seed, true)
    found, wanted = recovery(region, true, movement), twin.recovery(entries(region), entries(true), SHAPES, movement)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, equal_nan=True)


@given(seeds)
def test_the_true_region_is_found_whole_and_the_full_one_by_chance(seed: int) -> None:
    true = drawn(seed, 0.4) | of(0)
    whole, full, none = (recovery(r, true, moved(seed, true)) for r in (true, Region.full(SHAPES), of()))
    assert whole[::2] == (1.0, 1.0) and np.isnan(none.precision) and none.recall == 0.0
    assert (full.precision, full.recall, full.tensor) == (full.chance, 1.0, 2.0), "all three tensors are level"


@pytest.mark.parametrize(
    ("decoy", "region", "precision", "chance", "tensor"),
    [
        (5.0, (0, 12, 22), 1 / 2, 3 / 5, 3),  # b has 1 of 5, c 1 of 6, a 1 of 12
        (0.0, (0, 5, 6), 1.0, 1.0, 1),  # neither recall by counts nor precision over all entries, which would be 1/3
    ],
)
def test_by_hand(decoy: float, region: tuple[int, ...], precision: float, chance: float, tensor: float) -> None:
    """Tensor a holds the skill: 3 entries moved by 2, 1 and 2; two of b moved by `decoy`.

    The region has the first entry. An unmoved entry counts neither for nor against.
    """
    movement = np.zeros(D)
    movement[[0, 1, 2]], movement[[12, 13]] = (2.0, 1.0, 2.0), decoy
    found = recovery(of(*region), of(0, 1, 2), movement)
    assert (found.precision, found.chance, found.recall, found.tensor) == pytest.approx(
        (precision, chance, 4 / 9, tensor)
    )


test_what_cannot_be_compared_is_refused = refused(
    BadInput,
    ("of the same parameters", recovery, Region.empty({"a": (D,)}), of(0), np.ones(D)),
    ("of the same parameters", recovery, of(0), of(0), np.ones(D + 1)),
    ("did not move", recovery, of(0), of(0), np.zeros(D)),
)
