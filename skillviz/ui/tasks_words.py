"""What the tasks page says: isolation and transfer in words, each claim from its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillviz.plots.tasks import CHOSEN, UNION_OF
from skillviz.ui import text

RELATED, UNRELATED, GAP = "related", "unrelated", "related - unrelated"
SHARES = {
    "overlap": "of the entries of one region lie in that of the other",
    "iou": "of all entries of both are shared",
}


def isolation(table: pd.DataFrame, kind: str) -> str:
    """How much regions share, related tasks against unrelated ones; decided only where the interval leaves out 0."""
    rows = {str(row["relation"]): row for row in table[table["kind"] == kind].to_dict("records")}
    apart = rows.get(UNRELATED)
    if apart is None and RELATED not in rows:
        return "No two regions were compared."
    said = []
    if RELATED in rows:
        said.append(f"Between **related** tasks **{_share(rows[RELATED])}** {SHARES[kind]}")
    if apart is not None:
        between = "between **unrelated** ones" if said else "Between tasks that are not related"
        tail = "" if said else f" {SHARES[kind]}"
        said.append(f"{between} **{_share(apart)}**{tail}")
    shared = " and ".join(said)
    chance = (apart if apart is not None else rows[RELATED])["chance"]
    return f"{shared}; random regions of these sizes would share {text.share(chance)}. {_gap(rows.get(GAP))}".strip()


def _gap(row: Mapping[Any, Any] | None) -> str:
    """Whether related tasks share more."""
    if row is None:
        return "No two of these tasks are of one family, so nothing can be said of kinship."
    if text.missing(row["low"]):
        return "There is one mask seed: whether the two differ cannot be told."
    interval = f"{text.points(row['value'])} (95{text.SPACE}%: {text.percent_interval(row['low'], row['high'])})"
    if row["low"] > 0:
        return f"Related tasks share more: {interval} over {int(row['seeds'])} mask seeds."
    if row["high"] < 0:
        return f"Related tasks share less, other than in the paper: {interval} over {int(row['seeds'])} mask seeds."
    return f"Whether related tasks share more cannot be told: {interval} over {int(row['seeds'])} mask seeds."


def transfer(gain: pd.DataFrame, related: Mapping[tuple[str, str], str]) -> str:
    """What a task's region does for its own task and for others; `related` tells kinship by (region, task)."""
    single = gain[~gain["of"].str.contains("+", regex=False) & gain["value"].notna()]
    if single.empty:
        return ""
    own = single[single["of"] == single["task"]]
    lines = []
    if len(own):
        ends = (own["value"].min(), own["value"].max())
        span = f"**{text.percent(ends[0])}** to **{text.percent(ends[1])}**" if len(own) > 1 else text.percent(ends[0])
        lines.append(f"A region brings back {span} of the multi-task model's gain on its own task")
    for kin in (RELATED, UNRELATED):
        rows = single[[related.get((a, b)) == kin for a, b in zip(single["of"], single["task"], strict=True)]]
        if len(rows):
            helped, hurt = int((rows["low"] > 0).sum()), int((rows["high"] < 0).sum())
            lines.append(
                f"of {text.counted(len(rows), 'pair')} of {kin} tasks the region of one helps the other beyond "
                f"chance in {helped} and harms it in {hurt}"
            )
    return "; ".join(lines) + ". Each pair is judged by its own interval."


def union(rows: pd.DataFrame, chosen: Sequence[str]) -> str:
    """What the union of these tasks' regions gives inside and outside it."""
    found = rows[rows["what"] == (UNION_OF if len(chosen) > 1 else CHOSEN)].set_index("task")
    inside = [_one(task, found.loc[task]) for task in chosen if task in found.index]
    outside = [_one(str(task), found.loc[task]) for task in found.index if task not in chosen]
    what = "The union" if len(chosen) > 1 else "The region"
    named = text.listed([text.plain(task) for task in chosen], 8)
    said = f"{what} of {named} brings back {text.listed(inside, 8)}"
    return f"{said}; of tasks outside it, {text.listed(outside, 8)}." if outside else f"{said}."


def _one(task: str, row: Any) -> str:
    if text.missing(row["value"]):
        return f"n/a on {text.plain(task)}, where the multi-task model gains nothing"
    interval = text.percent_interval(row["low"], row["high"], 0)
    return f"**{text.percent(row['value'], 0)}** ({interval}) on {text.plain(task)}"


def not_stored(chosen: Sequence[str]) -> str:
    """That this union is not among the stored ones."""
    return f"The union of {text.listed([text.plain(task) for task in chosen], 8)} is not stored; the models are asked."


def _share(row: Mapping[Any, Any]) -> str:
    """`21.4 % (18.0–24.9)`."""
    value = text.percent(row["value"])
    ends = "" if text.missing(row["low"]) else f" ({text.percent_interval(row['low'], row['high'])})"
    return value + ends
