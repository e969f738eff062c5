"""Search one example pair with many mask seeds, so that intervals over seeds are measured on real ones.

    python -m benchmarks mask-seeds

Each row of results/mask_seeds.csv is the graft of one search with a short budget. The parquet beside it has the same
rows with logits [example, label] of the test set, float32, and flat indices of the region in ascending order, int32.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.frame import RESULTS, Rows, measure
from benchmarks.localizer_beyond import example_spec, found_region, session_of
from skillviz.core.scores import correct
from skillviz.models.predict import predict
from skillviz.runs.plan import planned
from skillviz.runs.store import Library

PAIR, SIZE, MOST_TEST = "mr-sgd", "0.1%", 2000
METHODS = {"stagewise": {"steps": 12, "batch_size": 64}, "first-order": {"examples": 512}}
"""The localizers with their options; the first is the one whose mean over seeds is measured."""
SEEDS = range(16)
KEY = ["localizer", "seed"]
CSV, BY_SEED = RESULTS / "mask_seeds.csv", RESULTS / "mask_seeds.parquet"


def measured(localizer: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the row of one search."""
    session = session_of(PAIR)
    spec = example_spec(PAIR, localizer, METHODS[localizer], SIZE, seed=seed, max_test=MOST_TEST)
    plan, models, data = planned(spec, session, Library(())), session.pair(spec), session.encoded(spec)
    region = found_region(plan, models, data)
    logits = predict(models, data["test"], "grafted", region)
    yield {
        "localizer": localizer, "seed": seed, "accuracy": correct(logits, data["test"].labels).mean(),
        "logits": logits.tobytes(), "labels": data["test"].labels.astype(np.uint8).tobytes(),
        "region": region.flat().astype(np.int32).tobytes(),
    }  # fmt: skip


@cache
def stored() -> pd.DataFrame:
    """Return the stored rows."""
    return pd.read_parquet(BY_SEED)


def main() -> None:
    """Make the missing rows."""
    keys = (dict(zip(KEY, key, strict=True)) for key in product(METHODS, SEEDS))
    measure(Rows(CSV, KEY, BY_SEED), ((key, partial(measured, **key)) for key in keys))
