"""Tests of the grid of mixing weights."""

from __future__ import annotations

import pytest

from skillviz.core.interpolate import alphas
from skillviz.errors import BadInput


def test_the_grid() -> None:
    assert alphas().tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert alphas(2).tolist() == [0.0, 1.0]
    for points in (1, 1002):
        with pytest.raises(BadInput, match="2 to 1001"):
            alphas(points)
