"""Test the constants of the searches: rate, steps and bias of the learned mask, steps and batch of the others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skillviz.analysis.observations import sentences
from skillviz.analysis.run_tables import sensitivity
from skillviz.analysis.tables import notes
from skillviz.core.formats import counted
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.scales import SMALL
from skillviz.studies.paper.setting import SEARCH, SettingRow, sizes_row
from skillviz.studies.study_observations import of_results

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

RATES = (1e6, 1e7, 1e8)
BIASES = (5.0, 10.0)
STEPS = (25, 50, 100)
FEW_STEPS, FEW_SEEDS = (25, 100), (0,)  # at the small scale
BATCHES = (32, 128)
FIELDS = ("steps", "batch_size")  # fields of a run, not of its localizer's options


def entries(scale: Scale) -> list[Entry]:
    """Return the runs on one task, or on each requested one; raises BadInput for several fine-tuning seeds, for which
    the table has no column."""
    scale.refuse_seeds("one model of each task")
    scale = _affordable(scale)
    return [entry for task in scale.some("one") for entry in _of_task(scale, task)]


def _of_task(scale: Scale, task: str) -> list[dict[str, Any]]:
    """Return the learned mask by rate, steps and bias, and its ranked form and stagewise by steps and batch size."""
    model = scale.first(task)
    size, tried = scale.sizes[:1], _steps(scale)
    learned = scale.options.get("learned", {}).get("batch_size", 128) // 2
    entries = [
        scale.search(model, "learned", size, batch_size=learned, steps=steps, options={"lr": lr, "bias": bias})
        for lr, steps, bias in itertools.product(RATES, tried, BIASES)
    ]
    for name, steps, batch in itertools.product(("stagewise", "learned-ranked"), tried, BATCHES):
        entries.append(scale.search(model, name, size, steps=steps, batch_size=batch))
    return entries


def _affordable(scale: Scale) -> Scale:
    """Return the scale, with one mask seed at the small one because there are many settings."""
    return replace(scale, mask_seeds=FEW_SEEDS) if scale.name == SMALL.name else scale


def _steps(scale: Scale) -> tuple[int, ...]:
    """Return the numbers of steps to try; a quarter, a half and all of the user's number if one is given."""
    if scale.steps is None:
        return FEW_STEPS if scale.name == SMALL.name else STEPS
    return tuple(dict.fromkeys(max(1, scale.steps // part) for part in (4, 2, 1)))


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return sensitivity, one row per run and metric, on validation and test data; no setting is selected by either."""
    return {
        "sensitivity": sensitivity(results.runs()),
        "note": notes(
            "Test numbers of every setting that was tried; none was chosen by them.",
            *sentences(of_results(results)),
        ),
    }


def differs(scale: Scale) -> list[SettingRow]:
    """Return the searches whose constants are changed."""
    here = f"learned mask, learned-ranked and stagewise; {counted(len(_affordable(scale).mask_seeds), 'mask seed')}"
    paper = "learned mask: one rate (1e7), one bias (10), 100 steps"
    return [SettingRow(SEARCH, paper, here), sizes_row(scale, scale.sizes[:1])]


SENSITIVITY = Experiment(
    name="sensitivity",
    title="The constants of the searches",
    question="Do the published constants of the learned mask work elsewhere? And those of the other searches?",
    finding="Not in the paper, which gives one learning rate (1e7), one bias (10) and 100 steps.",
    entries=entries,
    tables=tables,
    makes=("sensitivity", "note"),
    published=(),
    differs=differs,
)
