"""Write the tables of docs/research/minilm.md from the stored runs of two studies: `python docs/research/minilm.py`.

The first study fills the main tables, the second the section on other fine-tunes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from benchmarks.frame import fill
from skillviz.analysis import run_tables
from skillviz.analysis.seeds import difference_over_seeds
from skillviz.core.formats import markdown_table
from skillviz.core.intervals import metric_interval
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.core.metrics import METRICS
from skillviz.runs.artifact import LOCALIZE
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import read_study
from skillviz.studies.status import Snapshot

PAGE, COMMAND = PROJECT / "docs" / "research" / "minilm.md", "python docs/research/minilm.py"
STUDIES = ("minilm-sst2", "minilm-sst2-others")
MINUS = "\N{MINUS SIGN}"


def points(value: float, low: float, high: float) -> str:
    """Return a difference of shares with its interval in points, with one decimal."""
    return f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})".replace("-", MINUS)


def state_row(name: str, run: Run, state: str) -> tuple[str, ...]:
    """Return a row for a model state that belongs to no localizer."""
    scores = run.record.metrics["test"].states[state]
    accuracy, nll = scores["accuracy"], scores["nll"]
    _, labels, logits = run.logits(state)
    ece = metric_interval(logits.astype("float64"), labels, "ece")
    return (
        f"*{name}*", "", "", METRICS["accuracy"].cell(accuracy.value, accuracy.low, accuracy.high),
        METRICS["ece"].cell(ece.value, ece.low, ece.high, ece.debiased), f"{nll.value:.3f}",
    )  # fmt: skip


def graft_rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a row for each size and localizer, the most accurate first."""
    columns = ["mean", "low", "high", "debiased", "seeds", "share"]
    wide = table.pivot_table(index=["size", "localizer"], columns="metric", values=columns, dropna=False)
    wide = wide.dropna(subset=[("mean", "accuracy")])
    wide = wide.sort_values(by=["size", ("mean", "accuracy")], ascending=[True, False])
    return [
        (f"**{name}**" if name == DEFAULT_LOCALIZER else name,
         f"{size:,.0f} ({100 * row['share', 'accuracy']:.2g}%)", str(int(row["seeds", "accuracy"])),
         *(METRICS[m].cell(*(row[part, m] for part in columns[:4])) for m in ("accuracy", "ece")),
         f"{row['mean', 'nll']:.3f}")
        for (size, name), row in wide.iterrows()
    ]  # fmt: skip


def difference_rows(differences: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the default localizer minus each other at equal size, in points of accuracy."""
    own = differences.query("a == @DEFAULT_LOCALIZER and metric == 'accuracy'").sort_values(["size", "value"])
    return [
        (f"{r['size']:,.0f}", r["b"], points(r["value"], r["low"], r["high"])) for r in own.to_dict("records")
    ]  # fmt: skip


def larger_rows(runs: list[Run]) -> list[tuple[str, ...]]:
    """Return the default localizer minus top movement at the next larger size, in points of accuracy."""
    groups = run_tables.grouped(runs, lambda run: (run.spec.localizer, run.record.size or 0))
    sizes = sorted(size for name, size in groups if name == "movement")
    rows = []
    for small, large in zip(sizes, sizes[1:], strict=False):
        if (DEFAULT_LOCALIZER, small) in groups:
            of = {"default": groups[DEFAULT_LOCALIZER, small], "movement": groups["movement", large]}
            sides = run_tables.sampled(of, ["accuracy"]).by_metric["accuracy"]
            r = difference_over_seeds(sides["default"], sides["movement"], "accuracy")
            rows.append((f"{small:,}", f"movement at {large:,}", points(r.value, r.low, r.high)))
    return rows


def text(runs: list[Run]) -> list[str]:
    """Return runs of one pair as Markdown: their table, and the default localizer against each other one."""
    states = [state_row(name, runs[0], name.replace("-", "")) for name in ("pre-trained", "fine-tuned")]
    head = ("region", "size", "seeds", "accuracy, %", "ECE, %", "NLL, nats")
    differences = [*difference_rows(run_tables.differences(runs)), *larger_rows(runs)]
    return [
        *markdown_table(head, [*states, *graft_rows(run_tables.table_of_runs(runs))]),
        "",
        "Means over seeds, with 95% intervals over test sentences and seeds. ECE is the debiased error, which its "
        "interval is for; the plug-in value, which papers report, stands behind it ([statistics](../statistics.md)).",
        "",
        f"Accuracy of `{DEFAULT_LOCALIZER}` minus that of each other localizer at equal size, and of top movement at "
        "the next larger size, in points, paired by sentence, with 95% intervals:",
        "",
        *markdown_table(("size", "against", "difference"), differences),
    ]


def tables(runs_dir: Path) -> dict[str, list[str]]:
    """Return the content of the page's marks: the first study, and each pair of the second under its folder's name."""
    store, files = Store(runs_dir), [PROJECT / "benchmarks" / "studies" / f"{name}.yaml" for name in STUDIES]
    first, second = (list(Snapshot(study_plan(read_study(file)), store).of(LOCALIZE).values()) for file in files)
    pairs = run_tables.grouped(second, lambda run: run.spec.finetuned)
    others = [line for name, runs in pairs.items() for line in ("", f"`{name}`", "", *text(runs))]
    return {"results": text(first), "others": others[1:]}


def main(runs_dir: Path = PROJECT / "cached_runs") -> None:
    """Write the tables of the page."""
    fill(PAGE, tables(runs_dir), COMMAND)


if __name__ == "__main__":
    main()
