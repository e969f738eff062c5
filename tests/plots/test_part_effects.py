"""Tests of the map of a region's parts: a number per part, bold if it holds among all comparisons, ochre for better."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from skillviz.plots.forest import forest
from skillviz.plots.part_effects import effect_map
from tests.plots import frames
from tests.plots.facts import Holding, facts, read

KINDS = ("query", "value", "MLP in", "bias")
MOST = frames.effects()["value"].abs().max()
SMALL = frames.effects().head(3).assign(
    value=[0.0004, -0.00002, 0.0002], low=[0.0001, -0.00003, -0.1], high=[0.0007, -0.00001, 0.1],
    holds=[True, False, False],
)  # fmt: skip
FOUR = frames.comparisons(4)


def numbers(figure: go.Figure, path: str = "cells/z") -> np.ndarray:
    """Return the numbers at a path."""
    return np.array(read(figure, path)[0], dtype=float)


def forest_of(frame: Any, kind: str, **more: Any) -> go.Figure:
    return forest(frame, "accuracy", "graft − fine-tuned", kind, **more)


test_effects_are = facts(
    {
        "never zero in print if they differ from it": (
            lambda: effect_map(SMALL, "nll"), {"numbers/text": ["<b>+4e−4</b>", "−2e−5", "0.000"]}
        ),
        "better to the right of accuracy": (
            lambda: effect_map(frames.effects(), "accuracy"),
            {
                "cells/showscale": True, "layout.annotations.*.text": Holding("change in accuracy, points"),
                "cells/colorbar.ticktext": [f"−{100 * MOST:.1f}", "worse", "0", "better", f"+{100 * MOST:.1f}"],
            },
        ),
        "better where losses fall": (
            lambda: effect_map(frames.effects(), "nll"),
            {
                "cells/showscale": True,
                "cells/colorbar.ticktext": [f"+{MOST:.3f}", "worse", "0", "better", f"−{MOST:.3f}"],
            },
        ),
        "in their order in a forest, with control": (
            lambda: forest_of(FOUR, "part", control="random control"),
            {
                "graft − fine-tuned/x": pytest.approx(100 * FOUR["value"].to_numpy()),
                "random control/x": pytest.approx(100 * FOUR["control"].to_numpy()),
                "layout.yaxis.ticktext": FOUR["name"].tolist(),
                "layout.yaxis.tickvals.0": 0, "layout.yaxis.tickvals.-1": -3,
            },
        ),
        "named without the markup of the data": (
            lambda: forest_of(frames.comparisons(1).assign(name="<b>x</b>"), "slice"),
            {"layout.yaxis.ticktext.0": Holding(but=("<b>",))},
        ),
    }
)  # fmt: skip


def test_numbers_stand_in_their_cells_and_bold_ones_hold() -> None:
    table = frames.effects().assign(high=lambda rows: rows["value"] + 0.02)
    apart = (table["low"] > 0) | (table["high"] < 0)
    assert 0 < table["holds"].sum() < apart.sum(), "or bold could not be told from excluding zero"
    figure, by_place = effect_map(table, "accuracy"), table.set_index(["layer", "kind"])
    z, (across, down, texts) = numbers(figure), read(figure, "numbers/x", "numbers/y", "numbers/text")
    assert (z.shape, np.isfinite(z).sum(), np.isnan(z[0, 0])) == ((4, 4), len(table), True)
    for x, y, text in zip(across, down, texts, strict=True):
        row = by_place.loc[(y, KINDS[x])]
        assert (z[y, x], text.startswith("<b>")) == (100 * row["value"], row["holds"])
        assert text.strip("<b>/").replace("−", "-") in (f"{100 * row['value']:+.1f}", "0.0")


def test_lower_is_better_turns_the_colours_not_the_numbers() -> None:
    figures = [effect_map(frames.effects(), metric) for metric in ("nll", "accuracy")]
    loss, right = (numbers(figure) for figure in figures)
    np.testing.assert_allclose(-100 * loss, right)
    signs = [[text.strip("<b>")[0] for text in read(figure, "numbers/text")[0]] for figure in figures]
    assert [pair for pair in zip(*signs, strict=True) if pair[0] != pair[1] != "0"] == []


def test_the_hover_of_a_small_effect_has_its_digits() -> None:
    (rows,) = read(effect_map(SMALL, "nll"), "cells/customdata")
    assert [text for row in rows for text in row if text] == [
        Holding("+0.0004 nats<br>95%: 0.0001–0.0007"), Holding("−0.00002 nats"),
        Holding("0.000 nats<br>95%: −0.100 to 0.100"),
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["nll", "accuracy"])
def test_the_scale_is_the_same_on_both_sides_of_zero(metric: str) -> None:
    figure = effect_map(frames.effects(heads=3), metric)
    low, high, ticks = read(figure, "cells/zmin", "cells/zmax", "cells/colorbar.tickvals")
    assert -low == high == np.nanmax(np.abs(numbers(figure)))
    assert ticks == sorted(ticks) and ticks[-1] == high


def test_an_interval_of_a_forest_reaches_from_low_to_high() -> None:
    name, figure = "graft − fine-tuned", forest_of(FOUR, "part", control="random control")
    x, less, more = (numbers(figure, f"{name}/{end}") for end in ("x", "error_x.arrayminus", "error_x.array"))
    np.testing.assert_allclose([x - less, x + more], 100 * FOUR[["low", "high"]].to_numpy().T)
