"""The location of a region: the map of layers and kinds, one cell's tensors and selected entries, and the exhibits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.composition import shared_composition
from skillviz.core.overlap import matched_chance
from skillviz.core.parameters import BIAS, Parameter, ParameterTable, head_numbers, heads_of_kind
from skillviz.core.region import Region
from skillviz.core.stability import stability
from skillviz.plots import region as plots
from skillviz.plots.region import cells, head_map, tensor_map, top_lines
from skillviz.plots.theme import kind_style
from skillviz.runs.record import RunRecord
from skillviz.runs.run import parameter_table
from skillviz.show import alt, sentences
from skillviz.show.exhibit import Exhibit, drawn_once

OUTSIDE = -1
TITLES = {
    "density": "Density by layer and module",
    "share": "Share of the region by layer and module",
    "movement": "Movement held by layer and module",
    "stability": "Stability across seeds, by layer and module",
    "overlap": "Shared entries by layer and module",
    "minimal": "Smallest sufficient part by layer and module",
}
READS = {
    "density": "1 is the average density of the region: 2 means twice as many entries as if they were spread evenly. "
    "Biases of all modules are one column.",
    "share": "all cells together are 100%. The paper's Figures 9 and 10 are the bars on top and at the right.",
    "movement": "of the squared distance that fine-tuning moved the cell's parameters, the part inside the region.",
    "stability": "of the entries that either of two seeds' regions has in the cell, the part that both have.",
    "overlap": "the bar in a cell is divided into entries of this region alone, of both, and of the other alone; the "
    "number is the part that both have.",
    "minimal": "the bar in a cell is the smallest sufficient part in full ink, then the surplus in grey; the number is "
    "the percentage of the cell's entries that suffice.",
}
LINES = {"row": "Fullest rows", "column": "Fullest columns"}
HEIGHT = 380


@dataclass(frozen=True)
class Part:
    """A tensor's entries of one kind: selected `entries` (row, col) among `rows` x `cols`.

    `heads` is the number of its attention heads; 0 if the tensor has none.
    """

    parameter: str
    kind: str
    entries: pd.DataFrame
    rows: int
    cols: int
    heads: int = 0


class Cell(NamedTuple):
    """A square of the map: a layer, None outside the blocks, and a module kind."""

    layer: int | None
    kind: str

    @property
    def key(self) -> str:
        """The cell in the URL: `3 · value`; layer -1 is outside the blocks."""
        return f"{OUTSIDE if self.layer is None else self.layer} · {self.kind}"

    def in_layer(self, rows: pd.DataFrame) -> pd.Series:
        """True for the rows of the cell's layer."""
        same = rows["layer"].isna() if self.layer is None else rows["layer"] == self.layer
        return same.fillna(False).astype(bool)


def fullest_cells(cells: pd.DataFrame) -> list[Cell]:
    """All cells of `plots.region.cells`, most selected entries first."""
    ordered = cells.sort_values("selected", ascending=False, kind="stable")
    return list(map(_cell, ordered["layer"], ordered["kind"]))


def _cell(layer: float, kind: str) -> Cell:
    return Cell(None if pd.isna(layer) else int(layer), kind)


