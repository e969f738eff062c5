"""Tests of random controls of a region: exactly its size, drawn anywhere or with its count in each tensor."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.random_entries import ANYWHERE, CONTROLS, MATCHED, control_of, matched, uniform
from skillviz.core.region import Region

SHAPES = {"a": (10, 10), "b": (50,), "c": (7, 3)}
OFFSETS = (0, 100, 150, 171)
REGION = Region({"a": np.arange(30), "c": np.array([0, 20])}, SHAPES)


def counts(region: Region) -> dict[str, int]:
    return {name: len(entries) for name, entries in region.indices.items() if len(entries)}


@pytest.mark.parametrize("kind", CONTROLS)
def test_a_control_has_the_regions_size_and_depends_on_the_seed_alone(kind: str) -> None:
    one = control_of(REGION, kind, OFFSETS, seed=1)
    assert one.size == REGION.size and one == control_of(REGION, kind, OFFSETS, seed=1)
    assert one != control_of(REGION, kind, OFFSETS, seed=2) and one != REGION
    assert one.shapes == REGION.shapes


def test_only_the_matched_control_keeps_the_counts_of_each_tensor() -> None:
    assert counts(control_of(REGION, MATCHED, OFFSETS)) == counts(REGION)
    assert counts(control_of(REGION, ANYWHERE, OFFSETS)) != counts(REGION)


@pytest.mark.parametrize("region", [Region.empty(SHAPES), Region.full(SHAPES)])
@pytest.mark.parametrize("kind", CONTROLS)
def test_nothing_and_everything_have_one_control_themselves(region: Region, kind: str) -> None:
    assert control_of(region, kind, OFFSETS) == region


def test_a_smaller_draw_begins_a_larger_one() -> None:
    assert np.array_equal(uniform(171, 9, 0), uniform(171, 40, 0)[:9])
    reference = REGION.flat()
    assert np.array_equal(matched(reference[:9], OFFSETS, 0), matched(reference, OFFSETS, 0)[:9])


def test_an_unknown_control_is_refused() -> None:
    with pytest.raises(ValueError, match="'magnitude' is not a control"):
        control_of(REGION, "magnitude", OFFSETS)
