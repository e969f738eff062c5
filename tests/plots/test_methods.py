"""Tests of the figures of studies: methods against touched parameters, the constants of a search, and published values
beside measured ones."""

import math

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.methods import FEW, STYLES, against_touched, method_style, rivals
from skillviz.plots.paper import SAYS, beside, comparisons
from skillviz.plots.sensitivity import FREE, SIZED, by_setting
from skillviz.plots.theme import GROUND
from tests.plots import study_frames as frames
from tests.plots.facts import Between, Holding, Of, facts
from tests.plots.test_theme import contrast

BITFIT = frames.points().query("method == 'bitfit' and metric == 'accuracy'").iloc[0]
SHARES = frames.points().assign(low=0.0)

test_methods_stand = facts(
    {
        "at the share that each touches, with its interval": (
            lambda: against_touched(frames.points()),
            {
                "BitFit/x.0": pytest.approx(100 * BITFIT["touched"], rel=0.2),
                "BitFit/y.0": pytest.approx(100 * BITFIT["value"]),
                "BitFit/error_y.array.0": pytest.approx(100 * (BITFIT["high"] - BITFIT["value"])),
                "layout.xaxis.type": "log", "layout.xaxis.range.0": Between(-np.inf, math.log10(0.1)),
                "layout.xaxis.range.1": Between(2, np.inf),
            },
        ),
        "side by side if they touch equally many": (
            lambda: against_touched(frames.points()),
            {
                "data": Of(
                    lambda of: np.log10([trace.x[0] for trace in of if trace.name in ("fine-tuned", "AdamW")]),
                    Of(lambda x: (x.mean(), abs(x[0] - x[1])), (pytest.approx(2), Between(0, math.log10(1.3)))),
                )
            },
        ),
        "in the order of their sizes, on ticks without exponents": (
            lambda: against_touched(frames.points(3)),
            {
                "graft/x": Of(lambda x: np.sign(np.diff(x)).tolist(), [1, 1]), "layout.xaxis.tickvals": Of(max, 100),
                "layout.xaxis.ticktext": Of("".join, Holding(but=("e",))),
            },
        ),
        "on an axis of shares that begins at 0": (
            lambda: against_touched(SHARES, "ece"), {"layout.yaxis.range.0": 0}
        ),
        "on an axis with room for the levels": (
            lambda: against_touched(SHARES, "ece", references={"pretrained": 0.9}),
            {"layout.yaxis.range.1": Between(90, np.inf)},
        ),
        "on an axis that ends where shares do": (
            lambda: against_touched(SHARES.assign(high=1.0)), {"layout.yaxis.range": [0, 100]}
        ),
        "as a line of several sizes, and the untouched model as a level": (
            lambda: against_touched(frames.points(3), references={"pretrained": 0.6}),
            {
                "graft/mode": "lines+markers", "layout.shapes.*.y0": [60],
                "data.*.name": Holding("graft", but=("pre-trained",)),
            },
        ),
        "on ticks without exponents": (
            lambda: against_touched(frames.points(3)),
            {"layout.xaxis.ticktext": Holding("0.1", "1", "10", "100"), "layout.xaxis.tickvals.-1": 100},
        ),
        "about a line at zero in the order of the styles": (
            lambda: rivals(frames.differences()),
            {
                "layout.yaxis.categoryarray": ["AdamW", "fine-tuned", "LoRA", "BitFit", "region re-trained"],
                "layout.xaxis.title.text": "accuracy: method − graft, points",
                "layout.xaxis.range.0": Between(-np.inf, 0), "layout.xaxis.range.1": Between(0, np.inf),
                "layout.shapes.0.x0": 0, "data.0.hovertext.0": Holding("points", "95%"),
            },
        ),
        "with words where the interval is missing": (
            lambda: rivals(frames.differences().assign(low=np.nan, high=np.nan), "ece"),
            {"data.0.hovertext.0": Holding("no interval")},
        ),
    }
)  # fmt: skip


def test_no_line_of_a_name_beside_its_end_is_longer_than_the_margin() -> None:
    scaled = frames.points().query("method == 'ft'").assign(method="ft_scaled", value=0.7)
    few = pd.concat([frames.points().query("method in ('graft', 'graft_retrain', 'ft')"), scaled])
    names = [note.text for note in against_touched(few).layout.annotations if note.name == "curve"]
    assert {"temperature-<br>scaled", "region<br>re-trained"} <= set(names)
    assert max(len(line) for name in names for line in name.split("<br>")) <= 14


