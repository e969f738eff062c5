"""Tests of the examples that each part changes, of their random controls, and of the linked map's data."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.part_effects import PartMarks, most_marked, part_marks
from skillviz.core.region_parts import ALONE, CELLS, WITHOUT, RegionPart
from skillviz.runs.part_scores import end_rows, part_rows
from skillviz.runs.record import TaskNote
from skillviz.show import part_effects as shown
from tests.core.by_hand import by_hand, near
from tests.reference.part_marks import slow_marks

NAMES = ("negative", "positive")
TASK = TaskNote(name="sst2", labels=NAMES)


def frame(before: np.ndarray, parts: np.ndarray, labels: np.ndarray, condition: str = ALONE) -> pd.DataFrame:
    """Return the table PARTS for logits [n, label] of both ends and [part, draw, n, label] of one part a layer."""
    ids = [f"test-{number}" for number in range(len(labels))]
    rows = [end_rows({"pretrained": before, "grafted": before}, 9, ids, labels, NAMES)]
    for number, logits in enumerate(parts):
        part = RegionPart(number, "value", None, np.arange(5))
        rows.append(part_rows(part, [(condition, draw) for draw in range(len(logits))], logits, ids, labels, NAMES))
    return pd.concat(rows, ignore_index=True)


ODDS = np.log(3)  # a probability of 3/4 beside a logit of 0


@cache
def four() -> PartMarks:
    """Return four examples at even odds: a part turns the second and helps the first, its two controls turn one and
    none; another part changes nothing, and its controls turn all."""
    still, labels = np.zeros((4, 2), dtype=np.float32), np.array([0, 1, 0, 1])
    parts = np.zeros((2, 3, 4, 2), dtype=np.float32)
    parts[0, 0, 0, 0] = parts[0, 0, 1, 1] = parts[0, 1, 3, 1] = ODDS
    parts[1, 1:, :, 1] = ODDS
    return part_marks(frame(still, parts, labels), TASK, ALONE, 0.01)


def data(texts: dict[str, str] | None = None) -> dict:
    made = shown.linked_map(four(), ALONE, CELLS, NAMES, texts or {}, "light")[1]
    assert json.loads(json.dumps(made)) == made
    return made


test_marks_by_hand = by_hand(
    ("changes", near([0.25, 0.25, 0, 0]), lambda: four().changes[0].tolist()),
    ("answers", [0, 1, 0, 0], lambda: four().answers[0].tolist()),
    ("marked", [[True, True, False, False], [False] * 4], lambda: four().marked.tolist()),
    ("counts", [[2, 1, 0.5, 2], [0, 0, 4, 2]],
     lambda: four().parts[["changed", "answers", "control", "seeds"]].values.tolist()),
    ("shares above the controls'", near([0.375, -1]), lambda: four().parts["value"].tolist()),
    ("all against none has a width", True, lambda: bool(four().parts["low"][1] == -1 < four().parts["high"][1] < 0)),
    ("an interval that holds zero", True, lambda: bool(four().parts["low"][0] < 0 < four().parts["high"][0])),
    ("turned first, unchanged never", [1, 0], lambda: most_marked(four(), 9).tolist()),
    ("at most one", [1], lambda: most_marked(four(), 1).tolist()),
    ("the marks of a part, by place in the list", {"0": ["+25.0", 1, "positive"], "1": ["+25.0", 1, ""]},
     lambda: data()["parts"][0]["marks"]),
    ("no marks", {}, lambda: data()["parts"][1]["marks"]),
    ("without texts, their ids", ["test-1", "test-0"], lambda: [one["text"] for one in data()["sentences"]]),
    ("a text as it is, on one line", "<b>a</b> b", lambda: data({"test-1": "<b>a</b>\nb"})["sentences"][0]["text"]),
)  # fmt: skip


@pytest.mark.parametrize("condition", [ALONE, WITHOUT])
@pytest.mark.parametrize(("n", "draws", "least"), [(1, 1, 0.05), (7, 0, 0.1), (30, 3, 0.01), (30, 2, 0.3)])
def test_marks_equal_the_slow_twin(n: int, draws: int, least: float, condition: str) -> None:
    random = np.random.default_rng(n + draws)
    before, labels = random.normal(size=(n, 2)).astype(np.float32), random.integers(0, 2, n)
    logits = (before + random.normal(0, 0.3, (3, 1 + draws, n, 2))).astype(np.float32)
    marks = part_marks(frame(before, logits, labels, condition), TASK, condition, least)
    for part in range(3):
        twin = slow_marks(before.tolist(), logits[part].tolist(), labels.tolist(), least)
        row = marks.parts.iloc[part]
        assert (marks.changes[part].tolist(), marks.marked[part].tolist()) == (near(twin[0]), twin[1])
        assert [row["control"], row["value"]] == near(twin[2:])
        assert np.isnan(row["low"]) == (draws == 0) and not row["low"] > row["value"]
        wrong = slow_marks(before.tolist(), logits[part].tolist(), (1 - labels).tolist(), least)
        assert wrong[0] != near(twin[0])  # a flipped label would be caught


def test_parts_scored_on_other_examples_are_refused() -> None:
    rows = frame(np.zeros((2, 2)), np.zeros((1, 1, 2, 2)), np.array([0, 1]))
    with pytest.raises(ValueError, match="same examples"):
        part_marks(rows.drop(index=len(rows) - 1), TASK, ALONE, 0.01)


@pytest.mark.parametrize(("draws", "says"), [(0, "not measured"), (3, "no clear difference among 2")])
def test_a_part_is_beside_its_controls(draws: int, says: str) -> None:
    still, labels = np.zeros((40, 2), dtype=np.float32), np.arange(40) % 2
    same = np.zeros((2, 1 + draws, 40, 2), dtype=np.float32)
    same[..., :20, 1] = ODDS  # a part that does what its controls do
    marks = part_marks(frame(still, same, labels), TASK, ALONE, 0.01)
    _, made = shown.linked_map(marks, ALONE, CELLS, NAMES, {}, "dark")
    assert says in made["parts"][0]["says"] and not made["parts"][0]["bold"]
    assert ("not measured" in made["finding"]) == (draws == 0)


def test_very_many_parts_list_fewer_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "FEWEST", 1)
    monkeypatch.setattr(shown, "MOST_MARKS", 3)
    assert (len(data()["sentences"]), data()["listed"]) == (1, "1 of 4 sentences, changed most first")
    assert data()["parts"][0]["marks"] == {"0": ["+25.0", 1, "positive"]}
