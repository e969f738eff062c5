"""Tests of the figures of sizes: sizes are exact, labels of level lines do not overlap; and of a series of checkpoints:
lines by quantity, steps on a log axis, intervals, chance of an overlap."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.analysis.size_curve import by_size
from skillviz.plots.checkpoints import PANELS, STEP, along_training, rows_of
from skillviz.plots.references import AXIS_PIXELS, LABEL_PIXELS, LEAST_PLOT, NAME_PIXELS
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import LOCALIZERS, STATES
from tests.plots import frames
from tests.plots.facts import Between, Holding, Of, facts, read


def drawn(curve: pd.DataFrame, metric: str = "accuracy", **more: Any) -> go.Figure:
    """Return the figure of a curve's points."""
    return metric_by_size(by_size(curve, metric), metric, **more)


def several(*marks: tuple[float, str, int], half: float) -> pd.DataFrame:
    """Return a curve of these values, localizers and sizes, with intervals of `half` on either side."""
    return pd.concat([frames.rows([value], name, size=size) for value, name, size in marks]).assign(
        low=lambda rows: rows["value"] - half, high=lambda rows: rows["value"] + half
    )


def of_calibration(debiased: float) -> go.Figure:
    return metric_by_size(by_size(frames.curve(), "accuracy").assign(debiased=debiased), "ece")


def labels(figure: go.Figure, plot: float) -> list[tuple[float, str]]:
    """Return the vertical center of each label, in pixels from the bottom of a plot of `plot` pixels, and its text."""
    bottom, top = figure.layout.yaxis.range
    return sorted((plot * (a.y - bottom) / (top - bottom) - a.ay, a.text) for a in figure.layout.annotations)


def of_every_localizer() -> pd.DataFrame:
    """Return a study's curve, with the random regions once more for each localizer that it does not have."""
    study = frames.curve()
    random, missing = study.query("localizer == 'random'"), [n for n in LOCALIZERS if n not in set(study["localizer"])]
    return pd.concat([study, *(random.assign(localizer=name) for name in missing)], ignore_index=True)


def off(name: str) -> Callable[[list[float]], float]:
    """Return a function of places: the largest distance from the true sizes, in decades."""
    true = np.array(frames.SIZES if name != "learned" else (2_907, 3_666, 5_241)) / frames.D * 100
    return lambda places: float(np.abs(np.log10(np.array(places) / true)).max())


test_by_size_there_is = facts(
    {
        "a value in percent on a log axis of percent": (
            lambda: drawn(frames.rows([0.8])),
            {
                "data.*.y": [[80.0]], "data.0.x": pytest.approx([0.1]), "data.0.error_y.array": pytest.approx([10]),
                "data.0.error_y.arrayminus": pytest.approx([10]), "layout.xaxis.type": "log",
                "layout.xaxis.ticktext": Holding("0.1"),
                "layout.xaxis.title.text": "region size, % of graftable parameters",
            },
        ),
        "the true size, seeds and what the interval is over in the hover": (
            lambda: drawn(frames.curve()),
            {
                "stagewise/hovertext.1": Holding("10,646 entries = 0.1%", "3 seeds", "over examples and seeds"),
                "top movement/hovertext.1": Holding("1 seed", "over examples"),
            },
        ),
        "one line a localizer in its own style": (
            lambda: drawn(of_every_localizer()),
            {
                f"data.*.{path}": [getattr(style, name) for style in LOCALIZERS.values()]
                for path, name in (
                    ("name", "title"), ("line.color", "color"), ("line.dash", "dash"), ("marker.symbol", "symbol"),
                )
            } | {"learned/mode": "markers"},
        ),
        "each mark near its true size": (
            lambda: drawn(frames.curve()),
            {f"{LOCALIZERS[name].title}/x": Of(off(name), Between(-1, 0.07)) for name in ("learned", *frames.LEVELS)},
        ),
        "no interval that is missing": (
            lambda: drawn(frames.rows([0.8]).assign(low=np.nan, high=np.nan)),
            {
                "data.*.error_y.array.0": [pytest.approx(np.nan, nan_ok=True)],
                "data.0.hovertext.0": Holding("no interval"),
            },
        ),
        "no axis past what can be": (
            lambda: drawn(frames.rows([0.95]).assign(low=0.0, high=1.0)), {"layout.yaxis.range": [0, 100]}
        ),
        "no level that is missing": (
            lambda: drawn(frames.curve(), references={"majority": float("nan")}), {"layout.annotations": []}
        ),
        "an axis down to every level but a floor": (
            lambda: drawn(frames.rows([0.9]), references={"pretrained": 0.3}),
            {"layout.yaxis.range.0": Between(-np.inf, 30), "layout.shapes.*.y0": [pytest.approx(30)]},
        ),
        "NLL in its unit": (
            lambda: drawn(frames.curve(), "nll", references={"finetuned": 0.47}),
            {"layout.yaxis.title.text": "NLL, nats", "layout.annotations.0.text": "fine-tuned<br>0.470"},
        ),
        "a calibration error at its debiased value, and its axis says so": (
            lambda: of_calibration(0.02),
            {"data.*.y": Of(np.concatenate, Of(set, {2.0})), "layout.yaxis.title.text": "debiased ECE, %"},
        ),
        "no calibration error called debiased that is not": (
            lambda: of_calibration(np.nan), {"layout.yaxis.title.text": "ECE, %"}
        ),
        "only floors left out of the axis, with arrows": (
            lambda: drawn(frames.curve(), references=frames.REFERENCES),
            {
                "layout.yaxis.range": list(
                    drawn(frames.curve(), references={"finetuned": 0.864, "pretrained": 0.632}).layout.yaxis.range
                ),
                "layout.yaxis.range.0": Between(50.1, 63.2), "layout.yaxis.range.1": Between(86.4, np.inf),
            },
        ),
    }
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 30, 106, 199, 350, 700, 99_000])
def test_a_single_size_has_ticks_beside_it(size: int) -> None:
    axis = drawn(frames.rows([0.8], size=size)).layout.xaxis
    low, high = (10**end for end in axis.range)
    assert low <= min(axis.tickvals) < max(axis.tickvals) <= high
    assert len(set(axis.ticktext)) == len(axis.ticktext)


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("plot", [LEAST_PLOT, 300, 900])
@pytest.mark.parametrize(
    "levels",
    [
        frames.REFERENCES,
        {"finetuned": 0.81, "pretrained": 0.81, "temperature": 0.81, "chance": 0.8, "majority": 0.802},
        {"chance": 0.5, "majority": 0.9, "finetuned": 0.9001},
    ],
)
def test_labels_of_level_lines_never_overlap(levels: dict[str, float], plot: float) -> None:
    places = [place for place, _ in labels(drawn(frames.curve(), references=levels), plot)]
    assert len(places) == len(levels) and np.diff(places).min() >= LABEL_PIXELS - 1e-6


