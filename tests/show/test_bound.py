"""Tests of the generalization bound of a run: its numbers come from the record, and what is not stored is said."""

from dataclasses import replace
from typing import Any

import pytest

from skillviz.core.bound import Variance
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.runs.record import Estimate, ModelNote, RunRecord
from skillviz.runs.store import Store
from skillviz.show import bound
from tests.core.by_hand import by_hand
from tests.fake_run import SMALL, fake_run

TERM = Variance(71, 10_646_784, 7795, bits=16)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    made = fake_run(Store(tmp_path_factory.mktemp("bound")), **SMALL).record
    task = made.task.model_copy(update={"counts": {"train": 7795}})
    half = ModelNote(source="ft", dtype="float16")
    return made.model_copy(update={"task": task, "finetuned": half, "size": 5, "gain": 1.0})


@pytest.mark.parametrize(
    ("changes", "bits", "is_fixed"),
    [
        ({}, 16, False), ({"gain": 2.0}, 32, False), ({"gain": {"key": 1.0}}, 32, False), 
        ({"finetuned": None}, 32, False),
        ({"localizer": "random"}, 16, True), ({"localizer": "biases"}, 16, True), ({"localizer": "dare"}, 32, False),
        ({"localizer": "random-matched"}, 16, False), ({"localizer": "unknown"}, 32, False),
    ],
)  # fmt: skip
def test_the_numbers_come_from_the_record(record: Any, changes: dict[str, Any], bits: int, is_fixed: bool) -> None:
    name = changes.pop("localizer", record.spec.localizer)
    changed = record.model_copy(update={"spec": record.spec.model_copy(update={"localizer": name}), **changes})
    assert bound.variance(changed) == Variance(5, record.architecture.d, 7795, bits, is_fixed)


@pytest.mark.parametrize("missing", [{"task": None}, {"size": None}, {"architecture": None}])
def test_a_run_without_region_or_examples_has_no_bound(record: Any, missing: dict[str, Any]) -> None:
    lacking = record.model_copy(update=missing)
    assert bound.variance(lacking) is None and bound.terms(lacking, "test").empty


def test_a_region_that_depends_on_data_or_values_is_not_fixed() -> None:
    assert {row.name for row in LOCALIZERS.values() if row.fixed} == {"random", "biases", "layers", "kinds"}


def told(term: Variance, *words: str) -> list[bool]:
    return [word in bound.finding(term) for word in words]


test_findings = by_hand(
    ("not vacuous", [True, False], told, TERM, "below the vacuous value 1", "is vacuous"),
    ("vacuous", [False, True], told, replace(TERM, size=73), "below the vacuous value 1", "is vacuous"),
    ("what it needs", [True] * 2, told, replace(TERM, size=10_646), "1,161,329 training examples", "71 parameters"),
    ("no size is enough", [False], told, replace(TERM, examples=8), "or a region of at most"),
)


def test_terms_that_are_not_stored_are_not_measured(record: Any) -> None:
    rows = bound.terms(record, "test").set_index("term")["ratio"]
    assert list(rows[rows == "not measured"].index) == [rows.index[4], rows.index[6]]
    assert rows.iloc[0] == f"{bound.variance(record).value:.2f}" and rows.iloc[5] == "0.00"


def test_the_difference_of_errors_has_the_opposite_sign_and_its_ends_exchanged(record: Any) -> None:
    scores = record.metrics["test"].model_copy(
        update={"differences": {"accuracy": Estimate(value=-0.05, low=-0.08, high=-0.02)}}
    )
    changed = record.model_copy(update={"metrics": {"test": scores}})
    needs = bound.terms(changed, "test")["needs"]
    assert "0.050 (0.020–0.080) on test" in needs.iloc[4]
    assert "No loss in [0, 1]" in bound.terms(record, "elsewhere")["needs"].iloc[4]


def test_the_figure_marks_this_run_on_its_line(record: Any) -> None:
    table = bound.by_size(record, "light").table
    run, full = (table[table["series"] == name].iloc[0] for name in ("run", "full"))
    assert run["value"] == bound.variance(record).value and full["share"] == 1
    assert (table[table["series"] == "learned"]["value"].diff().dropna() > 0).all()
    assert f"--region {record.run_id} --out models/again" in bound.commands(record)
