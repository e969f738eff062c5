"""What the compare page says: which runs differ from the baseline, McNemar's test, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.runs.record import Estimate
from skillviz.show import text
from skillviz.show.sentences import metric_difference, verdict
from skillviz.ui.pages.compare.compared import MOST, Side, unlike

SMALL_P = 0.001


def summary(differences: pd.DataFrame, baseline: Side, metrics: Sequence[str], what: str) -> str:
    """For the task's metric and ECE: who is better or worse than the baseline, and for whom nothing can be told."""
    if differences.empty:
        return f"No other run here was scored on the examples of **{text.plain(baseline.name)}**."
    said = [_one(differences[differences["metric"] == metric], metric) for metric in metrics[:2]]
    lines = [f"- {sentence}." for sentence in said if sentence]
    return "\n".join([f"The {what}, against **{text.plain(baseline.name)}**:\n", *lines])


def _one(rows: pd.DataFrame, metric: str) -> str:
    """`In accuracy **B** is better, +1.2 points (95 %: 0.1–2.0); C and D cannot be told from it`."""
    rows = rows.dropna(subset=["value"])
    if rows.empty:
        return ""
    decided, open_ones = [], []
    for row in rows.to_dict("records"):
        found = Estimate(value=row["value"], low=row["low"], high=row["high"])
        judged = verdict(metric, found)
        if judged == "undecided":
            open_ones.append(f"**{row['run']}**")
        else:
            decided.append(f"**{row['run']}** is {judged}, {metric_difference(metric, found)}")
    parts = [*decided, *([f"{formats.listed(open_ones, len(open_ones))} cannot be told from it"] if open_ones else [])]
    return f"In {metric_row(metric).title} {'; '.join(parts)}"


def mcnemar(differences: pd.DataFrame, baseline: str) -> list[str]:
    """One line a run: McNemar's exact test of equal accuracy, and the examples that decide it."""
    rows = differences[(differences["metric"] == "accuracy") & differences["p"].notna()]
    return [
        f"**{row['run']}**: p {_p(row['p'])}; of {formats.counted(int(row['n']), 'example')}, "
        f"{int(row['only_run_right'])} only {row['run']} gets right, "
        f"{int(row['only_baseline_right'])} only {baseline}."
        for row in rows.to_dict("records")
    ]


def _p(value: float) -> str:
    return f"below {SMALL_P}" if value < SMALL_P else f"= {value:.3f}"


def limits(
    found: Sequence[Side], baseline: Side, tested: Mapping[str, int], fitting: Sequence[str], n: int
) -> list[str]:
    """One sentence for each thing that cannot be compared, and why.

    `tested` are the examples shared with the baseline's `n` by run, `fitting` the runs whose regions can be laid over
    the baseline's.
    """
    said = []
    for side in found:
        if side.key == baseline.key:
            continue
        reason = unlike(side, baseline)
        if reason:
            said.append(
                f"**{side.key}** has values of its own but no difference from {baseline.key}, and no curve beside it: "
                f"{text.plain(reason)}."
            )
        elif not tested.get(side.key):
            said.append(f"**{side.key}** has no difference from {baseline.key}: they were scored on no common example.")
        elif tested[side.key] < n:
            shared = f"{formats.count(tested[side.key])} of {baseline.key}'s {formats.counted(n, 'example')}"
            said.append(f"**{side.key}** is compared on the {shared} that it was scored on too.")
        if side.key not in fitting:
            said.append(
                f"**{side.key}**'s region cannot be laid over {baseline.key}'s: the models' parameters differ "
                f"({formats.count(side.entry.d)} and {formats.count(baseline.entry.d)} graftable entries)."
            )
    return said


def unknown(names: Sequence[str]) -> str:
    """That the address names runs that are not here."""
    told = ", ".join(text.plain(name) for name in names)
    return (
        f"This address names {formats.counted(len(names), 'run')} that cannot be found here: {told}. "
        "Deleted, or kept in another folder of runs (`SKILLVIZ_RUNS`); the others are shown."
    )


def too_many(count: int) -> str:
    """That more runs were asked for than can be told apart."""
    return f"This address names {count} runs; the first {MOST} are shown, as more cannot be told apart."


def too_few(count: int) -> str:
    """What to do with fewer than two runs."""
    have = "One run is chosen" if count else "No run is chosen"
    return (
        f"{have}. A comparison needs two to {MOST}: choose more above, or press one of the two buttons. The first "
        "takes every localizer of a pair at one region size, the second every seed of one localizer."
    )
