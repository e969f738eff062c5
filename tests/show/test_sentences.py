"""Tests of the computed sentences: numbers in bold, and no claim that its interval does not support."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.runs import held_out
from skillviz.runs.record import Architecture, Estimate, RunRecord, Scores, TaskNote
from skillviz.runs.spec import RunSpec
from skillviz.show import sentences
from tests.tables import says


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
LOTTERY = RunSpec(base="a/base", finetuned="a/tuned", task="sst2", localizer="lottery")


def with_temperature(**fields: object) -> str:
    return sentences.temperature(record().model_copy(update=fields))


test_what_is_said_of_a_run = says({
    "how little was copied and what it brings back": (
        lambda: sentences.overview(record(), scores(BETTER)),
        ("**0.1%** of the graftable parameters (10,646 of 10,646,784)", "recover **73%** of the gain (95%: 65–80)",
         "accuracy 63.2% → 80.1%, fine-tuned 86.4%", "**Better calibrated**", "ECE 5.4% vs 8.3%",
         "−2.9 points (95%: −5.1 to −0.8)"),
    ),
    "a control brings nothing back": (
        lambda: sentences.overview(record().model_copy(update={"spec": LOTTERY}), scores(BETTER)),
        ("^A control: **0.1%**", "**the rest is zero**", "Accuracy 80.1% (77.4–82.6); with all of them zero", "63.2%",
         "86.4%"),
        ("recover",),
    ),
    "no claim where the interval includes zero": (
        lambda: sentences.overview(record(), scores(UNSURE)),
        ("no clear difference", "n = 900"),
        ("etter calibrated", "orse calibrated"),
    ),
    "no claim without an interval": (lambda: sentences.calibration(scores(estimate(-0.029))), (), ("better",)),
    "a worse graft": (lambda: sentences.overview(record(), scores(WORSE)), ("**Worse calibrated**",)),
    "an undefined gain is not made up": (
        lambda: sentences.overview(record(), scores(UNSURE, recovered=estimate(None))),
        ("interval reaches 0",),
        ("recover **", "no gain to recover"),
    ),
    "F1": (lambda: sentences.overview(record("f1"), scores(UNSURE, metric="f1")), ("F1 63.2",)),
    "equal mass": (
        lambda: sentences.ece_basis(20, True, 1821),
        ("20 bins of equal mass on 1,821 examples", "use equal width"),
        ("below 0",),
    ),
    "equal width": (
        lambda: sentences.ece_basis(20, False, 1821), ("below 0 is shown as 0",), ("use equal width",),
    ),
    "two errors": (
        lambda: sentences.ece_against("finetuned", {"grafted": 0.054, "finetuned": 0.083}, BETTER),
        ("^ECE **5.4%** for the graft, **8.3%** for the fine-tuned model: −",),
    ),
    "one run": (lambda: sentences.library(1, 1, 0), ("^**1 run** on 1 task.$",)),
    "many runs": (lambda: sentences.library(70, 2, 3), ("on 2 tasks; 3 did not finish.$",)),
    "a region chosen in one step": (
        lambda: sentences.one_step(record(), float("nan")), ("without looking at the loss",),
    ),
    "a loss only where there was one": (
        lambda: sentences.one_step(record(), 0.6931), ("**0.69** nats", "10,646"),
    ),
    "a temperature": (
        lambda: with_temperature(temperature=1.37), ("temperature 1.37, fitted on validation data",),
    ),
    "a temperature at an end of its range": (
        lambda: with_temperature(temperature=None, unfitted=held_out.AT_END),
        (f"^{held_out.why_not(held_out.AT_END)}$",),
    ),
    "no temperature": (lambda: with_temperature(temperature=None), ("no validation predictions",)),
})  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "difference", "decided"),
    [
        ("ece", BETTER, "better"), ("ece", WORSE, "worse"), ("ece", UNSURE, NO_DIFFERENCE),
        ("accuracy", WORSE, "better"), ("accuracy", BETTER, "worse"), ("nll", BETTER, "better"),
        ("ece", None, NOT_MEASURED), ("ece", estimate(-0.1), NOT_MEASURED),
        ("ece", estimate(-0.02, -0.04, 0.0), NO_DIFFERENCE),
        ("ece", estimate(-0.3, -0.3, -0.3), NOT_MEASURED),  # an interval without width decides nothing
        ("ece", estimate(0.0, 0.0, 0.0), NO_DIFFERENCE),  # the same predictions twice
    ],
)  # fmt: skip
def test_verdicts(metric: str, difference: Estimate | None, decided: str) -> None:
    assert sentences.verdict(metric, difference) == decided


def region(selected: list[int], ratios: list[float], shares: list[float]) -> str:
    """Return the sentence on a region with so many entries by kind and such shares by layer."""
    names = ["value", "MLP in", "LayerNorm"][: len(selected)]
    kinds = pd.DataFrame({"kind": names, "selected": selected, "total": 1000, "density_ratio": ratios})
    return sentences.region(kinds, pd.DataFrame({"layer": range(len(shares)), "share": shares}))


def sparsity(metric: str, **columns: object) -> str:
    """Return what is read from a line of one size, of three seeds unless another number is given."""
    point = {"localizer": "a", "size": 1000, "value": 0.8, "low": 0.7, "high": 0.9, "settings": "", "share": 0.001}
    return sentences.sparsity_reads(pd.DataFrame([{**point, "seeds": 3, **columns}]), metric)


test_what_is_said_of_a_region_and_of_a_line = says({
    "the largest and the densest kind": (
        lambda: region([30, 60, 10], [1.5, 0.8, 4.0], [0.1, 0.3, 0.4, 0.2]),
        ("The module with the most is **MLP in** (60%);", "the densest is **LayerNorm** (4.0× the average density).",
         "**Layers 1–2** hold 70% of the region."),
    ),
    "one layer that holds half": (lambda: region([1], [1.0], [0.2, 0.6, 0.2]), ("**Layer 1** holds 60",)),
    "an empty region": (lambda: region([0], [0.0], [0.0]), ("^The region is empty: nothing was copied.$",)),
    "three seeds": (lambda: sparsity("accuracy"), ("up to 3 seeds",)),
    "one seed": (lambda: sparsity("accuracy", seeds=1), ("one seed",)),
    "a debiased error": (lambda: sparsity("ece", debiased=0.02), ("at the debiased ECE",)),
    "an error as it is": (lambda: sparsity("ece", debiased=np.nan), ("plug-in ECE, without intervals",)),
    "a loss": (lambda: sparsity("nll"), (), ("debiased",)),
})  # fmt: skip


@pytest.mark.parametrize(
    ("after", "share", "words"),
    [(0.5, None, f"^{re.escape(sentences.NO_GAIN)}$"), (0.2, None, "id2label"), (0.9, 0.8, "^$")],
)
def test_without_a_gain_it_is_said_and_worse_than_the_base_asks_for_the_labels(
    after: float, share: float | None, words: str
) -> None:
    states = {"pretrained": {"accuracy": estimate(0.5)}, "finetuned": {"accuracy": estimate(after)}}
    assert re.search(
        words, sentences.no_gain(Scores(n=9, states=states, recovered=share and estimate(share)), "accuracy")
    )
