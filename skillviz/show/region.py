"""The region page's exhibits: density by layer and kind, one tensor from near, shares and movement."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.plots.composition import movement_by_layer, shares_by_kind, shares_by_layer
from skillviz.plots.region import cells, density_map
from skillviz.plots.tensor import head_counts, tensor_map, top_lines
from skillviz.plots.theme import kind_style
from skillviz.show import alt, measures, sentences, tensors
from skillviz.show.exhibit import Exhibit, kept

WITHIN = {"region": "the whole region", "kind": "each kind's own entries"}
LINES = {"row": "Fullest rows", "column": "Fullest columns", "head": "Attention heads"}
HEIGHT = 380


@kept
def density(layers: pd.DataFrame, cell: str, theme: str) -> Exhibit:
    """The map of layers and module kinds with a frame around the chosen cell."""
    table = cells(layers)
    return Exhibit(
        name="density",
        title="Density by layer and module kind",
        figure=density_map(layers, chosen=tensors.read_cell(cell), theme=theme),
        reads="light squares hold more of the region than their share, dark ones less, empty ones nothing. Biases "
        "of all kinds are one column. A frame marks the cell that is shown from near.",
        alt=alt.density(table),
        table=table,
        words=("enrichment",),
    )


def cell_title(cell: str, table: pd.DataFrame, whole: bool = True) -> str:
    """`layer 3, value: 120 entries, 2.4 × its fair share`; in a box, where room is scarce, `layer 3, value (2.4 ×)`."""
    layer, kind = tensors.read_cell(cell)
    here = table["layer"].isna() if layer is None else (table["layer"] == layer).fillna(False)
    row = table[here.astype(bool) & (table["kind"] == kind)].iloc[0]
    where = "outside the blocks" if layer is None else f"layer {layer}"
    if not whole:
        return f"{where}, {kind_style(kind).title} ({sentences.times(row['enrichment'])})"
    held = f"{formats.counted(int(row['selected']), 'entry')}, {sentences.times(row['enrichment'])} its fair share"
    return f"{where}, {kind_style(kind).title}: {held}"


@kept
def tensor(part: tensors.Part, theme: str) -> Exhibit:
    """The selected entries of one tensor."""
    return Exhibit(
        name="tensor",
        title="Selected entries",
        figure=tensor_map(part.entries, part.rows, part.cols, theme=theme),
        reads="each dot is one chosen entry at its row and column; where there are many, blocks are counted.",
        alt=f"{formats.counted(len(part.entries), 'selected entry')} in {part.rows} by {part.cols}.",
        table=part.entries,
    )


@kept
def lines(part: tensors.Part, by: str, theme: str) -> Exhibit:
    """The rows or columns of a tensor with most selected entries, or all its attention heads."""
    if by == "head":
        figure = head_counts(part.entries, part.rows, part.cols, part.heads, axis=part.axis, theme=theme, height=HEIGHT)
    else:
        figure = top_lines(part.entries, part.rows, part.cols, axis=by, theme=theme, height=HEIGHT)
    return Exhibit(
        name="lines",
        title=LINES[by],
        figure=figure,
        reads="the number of chosen entries; the dashed line is the mean. A row of a weight is an output of the "
        "module, a column an input (the other way round in GPT-2).",
        alt=f"{LINES[by]} of the tensor by number of selected entries.",
        table=tensors.line_counts(part, by),
    )


@kept
def by_layer(layers: pd.DataFrame, within: str, theme: str) -> Exhibit:
    """The region's share in each layer, of the whole region or of each kind's own entries."""
    table = cells(layers)
    return Exhibit(
        name="by_layer",
        title=f"By layer, of {WITHIN[within]}",
        figure=shares_by_layer(layers, within=within, theme=theme),
        reads="one line a module kind, and one for all kinds together. The paper's Figure 9.",
        alt=alt.layers(measures.by_layer(table)),
        table=table,
    )


@kept
def by_kind(layers: pd.DataFrame, theme: str) -> Exhibit:
    """The region's share in each module kind."""
    table = measures.by_kind(cells(layers))
    return Exhibit(
        name="by_kind",
        title="By module kind",
        figure=shares_by_kind(layers, theme=theme, height=360),
        reads="the bar is the kind's share of the region, the tick the share it would have if the region were spread "
        "evenly. The paper's Figure 10.",
        alt=alt.kinds(table),
        table=table,
    )


@kept
def movement(layers: pd.DataFrame, theme: str) -> Exhibit:
    """How far each layer moved, and how much of that the region holds."""
    return Exhibit(
        name="movement",
        title="How far fine-tuning moved each layer",
        figure=movement_by_layer(layers, theme=theme),
        reads="above, the length of each layer's movement; below, the share of its square inside the region.",
        alt=alt.movement(layers),
        table=layers,
        words=("movement",),
    )
