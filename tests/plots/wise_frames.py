"""Invented frames of the path between two models, and of several tasks; seeded, never read from a file."""

import numpy as np
import pandas as pd

from tests.studies.fake_tables import with_ends

INSIDE, OUTSIDE = "sst2_sentences", "yelp_reviews"
ENDS = {"wise-ft": {INSIDE: 0.86, OUTSIDE: 0.71}, "wise-graft": {INSIDE: 0.82, OUTSIDE: 0.76}}
START = {INSIDE: 0.63, OUTSIDE: 0.61}


def points(chosen: float = 0.35, points: int = 11) -> pd.DataFrame:
    """Return both paths on two data sets, accuracy and ECE, with extra rows for each chosen point."""
    places = [*((number / (points - 1), False) for number in range(points)), (chosen, True)]
    rows = [
        (path, None if path == "wise-ft" else 4000, alpha, dataset, "accuracy",
         START[dataset] + (end - START[dataset]) * alpha + 0.12 * alpha * (1 - alpha), current)
        for path, ends in ENDS.items() for dataset, end in ends.items() for alpha, current in places
    ]  # fmt: skip
    table = with_ends(pd.DataFrame(rows, columns=["path", "size", "alpha", "dataset", "metric", "value", "current"]))
    ece = table.assign(metric="ece", value=0.9 - table["value"], low=0.88 - table["value"], high=0.93 - table["value"])
    return pd.concat([table, ece], ignore_index=True)


def bins() -> pd.DataFrame:
    """Return histograms of the chosen point of both paths on both data sets; low bins are empty."""
    rng, parts = np.random.default_rng(5), []
    edges = np.arange(16) / 15
    for path, sharpness in (("wise-ft", 5.0), ("wise-graft", 1.4)):
        for dataset in (INSIDE, OUTSIDE):
            sure = 0.5 + 0.5 * rng.beta(sharpness, 1.2, 800)
            place = np.clip(np.ceil(sure * 15).astype(int) - 1, 0, 14)
            right = rng.random(800) < 0.5 + 0.7 * (sure - 0.5)
            parts.append(pd.DataFrame({
                "path": path, "dataset": dataset, "bin": np.arange(15), "lower": edges[:-1], "upper": edges[1:],
                "count": np.bincount(place, minlength=15), "correct": np.bincount(place[right], minlength=15),
            }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def tasks(count: int = 3) -> pd.DataFrame:
    """Return scores of four states on this many tasks."""
    rng, levels = np.random.default_rng(6), {"pretrained": 0.6, "grafted": 0.8, "finetuned": 0.82, "temperature": 0.82}
    rows = [
        {"dataset": f"task-{number}", "state": state, "metric": "accuracy",
         "value": level - 0.05 * number + rng.normal(0, 0.01)}
        for number in range(count) for state, level in levels.items()
    ]  # fmt: skip
    return with_ends(rows, 0.03)


def differences(count: int = 3) -> pd.DataFrame:
    """Return graft − fine-tuned on this many tasks; the first has no interval."""
    value = np.linspace(-0.03, 0.05, count)
    names, known = [f"task-{number}" for number in range(count)], np.where(np.arange(count) > 0, value, np.nan)
    return pd.DataFrame(
        {"dataset": names, "metric": "accuracy", "value": value, "low": known - 0.02, "high": known + 0.025}
    )
