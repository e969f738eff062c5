"""The map of a region's parts: a number a part, bold where it is apart from zero, ochre for better."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.plots.forest import forest
from skillviz.plots.part_effects import effect_map
from tests.plots import frames


def traces(figure, name: str):
    return next(trace for trace in figure.data if trace.name == name)


def test_numbers_stand_in_their_cells_and_bold_ones_exclude_zero() -> None:
    table = frames.effects()
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
        assert text.startswith("<b>") == (row["low"] > 0 or row["high"] < 0)


def test_lower_is_better_turns_the_colours_not_the_numbers() -> None:
    table = frames.effects()
    loss, right = effect_map(table, "nll"), effect_map(table, "accuracy")
    a, b = (np.asarray(traces(figure, "cells").z, dtype=float) for figure in (loss, right))
    assert np.allclose(-100 * a, b, equal_nan=True)
    signs = [[text.strip("<b>")[0] for text in traces(figure, "numbers").text] for figure in (loss, right)]
    assert all(one == other or other == "0" for one, other in zip(*signs, strict=True))


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