@pytest.mark.parametrize(
    ("levels", "lines", "words"),
    [
        (frames.REFERENCES, {86.4, 63.2}, {"fine-tuned 86.4", "pre-trained 63.2", "↓ chance 50.0", "↓ majority 50.1"}),
        ({**frames.REFERENCES, "chance": 0.56, "majority": 0.561}, {86.4, 63.2, 56.0, 56.1},
         {"fine-tuned 86.4", "pre-trained 63.2", "chance 56.0", "majority 56.1"}),
    ],
    ids=["floors far below", "floors near the lines"],
)  # fmt: skip
def test_level_lines_lie_where_they_say_in_styles_of_their_own(
    levels: dict[str, float], lines: set[float], words: set[str]
) -> None:
    figure = drawn(frames.curve(), references=levels)
    styles = {round(s.y0, 6): (s.line.color, s.line.dash) for s in figure.layout.shapes}
    assert styles[86.4] == (STATES["finetuned"].color, STATES["finetuned"].dash)
    found = {*styles}, len({*styles.values()}), {a.text.replace("<br>", " ") for a in figure.layout.annotations}
    assert found == (lines, len(lines), words)
    assert figure.layout.yaxis.range[0] < min(lines) and figure.layout.yaxis.range[1] > 86.4


def test_each_line_is_named_once_at_its_right_end_without_a_legend() -> None:
    """The names are in the margin: the lines use the whole width of the plot."""
    figure = drawn(frames.curve(), references=frames.REFERENCES, direct=True)
    left, right = figure.layout.xaxis.range
    named = [(a.text.replace("<br>", " "), a.x, a.y, a.ax) for a in figure.layout.annotations if a.name == "curve"]
    ends = [(t.name, *max(zip(t.x, t.y, strict=True))) for t in figure.data]
    assert named == [(name, pytest.approx(np.log10(x)), y, right) for name, x, y in ends]
    assert figure.layout.showlegend is False and max(np.log10(x) for _, x, _ in ends) > left + 0.8 * (right - left)


@pytest.mark.parametrize("height", [360, 520])
def test_names_and_levels_share_one_column(height: int) -> None:
    figure, plot = drawn(frames.curve(), references=frames.REFERENCES, direct=True, height=height), height - AXIS_PIXELS
    places = [(at, NAME_PIXELS * (1 + text.count("<br>"))) for at, text in labels(figure, plot)]
    assert len(places) == len(figure.data) + len(frames.REFERENCES)
    assert min(b - a - (below + above) / 2 for (a, below), (b, above) in pairwise(places)) >= -1e-6
    assert places[-1][0] + places[-1][1] / 2 <= plot + 1e-6, "no label leaves the figure at the top"


