"""Points between the models: the best known point in words, the source of a point's numbers, and the exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.many_comparisons import simultaneous
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED, DifferenceVerdict
from skillviz.plots.figure import centers
from skillviz.plots.interpolation import accuracy_by_error, along_paths, confidence_at, path_style, trade_off
from skillviz.runs.points import DIFFERENCE
from skillviz.runs.record import Estimate, RunRecord
from skillviz.show import text
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.show.interpolation_grid import FINETUNED, GRAFT, Grid, estimate
from skillviz.show.sentences import metric_difference, metric_value, verdict
from skillviz.show.table_words import with_task_names
from skillviz.tasks.readable_names import readable

STORED, NEAREST, EXACT = "stored", "nearest", "exact"
PAPER = """\
**WiSE-FT** takes a model on the straight way from the pre-trained to the fine-tuned one; **WiSE-Graft** does the same \
with the graft as its end, so that only the region's entries move. The paper's Figure 7 e and f plot accuracy out of \
distribution against accuracy in distribution along both ways. In one of its two pairs (inference) the best graft \
reaches 84.2% in and 80.0% out of distribution, where the best point of WiSE-FT has 80.5% and 79.6%; in the other \
(sentiment) WiSE-FT is ahead, and WiSE-Graft is competitive. For whole grafts it sees no gain where the shift between \
the two tasks is small, and at least 5 points where it is large.
"""
HEIGHT = 370


PICKED = "The best point was picked on these same examples. Its interval holds for all points at once."


def best(grid: Grid, dataset: str, metric: str, d: int | None) -> str:
    """The best known point on a data set, with its verdict against the fine-tuned model; in Markdown."""
    decided, words = finding(grid, dataset, metric, d)
    return f"{words} **{formats.capital(decided)}.** {PICKED}" if decided else words


def finding(grid: Grid, dataset: str, metric: str, d: int | None) -> tuple[DifferenceVerdict | None, str]:
    """The verdict on the best known point on a data set compared with the fine-tuned model, or None, and the words.

    The interval holds for all known points at once, and so also for the best of them.
    """
    name, words, top = text.tasks(dataset), metric_row(metric).title, grid.best(dataset, metric)
    if top is None or dataset not in grid.between:
        return None, f"Nothing between the models is stored on {name}; each point is computed live."
    path, size, alpha = top
    point = grid.at("points", dataset, path, size, alpha)
    value, tuned = estimate(point, metric), estimate(grid.at("points", dataset, FINETUNED, None, 1.0), metric)
    assert value is not None
    rows = grid.points[(grid.points["dataset"] == dataset) & (grid.points["metric"] == metric)]
    models = len(rows) - max(int((rows["alpha"] == 0).sum()) - 1, 0)  # all paths begin at the same point
    on = f" ({formats.counted(grid.traced_on[dataset], 'example')})" if dataset in grid.traced_on else ""
    first = f"Best {words} on {name}{on}: **{metric_value(metric, value.read)}** {place(path, size, alpha, d)}"
    if tuned is None or tuned.value is None:
        return None, f"{first}."
    if tuned.read == value.read:
        return None, f"{first}. No known point beats the fine-tuned model."
    first = f"{first}; fine-tuned {metric_value(metric, tuned.read)}"
    difference = estimate(point, metric + DIFFERENCE)
    if difference is None or difference.value is None:
        return NOT_MEASURED, f"{first}, best of {models}."
    counted = grid.examples(dataset) if metric_row(metric).interval == "wilson" else None
    difference = _of_best(metric + DIFFERENCE, difference, models, counted)
    return verdict(metric, difference), f"{first}, {metric_difference(metric, difference)}, best of {models}."


def _of_best(metric: str, one: Estimate, models: int, examples: int | None = None) -> Estimate:
    """The estimate with an interval that holds for all these models at once, within the range of the metric."""
    if one.read is None or one.low is None or one.high is None:
        return one
    low, high = simultaneous(one.low, one.high, one.read, models, examples=examples)
    if not metric.endswith(DIFFERENCE):
        row = metric_row(metric)
        low, high = max(low, row.lowest), min(high, row.highest)
    return one.model_copy(update={"low": low, "high": high})


def place(path: str, size: int | None, alpha: float, d: int | None) -> str:
    """`at α = 70% of WiSE-Graft (region of 1%)`; the models themselves at the ends."""
    if alpha == 0:
        return "at the pre-trained model"
    region = f" (region of {formats.share(size / d)})" if size is not None and d else ""
    if alpha == 1:
        return f"at the graft{region}" if path == GRAFT else "at the fine-tuned model"
    return f"at α = {formats.percent(alpha, 0)} of {path_style(path).title}{region}"


def source(kind: str, path: str, size: int | None, alpha: float, d: int | None, traced_on: int | None = None) -> str:
    """The source of a point's numbers; `traced_on` is the number of examples of its traced line, or None."""
    where = place(path, size, alpha, d)
    origins = {STORED: "Stored", NEAREST: "Nearest stored point", EXACT: "Computed live"}
    if traced_on is not None:
        on = formats.counted(traced_on, "example")
        origins |= {STORED: f"Traced on {on}", NEAREST: f"Nearest point traced on {on}"}
    return f"{origins[kind]}: {where}."


