"""`python -m benchmarks masked-lm train|compare|report`: train a masked language model, compare prompt with head."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from skillviz.tasks.project import expanded

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WORK = Path("models/masked-lm")

app = typer.Typer(help="Train a masked language model on texts without leaks, and compare prompt with head on it.")
Results = Annotated[Path, typer.Option(help="Folder of the CSV files.")]
Out = Annotated[Path, typer.Option(help="Folder of the state and, in the end, of the model.")]


@app.command()
def train(
    core_hours: Annotated[float, typer.Option(min=0, help="Processor hours in all, earlier calls included.")] = 10.0,
    base: Annotated[Path, typer.Option(help="The encoder.")] = ROOT / "examples" / "models" / "minilm-l6",
    data: Annotated[str, typer.Option(help="Folder of the data files.")] = "${SKILLVIZ_REAL}/data",
    out: Out = WORK,
    rate: Annotated[float, typer.Option(help="The largest learning rate.")] = 1e-3,
    evaluate_seconds: Annotated[float, typer.Option(help="Core-seconds between two points of the curve.")] = 900.0,
    results: Results = RESULTS,
) -> None:
    """Train until the core-hours are spent, or resume; if they are already spent, write the model as it is."""
    from benchmarks import masked_lm, masked_lm_report  # these import torch

    settings = masked_lm.Settings(core_hours, rate, evaluate_seconds=evaluate_seconds)
    folder = Path(expanded(data, "data"))
    masked_lm.run(base, folder, out, results, settings, masked_lm_report.card, partial(print, flush=True))


@app.command()
def compare(out: Out = WORK, results: Results = RESULTS) -> None:
    """Score the trained model zero-shot, and fine-tune it by prompt and by head; existing rows are kept."""
    from benchmarks import masked_lm_compare  # imports torch

    masked_lm_compare.run(out / "model", results, out / "cells", partial(print, flush=True))


@app.command()
def report(results: Results = RESULTS) -> None:
    """Write the tables of docs/research/masked-lm.md from the stored rows; no model is run."""
    from benchmarks import masked_lm_report  # imports torch

    typer.echo(f"{masked_lm_report.write(results)}: {masked_lm_report.PAGE.name}.")
