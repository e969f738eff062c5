"""The sections of the continual page: a study's stages, the shown metric, and each mode beside one model per task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.analysis.tables import empty
from skillviz.core import formats
from skillviz.core.metrics import metric_heading, metric_row
from skillviz.core.verdicts import UNDECIDED
from skillviz.models.finetune.recipes import MODES
from skillviz.plots.continual import order_of
from skillviz.plots.figure import centers
from skillviz.show import continual as exhibits
from skillviz.show import text
from skillviz.show.comparisons import counted_rows
from skillviz.show.glossary import about
from skillviz.show.sentences import metric_value
from skillviz.studies.store import StudyFolder
from skillviz.ui import cache, controls, page, show_code, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import lead_words, verdict_line

TABLES = ("stages", "scores", "differences")
ESTIMATE, DISCORDANT = ("value", "debiased", "low", "high"), ("gained", "lost")
DRAWN = ("seeds", "n", *DISCORDANT)
EXACTLY = "prediction by prediction"
NAMES = {"naive": "naive training", "grafting": "training within regions"}


@dataclass(frozen=True)
class ContinualTables:
    """The study and its tables; a missing table is an empty frame."""

    study: StudyFolder
    stages: pd.DataFrame
    scores: pd.DataFrame
    differences: pd.DataFrame


def read(study: StudyFolder) -> ContinualTables:
    """The study's tables; shows an explanation and stops if no stage is finished."""
    with page.explained():
        tables = {n: cache.study_table(study, n) if n in study.tables() else empty(n) for n in TABLES}
    if tables["stages"].empty:
        study_choice.refuse_unfinished(
            study, "No stage of this study is finished yet. Its command resumes where it stopped:"
        )
    return ContinualTables(study, **tables)


def metric_of(tables: ContinualTables) -> str:
    """The metric that the figure shows."""
    offered = list(dict.fromkeys(tables.stages["metric"]))
    offered.sort(key=lambda metric: metric == "ece")
    return controls.segments(
        "metric", "Metric", offered, offered[0], shown=metric_heading, help=about("ece", "debiased")
    )


def stages(tables: ContinualTables, metric: str) -> None:
    """Draws the score on every task after every stage."""
    rows = tables.scores[(tables.scores["method"] == "pretrained") & (tables.scores["metric"] == metric)]
    start = dict(zip(rows["task"], centers(rows.rename(columns={"mean": "value"}), 1.0).tolist(), strict=True))
    show(exhibits.stages(tables.stages, metric, start, theme()), tables.study.name)
    show_code.show(
        "continual",
        study=tables.study.name,
        metric=metric,
        start={task: score for task, score in start.items() if score == score},
    )
    if titles := study_words.task_titles(tables.stages["task"]):
        with st.expander("The tasks"):
            st.markdown(titles)


def finding(tables: ContinualTables, metric: str) -> str:
    """The headline: whether training within regions preserves the first task better than naive training does."""
    return cache.computed(
        ("finding", metric), [tables.study], lambda: summary(tables.stages, tables.differences, metric)
    )


def summary(stages: pd.DataFrame, differences: pd.DataFrame, metric: str) -> str:
    """The headline for these tables."""
    order = order_of(stages[stages["metric"] == metric])
    if len(order) < 2:
        return "Fewer than two stages are finished, so nothing can be forgotten yet."
    rows = _compared(differences, metric, MODES["grafting"], MODES["naive"])
    first = rows[(rows["name"] == order[0]) & rows["value"].notna()].to_dict("records")
    modes = f"{NAMES['grafting']} vs {NAMES['naive']}"
    if not first:
        return f"No paired comparison of {modes}. What each did to the earlier tasks is below."
    return f"{metric_row(metric).heading} on the first task after all were learned, {modes}: {lead_words(first[0])}."


def since_learned(stages: pd.DataFrame, metric: str) -> str:
    """The effect of later training on the earlier tasks, one line per mode; empty if there is no earlier task."""
    rows = stages[stages["metric"] == metric]
    order = order_of(rows)
    if len(order) < 2:
        return ""
    title = metric_row(metric).title
    return "\n".join(
        f"- **{formats.capital(NAMES[mode])}**, {title} since each task was learned: "
        f"{_changes(_since_learned(rows[rows['mode'] == mode], order), metric)}."
        for mode in NAMES
        if (rows["mode"] == mode).any()
    )


