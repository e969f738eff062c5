"""What the tasks page says: isolation and transfer in words, each claim from its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillviz.core import formats
from skillviz.plots.tasks import CHOSEN, UNION_OF
from skillviz.show import text

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
    return f"{shared}; random regions of these sizes would share {formats.share(chance)}. {_gap(rows.get(GAP))}".strip()


def _gap(row: Mapping[Any, Any] | None) -> str:
    """Whether related tasks share more."""
    if row is None:
        return "No two of these tasks are of one family, so nothing can be said of kinship."
    if formats.missing(row["low"]):
        return "There is one mask seed: whether the two differ cannot be told."
    interval = (
        f"{formats.points(row['value'])} (95{formats.SPACE}%: {formats.percent_interval(row['low'], row['high'])})"
    )
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
        span = (
            f"**{formats.percent(ends[0])}** to **{formats.percent(ends[1])}**"
            if len(own) > 1
            else formats.percent(ends[0])
        )
        lines.append(f"A region brings back {span} of the multi-task model's gain on its own task")
    for kin in (RELATED, UNRELATED):
        rows = single[[related.get((a, b)) == kin for a, b in zip(single["of"], single["task"], strict=True)]]
        if len(rows):
            helped, hurt = int((rows["low"] > 0).sum()), int((rows["high"] < 0).sum())
            lines.append(
                f"of {formats.counted(len(rows), 'pair')} of {kin} tasks the region of one helps the other beyond "
                f"chance in {helped} and harms it in {hurt}"
            )
    return "; ".join(lines) + ". Each pair is judged by its own interval."


def without_gain(tasks: Sequence[str], is_every_one: bool) -> str:
    """That these tasks have no relative gain and are left out, or that none has one; empty where all have."""
    if not tasks:
        return ""
    named = formats.listed([text.plain(task) for task in tasks], 8)
    if is_every_one:
        return (
            f"**No task has a gain**: on {named} the multi-task model does no better than the pre-trained one. There "
            "is nothing of which a region could bring back a share, so what regions and unions give is not shown."
        )
    return f"Left out of the gains, as the multi-task model does no better there than the pre-trained one: {named}."


def union(rows: pd.DataFrame, chosen: Sequence[str], left_out: Sequence[str] = ()) -> str:
    """What the union of these tasks' regions gives inside and outside it; on the tasks left out no gain is defined."""
    found = rows[rows["what"] == (UNION_OF if len(chosen) > 1 else CHOSEN)].set_index("task")
    inside = [_one(task, found.loc[task]) for task in chosen if task in found.index]
    outside = [_one(str(task), found.loc[task]) for task in found.index if task not in chosen]
    what = f"{'union' if len(chosen) > 1 else 'region'} of {formats.listed([text.plain(task) for task in chosen], 8)}"
    if inside:
        told = f"The {what} brings back {formats.listed(inside, 8)}"
        told += f"; of tasks outside it, {formats.listed(outside, 8)}." if outside else "."
    elif outside:
        told = f"Of tasks outside it, the {what} brings back {formats.listed(outside, 8)}."
    else:
        told = f"Of what the {what} brings back, no share can be told."
    if not left_out:
        return told
    return f"{told} On {formats.listed([text.plain(task) for task in left_out], 8)} the multi-task model gains nothing."


def _one(task: str, row: Any) -> str:
    interval = formats.percent_interval(row["low"], row["high"], 0)
    return f"**{formats.percent(row['value'], 0)}** ({interval}) on {text.plain(task)}"


def not_stored(chosen: Sequence[str]) -> str:
    """That this union is not among the stored ones."""
    return (
        f"The union of {formats.listed([text.plain(task) for task in chosen], 8)} is not stored; the models are asked."
    )


def _share(row: Mapping[Any, Any]) -> str:
    """`21.4 % (18.0–24.9)`."""
    value = formats.percent(row["value"])
    ends = "" if formats.missing(row["low"]) else f" ({formats.percent_interval(row['low'], row['high'])})"
    return value + ends
