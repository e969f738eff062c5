"""Write the tables of docs/localizers.md from results/localizer.csv: scores, and paired differences of localizers.

Differences are in points of test accuracy, paired by example. A task's difference is the mean over its fine-tuned
models (each by its mean over mask seeds); its 95% interval is over those models and the examples together
(core/seeds_interval.py). With one fine-tuned model it is over the examples alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.frame import RESULTS, ROOT, Rows, fill
from benchmarks.localizer import AS_PUBLISHED, KEY, LABELS, METHODS, SIZES, TASKS, Cell, plan
from skillviz.core import formats
from skillviz.core.formats import markdown_table
from skillviz.core.localizers.table import LOCALIZERS, Workload
from skillviz.core.many_comparisons import RATE
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.show.comparisons import compared_rows, counted_rows

PAGE = ROOT / "docs" / "localizers.md"
MINILM = Workload(d=10_646_784, labels=2, train=6908, validation=872, size=10_646)
"""MiniLM on SST-2 sentences at 0.1%: the workload for the table of costs."""
ALL_SIZES = (*SIZES, "10%")
"""All sizes; the last only on the tasks in TENTH."""
DEFAULT, LEARNED = "stagewise", "learned"
SIZED = {(False, False): "an outcome", (True, False): "exact", (True, True): "exact; one search for all sizes"}
"""The size of a localizer's region, by whether it has a budget and nested regions."""
COMPARED = (
    (DEFAULT, LEARNED), ("judged", DEFAULT), ("judged", LEARNED), ("judged, a quarter", LEARNED),
    ("judged", AS_PUBLISHED), ("nested", "judged"), ("judged", "movement"),
)  # fmt: skip


class Group(NamedTuple):
    """The regions of one size by one method on all fully fine-tuned models of a task."""

    task: str
    size: str
    method: str


Right = dict[Group, dict[tuple[int, int], np.ndarray]]
"""The right and wrong answers [n] of each region on the test examples, by fine-tuning and mask seed."""


def right_answers(rows: pd.DataFrame) -> Right:
    """Return the answers of the stored rows, with tasks and sizes in the plan's order."""
    rows = in_order(rows)
    cells = [Cell(*(row[name] for name in KEY)) for row in rows.to_dict("records")]
    classes = [np.frombuffer(predicted, np.uint8) for predicted in rows["predicted"]]
    labels = {cell.pair: own for cell, own in zip(cells, classes, strict=True) if cell.method == LABELS}
    right: Right = {}
    for cell, own in zip(cells, classes, strict=True):
        if cell.size and not cell.is_early:
            of = right.setdefault(Group(cell.task, cell.size, cell.method), {})
            of[cell.finetune_seed, cell.mask_seed] = own == labels[cell.pair]
    return right


def differences(right: Right, one: str, other: str) -> pd.DataFrame:
    """Return the difference of one method's accuracy to another's with its interval and its number of fine-tuning
    seeds, a row for each task and size that has both."""
    found = []
    for group, regions in right.items():
        against = right.get(group._replace(method=other), {})
        by_model: dict[int, list[np.ndarray]] = {}
        for (model, mask), answers in regions.items() if group.method == one else ():
            same = against.get((model, mask if METHODS[other].is_seeded else 0))
            if same is not None:
                by_model.setdefault(model, []).append(answers.astype(float) - same)
        if by_model:
            models = np.array([np.mean(each, axis=0) for each in by_model.values()])
            sd = float(models.mean(0).std(ddof=1)) / np.sqrt(models.shape[1])
            mean = seeds_and_examples(100 * models.mean(1), 100 * sd)
            found.append((group.task, group.size, mean.value, mean.low, mean.high, len(models)))
    return pd.DataFrame(found, columns=["task", "size", "value", "low", "high", "seeds"])


def pair_name(task: str, is_early: bool) -> str:
    """Return a fine-tuned model's name in the tables."""
    return f"{task}, stopped early" if is_early else task


def default_line(right: Right) -> list[str]:
    """Return Markdown that compares the default search with the learned mask, on every task and size."""
    found = differences(right, DEFAULT, LEARNED)
    counts = compared_rows(found)
    return [
        f"- **`{DEFAULT}`** is the default. In the [evaluation](#the-evaluation) it was better than the learned mask "
        f"in {(found['low'] > 0).sum()} of {counts.n} comparisons and worse in {(found['high'] < 0).sum()}, "
        f"with half of the gradients. {counts.held} of these differences hold at a false discovery rate of {RATE:.0%}."
    ]


