"""Tests of the tables that pages compute from a run's own tables, and of runs whose grafts have a gain: numbers before
temperature scaling, and the distance that a graft moves."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.size_curve import by_size
from skillviz.core.intervals import metric_difference
from skillviz.core.localizers.table import OUTCOME_SIZED
from skillviz.core.metrics import ece
from skillviz.runs.metrics import estimate
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.runs.store import Store, shipped_root
from skillviz.show import beyond, gain, home, measures, sentences
from skillviz.show.briefs import DEFAULTS, setting_words
from skillviz.show.table_words import in_words
from tests.show.test_briefs import LARGE, brief
from tests.tables import equal

Logits = Callable[..., tuple[dict[str, np.ndarray], np.ndarray]]


@pytest.fixture
def logits(run: Run) -> Logits:
    """Return a function that reads the run's logits of these states, and the labels."""
    return partial(measures.state_logits, run.predictions(), run.record, "test")


def test_logits_of_a_state_agree_with_the_runs_own(run: Run, logits: Logits) -> None:
    found, labels = logits(("grafted", "finetuned"))
    names, own_labels, own = run.logits("grafted")
    assert np.array_equal(found["grafted"], own) and np.array_equal(labels, own_labels)
    backwards = dict(zip(names, reversed(names), strict=True))
    renamed = run.predictions().assign(example_id=lambda frame: frame["example_id"].replace(backwards))
    again, _ = measures.state_logits(renamed, run.record, "test", ("grafted",))
    assert np.array_equal(again["grafted"], own)  # same as stored, for any names of the examples


def test_the_temperature_scaled_model_is_the_finetuned_one_divided(run: Run, logits: Logits) -> None:
    found, labels = logits(("finetuned", "temperature"))
    assert np.allclose(found["temperature"] * run.record.temperature, found["finetuned"])
    stored = run.record.metrics["test"].states[measures.SCALED]["ece"].value
    assert ece(found["temperature"], labels) == pytest.approx(stored)


def test_the_paired_difference_agrees_with_the_one_stored(run: Run, logits: Logits) -> None:
    found, labels = logits(("grafted", "finetuned"))
    there, back = (
        estimate(metric_difference(found[one], found[other], labels, "ece"))
        for one, other in (("grafted", "finetuned"), ("finetuned", "grafted"))
    )
    assert there.model_dump() == pytest.approx(run.record.metrics["test"].differences["ece"].model_dump())
    assert there.low < there.value < there.high
    assert back.value == pytest.approx(-there.value), "a dropped sign would show here"


def test_reliability_bins_of_all_states_stand_under_each_other(logits: Logits) -> None:
    bins = measures.reliability_bins(*logits(("grafted", "finetuned")), 10, True)
    assert list(bins.groupby("state", sort=False)["count"].sum()) == [120, 120] and len(bins) == 20


def test_reference_lines_have_guesses_for_accuracy_only(run: Run) -> None:
    accuracy, loss, error = (measures.levels(run.record, "test", metric) for metric in ("accuracy", "nll", "ece"))
    assert accuracy["chance"] == 0.5 < accuracy["majority"] and "temperature" not in accuracy
    assert set(loss) == {"finetuned", "pretrained", "temperature"}
    stored = run.record.metrics["test"].states["finetuned"]["ece"]
    assert error["finetuned"] == stored.debiased != stored.value, "at the height of the marks it is compared with"
    spec = run.record.spec.model_copy(update={"localizer": "lottery"})
    control = measures.levels(run.record.model_copy(update={"spec": spec}), "test", "accuracy")
    assert set(accuracy) - set(control) == {"pretrained"}


def test_the_history_shown_is_the_main_sizes(run: Run) -> None:
    history = measures.history_of(run.history(), run.record.size)
    assert set(history["target"]) == {run.record.size}
    assert len(measures.history_of(history, 3)) == len(history), "one search is shown whatever its target"
    offered = measures.offered(run.curve(), run.record)
    assert offered[0] == "accuracy" and "nll" in offered and len(set(offered)) == len(offered), "the task's is first"


def curve(size: int, value: float, seed: int = 0) -> pd.DataFrame:
    row = {"localizer": "stagewise", "seed": seed, "size": size, "share": size / 1e6, "dataset": "sst2"}
    return pd.DataFrame([row | {"split": "test", "metric": "accuracy", "value": value, "low": 0.0, "high": 1.0}])


def test_runs_with_nondefault_settings_are_a_line_of_their_own() -> None:
    briefs = [brief("learned", 1), brief("learned", 2), brief("learned", 3, settings=LARGE)]
    curves = [curve(100, 0.7, seed).assign(localizer="learned") for seed in (1, 2, 3)]
    points = by_size(measures.pair_curve(briefs, curves, "test"), "accuracy")
    settings = measures.nondefault_settings(briefs)
    assert settings == list(points["settings"]) == ["", "", "batch size 1024"], "its size is an outcome: a row a run"


