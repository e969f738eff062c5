"""Tests of the map: values by hand in every cell, a fixed scale with named ends, side bars, selectable cells."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.region import (
    AROUND,
    ENOUGH,
    KINDS,
    MOST_BLOCKS,
    MUTED,
    SIDE,
    SURPLUS,
    block_counts,
    cells,
    head_map,
    region_map,
    shares_by_kind,
    shares_by_layer,
    tensor_map,
    top_lines,
)
from skillviz.plots.theme import INK, MODULE_KINDS
from tests.plots import frames


def small() -> pd.DataFrame:
    """Return two layers, two kinds and a bias: 10 of 100 entries are selected."""
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


def trace(figure, name: str):  # type: ignore[no-untyped-def]
    """Return the trace with this name."""
    return next(t for t in figure.data if t.name == name)


def shared() -> pd.DataFrame:
    """Return the same table with another region: 3 of 8 entries of the queries' weights are in both."""
    counts = {"only_a": [2, 2, 0, 1, 2, 0], "both": [2.0, 0, 0, 1, 0, 0], "only_b": [4, 0, 5, 1, 0, 0]}
    table = small().assign(**counts)
    return table.assign(expected=(table["only_a"] + table["both"]) * (table["only_b"] + table["both"]) / 30)


def test_the_density_ratio_is_density_over_the_regions_density() -> None:
    table = cells(small()).set_index(["layer", "kind"])
    assert table.loc[(0, "query"), "density_ratio"] == pytest.approx((4 / 20) / (10 / 100))
    assert table.loc[(0, "bias"), "density_ratio"] == pytest.approx((2 / 5) / (10 / 100))
    assert table.loc[(0, "MLP in"), "density_ratio"] == 0
    assert table["share"].sum() == pytest.approx(1) and table["selected"].sum() == 10


def test_biases_are_a_column_of_their_own_and_cells_without_entries_are_none() -> None:
    table = cells(small())
    assert sorted(zip(table["layer"], table["kind"], strict=True)) == [
        (0, "MLP in"), (0, "bias"), (0, "query"), (1, "MLP in"), (1, "query")
    ]  # fmt: skip
    assert region_map(small()).layout.xaxis.ticktext == ("query", "MLP in", "biases")


def test_two_parameters_of_a_cell_are_summed() -> None:
    twice = pd.concat([small(), small()])
    assert cells(twice)["selected"].sum() == 20 and len(cells(twice)) == len(cells(small()))


def test_each_cell_can_be_selected_and_says_its_layer_and_kind() -> None:
    marks = trace(region_map(small()), "cells")
    assert marks.marker.symbol == "square" and marks.unselected.marker.opacity == 1
    assert sorted(map(tuple, marks.customdata)) == [
        (0, "MLP in"), (0, "bias"), (0, "query"), (1, "MLP in"), (1, "query")
    ]  # fmt: skip
    words = dict(zip(map(tuple, marks.customdata), marks.hovertext, strict=True))
    assert "0 of 25 entries" in words[0, "MLP in"] and "2.0× the average density" in words[0, "query"]


def test_colours_are_doublings_and_every_cell_has_its_number() -> None:
    figure = region_map(small())
    z = np.array(trace(figure, "density").z, float)
    assert z[0, 0] == pytest.approx(1) and z[0, 2] == pytest.approx(2) and z[1, 0] == pytest.approx(0)
    assert np.isnan(z[0, 1]) and np.isnan(z[1, 2])
    assert list(trace(figure, "numbers").text) == ["2.0", "0", "4.0", "1.0", "0.67", ""]


def test_the_scale_is_fixed_about_the_average_and_its_ends_name_what_is_cut() -> None:
    figure = region_map(small())
    axis = figure.layout.coloraxis
    assert (axis.cmin, axis.cmax) == (-3, 3)
    assert axis.colorbar.ticktext == ("1/8×", "1/2×", "1×", "2×", "8×")
    far = pd.concat([small(), small().head(1).assign(layer=2, selected=20, total=20_000)]).astype({"layer": "Int64"})
    ends = region_map(far).layout.coloraxis.colorbar.ticktext
    assert ends[-1].startswith("8–") and ends[0] != ends[-1]
    values = cells(far)["density_ratio"]
    assert values.max() > 8 and f"{values.max():,.0f}×" in ends[-1]


