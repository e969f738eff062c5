"""Write the study's tables into docs/research/minilm.md, and the constants' into benchmarks/README.md, between marks.

    python benchmarks/report.py benchmarks/studies/minilm-sst2.yaml benchmarks/studies/minilm-sst2-others.yaml

The first study fills the main tables, later ones the section on other fine-tunes. Every number is from the stored runs;
nothing is typed in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.between_marks import fill
from skillviz.analysis import run_tables
from skillviz.analysis.seeds import difference_over_seeds
from skillviz.core.intervals import metric_interval
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.core.metrics import METRICS
from skillviz.runs.artifact import LOCALIZE
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.studies.plan import plan
from skillviz.studies.spec import read_study
from skillviz.studies.status import Snapshot

COMMAND = "benchmarks/report.py"
CONSTANTS = Path(__file__).parent / "results" / "constants.json"
PAGE, OWN = ROOT / "docs" / "research" / "minilm.md", ROOT / "benchmarks" / "README.md"
MINUS = "\N{MINUS SIGN}"


def percent(value: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * value:.1f}".replace("-", MINUS)


def state_row(name: str, run: Run, state: str) -> str:
    """Return a line for a model state that belongs to no localizer."""
    scores = run.record.metrics["test"].states[state]
    accuracy, nll = scores["accuracy"], scores["nll"]
    _, labels, logits = run.logits(state)
    ece = metric_interval(logits.astype("float64"), labels, "ece")
    cells = [
        METRICS["accuracy"].cell(accuracy.value, accuracy.low, accuracy.high),
        METRICS["ece"].cell(ece.value, ece.low, ece.high, ece.debiased),
        f"{nll.value:.3f}",
    ]
    return f"| *{name}* | | | {' | '.join(cells)} |"


def graft_rows(table: pd.DataFrame) -> list[str]:
    """Return a line for each size and localizer, the most accurate first."""
    wide = table.pivot_table(
        index=["size", "localizer"],
        columns="metric",
        values=["mean", "low", "high", "debiased", "seeds", "share"],
        dropna=False,
    ).dropna(subset=[("mean", "accuracy")])
    wide = wide.sort_values(by=["size", ("mean", "accuracy")], ascending=[True, False])
    lines = []
    for (size, name), row in wide.iterrows():
        cells = [
            METRICS[m].cell(*(row[part, m] for part in ("mean", "low", "high", "debiased")))
            for m in ("accuracy", "ece")
        ]
        where = f"{size:,.0f} ({100 * row['share', 'accuracy']:.2g}%)"
        shown = f"**{name}**" if name == DEFAULT_LOCALIZER else name
        seeds = int(row["seeds", "accuracy"])
        lines.append(f"| {shown} | {where} | {seeds} | {' | '.join(cells)} | {row['mean', 'nll']:.3f} |")
    return lines


def difference_rows(differences: pd.DataFrame) -> list[str]:
    """Return the default localizer minus each other at equal size, in points of accuracy."""
    own = differences.query("a == @DEFAULT_LOCALIZER and metric == 'accuracy'").sort_values(["size", "value"])
    return [
        f"| {r.size:,.0f} | {r.b} | {percent(r.value)} ({percent(r.low)} to {percent(r.high)}) |"
        for r in own.rename(columns={"size": "entries"}).assign(size=own["size"]).itertuples()
    ]


def larger_rows(runs: list[Run]) -> list[str]:
    """Return the default localizer minus top movement at the next larger size, in points of accuracy."""
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.spec.localizer, run.record.size or 0), []).append(run)
    sizes = sorted(size for name, size in groups if name == "movement")
    rows = []
    for small, large in zip(sizes, sizes[1:], strict=False):
        if (DEFAULT_LOCALIZER, small) in groups:
            of = {"default": groups[DEFAULT_LOCALIZER, small], "movement": groups["movement", large]}
            sides = run_tables.sampled(of, ["accuracy"]).by_metric["accuracy"]
            r = difference_over_seeds(sides["default"], sides["movement"], "accuracy")
            change = f"{percent(r.value)} ({percent(r.low)} to {percent(r.high)})"
            rows.append(f"| {small:,} | movement at {large:,} | {change} |")
    return rows


def constants(rows: list[dict]) -> str:
    """Return the tested settings of each localizer by pair and size, the lowest loss first."""
    lines = ["| pair | size | localizer | setting | accuracy, % | NLL, nats | ECE, % | search, s |", "| --- " * 8 + "|"]
    for r in sorted(rows, key=lambda r: (r["finetuned"], r["size"], r["seed"], r["nll"])):
        setting = ", ".join(f"{k} {v:g}" for k, v in r["options"].items()) or "as shipped"
        lines.append(
            f"| {r['finetuned']} | {r['size']:,} | {r['localizer']} | {setting} | {r['accuracy']:.1f} | {r['nll']:.3f} "
            f"| {r['ece']:.1f} | {r['seconds']:.0f} |"
        )
    return "\n".join(lines)


def text(runs: list[Run]) -> str:
    """Return runs of one pair as Markdown: their table, and the default localizer against each other one."""
    head = "| region | size | seeds | accuracy, % | ECE, % | NLL, nats |\n| --- | --- | --- | --- | --- | --- |"
    states = [state_row(name, runs[0], name.replace("-", "")) for name in ("pre-trained", "fine-tuned")]
    parts = [
        head,
        *states,
        *graft_rows(run_tables.table(runs)),
        "",
        "Means over seeds, with 95% intervals over test sentences and seeds. ECE is the debiased error, which its "
        "interval is for; the plug-in value, which papers report, stands behind it ([statistics](../statistics.md)).",
        "",
        f"Accuracy of `{DEFAULT_LOCALIZER}` minus that of each other localizer at equal size, and of top movement at "
        "the next larger size, in points, paired by sentence, with 95% intervals:",
        "",
        "| size | against | difference |\n| --- | --- | --- |",
        *difference_rows(run_tables.differences(runs)),
        *larger_rows(runs),
    ]
    return "\n".join(parts)


def others(runs: list[Run]) -> str:
    """Return the same for each further pair, under the name of its fine-tuned folder."""
    pairs = run_tables.grouped(runs, lambda run: run.spec.finetuned)
    return "\n\n".join(f"`{finetuned}`\n\n{text(of_pair)}" for finetuned, of_pair in pairs.items())


def runs_of(study: Path, store: Store) -> list[Run]:
    """Return the study's finished runs."""
    return list(Snapshot(plan(read_study(study)), store).of(LOCALIZE).values())


def main(studies: list[Path], runs_dir: Annotated[Path, typer.Option()] = ROOT / "cached_runs") -> None:
    """Rewrite the sections of both files."""
    store = Store(runs_dir)
    runs = runs_of(studies[0], store)
    fill(PAGE, {"results": [text(runs)]}, COMMAND)
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(runs)} runs")
    further = [run for study in studies[1:] for run in runs_of(study, store)]
    if further:
        fill(PAGE, {"others": [others(further)]}, COMMAND)
        print(f"wrote {PAGE.relative_to(ROOT)}: {len(further)} runs of other pairs")
    fill(OWN, {"constants": [constants(json.loads(CONSTANTS.read_text()))]}, COMMAND)
    print(f"wrote {OWN.relative_to(ROOT)}: the constants")


if __name__ == "__main__":
    typer.run(main)