@pytest.mark.parametrize(("value", "is_beside"), [(0.7, True), (0.5, True), (0.88, False)])
def test_a_single_mark_is_named_beside_it_where_there_is_room(value: float, is_beside: bool) -> None:
    """The name must not cross the line above the mark."""
    line = [(0.85, "stagewise", 1_000), (0.87, "stagewise", 10_000), (0.89, "stagewise", 100_000)]
    figure = drawn(several(*line, (value, "random", 8_000), half=0.001), direct=True, crossing=(0.2, "here"))
    (name,) = (a for a in figure.layout.annotations if a.name == "curve" and a.text == "random")
    (mark,) = (a for a in figure.layout.annotations if a.name == "crossing")
    assert (name.showarrow is False) == is_beside
    assert (name.x, name.y) == (pytest.approx(np.log10(figure.data[-1].x[0])), 100 * value)
    assert not is_beside or abs(mark.y - name.y) > 0.08 * np.ptp(figure.layout.yaxis.range)


def test_of_two_marks_whose_names_would_meet_one_is_named_in_the_margin() -> None:
    line, marks = [(0.85, "stagewise", 1_000), (0.89, "stagewise", 100_000)], [(0.6, "random"), (0.601, "movement")]
    notes = drawn(several(*line, *((*mark, 8_000) for mark in marks), half=0.001), direct=True).layout.annotations
    arrows = {note.text.replace("<br>", " "): note.showarrow for note in notes if note.name == "curve"}
    assert sorted(arrows[name] is False for name in ("random", "top movement")) == [False, True]


@pytest.mark.parametrize("share", [0.011, 0.05, 0.3, 0.95])
def test_the_words_of_the_crossing_cover_no_line(share: float) -> None:
    points = several(*((v, "stagewise", s) for v, s in ((0.55, 1_000), (0.8, 10_000), (0.89, 100_000))), half=0.01)
    figure = drawn(points, references={"pretrained": 0.5}, direct=True, crossing=(share, "here"))
    (mark,), (line,) = (a for a in figure.layout.annotations if a.name == "crossing"), figure.data
    here, (bottom, top) = float(np.interp(mark.x, np.log10(line.x), line.y)), figure.layout.yaxis.range
    assert min(abs(mark.y - here), mark.y - 50, top - mark.y) > 0.08 * (top - bottom)


STEPS = [50, 100, 200, 400, 800]
MODELS, SEARCHES = ("fine-tuned", "graft, stagewise", "graft, top movement"), ("stagewise", "top movement")
LINES = {
    "score": {"pre-trained", *MODELS}, "calibration": set(MODELS), "needed": set(SEARCHES),
    "shared": {*SEARCHES, "by chance"}, "alike": {"stagewise", "by chance"}, "held": set(SEARCHES),
}  # fmt: skip

test_along_fine_tuning_there_is = facts(
    {
        "a mark at its step with its interval": (
            lambda: along_training(frames.checkpoints(), "score"),
            {
                "fine-tuned/y": pytest.approx([66, 71, 76, 81, 86]), "fine-tuned/error_y.array": pytest.approx([2] * 5),
                "fine-tuned/x": pytest.approx(STEPS, rel=0.06),
            },
        ),
        "a calibration error at its debiased value": (
            lambda: along_training(frames.checkpoints(), "calibration"), {"fine-tuned/y.0": pytest.approx(2)}
        ),
    }
    | {
        f"an axis with its unit and its lines for {panel}": (
            lambda panel=panel: along_training(frames.checkpoints(), panel),
            {
                "layout.xaxis.title.text": STEP, "layout.yaxis.title.text": Holding("%"),
                "layout.xaxis.type": "log", "layout.xaxis.tickvals": STEPS, "data.*.name": Of(set, LINES.get(panel)),
            },
        )
        for panel in PANELS
    }
)  # fmt: skip


def test_a_single_search_is_drawn_as_the_graft() -> None:
    several, one = (
        read(along_training(frame, "score"), "graft, stagewise/line.color")
        for frame in (frames.checkpoints(), frames.checkpoints().query("localizer != 'movement'"))
    )
    assert several != one


def test_a_size_that_no_graft_reached_has_no_mark() -> None:
    missing = frames.checkpoints().assign(
        value=lambda rows: rows["value"].where((rows["what"] != "needed") | (rows["step"] > 50))
    )
    assert set(rows_of(missing, "needed")["step"]) == set(STEPS[1:])
    assert [len(trace.x) for trace in along_training(missing, "needed").data] == [4] * len(SEARCHES)