@pytest.mark.parametrize(("selected", "words"), [(34, "0.03"), (1, "<0.01"), (994, "1.0"), (9_940, "9.9"), (0, "0")])
def test_a_ratio_takes_few_signs(selected: int, words: str) -> None:
    """The cell has a million of 1,000 million entries, and 1 in 1,000 entries is selected."""
    rows = [(0, "query", False, selected, 10**6), (0, "key", False, 999_000, 999 * 10**6)]
    table = pd.DataFrame(rows, columns=["layer", "kind", "is_bias", "selected", "total"]).astype({"layer": "Int64"})
    assert trace(region_map(table), "numbers").text[0] == words


def test_no_cell_is_minus_infinite() -> None:
    heat = trace(region_map(frames.layers()), "density")
    assert not np.isinf(np.array(heat.z, float)).any() and np.isnan(np.array(heat.z, float)).any()


def test_empty_cells_are_outlined_where_they_lie() -> None:
    outline = trace(region_map(small()), "no selected entry")
    assert np.nanmean(outline.x[:4]) == pytest.approx(1) and np.nanmean(outline.y[:4]) == pytest.approx(0)
    assert len(outline.x) == 6


def test_bars_at_the_sides_are_shares_with_a_mark_for_an_even_spread() -> None:
    figure = region_map(small())
    above, beside = trace(figure, "by module"), trace(figure, "by layer")
    assert dict(zip(above.x, above.y, strict=True)) == pytest.approx({0: 60, 1: 20, 2: 20})
    assert list(beside.x) == pytest.approx([60, 40]) and (above.yaxis, beside.xaxis) == ("y2", "x2")
    marks = [t for t in figure.data if t.name == "if it were spread evenly"]
    assert list(marks[1].x) == pytest.approx([50, 50])


def test_without_bars_at_its_sides_the_map_fills_the_figure() -> None:
    figure = region_map(small(), sides=False)
    assert not {trace.name for trace in figure.data} & {"by module", "by layer", "if it were spread evenly"}
    assert figure.layout.xaxis.title.text == "module" and figure.layout.xaxis.domain is None
    assert list(trace(figure, "numbers").text) == list(trace(region_map(small()), "numbers").text)


def test_movement_adds_up_in_squares() -> None:
    moved = small().head(4).assign(
        movement_l2=[3.0, 1.0, 4.0, 2.0], movement_l2_selected=[3.0, 1.0, 0.0, 1.0]
    ).astype({"layer": "Int64"})  # fmt: skip
    held = cells(moved, ("layer",))["movement_share"]
    assert list(held) == pytest.approx([10 / 26, 1 / 4])
    assert list(held) != pytest.approx([4 / 8, 1 / 2]), "lengths that were simply added would be caught"
    still = cells(moved.assign(movement_l2=0.0, movement_l2_selected=0.0))["movement_share"]
    assert still.isna().all()
    assert trace(region_map(moved, view="movement"), "numbers").text[0] == "100"


def test_two_regions_are_compared_cell_by_cell() -> None:
    table = cells(shared()).set_index(["layer", "kind"])
    assert table.loc[(0, "query"), "iou"] == pytest.approx(2 / 8)
    expected = 4 * 6 / 30
    assert table.loc[(0, "query"), "chance"] == pytest.approx(expected / (4 + 6 - expected))
    figure = region_map(shared(), view="overlap", names=("mine", "theirs"))
    bars = [trace(figure, name) for name in ("only mine", "both", "only theirs")]
    place = [tuple(c) for c in trace(figure, "cells").customdata].index((0, "query"))
    lengths = [bar.x[place] for bar in bars]
    assert lengths == pytest.approx([0.84 * n / 8 for n in (2, 2, 4)])
    assert bars[1].base[place] == pytest.approx(bars[0].base[place] + lengths[0])
    assert "2 only mine, 2 both, 4 only theirs" in trace(figure, "cells").hovertext[place]


