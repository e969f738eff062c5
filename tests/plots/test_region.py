"""The map: enrichment by hand, cells that can be selected, empties as outlines, biases apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.region import cells, density_map
from skillviz.plots.theme import INK
from tests.plots import frames


def small() -> pd.DataFrame:
    """Two layers, two kinds and a bias: 10 of 100 entries selected."""
    table = pd.DataFrame(
        [
            (0, "query", False, 4, 20),
            (0, "query", True, 2, 5),
            (0, "MLP in", False, 0, 25),
            (1, "query", False, 2, 20),
            (1, "MLP in", False, 2, 30),
            (1, "MLP in", True, 0, 0),
        ],
        columns=["layer", "kind", "is_bias", "selected", "total"],
    )
    return table.astype({"layer": "Int64"})


def squares(figure):  # type: ignore[no-untyped-def]
    """The two traces that a click can select: filled cells and empty ones."""
    return [t for t in figure.data if t.type == "scatter" and t.mode == "markers"]


def test_enrichment_is_density_over_the_regions_density() -> None:
    table = cells(small()).set_index(["layer", "kind"])
    assert table.loc[(0, "query"), "enrichment"] == pytest.approx((4 / 20) / (10 / 100))
    assert table.loc[(0, "bias"), "enrichment"] == pytest.approx((2 / 5) / (10 / 100))
    assert table.loc[(0, "MLP in"), "enrichment"] == 0
    assert table["share"].sum() == pytest.approx(1) and table["selected"].sum() == 10


def test_biases_are_a_column_of_their_own_and_cells_without_entries_are_none() -> None:
    table = cells(small())
    assert sorted(zip(table["layer"], table["kind"], strict=True)) == [
        (0, "MLP in"), (0, "bias"), (0, "query"), (1, "MLP in"), (1, "query")
    ]  # fmt: skip
    assert density_map(small()).layout.xaxis.ticktext == ("query", "MLP in", "biases")


def test_two_parameters_of_a_cell_are_summed() -> None:
    twice = pd.concat([small(), small()])
    assert cells(twice)["selected"].sum() == 20 and len(cells(twice)) == len(cells(small()))


def test_the_selectable_cells_are_square_markers_with_layer_and_kind() -> None:
    filled, empty = squares(density_map(small()))
    assert filled.marker.symbol == "square" and filled.type == "scatter"
    assert sorted(map(tuple, filled.customdata)) == [(0, "bias"), (0, "query"), (1, "MLP in"), (1, "query")]
    assert list(map(tuple, empty.customdata)) == [(0, "MLP in")]
    assert "0 of 25 entries" in empty.hovertext[0]


def test_colours_are_doublings() -> None:
    filled, _ = squares(density_map(small()))
    by_cell = dict(zip(map(tuple, filled.customdata), filled.marker.color, strict=True))
    assert by_cell[(0, "query")] == pytest.approx(1) and by_cell[(0, "bias")] == pytest.approx(2)
    assert by_cell[(1, "query")] == pytest.approx(0)


def test_no_cell_is_minus_infinite() -> None:
    figure = density_map(frames.layers())
    heat = next(t for t in figure.data if t.type == "heatmap")
    assert not np.isinf(np.array(heat.z, float)).any() and np.isnan(np.array(heat.z, float)).any()
    assert np.isfinite(np.array(squares(figure)[0].marker.color, float)).all()
    assert np.isfinite([figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax]).all()


def test_empty_cells_are_outlined_where_they_lie() -> None:
    figure = density_map(small())
    outline = next(t for t in figure.data if t.name == "no selected entry")
    _, empty = squares(figure)
    assert np.nanmean(outline.x[:4]) == pytest.approx(empty.x[0]) and np.nanmean(outline.y[:4]) == empty.y[0]
    assert len(outline.x) == 6 * len(empty.x)


def test_heatmap_and_marks_agree_and_share_one_scale() -> None:
    figure = density_map(small())
    heat, (filled, _) = next(t for t in figure.data if t.type == "heatmap"), squares(figure)
    z = np.array(heat.z, float)
    assert [z[y, x] for x, y in zip(filled.x, filled.y, strict=True)] == list(filled.marker.color)
    assert heat.coloraxis == filled.marker.coloraxis == "coloraxis" and heat.hoverinfo == "skip"


def test_the_scale_names_the_fair_share() -> None:
    bar = density_map(small()).layout.coloraxis.colorbar
    assert dict(zip(bar.tickvals, bar.ticktext, strict=True))[0] == "1×" and "1/2×" in bar.ticktext
    assert bar.orientation == "h"
    assert [a.text for a in density_map(small()).layout.annotations] == ["density, × its fair share"]
    cividis = density_map(small()).layout.coloraxis.colorscale
    assert cividis[0][1] == "#00224e"


def test_the_first_layer_is_on_top() -> None:
    axis = density_map(frames.layers(12)).layout.yaxis
    assert axis.ticktext[0] == "0" and axis.range == (11.5, -0.5)


def test_many_layers_name_every_second_one() -> None:
    assert density_map(frames.layers(24)).layout.yaxis.ticktext[:3] == ("0", "2", "4")


def test_entries_outside_any_layer_are_a_row_of_their_own() -> None:
    table = pd.concat([small(), small().head(1).assign(layer=pd.NA, kind="other")]).astype({"layer": "Int64"})
    figure = density_map(table, chosen=(-1, "other"))
    assert figure.layout.yaxis.ticktext == ("0", "1", "none") and len(figure.layout.shapes) == 2
    assert [-1, "other"] in [list(c) for c in squares(figure)[0].customdata]


def test_the_chosen_cell_is_framed() -> None:
    frame = density_map(small(), chosen=(1, "query")).layout.shapes[-1]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-0.5, 0.5, 0.5, 1.5) and frame.line.color == INK["light"]
    assert not density_map(small(), chosen=(7, "query")).layout.shapes


def test_a_selection_leaves_the_other_cells_as_they_are() -> None:
    assert all(t.unselected.marker.opacity == 1 for t in squares(density_map(small())))


def test_an_empty_region_is_all_outlines() -> None:
    filled, empty = squares(density_map(frames.layers(empty=True)))
    assert len(filled.x) == 0 and len(empty.x) == 6 * 8
