"""Tests of composition figures: shares sum correctly, the even spread is marked, movement adds in squares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.region import KINDS, shares_by_kind, shares_by_layer
from skillviz.plots.theme import MODULE_KINDS
from tests.plots import frames
from tests.plots.test_region import small


def test_of_many_kinds_those_with_the_most_entries_have_a_line_named_at_its_end() -> None:
    layers = frames.layers()
    figure = shares_by_layer(layers)
    assert len(figure.data) == 1 + KINDS < 1 + layers["kind"].nunique()
    for trace in figure.data:
        assert sum(trace.y) == pytest.approx(100), trace.name
    assert [a.text.replace("<br>", " ") for a in figure.layout.annotations] == [t.name for t in figure.data]
    assert figure.layout.showlegend is False and max(figure.layout.yaxis.range) > max(max(t.y) for t in figure.data)
    drawn = {trace.name: int(np.sum(trace.customdata)) for trace in figure.data[1:]}
    left_out = {t.name: t for t in shares_by_layer(layers[~layers["kind"].isin(kinds_named(drawn))]).data[1:]}
    assert min(drawn.values()) >= max(int(np.sum(trace.customdata)) for trace in left_out.values())


def kinds_named(titles: Iterable[str]) -> list[str]:
    return [kind for kind, style in MODULE_KINDS.items() if style.title in titles]


def test_shares_by_layer_by_hand() -> None:
    lines = {t.name: list(t.y) for t in shares_by_layer(small()).data}
    assert lines["query"] == pytest.approx([200 / 3, 100 / 3]) and lines["MLP in"] == pytest.approx([0, 100])
    assert lines["biases"] == pytest.approx([100, 0]) and lines["all kinds"] == pytest.approx([60, 40])


def test_the_line_of_all_kinds_has_a_marker_that_no_kind_has() -> None:
    everything = shares_by_layer(small()).data[0]
    assert everything.marker.symbol not in {style.symbol for style in MODULE_KINDS.values()}


def test_a_kind_without_entries_has_no_line() -> None:
    none = small().assign(selected=[4, 2, 0, 2, 0, 0])
    assert "MLP in" not in [t.name for t in shares_by_layer(none).data]


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