def test_many_methods_of_several_sizes_stand_in_print_and_the_best_of_a_size_is_bold() -> None:
    figure = against_touched(frames.board(), references={"pretrained": 0.6})
    (cells, numbers), names = figure.data, list(figure.layout.yaxis.ticktext)
    places = {*zip(numbers.x, numbers.y, strict=True)}
    assert (cells.z.shape, np.isfinite(cells.z).sum(), len(numbers.text), len(places)) == ((10, 3), 24, 24, 24)
    assert list(figure.layout.xaxis.ticktext) == ["0.1%", "1%", "10.0%"]
    assert "<b>83.1%</b><br>81.1–85.1" in numbers.text and sum("<b>" in text for text in numbers.text) == 3
    levels = {note.y: note.text for note in figure.layout.annotations}
    assert levels == {0: "60.0%", names.index("fine-tuned"): "86.4% (84.4–88.4)"}
    twice = pd.concat([frames.board(), frames.board().assign(touched=frames.board()["touched"] * 1.01)])
    assert len(against_touched(twice).data) == 9, "none is hidden by another of its method and size"


def test_every_method_and_verdict_is_told_apart_by_more_than_colour_and_seen_on_both_grounds() -> None:
    dim = [(n, g) for n, style in STYLES.items() for g in GROUND if contrast(style.color, GROUND[g]) < 3]
    symbols = {style.symbol for style in STYLES.values()}, {*SAYS.values()}
    assert (dim, *map(len, symbols)) == ([], len(STYLES), len(SAYS))


def test_a_graft_of_another_recipe_keeps_the_colour_and_says_so() -> None:
    style, own = method_style("graft", "adamw-l1", recipes={"adamw-l1": "AdamW + L1"}), STYLES["graft"]
    assert (style.title, style.color) == ("graft of AdamW + L1", own.color) and style.symbol != own.symbol


def test_many_methods_of_one_size_stay_nearer_to_it_than_to_the_next() -> None:
    """Sizes differ by a factor of three, like on a board: each mark is nearest to its own size."""
    points = [frames.points().query("metric == 'accuracy'").head(1).assign(method=m, touched=size)
              for m in list(STYLES)[:FEW] for size in (0.001, 0.003)]  # fmt: skip
    for trace in against_touched(pd.concat(points)).data:
        small, large = sorted(trace.x)
        assert max(small / 0.1, 0.1 / small) < 3**0.5 > max(large / 0.3, 0.3 / large)


TWO = ["SST-2", "QNLI to MNLI (0/1)"]
CLAIM = frames.claim()


def ours(less: float) -> pd.DataFrame:
    """Return the published rows with a debiased value of our graft on SST-2, so much below."""
    rows = frames.published()
    return rows.assign(
        debiased=(rows["value"] - less).where(rows.eval("source == 'here' and method == 'graft' and task == 'SST-2'"))
    )


test_beside_the_paper_there_are = facts(
    {
        "hollow marks of published values and filled ones of ours": (
            lambda: beside(frames.published(), [*TWO, "AGNews"]),
            {
                "graft, here/marker.symbol": "diamond", "graft, published/marker.symbol": "diamond-open",
                "fine-tuned, here/marker.symbol": "circle", "fine-tuned, published/marker.symbol": "circle-open",
                "data.*.type": ["scatter"] * 4,
            },
        ),
        "the tasks in the order that was asked for": (
            lambda: beside(frames.published(), ["AGNews", "SST-2"]),
            {
                "layout.yaxis.ticktext": ["AGNews", "SST-2"], "graft, here/x": [Between(0, 100)],
                "data.*.x": Of(lambda of: [len(x) for x in of], [1, 2, 1, 2]),
            },
        ),
        "marks of a task that do not hide each other": (
            lambda: beside(frames.published(), ["SST-2"]),
            {"data.*.y": Of(lambda of: (len({round(float(y), 6) for (y,) in of}), np.abs(of).max() < 0.5), (4, True))},
        ),
        "words for a published bracket, for its absence and for our interval": (
            lambda: beside(frames.published(), TWO),
            {
                "graft, published/hovertext.0": Holding("standard deviation"),
                "graft, published/hovertext.1": Holding("no deviation is printed"),
                "graft, here/hovertext.0": Holding("95%"),
            },
        ),
        "shares on an axis that ends where they do": (
            lambda: beside(frames.published().assign(low=0.0, high=1.0), ["SST-2"]), {"layout.xaxis.range": [0, 100]}
        ),
        "no strokes without a debiased value": (
            lambda: beside(frames.published(), ["SST-2"]), {"data.*.type": ["scatter"] * 4}
        ),
        "our plug-in calibration error and a stroke where its interval stands": (
            lambda: beside(ours(0.01), ["SST-2"]),
            {"graft, here/hovertext.0": Holding("plug-in")},
        ),
        "the comparisons of a claim in their order": (
            lambda: comparisons(CLAIM, "points", (0.0,)),
            {
                "layout.yaxis.ticktext": CLAIM["where"].tolist(), "data.*.name": list(SAYS),
                "data.*.marker.symbol": list(SAYS.values()), "data.*.marker.color": Of(lambda of: len(set(of)), 1),
            },
        ),
        "the limit of a claim in its unit and in sight": (
            lambda: comparisons(CLAIM, "percent", (0.95,)),
            {
                "layout.shapes.*.x0": [pytest.approx(95)], "layout.xaxis.range.0": Between(-np.inf, 95),
                "layout.xaxis.range.1": Between(95, np.inf),
            },
        ),
        "both limits of a claim": (
            lambda: comparisons(CLAIM, "points", (-0.03, 0.03)), {"layout.shapes.*.type": ["line", "line"]}
        ),
        "a calibration error within its interval": (
            lambda: comparisons(CLAIM.assign(debiased=[0.045, *[np.nan] * (len(CLAIM) - 1)]), "points", (0.0,)),
            {"data.0.x.0": pytest.approx(4.5), "data.0.error_x.array.0": pytest.approx(2.5)},
        ),
    }
)  # fmt: skip


