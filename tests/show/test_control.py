"""Tests of a region's control: its choice, the examples used, and cases without a verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skillviz.runs.record import Estimate
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.runs.tables import logit_columns
from skillviz.show.control import beside_control, beside_finetuned, control_of, smallest_enough
from tests.fake_run import fake_run
from tests.show.test_entries import LARGE, entry
from tests.ui.shared_store import SMALL


def test_the_strictest_control_of_the_same_size_and_seed_is_taken() -> None:
    judged = entry(seed=1)
    rivals = [entry("movement"), entry("random", seed=0), entry("random", seed=1), entry("random", size=100)]
    assert control_of([judged, *rivals], judged) == rivals[2]
    matched = entry("random-matched")
    assert control_of([judged, *rivals, matched], judged) == matched
    assert control_of([judged, rivals[0]], judged) == rivals[0]


def test_a_control_is_compared_with_stricter_ones_alone() -> None:
    movement, random = entry("movement"), entry("random")
    assert control_of([movement, random], movement) == random and control_of([movement, random], random) is None


@pytest.mark.parametrize("other", [{"size": 999}, {"n": 50}, {"pair": ("x",)}])
def test_no_control_of_other_size_examples_or_models(other: dict) -> None:
    judged = entry()
    assert control_of([judged, entry("random", **other)], judged) is None


def test_a_control_at_other_settings_is_passed_over() -> None:
    judged, usual = entry(), entry("random", seed=3)
    variant = replace(entry("random"), id="variant", settings=LARGE)
    assert control_of([judged, variant, usual], judged) == usual


def test_the_smallest_region_with_most_of_the_gain_is_judged_and_else_its_own() -> None:
    sizes = [entry(size=size, recovered=gain) for size, gain in ((100, 0.5), (1000, 0.95), (10_000, 0.99))]
    assert smallest_enough(sizes, sizes[2]) == sizes[1]
    assert smallest_enough([*sizes, entry("random", 10, recovered=1.0)], sizes[0]) == sizes[1]
    assert smallest_enough(sizes[:1], sizes[0]) == sizes[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fake_run(Store(Path(tmp_path_factory.mktemp("runs"))), sizes=("1%",), **SMALL)


def test_the_difference_is_paired_and_has_the_sign_of_the_graft(run: Run) -> None:
    predictions, control = run.predictions(), entry("random")
    columns = list(logit_columns(run.labels))
    is_graft = predictions["state"] == "grafted"
    worse = predictions.copy()
    worse.loc[is_graft, columns] = worse.loc[is_graft, columns[::-1]].to_numpy()  # every answer is reversed
    judged = beside_control(run.record, predictions, control, worse, "test")
    assert judged is not None and judged.verdict == "better" and judged.difference.startswith("+")
    assert "random region" in judged.subject
    back = beside_control(run.record, worse, control, predictions, "test")
    assert back is not None and back.verdict == "worse" and back.difference.startswith("−")
    same = beside_control(run.record, predictions, control, predictions, "test")
    assert same is not None and same.verdict == "no clear difference"


def test_no_verdict_without_shared_examples(run: Run) -> None:
    predictions = run.predictions()
    others = predictions.assign(example_id="other-" + predictions["example_id"])
    assert beside_control(run.record, predictions, entry("random"), others, "test") is None


def test_beside_the_fine_tuned_model_the_stored_difference_decides(run: Run) -> None:
    scores = run.record.metrics["test"]
    for low, high, verdict in ((-0.03, -0.01, "worse"), (-0.03, 0.01, "no clear difference"), (0.01, 0.03, "better")):
        stored = scores.model_copy(update={"differences": {"accuracy": Estimate(value=0.0, low=low, high=high)}})
        judged = beside_finetuned(run.record, stored)
        assert judged is not None and judged.verdict == verdict
    sized = beside_finetuned(run.record, stored, names_size=True)
    assert sized is not None and "at 0.99%" in sized.subject.replace("\N{NO-BREAK SPACE}", " ")
    assert beside_finetuned(run.record, scores.model_copy(update={"differences": {}})) is None
