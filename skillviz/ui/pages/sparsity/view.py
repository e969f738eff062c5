"""The sparsity page's verdict, its table of runs, and its series: where the run's model is one of several checkpoints,
what changes along fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from skillviz.analysis.checkpoint_series import checkpoint_points, series_of
from skillviz.core import formats
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.show import beyond
from skillviz.show import checkpoints as exhibits
from skillviz.show import sparsity as sizes
from skillviz.show.control import beside_finetuned, smallest_enough
from skillviz.show.entries import Entry
from skillviz.show.glossary import about
from skillviz.ui import cache, exports, page, run_list
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import judged_text


def finding(entries: Sequence[Entry], curve: pd.DataFrame, line: tuple[str, str], split: str) -> str:
    """How small a region of one line can be, in the `curve` of these runs of a pair on a split."""
    runs = run_list.runs_of(entries)
    return cache.computed(("smallest region", split, *line), runs, lambda: sizes.finding(curve, line))


def verdict(entries: Sequence[Entry], like: Entry, split: str) -> str:
    """Whether the smallest region of this search with 95% of the gain scores like the fine-tuned model, as a chip in
    Markdown; of a run without such a region its own. Empty where no paired difference is stored."""
    with page.explained():
        record = cache.run(smallest_enough(entries, like).id).record
    scores = record.metrics.get(split)
    judged = beside_finetuned(record, scores, names_size=True) if scores else None
    return judged_text(judged) if judged else ""


def beyond_null(record: RunRecord, split: str) -> None:
    """How far the graft of the run's main size is beyond its null; nothing for a localizer without one."""
    judged = beyond.judged(record, split)
    if judged is not None:
        told = f"{beyond.sentence(record, split)} {judged_text(judged)}".strip()
        st.markdown(told, help=about("null", "paired"))


def runs(run: Run, entries: Sequence[Entry]) -> None:
    """The runs of the figure, in a table that is sent to whoever opens it."""
    title = f"{formats.counted(len(entries), 'run')} of this pair and task in the figure"
    fold = st.expander(title, key="table.runs", on_change="rerun")
    if fold.open:
        with fold:
            listed, file = run_list.listing(entries), exports.file_name(run.id, "runs")
            st.dataframe(
                listed, hide_index=True, column_config=run_list.COLUMNS, column_order=run_list.seen(listed),
                alt="The runs drawn above",
            )  # fmt: skip
            exports.table_menu(listed, file=file, key="runs", caption="Runs of this pair and task")


def checkpoints(run: Run) -> None:
    """The section; nothing where no other checkpoint of the same fine-tuning has a run like this one."""
    with page.explained():
        series = series_of(run, cache.runs(entry.id for entry in cache.entries()))
        if not series:
            return
        points = checkpoint_points(series)
    st.markdown("## Along fine-tuning")
    figures(points, run.record.task_name, run.id)


def figures(points: pd.DataFrame, task: str, key: str) -> None:
    """The finding and the figures of one task, two a row; `key` is the run or study that they are of."""
    finding, details = exhibits.finding(points, task), exhibits.details(points, task)
    st.markdown(finding, help=about("recovered", "paired"))
    names = exhibits.panels(points, task)
    places = [place for _ in range(0, len(names), 2) for place in st.columns(2)]
    for place, name in zip(places, names, strict=False):  # of an odd number the last place stays empty
        with place:
            show(exhibits.panel(points, task, name, theme()), key)
    if details != finding:
        st.caption(details)
