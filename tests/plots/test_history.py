"""Tests of the figure of a search: loss above, entries on and off below, on one axis of steps."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.plots.overview import search_history
from skillviz.plots.theme import LOCALIZERS
from tests.plots import frames


def test_two_panels_share_the_step_axis() -> None:
    figure = search_history(frames.history())
    assert [t.yaxis for t in figure.data] == ["y", "y2", "y2"]
    assert figure.layout.xaxis.matches == "x2" and figure.layout.xaxis2.title.text == "step, number"
    assert figure.layout.yaxis.title.text == "training loss, nats"


def test_on_goes_up_and_off_goes_down_hatched() -> None:
    table = frames.history()
    _, on, off = search_history(table).data
    assert list(on.y) == list(table["added"]) and list(off.y) == list(-table["removed"])
    assert off.marker.pattern.shape == "/" and on.marker.pattern.shape is None
    assert list(off.customdata) == list(table["removed"])  # the hover shows the count without the sign


def test_steps_are_drawn_in_order() -> None:
    turned = search_history(frames.history().iloc[::-1])
    assert list(turned.data[0].x) == sorted(turned.data[0].x)


def test_several_localizers_stand_side_by_side_in_their_styles() -> None:
    both = pd.concat([frames.history(5), frames.history(5, "frank-wolfe")])
    figure = search_history(both)
    shown = [(t.name, t.line.color) for t in figure.data if t.showlegend is not False]
    assert shown == [(LOCALIZERS[n].title, LOCALIZERS[n].color) for n in ("stagewise", "frank-wolfe")]
    assert {t.offsetgroup for t in figure.data if t.type == "bar"} == {"stagewise", "frank-wolfe"}


def test_searches_of_several_sizes_are_refused() -> None:
    both = pd.concat([frames.history(5), frames.history(5).assign(target=1_064)])
    with pytest.raises(ValueError, match="choose one target size a localizer; given: 1,064, 10,646"):
        search_history(both)


def test_a_loss_that_was_not_taken_is_a_gap() -> None:
    table = frames.history(4).assign(loss=[0.5, None, 0.4, 0.3])
    assert search_history(table).data[0].connectgaps is None