def _compared(differences: pd.DataFrame, metric: str, a: str, b: str) -> pd.DataFrame:
    """The comparisons of a and b in one metric, in the columns that `verdict_line` needs: name, metric, value, ..."""
    rows = differences[(differences["metric"] == metric) & (differences["a"] == a) & (differences["b"] == b)]
    rows = rows.drop_duplicates("task").reindex(columns=["task", "metric", *ESTIMATE, *DRAWN])
    return rows.rename(columns={"task": "name"})


def beside_one_task(tables: ContinualTables, metric: str) -> None:
    """Draws each mode's effect on the earlier tasks, its comparisons, and the number of all that hold."""
    lines = cache.computed(
        ("beside one task", metric), [tables.study],
        lambda: beside_words(tables.stages, tables.differences, metric),
    )  # fmt: skip
    if lines:
        st.markdown(lines, help=about("paired", "debiased", "discovery"))


def beside_words(stages: pd.DataFrame, differences: pd.DataFrame, metric: str) -> str:
    """The text of `beside_one_task`, as Markdown; empty if nothing was compared."""
    rows = stages[stages["metric"] == metric]
    order, lines = order_of(rows), list(filter(None, [since_learned(stages, metric)]))
    compared = [within := _compared(differences, metric, MODES["grafting"], MODES["naive"])]
    others = within[within["name"] != order[0]] if len(order) else within  # the headline has the first
    if line := verdict_line(others, metric):
        lines.append(f"- **{formats.capital(NAMES['grafting'])}** vs {NAMES['naive']}. {line}")
    for mode in [mode for mode in NAMES if (rows["mode"] == mode).any()]:
        beside = _compared(differences, metric, MODES[mode], "independent")
        if line := verdict_line(beside, metric):
            lines.append(f"- **{formats.capital(NAMES[mode])}** vs one model per task. {line}")
        compared += [_since_learned(rows[rows["mode"] == mode], order), beside] if len(order) > 1 else []
    columns = [*ESTIMATE, *DRAWN]
    known = [frame for one in compared if len(frame := one.reindex(columns=columns).dropna(subset=["value"]))]
    several = counted_rows(pd.concat(known)) if known else ""
    return "\n".join([*lines, *(["", several] if several else [])])


def _since_learned(of_mode: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """The paired effect of later training on each earlier task of a mode: task, at_end, value, debiased, low, high."""
    last = int(of_mode["stage"].max())
    ends = of_mode[(of_mode["stage"] == last) & of_mode["task"].isin(order[: last - 1])]
    columns = {"task": "task", "n": "n", "value": "at_end", "change": "value"}
    columns |= {f"change_{name}": name for name in (*ESTIMATE[1:], *DISCORDANT)}
    changes = ends.assign(value=centers(ends, 1.0)).reindex(columns=list(columns)).rename(columns=columns)
    return changes.sort_values("task", key=lambda tasks: tasks.map(order.index))


def _changes(changes: pd.DataFrame, metric: str) -> str:
    """`qnli **lost** 5.2 points (4.0–6.3); cr is unchanged, prediction by prediction`."""
    same = [text.tasks(row["task"]) for row in changes.to_dict("records") if _is_same(row)]
    words = [_change(row, metric) for row in changes.to_dict("records") if not _is_same(row)]
    if same:
        words.append(f"{formats.listed(same, 20)} {'is' if len(same) == 1 else 'are'} unchanged, {EXACTLY}")
    return "; ".join(words)


def _is_same(row: Mapping[Any, Any]) -> bool:
    return bool(row["value"] == row["low"] == row["high"] == 0)


def _change(row: Mapping[Any, Any], metric: str) -> str:
    """The effect of later training on one task, in words."""
    name, words = text.tasks(row["task"]), metric_row(metric)
    change, low, high = row["value"], row["low"], row["high"]
    if formats.missing(change):
        return f"{name} ends at {metric_value(metric, row['at_end'])}"
    change, _ = formats.read_first(change, row.get("debiased"))
    ends = words.ends(low, high)
    if (verdict := words.verdict(low, high)) in UNDECIDED:
        return f"{name} {words.difference(change, low, high, level='')}, {verdict}"
    if words.better == "lower":
        return f"{name} {'**rose**' if change > 0 else '**fell**'} by {words.amount(change)} ({ends})"
    ends = words.ends(*sorted((abs(low), abs(high))))
    return f"{name} **{'lost' if change < 0 else 'gained'}** {words.amount(change)} ({ends})"