def deviations(record: RunRecord) -> list[str]:
    """The differences of this page from the paper, and its choices in open questions; one sentence each."""
    sentences = [
        "The paper does not state its grid; ours is every 10% of the path.",
        "Regions of other sizes than the run's main one are the first entries of its ranking, not a new search.",
        "Test examples seen in training are skipped, and the other task is scored with its own prompt.",
        "WiSE-FT moves every parameter that fine-tuning moved, those outside the graftable ones too.",
    ]
    if record.readout == "head":
        sentences.append("The classification head is the fine-tuned one along both paths: it has no pre-trained value.")
    return sentences


def missing(record: RunRecord) -> str:
    """The command that makes the run again with the missing data; other tasks need classes of the same names."""
    others = record.spec.others or (("TASK",) if record.has_classes else ())
    return record.spec.model_copy(update={"interpolation": True, "others": others}).command()


@drawn_once
def trade(
    points: pd.DataFrame, inside: str, outside: str, metric: str, levels: Mapping[str, float], theme: str
) -> Exhibit:
    """The metric out of distribution against the one in distribution."""
    shown = points[(points["metric"] == metric) & points["dataset"].isin((inside, outside))]
    named, inside, outside = with_task_names(points), readable(inside), readable(outside)
    better = "to the upper right" if metric_row(metric).better == "higher" else "to the lower left"
    return Exhibit(
        name="tradeoff",
        title="In and out of distribution",
        figure=trade_off(named, inside, outside, metric, references=levels, theme=theme, height=HEIGHT),
        reads=f"each line starts at the pre-trained model and ends at the fine-tuned one or the graft; {better} is "
        "better on both. A ring marks the chosen point; crosses are 95% intervals over examples (those of the other "
        "points are in the table). The paper's Figure 7 e and f.",
        intervals=OVER_EXAMPLES,
        alt=trade_alt(with_task_names(shown), inside, outside, metric),
        table=shown,
        words=("wise", "ood", "chance", *_of_values(metric)),
    )


PLANE = ("accuracy", "ece")


def has_plane(points: pd.DataFrame, dataset: str) -> bool:
    """True if accuracy and ECE are known on a data set between the ends of a path."""
    between = points[(points["dataset"] == dataset) & points["alpha"].between(0, 1, inclusive="neither")]
    return set(PLANE) <= set(between["metric"])


def nearest_to_corner(points: pd.DataFrame, dataset: str) -> str:
    """The point of each path that is nearest to a model that is always right and calibrated; no verdict between them.

    The distances have no interval, because points between the models have no stored predictions.
    """
    told = []
    for path, rows in points[(points["dataset"] == dataset) & ~points["current"]].groupby("path", sort=False):
        line = rows.assign(read=centers(rows, 1.0)).drop_duplicates(["alpha", "metric"])
        known = line.pivot(index="alpha", columns="metric", values="read")[list(PLANE)].dropna()
        away = known.assign(distance=(known["ece"] ** 2 + (1 - known["accuracy"]) ** 2) ** 0.5).reset_index()
        nearest = away.nsmallest(1, "distance").to_dict("records")[0]
        values = [f"{metric_row(metric).title} {metric_value(metric, nearest[metric])}" for metric in PLANE]
        told.append(f"{place(str(path), None, nearest['alpha'], None)} ({', '.join(values)})")
    return f"Nearest to accuracy 100% and ECE 0% on each path: {' and '.join(told)}. The distances have no interval."


