"""Tests of alt texts: they give readers who cannot see a figure its values."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from skillviz.core.formats import SPACE
from skillviz.show import alt, checkpoints, continual, interpolation, methods, studies, transfer
from tests.plots import frames, study_frames, task_frames, wise_frames


def test_the_comparison_is_read_out() -> None:
    states = pd.DataFrame({"state": ["grafted", "temperature"], "metric": ["accuracy", "nll"], "value": [0.801, 0.43]})
    said = alt.overview(states).replace(SPACE, " ")
    assert said == "Models side by side. grafted accuracy 80.1%; temperature-scaled NLL 0.430."
    of_text = pd.DataFrame({"state": ["grafted"] * 2, "metric": ["exact_match", "perplexity"], "value": [0.5, 8.25]})
    assert "grafted exact match 50.0%; grafted perplexity 8.25" in alt.overview(of_text).replace(SPACE, " ")


def test_the_search_is_told_by_its_ends() -> None:
    history = pd.DataFrame({"loss": [0.7, None, 0.4], "added": [1000, 20, 3], "removed": [0, 5, 2]})
    assert alt.history(history) == (
        "Training loss over 3 steps, from 0.700 to 0.400 nats; 1,023 entries were switched on, 7 off."
    )
    assert "no steps" in alt.history(history.iloc[:0])


def test_the_largest_cells_of_a_view_come_first() -> None:
    cells = pd.DataFrame(
        {
            "layer": [0, 1, pd.NA],
            "kind": ["value", "key", "other"],
            "density_ratio": [0.5, 3.0, 0.0],
            "movement_share": [0.0, 0, 0],
        }
    ).astype({"layer": "Int64"})
    said = alt.region_map(cells, "density").replace(SPACE, " ")
    assert said.endswith("densest: layer 1 key 3.0×, layer 0 value 0.50×.")
    assert alt.region_map(cells, "movement").endswith("nothing to show.")


def test_over_confidence_is_said_with_its_sign() -> None:
    bins = pd.DataFrame(
        {"state": "finetuned", "count": [10, 30], "confidence": [0.6, 0.99], "accuracy": [0.6, 0.89],
         "lower": [0.5, 0.9], "upper": [0.6, 1.0]}
    )  # fmt: skip
    assert "+7.5 points" in alt.reliability(bins)
    assert "fine-tuned: 75.0" in alt.histogram(bins)


def test_a_localizer_with_one_size_is_not_told_twice() -> None:
    points = pd.DataFrame(
        {"localizer": ["a", "b", "b"], "share": [0.001, 0.001, 0.01], "value": [0.8, 0.7, 0.75]}
    ).assign(settings="")
    said = alt.sparsity(points, "accuracy").replace(SPACE, " ")
    assert "a 80.0% at 0.1%;" in said and "b 70.0% at 0.1% and 75.0% at 1%." in said


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
    said = READ_OUT[name]()
    assert "7.0" in said and "8.3" not in said
