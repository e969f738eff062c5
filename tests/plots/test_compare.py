"""Tests of the states side by side, each with its mark and interval; of several runs side by side: rows, the baseline
at zero, distinct marks for runs of one localizer; and of the overlap map: cells in percent with chance below, rows from
the top, empty regions blank."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.cells import CIVIDIS, blended, contrast
from skillviz.plots.compare import differences, run_styles, values
from skillviz.plots.overlap import COLUMNS, FEW, LINE, overlap_map
from skillviz.plots.overview import search_history, state_comparison
from skillviz.plots.tasks import gain_of_regions
from skillviz.plots.theme import LOCALIZERS, STATES
from tests.plots import compare_frames as several
from tests.plots import frames
from tests.plots.facts import Between, Holding, Of, facts
from tests.refused import refused

FAR = "chance 25.0%, off the scale"

NAMES = ("stagewise", "frank-wolfe")


def in_the_legend(traces: list[Any]) -> list[tuple[str, str]]:
    return [(trace.name, trace.line.color) for trace in traces if trace.showlegend is not False]


test_side_by_side_there_is = facts(
    {
        "a panel a metric and a dot a state": (
            lambda: state_comparison(frames.scores()),
            {
                "data.*.name": ["pre-trained", "grafted", "fine-tuned", "complement"] * 3,
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "ECE, %",
                "layout.xaxis3.title.text": "NLL, nats", "layout": Holding("xaxis3", but=("xaxis4",)),
                "grafted/0.x.0": pytest.approx(80.1), "grafted/0.marker.symbol": "diamond",
                "grafted/0.marker.color": STATES["grafted"].color,
            },
        ),
        "an interval from low to high": (
            lambda: state_comparison(frames.scores()),
            {
                "fine-tuned/0.x.0": pytest.approx(86.4), "fine-tuned/0.error_x.array.0": pytest.approx(1.6),
                "fine-tuned/0.error_x.arrayminus.0": pytest.approx(1.6),
                "fine-tuned/0.hovertext.0": Holding("86.4% accuracy", "84.8–88.0"),
            },
        ),
        "one order of the states from top to bottom": (
            lambda: state_comparison(frames.scores().iloc[::-1]),
            {"layout.yaxis.categoryarray": ["complement", "fine-tuned", "grafted", "pre-trained"]},
        ),
        "no panel of a metric that was not taken": (
            lambda: state_comparison(frames.scores().query("metric != 'ece'")),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "NLL, nats",
                "layout": Holding("xaxis2", but=("xaxis3",)),
            },
        ),
        "chance in the first panel": (
            lambda: state_comparison(frames.scores(), references={"chance": 0.6, "majority": 0.62}),
            {
                "layout.shapes.*.x0": [60, 62], "layout.shapes.*.xref": ["x", "x"],
                "layout.xaxis.range.0": Between(-np.inf, 60),
                "data": Of(lambda traces: [*dict(in_the_legend(traces))], ["chance 60.0%", "majority 62.0%"]),
            },
        ),
        "several localizers in their styles": (
            lambda: search_history(pd.concat([frames.history(5), frames.history(5, "frank-wolfe")])),
            {
                "data": Of(in_the_legend, [(LOCALIZERS[n].title, LOCALIZERS[n].color) for n in NAMES]),
                "data.*.offsetgroup": Of(set, {None, *NAMES}),
            },
        ),
        "a name of chance far below, which does not flatten the states": (
            lambda: state_comparison(frames.scores(), references={"chance": 0.25, "majority": 0.62}),
            {
                "layout.shapes.*.x0": [62], f"{FAR}/mode": "markers", f"{FAR}/marker.symbol": "triangle-left",
                "layout.xaxis.range.0": Between(55, 62),
            },
        ),
        "no interval that is missing": (
            lambda: state_comparison(frames.scores().assign(low=np.nan, high=np.nan)),
            {"data.0.hovertext.0": Holding("no interval", but=("n/a to n/a",))},
        ),
        "one axis of steps below two panels": (
            lambda: search_history(frames.history()),
            {
                "data.*.yaxis": ["y", "y2", "y2"], "layout.xaxis.matches": "x2",
                "layout.xaxis2.title.text": "step, number", "layout.yaxis.title.text": "training loss, nats",
            },
        ),
        "what goes on upward and what goes off downward, hatched, with its count in the hover": (
            lambda: search_history(frames.history()),
            {
                "data.1.y": frames.history()["added"].tolist(), "data.2.y": (-frames.history()["removed"]).tolist(),
                "data.2.customdata": frames.history()["removed"].tolist(),
                "data.2.marker.pattern.shape": "/", "data.1.marker.pattern.shape": None,
            },
        ),
        "a step after the other": (
            lambda: search_history(frames.history().iloc[::-1]), {"data.0.x": list(range(1, 51))}
        ),
        "a gap where no loss was taken": (
            lambda: search_history(frames.history(4).assign(loss=[0.5, None, 0.4, 0.3])), {"data.0.connectgaps": None}
        ),
    }
)  # fmt: skip

test_searches_of_several_sizes_are_refused = refused(
    ValueError,
    ("choose one target size a localizer; given: 1,064, 10,646",
     search_history, pd.concat([frames.history(5), frames.history(5).assign(target=1_064)])),
)  # fmt: skip

OWN = LOCALIZERS["stagewise"]
ROW = several.scores().query("run == @several.KEYS[1] and metric == 'accuracy'").iloc[0]

test_of_several_runs_there_is = facts(
    {
        "a panel a metric and a row a run, with intervals and without a legend": (
            lambda: values(several.scores(), several.STYLES),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "ECE, %",
                "layout.xaxis3.title.text": "NLL, nats", "layout": Holding("xaxis3", but=("xaxis4",)),
                "layout.yaxis.categoryarray": list(several.KEYS)[::-1], "layout.showlegend": False,
                "layout.yaxis.ticktext": Of(lambda ticks: [tick.replace("<br>", " ") for tick in ticks],
                                            list(several.KEYS)),
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
                **{f"layout.xaxis{n}.range": [Between(-np.inf, 0), Between(0, np.inf)] for n in ("", 2, 3)},
                "layout.yaxis.categoryarray": Holding(but=(several.KEYS[0],)),
                "data.0.hovertext.0": Holding("points against stagewise, seed 0"),
            },
        ),
        "no panel of a metric that no run has, and words for a missing interval": (
            lambda: values(several.scores().assign(low=np.nan, high=np.nan), several.STYLES, ("f1", "accuracy")),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout": Holding("xaxis", but=("xaxis2",)),
                "data.0.hovertext.0": Holding("no interval"),
                "data.0.error_x.array.0": pytest.approx(np.nan, nan_ok=True),
            },
        ),
    }
)  # fmt: skip


def test_runs_of_one_localizer_share_its_colour_and_no_mark() -> None:
    styles = [several.STYLES[key] for key in several.KEYS[:3]]
    symbols, dashes = ([getattr(style, cue) for style in styles] for cue in ("symbol", "dash"))
    assert ({style.color for style in styles}, symbols[0], dashes[0]) == ({OWN.color}, OWN.symbol, OWN.dash)
    assert len({*symbols}) == len({*dashes}) == 3


def test_the_first_run_of_a_localizer_keeps_its_own_mark_whoever_came_before() -> None:
    styles = run_styles((("A", "stagewise"), ("B", "stagewise"), ("C", "frank-wolfe")))
    assert styles["C"].symbol == LOCALIZERS["frank-wolfe"].symbol != styles["B"].symbol


@pytest.mark.parametrize("name", [*LOCALIZERS, "one of my own"])
def test_six_runs_of_any_localizer_have_six_marks(name: str) -> None:
    styles = run_styles([(key, name) for key in several.KEYS])
    assert len({(style.symbol, style.dash) for style in styles.values()}) == 6


MANY = [f"task_{number}" for number in range(FEW + 1)]
HAND = [("A", "A", 1.0, 0.0005, 0.0, 0.001), ("A", "B", 0.25, 0.0005, 0.0, 0.0012),
        ("B", "A", 0.5, 0.002, np.nan, np.nan), ("B", "B", 1.0, np.nan, np.nan, np.nan)]  # fmt: skip


def shares(*rows: tuple[object, ...]) -> pd.DataFrame:
    """Return a frame of these shares; a row without chance has one of zero."""
    return pd.DataFrame([(*row, *(0.0,) * (len(COLUMNS) - len(row))) for row in rows], columns=list(COLUMNS))


def square(names: Sequence[str], value: float, *chance: float) -> pd.DataFrame:
    """Return the same share of every two of these names."""
    return shares(*((a, b, value, *chance) for a in names for b in names))


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
            lambda: overlap_map(shares(HAND[0], (*HAND[1][:3], np.nan, 0.0, 0.0012), *HAND[2:]), "overlap"),
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
            lambda: overlap_map(
                several.shares().assign(value=lambda rows: rows["value"].mask(rows["column"] == several.KEYS[1]))
            ),
            {"data.1.text.1": "", "data.0.hovertext.0.1": ""},
        ),
        "rows and columns of different kinds": (
            lambda: overlap_map(
                shares(("a", "x", 0.1), ("a", "y", 0.2), ("b", "x", 0.3), ("b", "y", 0.4), ("c", "y", 0.5)),
                axes=("found by", "region of"),
            ),
            {
                "data.0.z": [[10, 20], [30, 40], [pytest.approx(np.nan, nan_ok=True), 50]],
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


def every_share(theme: str) -> go.Figure:
    """Return a map of five shares, from none to all, in every place."""
    places = product(enumerate("ABCDE"), repeat=2)
    return overlap_map(shares(*((a, b, (i + j) % 5 / 4, 0.1, 0.05, 0.2) for (i, a), (j, b) in places)), theme=theme)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("map_of", [every_share, lambda theme: gain_of_regions(frames.gain(), theme=theme)])
def test_every_number_can_be_read_on_its_colour(map_of: Callable[[str], go.Figure], theme: str) -> None:
    cells, numbers = map_of(theme).data
    for share, ink in zip(np.clip(np.asarray(cells.z).ravel() / 100, 0, 1), numbers.textfont.color, strict=True):
        assert contrast(ink, blended(CIVIDIS, float(share))) >= 4.5


def test_a_row_has_room_for_its_name_and_the_cells_for_those_of_the_columns() -> None:
    names = ("abcd", tuple(f"stagewise, AG News · minilm-l6, seed {n}" for n in range(4)))
    short, long = (overlap_map(square(each, 0.5, 0.01, 0.008, 0.012)).layout for each in names)
    one, many = (1 + max(tick.count("<br>") for tick in layout.xaxis.ticktext) for layout in (short, long))
    assert one == 1 and many > 3
    assert long.height >= short.height + LINE * (many - 2) and long.height > 4 * LINE * many
