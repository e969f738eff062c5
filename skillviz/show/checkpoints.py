"""The checkpoints of one fine-tuning: score, calibration, size needed and overlap along training, with the finding."""

from __future__ import annotations

import pandas as pd

from skillviz.analysis.checkpoint_series import GAP, LEAD, NEEDED
from skillviz.analysis.recovered import GAIN_SHARE
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.checkpoints import PANELS, along_training, rows_of
from skillviz.plots.figure import centers
from skillviz.plots.theme import localizer_style, state_style
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once

READS = {
    "score": "each mark is one checkpoint; the bar is its 95% interval. A graft has the checkpoint's own region.",
    "calibration": "lower is better. Marks stand at the debiased error, which the interval is about.",
    "needed": f"the smallest size whose graft recovers {GAIN_SHARE:.0%} of what the checkpoint gained. Without a mark, "
    "none of the sizes does, or there is no gain.",
    "shared": "the share of the last checkpoint's region that this one holds too, by the same localizer and seed. "
    "Dotted: random regions with as many entries in each tensor.",
    "alike": "the share of top movement's region that the search chose too, at the same checkpoint. Dotted: by chance.",
    "held": "the share of the checkpoint's squared movement that lies in the region. A falling line: later steps "
    "spread the movement over more parameters.",
}
WORDS = {
    "score": ("graft", "paired"), "calibration": ("ece",), "needed": ("recovered", "size"),
    "shared": ("region", "chance"), "alike": ("region", "chance"), "held": ("movement",),
}  # fmt: skip


def panels(points: pd.DataFrame, task: str) -> list[str]:
    """The keys of PANELS that have data; `details` explains missing ones."""
    of_task = points[points["id_task"] == task]
    return [name for name in PANELS if len(rows_of(of_task, name))]


@drawn_once
def panel(points: pd.DataFrame, task: str, name: str, theme: str) -> Exhibit:
    """One figure of the table `checkpoints`, for one task; `name` is a key of PANELS."""
    of_task = points[points["id_task"] == task].reset_index(drop=True)
    rows = rows_of(of_task, name)
    return Exhibit(
        name=f"checkpoints_{name}",
        title=PANELS[name].title,
        figure=along_training(of_task, name, theme=theme),
        reads=READS[name],
        intervals=OVER_EXAMPLES if name in ("score", "calibration") else "",
        alt=_alt(rows, name),
        table=rows,
        words=WORDS[name],
    )


def finding(points: pd.DataFrame, task: str) -> str:
    """The search compared with top movement and with its model, at the first and the last checkpoint; if neither is
    known, the `details`."""
    of_task = points[points["id_task"] == task]
    parts = []
    leads = of_task[of_task["what"] == LEAD].sort_values("step", kind="stable")
    if len(leads):
        first = leads.iloc[0]
        name = localizer_style(first["localizer"]).title
        parts.append(f"{metric_row(first['metric']).heading} of **{name}** − top movement: {_ends(leads)}.")
    gaps = of_task[of_task["what"] == GAP].sort_values("step", kind="stable")
    if gaps["step"].nunique() > 1:
        parts.append(f"{metric_row(gaps.iloc[0]['metric']).heading} of the graft − its model: {_ends(gaps)}.")
    return " ".join(parts) or details(points, task)


def details(points: pd.DataFrame, task: str) -> str:
    """The share of the last checkpoint's region that the first already holds, and the marks that the figures lack."""
    of_task = points[points["id_task"] == task]
    parts = []
    shared = rows_of(of_task, "shared").sort_values("step", kind="stable")
    if shared["step"].nunique() > 1:
        first = shared.iloc[0]
        parts.append(
            f"The first checkpoint's region by {localizer_style(first['localizer']).title} already holds "
            f"**{formats.percent(first['value'])}** of the last one's (by chance {formats.percent(first['chance'])})."
        )
    alike = rows_of(of_task, "alike").sort_values("step", kind="stable")
    if alike["step"].nunique() > 1:
        first, last = alike.iloc[0], alike.iloc[-1]
        name = formats.capital(localizer_style(first["localizer"]).title)
        parts.append(
            f"{name} shares **{formats.percent(first['value'])}** of its region with top movement at step "
            f"{first['step']:,}, **{formats.percent(last['value'])}** at step {last['step']:,}."
        )
    return " ".join([*parts, *without_size(of_task)])


def _ends(rows: pd.DataFrame) -> str:
    """The first and the last of some differences by step, with their intervals."""
    metric = metric_row(rows.iloc[0]["metric"])
    return ", ".join(
        f"at step {row['step']:,} {metric.change(row['value'])} ({metric.ends(row['low'], row['high'])})"
        for row in rows.iloc[sorted({0, len(rows) - 1})].to_dict("records")
    )


def without_size(points: pd.DataFrame) -> list[str]:
    """Sentences on the marks missing from the figure of the size needed, and the reasons; empty if none is missing."""
    needed, sentences = points[points["what"] == NEEDED], []
    if undefined := sorted(set(points["step"]) - set(needed["step"])):
        sentences.append(
            f"The size that recovers the gain is undefined at {_steps(undefined)}: fine-tuning gained nothing on "
            "validation, or nothing beyond chance on test."
        )
    for localizer, rows in needed[needed["value"].isna()].groupby("localizer", sort=False):
        sentences.append(
            f"No size of {localizer_style(str(localizer)).title} recovers {GAIN_SHARE:.0%} of the gain at "
            f"{_steps(sorted(rows['step']))}."
        )
    return sentences


def _steps(steps: list[int]) -> str:
    """`step 50`, `steps 200 and 800`."""
    return f"step{'s' if len(steps) > 1 else ''} {formats.listed([f'{step:,}' for step in steps], 6)}"


def _alt(rows: pd.DataFrame, name: str) -> str:
    """First and last value of every line."""
    changes = []
    for (what, localizer), line in rows.sort_values("step").groupby(["what", "localizer"], sort=False):
        title = localizer_style(str(localizer)).title if localizer else state_style(str(what)).title
        text = formats.share if name == "needed" else metric_row(line["metric"].iloc[0]).text
        at = [f"{text(value)} at step {step:,}" for value, step in zip(centers(line, 1.0), line["step"], strict=True)]
        changes.append(f"{title} from {at[0]} to {at[-1]}")
    return f"{PANELS[name].title}: {'; '.join(changes)}." if changes else f"{PANELS[name].title}: nothing is known."
