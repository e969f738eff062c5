"""Published rows beside the corresponding rows of a study here. No widgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import task_metric, without_variants
from skillviz.core import formats
from skillviz.core.methods import METHODS
from skillviz.core.metrics import metric_row
from skillviz.plots.methods import method_style
from skillviz.plots.paper import HERE, PUBLISHED
from skillviz.show.table_words import with_task_names
from skillviz.studies.paper.comparisons import GRAFTS
from skillviz.studies.paper.published_values import SETTINGS, published, stands_for
from skillviz.studies.subject import rows_of_base
from skillviz.tasks.readable_names import readable

TASK_METRIC = "accuracy or F1"
NEEDED = -1.0  # in place of a size: for each task the smallest one that recovers 95% of the gain
OF_REGIONS = ("graft", "graft_retrain", "graft_fish", "graft_random")
COLUMNS = (
    "task", "here", "method", "metric", "published", "published_sd", "printed", "value", "debiased", "low", "high",
    "share",
    "seeds", "n", "difference",
)  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """The compared values: the published setting and share (None: all), and our share and base."""

    name: str
    setting: str
    share: float | None
    ours: float | None
    """A share, or NEEDED."""
    base: str | None = None
    """One base of a study with several; None takes all."""


def settings(name: str) -> list[str]:
    """The settings of a published table, the largest training data first."""
    printed = set(published(name)["setting"])
    return [setting for setting in SETTINGS if setting in printed]


def shares(name: str) -> list[float]:
    """The region sizes of a published table's grafts, ascending."""
    rows = published(name)
    rows = rows[rows["method"].isin(OF_REGIONS) & rows["share"].notna() & (rows["share"] < 1)]
    return sorted(set(rows["share"]))


def our_shares(scores: pd.DataFrame) -> list[float]:
    """The sizes of a study's grafts, ascending; sizes within 2% of each other count once."""
    if scores.empty:
        return []
    distinct: list[float] = []
    for share in sorted(scores.loc[(scores["method"] == "graft") & scores["share"].notna(), "share"].astype(float)):
        if not distinct or share > 1.02 * distinct[-1]:
            distinct.append(share)
    return distinct


