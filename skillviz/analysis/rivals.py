"""Rivals of a run's grafts at equal bytes, from stored predictions: scores by bytes, and paired differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.compressed import ENTRIES
from skillviz.core.intervals import metric_difference, metric_interval
from skillviz.core.metrics import metric_names
from skillviz.core.temperature import scaled
from skillviz.runs.metrics import positive
from skillviz.runs.part_scores import CHOSEN, ONE, PartScores
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix

LEVELS = ("pretrained", "finetuned")
NUMBERS = (
    "size", "share", "bytes", "gain", "fitted", "gain_low", "gain_high", "value", "debiased", "low", "high",
    "difference_value", "difference_debiased", "difference_low", "difference_high",
)  # fmt: skip
COLUMNS = ("name", "kind", "at", "metric", "nearest", *NUMBERS)


def rivals(run: Run, scores: PartScores) -> pd.DataFrame:
    """One row per rival or graft, gain (`at`: one, chosen) and metric, with COLUMNS; the base and fine-tuned model
    first.

    Each is scored after its own temperature scaling. Rivals at the chosen gain also have the paired difference to the
    graft that is `nearest` in bytes. `gain_high` is missing if it is not bounded.
    """
    task, facts, stored = run.record.task, scores.record.facts, scores.predictions()
    assert task is not None
    first = stored.drop_duplicates("example_id")
    ids, labels, sizes = first["example_id"], first["label"].to_numpy(), stored.groupby("kind")["size"].first()
    z: dict[tuple[str, str], np.ndarray] = {}
    for state in LEVELS:
        order, _, logits = run.logits(state, scores.record.split)
        z[state, CHOSEN] = logits[pd.Index(order).get_indexer(ids)]
    for (name, at), rows in stored.groupby(["kind", "condition"], sort=False):
        z[str(name), str(at)] = score_matrix(rows.set_index("example_id").loc[ids], run.labels)
    for (name, at), logits in z.items():
        temperature = facts[name].get("temperature_at_one" if at == ONE else "temperature", 1.0)
        z[name, at] = np.asarray(scaled(logits, temperature))
    grafts, table = [name for name in facts if name.startswith(ENTRIES)], list[dict[str, Any]]()
    for (name, at), logits in z.items():
        own, nearest = facts[name], ""
        if at == CHOSEN and name not in (*LEVELS, *grafts):
            nearest = min(grafts, key=lambda graft: abs(np.log(own["bytes"] / facts[graft]["bytes"])))
        about = {
            "name": name, "kind": name.split()[0], "size": sizes.get(name),
            "share": sizes.get(name, np.nan) / (run.record.d or np.nan), "at": at, "nearest": nearest,
            "gain_low": own.get("low"), "gain_high": own.get("high"),
            **{field: own.get(field) for field in ("bytes", "gain", "fitted")},
        }  # fmt: skip
        for metric in metric_names(run.record.metric):
            row = about | metric_interval(logits, labels, metric, positive(task))._asdict() | {"metric": metric}
            if nearest:
                less = metric_difference(logits, z[nearest, CHOSEN], labels, metric, positive(task))._asdict()
                row |= {f"difference_{field}": value for field, value in less.items()}
            table.append(row)
    return pd.DataFrame(table, columns=list(COLUMNS)).astype(dict.fromkeys(NUMBERS, "float64"))
