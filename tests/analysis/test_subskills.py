"""Tests of the sub-skills of stored predictions: effects by hand, and regions that divide the parts exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.part_effects import part_effects
from skillviz.analysis.subskills import (
    by_label,
    expression_of,
    region_subskills,
    strongest_examples,
    subskill_numbers,
    with_subskills,
)
from skillviz.core.region_expression import region_of
from skillviz.core.region_parts import ALONE, CELLS, WITHOUT, RegionPart, parts_of
from skillviz.runs.part_scores import end_rows, part_rows
from skillviz.runs.record import TaskNote
from skillviz.show import subskills as shown
from tests.core.test_region_parts import TINY, drawn

NAMES = ("negative", "positive")
TASK = TaskNote(name="sst2", labels=NAMES)
N, DRAWS = 40, 10
LABELS = np.arange(N) % 2


def predictions(parts: int = 8, draws: int = DRAWS, names: Sequence[str] = NAMES) -> pd.DataFrame:
    """Return predictions in which even parts help class 0 and odd ones class 1, and controls help at random."""
    random = np.random.default_rng(0)
    ids, still = [f"test-{n}" for n in range(N)], np.zeros((N, 2), dtype=np.float32)
    frames = [end_rows({"pretrained": still, "grafted": still + np.eye(2)[LABELS]}, 9, ids, LABELS, names)]
    for number in range(parts):
        helped = (number % 2 == LABELS) * random.uniform(0.5, 1, N)
        rises = [helped - 0.1 * (number % 2 != LABELS), *random.normal(0, 0.5, (draws, N))]
        logits = np.stack([rise[:, None] * np.eye(2)[LABELS] for rise in rises]).astype(np.float32)
        conditions = [(ALONE, draw) for draw in range(draws + 1)]
        part = RegionPart(number, "value", None, np.arange(5))
        frames += [part_rows(part, conditions, logits, ids, LABELS, names),
                   part_rows(part, [(WITHOUT, 0)], logits[:1], ids, LABELS, names)]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def test_two_classes_are_two_subskills() -> None:
    found = region_subskills(predictions(), TASK)
    assert found is not None and found.found.count == 2 and found.found.is_beyond_random
    assert "**2 sub-skills** beyond a random region's" in shown.finding(found)
    even, odd = (set(found.parts["subskill"].iloc[start::2]) for start in (0, 1))
    assert len(even) == len(odd) == 1 and even != odd
    for label, (number,) in enumerate((even, odd)):
        first, most = by_label(found, number, NAMES).iloc[0], strongest_examples(found, number, 3)
        assert first["label"] == NAMES[label] and first["value"] > 0.95
        assert most["label"].tolist() == [label] * 3 and most["change"].is_monotonic_decreasing
    assert shown.table(found, NAMES)[["parts", "parameters"]].values.tolist() == [["4", "20"]] * 2
    assert shown.loadings(found).groupby("subskill")["value"].sum().tolist() == pytest.approx([1, 1])
    assert len(shown.stability(found)) == (1 + DRAWS) * len(found.found.counts)


def test_a_table_has_the_numbers_of_the_subskills_and_each_part_s_own() -> None:
    frame = predictions()
    found, effects = region_subskills(frame, TASK), part_effects(frame, TASK, "nll")
    assert found is not None
    numbers = subskill_numbers(found).set_index(["metric", "subskill"])
    assert set(numbers["condition"]) == {"sub-skills"} and set(numbers["n"]) == {N} and len(numbers) == 2 + 2 * 2
    for name, intervals in (("share", found.found.shares), ("stability", found.found.stability)):
        told = numbers.loc[name, ["value", "low", "high"]].sort_index()
        assert told.values.tolist() == [list(intervals[number][:3]) for number in range(2)]
    assert numbers.loc["share", "size"].tolist() == [4 * 5] * 2
    lead, _ = (numbers.loc[name].iloc[0] for name in ("lead in stability", "explained"))
    assert lead["value"] - lead["control"] == pytest.approx(lead["excess"]) and lead["excess_low"] > 0
    merged = with_subskills(effects, found)
    assert len(merged) == len(effects) and (merged["subskill"] == 1 + found.parts["subskill"].iloc[0]).sum() == 8


def test_effects_are_rises_of_the_right_answers_and_falls_are_counted() -> None:
    found = region_subskills(predictions(), TASK)
    assert found is not None
    rows = predictions().query("condition == 'alone' and draw == 0").sort_values("layer", kind="stable")
    logits = rows[["logit_negative", "logit_positive"]].to_numpy(float).reshape(8, N, 2)
    right = logits[:, range(N), LABELS] - logits[:, range(N), 1 - LABELS]
    changes = np.log(1 / (1 + np.exp(-right))) - np.log(1 / 2)
    falls = -np.minimum(changes, 0).sum()
    assert found.lost == pytest.approx(falls / np.abs(changes).sum()) and 0.05 < found.lost < 0.5
    assert np.abs(found.found.uses @ found.found.loadings - np.maximum(changes, 0).T).mean() < 0.03


@pytest.mark.parametrize(("parts", "draws"), [(2, DRAWS), (8, 1), (8, 0)])
def test_too_few_parts_or_draws_are_not_measured(parts: int, draws: int) -> None:
    assert region_subskills(predictions(parts, draws), TASK) is None
    assert region_subskills(predictions().iloc[:0], TASK) is None


def test_noise_says_that_there_is_no_structure() -> None:
    frame = predictions()
    swapped = frame[frame["draw"] != 0].assign(draw=frame["draw"] - 1)
    found = region_subskills(pd.concat([frame[frame["condition"] == "pretrained"], swapped]), TASK)
    assert found is not None and f"**{shown.NO_STRUCTURE}**" in shown.finding(found)


@pytest.mark.parametrize("family", TINY)
def test_expressions_of_subskills_are_the_union_of_their_cells(family: str) -> None:
    table, region = drawn(family, 0, 0.2)
    parts = parts_of(region, table, CELLS)
    frame = pd.DataFrame([part.place for part in parts], columns=["layer", "kind", "head"]).astype({"layer": "Int64"})
    layers, is_odd = sorted({int(layer) for layer in frame["layer"].dropna()}), np.arange(len(parts)) % 2 == 1
    for chosen in filter(np.any, (~is_odd, is_odd, frame["layer"].isna().to_numpy())):
        found = region_of(expression_of("run", frame[chosen], layers), table, lambda run, size: region)
        wanted = np.sort(np.concatenate([part.entries for part, own in zip(parts, chosen, strict=True) if own]))
        assert np.array_equal(found.flat(), wanted)
