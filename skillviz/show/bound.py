"""The generalization bound of a run (paper, appendix D): each term as a ratio to the vacuous value 1."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.bound import VACUOUS, Variance
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import has_predictions, right_metric
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.bound import variance_by_size
from skillviz.runs.record import Estimate, RunRecord
from skillviz.show.exhibit import Exhibit, drawn_once

TITLE = "Does a small region guarantee that the skill generalizes?"
BITS = {"float16": 16, "bfloat16": 16, "float64": 64}
"""Bits of a stored value by dtype; 32 for all others."""
POINTS = 60  # sizes on a line
TRAINING = (
    "Two errors on the training set, of the graft and of the same region trained again. A run stores neither; "
    "commands measure both."
)
SUMMANDS = {
    "values": "its values alone (s log q)",
    "choice": "its choice alone (log Θ)",
    "delta": "the confidence level alone (log 2/δ)",
}


def variance(record: RunRecord) -> Variance | None:
    """The variance term of a run's main region; None if it has no region or no count of its training examples.

    Values copied from a 16-bit file are each one of 2^16; a gain or another rescaling makes them new 32-bit values.
    """
    examples, row = record.task.counts.get("train", 0) if record.task else 0, LOCALIZERS.get(record.spec.localizer)
    if not (record.size and record.architecture and examples):
        return None
    is_copy = record.gain == 1 and row is not None and row.makes_graft
    bits = BITS.get(record.finetuned.dtype, 32) if is_copy and record.finetuned else 32
    return Variance(record.size, record.architecture.d, examples, bits, row is not None and row.fixed)


def finding(term: Variance) -> str:
    """The variance term, and the number of examples or the region with which it would be below 1, in Markdown."""
    at = f"{formats.counted(term.size, 'parameter')} and {formats.counted(term.examples, 'training example')}"
    full = f"The full model's term is {formats.number(replace(term, size=term.d).value, 0)}."
    if term.value < VACUOUS:
        return (
            f"**The generalization bound's variance term is {formats.number(term.value, 2)}, below the vacuous value "
            f"1** ({at}). The bias and ε2 are not measured, so the bound as a whole is not known. {full}"
        )
    size = term.largest_size()
    smaller = f", or a region of at most {formats.counted(size, 'parameter')}" if size else ""
    return (
        f"**The generalization bound is vacuous: its variance term alone is {formats.number(term.value, 1)}, where 1 "
        f"already allows any loss** ({at}). Below 1 it needs {term.examples_needed():,} training examples{smaller}. "
        f"{full}"
    )


def terms(record: RunRecord, split: str) -> pd.DataFrame:
    """One row per term of D.2 and D.4: `ratio` to the vacuous value 1, and what it needs, as texts.

    Empty if the run has no variance term."""
    term = variance(record)
    if term is None:
        return pd.DataFrame(columns=["term", "ratio", "needs"])
    rows = [("Variance V, at most", formats.number(term.value, 2), _needs_of_variance(term))]
    rows += [
        (f"— {words}", formats.number(term.alone(name), 2), _counts(term, name)) for name, words in SUMMANDS.items()
    ]
    exact = f"Nothing: q = 2^{term.bits} holds every stored value exactly."
    return pd.DataFrame(
        [
            *rows,
            ("Bias: best model in the region − best of all, on test", NOT_MEASURED, _needs_of_bias(record, split)),
            ("Rounding, 4 ε1", formats.number(0.0, 2), exact),
            ("Graft − region trained again, on train: ε2 (D.4)", NOT_MEASURED, TRAINING),
        ],
        columns=["term", "ratio", "needs"],
    )  # fmt: skip


def _needs_of_variance(term: Variance) -> str:
    if term.value < VACUOUS:
        return f"Nothing; up to {formats.counted(term.largest_size(), 'parameter')} stay below 1."
    return f"Below 1: {term.examples_needed():,} training examples; this run has {term.examples:,}."


def _counts(term: Variance, summand: str) -> str:
    return {
        "values": f"s = {term.size:,}, q = 2^{term.bits}. A coarser format needs fewer examples.",
        "choice": f"Θ = d^s, d = {term.d:,}. A region fixed before training has Θ = 1."
        if term.nats["choice"]
        else "Θ = 1, if the region was not chosen by a look at the training examples.",
        "delta": f"δ = {term.delta:g}, n = {term.examples:,}.",
    }[summand]


def _needs_of_bias(record: RunRecord, split: str) -> str:
    """The reason that the bias is not measured, and the error of the graft minus the fine-tuned model's beside it."""
    scores = record.metrics.get(split)
    less = scores.differences.get(right_metric(record.metric)) if scores and has_predictions(record.metric) else None
    reason = "The best models on test cannot be searched for without using up the test set."
    if less is None or less.value is None:
        return f"{reason} No loss in [0, 1] of this pair is stored."
    error = formats.estimate(*_turned(less))
    return f"{reason} For the two at hand, the error of the graft − that of the fine-tuned model is {error} on {split}."


