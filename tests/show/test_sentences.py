"""Tests of the computed sentences: numbers in bold, and no claim that its interval does not support."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.formats import SPACE
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.runs import held_out
from skillviz.runs.record import Architecture, Estimate, RunRecord, Scores, TaskNote
from skillviz.runs.spec import RunSpec
from skillviz.show import sentences


def record(metric: str = "accuracy") -> RunRecord:
    spec = RunSpec(base="a/base", finetuned="a/tuned", task="sst2")
    task = TaskNote(name="sst2", labels=("negative", "positive"), metric=metric)
    shape = Architecture(model_type="bert", known=True, d=10_646_784, layers=6)
    return RunRecord(
        run_id="x", spec=spec, key="k", status="finished", created="2026-01-01T00:00:00+00:00",
        task=task, architecture=shape, size=10_646, share=10_646 / 10_646_784,
    )  # fmt: skip


def estimate(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def scores(difference: Estimate, *, metric: str = "accuracy", recovered: Estimate | None = None) -> Scores:
    states = {
        "pretrained": {metric: estimate(0.632), "ece": estimate(0.073)},
        "grafted": {metric: estimate(0.801, 0.774, 0.826), "ece": estimate(0.054)},
        "finetuned": {metric: estimate(0.864), "ece": estimate(0.083)},
    }
    recovered = recovered or estimate(0.728, 0.65, 0.80)
    return Scores(n=900, states=states, differences={"ece": difference}, recovered=recovered)


BETTER, WORSE, UNSURE = estimate(-0.029, -0.051, -0.008), estimate(0.03, 0.01, 0.05), estimate(-0.02, -0.05, 0.01)


def test_the_overview_sentence_says_how_little_was_copied_and_what_it_brings_back() -> None:
    said = sentences.overview(record(), scores(BETTER)).replace(SPACE, " ")
    assert "**0.1%** of the graftable parameters (10,646 of 10,646,784)" in said
    assert "recover **73%** of the gain (95%: 65–80)" in said
    assert "accuracy 63.2% → 80.1%, fine-tuned 86.4%" in said
    assert "**Better calibrated**" in said and "ECE 5.4% vs 8.3%" in said
    assert "−2.9 points (95%: −5.1 to −0.8)" in said


def test_a_control_brings_nothing_back() -> None:
    own = record()
    control = own.model_copy(update={"spec": own.spec.model_copy(update={"localizer": "lottery"})})
    said = sentences.overview(control, scores(BETTER)).replace(SPACE, " ")
    assert said.startswith("A control: **0.1%**") and "**the rest is zero**" in said
    assert "Accuracy 80.1% (77.4–82.6); with all of them zero" in said and "63.2%" in said and "86.4%" in said
    assert "recover" not in said


def test_no_claim_without_an_interval_that_leaves_out_zero() -> None:
    said = sentences.overview(record(), scores(UNSURE))
    assert "no clear difference" in said and "n = 900" in said
    assert "etter calibrated" not in said and "orse calibrated" not in said
    assert "better" not in sentences.calibration(scores(estimate(-0.029)))


def test_a_worse_graft_is_called_worse() -> None:
    assert "**Worse calibrated**" in sentences.overview(record(), scores(WORSE))


def test_an_undefined_gain_is_not_made_up() -> None:
    said = sentences.overview(record(), scores(UNSURE, recovered=estimate(None)))
    assert "interval reaches 0" in said and "recover **" not in said and "no gain to recover" not in said


def test_f1_tasks_speak_of_f1() -> None:
    assert "F1 63.2" in sentences.overview(record("f1"), scores(UNSURE, metric="f1"))


@pytest.mark.parametrize(
    ("metric", "difference", "decided"),
    [
        ("ece", BETTER, "better"), ("ece", WORSE, "worse"), ("ece", UNSURE, NO_DIFFERENCE),
        ("accuracy", WORSE, "better"), ("accuracy", BETTER, "worse"), ("nll", BETTER, "better"),
        ("ece", None, NOT_MEASURED), ("ece", estimate(-0.1), NOT_MEASURED),
        ("ece", estimate(-0.02, -0.04, 0.0), NO_DIFFERENCE),
    ],
)  # fmt: skip
def test_verdicts(metric: str, difference: Estimate | None, decided: str) -> None:
    assert sentences.verdict(metric, difference) == decided


def test_calibration_errors_stand_with_their_bins_and_the_paired_difference() -> None:
    basis, plain = (sentences.ece_basis(20, equal_mass, 1821) for equal_mass in (True, False))
    assert "20 bins of equal mass on 1,821 examples" in basis
    assert "use equal width" in basis and "use equal width" not in plain
    said = sentences.ece_against("finetuned", {"grafted": 0.054, "finetuned": 0.083}, BETTER).replace(SPACE, " ")
    assert said.startswith("ECE **5.4%** for the graft, **8.3%** for the fine-tuned model: −")
    assert "below 0 is shown as 0" in plain and "below 0" not in basis


def kinds(selected: list[int], ratios: list[float]) -> pd.DataFrame:
    names = ["value", "MLP in", "LayerNorm"][: len(selected)]
    return pd.DataFrame({"kind": names, "selected": selected, "total": 1000, "density_ratio": ratios})


def test_the_region_sentence_names_the_largest_and_the_densest_kind() -> None:
    layers = pd.DataFrame({"layer": [0, 1, 2, 3], "share": [0.1, 0.3, 0.4, 0.2]})
    said = sentences.region(kinds([30, 60, 10], [1.5, 0.8, 4.0]), layers).replace(SPACE, " ")
    assert "The module with the most is **MLP in** (60%);" in said
    assert "the densest is **LayerNorm** (4.0× the average density)." in said
    assert "**Layers 1–2** hold 70% of the region." in said


def test_one_layer_that_holds_half_is_named_alone() -> None:
    layers = pd.DataFrame({"layer": [0, 1, 2], "share": [0.2, 0.6, 0.2]})
    assert "**Layer 1** holds 60" in sentences.region(kinds([1], [1.0]), layers)


def test_an_empty_region_says_so() -> None:
    layers = pd.DataFrame({"layer": [0], "share": [0.0]})
    assert sentences.region(kinds([0], [0.0]), layers) == "The region is empty: nothing was copied."


def points(rows: list[tuple[str, int, float, float, float]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["localizer", "size", "value", "low", "high"])
    return frame.assign(settings="", share=frame["size"] / 1e6, seeds=3)


def test_what_the_intervals_are_over_is_said() -> None:
    frame = points([("a", 1000, 0.8, 0.7, 0.9)])
    assert "up to 3 seeds" in sentences.sparsity_reads(frame, "accuracy")
    assert "one seed" in sentences.sparsity_reads(frame.assign(seeds=1), "accuracy")
    assert "at the debiased ECE" in sentences.sparsity_reads(frame.assign(debiased=0.02), "ece")
    assert "plug-in ECE, without intervals" in sentences.sparsity_reads(frame.assign(debiased=np.nan), "ece")
    assert "debiased" not in sentences.sparsity_reads(frame, "nll")


def test_the_library_counts() -> None:
    assert sentences.library(1, 1, 0) == "**1 run** on 1 task."
    assert sentences.library(70, 2, 3).endswith("on 2 tasks; 3 did not finish.")


def test_a_region_chosen_in_one_step_says_so_and_names_a_loss_only_where_there_was_one() -> None:
    assert "without looking at the loss" in sentences.one_step(record(), float("nan"))
    with_loss = sentences.one_step(record(), 0.6931)
    assert "**0.69** nats" in with_loss and "10,646" in with_loss.replace(SPACE, ",")


def test_an_interval_without_width_decides_nothing() -> None:
    assert sentences.verdict("ece", estimate(-0.3, -0.3, -0.3)) == NOT_MEASURED
    assert sentences.verdict("ece", estimate(0.0, 0.0, 0.0)) == NO_DIFFERENCE  # the same predictions twice


def test_the_temperature_or_why_there_is_none() -> None:
    fitted = record().model_copy(update={"temperature": 1.37})
    assert "temperature 1.37, fitted on validation data" in sentences.temperature(fitted)
    unfitted = record().model_copy(update={"temperature": None, "unfitted": held_out.AT_END})
    assert sentences.temperature(unfitted) == held_out.why_not(held_out.AT_END)
    none = record().model_copy(update={"temperature": None})
    assert "no validation predictions" in sentences.temperature(none)


def test_without_a_gain_it_is_said_and_worse_than_the_base_asks_for_the_labels() -> None:
    def scores(before: float, after: float) -> Scores:
        states = {"pretrained": {"accuracy": Estimate(value=before)}, "finetuned": {"accuracy": Estimate(value=after)}}
        return Scores(n=9, states=states)

    assert sentences.no_gain(scores(0.5, 0.5), "accuracy") == sentences.NO_GAIN
    assert "id2label" in sentences.no_gain(scores(0.5, 0.2), "accuracy")
    found = scores(0.5, 0.9).model_copy(update={"recovered": Estimate(value=0.8)})
    assert sentences.no_gain(found, "accuracy") == ""
