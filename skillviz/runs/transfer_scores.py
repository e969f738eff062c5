"""A run's states on the test sets of other tasks, and the WiSE grid on all: rows of its tables and of run.json."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.core.region import Region
from skillviz.models.predict import predict
from skillviz.runs.evaluate import scores
from skillviz.runs.passes import Heard
from skillviz.runs.points import grid_sizes
from skillviz.runs.record import TaskNote, TransferNote
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.tables import logit_columns
from skillviz.runs.wise import wise_tables

GRAFTS = ("grafted", "complement")


def scored_others(
    session: Session,
    spec: RunSpec,
    region: Region,
    task: TaskNote,
    temperature: float | None,
    heard: Heard,
) -> Iterator[tuple[TransferNote, pd.DataFrame]]:
    """Each other task's record and its rows of predictions.parquet, in the order of the spec.

    `heard` is called with each number of examples that went through the model, and what they were scored for.
    """
    pair, ends = session.pair(spec), session.other_ends(spec, task)
    if ends:
        heard(sum(2 * len(found.encoded) for found in ends.values()), "the two models on other tasks")
    for other in session.others(spec):
        found = ends[other.task.name]
        grafts = {state: predict(pair, found.encoded, state, region) for state in GRAFTS}
        heard(2 * len(found.encoded), f"the grafts, {other.task.name}")
        logits, labels = {**found.logits, **grafts}, found.encoded.labels
        scored = scores(logits, labels, task, temperature, found.metrics)
        note = other.note(pair.readout_name, labels, scored)
        yield note, prediction_rows(logits, found.encoded.ids, labels, other.task.name, "test", task.labels)


def grid_tables(
    session: Session,
    spec: RunSpec,
    task: TaskNote,
    test: Encoded,
    ranking: np.ndarray,
    sizes: tuple[int, ...],
    heard: Heard,
) -> dict[str, pd.DataFrame]:
    """The tables of the WiSE grid on the run's test set and the other tasks'; `sizes` with the main one first.

    A size's region is cut from the ranking, as live pages cut it, so that their points lie on the stored curves.
    `heard` as in `scored_others`.
    """
    pair = session.pair(spec)
    data = {task.name: test, **{name: ends.encoded for name, ends in session.other_ends(spec, task).items()}}
    regions = {size: Region.from_flat(ranking[:size], pair.table.shapes) for size in grid_sizes(sizes)}
    grid, bins = wise_tables(pair, data, regions, task, heard)
    return {"interpolation": grid, "interpolation_bins": bins}


def prediction_rows(
    logits: dict[str, np.ndarray], ids: list[str], labels: np.ndarray, dataset: str, split: str, names: tuple[str, ...]
) -> pd.DataFrame:
    """Rows of predictions.parquet: one a state and example."""
    frames = []
    for state, values in logits.items():
        frame = pd.DataFrame(values, columns=logit_columns(names))
        frames.append(frame.assign(example_id=ids, dataset=dataset, split=split, state=state, label=labels))
    return pd.concat(frames, ignore_index=True)
