"""What a model state answered, in one order of the examples, read from stored predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from skillviz.core.temperature import scaled
from skillviz.runs.evaluate import SCALED
from skillviz.runs.tables import logit_columns


@dataclass(frozen=True)
class Answers:
    """Logits [n, label] of one state on examples in the order of their ids, and whether it answers as the fine-tuned
    model does [n] (grafts only). Equal `examples` are the same examples."""

    logits: np.ndarray
    labels: np.ndarray
    examples: str
    agrees: np.ndarray | None = None


def answers_of(frame: pd.DataFrame, split: str, labels: Sequence[str], temperature: float | None) -> dict[str, Answers]:
    """The answers by state, in the order of the example ids."""
    frame = frame[frame["split"] == split]
    found: dict[str, Answers] = {}
    for state, rows in frame.groupby("state", sort=False):
        rows = rows.sort_values("example_id", kind="stable")
        ids = "\n".join(rows["example_id"].astype(str)) + "\n" + ",".join(map(str, rows["label"]))
        logits = rows[logit_columns(labels)].to_numpy(dtype=np.float64)
        examples = hashlib.sha256(ids.encode()).hexdigest()
        found[str(state)] = Answers(logits, rows["label"].to_numpy(), examples)
    if "finetuned" in found:
        tuned = found["finetuned"]
        for state in ("grafted", "complement"):
            if state in found:
                same = found[state].logits.argmax(1) == tuned.logits.argmax(1)
                found[state] = replace(found[state], agrees=same.astype(np.float64))
        if temperature is not None:
            found[SCALED] = replace(tuned, logits=scaled(tuned.logits, temperature))
    return found
