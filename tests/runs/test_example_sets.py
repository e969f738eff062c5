"""Tests of named sets of examples: stored beside the runs, renamed, deleted, refused, and as slices."""

from pathlib import Path

import pandas as pd
import pytest

from skillviz.errors import BadInput
from skillviz.runs.example_sets import MOST_EXAMPLES, MOST_SETS, ExampleSet, change_set, example_sets
from skillviz.runs.store import Store
from skillviz.show.slices import with_sets
from tests.refused import refuses

HARD = ExampleSet(name="hard", examples="digest", ids=("test-1", "test-3"))


def test_sets_are_stored_renamed_and_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert example_sets(store, "mr") == {}
    easy = HARD.model_copy(update={"name": "easy", "by_answers": True})
    for one in (HARD, easy):
        change_set(store, "mr", "", one)
    assert list(example_sets(store, "mr").items()) == [("easy", easy), ("hard", HARD)]
    change_set(store, "mr", "hard", HARD.model_copy(update={"name": "Hard.2"}))
    change_set(store, "mr", "easy", None)
    assert [(one.name, one.ids) for one in example_sets(store, "mr").values()] == [("Hard.2", HARD.ids)]
    assert example_sets(store, "../sst2") == {} and store.list() == []


@pytest.mark.parametrize(
    ("name", "ids"), [("", 1), ("a b", 1), ("<b>", 1), ("../x", 1), ("x" * 61, 1), ("hard", 1), ("many", MOST_EXAMPLES)]
)
def test_a_refused_set_changes_nothing(name: str, ids: int, tmp_path: Path) -> None:
    change_set(Store(tmp_path), "mr", "", HARD)
    wrong = HARD.model_copy(update={"name": name, "ids": ("test-1",) * ids})
    refuses(BadInput, str(MOST_SETS) if ids > 1 else "60 characters", change_set, Store(tmp_path), "mr", "", wrong)
    assert list(example_sets(Store(tmp_path), "mr").values()) == [HARD]


def test_slices_have_the_sets_of_their_data_that_no_answer_chose() -> None:
    columns = pd.DataFrame({"class": ["a", "b"]}, index=["test-1", "test-2"])
    others = ({"examples": "other"}, {"by_answers": True})
    sets = [HARD, *(HARD.model_copy(update={"name": "x", **other}) for other in others)]
    assert with_sets(columns, sets, "digest")["set hard"].tolist() == ["in it", "not in it"]
    assert len(with_sets(columns, sets, "digest").columns) == 2
