"""Check that the numbers are right: against other programs' metrics, and against stored predictions."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from skillviz.core import metrics, scores
from skillviz.runs.run import Run
from skillviz.runs.store import library
from tests.reliability.reference_metrics import FILE, cases

TOLERANCE = 1e-6
"""For values between 0 and 2; torchmetrics sums in single precision."""


def reference(number: int, work: Path) -> Iterator[str]:
    """Yield the difference to each stored value of another program, `number` of them at the most."""
    for row in json.loads(FILE.read_text(encoding="utf-8"))["values"][:number]:
        logits, labels = cases()[row["case"]]
        ours = metrics.ece(logits, labels) if row["metric"] == "ece" else getattr(scores, row["metric"])(logits, labels)
        yield (
            ""
            if (abs(ours - row["value"]) / max(1.0, abs(row["value"]))) <= TOLERANCE
            else f"{row['metric']} of {row['case']}: {ours} here, {row['value']} by {row['program']}"
        )


def stored(number: int, work: Path) -> Iterator[str]:
    """The difference of each metric of each state in run.json of shipped runs, computed again from the predictions."""
    runs = [run for run in library(work / "none").list() if "predictions.parquet" in run.files]
    for run in (runs[i] for i in np.linspace(0, len(runs) - 1, min(number, len(runs))).astype(int)):
        yield from _of_run(run)


def _of_run(run: Run) -> Iterator[str]:
    positive = run.record.task.positive if run.record.task else None
    for split, stored in run.record.metrics.items():
        for state, estimates in stored.states.items():
            if state == "finetuned_scaled":  # scored at another temperature than the stored logits
                continue
            _, labels, logits = run.logits(state, split)
            for name, estimate in estimates.items():
                kernel = metrics.METRICS[name].kernel if name in metrics.METRICS else None
                if kernel is None or estimate.value is None:
                    continue
                value = kernel.value(logits.astype(np.float64), labels, positive or 1, metrics.BINS)
                same = abs(value - estimate.value) <= 1e-9
                yield "" if same else f"{run.id}: {name} of {state} on {split} is {estimate.value}, not {value}"
