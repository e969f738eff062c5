"""The sub-skills of a run's region, from the stored predictions of its parts grafted alone, and of their controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.parameters import BIAS
from skillviz.core.region_expression import checked_expression
from skillviz.core.region_parts import ALONE
from skillviz.core.subskills import COUNTS, Subskills, resampled_shares, subskills
from skillviz.runs.metrics import example_scores
from skillviz.runs.part_scores import ENDS
from skillviz.runs.record import TaskNote
from skillviz.runs.tables import score_matrix

PLACE = ["layer", "kind", "head", "size"]


@dataclass(frozen=True)
class RegionSubskills:
    """The sub-skills of a region, with the parts [part] and the examples [example] of their matrices.

    `parts` has layer, kind, head, size and `subskill`, the number from 0 of the sub-skill in which the part's fitted
    effect is largest. `examples` has example_id and label. `lost` is the share of all changes of the log-probability,
    in absolute value, that are falls and so set to 0; `controls_lost` is the mean of the same over the controls.
    """

    found: Subskills
    parts: pd.DataFrame
    examples: pd.DataFrame
    lost: float
    controls_lost: float


def region_subskills(predictions: pd.DataFrame, task: TaskNote, seed: int = 0) -> RegionSubskills | None:
    """Return the sub-skills of the parts in the table PARTS of `runs.part_scores`; None if they cannot be compared.

    An effect is the rise of the log-probability of the right answer, in nats, from the base to the part grafted alone;
    falls are set to 0. Parts without a control in every draw are left out. At least three other parts, two examples
    and two draws of controls are needed.
    """
    score = example_scores(task)["nll"]

    def scored(rows: pd.DataFrame) -> np.ndarray:
        return score(score_matrix(rows, task.labels), rows["label"].to_numpy())

    base = predictions[predictions["condition"] == ENDS[0]]
    alone = predictions[predictions["condition"] == ALONE]
    draws = int(alone["draw"].max()) + 1 if len(alone) else 0
    places: list[Any] = []
    reached: list[list[np.ndarray]] = []
    for place, of in alone.groupby(PLACE, dropna=False, sort=False):
        by_draw = [scored(rows) for _, rows in of.groupby("draw")]
        if len(by_draw) == draws:
            places.append(place)
            reached.append(by_draw)
    if draws < 3 or len(places) <= COUNTS[0] or len(base) < 2:
        return None
    # [draw, example, part], draw 0 being the parts themselves
    matrices = np.array(reached).transpose(1, 2, 0) - scored(base)[:, None]
    effects = np.maximum(matrices, 0)
    found = subskills(effects[0], effects[1:], seed)
    total = np.abs(matrices).sum(axis=(1, 2))
    fallen = np.divide(total - effects.sum(axis=(1, 2)), total, out=np.zeros(draws), where=total > 0)
    parts = pd.DataFrame(places, columns=PLACE).astype({"layer": "Int64", "head": "Int64"})
    fitted = found.uses.sum(axis=0)[:, None] * found.loadings
    return RegionSubskills(
        found, parts.assign(subskill=fitted.argmax(axis=0)), base[["example_id", "label"]].reset_index(drop=True),
        float(fallen[0]), float(fallen[1:].mean()),
    )  # fmt: skip


def by_label(of: RegionSubskills, number: int, labels: Sequence[str]) -> pd.DataFrame:
    """Return the share of each class in a sub-skill's uses, with its interval over examples, largest first."""
    classes = of.examples["label"].to_numpy()[:, None] == np.arange(len(labels))
    shares = resampled_shares(of.found.uses[:, [number]] * classes, of.found.weights)
    table = pd.DataFrame([(name, *one[:3]) for name, one in zip(labels, shares, strict=True)])
    return table.set_axis(["label", "value", "low", "high"], axis=1).sort_values("value", ascending=False)


def strongest_examples(of: RegionSubskills, number: int, most: int) -> pd.DataFrame:
    """Return the examples that a sub-skill helps most: example_id, label and `change`, in nats, largest first.

    `change` is the part of the fitted rise of the log-probability that is the sub-skill's.
    """
    table = of.examples.assign(change=of.found.uses[:, number] * of.found.loadings[number].sum())
    return table[table["change"] > 0].nlargest(most, "change", keep="first").reset_index(drop=True)


def expression_of(run_id: str, cells: pd.DataFrame, layers: Sequence[int]) -> dict[str, Any]:
    """Return the region expression of some cells of a run's region: layer and kind, or biases, in the run's region.

    `layers` are all layers of the model, which tell the cells outside the blocks from those inside.
    """
    grouped: dict[tuple[int | None, bool], list[str]] = {}
    for layer, kind in zip(cells["layer"], cells["kind"], strict=True):
        grouped.setdefault((None if pd.isna(layer) else int(layer), kind == BIAS), []).append(kind)
    union: list[Mapping[str, Any]] = []
    for (layer, is_bias), kinds in grouped.items():
        cell = {"biases": is_bias} | ({} if is_bias else {"kinds": kinds})
        inside = cell | {"layers": list(layers) if layer is None else [layer]}
        union.append({"difference": [cell, inside]} if layer is None else inside)
    return checked_expression({"intersection": [{"run": run_id}, {"union": union}]})
