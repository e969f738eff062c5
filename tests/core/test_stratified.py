"""Tests of stratified samples: a slow twin's counts, rows decided by the seed, no effect of a sorted file."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.draws import stratified
from skillviz.errors import BadInput
from tests.reference.stratified import slow_counts
from tests.refused import refused


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
