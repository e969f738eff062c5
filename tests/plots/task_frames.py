"""Made-up tables of several tasks for figures: four tasks, two of them kin, and three stages of learning."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.plots.tasks import PURIFIED, SINGLE, UNION_OF
from tests.studies import fake_tables

TASKS = fake_tables.TASKS


def overlap() -> pd.DataFrame:
    return fake_tables.overlap(TASKS, np.random.default_rng(0))


def gain() -> pd.DataFrame:
    return fake_tables.gain(TASKS, np.random.default_rng(1))


def stages() -> pd.DataFrame:
    return fake_tables.stages(TASKS, np.random.default_rng(2))


def stability() -> pd.DataFrame:
    """One size; two sources."""
    rows = [
        {"task": task, "source": source, "iou": value, "low": value - 0.05, "high": value + 0.05, "chance": 0.015}
        for task in TASKS
        for source, value in (("mask seeds", 0.4), ("bootstrap", 0.6))
    ]
    return pd.DataFrame(rows)


def union() -> pd.DataFrame:
    """A union of the first two, on every task; the last task's gain is not defined."""
    rows = []
    for number, task in enumerate(TASKS):
        inside = number < 2
        for what, value in ((UNION_OF, 0.8 if inside else 0.2), (PURIFIED, 0.9 if inside else 0.2), (SINGLE, 0.75)):
            defined = np.nan if number == 3 and what == UNION_OF else value
            rows.append({"task": task, "what": what, "value": defined, "low": value - 0.1, "high": value + 0.1})
    return pd.DataFrame(rows)
