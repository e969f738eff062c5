"""What is said of single examples: how often the graft disagrees, and whether that costs it anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.agreement import agreement_interval, mcnemar
from skillviz.show import text

DECIDED = 0.05


def disagreement(grafted: np.ndarray, finetuned: np.ndarray, labels: np.ndarray, split: str) -> str:
    """On how many examples graft and fine-tuned model differ, who is right there, and what McNemar's test says.

    Logits [n, label] and labels [n].
    """
    same, low, high = agreement_interval(grafted, finetuned)
    test, n = mcnemar(grafted, finetuned, labels), len(labels)
    differing = round(n * (1 - same))
    counts = f"**{formats.count(differing)} of {formats.count(n)}**"
    interval = f"95{formats.SPACE}%: {formats.percent_interval(1 - high, 1 - low)}"
    first = (
        f"The graft and the fine-tuned model disagree on {counts} examples of the {split} set "
        f"({formats.percent(1 - same)}, {interval})."
    )
    if not differing:
        return first
    neither = differing - test.n01 - test.n10
    both = f", neither on {formats.count(neither)}" if neither else ""
    tuned, graft = (f"**{formats.count(number)}**" for number in (test.n01, test.n10))
    right = f"the fine-tuned model alone is right on {tuned}, the graft alone on {graft}{both}"
    return f"{first} There {right}. {_judged(test.p, test.n01, test.n10)}"


def _judged(p: float, tuned: int, graft: int) -> str:
    if p >= DECIDED:
        return f"By McNemar's exact test ({p_value(p)}) no difference in accuracy can be told."
    better = "the fine-tuned model" if tuned > graft else "the graft"
    return f"By McNemar's exact test ({p_value(p)}) **{better}** is right more often."


def p_value(p: float) -> str:
    """`p = 0.031`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {formats.number(p, 3)}"


def classes(results: pd.DataFrame, labels: Sequence[str]) -> str:
    """Which class the graft and the fine-tuned model find worst, by F1; `results` as of `core.confusion`."""
    said = []
    for state, name in (("grafted", "the graft"), ("finetuned", "the fine-tuned model")):
        mine = results[(results["state"] == state) & (results["metric"] == "f1")].dropna(subset="value")
        if mine.empty:
            continue
        worst = mine.iloc[int(mine["value"].to_numpy().argmin())]
        ends = formats.percent_interval(worst["low"], worst["high"])
        interval = ends if formats.missing(worst["low"]) else f"95{formats.SPACE}%: {ends}"
        label = text.plain(labels[int(worst["class"])])
        said.append(f"{name} finds **{label}** worst (F1 {formats.percent(worst['value'])}, {interval})")
    first, *others = said or ["No class was found at all"]
    return f"{first[:1].upper()}{first[1:]}{''.join(f', {other}' for other in others)}."


def passing(shown: int, n: int, area: str = "") -> str:
    """How many examples pass the filters; `area` tells of the part of the scatter that was marked, if any was."""
    if shown == n:
        return f"All **{formats.counted(n, 'example')}** are shown."
    inside = f" and lie in the marked area: {area}" if area else ""
    share = formats.percent(shown / max(n, 1))
    return f"**{formats.count(shown)}** of {formats.counted(n, 'example')} pass the filters{inside} ({share})."
