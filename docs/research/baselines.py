"""Write the board of docs/research/baselines.md from a stored study: choices of a region, and LoRA, at equal size.

Numbers are from the study's tables `scores` and `differences` (means over fine-tuned models and mask seeds, 95%
intervals over seeds and examples); nothing is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from benchmarks.frame import fill
from skillviz.analysis.differences import turned_round
from skillviz.analysis.method_points import under_the_tuned_head
from skillviz.analysis.necessity import study_areas
from skillviz.analysis.tables import task_metric
from skillviz.core import formats
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.many_comparisons import decided
from skillviz.core.methods import METHODS
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.show.comparisons import MARK, counted_rows, holding, legend
from skillviz.studies.store import StudyFolder, open_study

PAGE = PROJECT / "docs" / "research" / "baselines.md"
STUDIES = PROJECT / "cached_runs" / "studies"
GRAFT, LORA = "graft", "lora"
AREAS = {"graft": "grafted", "without the region": "complement"}


def sizes(scores: pd.DataFrame) -> list[float]:
    """Return the sizes of the searched grafts in entries, ascending."""
    return sorted(scores.loc[scores["method"] == GRAFT, "size"].unique())


def scored(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one task's test rows of its own metric, with `at`: the touched entries, or for LoRA the trained ones."""
    rows = scores[(scores["task"] == scores["id_task"]) & (scores["split"] == "test")]
    rows = rows[rows["metric"] == task_metric(rows["metric"])]
    return rows.assign(at=rows["size"].where(rows["method"] != LORA, rows["touched"]))


