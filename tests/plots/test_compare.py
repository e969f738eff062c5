"""Tests of several runs side by side: rows, the baseline at zero, distinct marks for runs of one localizer; and of the
overlap map: cells in percent with chance below, rows from the top, empty regions blank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.cells import CIVIDIS, blended, contrast
from skillviz.plots.compare import differences, run_styles, values
from skillviz.plots.overlap import COLUMNS, FEW, LINE, overlap_map
from skillviz.plots.theme import LOCALIZERS
from tests.plots import compare_frames as several
from tests.plots.facts import Holding, facts
from tests.refused import refused

OWN = LOCALIZERS["stagewise"]
ROW = several.scores().query("run == @several.KEYS[1] and metric == 'accuracy'").iloc[0]
NO_ENDS = several.scores().assign(low=float("nan"), high=float("nan"))

test_of_several_runs_there_is = facts(
    {
        "a panel a metric and a row a run, with intervals and without a legend": (
            lambda: values(several.scores(), several.STYLES),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "ECE, %",
                "layout.xaxis3.title.text": "NLL, nats", "layout": Holding("xaxis3", but=("xaxis4",)),
                "layout.yaxis.categoryarray": list(several.KEYS)[::-1], "layout.showlegend": False,
                "data.1.legendgroup": several.KEYS[1], "data.1.x.0": pytest.approx(100 * ROW["value"]),
                "data.1.error_x.array.0": pytest.approx(100 * (ROW["high"] - ROW["value"])),
            },
        ),
        "an upright line at the baseline, one way on every panel": (
            lambda: differences(several.differences(), several.STYLES, several.KEYS[0]),
            {
                "layout.xaxis.title.text": "accuracy − baseline,<br>points",
                "layout.xaxis2.title.text": "ECE − baseline, points",
                "layout.shapes.*.x0": [0] * 3, "layout.shapes.*.x1": [0] * 3,
                "layout.yaxis.categoryarray": Holding(but=(several.KEYS[0],)),
                "data.0.hovertext.0": Holding("points against stagewise, seed 0"),
            },
        ),
        "no panel of a metric that no run has, and words for a missing interval": (
            lambda: values(NO_ENDS, several.STYLES, ("f1", "accuracy")),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout": Holding("xaxis", but=("xaxis2",)),
                "data.0.hovertext.0": Holding("no interval"),
                "data.0.error_x.array.0": pytest.approx(float("nan"), nan_ok=True),
            },
        ),
    }
)  # fmt: skip


def test_every_run_is_named_and_zero_is_within_every_panel() -> None:
    ticks = values(several.scores(), several.STYLES).layout.yaxis.ticktext
    assert [tick.replace("<br>", " ") for tick in ticks] == list(several.KEYS)
    axes = differences(several.differences(), several.STYLES, several.KEYS[0]).select_xaxes()
    assert [axis.range for axis in axes if not axis.range[0] < 0 < axis.range[1]] == []


def test_runs_of_one_localizer_share_its_colour_and_no_mark() -> None:
    styles = [several.STYLES[key] for key in several.KEYS[:3]]
    assert {style.color for style in styles} == {OWN.color}
    assert len({style.symbol for style in styles}) == len({style.dash for style in styles}) == 3
    assert (styles[0].symbol, styles[0].dash) == (OWN.symbol, OWN.dash)


def test_the_first_run_of_a_localizer_keeps_its_own_mark_whoever_came_before() -> None:
    styles = run_styles((("A", "stagewise"), ("B", "stagewise"), ("C", "frank-wolfe")))
    assert styles["C"].symbol == LOCALIZERS["frank-wolfe"].symbol != styles["B"].symbol


@pytest.mark.parametrize("name", [*LOCALIZERS, "one of my own"])
def test_six_runs_of_any_localizer_have_six_marks(name: str) -> None:
    styles = run_styles([(key, name) for key in several.KEYS])
    assert len({(style.symbol, style.dash) for style in styles.values()}) == 6


NAN = float("nan")
MANY = [f"task_{number}" for number in range(FEW + 1)]
HAND = [("A", "A", 1.0, 0.0005, 0.0, 0.001), ("A", "B", 0.25, 0.0005, 0.0, 0.0012),
        ("B", "A", 0.5, 0.002, NAN, NAN), ("B", "B", 1.0, NAN, NAN, NAN)]  # fmt: skip
KINDS = (("a", "x", 0.1), ("a", "y", 0.2), ("b", "x", 0.3), ("b", "y", 0.4), ("c", "y", 0.5))


def shares(*rows: tuple[object, ...]) -> pd.DataFrame:
    """Return a frame of these shares; a row without chance has one of zero."""
    return pd.DataFrame([(*row, *(0.0,) * (len(COLUMNS) - len(row))) for row in rows], columns=list(COLUMNS))


def square(names: Sequence[str], value: float, *chance: float) -> pd.DataFrame:
    """Return the same share of every two of these names."""
    return shares(*((a, b, value, *chance) for a in names for b in names))


WITH_AN_EMPTY_REGION = several.shares().assign(value=lambda rows: rows["value"].mask(rows["column"] == several.KEYS[1]))

test_a_map_of_overlaps_has = facts(
    {
        "the share of each cell and what chance would give": (
            lambda: overlap_map(shares(*HAND), "overlap"),
            {
                "data.0.z": [[100, 25], [50, 100]],
                "data.1.text": [
                    "100.0", "25.0<br>chance<br>0\N{EN DASH}0.1",
                    "50.0<br>chance<br>0.2", "100.0",
                ],
                "data.0.hovertext.0.1": "of B's entries, 25.0% are in A too<br>by chance: 0.05% (95%: 0.0–0.12%)",
            },
        ),
        "no chance that is not known": (
            lambda: overlap_map(shares(HAND[0], (*HAND[1][:3], NAN, 0.0, 0.0012), *HAND[2:]), "overlap"),
            {"data.0.hovertext.0.1": Holding("by chance: n/a")},
        ),
        "no chance of a region beside itself, but of an equal one": (
            lambda: overlap_map(square(("one", "repeat"), 1.0, 0.005, 0.004, 0.006)),
            {
                "data.1.text": [
                    "100.0", "100.0<br>chance<br>0.4\N{EN DASH}0.6", "100.0<br>chance<br>0.4\N{EN DASH}0.6", "100.0",
                ],
                "data.0.hovertext.0.0": "one: the same region", "data.0.hovertext.0.1": Holding("chance"),
            },
        ),
        "chance of a mean over seeds below one": (
            lambda: overlap_map(square("a", 0.9, 0.01, 0.008, 0.012)), {"data.1.text.0": Holding("chance")}
        ),
        "the first run at the top left, and a whole scale": (
            lambda: overlap_map(several.shares()),
            {
                "layout.yaxis.autorange": "reversed", "data.0.x": list(several.KEYS), "data.0.y": list(several.KEYS),
                "data.0.zmin": 0, "data.0.zmax": 100,
            },
        ),
        "empty cells of an empty region": (
            lambda: overlap_map(WITH_AN_EMPTY_REGION), {"data.1.text.1": "", "data.0.hovertext.0.1": ""}
        ),
        "rows and columns of different kinds": (
            lambda: overlap_map(shares(*KINDS), axes=("found by", "region of")),
            {
                "data.0.z": [[10, 20], [30, 40], [pytest.approx(NAN, nan_ok=True), 50]],
                "layout.xaxis.title.text": "found by", "layout.yaxis.title.text": "region of",
                "layout.xaxis.ticktext": ["x", "y"], "layout.yaxis.ticktext": ["a", "b", "c"],
            },
        ),
        "chance of many regions only in the hover": (
            lambda: overlap_map(square(MANY, 0.256, 0.1, 0.05, 0.2)),
            {"data.1.text": ["26"] * len(MANY) ** 2, "data.0.hovertext.0.0": Holding("by chance: 10.0%")},
        ),
        "a name for what is compared, and breaks in long ones": (
            lambda: overlap_map(square(("sst2_sentences", *"abc"), 0.5, 0.1, 0.05, 0.2), "overlap", of="region"),
            {
                "layout.xaxis.title.text": "entries of region", "layout.yaxis.title.text": "also in region",
                "layout.xaxis.ticktext": Holding("sst2_<br>sentences"),
            },
        ),
    }
)  # fmt: skip

test_an_unknown_kind_is_named = refused(
    ValueError,
    ("'share' is not known; it is 'overlap' or 'iou'", lambda: overlap_map(several.shares(), "share")),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_share_can_be_read_on_its_colour(theme: str) -> None:
    levels = np.linspace(0, 1, 5)
    rows = [(a, b, levels[(i + j) % 5], 0.1, 0.05, 0.2) for i, a in enumerate("ABCDE") for j, b in enumerate("ABCDE")]
    drawn, printed = overlap_map(shares(*rows), theme=theme).data
    for share, ink in zip(np.array(drawn.z).ravel() / 100, printed.textfont.color, strict=True):
        assert contrast(ink, blended(CIVIDIS, float(share))) >= 4.5


def test_a_row_has_room_for_its_name_and_the_cells_for_those_of_the_columns() -> None:
    names = ("abcd", tuple(f"stagewise, AG News · minilm-l6, seed {n}" for n in range(4)))
    short, long = (overlap_map(square(each, 0.5, 0.01, 0.008, 0.012)).layout for each in names)
    one, many = (1 + max(tick.count("<br>") for tick in layout.xaxis.ticktext) for layout in (short, long))
    assert one == 1 and many > 3
    assert long.height >= short.height + LINE * (many - 2) and long.height > 4 * LINE * many