def _turned(less: Estimate) -> tuple[float | None, float | None, float | None]:
    """The difference of errors for one of accuracies: signs changed, ends exchanged."""
    value, low, high = (None if end is None else -end for end in (less.value, less.high, less.low))
    return value, low, high


def commands(record: RunRecord, option: str = "") -> str:
    """The commands that measure the two training errors of eps2, one a line; `option` names the store.

    No split of a run is its training set, so the errors need a task file of which it is the test set."""
    run, base, graft = record.run_id, ["--base", record.spec.base], "graft.safetensors"
    score = ["evaluate", *base, "--task", "train-as-test.yaml"]
    again = ["finetune", *base, "--task", record.spec.task, "--recipe", "graft-retrain", "--region", run]
    first, made, *scored = (
        f"python -m skillviz {shlex.join(words)}"
        for words in (
            [*again, "--out", "models/again"], ["export", run, "-o", graft],
            [*score, "--graft", graft], [*score, "--finetuned", "models/again"],
        )
    )  # fmt: skip
    note = "# train-as-test.yaml: a copy of the task file whose data has the training file as test"
    return "\n".join((first + option, made + option, note, *scored))


@drawn_once
def by_size(record: RunRecord, theme: str) -> Exhibit:
    """The variance term by region size, for learned and fixed regions, with this run and the full model marked.

    The run must have a variance term."""
    term = variance(record)
    assert term is not None
    sizes = np.unique(np.geomspace(1, term.d, POINTS).round().astype(np.int64))
    fixed, learned = (replace(term, is_fixed=is_fixed) for is_fixed in (True, False))
    points = [
        *(("learned", replace(learned, size=int(size))) for size in sizes[:-1]),
        *(("fixed", replace(fixed, size=int(size))) for size in sizes),
        ("run", term), ("full", replace(fixed, size=term.d)),
    ]  # fmt: skip
    table = pd.DataFrame(
        [(series, at.size, at.size / at.d, at.value) for series, at in points],
        columns=["series", "size", "share", "value"],
    )
    examples = "training example"
    return Exhibit(
        name="bound",
        title="Variance term of the generalization bound, by region size",
        figure=variance_by_size(table, theme=theme),
        reads="the test loss of a model can exceed that of the best model by at most this term plus the others. A loss "
        f"is within 0 and 1, so a bound of 1 or more says nothing. With {formats.counted(term.examples, examples)} and "
        f"q = 2^{term.bits} values per parameter, at 95% confidence (paper, appendix D).",
        alt="The variance term grows with the square root of the region size, from "
        f"{formats.number(replace(learned, size=1).value, 2)} at one parameter. This run: "
        f"{formats.number(term.value, 2)}. The full model: {formats.number(points[-1][1].value, 0)}. Values of 1 or "
        "more are vacuous.",
        table=table,
        words=("bound",),
        finding=finding(term),
    )
