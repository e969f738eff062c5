"""Tests of the grid of mixing weights."""

from __future__ import annotations

import pytest

from skillviz.core.interpolate import alphas
from skillviz.errors import BadInput


def test_the_grid() -> None:
    assert [alphas().tolist(), alphas(2).tolist()] == [[k / 10 for k in range(11)], [0.0, 1.0]]


@pytest.mark.parametrize("points", [1, 1002])
def test_other_numbers_of_points_are_refused(points: int) -> None:
    with pytest.raises(BadInput, match="2 to 1001"):
        alphas(points)
