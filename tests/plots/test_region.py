"""Tests of the maps of a region: values by hand in every cell, a fixed scale with named ends, side bars, selectable
cells; and a number per part, bold if it holds among all comparisons."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.forest import forest
from skillviz.plots.part_effects import effect_map
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
from tests.core.by_hand import by_hand, near, refused
from tests.plots import frames
from tests.plots.facts import Between, Holding, Of, facts, read

NAN = pytest.approx(float("nan"), nan_ok=True)
PLACES = [[0, "MLP in"], [0, "bias"], [0, "query"], [1, "MLP in"], [1, "query"]]
HEADS = pd.DataFrame({"layer": [1, 1, 2, 2], "head": [0, 1, 0, 1], "selected": [5, 0, 2, 7]})
FEW = pd.DataFrame({"row": [2, 2, 0, 3, 3, 1], "col": [0, 5, 1, 1, 2, 1]})


def small(**changes: object) -> pd.DataFrame:
    """Return two layers, two kinds and a bias: 10 of 100 entries are selected."""
    return pd.DataFrame(
        [
            (0, "query", False, 4, 20),
            (0, "query", True, 2, 5),
            (0, "MLP in", False, 0, 25),
            (1, "query", False, 2, 20),
            (1, "MLP in", False, 2, 30),
            (1, "MLP in", True, 0, 0),
        ],
        columns=["layer", "kind", "is_bias", "selected", "total"],
    ).assign(**changes).astype({"layer": "Int64"})  # fmt: skip


# The same table with another region: 3 of 8 entries of the queries' weights are in both.
SHARED = small(only_a=[2, 2, 0, 1, 2, 0], both=[2.0, 0, 0, 1, 0, 0], only_b=[4, 0, 5, 1, 0, 0]).assign(
    expected=lambda rows: (rows["only_a"] + rows["both"]) * (rows["only_b"] + rows["both"]) / 30
)


def of_a_million(selected: int) -> pd.DataFrame:
    """Return a cell of a million of 1,000 million entries; 1 in 1,000 entries is selected."""
    return small().head(2).assign(
        kind=["query", "key"], is_bias=False, selected=[selected, 999_000], total=[10**6, 999 * 10**6]
    )  # fmt: skip


def with_another(**changes: object) -> pd.DataFrame:
    """Return the small table with its first row once more, changed."""
    return pd.concat([small(), small().head(1).assign(**changes)]).astype({"layer": "Int64"})


def moved(scale: float = 1.0) -> pd.DataFrame:
    """Return four cells with movement; 10 of its 26 squares in the first layer are selected."""
    lengths, held = np.multiply([[3.0, 1.0, 4.0, 2.0], [3.0, 1.0, 0.0, 1.0]], scale)
    return small().head(4).assign(movement_l2=lengths, movement_l2_selected=held)


def kinds_of_numbers(rows: list[list[float]]) -> set[str]:
    values = np.array(rows, float)
    return {*np.select([np.isnan(values), np.isinf(values)], ["missing", "infinite"], "finite").ravel()}


test_a_figure_of_a_region_shows = facts(
    {
        "the layer and the kind of each cell that can be selected": (
            lambda: region_map(small()),
            {
                "cells/customdata": PLACES, "cells/marker.symbol": "square", "cells/unselected.marker.opacity": 1,
                "cells/hovertext.0": Holding("0 of 25 entries"),
                "cells/hovertext.2": Holding("2.0× the average density"),
                "layout.xaxis.ticktext": ["query", "MLP in", "biases"],
            },
        ),
        "doublings as colours, nothing where no entry is, and a number in every cell": (
            lambda: region_map(small()),
            {
                "density/z.0": [pytest.approx(1), NAN, pytest.approx(2)],
                "density/z.1": [pytest.approx(0), pytest.approx(np.log2(2 / 3)), NAN],
                "numbers/text": ["2.0", "0", "4.0", "1.0", "0.67", ""],
            },
        ),
        "a scale fixed about the average": (
            lambda: region_map(small()),
            {
                "layout.coloraxis.cmin": -3, "layout.coloraxis.cmax": 3,
                "layout.coloraxis.colorbar.ticktext": ["1/8×", "1/2×", "1×", "2×", "8×"],
            },
        ),
        "what the scale cuts, by name at its ends": (
            lambda: region_map(with_another(layer=2, selected=20, total=20_000)),
            {
                "layout.coloraxis.colorbar.ticktext.4": Holding(
                    "8–", f"{cells(with_another(layer=2, selected=20, total=20_000))['density_ratio'].max():,.0f}×"
                )
            },
        ),
        "outlines of empty cells where they lie": (
            lambda: region_map(small()),
            {
                "no selected entry/x": pytest.approx([0.55, 1.45, 1.45, 0.55, 0.55, np.nan], nan_ok=True),
                "no selected entry/y": pytest.approx([-0.4, -0.4, 0.4, 0.4, -0.4, np.nan], nan_ok=True),
            },
        ),
        "shares at its sides, with a mark for an even spread": (
            lambda: region_map(small()),
            {
                "by module/x": [1, 2, 0], "by module/y": pytest.approx([20, 20, 60]), "by module/yaxis": "y2",
                "by layer/x": pytest.approx([60, 40]), "by layer/xaxis": "x2",
                "if it were spread evenly/1.x": pytest.approx([50, 50]),
            },
        ),
        "only the map without bars at its sides": (
            lambda: region_map(small(), sides=False),
            {
                "data.*.name": ["density", "no selected entry", "numbers", "cells"],
                "layout.xaxis.title.text": "module", "layout.xaxis.domain": None,
                "numbers/text": ["2.0", "0", "4.0", "1.0", "0.67", ""],
            },
        ),
        **{
            f"a ratio in few signs: {words}": (
                lambda selected=selected: region_map(of_a_million(selected)), {"numbers/text.0": words}
            )
            for selected, words in ((34, "0.03"), (1, "<0.01"), (994, "1.0"), (9_940, "9.9"), (0, "0"))
        },
        "no minus infinite cell, but missing ones": (
            lambda: region_map(frames.layers()), {"density/z": Of(kinds_of_numbers, {"finite", "missing"})}
        ),
        "outlines alone of an empty region": (
            lambda: region_map(frames.layers(empty=True)),
            {"no selected entry/x": Of(len, 6 * 8 * 6), "numbers/text": Of(set, {"0"})},
        ),
        "the share of the regions in each cell, and where it is denser": (
            lambda: region_map(frames.roles(), view="roles", sides=False),
            {
                "roles/z": Of(lambda z: {*pd.Series(np.ravel(z)).dropna().round(2)}, {0.33, 0.67, 1.0}),
                "layout.annotations.*.text": Of(" ".join, Holding("denser here than on average")),
            },
        ),
        "a layer's share of its movement": (
            lambda: region_map(moved(), view="movement"), {"numbers/text.0": "100"}
        ),
        "what only one of two regions has, and what both have": (
            lambda: region_map(SHARED, view="overlap", names=("mine", "theirs")),
            {
                "only mine/x.2": pytest.approx(0.84 * 2 / 8), "both/x.2": pytest.approx(0.84 * 2 / 8),
                "only theirs/x.2": pytest.approx(0.84 * 4 / 8), "cells/customdata.2": [0, "query"],
                "data": Of(lambda of: [t.base[2] for t in of if t.name in ("only mine", "both")],
                           Of(np.diff, pytest.approx([0.84 * 2 / 8]))),
                "cells/hovertext.2": Holding("2 only mine, 2 both, 4 only theirs"),
            },
        ),
        "the first layer on top": (
            lambda: region_map(frames.layers(12)),
            {"layout.yaxis.ticktext.0": "0", "layout.yaxis.range": [11.5, -0.5]},
        ),
        "every second one of many layers by name": (
            lambda: region_map(frames.layers(24)),
            {
                "layout.yaxis.ticktext": [str(n) for n in range(0, 24, 2)],
                "numbers/textfont.size": Of((10).__le__, True),
            },
        ),
        "what suffices in full ink and the surplus in grey": (
            lambda: region_map(frames.minimal_layers(), view="minimal", names=(SURPLUS, ENOUGH), sides=False),
            {
                "data": Of(lambda of: [(one.name, one.marker.color) for one in of if one.type == "bar"],
                           [(ENOUGH, INK["light"]), (SURPLUS, MUTED["light"])]),
                "data.*": Of(
                    lambda of: np.sum([one.x for one in of if one.type == "bar"], axis=0)[
                        cells(frames.minimal_layers())["selected"] > 0
                    ],
                    pytest.approx(0.84),
                ),
                "cells/hovertext.0": Holding("surplus", but=("IoU",)),
            },
        ),
        "entries outside any layer in a row of their own": (
            lambda: region_map(with_another(layer=pd.NA, kind="other"), chosen=(-1, "other")),
            {
                "layout.yaxis.ticktext": ["0", "1", "none"], "layout.shapes.*.type": ["rect", "rect"],
                "cells/customdata": Holding([-1, "other"]),
            },
        ),
        "a frame about the chosen cell": (
            lambda: region_map(small(), chosen=(1, "query")),
            {
                "layout.shapes.-1.x0": -0.5, "layout.shapes.-1.x1": 0.5, "layout.shapes.-1.y0": 0.5,
                "layout.shapes.-1.y1": 1.5, "layout.shapes.-1.line.color": INK["light"],
            },
        ),
        "no frame about a cell that it does not have": (
            lambda: region_map(small(), chosen=(7, "query")), {"layout.shapes": []}
        ),
        "the share of each kind in each layer": (
            lambda: shares_by_layer(small()),
            {
                "query/y": pytest.approx([200 / 3, 100 / 3]), "MLP in/y": pytest.approx([0, 100]),
                "biases/y": pytest.approx([100, 0]), "all kinds/y": pytest.approx([60, 40]),
            },
        ),
        "no line of a kind without entries": (
            lambda: shares_by_layer(small(selected=[4, 2, 0, 2, 0, 0])),
            {"data.*.name": Holding("query", but=("MLP in",))},
        ),
        "bars beside the even spread": (
            lambda: shares_by_kind(small()),
            {
                "data.*.y": [["query", "MLP in", "biases"]] * 2, "data.1.marker.symbol": "line-ns",
                "data.0.x": pytest.approx([60, 20, 20]), "data.1.x": pytest.approx([40, 55, 5]),
                "data.1.name": Holding("uniform"), "data.0.hovertext.0": Holding("1.5 × the average density"),
            },
        ),
        "a sentence by layer where no entry is": (
            lambda: shares_by_layer(frames.layers(empty=True)),
            {"layout.annotations.0.text": Holding("no entries")},
        ),
        "a sentence by kind where no entry is": (
            lambda: shares_by_kind(frames.layers(empty=True)),
            {"layout.annotations.0.text": Holding("no entries")},
        ),
        "blocks over their rows and columns": (
            lambda: tensor_map(frames.entries(2000, 384, 384), 384, 384),
            {
                "data.*.type": ["heatmap"], "data.0.dx": 4, "data.0.x0": 1.5, "data.0.dy": 4, "data.0.y0": 1.5,
                "data.0.z": Of(np.nansum, 2000), "data.0.z.*": Of(lambda rows: 0 in np.concatenate(rows), False),
            },
        ),
        "a dot for each of few entries": (
            lambda: tensor_map(frames.entries(400), 384, 384),
            {"data.*.x": [frames.entries(400)["col"].tolist()], "data.*.y": [frames.entries(400)["row"].tolist()]},
        ),
        "row zero on top, and the whole tensor": (
            lambda: tensor_map(frames.entries(400, 100, 200), 100, 200),
            {
                "layout.yaxis.range": [99.5, -0.5], "layout.xaxis.range": [-0.5, 199.5],
                "layout.xaxis.title.text": "column, index (of 200)",
            },
        ),
        "a vector as a strip": (
            lambda: tensor_map(frames.entries(60, 1, 384), 1, 384),
            {"layout.height": 170, "data.0.marker.symbol": "line-ns"},
        ),
        "the rows with the most entries first, ties by index": (
            lambda: top_lines(FEW, 4, 6, top=3), {"data.0.y": ["2", "3", "0"], "data.0.x": [2, 2, 1]}
        ),
        "no column without entries": (
            lambda: top_lines(FEW, 4, 6, axis="column"),
            {
                "data.0.y": ["1", "0", "2", "5"], "data.0.x": [3, 1, 1, 1], "data.1.name": "mean, 1",
                "layout.shapes.0.x0": 1, "layout.yaxis.title.text": "column, index",
            },
        ),
        "the first bar on top": (
            lambda: top_lines(FEW, 4, 6), {"layout.yaxis.categoryarray": ["1", "0", "3", "2"]}
        ),
        "heads in their layer, and a frame about the chosen layer": (
            lambda: head_map(HEADS, chosen=2),
            {
                "data.0.z": [[5, 0], [2, 7]], "data.1.text": ["5", "0", "2", "7"],
                "data.0.customdata.1.0": "layer 2, head 0: 2 entries",
                "layout.shapes.0.y0": 0.5, "layout.shapes.0.y1": 1.5,
            },
        ),
        "no frame about a layer that it does not have": (lambda: head_map(HEADS, chosen=7), {"layout.shapes": []}),
    }
)  # fmt: skip

test_what_cannot_be_drawn_is_named = refused(
    ValueError,
    ("view='depth' is not known; it is one of density, share", lambda: region_map(small(), view="depth")),
    ("no column 'only_a'", lambda: region_map(small(), view="overlap")),
    ("rows.* it is 'row' or 'column'", lambda: top_lines(FEW, 4, 6, axis="rows")),
    ("col.* it is 'row' or 'column'", lambda: top_lines(FEW, 4, 6, axis="col")),
    *(
        ("1 lie outside the tensor of 4 x 6", tensor_map, pd.DataFrame({"row": [0, row], "col": [0, col]}), 4, 6)
        for row, col in ((-1, 0), (0, -1), (4, 0), (0, 6))
    ),
)


def test_the_density_ratio_is_density_over_the_regions_density() -> None:
    """Biases are a kind of their own, cells without entries are none, and two parameters of a cell are summed."""
    table, twice = (cells(rows).set_index(["layer", "kind"]) for rows in (small(), pd.concat([small(), small()])))
    assert table["density_ratio"].to_dict() == pytest.approx(
        {(0, "query"): 2.0, (0, "bias"): 4.0, (0, "MLP in"): 0, (1, "query"): 1.0, (1, "MLP in"): 2 / 3}
    )
    assert (len(table), len(twice), table["share"].sum()) == (5, 5, pytest.approx(1))
    assert (table["selected"].sum(), twice["selected"].sum()) == (10, 20)


test_a_cell_has_what_two_regions_share_and_its_movement = by_hand(
    ("shared entries beside those by chance", near(2 / 8, (24 / 30) / (4 + 6 - 24 / 30)),
     lambda: tuple(cells(SHARED).set_index(["layer", "kind"]).loc[(0, "query"), ["iou", "chance"]])),
    # Lengths that were simply added would give 4/8 and 1/2.
    ("movement adds up in squares", near(10 / 26, 1 / 4), lambda: tuple(cells(moved(), ("layer",))["movement_share"])),
    ("no movement", True, lambda: cells(moved(scale=0))["movement_share"].isna().all()),
)  # fmt: skip


def test_cells_stay_tall_enough_for_their_numbers_and_a_small_map_fits_a_small_window() -> None:
    """At 1280x720 the map starts at 260 pixels."""
    heights = {count: region_map(frames.layers(count)).layout.height for count in (2, 6, 8, 12, 24)}
    assert {count: heights[count] - (SIDE + AROUND) for count in (2, 24)} == {2: 2 * 40, 24: 24 * 18}
    assert max(heights[count] for count in (6, 8, 12)) <= 720 - 270


def test_of_many_kinds_those_with_the_most_entries_have_a_line_named_at_its_end() -> None:
    layers = frames.layers()
    figure = shares_by_layer(layers)
    drawn = {trace.name: trace for trace in figure.data}
    assert len(drawn) == 1 + KINDS < 1 + layers["kind"].nunique()
    assert {name: sum(trace.y) for name, trace in drawn.items()} == pytest.approx(dict.fromkeys(drawn, 100))
    assert read(figure, "layout.annotations.*.text", "layout.showlegend", "layout.yaxis.range.1") == [
        Of(lambda texts: [text.replace("<br>", " ") for text in texts], list(drawn)), False,
        Between(max(max(trace.y) for trace in drawn.values()), np.inf),
    ]  # fmt: skip
    assert drawn.pop("all kinds").marker.symbol not in {style.symbol for style in MODULE_KINDS.values()}
    named = [kind for kind, style in MODULE_KINDS.items() if style.title in drawn]
    others = shares_by_layer(layers[~layers["kind"].isin(named)]).data[1:]
    counts, other_counts = ([np.sum(trace.customdata) for trace in of] for of in (drawn.values(), others))
    assert min(counts) >= max(other_counts)


@pytest.mark.parametrize(("rows", "cols"), [(384, 384), (3072, 768), (97, 1000), (1, 5000), (7, 5)])
def test_blocks_hold_every_entry_once(rows: int, cols: int) -> None:
    entries = frames.entries(min(2000, rows * cols // 2), rows, cols)
    counts, tall, wide = block_counts(entries, rows, cols)
    slow = np.zeros_like(counts)
    np.add.at(slow, (entries["row"] // tall, entries["col"] // wide), 1)
    assert (counts == slow).all() and counts.sum() == len(entries)
    assert max(counts.shape) <= MOST_BLOCKS and counts.shape[0] * tall >= rows and counts.shape[1] * wide >= cols


MOST = frames.effects()["value"].abs().max()
SMALL = frames.effects().head(3).assign(
    value=[0.0004, -0.00002, 0.0002], low=[0.0001, -0.00003, -0.1], high=[0.0007, -0.00001, 0.1],
    holds=[True, False, False],
)  # fmt: skip
FOUR = frames.comparisons(4)


def numbers(figure: go.Figure) -> np.ndarray:
    return np.array(read(figure, "cells/z")[0], dtype=float)


def forest_of(frame: Any, kind: str, **more: Any) -> go.Figure:
    return forest(frame, "accuracy", "graft − fine-tuned", kind, **more)


test_effects_are = facts(
    {
        "never zero in print if they differ from it, and with all digits in the hover": (
            lambda: effect_map(SMALL, "nll"),
            {
                "numbers/text": ["<b>+4e−4</b>", "−2e−5", "0.000"],
                "cells/customdata": Of(
                    lambda rows: [text for row in rows for text in row if text],
                    [Holding("+0.0004 nats<br>95%: 0.0001–0.0007"), Holding("−0.00002 nats"),
                     Holding("0.000 nats<br>95%: −0.100 to 0.100")],
                ),
            },
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
                "graft − fine-tuned/error_x.array": pytest.approx(
                    100 * (FOUR["high"] - FOUR["value"]).to_numpy(), rel=1e-7
                ),
                "graft − fine-tuned/error_x.arrayminus": pytest.approx(
                    100 * (FOUR["value"] - FOUR["low"]).to_numpy(), rel=1e-7
                ),
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
        row = by_place.loc[(y, ("query", "value", "MLP in", "bias")[x])]
        assert (z[y, x], text.startswith("<b>")) == (100 * row["value"], row["holds"])
        assert text.strip("<b>/").replace("−", "-") in (f"{100 * row['value']:+.1f}", "0.0")


def test_lower_is_better_turns_the_colours_not_the_numbers() -> None:
    figures = [effect_map(frames.effects(), metric) for metric in ("nll", "accuracy")]
    loss, right = (numbers(figure) for figure in figures)
    np.testing.assert_allclose(-100 * loss, right)
    signs = [[text.strip("<b>")[0] for text in read(figure, "numbers/text")[0]] for figure in figures]
    assert [pair for pair in zip(*signs, strict=True) if pair[0] != pair[1] != "0"] == []


@pytest.mark.parametrize("metric", ["nll", "accuracy"])
def test_the_scale_is_the_same_on_both_sides_of_zero(metric: str) -> None:
    figure = effect_map(frames.effects(heads=3), metric)
    low, high, ticks = read(figure, "cells/zmin", "cells/zmax", "cells/colorbar.tickvals")
    assert -low == high == np.nanmax(np.abs(numbers(figure)))
    assert ticks == sorted(ticks) and ticks[-1] == high
