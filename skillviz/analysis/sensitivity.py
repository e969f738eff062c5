"""The table `sensitivity`: the effect of a search's constants on its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.observations import TEST
from skillviz.analysis.tables import check
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import HEADLINE, metric_names
from skillviz.runs.run import Run


def sensitivity(runs: Sequence[Run]) -> pd.DataFrame:
    """One row per run and metric: its constants, its size, the graft's test metrics with intervals over examples."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        scores = run.record.metrics.get(TEST)
        if scores is None:
            continue
        metrics = dict(scores.states["grafted"]) | ({"recovered": scores.recovered} if scores.recovered else {})
        for metric in metric_names(run.record.metric, (*HEADLINE, "recovered")):
            if metric in metrics:
                estimate = {"debiased": None, **metrics[metric].model_dump()}
                rows.append({**_constants(run), "metric": metric, **estimate})
    return check(pd.DataFrame(rows), "sensitivity")


def _constants(run: Run) -> dict[str, Any]:
    spec = run.spec
    known = dict(spec.options)
    for name, given in (("steps", spec.steps), ("batch_size", spec.batch_size)):
        option = LOCALIZERS[spec.localizer].option(name)
        known |= {name: given} if given is not None else {name: known.get(name, option.default)} if option else {}
    return {
        "task": run.record.task_name, "localizer": spec.localizer, "lr": known.get("lr", np.nan),
        "steps": known.get("steps", np.nan), "bias": known.get("bias", np.nan),
        "batch_size": known.get("batch_size", np.nan), "seed": spec.seed, "size": float(run.record.size or 0),
        "share": run.record.share,
    }  # fmt: skip
