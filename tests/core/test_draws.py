"""Tests of random controls of a region: exactly its size, drawn anywhere or with its count in each tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.draws import CONTROLS, MATCHED, control_of, matched, stratified, uniform
from skillviz.core.region import Region
from skillviz.errors import BadInput
from tests.reference.stratified import slow_counts
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


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 70), st.integers(0, 9))
def test_counts_are_the_twins_and_rows_are_sorted_and_distinct(labels: list[int], count: int, seed: int) -> None:
    rows = stratified(labels, count, seed)
    assert len(rows) == min(count, len(labels)) and (np.diff(rows) > 0).all()
    assert np.array_equal(rows, stratified(np.array(labels), count, seed))
    drawn = [labels[row] for row in rows]
    assert {label: drawn.count(label) for label in set(labels)} == slow_counts(labels, min(count, len(labels)))


def test_a_file_sorted_by_label_gives_every_class_its_share() -> None:
    labels = np.repeat([0, 1, 2], [700, 200, 100])
    assert (
        np.bincount(labels[stratified(labels, 100, 0)]).tolist() == [70, 20, 10] != np.bincount(labels[:100]).tolist()
    )


def test_the_seed_decides_and_every_row_can_be_drawn() -> None:
    samples = [set(stratified(np.arange(40) % 2, 10, seed)) for seed in range(60)]
    assert samples[0] != samples[1] and set().union(*samples) == set(range(40))


test_a_count_below_zero_is_refused = refused(
    BadInput,
    ("-1 examples", lambda: stratified([0, 1], -1, 0)),
)
