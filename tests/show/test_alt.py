"""Tests of alt texts: they give readers who cannot see a figure its values."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from skillviz.show import alt, checkpoints, continual, interpolation, methods, studies, transfer
from tests.plots import frames, study_frames, task_frames, wise_frames
from tests.tables import check, says

STATES = pd.DataFrame({"state": ["grafted", "temperature"], "metric": ["accuracy", "nll"], "value": [0.801, 0.43]})
OF_TEXT = pd.DataFrame({"state": ["grafted"] * 2, "metric": ["exact_match", "perplexity"], "value": [0.5, 8.25]})
HISTORY = pd.DataFrame({"loss": [0.7, None, 0.4], "added": [1000, 20, 3], "removed": [0, 5, 2]})
CELLS = pd.DataFrame(
    {"layer": pd.array([0, 1, None], dtype="Int64"), "kind": ["value", "key", "other"],
     "density_ratio": [0.5, 3.0, 0.0], "movement_share": 0.0}
)  # fmt: skip
BINS = pd.DataFrame(
    {"state": "finetuned", "count": [10, 30], "confidence": [0.6, 0.99], "accuracy": [0.6, 0.89],
     "lower": [0.5, 0.9], "upper": [0.6, 1.0]}
)  # fmt: skip
SIZES = pd.DataFrame(
    {"localizer": ["a", "b", "b"], "share": [0.001, 0.001, 0.01], "value": [0.8, 0.7, 0.75], "settings": ""}
)
test_figures_are_read_out = says({
    "models": (
        lambda: alt.overview(STATES),
        ("^Models side by side. grafted accuracy 80.1%; temperature-scaled NLL 0.430.$",),
    ),
    "generated texts": (
        lambda: alt.overview(OF_TEXT), ("grafted exact match 50.0%; grafted perplexity 8.25",),
    ),
    "a search by its ends": (
        lambda: alt.history(HISTORY),
        ("^Training loss over 3 steps, from 0.700 to 0.400 nats; 1,023 entries were switched on, 7 off.$",),
    ),
    "no search": (lambda: alt.history(HISTORY.iloc[:0]), ("no steps",)),
    "the largest cells first": (
        lambda: alt.region_map(CELLS, "density"), ("densest: layer 1 key 3.0×, layer 0 value 0.50×.$",),
    ),
    "no movement": (lambda: alt.region_map(CELLS, "movement"), ("nothing to show.$",)),
    "over-confidence with its sign": (lambda: alt.reliability(BINS), ("+7.5 points",)),
    "a histogram": (lambda: alt.histogram(BINS), ("fine-tuned: 75.0",)),
    "a localizer with one size, told once": (
        lambda: alt.sparsity(SIZES, "accuracy"), ("a 80.0% at 0.1%;", "b 70.0% at 0.1% and 75.0% at 1%."),
    ),
})  # fmt: skip


ERRORS = {"metric": "ece", "value": 0.083, "debiased": 0.07, "low": 0.06, "high": 0.08}
READ_OUT: dict[str, Callable[[], str]] = {
    "states": lambda: alt.overview(pd.DataFrame([{"state": "grafted", **ERRORS}])),
    "sizes": lambda: alt.sparsity(study_frames.points().assign(share=0.1, localizer="a", settings="", **ERRORS), "ece"),
    "other tasks": lambda: transfer.states_alt(pd.DataFrame([{"dataset": "mr", "state": "grafted", **ERRORS}]), "ece"),
    "methods": lambda: methods.touched_words(study_frames.points().assign(**ERRORS), "ece"),
    "method minus graft": lambda: methods.against_graft(
        study_frames.differences().assign(**ERRORS), "ece", "mr", 0.1, "light"
    ).alt,
    "settings": lambda: studies.settings(
        study_frames.settings().query("metric != 'size'").assign(task="mr", seed=0, share=0.1, **ERRORS),
        "mr", "ece", "light",
    ).alt,
    "checkpoints": lambda: checkpoints.panel(
        frames.checkpoints().query("metric == 'ece'").assign(**ERRORS), "sst2_sentences", "calibration", "light"
    ).alt,
    "paths": lambda: interpolation.paths_alt(wise_frames.points().query("metric == 'ece'").assign(**ERRORS), "ece"),
    "in and out of distribution": lambda: interpolation.trade_alt(
        wise_frames.points().query("metric == 'ece'").assign(**ERRORS), wise_frames.INSIDE, wise_frames.OUTSIDE, "ece"
    ),
    "stages": lambda: continual.stages(task_frames.stages().assign(**ERRORS), "ece", {}, "light").alt,
}  # fmt: skip


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", READ_OUT)
def test_a_calibration_error_is_read_out_without_its_bias(name: str) -> None:
    check(READ_OUT[name](), ("7.0",), ("8.3",))
