"""A point between two models, on the pair's own examples or another task's: what a slider asks for off the grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.live.request import Answer, Asked
from skillviz.live.transfer import other_of, scoring_note
from skillviz.models.predict import predict
from skillviz.runs.points import bin_rows, metric_rows
from skillviz.runs.session import expanded
from skillviz.runs.transfer import LabelMap
from skillviz.runs.wise import on_path, wise_tables
from skillviz.tasks import registry
from skillviz.tasks.stamp import task_stamp


def wise(
    asked: Asked,
    path: str,
    alpha: float,
    region: Mapping[str, Any] | None = None,
    split: str = "test",
    sample: int | None = None,
    task: str | None = None,
    mapping: LabelMap | None = None,
) -> Answer:
    """Class scores at one point between two models: path wise-ft or wise-graft, alpha 0 (base) to 1.

    With `task` on that other task's test examples (see `transfer`). `metrics` and `bins` are what the stored grid
    has of a point: value, low and high by name, and count, correct and mean confidence by bin.
    """
    chosen = asked.region(region)
    encoded = asked.examples(split, sample) if task is None else other_of(asked, task, mapping, sample)[1]
    objective = asked.pair.objective(encoded)
    with on_path(asked.pair, path, float(alpha), chosen):
        logits = objective.logits()
    end = _finetuned(asked, encoded, (task, str(mapping), split, sample))
    rows = metric_rows([({}, logits)], encoded.labels, scoring_note(asked), end)
    return {
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "label_names": list(asked.task.labels),
        "size": chosen.size,
        "logits": logits,
        "metrics": {row.pop("metric"): row for row in rows},
        "bins": {name: column.to_numpy() for name, column in bin_rows([({}, logits)], encoded.labels).items()},
    }


def wise_grid(
    asked: Asked,
    region: Mapping[str, Any] | None = None,
    sample: int | None = None,
    task: str | None = None,
    mapping: LabelMap | None = None,
) -> Answer:
    """Both paths for one region on the test examples, as a run stores them: `rows` and `bins` as columns by name."""
    chosen = asked.region(region)
    other, encoded = (None, asked.examples("test", sample))
    if task is not None:
        other, encoded = other_of(asked, task, mapping, sample)
    name = asked.task.name if other is None else other.task.name
    grid, bins = wise_tables(asked.pair, {name: encoded}, {chosen.size: chosen}, scoring_note(asked))
    return {"dataset": name, "n": len(encoded), "rows": _columns(grid), "bins": _columns(bins)}


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """The columns as lists, None where a value is missing."""
    return {str(k): v for k, v in frame.astype(object).where(frame.notna(), None).to_dict("list").items()}


def _finetuned(asked: Asked, encoded: Encoded, which: tuple[Any, ...]) -> np.ndarray:
    """Logits of the fine-tuned model, remembered for the next point."""
    others = [] if which[0] is None else [registry.task(expanded(which[0], "task"))]
    stamps = [str(task_stamp(one)) for one in (asked.task, *others)]
    members = asked.pair.base_info.fingerprint, asked.pair.finetuned_info.fingerprint
    key = ("finetuned", asked.spec.json_text(), *members, *which, *stamps)
    return np.asarray(asked.worker.once(key, lambda: predict(asked.pair, encoded, "finetuned")))
