"""The tasks page's exhibits: shared entries, relative gain of regions, the gain of a union, stability."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.plots import tasks as plots
from skillviz.show.exhibit import Exhibit, drawn_once, over
from skillviz.show.overlap import READS, TITLES, alt
from skillviz.show.table_words import with_task_names
from skillviz.tasks.readable_names import readable

NO_INTERVALS = "The gains have no intervals: the predictions behind them are not stored."


def has_intervals(table: pd.DataFrame) -> bool:
    """True if any gain has an interval."""
    return bool((table["low"].notna() & table["high"].notna()).any())


def _ends(tasks: int, over: str) -> str:
    """The position of the intervals: below the numbers, or in hover and table if there are too many tasks."""
    if tasks <= plots.FEW:
        return f"; below each its 95% interval over {over}."
    return f"; the 95% intervals over {over} are in the hover and in the table."


@drawn_once
def overlap(table: pd.DataFrame, kind: str, order: tuple[str, ...], theme: str) -> Exhibit:
    """The share of entries that every two tasks' regions have in common."""
    rows = table[table["kind"] == kind]
    named = with_task_names(rows)
    return Exhibit(
        name=f"tasks_{kind}",
        title=TITLES[kind],
        figure=plots.overlap_of_tasks(named, kind, order=list(map(readable, order)), theme=theme),
        reads=f"{READS[kind]}. Means over pairs of mask seeds{_ends(len(order), 'seeds')} On the diagonal, "
        "two regions of one task found with different seeds: the most that could be expected. The colors end at the "
        "largest share here.",
        intervals=over("mask seeds"),
        alt=alt(named, kind, "row_task", "column_task"),
        table=rows.reset_index(drop=True),
        words=("overlap", "iou", "stability", "matched"),
    )


@drawn_once
def gain(table: pd.DataFrame, order: tuple[str, ...], theme: str) -> Exhibit:
    """The gain of every task from every region."""
    named = with_task_names(table)
    ends = _ends(len(order), "test examples and mask seeds") if has_intervals(table) else f". {NO_INTERVALS}"
    phrases = [
        f"{plots.region_name(row['region_tasks'], row['purified']).replace('<br>', ' ')} on {row['task']} "
        f"{formats.percent(row['value'], 0)}"
        for row in named.to_dict("records")
    ]
    return Exhibit(
        name="tasks_gain",
        title="Gain of each task's graft on every task",
        figure=plots.gain_of_regions(named, order=list(map(readable, order)), theme=theme),
        reads="each row is a region grafted onto the pre-trained model, each column a task it is scored on: 0% is the "
        "pre-trained, 100% the multi-task model (one model, fine-tuned on all of these tasks). Bold: the region was "
        f"found for this task. Means over mask seeds{ends}",
        intervals=over("test examples and mask seeds") if has_intervals(table) else "",
        alt=f"Relative gain. {'; '.join(phrases)}.",
        table=table.reset_index(drop=True),
        words=("gain", "multitask", "union", "purified"),
    )


@drawn_once
def union(table: pd.DataFrame, chosen: tuple[str, ...], theme: str) -> Exhibit:
    """The gain of each task from the union of the chosen tasks' regions."""
    named, union_of = with_task_names(table), readable(" + ".join(chosen))
    phrases = [f"{row['task']}, {row['what']}: {formats.percent(row['value'], 0)}" for row in named.to_dict("records")]
    lines = "Lines are 95% intervals over test examples and mask seeds." if has_intervals(table) else NO_INTERVALS
    what = f"the regions of {union_of}, grafted together" if len(chosen) > 1 else f"the region of {union_of}, grafted"
    return Exhibit(
        name="tasks_union",
        title="What their union gives" if len(chosen) > 1 else "What this region gives",
        figure=plots.union_gain(named, theme=theme),
        reads=f"{what}, on every task; beside it the task's own region alone. 0% "
        f"is the pre-trained, 100% the multi-task model. {lines}",
        intervals=over("test examples and mask seeds") if has_intervals(table) else "",
        alt=f"Relative gain of {what}. {'; '.join(phrases)}.",
        table=table.reset_index(drop=True),
        words=("union", "purified", "gain"),
    )


@drawn_once
def stability(table: pd.DataFrame, theme: str) -> Exhibit:
    """The stability of each task's region."""
    named = with_task_names(table)
    phrases = [f"{row['task']}, {row['source']}: {formats.percent(row['iou'])}" for row in named.to_dict("records")]
    return Exhibit(
        name="tasks_stability",
        title="Stability across seeds",
        figure=plots.stability_of_regions(named, theme=theme),
        reads="the IoU of two regions of one task, found with other seeds or other examples; the tick is what "
        "random regions with as many entries in each tensor share, its line the range of 95% of them. "
        "Lines are 95% jackknife intervals over the regions. Bootstrap samples are drawn from the training data with "
        "replacement and searched by the quick linearized localizer; two of them share two fifths of their draws, so "
        "their regions agree more than those of two data sets would.",
        intervals="95% jackknife intervals over regions",
        alt=f"Stability of regions, IoU. {'; '.join(phrases)}.",
        table=table.reset_index(drop=True),
        words=("stability", "iou", "matched"),
    )