def needed(tables: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """The share that each task needs for 95% of the gain; the largest tried if none is sufficient."""
    rows = tables.get("recovered", pd.DataFrame())
    if rows.empty:
        return {}
    search = next((name for name in GRAFTS if (rows["localizer"] == name).any()), "")
    first = without_variants(rows[rows["localizer"] == search], "search_variant").drop_duplicates("id_task")
    return dict(zip(first["id_task"], first["share"].astype(float), strict=True))


def rows_beside(selection: Selection, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per published value with ours beside it, and rows for our tasks that the paper does not have.

    The columns are COLUMNS; shares are 0..1, difference = here - published. Rows of our own tasks are last, unless no
    published value has ours beside it; then they are first.

    `task` is the printed name ("SST-2", "QNLI to MNLI (0/1)") or the name of our own task; `here` is our task for it.
    Averages are left out.
    """
    printed = _printed(selection)
    ours = pd.concat([_our_scores(selection, tables), _our_iou(selection, tables)], ignore_index=True)
    merged = printed.merge(ours, how="left", on=["id_task", "score_task", "method", "metric"])
    if len(further := _without_printed(printed, ours)):
        parts = [merged, further] if merged["value"].notna().any() else [further, merged]
        merged = pd.concat(parts, ignore_index=True)
    merged["difference"] = merged["value"] - merged["published"]
    return merged[list(COLUMNS)].reset_index(drop=True)


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows as text: the published value as printed, ours with its interval, the difference in points."""
    return pd.DataFrame(
        {
            "task": rows["task"].map(readable),
            "method": [method_style(method).title for method in rows["method"]],
            "metric": [metric_row(metric).title for metric in rows["metric"]],
            "published (± sd)": rows["printed"],
            "here (95%)": [_our_value(row) for row in rows.to_dict("records")],
            "difference": [formats.points(value) for value in rows["difference"]],
            "size here": ["" if pd.isna(share) else formats.share(share) for share in rows["share"]],
            "measured on": rows["here"].fillna("").map(readable),
        }
    )


def marks(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of one metric in the figure's columns: task, method, source, value, debiased, low, high."""
    rows = rows[rows["metric"] == metric]
    printed = rows.assign(
        source=PUBLISHED, value=rows["published"], low=rows["published"] - rows["published_sd"],
        high=rows["published"] + rows["published_sd"], debiased=np.nan,
    ).drop_duplicates(["task", "method"]).dropna(subset=["value"])  # fmt: skip
    measured = rows[rows["value"].notna()].assign(source=HERE)
    marks = with_task_names(pd.concat([measured, printed], ignore_index=True))
    return marks[["task", "method", "source", "value", "debiased", "low", "high"]]


def _printed(selection: Selection) -> pd.DataFrame:
    rows = published(selection.name)
    rows = rows[(rows["kind"] == "row") & (rows["setting"] == selection.setting)]
    if selection.share is not None:
        rows = rows[
            ~rows["method"].isin(OF_REGIONS) | rows["share"].isna() | np.isclose(rows["share"], selection.share)
        ]
    rows = rows[rows["method"].isin(METHODS)]
    whole = rows["id_task"].str.contains(">")  # a sequence of tasks
    id_task = np.where(whole, rows["task"], rows["id_task"])
    is_other = id_task != rows["task"]
    tuned = published("table2").drop_duplicates("task").set_index("task")["task_as_printed"]
    names = [
        f"{tuned.get(one, str(one).upper())} to {printed}" if other else printed
        for one, printed, other in zip(id_task, rows["task_as_printed"], is_other, strict=True)
    ]
    return pd.DataFrame(
        {
            "id_task": id_task, "score_task": rows["task"], "task": names, "method": rows["method"],
            "metric": rows["metric"].replace({"accuracy": TASK_METRIC, "f1": TASK_METRIC}), "published": rows["value"],
            "published_sd": rows["std"],
            "printed": [f"{v} ({s})" if s else v for v, s in zip(rows["printed"], rows["printed_std"], strict=True)],
        }
    )  # fmt: skip


OURS = (
    "id_task", "score_task", "here", "method", "metric", "value", "debiased", "low", "high", "share", "seeds", "n",
)  # fmt: skip


def _without_printed(printed: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Our rows on tasks without a published value, in the table's methods and metrics.

    If all published values are on other data and we have such scores too, only rows on other data; otherwise only rows
    on the tasks' own data."""
    known = set(zip(printed["id_task"], printed["score_task"], strict=True))
    pairs = list(zip(ours["id_task"], ours["score_task"], strict=True))
    is_of_others = all(tuned != scored for tuned, scored in known) and any(tuned != scored for tuned, scored in pairs)
    is_new = np.array([pair not in known and (pair[0] != pair[1]) == is_of_others for pair in pairs], dtype=bool)
    rows = ours[is_new & ours["method"].isin(printed["method"]) & ours["metric"].isin(printed["metric"])]
    return rows.assign(task=rows["here"], printed="", published=np.nan, published_sd=np.nan)


def _our_scores(selection: Selection, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    rows = tables.get("scores", pd.DataFrame())
    if rows.empty:
        return pd.DataFrame(columns=list(OURS))
    rows = rows[rows["split"] == "test"]
    rows = rows if selection.base is None else rows_of_base(rows, selection.base)
    searched = (rows["method"] != "graft") | (rows["localizer"].eq(_search(rows)) & rows["search_variant"].eq(""))
    needs = selection.ours == NEEDED  # each task has its own size
    size = rows["id_task"].map(needed(tables)).astype(float) if needs else selection.ours
    rows = rows[searched & (rows["share"].isna() | _of_size(rows["share"], size))]
    for name in ("setting", "readout"):
        rows = rows[rows[name] == rows[name].iloc[0]] if len(rows) else rows
    of_task = rows.groupby("task")["metric"].transform(task_metric)
    metric = np.where(rows["metric"] == of_task, TASK_METRIC, rows["metric"])
    pairs = list(zip(rows["id_task"], rows["task"], strict=True))
    ours = pd.DataFrame(
        {
            "id_task": [stands_for(task) for task in rows["id_task"]],
            "score_task": [_scored_as(*pair) for pair in pairs],
            "here": [b if a == b else f"{a} to {b}" for a, b in pairs],
            "method": rows["method"], "metric": metric, "value": rows["mean"],
            **{name: rows[name] for name in ("debiased", "low", "high", "share", "seeds", "n")},
        }
    )  # fmt: skip
    return ours.drop_duplicates(["here", "method", "metric"])


def _search(rows: pd.DataFrame) -> str:
    """The localizer whose grafts are compared with the paper's: the default one if the study has it."""
    names = set(rows.loc[rows["method"] == "graft", "localizer"])
    return next((name for name in GRAFTS if name in names), next(iter(sorted(names)), ""))


def _scored_as(id_task: str, task: str) -> str:
    """The published task that our scored task corresponds to; for NLI as other data, the variant without neutral.

    If our two data sets correspond to the same published task, the one that was not tuned on has no published
    counterpart.
    """
    if id_task != task and stands_for(task) == stands_for(id_task):
        return f"{task} beside {id_task}"  # not the name of a published task, even if `task` is one
    if id_task != task and stands_for(task) in ("snli", "mnli", "rte") and stands_for(id_task) == "qnli":
        return "snli_01" if stands_for(task) == "snli" else "mnli_01"
    return stands_for(task)


def _of_size(share: pd.Series, size: float | pd.Series | None) -> np.ndarray:
    if size is None:
        return np.ones(len(share), dtype=bool)
    return np.isclose(share.astype(float), size, rtol=0.05)


def _our_iou(selection: Selection, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """IoU with the FISH mask, by task and size, from Table 8's table `overlap`."""
    rows = tables.get("overlap", pd.DataFrame())
    rows = rows[rows["column_localizer"] == "fisher"] if len(rows) else rows
    if rows.empty:
        return pd.DataFrame(columns=list(OURS))
    rows = rows.assign(here=rows["column_task"])[_of_size(rows["share"], selection.ours)]
    task = [stands_for(name) for name in rows["here"]]
    columns: dict[str, Any] = {"id_task": task, "score_task": task, "method": "graft", "metric": "overlap_iou"}
    return rows.assign(**columns, debiased=np.nan, n=np.nan)[list(OURS)]


def _our_value(row: Mapping[Any, Any]) -> str:
    """`87.0% (85.1–88.9)`; empty if there is no value."""
    if pd.isna(row["value"]):
        return ""
    if pd.isna(row["low"]):
        return formats.percent(row["value"])
    return f"{formats.percent(row['value'])} ({formats.percent_interval(row['low'], row['high'])})"
