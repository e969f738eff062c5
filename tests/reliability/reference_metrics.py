"""Store values of our metrics by other programs, with the programs' versions.

    python tests/reliability/reference_metrics.py

Needs scikit-learn, torchmetrics and netcal (in an environment of their own); the stored values need none of them.
scikit-learn raises probabilities below 2e-16 to that value, so its loss is stored only without such probabilities.
"""

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "reference_metrics.json"
BINS = 15
SMALLEST = 2.3e-16


def cases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return logits float64 [n, label] and labels [n] by name: random ones of many shapes, and the edges."""
    found = {}
    for number in range(24):
        draw = np.random.default_rng(number)
        n, classes = int(draw.integers(5, 400)), int(draw.integers(2, 8))
        logits = draw.normal(size=(n, classes)) * 10 ** draw.uniform(-1, 1.3)
        labels = np.where(draw.random(n) < draw.random(), logits.argmax(axis=1), draw.integers(0, classes, n))
        found[f"random {number}"] = (logits, labels.astype(np.int64))
    edges = np.arange(8, BINS) / BINS  # exactly on the edges of fifteen bins, with two classes above a half
    found["edges"] = (np.log(np.stack([edges, 1 - edges], axis=1)), np.array([0, 1, 0, 0, 1, 0, 1]))
    found["confidence 1"] = (np.array([[800.0, 0.0], [0.0, 800.0], [800.0, 0.0], [0.0, 800.0]]), np.array([0, 1, 0, 1]))
    found["empty bins"] = (np.array([[3.0, 0.0], [0.1, 0.0], [0.0, 0.1]]), np.array([0, 1, 1]))
    found["one class seen"] = (np.random.default_rng(9).normal(size=(40, 3)), np.zeros(40, dtype=np.int64))
    found["one example"] = (np.array([[0.3, -0.2, 0.1]]), np.array([2]))
    found["ties"] = (np.zeros((6, 3)), np.array([0, 1, 2, 0, 1, 2]))
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities, written from the formula."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def programs() -> dict[str, dict[str, Callable[[np.ndarray, np.ndarray], float]]]:
    """Return, by program and by the name of our metric, the other's function of probabilities and labels."""
    import torch
    from netcal.metrics import ECE
    from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, log_loss
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error

    def tensors(p: np.ndarray, y: np.ndarray) -> Any:
        return torch.from_numpy(p), torch.from_numpy(y)

    return {
        "scikit-learn": {
            "accuracy": lambda p, y: accuracy_score(y, p.argmax(axis=1)),
            "f1": lambda p, y: f1_score(y == 1, p.argmax(axis=1) == 1, zero_division=np.nan),
            "nll": lambda p, y: log_loss(y, p, labels=range(p.shape[1])) if p.min() > SMALLEST else np.nan,
            "brier": lambda p, y: brier_score_loss(y, p, labels=range(p.shape[1]), scale_by_half=False),
        },
        "torchmetrics": {
            "accuracy": lambda p, y: float(multiclass_accuracy(*tensors(p, y), p.shape[1], average="micro")),
            "ece": lambda p, y: float(multiclass_calibration_error(*tensors(p, y), p.shape[1], n_bins=BINS)),
        },
        "netcal": {"ece": lambda p, y: float(ECE(BINS).measure(p.max(axis=1), (p.argmax(axis=1) == y).astype(int)))},
    }


def main() -> None:
    """Write the values."""
    rows = []
    for program, metrics in programs().items():
        for metric, measured in metrics.items():
            for name, (logits, labels) in cases().items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = measured(softmax(logits), labels)
                if np.isfinite(value):
                    rows.append({"program": program, "metric": metric, "case": name, "value": float(value)})
    versions = {name: version(name) for name in programs()}
    FILE.write_text(json.dumps({"versions": versions, "values": rows}, indent=1) + "\n")
    sys.stdout.write(f"{len(rows)} values of {versions}\n")


if __name__ == "__main__":
    main()