def compared(differences: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the searched graft minus each other choice of its size, with `method`, `at` and the task's metric alone.

    LoRA is included at a size only if it trains exactly that number of entries.
    """
    rows = differences[differences["metric"] == scored(scores)["metric"].iloc[0]]
    rows = rows[rows["task"] == rows["id_task"]]
    rivals = rows[(rows["a"] == GRAFT) & rows["b"].str.startswith("graft_")]
    lora = rows[(rows["a"] == LORA) & (rows["b"] == GRAFT)]
    trained = scored(scores).query("method == @LORA").set_index("variant")["at"]
    lora = lora[lora["size"].to_numpy() == lora["variant"].map(trained).to_numpy(float)]
    return pd.concat([rivals.assign(method=rivals["b"]), turned_round(lora).assign(method=LORA)]).assign(
        at=lambda both: both["size"]
    )


def board(scores: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
    """Return Markdown: the accuracy of each choice at each size, the searched graft minus it, and the areas under both
    curves by size, with intervals."""
    rows, less, at = scored(scores), compared(differences, scores), sizes(scores)
    is_choice = rows["method"].isin([GRAFT, LORA]) | rows["method"].str.startswith("graft_")
    methods = [name for name in METHODS if name in set(rows.loc[is_choice, "method"])]
    searched, d = rows.loc[rows["method"] == GRAFT, "localizer"].iloc[0], float((rows["size"] / rows["share"]).median())
    heads = [f"{size:,.0f} ({formats.share(size / d)})" for size in at]

    def cells(table: pd.DataFrame, name: str, column: str, digits: int) -> list[str]:
        own = table[table["method"] == name]
        return [_cell(own[own["at"] == size], column, digits) for size in at]

    return [
        *formats.markdown_table(
            ("choice", *(f"{name}: {_metric(rows)}, %" for name in heads)),
            [[_title(name, searched), *cells(rows, name, "mean", 1)] for name in methods],
        ),
        "",
        *formats.markdown_table(
            (f"{searched} minus", *(f"{name}: points" for name in heads)),
            [[_title(name), *cells(less, name, "value", 2)] for name in methods if name != GRAFT],
        ),
        "",
        *area_lines(scores, searched),
    ]


def area_lines(scores: pd.DataFrame, searched: str) -> list[str]:
    """Return Markdown: means over the logarithm of the size, of each choice's graft and complement."""
    table = study_areas(scores)
    first, last = (formats.share(table[end].iloc[0]) for end in ("smallest", "largest"))
    by_name = dict(iter(table.groupby("localizer", sort=False)))
    names = [searched, *(row.name for row in LOCALIZERS.values() if row.method != GRAFT and row.name in by_name)]
    head = ("choice", *(f"mean from {first} to {last}, {state}: {_metric(scored(scores))}, %" for state in AREAS))
    return formats.markdown_table(head, [
        [f"`{name}`", *(_cell(by_name[name][by_name[name]["state"] == state], "value", 1) for state in AREAS.values())]
        for name in names
    ])  # fmt: skip


def _title(method: str, searched: str = "") -> str:
    """Return the localizer's name as code, or LoRA's title; `searched` is the localizer of plain grafts."""
    names = {row.method: row.name for row in LOCALIZERS.values()} | {GRAFT: searched}
    return f"`{names[method]}`" if method in names else METHODS[method].title


def _cell(rows: pd.DataFrame, column: str, signed: int) -> str:
    """Return one row's value with its interval in percent or points; empty if there is no row."""
    if rows.empty:
        return ""
    numbers = [100 * float(rows.iloc[0][name]) for name in (column, "low", "high")]
    digits = formats.digits_apart(*numbers[1:], 1) if signed == 2 else 1
    value, low, high = (round(number, digits) + 0.0 for number in numbers)
    sign = "+" if signed == 2 else ""
    text = f"{value:{sign}.1f}" + ("" if np.isnan(low) else f" ({low:.{digits}f} to {high:.{digits}f})")
    return text.replace("-", "−")


def setting(scores: pd.DataFrame) -> str:
    """Return a sentence on the task, the test examples and the fine-tuned models of the regions."""
    rows = scored(scores)
    searched = rows[rows["method"] == GRAFT].iloc[0]
    ends = under_the_tuned_head(rows).drop_duplicates("method").set_index("method")["mean"]
    base = ends.get("pretrained", float("nan"))
    return (
        f"{searched['id_task']}, {searched['n']:,.0f} test examples, {searched['seeds']:,.0f} fine-tuned models "
        f"(mean {_metric(rows)} {100 * ends['ft']:.1f}%; the base has {100 * base:.1f}%)."
    )


def _metric(rows: pd.DataFrame) -> str:
    """Return the metric's name within a sentence."""
    return metric_row(rows["metric"].iloc[0]).title


def verdicts(scores: pd.DataFrame, less: pd.DataFrame) -> Iterator[str]:
    """The verdicts of one task's differences at each size; rows as in `compared`, with `holds` as in `holding`."""
    searched = scored(scores).query("method == @GRAFT")["localizer"].iloc[0]
    for size in sizes(scores):
        rows = less[less["at"] == size]
        parts = {
            "better than": rows[rows["low"] > 0], "worse than": rows[rows["high"] < 0],
            f"{NO_DIFFERENCE} from": rows[(rows["low"] <= 0) & (rows["high"] >= 0)],
            f"{NOT_MEASURED} against": rows[rows["low"].isna() | rows["high"].isna()],
        }  # fmt: skip
        said = [
            f"{words} {', '.join(map(_marked, part.to_dict('records')))}" for words, part in parts.items() if len(part)
        ]
        yield f"{size:,.0f} entries: `{searched}` is {'; '.join(said)}."


def _marked(row: Mapping[Any, Any]) -> str:
    """Return the method, with a mark if its verdict does not hold among all verdicts of the study."""
    return _title(row["method"]) + (f" {MARK}" if decided(row["low"], row["high"]) and not row["holds"] else "")


def parts(study: StudyFolder) -> dict[str, list[str]]:
    """Return the content between a study's marks, by the name of the mark; a study of several tasks names each."""
    every = study.table("scores"), study.table("differences")
    tasks = sorted(every[0]["id_task"].unique())
    tables = {task: tuple(table[table["id_task"] == task] for table in every) for task in tasks}
    settings, boards, said, several = [], [], [], len(tables) > 1
    less = pd.concat([compared(differences, scores) for scores, differences in tables.values()], ignore_index=True)
    less = less.assign(holds=holding(less))
    for task, (scores, differences) in tables.items():
        settings.append("- " * several + setting(scores))
        boards += [*["", f"**{task}**", ""] * several, *board(scores, differences)]
        said += [f"- {f'{task}, ' * several}{line}" for line in verdicts(scores, less[less["id_task"] == task])]
    counted = [f"- {counts} {legend(less)}".rstrip() for counts in [counted_rows(less)] if counts]
    return {f"{study.name} setting": settings, f"{study.name} board": boards, f"{study.name} verdicts": said + counted}


def write(studies: Path = STUDIES, page: Path = PAGE) -> list[str]:
    """Write the board of every study with marks on the page and tables in the folder, and return their names."""
    text = page.read_text(encoding="utf-8")
    marked = [folder for folder in sorted(studies.iterdir()) if f"<!-- {folder.name} board:" in text]
    opened = [study for folder in marked if (study := open_study(folder)) is not None]
    for study in opened:
        fill(page, parts(study), "python docs/research/baselines.py")
    return [study.name for study in opened]


if __name__ == "__main__":
    write()
