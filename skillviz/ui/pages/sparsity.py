"""The sections of the sparsity page: the verdict, the table of runs, and the series of checkpoints.

The series shows changes along fine-tuning, if the run's model is one of several checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from skillviz.analysis.checkpoint_series import checkpoint_points, series_of
from skillviz.core import formats
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.show import beyond, measures
from skillviz.show import checkpoints as exhibits
from skillviz.show import sparsity as sizes
from skillviz.show.briefs import RunBrief
from skillviz.show.control import beside_finetuned, smallest_enough
from skillviz.show.glossary import about
from skillviz.ui import address, cache, exports, page, run_list, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import judged_text
from skillviz.ui.run_bar import VARIANTS


def finding(briefs: Sequence[RunBrief], curve: pd.DataFrame, line: tuple[str, str], split: str) -> str:
    """The headline: the smallest sufficient region of one line, in the `curve` of a pair's runs on a split."""
    runs = run_list.runs_of(briefs)
    return cache.computed(("smallest region", split, *line), runs, lambda: sizes.finding(curve, line))


def verdict(briefs: Sequence[RunBrief], like: RunBrief, split: str) -> str:
    """The verdict against the fine-tuned model on this search's smallest region with 95% of the gain, in Markdown.

    A run without such a region is judged itself. Empty if no paired difference is stored."""
    with page.explained():
        record = cache.run(smallest_enough(briefs, like).id).record
    scores = record.metrics.get(split)
    judged = beside_finetuned(record, scores, names_size=True) if scores else None
    return judged_text(judged) if judged else ""


def beyond_null(record: RunRecord, split: str) -> None:
    """Draws how far the graft of the run's main size is beyond its null; nothing for a localizer without a null."""
    judged = beyond.judged(record, split)
    if judged is not None:
        told = f"{beyond.sentence(record, split)} {judged_text(judged)}".strip()
        st.markdown(told, help=about("null", "paired"))


def code(run: Run, curve: pd.DataFrame, shown: str, every: bool) -> None:
    """Draws the code for the figure if a notebook draws it: the task's own metrics, no further lines, no variants."""
    drawn = measures.drawn(curve, run.record)
    if shown in drawn and not every and address.current(VARIANTS) != "yes":
        number = drawn.index(shown) + 1
        show_code.show("sparsity", run=run.id, name="sparsity" if number == 1 else f"sparsity_{number}")


def runs(run: Run, briefs: Sequence[RunBrief]) -> None:
    """Draws the figure's runs in a table, whose content is sent only when it is opened."""
    title = f"{formats.counted(len(briefs), 'run')} of this pair and task in the figure"
    fold = st.expander(title, key="table.runs", on_change="rerun")
    if fold.open:
        with fold:
            listed, file = run_list.listing(briefs), exports.file_name(run.id, "runs")
            st.dataframe(
                listed, hide_index=True, column_config=run_list.COLUMNS, column_order=run_list.seen(listed),
                placeholder="", alt="The runs drawn above",
            )  # fmt: skip
            exports.table_menu(listed, file=file, key="runs", caption="Runs of this pair and task")


def checkpoints(run: Run) -> None:
    """Draws the section on checkpoints; nothing if no other checkpoint of the same fine-tuning has a comparable run."""
    with page.explained():
        series = series_of(run, cache.runs(brief.id for brief in cache.briefs()))
        if not series:
            return
        points = checkpoint_points(series)
    st.markdown("## Along fine-tuning")
    figures(points, run.record.task_name, run.id)


def figures(points: pd.DataFrame, task: str, key: str) -> None:
    """Draws the finding and the figures of one task, two per row; `key` names their run or study."""
    finding, details = exhibits.finding(points, task), exhibits.details(points, task)
    st.markdown(finding, help=about("recovered", "paired"))
    names = exhibits.panels(points, task)
    places = [place for _ in range(0, len(names), 2) for place in st.columns(2)]
    for place, name in zip(places, names, strict=False):  # if the number is odd, the last place stays empty
        with place:
            show(exhibits.panel(points, task, name, theme()), key)
    if details != finding:
        st.caption(details)
