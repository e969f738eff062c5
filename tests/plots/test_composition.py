"""Shares sum to what they say, the even spread is marked, movement adds up in squares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.composition import shares_by_kind, shares_by_layer
from tests.plots import frames
from tests.plots.test_region import small


def test_lines_within_the_region_sum_to_all_kinds() -> None:
    everything, *kinds = shares_by_layer(frames.layers()).data
    assert everything.name == "all kinds" and sum(everything.y) == pytest.approx(100)
    assert np.sum([t.y for t in kinds], axis=0) == pytest.approx(np.array(everything.y))


def test_lines_within_a_kind_each_sum_to_all() -> None:
    for trace in shares_by_layer(frames.layers(), share_of="kind").data:
        assert sum(trace.y) == pytest.approx(100), trace.name


def test_shares_by_layer_by_hand() -> None:
    lines = {t.name: list(t.y) for t in shares_by_layer(small()).data}
    assert lines["query"] == pytest.approx([40, 20]) and lines["MLP in"] == pytest.approx([0, 20])
    assert lines["biases"] == pytest.approx([20, 0]) and lines["all kinds"] == pytest.approx([60, 40])
    shares = {t.name: list(t.y) for t in shares_by_layer(small(), share_of="kind").data}
    assert shares["query"] == pytest.approx([200 / 3, 100 / 3])


def test_a_kind_without_entries_has_no_line() -> None:
    none = small().assign(selected=[4, 2, 0, 2, 0, 0])
    assert "MLP in" not in [t.name for t in shares_by_layer(none).data]


def test_an_unknown_whole_is_named() -> None:
    with pytest.raises(ValueError, match="share_of='layer' is not known"):
        shares_by_layer(small(), share_of="layer")


def test_bars_beside_the_even_spread() -> None:
    bars, even = shares_by_kind(small()).data
    assert list(bars.y) == list(even.y) == ["query", "MLP in", "biases"]
    assert list(bars.x) == pytest.approx([60, 20, 20]) and sum(bars.x) == pytest.approx(100)
    assert list(even.x) == pytest.approx([40, 55, 5]) and sum(even.x) == pytest.approx(100)
    assert even.marker.symbol == "line-ns" and "uniform" in even.name
    assert "1.5 × the average density" in bars.hovertext[0]


@pytest.mark.parametrize("draw", [shares_by_layer, shares_by_kind])
def test_a_region_without_entries_says_so(draw) -> None:  # type: ignore[no-untyped-def]
    assert "no entries" in draw(frames.layers(empty=True)).layout.annotations[0].text
