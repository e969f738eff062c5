"""The interpolation page's exhibits: the trade-off, both paths along their way, and confidence at the chosen point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.interpolation import path_style, trade_off
from skillviz.plots.interpolation_paths import along_paths, confidence_at
from skillviz.show.exhibit import Exhibit, kept
from skillviz.show.sentences import metric_value

HEIGHT = 520


@kept
def trade(
    points: pd.DataFrame, inside: str, outside: str, metric: str, levels: Mapping[str, float], theme: str
) -> Exhibit:
    """The metric out of distribution against the one in distribution."""
    shown = points[(points["metric"] == metric) & points["dataset"].isin((inside, outside))]
    better = "to the upper right" if metric_row(metric).better == "higher" else "to the lower left"
    return Exhibit(
        name="tradeoff",
        title="In and out of distribution",
        figure=trade_off(points, inside, outside, metric, references=levels, theme=theme, height=HEIGHT),
        reads=f"each line starts at the pre-trained model and ends at the fine-tuned one or the graft; {better} is "
        "better on both. A ring marks the chosen point; crosses are 95 % intervals over examples (those of the other "
        "points are in the table). The paper's Figure 7 e and f.",
        alt=trade_alt(shown, inside, outside, metric),
        table=shown,
        words=("wise", "ood", "chance"),
    )


@kept
def along(
    points: pd.DataFrame, datasets: Sequence[str], metric: str, levels: Mapping[str, float], theme: str
) -> Exhibit:
    """The metric along both paths, a panel a data set."""
    shown = points[(points["metric"] == metric) & points["dataset"].isin(datasets)]
    return Exhibit(
        name="along",
        title=f"{metric_row(metric).heading} along the way",
        figure=along_paths(points, datasets, metric, references=levels, theme=theme),
        reads="0 % is the pre-trained model, 100 % the fine-tuned one (WiSE-FT) or the graft (WiSE-Graft). Bands are "
        "95 % intervals over examples, the upright line is the chosen point.",
        alt=along_alt(shown, metric),
        table=shown,
        words=("wise",),
    )


@kept
def histogram(bins: pd.DataFrame, datasets: Sequence[str], theme: str) -> Exhibit:
    """How sure both models are at the chosen point, and where they are wrong."""
    return Exhibit(
        name="histogram",
        title="How sure it is there",
        figure=confidence_at(bins, datasets, theme=theme, height=HEIGHT),
        reads="share of the test examples in each of 15 bins of confidence, at the chosen point; the filled part is "
        "predicted wrongly. Filled bars at the right are wrong and sure.",
        alt=histogram_alt(bins),
        table=bins,
        words=("confidence",),
    )


def trade_alt(points: pd.DataFrame, inside: str, outside: str, metric: str) -> str:
    """The ends of each path on both data sets."""
    words = []
    for path, rows in points[~points["current"]].groupby("path", sort=False):
        for alpha in sorted({rows["alpha"].min(), rows["alpha"].max()}):
            at = rows[rows["alpha"] == alpha].drop_duplicates("dataset").set_index("dataset")["value"]
            sides = [f"{metric_value(metric, at.get(name))} on {name}" for name in (inside, outside)]
            words.append(
                f"{path_style(str(path)).title} at {formats.percent(alpha, 0)} of the way {' and '.join(sides)}"
            )
    return f"{metric_row(metric).title} in and out of distribution. " + "; ".join(words) + "."


def along_alt(points: pd.DataFrame, metric: str) -> str:
    """Where each line begins and ends."""
    words = []
    for (dataset, path), rows in points[~points["current"]].groupby(["dataset", "path"], sort=False):
        ordered = rows.sort_values("alpha")["value"]
        ends = f"{metric_value(metric, ordered.iloc[0])} to {metric_value(metric, ordered.iloc[-1])}"
        words.append(f"{path_style(str(path)).title} on {dataset} from {ends}")
    return f"{metric_row(metric).title} along the way. " + "; ".join(words) + "."


def histogram_alt(bins: pd.DataFrame) -> str:
    """The share of each model's examples in the highest bin, and how many of them are wrong."""
    words = []
    for (dataset, path), rows in bins.groupby(["dataset", "path"], sort=False):
        top = rows.sort_values("bin").iloc[-1]
        share = formats.percent(int(top["count"]) / max(int(rows["count"].sum()), 1))
        wrong = formats.count(int(top["count"]) - int(top["correct"]))
        words.append(f"{path_style(str(path)).title} on {dataset}: {share} in the highest bin, {wrong} of them wrong")
    return "Confidence histograms. " + "; ".join(words) + "."
