"""Tests of random controls of a region: exactly its size, drawn anywhere or with its count in each tensor."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.draws import CONTROLS, MATCHED, control_of, matched, uniform
from skillviz.core.region import Region
from tests.refused import refused

SHAPES = {"a": (10, 10), "b": (50,), "c": (7, 3)}
OFFSETS = (0, 100, 150, 171)
REGION = Region({"a": np.arange(30), "c": np.array([0, 20])}, SHAPES)


def counts(region: Region) -> dict[str, int]:
    return {name: len(entries) for name, entries in region.indices.items() if len(entries)}


@pytest.mark.parametrize("kind", CONTROLS)
def test_a_control_has_the_regions_size_and_depends_on_the_seed_alone(kind: str) -> None:
    one, again, other = (control_of(REGION, kind, OFFSETS, seed=seed) for seed in (1, 1, 2))
    assert one == again and one not in (other, REGION) and (one.size, one.shapes) == (REGION.size, REGION.shapes)
    assert (counts(one) == counts(REGION)) == (kind == MATCHED)


def test_a_smaller_draw_begins_a_larger_one() -> None:
    reference = REGION.flat()
    for draw in (lambda k: uniform(171, k, 0), lambda k: matched(reference[:k], OFFSETS, 0)):
        assert np.array_equal(draw(9), draw(32)[:9])


@pytest.mark.parametrize("region", [Region.empty(SHAPES), Region.full(SHAPES)])
@pytest.mark.parametrize("kind", CONTROLS)
def test_nothing_and_everything_have_one_control_themselves(region: Region, kind: str) -> None:
    assert control_of(region, kind, OFFSETS) == region


test_an_unknown_control_is_refused = refused(
    ValueError,
    ("'magnitude' is not a control", lambda: control_of(REGION, "magnitude", OFFSETS)),
)