@drawn_once
def plane(points: pd.DataFrame, dataset: str, where: str, theme: str) -> Exhibit:
    """The accuracy against the calibration error along both paths on one data set, `in` or `out of` distribution."""
    return Exhibit(
        name=f"plane_{where.partition(' ')[0]}",
        title=f"Accuracy and calibration {where} distribution",
        figure=accuracy_by_error(points, dataset, theme=theme, height=HEIGHT),
        reads="each line starts at the pre-trained model and ends at the fine-tuned one or the graft. Further up is "
        "more often right, further left better calibrated. Labels are mixing weights α. A ring marks the chosen point; "
        "crosses are 95% intervals over examples (those of the other points are in the table).",
        intervals=OVER_EXAMPLES,
        alt=f"Accuracy against ECE. {nearest_to_corner(points, dataset)}",
        table=points[points["metric"].isin(PLANE) & (points["dataset"] == dataset)],
        words=("wise", "ece", "debiased"),
    )


BOTH_PATHS = (
    "0% is the pre-trained model, 100% the fine-tuned one (WiSE-FT) or the graft (WiSE-Graft). Bands are 95% intervals "
    "over examples; the vertical line is the chosen point."
)


def _of_values(metric: str) -> tuple[str, ...]:
    """The glossary's entries on the drawn values of a metric."""
    return ("debiased",) if metric_row(metric).interval == "calibration" else ()


@drawn_once
def paths(
    points: pd.DataFrame,
    datasets: Sequence[str],
    metric: str,
    levels: Mapping[str, float],
    theme: str,
    height: int | None = None,
    reads: str = BOTH_PATHS,
    room: pd.DataFrame | None = None,
) -> Exhibit:
    """The metric along both paths, one panel per data set; `height` in pixels, None for the default.

    The axes leave room for the points of `room`, if given.
    """
    shown = points[(points["metric"] == metric) & points["dataset"].isin(datasets)]
    return Exhibit(
        name="along",
        title=f"{metric_row(metric).heading} along the path",
        figure=along_paths(
            with_task_names(points),
            list(map(readable, datasets)),
            metric,
            references=levels,
            room=None if room is None else with_task_names(room),
            theme=theme,
            height=height,
        ),
        reads=reads,
        intervals=OVER_EXAMPLES,
        alt=paths_alt(with_task_names(shown), metric),
        table=shown,
        words=("wise", *_of_values(metric)),
    )


@drawn_once
def histogram(bins: pd.DataFrame, datasets: Sequence[str], theme: str) -> Exhibit:
    """The confidence of both models at the chosen point, with their errors."""
    named = with_task_names(bins)
    return Exhibit(
        name="histogram",
        title="Confidence at this point",
        figure=confidence_at(named, list(map(readable, datasets)), theme=theme, height=HEIGHT),
        reads="share of the test examples in each of 15 bins of confidence, at the chosen point; the filled part is "
        "wrong. Filled bars at the right are wrong and confident.",
        alt=histogram_alt(named),
        table=bins,
        words=("confidence",),
    )


def trade_alt(points: pd.DataFrame, inside: str, outside: str, metric: str) -> str:
    """The ends of each path on both data sets."""
    words, lines = [], points[~points["current"]]
    for path, rows in lines.assign(read=centers(lines, 1.0)).groupby("path", sort=False):
        for alpha in sorted({rows["alpha"].min(), rows["alpha"].max()}):
            at = rows[rows["alpha"] == alpha].drop_duplicates("dataset").set_index("dataset")["read"]
            sides = [f"{metric_value(metric, at.get(name))} on {name}" for name in (inside, outside)]
            words.append(f"{path_style(str(path)).title} at α = {formats.percent(alpha, 0)} {' and '.join(sides)}")
    return f"{metric_row(metric).title} in and out of distribution. " + "; ".join(words) + "."


def paths_alt(points: pd.DataFrame, metric: str) -> str:
    """The first and last value of each line."""
    words = []
    for (dataset, path), rows in points[~points["current"]].groupby(["dataset", "path"], sort=False):
        ordered = centers(rows.sort_values("alpha"), 1.0)
        ends = f"{metric_value(metric, ordered[0])} to {metric_value(metric, ordered[-1])}"
        words.append(f"{path_style(str(path)).title} on {dataset} from {ends}")
    return f"{metric_row(metric).title} along the path. " + "; ".join(words) + "."


def histogram_alt(bins: pd.DataFrame) -> str:
    """The share of each model's examples in the highest bin, and the number of errors among them."""
    words = []
    for (dataset, path), rows in bins.groupby(["dataset", "path"], sort=False):
        top = rows.sort_values("bin").iloc[-1]
        share = formats.percent(int(top["count"]) / max(int(rows["count"].sum()), 1))
        wrong = formats.count(int(top["count"]) - int(top["correct"]))
        words.append(f"{path_style(str(path)).title} on {dataset}: {share} in the highest bin, {wrong} of them wrong")
    return "Confidence histograms. " + "; ".join(words) + "."
