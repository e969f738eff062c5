"""Tests of the effect of a region's part, and of the sub-skills of its parts, from stored predictions."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.part_effects import COLUMNS, changed_predictions, part_effects
from skillviz.analysis.subskills import (
    RegionSubskills,
    by_label,
    expression_of,
    region_subskills,
    strongest_examples,
    subskill_numbers,
    with_subskills,
)
from skillviz.core.intervals import metric_difference
from skillviz.core.region_expression import region_of
from skillviz.core.region_parts import ALONE, CELLS, WITHOUT, RegionPart, parts_of
from skillviz.runs.part_scores import end_rows, part_rows
from skillviz.runs.record import TaskNote
from skillviz.show import subskills as shown
from tests.core.by_hand import by_hand, near
from tests.core.test_region_expression import TINY, drawn

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


@cache
def two_skills() -> RegionSubskills:
    found = region_subskills(predictions(), TASK)
    assert found is not None
    return found


def of_class(label: int) -> tuple[object, ...]:
    """Return what the sub-skill of every second part says of the classes and of its three strongest examples."""
    number = two_skills().parts["subskill"].iloc[label]
    first, most = by_label(two_skills(), number, NAMES).iloc[0], strongest_examples(two_skills(), number, 3)
    return first["label"], first["value"] > 0.95, most["label"].tolist(), most["change"].is_monotonic_decreasing


test_two_classes_are_two_subskills = by_hand(
    ("two beyond a random region", (2, True), lambda: (two_skills().found.count, two_skills().found.is_beyond_random)),
    ("the finding", True, lambda: "**2 sub-skills** beyond a random region's" in shown.finding(two_skills())),
    ("even and odd parts", (1, 1, 2), lambda: tuple(
        two_skills().parts["subskill"].iloc[start::step].nunique() for start, step in ((0, 2), (1, 2), (0, 1)))),
    *((f"the class of {name}", (name, True, [label] * 3, True), of_class, label) for label, name in enumerate(NAMES)),
    ("its table", [["4", "20"]] * 2,
     lambda: shown.table(two_skills(), NAMES)[["parts", "parameters"]].values.tolist()),
    ("its loadings", near([1, 1]), lambda: shown.loadings(two_skills()).groupby("subskill")["value"].sum().tolist()),
    ("stability of the region and each draw", 1 + DRAWS,
     lambda: len(shown.stability(two_skills())) / len(two_skills().found.counts)),
)  # fmt: skip


def test_a_table_has_the_numbers_of_the_subskills_and_each_part_s_own() -> None:
    found, effects = two_skills(), part_effects(predictions(), TASK, "nll")
    numbers = subskill_numbers(found).set_index(["metric", "subskill"])
    assert set(numbers["condition"]) == {"sub-skills"} and set(numbers["n"]) == {N} and len(numbers) == 2 + 2 * 2
    for name, intervals in (("share", found.found.shares), ("stability", found.found.stability)):
        assert numbers.loc[name, ["value", "low", "high"]].sort_index().values.tolist() == [
            list(one[:3]) for one in intervals
        ]
    assert numbers.loc["share", "size"].tolist() == [4 * 5] * 2
    lead, _ = (numbers.loc[name].iloc[0] for name in ("lead in stability", "explained"))
    assert lead["value"] - lead["control"] == pytest.approx(lead["excess"]) and lead["excess_low"] > 0
    merged = with_subskills(effects, found)
    assert len(merged) == len(effects) and (merged["subskill"] == 1 + found.parts["subskill"].iloc[0]).sum() == 8


def test_effects_are_rises_of_the_right_answers_and_falls_are_counted() -> None:
    found = two_skills()
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


EXAMPLES = 60


@pytest.fixture(scope="module")
def made() -> tuple[pd.DataFrame, dict, np.ndarray]:
    """Return the predictions of two parts, one of them without controls; the logits by name; and the labels."""
    generator = np.random.default_rng(0)
    labels, ids = generator.integers(0, 2, EXAMPLES), [f"test-{n}" for n in range(EXAMPLES)]
    known = {
        name: (generator.normal(size=(EXAMPLES, 2)) + skill * np.eye(2)[labels]).astype(np.float32)
        for name, skill in {
            "pretrained": 0, "grafted": 2, "a": 1.5, "a-": 1, "b": 0.2, "b-": 2, "a1": 0, "a2": 0.1, "a-1": 1.8,
            "a-2": 1.7,
        }.items()
    }  # fmt: skip
    value = {"a": (ALONE, 0), "a-": (WITHOUT, 0), "a1": (ALONE, 1), "a-1": (WITHOUT, 1), "a2": (ALONE, 2)}
    parts = (
        (RegionPart(0, "value", None, np.arange(5)), {**value, "a-2": (WITHOUT, 2)}),
        (RegionPart(None, "bias", None, np.arange(7)), {"b": (ALONE, 0), "b-": (WITHOUT, 0)}),
    )
    frames = [
        part_rows(part, list(scored.values()), np.stack([known[name] for name in scored]), ids, labels, NAMES)
        for part, scored in parts
    ]
    return pd.concat([end_rows(known, 12, ids, labels, NAMES), *frames], ignore_index=True), known, labels


def effect(effects: pd.DataFrame, kind: str, condition: str) -> pd.Series:
    """Return the only row of this part and condition."""
    (row,) = effects[(effects["kind"] == kind) & (effects["condition"] == condition)].index
    return effects.loc[row]


@pytest.mark.parametrize("metric", ["accuracy", "nll", "f1"])
@pytest.mark.parametrize(
    ("kind", "condition", "name", "end"),
    [("value", ALONE, "a", "pretrained"), ("value", WITHOUT, "a-", "grafted"), ("bias", ALONE, "b", "pretrained")],
)
def test_effects_are_paired_differences_to_base_and_graft(
    made, metric: str, kind: str, condition: str, name: str, end: str
) -> None:
    frame, known, labels = made
    effects = part_effects(frame, TASK, metric)
    assert tuple(effects.columns) == COLUMNS and len(effects) == 4
    row, wanted = effect(effects, kind, condition), metric_difference(known[name], known[end], labels, metric)
    assert (row["value"], row["low"], row["high"], row["n"]) == pytest.approx((*wanted[:3], EXAMPLES))
    assert (row["gained"], row["lost"]) == wanted[4:] if metric == "accuracy" else pd.isna(row["gained"])


def test_controls_are_averaged_and_missing_ones_stay_missing(made) -> None:
    frame, known, labels = made
    effects = part_effects(frame, TASK, "accuracy")
    row, other = effect(effects, "value", ALONE), effects[effects["kind"] == "bias"]
    right = {name: float((z.argmax(1) == labels).mean()) for name, z in known.items()}
    control = (right["a1"] + right["a2"]) / 2
    assert tuple(row[["draws", "size", "control", "excess"]]) == pytest.approx(
        (2, 5, control - right["pretrained"], right["a"] - control)
    )
    assert row["excess_low"] < row["excess"] < row["excess_high"]
    assert (other["draws"] == 0).all() and other[["control", "excess", "excess_low"]].isna().all(axis=None)


def test_examples_out_of_step_and_no_rows(made) -> None:
    frame, *_ = made
    with pytest.raises(ValueError, match="not scored on the same examples"):
        part_effects(pd.concat([frame.iloc[:EXAMPLES], frame.iloc[EXAMPLES:][::-1]]), TASK, "accuracy")
    assert part_effects(frame.iloc[:0], TASK, "accuracy").empty


@pytest.mark.parametrize(
    ("place", "condition", "graft", "end"),
    [((0, "value", None), ALONE, "a", "pretrained"), ((None, "bias", pd.NA), WITHOUT, "b-", "grafted")],
)
def test_the_predictions_that_a_part_turns(made, place: tuple, condition: str, graft: str, end: str) -> None:
    frame, known, labels = made
    turned = changed_predictions(frame, TASK, place, condition)
    before, after = (known[name].argmax(axis=1) for name in (end, graft))
    rows = turned.sort_index()[["example_id", "label", "before", "after"]].values.tolist()
    assert sorted(rows) == sorted(
        [[f"test-{n}", labels[n], before[n], after[n]] for n in np.flatnonzero(before != after)]
    )
    assert (turned["after"] == turned["label"]).is_monotonic_decreasing, "those set right come first"