@pytest.mark.parametrize(
    ("changes", "told"),
    [({}, "repeat 2"), ({"created": "2026-03-01T10:00:00+00:00"}, "made 1 Mar 2026"), ({"size": 8}, "")],
)
def test_regions_by_hand_are_single_marks_whatever_their_expression(changes: dict, told: str) -> None:
    """Neither of two equal sizes is lost."""
    expressions = [DEFAULTS | {"options": json.dumps({"expression": {"layers": [i]}})} for i in (0, 1)]
    made = [brief("expression", 7, id=f"run-{i}", settings=tuple(one.items())) for i, one in enumerate(expressions)]
    assert measures.nondefault_settings([made[0], replace(made[1], **changes)]) == ["", told]
    assert "expression" in OUTCOME_SIZED


CELLS = pd.DataFrame(
    {"layer": [0, 0, 1], "kind": ["a", "b", "a"], "selected": [6, 0, 2], "total": [10, 20, 10],
     "share": [0.75, 0.0, 0.25]}
)  # fmt: skip


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    """Return the shipped runs that have a null: some with gains, some without."""
    stored = [run.record for run in Store(shipped_root()).list()]
    return [record for record in stored if record.null("test") and "ece" in record.metrics["test"].differences]


def test_calibration_and_nats_say_that_they_are_before_temperature_scaling(records: list[RunRecord]) -> None:
    assert {bool(record.gains) for record in records} == {True, False}
    for record in records:
        scores, judged = record.metrics["test"], beyond.judged(record, "test")
        line, copied, *numbers = (
            sentences.calibration_line(record, scores),
            *home.numbers(record, scores, "test", pd.DataFrame()),
        )
        assert line is not None and judged is not None
        error = next(one for one in numbers if one.title == "Calibration error")
        said = line[1], error.basis, judged.difference, sentences.overview(record, scores)
        assert ["before temperature scaling" in words for words in said] == [bool(record.gains)] * 4
        # Fine-tuned values are copied at gain 1 alone.
        told = "fine-tuned values" in home.sentence(record, scores), copied.title == "Parameters copied"
        assert told == (record.gain == 1,) * 2


def test_the_scaled_error_of_the_fine_tuned_model_says_at_which_gain(records: list[RunRecord]) -> None:
    for record in records:
        tuned = next((note for note in record.gains if note.of == "finetuned"), None)
        words = gain.scaled_errors(record, "test")
        assert (f"at its gain {tuned.gain:.1f}" in words) == (tuned.gain != 1) if tuned else words == ""


def test_a_region_by_hand_says_how_far_its_graft_moves(records: list[RunRecord]) -> None:
    record = next(record for record in records if record.gain != 1)
    own, main, by = {"run": record.run_id}, record.size or 0, f"{record.gain:.1f}"
    assert record.gain_of(own, main) == record.gain == record.gain_of({**own, "size": main}, main)
    assert f"**{by} times**" in gain.of_region(record, own, main) and f"{by} times" in gain.of_path(record, main)
    for expression, size in (({"layers": [0]}, main), ({**own, "size": main // 2}, main // 2)):
        words = gain.of_region(record, expression, size)
        assert record.gain_of(expression, size) == 1 and "gain 1," in words and by in words
    usual = next(record for record in records if not record.gains)
    assert (
        gain.of_path(record, main // 2),
        gain.of_path(usual, usual.size or 0),
        gain.of_region(usual, {"layers": [0]}, 5),
    ) == ("", "", "")


def test_a_file_of_the_gains_has_their_own_headings(records: list[RunRecord]) -> None:
    """In other tables, the heading "gain" means shares of fine-tuning's gain."""
    table = gain.table(next(record for record in records if record.gains), "test")
    assert in_words(table).headings == tuple(table.columns)


test_gains_in_words_sums_by_kind_and_layer_and_curves = equal({
    "a size that was searched for counts before one cut from a ranking": (
        lambda: measures.pair_curve(
            [brief(size=1000), brief(size=100)],
            [pd.concat([curve(100, 0.5), curve(1000, 0.8)]), curve(100, 0.7)], "test",
        )[["size", "value"]].sort_values("size").to_numpy().tolist(),
        [[100, 0.7], [1000, 0.8]],
    ),
    "no runs give an empty curve": (lambda: measures.pair_curve([], [], "test").empty, True),
    "splits are kept apart": (
        lambda: measures.pair_curve([brief()], [curve(1000, 0.8)], "validation").empty, True,
    ),
    **{f"gain {value}": (partial(setting_words, "gain", value), words) for value, words in (
        ('"fit"', "fitted gain"), ('"kinds"', "gain fitted by module kind"), ("1.0", "gain 1"), ("2.5", "gain 2.5"),
    )},
    "densities by kind": (
        lambda: measures.by_kind(CELLS).set_index("kind")["density_ratio"].to_dict(),
        {"a": pytest.approx((8 / 20) / (8 / 40)), "b": 0},
    ),
    "shares by layer": (lambda: measures.by_layer(CELLS)["share"].tolist(), [0.75, 0.25]),
})  # fmt: skip
