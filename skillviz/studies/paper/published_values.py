"""The paper's own numbers as frames: its tables, single numbers of its figures and text, and its inconsistencies.

Torch-free. Published values are kept apart from measured ones everywhere, and are labeled "published" where shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from skillviz.analysis.variants import model_label
from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import RECIPES

SOURCE = "arXiv 2302.06600"
FOLDER = Path(__file__).parent / "published"  # a folder of data beside this file, not a package
TABLES = tuple(f"table{number}" for number in range(1, 10))
MAIN_SETTING = "4096-shot"
SETTINGS = ("50k-shot", MAIN_SETTING, "64-shot")
"""The training data of published rows, the most examples first."""
SHOWN = (
    "id_task", "task", "method", "variant", "localizer", "share", "metric", "mean", "debiased", "low", "high",
    "published", "std",
)  # fmt: skip
"""Our columns beside the published ones; the first six identify a row."""
KEYS = ("id_task", "task", "method", "variant", "metric")
SIZED = {row.method: row.capacity for row in RECIPES.values() if row.capacity}
"""Methods with models of several sizes: the setting, rank or width, and its default."""
FIGURES, SLIPS = "figures", "slips"
NAMES = (*TABLES, FIGURES)

# The names here of published methods; `method_as_printed` has the paper's own word.
METHODS = {"continual_ft": "continual_naive"}
OF_TABLE = {"table4": {"ft": "independent"}}  # one model per task

# The topics of numbers in the text that name no table or figure.
TOPICS = {
    "table1": ("generalization",),
    "table2": ("localization", "calibration", "agreement"),
    "table4": ("continual",),
    "table5": ("large data",),
    "figure4": ("baseline", "lottery"),
    "figure6": ("calibration",),
    "figure7": ("ood",),
    "figure8": ("multitask",),
    "sensitivity": ("mask",),
}

# The data sets here that replace one of the paper's.
STANDS_FOR = {
    "sst2_sentences": "sst2", "yelp_reviews": "yelp", "uci_yelp": "yelp", "uci_imdb": "imdb",
}  # fmt: skip


def published(name: str) -> pd.DataFrame:
    """Return a published table (`table1` to `table9`), or the single numbers of figures and text (`figures`).

    A table has model, setting, id_task, task, task_as_printed, method, method_as_printed, config, share (0..1 of the
    maskable parameters, NaN if none is printed), is_bound (the share is an upper bound), metric, value and std (shares
    0..1), printed and printed_std (percent, digits as printed), kind (`row` or `average`), note, and the `variant` of
    methods of several sizes. Names of tasks, methods and variants are those used here. `figures` has the file's own
    columns, all text.
    """
    if name not in NAMES:
        raise BadInput(f"'{name}' is no published table; known: {', '.join(NAMES)}.")
    return (_read(FIGURES) if name == FIGURES else _table(name)).copy()


def numbers(name: str) -> pd.DataFrame:
    """The single numbers that text and captions state about a table or figure; see `figures.csv` for the columns."""
    rows = _read(FIGURES)
    word, number = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    named = rows["where"].str.contains(rf"\b{word} {number}\b") if number else rows["where"].str.contains("$^")
    elsewhere = rows["where"].str.contains(r"\b(?:table|figure) \d")
    return rows[named | (rows["topic"].isin(TOPICS.get(name, ())) & ~elsewhere)].reset_index(drop=True).copy()


def slips(name: str) -> list[str]:
    """Return the paper's inconsistencies that concern this table or figure."""
    rows = _read(SLIPS)
    return [text for where, text in zip(rows["where"], rows["text"], strict=True) if name in where.split(";")]


def stands_for(task: str) -> str:
    """Return the paper's task that a data set here replaces; the same name if it replaces none."""
    return STANDS_FOR.get(task, task)


def size_label(method: str, size: str = "") -> str:
    """Return the variant of a method of several sizes as tables name it, `rank 1`; its default without a size."""
    if (capacity := SIZED.get(method)) is None:
        return ""
    number = int(size or capacity[1])
    return model_label({capacity[0]: number}, {capacity[0]: [number]})


def sizes_of(scores: pd.DataFrame) -> list[str]:
    """Return the variant of each row of scores by which published sizes are known; empty for methods of one size."""
    return [
        (variant or size_label(method)) if method in SIZED else ""
        for method, variant in zip(scores["method"], scores["variant"], strict=True)
    ]