def test_an_unknown_view_is_named() -> None:
    with pytest.raises(ValueError, match="view='depth' is not known; it is one of density, share"):
        region_map(small(), view="depth")
    with pytest.raises(ValueError, match="no column 'only_a'"):
        region_map(small(), view="overlap")


def test_the_first_layer_is_on_top() -> None:
    axis = region_map(frames.layers(12)).layout.yaxis
    assert axis.ticktext[0] == "0" and axis.range == (11.5, -0.5)


def test_many_layers_name_every_second_one() -> None:
    assert region_map(frames.layers(24)).layout.yaxis.ticktext[:3] == ("0", "2", "4")


def test_entries_outside_any_layer_are_a_row_of_their_own() -> None:
    table = pd.concat([small(), small().head(1).assign(layer=pd.NA, kind="other")]).astype({"layer": "Int64"})
    figure = region_map(table, chosen=(-1, "other"))
    assert figure.layout.yaxis.ticktext == ("0", "1", "none") and len(figure.layout.shapes) == 2
    assert [-1, "other"] in [list(c) for c in trace(figure, "cells").customdata]


def test_the_chosen_cell_is_framed() -> None:
    frame = region_map(small(), chosen=(1, "query")).layout.shapes[-1]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-0.5, 0.5, 0.5, 1.5) and frame.line.color == INK["light"]
    assert not region_map(small(), chosen=(7, "query")).layout.shapes


def test_an_empty_region_is_all_outlines() -> None:
    figure = region_map(frames.layers(empty=True))
    assert len(trace(figure, "no selected entry").x) == 6 * 8 * 6
    assert set(trace(figure, "numbers").text) == {"0"}


@pytest.mark.parametrize("layers", [6, 8, 12])
def test_a_map_of_a_base_model_fits_a_small_window_below_the_page_s_head(layers: int) -> None:
    """At 1280x720 the map starts at 260 pixels."""
    assert region_map(frames.layers(layers)).layout.height <= 720 - 270


def test_cells_stay_tall_enough_for_their_numbers() -> None:
    heights = {layers: region_map(frames.layers(layers)).layout.height for layers in (2, 12, 24)}
    assert heights[24] - (SIDE + AROUND) == 24 * 18 and heights[2] - (SIDE + AROUND) == 2 * 40
    assert min(trace(region_map(frames.layers(24)), "numbers").textfont.size, 10) == 10


def test_what_suffices_is_in_full_ink_and_the_surplus_in_grey() -> None:
    figure = region_map(frames.minimal_layers(), view="minimal", names=(SURPLUS, ENOUGH), sides=False)
    bars = {one.name: one for one in figure.data if one.type == "bar"}
    assert list(bars) == [ENOUGH, SURPLUS]
    assert (bars[ENOUGH].marker.color, bars[SURPLUS].marker.color) == (INK["light"], MUTED["light"])
    rows = cells(frames.minimal_layers())
    lengths = np.array([bars[name].x for name in bars]).sum(axis=0)
    assert lengths[rows["selected"] > 0] == pytest.approx(0.84)
    assert "surplus" in trace(figure, "cells").hovertext[0] and "IoU" not in trace(figure, "cells").hovertext[0]


def test_roles_are_the_share_of_the_regions_in_each_cell() -> None:
    figure = region_map(frames.roles(), view="roles", sides=False)
    shown = trace(figure, "roles").z
    assert set(np.unique(shown[~np.isnan(shown)]).round(2)) == {0.33, 0.67, 1.0}
    assert any("denser here than on average" in note.text for note in figure.layout.annotations)


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


