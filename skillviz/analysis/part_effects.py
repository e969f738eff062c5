"""The effect of each part of a region: the change in a metric if it alone is grafted, and if it alone is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.intervals import paired_differences, whole_and_resampled
from skillviz.core.metrics import statistic
from skillviz.core.region_parts import ALONE, WITHOUT
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.runs.metrics import example_scores, positive
from skillviz.runs.part_scores import ENDS
from skillviz.runs.record import TaskNote
from skillviz.runs.tables import score_matrix

REFERENCE = dict(zip((ALONE, WITHOUT), ENDS, strict=True))
"""The model that a graft is compared with: the base if the part is alone, the whole graft if the part is left out."""
COLUMNS = (
    "layer", "kind", "head", "size", "condition", "n", "value", "low", "high", "gained", "lost",
    "control", "excess", "excess_low", "excess_high", "draws",
)  # fmt: skip
PLACE = ["layer", "kind", "head", "size", "condition"]


def part_effects(predictions: pd.DataFrame, task: TaskNote, metric: str) -> pd.DataFrame:
    """One row per part and condition, from the table PARTS of `runs.part_scores`.

    `value` is the metric of the graft less that of REFERENCE on the same examples, with its paired interval; of shares
    only `gained` examples are right in the graft alone, `lost` in REFERENCE alone.
    `control` is the mean of the same over the random controls, and `excess` is value - control with an interval over
    the draws and the examples; missing where no control could be drawn.
    """
    groups: list[tuple[Any, pd.DataFrame]] = list(predictions.groupby([*PLACE, "draw"], dropna=False, sort=False))
    if not groups:
        return pd.DataFrame(columns=list(COLUMNS))
    first = groups[0][1]
    labels, examples = first["label"].to_numpy(), first["example_id"].tolist()
    if any(rows["example_id"].tolist() != examples for _, rows in groups):
        raise ValueError("the parts were not scored on the same examples in the same order")
    scored = [score_matrix(rows, task.labels).astype(np.float64) for _, rows in groups]
    drawn = whole_and_resampled([statistic(metric, z, labels, positive(task)) for z in scored], len(labels))
    keys = [tuple(None if pd.isna(value) else value for value in key) for key, _ in groups]
    known, logits = dict(zip(keys, drawn, strict=True)), dict(zip(keys, scored, strict=True))
    ends = {key[4]: key for key in known if key[4] in ENDS}
    rows = []
    for condition, end in REFERENCE.items():
        reference = ends[end]
        parts = [key for key in known if key[4] == condition and not key[5]]
        less = paired_differences(
            logits[reference], [logits[key] for key in parts], labels, [metric], positive=positive(task)
        )
        for key, interval in zip(parts, less, strict=True):
            controls = [values for other, values in known.items() if other[:5] == key[:5] and other[5]]
            rows.append(
                {**dict(zip(PLACE, key, strict=False)), "n": len(labels), **interval[metric]._asdict(),
                 "control": _mean([control - known[reference][0] for control, _ in controls]), "draws": len(controls),
                 **excess(*known[key], controls)}
            )  # fmt: skip
    frame = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(("layer", "head", "gained", "lost"), "Int64"))


def changed_predictions(
    predictions: pd.DataFrame, task: TaskNote, place: tuple[float | None, str, float | None], condition: str
) -> pd.DataFrame:
    """The examples whose prediction a part changes: example_id, label, before, after; corrected ones first.

    `place` is the part's layer, kind and head; `before` is the class predicted by REFERENCE, `after` by the part's
    graft.
    """
    of_end, rows = _graft(predictions, place, condition)
    before, after = (score_matrix(one, task.labels).argmax(axis=1) for one in (of_end, rows))
    frame = rows[["example_id", "label"]].reset_index(drop=True).assign(before=before, after=after)
    turned = frame[frame["before"] != frame["after"]]
    order = (turned["after"] != turned["label"]).astype(int) + (turned["before"] == turned["label"])
    return turned.loc[order.sort_values(kind="stable").index].reset_index(drop=True)


def most_changed(
    predictions: pd.DataFrame, task: TaskNote, place: tuple[float | None, str, float | None], condition: str, most: int
) -> pd.DataFrame:
    """The `most` examples on which a part changes the log-probability of the right answer most, largest change first.

    example_id, label and `change`: the part's graft minus REFERENCE, in nats, on single examples.
    """
    before, after = (
        example_scores(task)["nll"](score_matrix(rows, task.labels), rows["label"].to_numpy())
        for rows in _graft(predictions, place, condition)
    )
    rows = predictions[predictions["condition"] == REFERENCE[condition]][["example_id", "label"]]
    frame = rows.reset_index(drop=True).assign(change=after - before)
    return frame.iloc[np.argsort(-frame["change"].abs().to_numpy(), kind="stable")[:most]].reset_index(drop=True)


def _graft(
    predictions: pd.DataFrame, place: tuple[float | None, str, float | None], condition: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of REFERENCE, and of the part's graft on the same examples."""
    rows = predictions[(predictions["condition"] == condition) & (predictions["draw"] == 0)]
    for name, value in zip(PLACE, place, strict=False):
        rows = rows[rows[name].isna() if value is None or pd.isna(value) else (rows[name] == value).fillna(False)]
    return predictions[predictions["condition"] == REFERENCE[condition]], rows


def excess(value: float, resampled: np.ndarray, controls: list[tuple[float, np.ndarray]]) -> dict[str, Any]:
    """The part minus its controls, with an interval over draws and examples together."""
    if not controls:
        return {"excess": np.nan, "excess_low": np.nan, "excess_high": np.nan}
    mean = np.mean([draws for _, draws in controls], axis=0)
    interval = seeds_and_examples([value - control for control, _ in controls], float((resampled - mean).std(ddof=1)))
    return {"excess": interval.value, "excess_low": interval.low, "excess_high": interval.high}


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
