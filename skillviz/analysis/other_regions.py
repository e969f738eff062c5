"""Other regions for a run, from stored predictions: the margin of their grafts over their controls."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd

from skillviz.core.nulls import SHUFFLED, beyond_null
from skillviz.runs.metrics import example_scores
from skillviz.runs.part_scores import DISJOINT, SEARCHED, PartScores
from skillviz.runs.run import Run
from skillviz.runs.tables import score_matrix

OWN = "own"
COLUMNS = (
    "kind", "number", "size", "measure", "score", "control", "draws", "beyond", "low", "high",
    "less", "less_low", "less_high",
)  # fmt: skip


def other_regions(run: Run, scores: PartScores) -> pd.DataFrame:
    """One row per region and measure, the run's own first, with COLUMNS; scores are means, higher is better.

    `beyond` is the graft's score minus the mean `control`: the nulls of the search for the run's own region and for
    disjoint ones, otherwise random sets of equal size. `less` is, for a disjoint region, its `beyond` minus the own
    region's, draw by draw; for other kinds, the graft's score minus the score of the whole region's graft. 95%
    intervals, paired by example, over draws and examples.
    """
    task, split = run.record.task, scores.record.split
    assert task is not None
    stored = scores.predictions().rename(columns={"head": "number"})
    ids = list(dict.fromkeys(stored["example_id"]))
    own, nulls = run.predictions(), run.nulls()
    own = own[(own["state"] == "grafted") & (own["split"] == split)]
    nulls = nulls[(nulls["split"] == split) & (nulls["null"] == SHUFFLED)] if len(nulls) else nulls
    drawn = [rows for _, rows in nulls.groupby("draw")] if len(nulls) else []
    table: list[dict[str, Any]] = []

    def scored(rows: pd.DataFrame, measure: str) -> np.ndarray:
        rows = rows.set_index("example_id").loc[ids]
        return np.asarray(example_scores(task)[measure](score_matrix(rows, run.labels), rows["label"].to_numpy()))

    for measure in example_scores(task):
        graft, own_nulls = scored(own, measure), np.array([scored(rows, measure) for rows in drawn])
        table.append(_row(OWN, 0, run.record.size or 0, measure, graft, own_nulls, None))
        for key, rows in stored.groupby(["kind", "number", "size"], sort=False):
            kind, number, size = cast("tuple[str, int, int]", key)
            is_own = rows["condition"] == SEARCHED
            other = scored(rows[is_own], measure)
            controls = np.array([scored(part, measure) for _, part in rows[~is_own].groupby("draw")])
            reference = (graft, own_nulls) if kind == DISJOINT else (graft, None)
            table.append(_row(kind, number, size, measure, other, controls, reference))
    return pd.DataFrame(table, columns=list(COLUMNS))


def _row(
    kind: str, number: int, size: int, measure: str, graft: np.ndarray, controls: np.ndarray,
    reference: tuple[np.ndarray, np.ndarray | None] | None,
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = dict.fromkeys(COLUMNS, np.nan)
    row |= {"kind": kind, "number": int(number), "size": int(size), "measure": measure, "score": graft.mean()}
    row |= {"draws": len(controls), "control": controls.mean() if len(controls) else np.nan}
    if len(controls):
        found = beyond_null(graft, controls)
        row |= {"beyond": found.value, "low": found.low, "high": found.high}
    if reference is None:
        return row
    own, nulls = reference
    if nulls is None:
        nulls, controls = np.zeros((1, len(own))), np.zeros((1, len(own)))
    if both := min(len(nulls), len(controls)):
        found = beyond_null(graft - own, controls[:both] - nulls[:both])
        row |= {"less": found.value, "less_low": found.low, "less_high": found.high}
    return row


def as_good(table: pd.DataFrame) -> list[int]:
    """The numbers of the disjoint regions that do as well: clearly beyond their null in every measure, and in none
    clearly less beyond it than the run's own region."""
    rows = table[table["kind"] == DISJOINT]
    good = (rows["low"] > 0) & ~(rows["less_high"] < 0) & rows["less"].notna()
    return [int(number) for number, of in good.groupby(rows["number"]) if of.all()]