def comparisons_table(right: Right) -> list[str]:
    """Return Markdown that compares two methods at equal size, on every task.

    Below the table is the number of each two methods' comparisons that chance alone would decide.
    """
    lines, counts = [], []
    for one, other in COMPARED:
        every = differences(right, one, other)
        for size, found in every.groupby("size", sort=False):
            better, worse = (found["low"] > 0).sum(), (found["high"] < 0).sum()
            texts = (
                f"{row.task}: {formats.signed(row.value, 1)} ({formats.interval(row.low, row.high, 1)})"
                for row in found.itertuples()
            )
            numbers = (str(better), str(worse), str(len(found) - better - worse))
            lines.append((f"{one} − {other}", size, *numbers, "; ".join(texts)))
        counts += [f"- {one} − {other}: {counted_rows(every)}"]
    head = ("one minus the other", "size", "better", "worse", "no clear difference", "by task, points")
    return [*markdown_table(head, lines), "", *counts]


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by pair, size and method, in the plan's order rather than the order in which they were made."""
    ranks = {"task": list(TASKS), "size": ["", *ALL_SIZES], "method": ["base", "fine-tuned", *METHODS, LABELS]}
    return rows.sort_values(
        ["task", "is_early", "size", "method"], kind="stable",
        key=lambda values: values.map(ranks[values.name].index) if values.name in ranks else values,
    )  # fmt: skip


def scores_table(rows: pd.DataFrame) -> list[str]:
    """Markdown: mean accuracy of each method by pair and size, the spread of its regions, gradients and seconds."""
    head = ("task", "size", "method", "regions", "accuracy, %", "lowest region", "spread (sd)", "NLL", "ECE, %",
            "gradients", "seconds")  # fmt: skip
    regions = in_order(rows[rows["method"] != LABELS]).fillna({"gradients": 0, "seconds": 0})
    return markdown_table(head, (
        (pair_name(task, is_early), size, method, str(len(group)), f"{group['accuracy'].mean():.1f}",
         f"{group['accuracy'].min():.1f}", f"{group['accuracy'].std():.1f}" if len(group) > 1 else "",
         f"{group['nll'].mean():.3f}", f"{group['ece'].mean():.1f}", f"{group['gradients'].mean():,.0f}",
         f"{group['seconds'].mean():,.0f}")
        for (task, is_early, size, method), group in
        regions.groupby(["task", "is_early", "size", "method"], sort=False)
    ))  # fmt: skip


def overview() -> list[str]:
    """Return Markdown: each localizer's method, and the number of examples that one search runs through the model."""
    head = ("localizer", "on pages", "what it does", "source", "size", "examples forward and backward",
            "examples forward")  # fmt: skip
    costs = {row.name: row.cost(row.options(), MINILM) for row in LOCALIZERS.values()}
    return markdown_table(head, (
        (f"`{row.name}`", row.title, row.sentence, row.source, SIZED[row.budgeted, row.nested],
         f"{costs[row.name].backward:,.0f}", f"{costs[row.name].forward:,.0f}")
        for row in LOCALIZERS.values()
    ))  # fmt: skip


def tables(rows: Rows) -> dict[str, list[str]]:
    """Return the content between the marks of docs/localizers.md, by the name of the mark."""
    regions, frame = sum(bool(row["size"]) for row in rows.rows), pd.DataFrame(rows.rows)
    right = right_answers(frame)
    return {
        "overview": overview(), "development": development_table(),
        "state": [f"{regions:,} of {len(plan()):,} regions are measured."],
        "comparisons": comparisons_table(right),
        "default": default_line(right), "scores": scores_table(frame),
    }  # fmt: skip


def development_table() -> list[str]:
    """Return Markdown: the settings that were tried before the configuration was frozen, on validation data."""
    rows = pd.read_csv(RESULTS / "localizer_development.csv", keep_default_na=False)
    return markdown_table(("task", "size", "setting", "seed", "accuracy, %", "NLL"), (
        (row["task"], row["size"], row["setting"], str(row["mask_seed"]), f"{row['accuracy']:.1f}", f"{row['nll']:.3f}")
        for row in rows.to_dict("records")
    ))  # fmt: skip


def write(rows: Rows) -> None:
    """Write every table between its marks in the page."""
    fill(PAGE, tables(rows), "python -m benchmarks localizer")
