"""Invented frames of studies for the figures of methods and of the paper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from skillviz.core.localizers import table

SHARES = (0.001, 0.01, 0.1)
METHODS = {"graft": None, "graft_retrain": None, "bitfit": 0.004, "lora": 0.006, "ft": 1.0, "adamw": 1.0}


def points(several: int = 1) -> pd.DataFrame:
    """Return methods by touched parameters, each alone or at three sizes; the pre-trained model touches none."""
    rows = [("pretrained", 0.0)]
    for method, touched in METHODS.items():
        rows += [(method, touched)] if touched else [(method, share) for share in SHARES[:several]]
    made = []
    for number, (method, touched) in enumerate(rows):
        for metric, value in {"accuracy": 0.6 + 0.02 * number, "ece": 0.09 - 0.004 * number, "nll": 0.5}.items():
            told = {"method": method, "recipe": "", "label": "", "touched": touched, "metric": metric, "value": value}
            made.append({**told, "low": value - 0.02, "high": value + 0.02})
    return pd.DataFrame(made)


def board() -> pd.DataFrame:
    """Return eight searches' grafts at three sizes each, and the fine-tuned model."""
    many = [name for name, row in table.LOCALIZERS.items() if row.method != "graft"][:8]
    rows = [(table.LOCALIZERS[name].method, share) for name in many for share in SHARES] + [("ft", 1.0)]
    made = []
    for number, (method, touched) in enumerate(rows):
        value = 0.6 + 0.011 * number
        told = {"method": method, "recipe": "", "label": "", "touched": touched, "metric": "accuracy", "value": value}
        made.append({**told, "low": value - 0.02, "high": value + 0.02})
    return pd.DataFrame(made)


def differences() -> pd.DataFrame:
    """Return five methods minus the graft."""
    made = []
    for number, method in enumerate(m for m in METHODS if m != "graft"):
        for metric, value in {"accuracy": 0.01 * number - 0.02, "ece": 0.01 * number}.items():
            told = {"method": method, "metric": metric, "value": value}
            made.append({**told, "low": value - 0.015, "high": value + 0.015})
    return pd.DataFrame(made)


def claim() -> pd.DataFrame:
    """Return the comparisons of a claim: one of each verdict, and the means; the paper's mean has no interval."""
    rows = [("supports", 0.05), ("contradicts", -0.04), ("leaves open", 0.01), ("mean here", 0.007)]
    made = [
        {"where": f"task {number}", "value": value, "low": value - 0.02, "high": value + 0.02, "says": says}
        for number, (says, value) in enumerate(rows)
    ]
    made.append({"where": "no interval", "value": 0.03, "low": np.nan, "high": np.nan, "says": "not measured"})
    made.append({"where": "the paper", "value": 0.06, "low": np.nan, "high": np.nan, "says": "mean in the paper"})
    return pd.DataFrame(made).assign(debiased=np.nan)


def published() -> pd.DataFrame:
    """Return two methods on three tasks, published and measured; the last is not measured, one bracket is missing."""
    made = []
    for number, task in enumerate(("SST-2", "QNLI to MNLI (0/1)", "AGNews")):
        for method, source in (("ft", "here"), ("ft", "published"), ("graft", "here"), ("graft", "published")):
            if number == 2 and source == "here":
                continue
            value = 0.9 - 0.03 * number - (0.02 if method == "graft" else 0.0)
            half = 0.02 if source == "here" else np.nan if number == 1 else 0.004
            told = {"task": task, "method": method, "source": source, "value": value}
            made.append({**told, "low": value - half, "high": value + half})
    return pd.DataFrame(made)


def settings() -> pd.DataFrame:
    """Return a learned mask at three rates by steps and bias, and two searches of 3% by steps and batch."""
    made = []

    def add(search: str, lr: float, steps: float, bias: float, batch: float, share: float) -> None:
        told = {"localizer": search, "lr": lr, "steps": steps, "bias": bias, "batch_size": batch}
        accuracy = 0.6 + 0.2 * share**0.2
        made.append({**told, "metric": "size", "value": share, "low": share / 2, "high": share * 2})
        made.append({**told, "metric": "accuracy", "value": accuracy, "low": accuracy - 0.04, "high": accuracy + 0.04})

    for lr, steps, bias in product((1e6, 1e7, 1e8), (25.0, 100.0), (5.0, 10.0)):
        add("learned", lr, steps, bias, 64.0, 1e-5 * (lr / 1e6) * (steps / 25) * (10 / bias) ** 4)
    for search, steps, batch in product(("stagewise", "learned-ranked"), (25.0, 100.0), (32.0, 128.0)):
        add(search, np.nan, steps, np.nan, batch, 0.03)
    return pd.DataFrame(made)


def rivals() -> pd.DataFrame:
    """Return two grafts and three rivals by bytes."""
    names = {"entries 100": 1200, "entries 1000": 12_000, "signs": 13_000, "rank 1": 4000, "rank 8": 30_000}
    return pd.DataFrame(
        {"name": name, "kind": name.split()[0], "bytes": float(count), "value": value, "low": value - 0.02,
         "high": value + 0.02}
        for (name, count), value in zip(names.items(), (0.7, 0.82, 0.85, 0.78, 0.86), strict=True)
    )  # fmt: skip