def cell_tensors(layers: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """The rows of layers.parquet that make up a cell, most selected entries first."""
    fits = layers["is_bias"] if cell.kind == BIAS else (layers["kind"] == cell.kind) & ~layers["is_bias"]
    return layers[cell.in_layer(layers) & fits].sort_values("selected", ascending=False, kind="stable")


def tensor_table(layers: pd.DataFrame) -> pd.DataFrame:
    """One row per tensor, or part of a fused one, most selected entries first.

    Columns: parameter, layer, kind, selected, total, share (of the region), density_ratio, and, if known,
    movement_share (of the tensor's squared movement).
    """
    selected, total = layers["selected"].sum(), layers["total"].sum()
    table = layers[["parameter", "layer", "kind", "selected", "total"]].assign(
        share=layers["selected"] / max(selected, 1),
        density_ratio=layers["selected"] / layers["total"].clip(lower=1) * (total / max(selected, 1)),
    )
    if "movement" in views_of(layers):
        table["movement_share"] = layers["movement_l2_selected"] ** 2 / (layers["movement_l2"] ** 2).where(
            layers["movement_l2"] > 0
        )
    return table.sort_values("selected", ascending=False, kind="stable", ignore_index=True)


def tensor_expression(run_id: str, row: pd.Series) -> dict[str, Any]:
    """The region expression for the run's entries in one row of `tensor_table`."""
    return {"intersection": [{"run": run_id}, {"parameters": [row["parameter"]], "kinds": [row["kind"]]}]}


def tensor_names(rows: pd.DataFrame) -> list[str]:
    """The parameters of a cell's rows; a part of a fused tensor is named with its kind."""
    fused = rows["parameter"].duplicated(keep=False)
    return [f"{p} [{k}]" if f else p for p, k, f in zip(rows["parameter"], rows["kind"], fused, strict=True)]


def part(region: Region, record: RunRecord, parameter: str, kind: str) -> Part:
    """The selected entries of one parameter, or of its part of this kind if it holds several."""
    table = parameter_table(record, region)
    whole = next(p for p in table.parameters if p.name == parameter)
    flat = region.indices.get(parameter, np.empty(0, dtype=np.int64))
    rows, cols = whole.rows, whole.cols
    row, col = flat // max(cols, 1), flat % max(cols, 1)
    if whole.fused is not None:
        rows, cols, row, col = _fused_part(whole, flat, kind)
    heads = 0 if whole.is_bias else heads_of_kind(table, whole, kind)
    entries = pd.DataFrame({"row": row.astype(np.int64), "col": col.astype(np.int64)})
    return Part(parameter, kind, entries, rows, cols, heads)


def line_kinds(part: Part) -> list[str]:
    """The lines by which the entries can be counted: `row`, `column`, `head`, if the tensor has them."""
    return (["row"] if part.rows > 1 else []) + ["column"] + (["head"] if part.heads else [])


def line_counts(part: Part, by: str) -> pd.DataFrame:
    """Selected entries by `row` or `column`, most first; lines without any are left out."""
    counts = (
        part.entries["col" if by == "column" else "row"].value_counts().rename_axis(by).reset_index(name="selected")
    )
    return counts.sort_values(["selected", by], ascending=[False, True], ignore_index=True)


def head_table(region: Region, table: ParameterTable, kind: str) -> pd.DataFrame:
    """Selected entries of this kind's weights by layer and attention head: layer, head, selected."""
    none = np.empty(0, dtype=np.int64)
    rows = []
    for parameter in table.parameters:
        if kind not in parameter.kinds or parameter.is_bias:
            continue
        flat = region.indices.get(parameter.name, none)
        of_kind = flat[parameter.kind_numbers(flat) == parameter.kinds.index(kind)]
        if number := heads_of_kind(table, parameter, kind):
            counts = np.bincount(head_numbers(table, parameter, of_kind), minlength=number)
            rows += [(parameter.layer, head, int(count)) for head, count in enumerate(counts)]
    return pd.DataFrame(rows, columns=["layer", "head", "selected"])


def _fused_part(whole: Parameter, flat: np.ndarray, kind: str) -> tuple[int, int, np.ndarray, np.ndarray]:
    """Rows, columns and positions of the entries of `kind`, counted within the part."""
    assert whole.fused is not None
    axis, number = whole.fused.axis, whole.kinds.index(kind)
    is_of_kind = whole.fused.kind_numbers(whole.shape) == number
    numbers = np.cumsum(is_of_kind) - 1
    places = [np.asarray(place) for place in np.unravel_index(flat, whole.shape)]
    inside = is_of_kind[places[axis]]
    places = [place[inside] for place in places]
    places[axis] = numbers[places[axis]]
    shape = whole.part_shape(number)
    rows = shape[0] if len(shape) > 1 else 1
    cols = prod(shape) // rows
    together = np.ravel_multi_index(places, shape) if len(places[0]) else np.empty(0, dtype=np.int64)
    return rows, cols, together // cols, together % cols


@drawn_once
def region_map(
    layers: pd.DataFrame,
    view: str,
    cell: Cell | None,
    theme: str,
    names: tuple[str, str] = ("A", "B"),
    height: int | None = None,
) -> Exhibit:
    """The map of layers and modules in one of `plots.region.VIEWS`, with a frame around the chosen cell.

    `layers` has the columns that the view needs; `names` are the names of two compared regions.
    """
    table = cells(layers)
    return Exhibit(
        name=view,
        title=TITLES[view],
        figure=plots.region_map(layers, view=view, chosen=cell, names=names, theme=theme, height=height),
        reads=READS[view],
        alt=alt.region_map(table, view),
        table=table,
        words={"density": ("density",), "movement": ("movement",), "stability": ("seed",)}.get(view, ()),
    )


def views_of(layers: pd.DataFrame) -> list[str]:
    """The views of a single region for which its table has the columns."""
    has_moved = {"movement_l2", "movement_l2_selected"} <= set(layers) and layers["movement_l2_selected"].notna().any()
    return ["density", "share", *(["movement"] if has_moved else [])]


def shared_layers(layers: pd.DataFrame, pairs: Sequence[tuple[Region, Region]], record: RunRecord) -> pd.DataFrame:
    """The run's table of layers with the entries that the two regions of each pair share, on average over the pairs."""
    shared = shared_composition(pairs, parameter_table(record, pairs[0][0]))
    return layers.merge(shared, on=["parameter", "kind"], how="left", validate="1:1")


def comparison(one: Region, other: Region) -> str:
    """The share of entries that two regions of one model have in common, compared with chance."""
    if not len(one) + len(other):
        return "Both regions are empty."
    both = len(one & other)
    only = [formats.count(len(region) - both) for region in (one, other)]
    chance = formats.by_chance(*matched_chance([(one, other)], "iou"))
    counts = f"{only[0]} parameters only here, {formats.count(both)} in both, {only[1]} only there."
    return f"**IoU {formats.percent(one.iou(other))}**; by chance {chance}. {counts}"


def seeds_agreement(regions: Sequence[Region]) -> str:
    """The agreement of the regions of several mask seeds, compared with chance."""
    shared = stability(regions)
    interval = "" if np.isnan(shared.low) else f" ({formats.percent_interval(shared.low, shared.high)})"
    agreement = f"Mean IoU of **{shared.n} seeds**: **{formats.percent(shared.iou)}**{interval}"
    return f"{agreement}; by chance {formats.by_chance(*shared.chance)}."


def cell_title(cell: Cell, table: pd.DataFrame) -> str:
    """`layer 3, value: 120 entries, 2.4 × the average density`."""
    row = table[cell.in_layer(table) & (table["kind"] == cell.kind)].iloc[0]
    density_words = (
        f"{formats.counted(int(row['selected']), 'entry')}, {sentences.times(row['density_ratio'])} the average density"
    )
    return f"{_place(cell)}: {density_words}"


def cell_titles(table: pd.DataFrame) -> dict[Cell, str]:
    """Each cell of `plots.region.cells` as a label in a select box: `layer 3, value (2.4 ×)`."""
    cells = map(_cell, table["layer"], table["kind"])
    ratios = zip(cells, table["density_ratio"], strict=True)
    return {cell: f"{_place(cell)} ({sentences.times(ratio)})" for cell, ratio in ratios}


def _place(cell: Cell) -> str:
    layer = "outside the blocks" if cell.layer is None else f"layer {cell.layer}"
    return f"{layer}, {kind_style(cell.kind).title}"


@drawn_once
def tensor(part: Part, theme: str) -> Exhibit:
    """The selected entries of one tensor."""
    return Exhibit(
        name="tensor",
        title="Selected entries",
        figure=tensor_map(part.entries, part.rows, part.cols, theme=theme),
        reads="each dot is one chosen entry at its row and column; where there are many, blocks are counted.",
        alt=f"{formats.counted(len(part.entries), 'selected entry')} in {part.rows} by {part.cols}.",
        table=part.entries,
        of=part.parameter,
    )


@drawn_once
def lines(part: Part, by: str, theme: str) -> Exhibit:
    """The rows or columns of a tensor with the most selected entries."""
    figure = top_lines(part.entries, part.rows, part.cols, axis=by, theme=theme, height=HEIGHT)
    counts = line_counts(part, by)
    return Exhibit(
        name="lines",
        title=LINES[by],
        figure=figure,
        reads="the number of chosen entries; the dashed line is the mean. A row of a weight is an output of the "
        "module, a column an input (the other way round in GPT-2).",
        alt=_fullest(counts, by),
        table=counts,
        of=part.parameter,
    )


def _fullest(counts: pd.DataFrame, by: str) -> str:
    """The first of `line_counts` in words."""
    if counts.empty:
        return f"{LINES[by]} of the tensor: no selected entries."
    number, selected = counts.iloc[0]
    return f"{LINES[by]} of the tensor; the fullest is {by} {number} with {formats.counted(int(selected), 'entry')}."


def close_up(region: Region, record: RunRecord, part: Part, layer: int | None, by: str, theme: str) -> Exhibit:
    """The part's lines of one kind of `line_kinds`; heads are shown for all layers."""
    if by != "head":
        return lines(part, by, theme)
    return heads(head_table(region, parameter_table(record, region), part.kind), layer, part.kind, theme)


@drawn_once
def heads(table: pd.DataFrame, layer: int | None, kind: str, theme: str) -> Exhibit:
    """A module's selected entries by layer and attention head, the chosen layer framed."""
    best = table.nlargest(3, "selected")
    words = [f"layer {n} head {h} {formats.count(int(s))}" for n, h, s in best.itertuples(index=False)]
    return Exhibit(
        name="heads",
        title="Attention heads",
        figure=head_map(table, chosen=layer, theme=theme),
        reads=f"selected entries of each head's part of the {kind_style(kind).title} weights, in all layers.",
        alt=f"Selected entries by layer and attention head; most: {', '.join(words)}.",
        table=table,
        of=kind_style(kind).title,
    )
