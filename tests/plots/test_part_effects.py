"""Tests of the map of a region's parts: a number per part, bold if it holds among all comparisons, ochre for better."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.plots.forest import forest
from skillviz.plots.part_effects import effect_map
from tests.plots import frames


def traces(figure, name: str):
    return next(trace for trace in figure.data if trace.name == name)


def test_numbers_stand_in_their_cells_and_bold_ones_hold() -> None:
    table = frames.effects().assign(high=lambda rows: rows["value"] + 0.02)
    apart = (table["low"] > 0) | (table["high"] < 0)
    assert 0 < table["holds"].sum() < apart.sum(), "or bold could not be told from excluding zero"
    figure = effect_map(table, "accuracy")
    z = np.asarray(traces(figure, "cells").z, dtype=float)
    assert np.isnan(z[0, 0]) and np.isfinite(z).sum() == len(table) and z.shape == (4, 4)
    for (x, y), text in zip(
        zip(traces(figure, "numbers").x, traces(figure, "numbers").y, strict=True),
        traces(figure, "numbers").text,
        strict=True,
    ):
        kind = ("query", "value", "MLP in", "bias")[x]
        row = table[(table["layer"] == y) & (table["kind"] == kind)].iloc[0]
        assert z[y, x] == 100 * row["value"]
        assert text.strip("<b>/").replace("−", "-") in (f"{100 * row['value']:+.1f}", "0.0")
        assert text.startswith("<b>") == row["holds"]


def test_lower_is_better_turns_the_colours_not_the_numbers() -> None:
    table = frames.effects()
    loss, right = effect_map(table, "nll"), effect_map(table, "accuracy")
    a, b = (np.asarray(traces(figure, "cells").z, dtype=float) for figure in (loss, right))
    assert np.allclose(-100 * a, b, equal_nan=True)
    signs = [[text.strip("<b>")[0] for text in traces(figure, "numbers").text] for figure in (loss, right)]
    assert all(one == other or other == "0" for one, other in zip(*signs, strict=True))


def test_no_part_apart_from_zero_is_written_as_zero() -> None:
    table = frames.effects().head(3)
    table = table.assign(value=[0.0004, -0.00002, 0.0002], low=[0.0001, -0.00003, -0.1], high=[0.0007, -0.00001, 0.1])
    figure = effect_map(table.assign(holds=[True, False, False]), "nll")
    assert traces(figure, "numbers").text == ("<b>+4e−4</b>", "−2e−5", "0.000")
    hovers = [text for row in traces(figure, "cells").customdata for text in row if text]
    assert "+0.0004 nats<br>95%: 0.0001–0.0007" in hovers[0] and "−0.00002 nats" in hovers[1]
    assert "0.000 nats<br>95%: −0.100 to 0.100" in hovers[2]


def test_the_colour_bar_says_which_side_is_better() -> None:
    table = frames.effects()
    most = table["value"].abs().max()
    for metric, ends in (
        ("nll", (f"+{most:.3f}", f"−{most:.3f}")),
        ("accuracy", (f"−{100 * most:.1f}", f"+{100 * most:.1f}")),
    ):
        figure = effect_map(table, metric)
        bar = traces(figure, "cells").colorbar
        assert traces(figure, "cells").showscale and list(bar.ticktext) == [ends[0], "worse", "0", "better", ends[1]]
        assert list(bar.tickvals) == sorted(bar.tickvals) and bar.tickvals[-1] == traces(figure, "cells").zmax
    assert any("change in accuracy, points" in note.text for note in figure.layout.annotations)


def test_the_scale_is_the_same_on_both_sides_of_zero() -> None:
    cells = traces(effect_map(frames.effects(heads=3), "accuracy"), "cells")
    assert cells.zmin == -cells.zmax and cells.zmax == np.nanmax(np.abs(np.asarray(cells.z, dtype=float)))


def test_a_forest_keeps_order_interval_and_control() -> None:
    table = frames.comparisons(4)
    figure = forest(table, "accuracy", "graft − fine-tuned", "part", control="random control")
    mark, control = traces(figure, "graft − fine-tuned"), traces(figure, "random control")
    assert np.allclose(mark.x, 100 * table["value"]) and np.allclose(control.x, 100 * table["control"])
    assert np.allclose(np.asarray(mark.x) - np.asarray(mark.error_x.arrayminus), 100 * table["low"])
    assert np.allclose(np.asarray(mark.x) + np.asarray(mark.error_x.array), 100 * table["high"])
    assert list(figure.layout.yaxis.ticktext) == table["name"].tolist()
    assert figure.layout.yaxis.tickvals[0] == 0 and figure.layout.yaxis.tickvals[-1] == -3


def test_names_of_the_data_are_no_markup() -> None:
    table = frames.comparisons(1).assign(name="<b>x</b>")
    figure = forest(table, "accuracy", "a − b", "slice")
    assert "<b>" not in figure.layout.yaxis.ticktext[0] and isinstance(table, pd.DataFrame)