def test_the_stroke_of_a_debiased_error_stands_beside_its_mark() -> None:
    marks = {t.marker.symbol: (t.x[0], t.y, t.hovertext[0]) for t in beside(ours(0.01), ["SST-2"]).data}
    x, y, _ = marks["diamond"]
    assert marks["line-ns-open"] == (pytest.approx(x - 1), y, Holding("debiased"))


ROW = 100 * frames.settings().query("metric == 'size'")[["value", "high"]].iloc[0]
SERIES = [
    "25 steps, bias 5", "100 steps, bias 5", "25 steps, bias 10", "100 steps, bias 10",
    "25 steps, batch 32", "100 steps, batch 32", "25 steps, batch 128", "100 steps, batch 128",
]  # fmt: skip

test_settings_have = facts(
    {
        "rates first, and searches told their size beside them": (
            lambda: by_setting(frames.settings()),
            {
                "layout.xaxis.ticktext": [
                    "10<sup>6</sup>", "10<sup>7</sup>", "10<sup>8</sup>", "stagewise", "learned,<br>ranked"
                ],
                "layout.shapes.*.x0": [2.5],
            },
        ),
        "a series a choice of constants, with lines of the learned mask's": (
            lambda: by_setting(frames.settings()),
            {
                "data.*.name": SERIES, f"{SERIES[0]}/mode": "lines+markers", f"{SERIES[4]}/mode": "markers",
                f"{SERIES[0]}/x": [Between(n - 0.4, n + 0.4) for n in range(3)],
                f"{SERIES[4]}/x": [Between(n - 0.4, n + 0.4) for n in (4, 3)],
            },
        ),
        "sizes on a log axis, with their ends": (
            lambda: by_setting(frames.settings()),
            {
                "data.0.y.0": pytest.approx(ROW["value"]),
                "data.0.error_y.array.0": pytest.approx(ROW["high"] - ROW["value"]), "layout.yaxis.type": "log",
                "layout.yaxis.range.0": Between(-np.inf, np.log10(ROW["value"])),
                "layout.yaxis.range.1": Between(np.log10(ROW["value"]), np.inf),
                "data.0.hovertext.0": Holding("0.016%", "rate 10<sup>6</sup>"),
            },
        ),
        "scores on an axis of percent": (
            lambda: by_setting(frames.settings(), "accuracy"),
            {"layout.yaxis.type": None, "layout.yaxis.title.text": "accuracy, %"},
        ),
        "no line between searches that are all told their size": (
            lambda: by_setting(frames.settings().query("localizer != 'learned'"), "accuracy"),
            {"layout.shapes": [], "data.*.name": SERIES[4:]},
        ),
    }
)  # fmt: skip


def test_marks_of_one_place_stand_apart_and_every_series_has_its_look() -> None:
    traces = by_setting(frames.settings()).data
    at, looks = {trace.x[0] for trace in traces[:4]}, {(t.line.color, t.marker.symbol) for t in traces}
    assert (len(at), max(map(abs, at)), len(looks)) == (4, Between(-np.inf, 0.4), len(traces))


@pytest.mark.parametrize("color", [*FREE, *SIZED])
def test_colours_are_seen_on_both_grounds(color: str) -> None:
    assert min(contrast(color, ground) for ground in GROUND.values()) >= 3
