"""Invented tables of several tasks for figures: four tasks, two of them related, and three stages of learning."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.plots.tasks import PURIFIED, SINGLE, UNION_OF
from tests.studies import fake_tables

TASKS = fake_tables.TASKS
REAL = ("ag_news", "cr", "mnli", "mpqa", "mr", "mrpc", "qnli", "qqp", "rte", "snli", "sst2_sentences", "subj", "trec")
DEMO = (
    "film-sentiment", "film-subjectivity", "gadget-sentiment", "news-inference", "news-paraphrase", "news-topic",
    "question-paraphrase", "question-type", "scene-inference",
)  # fmt: skip


def overlap(tasks: tuple[str, ...] = TASKS) -> pd.DataFrame:
    return fake_tables.overlap(tasks, np.random.default_rng(0))


def harmful() -> pd.DataFrame:
    """Return gains, some of them below zero, and some above the multi-task model's."""
    frame = gain()
    for first, values in enumerate(((-0.127, -0.224, -0.103), (-0.05, -0.224, 0.123), (1.02, 0.97, 1.08))):
        frame.loc[frame.index[first::5], ["value", "low", "high"]] = values
    return frame


def gain() -> pd.DataFrame:
    return fake_tables.gain(TASKS, np.random.default_rng(1))


def stages() -> pd.DataFrame:
    return fake_tables.stages(TASKS, np.random.default_rng(2))


def stability() -> pd.DataFrame:
    """Return the stability at one size, from two sources."""
    chance = {"chance": 0.015, "chance_low": 0.01, "chance_high": 0.02}
    return pd.DataFrame(
        {"task": task, "source": source, "iou": value, "low": value - 0.05, "high": value + 0.05, **chance}
        for task in TASKS
        for source, value in (("mask seeds", 0.4), ("bootstrap", 0.6))
    )


def union() -> pd.DataFrame:
    """Return a union of the first two tasks, scored on every task; the last task's gain is undefined."""
    values = {UNION_OF: (0.8, 0.8, 0.2, np.nan), PURIFIED: (0.9, 0.9, 0.2, 0.2), SINGLE: (0.75,) * 4}
    rows = [{"task": t, "what": what, "value": of[n]} for n, t in enumerate(TASKS) for what, of in values.items()]
    return fake_tables.with_ends(rows, 0.1)
