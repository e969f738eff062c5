"""Invented frames of six runs, two localizers twice; seeded, never read from a file."""

import numpy as np
import pandas as pd

from skillviz.plots.compare import run_styles
from skillviz.plots.overlap import COLUMNS
from tests.plots import frames
from tests.studies.fake_tables import with_ends

RUNS = (
    ("stagewise, seed 0", "stagewise"),
    ("stagewise, seed 1", "stagewise"),
    ("stagewise, seed 2", "stagewise"),
    ("Frank-Wolfe, seed 0", "frank-wolfe"),
    ("top movement, seed 0", "movement"),
    ("random, seed 0", "random"),
)
STYLES = run_styles(RUNS)
KEYS = tuple(STYLES)


def scores() -> pd.DataFrame:
    """Return values of the six runs with intervals."""
    rng = np.random.default_rng(5)
    rows = [
        (key, metric, centre + rng.normal(0, half), half)
        for key in KEYS
        for metric, centre, half in (("accuracy", 0.8, 0.018), ("ece", 0.05, 0.012), ("nll", 0.43, 0.03))
    ]
    frame = pd.DataFrame(rows, columns=["run", "metric", "value", "half"])
    return with_ends(frame, frame["half"])


def differences() -> pd.DataFrame:
    """Return differences of five runs from the first."""
    table = scores()
    centre = table["metric"].map(table[table["run"] == KEYS[0]].set_index("metric")["value"])
    return table.assign(**{c: table[c] - centre for c in ("value", "low", "high")})[table["run"] != KEYS[0]]


def curve() -> pd.DataFrame:
    """Return curves of the six runs, by key."""
    table = frames.curve(seeds=1)
    return pd.concat([table[table["localizer"] == name].assign(localizer=key) for key, name in RUNS])


def reliability() -> pd.DataFrame:
    """Return reliability bins of the six runs."""
    states = ("finetuned", "grafted", "temperature", "pretrained", "complement")
    bins = frames.reliability(states)
    return pd.concat([bins[bins["state"] == s].assign(state=key) for key, s in zip(KEYS, states, strict=False)])


def shares() -> pd.DataFrame:
    """Return the overlap of every two runs, and its chance level."""
    rng = np.random.default_rng(6)
    rows = [(a, b, 1.0 if a == b else float(rng.uniform(0, 0.7)), 0.001, 0.0005, 0.002) for a in KEYS for b in KEYS]
    return pd.DataFrame(rows, columns=list(COLUMNS))
