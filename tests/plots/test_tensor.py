"""Tests of one tensor: blocks hold every entry once; rows, columns and heads are counted like in a slow loop."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.region import MOST_BLOCKS, block_counts, head_map, tensor_map, top_lines
from tests.plots import frames


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