@pytest.mark.parametrize(("rows", "cols"), [(384, 384), (3072, 768), (97, 1000), (1, 5000), (7, 5)])
def test_blocks_hold_every_entry_once(rows: int, cols: int) -> None:
    entries = frames.entries(min(2000, rows * cols // 2), rows, cols)
    counts, tall, wide = block_counts(entries, rows, cols)
    slow = np.zeros_like(counts)
    for row, col in zip(entries["row"], entries["col"], strict=True):
        slow[row // tall][col // wide] += 1
    assert (counts == slow).all() and counts.sum() == len(entries)
    assert max(counts.shape) <= MOST_BLOCKS and counts.shape[0] * tall >= rows and counts.shape[1] * wide >= cols


def test_blocks_lie_over_their_rows_and_columns() -> None:
    entries = frames.entries(2000, 384, 384)
    (heat,) = tensor_map(entries, 384, 384).data
    assert heat.type == "heatmap" and np.nansum(heat.z) == 2000
    assert (heat.dx, heat.x0, heat.dy, heat.y0) == (4, 1.5, 4, 1.5)
    assert not (np.array(heat.z) == 0).any()  # an empty block shows the background


def test_few_entries_are_a_dot_each() -> None:
    entries = frames.entries(400)
    (dots,) = tensor_map(entries, 384, 384).data
    assert list(dots.x) == list(entries["col"]) and list(dots.y) == list(entries["row"])


def test_row_zero_is_on_top_and_the_whole_tensor_is_shown() -> None:
    layout = tensor_map(frames.entries(400, 100, 200), 100, 200).layout
    assert layout.yaxis.range == (99.5, -0.5) and layout.xaxis.range == (-0.5, 199.5)
    assert layout.xaxis.title.text == "column, index (of 200)"


def test_a_vector_is_a_strip() -> None:
    figure = tensor_map(frames.entries(60, 1, 384), 1, 384)
    assert figure.layout.height == 170 and figure.data[0].marker.symbol == "line-ns"


@pytest.mark.parametrize(("row", "col"), [(-1, 0), (0, -1), (4, 0), (0, 6)])
def test_entries_outside_the_tensor_are_refused(row: int, col: int) -> None:
    with pytest.raises(ValueError, match="1 lie outside the tensor of 4 x 6"):
        tensor_map(pd.DataFrame({"row": [0, row], "col": [0, col]}), 4, 6)


def few() -> pd.DataFrame:
    return pd.DataFrame({"row": [2, 2, 0, 3, 3, 1], "col": [0, 5, 1, 1, 2, 1]})


def test_top_rows_most_first_ties_by_index() -> None:
    bars = top_lines(few(), 4, 6, top=3).data[0]
    assert list(bars.y) == ["2", "3", "0"] and list(bars.x) == [2, 2, 1]


def test_top_columns_leave_out_those_without_entries() -> None:
    figure = top_lines(few(), 4, 6, axis="column")
    bars, mean = figure.data
    assert list(bars.y) == ["1", "0", "2", "5"] and list(bars.x) == [3, 1, 1, 1]
    assert mean.name == "mean, 1" and figure.layout.shapes[0].x0 == 1
    assert figure.layout.yaxis.title.text == "column, index"


def test_the_first_bar_is_on_top() -> None:
    assert top_lines(few(), 4, 6).layout.yaxis.categoryarray == ("1", "0", "3", "2")


def test_heads_stand_in_their_layer_and_the_chosen_layer_has_a_frame() -> None:
    table = pd.DataFrame({"layer": [1, 1, 2, 2], "head": [0, 1, 0, 1], "selected": [5, 0, 2, 7]})
    figure = head_map(table, chosen=2)
    heat, words = figure.data
    assert heat.z.tolist() == [[5, 0], [2, 7]] and list(words.text) == ["5", "0", "2", "7"]
    assert heat.customdata[1][0] == "layer 2, head 0: 2 entries"
    assert (figure.layout.shapes[0].y0, figure.layout.shapes[0].y1) == (0.5, 1.5)
    assert not head_map(table, chosen=7).layout.shapes


@pytest.mark.parametrize("axis", ["rows", "col"])
def test_an_unknown_axis_is_named(axis: str) -> None:
    with pytest.raises(ValueError, match="it is 'row' or 'column'"):
        top_lines(few(), 4, 6, axis=axis)
