"""What the methods page says: each method against the graft, from paired differences."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.methods import method_style
from skillviz.runs.record import Estimate
from skillviz.show import text
from skillviz.show.sentences import metric_difference, verdict
from skillviz.studies.store import StudyFolder
from skillviz.ui.pages.methods.tables import OTHERS, TOP_MOVEMENT, Asked
from skillviz.ui.pages.studies.commands import OTHER

GRAFTS = (TOP_MOVEMENT,)  # other choices of a region: no other method
NAMES = {
    "graft_retrain": "Re-training the region",
    "ft": "Fine-tuning everything",
    "ft_scaled": "Fine-tuning everything, temperature-scaled,",
    "adamw": "Fine-tuning everything with AdamW",
    "adamw_l1": "AdamW with L1 on the movement",
    "graft_movement": "A graft of the top movement",
}
NOTHING_ELSE = (
    "this stays open here: no stored study of this base and readout compares {graft} with re-training the region, "
    "BitFit, LoRA or fine-tuning everything on the same examples. The experiment Table 1 does: the page Studies starts "
    "it."
)


def summary(differences: pd.DataFrame, asked: Asked, share: float, metric: str) -> str:
    """Each method less the graft of this size, in the task's metric and in ECE; in Markdown."""
    name = text.plain(asked.task)
    held = [method for method in OTHERS if (differences["method"] == method).any()]
    graft = f"a graft of **{formats.share(share)}** of the parameters"
    if all(method in GRAFTS for method in held):
        told = [f"- {_one(differences[differences['method'] == m], m, metric)}, against the graft." for m in held]
        return "\n".join([f"On **{name}**, {NOTHING_ELSE.format(graft=graft)}", "", *told])
    first, *others = [_one(differences[differences["method"] == m], m, metric) for m in held]
    begin = first if held[0] not in NAMES else f"{first[:1].lower()}{first[1:]}"
    head = f"On **{name}**, against {graft}, {begin}."
    return "\n".join([head, "", *(f"- {said[:1].upper()}{said[1:]}." for said in others)])


def no_rival(task: str, several_bases: bool = False) -> str:
    """What stands where no graft was compared with anything."""
    why = (
        "the study is of several bases, and its paired differences do not tell them apart"
        if several_bases
        else "no stored study of this base and readout compares any method with a graft on the same examples"
    )
    name = text.plain(task)
    return f"On **{name}**, this stays open here: {why}. The values of each stand below, with intervals of their own."


def _one(rows: pd.DataFrame, method: str, metric: str) -> str:
    """`re-training the region gains 2.0 points (...) of accuracy over the graft; no difference in ECE is shown`."""
    told = [_metric(rows, name) for name in (metric, "ece")]
    name = NAMES.get(method, method_style(method).title)
    return f"{name} {'; '.join(part for part in told if part)}"


def _metric(rows: pd.DataFrame, metric: str) -> str:
    own = rows[(rows["metric"] == metric) & rows["value"].notna()]
    words = metric_row(metric).title
    if own.empty:
        return ""
    row = own.iloc[0]
    found = Estimate(value=row["value"], low=formats.known(row["low"]), high=formats.known(row["high"]))
    decided, told = verdict(metric, found), _told(metric, found)
    if decided == "undecided":
        return f"shows **no difference in {words}** ({told})"
    verb = "gains" if row["value"] > 0 else "loses"
    if metric == "ece":
        verb = "is **better calibrated**" if decided == "better" else "is **worse calibrated**"
        return f"{verb} ({words} {told})"
    return f"**{verb}** in {words} ({told})"


def _told(metric: str, found: Estimate) -> str:
    """`+2.0 points, 95 %: 0.1 to 4.1`."""
    return metric_difference(metric, found).replace(" (", ", ", 1).removesuffix(")")


def sources(studies: Sequence[StudyFolder]) -> str:
    """Which studies the page's rows come from."""
    if len(studies) == 1:
        return f"All rows are of the study `{studies[0].name}`."
    names = formats.listed([f"`{study.name}`" for study in studies], 8)
    return f"Put together from {len(studies)} studies of one scale, base and readout: {names}."


def no_transfer(task: str, is_whole: bool) -> str:
    """That nothing was scored on other data, and what makes it; `is_whole` where the command alone does."""
    name = text.plain(task)
    told = f"No stored study of this base and readout has scored models of {name} on other data without training."
    if is_whole:
        return f"{told} This makes one:"
    return (
        f"{told} Nothing here stands for other data of this task: name one with the same labels in place of "
        f"`{OTHER}`, and this makes a study of it:"
    )