def beside(names: Sequence[str], tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the test scores of a study's methods beside the published value of the same task, method and metric.

    `names` are the published tables. Shares are 0 to 1, with intervals over examples and seeds. The published model,
    data and sizes differ: every size is beside the same value, which is missing if none is printed.
    """
    ours = tables.get("scores")
    if ours is None or ours.empty:
        return pd.DataFrame(columns=list(SHOWN))
    ours = ours[(ours["split"] == "test") & ours["metric"].isin(["accuracy", "f1", "ece", "agreement"])]
    scores = ours[list(SHOWN[:-2])].assign(variant=sizes_of(ours)).reset_index(drop=True)
    rows = []
    for table in (published(name) for name in names if name.startswith("table")):
        table = table[table["kind"] == "row"]
        is_main = table["setting"] == MAIN_SETTING  # its rows come before any other
        rows += pd.concat([table[is_main], table[~is_main]]).to_dict("records")
    values = [(*(row[key] for key in KEYS), float(row["value"]), float(row["std"])) for row in rows]
    known = pd.DataFrame(values, columns=[*KEYS, "published", "std"]).drop_duplicates(list(KEYS))
    keyed = scores.assign(key_id=scores["id_task"].map(stands_for), key_task=scores["task"].map(stands_for))
    named = known.rename(columns={"id_task": "key_id", "task": "key_task"})
    return keyed.merge(named, how="left", on=["key_id", "key_task", "method", "variant", "metric"])[list(SHOWN)]


@cache
def as_tables(names: tuple[str, ...]) -> Mapping[str, pd.DataFrame]:
    """The main setting of published tables, or their only one, in the form of a study's tables.

    So both use the same claim code.
    The tables are `scores`, `differences` of every two methods of a task and size, `overlap` with the FISH mask and the
    `stages` of a sequence; no value has an interval.
    """
    rows = [published(name) for name in names if name.startswith("table")]
    table = pd.concat(rows, ignore_index=True) if rows else published("table2").head(0)
    is_main = table["setting"] == MAIN_SETTING
    table = table[(table["kind"] == "row") & (is_main if is_main.any() else True)]
    is_iou = table["metric"] == "overlap_iou"
    sequence = table["id_task"].str.contains(">")
    stage = [whole.split(">").index(task) if ">" in whole else 0
             for whole, task in zip(table["id_task"], table["task"], strict=True)]  # fmt: skip
    table = table.assign(
        id_task=table["id_task"].where(~sequence, table["task"]), setting="all", readout="", localizer="",
        search_variant="", split="test", mean=table["value"], low=np.nan, high=np.nan, debiased=np.nan, stage=stage,
        mode="naive", base="", size=table["share"], touched=table["share"],
    )  # fmt: skip
    scores = table[~is_iou & ((table["config"] == "") | (table["variant"] != ""))]
    scores = scores.drop_duplicates(["id_task", "task", "method", "metric", "share"])  # printed in two tables
    keys = ["id_task", "task", "metric", "setting", "readout", "localizer", "search_variant", "low", "high", "debiased"]
    pairs = scores.merge(scores[[*keys, "method", "variant", "share", "value"]], on=keys, suffixes=("", "_b"))
    of_region = pairs["method"].str.startswith("graft"), pairs["method_b"].str.startswith("graft")
    alike = ~(of_region[0] & of_region[1]) | (pairs["share"] == pairs["share_b"])
    pairs = pairs[(pairs["method"] < pairs["method_b"]) & alike]
    share = pairs["share"].where(of_region[0], pairs["share_b"].where(of_region[1]))
    differences = pairs.assign(
        a=pairs["method"], b=pairs["method_b"], value=pairs["value"] - pairs["value_b"],
        variant=pairs["variant"].where(pairs["variant"] != "", pairs["variant_b"]),
    )  # fmt: skip
    iou = table[is_iou].assign(
        kind="iou", row_task=table["task"], column_task=table["task"], row_localizer="learned",
        column_localizer="fisher", size=np.nan,
    )  # fmt: skip
    return {
        "scores": scores, "differences": differences.assign(share=share), "overlap": iou, "stages": table[sequence],
    }  # fmt: skip


def stated(quantity: str) -> str:
    """A single published number in words, `at least 5 points`; raises BadInput for a quantity that is not printed."""
    rows = _read(FIGURES)
    rows = rows[rows["quantity"] == quantity]
    if rows.empty:
        raise BadInput(f"'{quantity}' is no quantity of {FIGURES}.csv.")
    unit = rows["unit"].iloc[0].replace("percent", "%")
    bound = quantity.partition(", ")[2]
    return f"{bound} {rows['value'].iloc[0]}{'' if unit.startswith('%') else ' '}{unit}".strip()


@cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv", dtype=str, keep_default_na=False)


@cache
def _table(name: str) -> pd.DataFrame:
    raw = _read(name)
    methods = {**METHODS, **OF_TABLE.get(name, {})}
    return pd.DataFrame(
        {
            **{column: raw[column] for column in ("model", "setting", "id_task", "task", "task_as_printed")},
            "method": raw["method"].replace(methods),
            "method_as_printed": raw["method"],
            "config": raw["config"],
            "variant": list(map(size_label, raw["method"], raw["config"].str.removeprefix("rank="))),
            "share": _number(raw["sparsity_percent"].str.lstrip("<=")) / 100,
            "is_bound": raw["sparsity_percent"].str.startswith("<="),
            "metric": raw["metric"],
            "value": _number(raw["value"]) / 100,
            "std": _number(raw["std"]) / 100,
            "printed": raw["value"],
            "printed_std": raw["std"],
            "kind": np.where(raw["task"].str.match(r"average|avg_"), "average", "row"),
            "note": raw["note"],
        }
    )


def _number(column: pd.Series) -> pd.Series:
    """Convert text to numbers, with NaN for empty text."""
    return pd.to_numeric(column.replace("", None)).astype(float)
