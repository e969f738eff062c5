"""Invented frames of studies for the figures of methods and of the paper."""

from itertools import product

import numpy as np
import pandas as pd

from skillviz.core.localizers import table
from tests.studies.fake_tables import with_ends

SHARES = (0.001, 0.01, 0.1)
METHODS = {"graft": None, "graft_retrain": None, "bitfit": 0.004, "lora": 0.006, "ft": 1.0, "adamw": 1.0}


def points(several: int = 1) -> pd.DataFrame:
    """Return methods by touched parameters, each alone or at three sizes; the pre-trained model touches none."""
    rows = [
        ("pretrained", 0.0),
        *((m, s) for m, share in METHODS.items() for s in ([share] if share else SHARES[:several])),
    ]
    return with_ends(
        {"method": method, "recipe": "", "label": "", "touched": touched, "metric": metric, "value": value}
        for number, (method, touched) in enumerate(rows)
        for metric, value in {"accuracy": 0.6 + 0.02 * number, "ece": 0.09 - 0.004 * number, "nll": 0.5}.items()
    )


def board() -> pd.DataFrame:
    """Return eight searches' grafts at three sizes each, and the fine-tuned model."""
    many = [row.method for row in table.LOCALIZERS.values() if row.method != "graft"][:8]
    return with_ends(
        {"recipe": "", "label": "", "metric": "accuracy", "method": method, "touched": touched,
         "value": 0.6 + 0.011 * number}
        for number, (method, touched) in enumerate([*product(many, SHARES), ("ft", 1.0)])
    )  # fmt: skip


def differences() -> pd.DataFrame:
    """Return five methods minus the graft."""
    return with_ends(
        (
            {"method": method, "metric": metric, "value": value}
            for number, method in enumerate(m for m in METHODS if m != "graft")
            for metric, value in {"accuracy": 0.01 * number - 0.02, "ece": 0.01 * number}.items()
        ),
        0.015,
    )


def claim() -> pd.DataFrame:
    """Return the comparisons of a claim: one of each verdict, and the means; the paper's mean has no interval."""
    rows = [("task 0", "supports", 0.05, 0.02), ("task 1", "contradicts", -0.04, 0.02),
            ("task 2", "leaves open", 0.01, 0.02), ("task 3", "mean here", 0.007, 0.02),
            ("no interval", "not measured", 0.03, np.nan),
            ("the paper", "mean in the paper", 0.06, np.nan)]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["where", "says", "value", "half"])
    return with_ends(frame, frame["half"]).assign(debiased=np.nan)


def published() -> pd.DataFrame:
    """Return two methods on three tasks, published and measured; the last is not measured, one bracket is missing."""
    rows = product(enumerate(("SST-2", "QNLI to MNLI (0/1)", "AGNews")), ("ft", "graft"), ("here", "published"))
    frame = pd.DataFrame(
        {"task": task, "method": method, "source": source,
         "value": 0.9 - 0.03 * number - (0.02 if method == "graft" else 0.0),
         "half": 0.02 if source == "here" else np.nan if number == 1 else 0.004}
        for (number, task), method, source in rows
        if (number, source) != (2, "here")
    )  # fmt: skip
    return with_ends(frame, frame["half"])


def settings() -> pd.DataFrame:
    """Return a learned mask at three rates by steps and bias, and two searches of 3% by steps and batch."""
    rows = [("learned", lr, steps, bias, 64.0, 1e-5 * (lr / 1e6) * (steps / 25) * (10 / bias) ** 4)
            for lr, steps, bias in product((1e6, 1e7, 1e8), (25.0, 100.0), (5.0, 10.0))]  # fmt: skip
    told = product(("stagewise", "learned-ranked"), (25.0, 100.0), (32.0, 128.0))
    rows += [(search, np.nan, steps, np.nan, batch, 0.03) for search, steps, batch in told]
    searches = pd.DataFrame(rows, columns=["localizer", "lr", "steps", "bias", "batch_size", "value"])
    share, accuracy = searches["value"], 0.6 + 0.2 * searches["value"] ** 0.2
    return pd.concat([
        searches.assign(metric="size", low=share / 2, high=share * 2),
        searches.assign(metric="accuracy", value=accuracy, low=accuracy - 0.04, high=accuracy + 0.04),
    ]).sort_index(kind="stable", ignore_index=True)  # fmt: skip


def runs() -> pd.DataFrame:
    """Return a run of each localizer, the last one without a value."""
    names = list(table.LOCALIZERS)[:6]
    return pd.DataFrame({
        "run": [f"run-{name}" for name in names], "name": [f"MR · {name}" for name in names], "localizer": names,
        "x": [0.1 * 3**number for number in range(6)], "y": [60.0, 71, 75, 79, 80, np.nan],
    })  # fmt: skip


def rivals() -> pd.DataFrame:
    """Return two grafts and three rivals by bytes."""
    names = {"entries 100": 1200, "entries 1000": 12_000, "signs": 13_000, "rank 1": 4000, "rank 8": 30_000}
    return with_ends(
        {"name": name, "kind": name.split()[0], "bytes": float(count), "value": value}
        for (name, count), value in zip(names.items(), (0.7, 0.82, 0.85, 0.78, 0.86), strict=True)
    )
