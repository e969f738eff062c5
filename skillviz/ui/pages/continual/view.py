"""The continual page's parts: the stages of a study, the metric that is shown, and what the study says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.analysis.tables import empty
from skillviz.core import formats
from skillviz.core.metrics import metric_heading, metric_row
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.models.finetune.recipes import MODES
from skillviz.plots.continual import order_of
from skillviz.show import continual as exhibits
from skillviz.show import text
from skillviz.show.comparisons import counted_rows
from skillviz.show.glossary import about
from skillviz.show.sentences import metric_value
from skillviz.studies.store import StudyFolder
from skillviz.ui import cache, controls, page, study_words
from skillviz.ui.chart import show, theme

TABLES = ("stages", "scores", "differences", "note")
ESTIMATE = ("value", "debiased", "low", "high")
NAMES = {"naive": "naive training", "grafting": "training within regions"}


@dataclass(frozen=True)
class ContinualTables:
    """The study and its tables; an empty frame stands for a table that it has not."""

    study: StudyFolder
    stages: pd.DataFrame
    scores: pd.DataFrame
    differences: pd.DataFrame
    note: pd.DataFrame


def read(study: StudyFolder) -> ContinualTables:
    """The study's tables; explains and stops where no stage is finished."""
    with page.explained():
        tables = {n: cache.study_table(study, n) if n in study.tables() else empty(n) for n in TABLES}
    if tables["stages"].empty:
        st.info("No stage of this study is finished, so nothing can be shown. Its command goes on where it stopped:")
        st.code(study_words.command(study), language="bash", wrap_lines=True)
        st.stop()
    return ContinualTables(study, **tables)


def metric_of(tables: ContinualTables) -> str:
    """The metric that the figure shows."""
    offered = list(dict.fromkeys(tables.stages["metric"]))
    offered.sort(key=lambda metric: metric == "ece")
    return controls.segments(
        "metric", "Chart shows", offered, offered[0], shown=metric_heading, help=about("ece", "debiased")
    )


def stages(tables: ContinualTables, metric: str) -> None:
    """Every task after every stage."""
    rows = tables.scores[(tables.scores["method"] == "pretrained") & (tables.scores["metric"] == metric)]
    start = {str(row["task"]): float(row["mean"]) for row in rows.to_dict("records")}
    show(exhibits.stages(tables.stages, metric, start, theme()), tables.study.name)
    if titles := study_words.task_titles(tables.stages["task"]):
        with st.expander("What the tasks are"):
            st.markdown(titles)


def notes(tables: ContinualTables) -> None:
    """What the study says of itself."""
    if len(tables.note):
        with st.expander("What this study says of itself"):
            st.markdown("\n".join(f"- {text.with_code(note)}" for note in tables.note["text"]))


def summary(stages: pd.DataFrame, differences: pd.DataFrame, metric: str) -> str:
    """One line a mode: what later training did to the earlier tasks, then the distance to a model a task."""
    rows = stages[stages["metric"] == metric]
    order = order_of(rows)
    if len(order) < 2:
        return "Fewer than two stages are finished: nothing can have been forgotten yet."
    lines: list[str] = []
    compared: list[pd.DataFrame] = []
    for mode in [mode for mode in NAMES if (rows["mode"] == mode).any()]:
        changes = _since_learned(rows[rows["mode"] == mode], order)
        beside = differences[(differences["a"] == MODES[mode]) & (differences["b"] == "independent")]
        beside = beside[beside["metric"] == metric].drop_duplicates("task")
        lines.append(_mode_words(changes, beside, metric, mode))
        compared += [changes, beside]
    head = f"After {len(order)} tasks, in {metric_row(metric).title}; changes are since a task was learned:\n"
    known = [frame for one in compared if len(frame := one.reindex(columns=list(ESTIMATE)).dropna(subset=["value"]))]
    several = counted_rows(pd.concat(known)) if known else ""
    return "\n".join([head, *lines, *(["", several] if several else [])])


def _since_learned(of_mode: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """What later training did to each earlier task of a mode, paired: task, at_end, value, debiased, low, high."""
    last = int(of_mode["stage"].max())
    ends = of_mode[(of_mode["stage"] == last) & of_mode["task"].isin(order[: last - 1])]
    columns = {"task": "task", "value": "at_end", "change": "value"} | {f"change_{end}": end for end in ESTIMATE[1:]}
    changes = ends.reindex(columns=list(columns)).rename(columns=columns)
    return changes.sort_values("task", key=lambda tasks: tasks.map(order.index))


def _mode_words(changes: pd.DataFrame, beside: pd.DataFrame, metric: str, mode: str) -> str:
    """`- **Naive training** lost 5.2 points on qnli (95 %: ...) ...`."""
    words = [_change(row, metric) for row in changes.to_dict("records")]
    line = f"- **{formats.capital(NAMES[mode])}**: {'; '.join(words)}"
    rivals = _beside_one_task(beside, metric)
    return f"{line}. {rivals}" if rivals else f"{line}."


def _change(row: Mapping[Any, Any], metric: str) -> str:
    """What training after a task's own stage did to it."""
    name, words = text.plain(row["task"]), metric_row(metric)
    change, low, high = row["value"], row["low"], row["high"]
    if formats.missing(change):
        return f"{name} ends at {metric_value(metric, row['at_end'])}"
    if change == low == high == 0:
        return f"{name} is answered as before, example by example"
    interval = words.difference(change, low, high, row.get("debiased"))
    if low <= 0 <= high:
        return f"{name} changed by {interval}, which may be none"
    if words.better == "lower":
        return f"{name} {'**rose**' if change > 0 else '**fell**'} by {interval}"
    ends = words.ends(*sorted((abs(low), abs(high))))
    return f"{name} **{'lost' if change < 0 else 'gained'}** {words.amount(change)} (95{formats.SPACE}%: {ends})"


def _beside_one_task(rows: pd.DataFrame, metric: str) -> str:
    """On which tasks it ends worse or better than a model of that task alone, and on which that stays open."""
    words = metric_row(metric)
    tasks: dict[str, list[str]] = {"worse": [], "better": [], NO_DIFFERENCE: []}
    for row in rows.to_dict("records"):
        interval = f"95{formats.SPACE}%: {words.ends(row['low'], row['high'], row.get('debiased'))}"
        difference = f"{text.plain(row['task'])} ({words.change(row['value'])}, {interval})"
        tasks[words.verdict(row["low"], row["high"])].append(difference)
    phrases = [f"**{word}** on {formats.listed(tasks[word], 20)}" for word in ("worse", "better") if tasks[word]]
    if tasks[NO_DIFFERENCE]:
        phrases.append(f"no difference is shown on {formats.listed(tasks[NO_DIFFERENCE], 20)}")
    return f"Beside a model trained on one task alone: {'; '.join(phrases)}." if phrases else ""
