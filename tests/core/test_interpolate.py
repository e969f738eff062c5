"""Tests of the grid of mixing weights."""

from __future__ import annotations

from skillviz.core.interpolate import alphas
from skillviz.errors import BadInput
from tests.refused import refused


def test_the_grid() -> None:
    assert [alphas().tolist(), alphas(2).tolist()] == [[k / 10 for k in range(11)], [0.0, 1.0]]


test_other_numbers_of_points_are_refused = refused(BadInput, *(("2 to 1001", alphas, points) for points in (1, 1002)))
