"""The paper page's exhibits: the comparisons behind a claim, and published values next to our own."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.figure import centers
from skillviz.plots.methods import method_style
from skillviz.plots.paper import AXES, CLAIM_COLUMNS, beside
from skillviz.plots.paper import comparisons as drawn_comparisons
from skillviz.show.exhibit import OVER_SEEDS, Exhibit, drawn_once
from skillviz.studies.paper.claims import Comparison, Verdict
from skillviz.tasks.readable_names import readable

NOT_PAIRED = "the interval is joined from those of the two numbers, so it is wider than a paired one."
SAYS = {True: "supports", False: "contradicts", None: "leaves open"}


def evidence(here: Verdict, paper: Verdict) -> pd.DataFrame:
    """The comparisons of a claim for the figure, after the paper's mean and, if there are several comparisons, ours."""
    rows = [
        (one, SAYS[one.supports] if one.is_measured else NOT_MEASURED)
        for one in here.comparisons
        if not formats.missing(one.value)
    ]
    means = [(paper.mean, "mean in the paper"), (here.mean if len(rows) > 1 else None, "mean here")]
    comparisons = [*((one, says) for one, says in means if one is not None), *rows]
    return pd.DataFrame([_row(one, says) for one, says in comparisons], columns=list(CLAIM_COLUMNS))


def _row(one: Comparison, says: str) -> tuple[str, float, float, float, float, str]:
    where = {"mean in the paper": "the paper, ", "mean here": "here, "}.get(says, "") + one.where
    where = readable(where) + ("" if one.is_paired else " (not paired)")
    return where, one.value, one.debiased, one.low, one.high, says


@drawn_once
def claim(here: Verdict, paper: Verdict, theme: str) -> Exhibit:
    """The evidence for a claim: one row per comparison."""
    rows = evidence(here, paper)
    first = here.comparisons[0] if here.comparisons else None
    unit, limits = (first.unit, first.limits) if first else ("points", (0.0,))
    scale, axis = AXES[unit]
    marks = zip(rows["where"], centers(rows, scale), rows["says"], strict=True)
    phrases = [f"{where} {value:,.3g}, {says}" for where, value, says in marks]
    return Exhibit(
        name="paper_claim",
        title=here.claim.rstrip("."),
        figure=drawn_comparisons(rows, unit, limits, theme=theme),
        reads="one row per comparison with its 95% interval; the dotted line is the claim's limit." + _not_paired(here),
        intervals=OVER_SEEDS,
        alt=f"{here.claim} By comparison, {axis}: {'; '.join(phrases)}.",
        table=rows,
        words=("verdict", "paired"),
    )


def _not_paired(here: Verdict) -> str:
    """The note on unpaired rows; empty if all rows are paired."""
    if all(one.is_paired for one in here.comparisons):
        return ""
    return f" Not paired: {NOT_PAIRED}"


def _debiased(marks: pd.DataFrame, metric: str) -> str:
    if not marks["debiased"].notna().any():
        return ""
    return (
        f"they are the plug-in {metric_row(metric).title}, as published ones are, and the upright stroke is the "
        "debiased one, which the interval is about; "
    )


@drawn_once
def values(marks: pd.DataFrame, table: pd.DataFrame, metric: str, title: str, theme: str) -> Exhibit:
    """One metric of every task and method, published and ours; `table` has the rows as words."""
    tasks = list(dict.fromkeys(table["task"]))
    words = metric_row(metric)
    both = set(marks["source"]) == {"here", "published"}
    ours = "filled marks are measured here, with 95% intervals over examples and seeds; " if both else ""
    phrases = [
        f"{row['task']}, {method_style(row['method']).title}, {row['source']} {formats.percent(row['value'])}"
        for row in marks.to_dict("records")
    ]
    return Exhibit(
        name="paper_values",
        title=f"{words.heading}, {title}",
        figure=beside(marks, tasks, metric, theme=theme),
        reads=f"{ours}{_debiased(marks, metric)}hollow ones are published, with one standard deviation over five "
        "samples of the data. Tasks go by their published names where there is one; the table says what stands for "
        "them here.",
        intervals=OVER_SEEDS if both else "",
        alt=f"{words.title} published and here. {'; '.join(phrases)}.",
        table=table,
        words=("published", "ece"),
    )
