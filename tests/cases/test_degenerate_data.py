"""Tests of degenerate data: an unsupported metric is not measured, and data of a single class get a note."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.api import finetune
from skillviz.core.confusion import class_results
from skillviz.core.intervals import bootstrap, metric_difference, metric_interval, recovered_gain
from skillviz.core.metrics import score
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.figure import span
from skillviz.plots.overview import state_comparison
from skillviz.runs.metrics import metrics, split_scores
from skillviz.runs.record import TaskNote
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.transfer import other_examples
from skillviz.show import sentences
from skillviz.tasks import registry
from skillviz.tasks.splits import class_notes, load
from tests.cases.build import bert, evaluated, fit, saved, task_file, tiny_rows
from tests.tiny import tiny_pair, tiny_tokenizer

F1 = TaskNote(name="t", labels=("no", "yes"), metric="f1", positive=1)


def said(*classes: int, sure: float = 2.0) -> np.ndarray:
    """Return logits that predict these classes, out of two."""
    return sure * np.eye(2)[list(classes)]


@pytest.mark.parametrize(
    ("predicted", "labels"),
    [
        ((1, 1, 1, 1), (1, 1, 1, 1)),  # only positives, all found: 100% by the formula
        ((1, 0, 1, 1), (1, 1, 1, 1)),  # only positives
        ((0, 1, 0, 0), (0, 0, 0, 0)),  # no positive: 0% by the formula
        ((0, 0, 0, 0), (0, 0, 0, 0)),  # no positive, none predicted: 0 / 0
        ((1,), (1,)),
    ],
)
def test_f1_of_one_class_is_not_measured(predicted: tuple[int, ...], labels: tuple[int, ...]) -> None:
    z, y = said(*predicted), np.array(labels)
    assert math.isnan(score(z, y, "f1", 1)["f1"])
    assert all(math.isnan(end) for end in metric_interval(z, y, "f1"))
    row = metrics(z, y, F1)["f1"]
    assert row.value is None and row.low is None and row.high is None
    assert row.columns() == {"value": None, "debiased": None, "low": None, "high": None}


def test_f1_of_two_classes_is_what_it_was() -> None:
    z, y = said(1, 1, 0, 0), np.array([1, 0, 1, 0])
    assert score(z, y, "f1", 1)["f1"] == 0.5 and score(said(0, 0, 0, 0), y, "f1", 1)["f1"] == 0.0
    assert score(said(1, 0, 1, 0), y, "f1", 1)["f1"] == 1.0


def test_a_difference_and_a_gain_in_it_are_not_measured_either() -> None:
    y = np.ones(30, dtype=int)
    logits = {"pretrained": said(*[0] * 30), "finetuned": said(*[1] * 30), "grafted": said(*[1, 0] * 15)}
    found = split_scores(logits, y, F1)
    assert found.differences["f1"].value is None and found.recovered is not None and found.recovered.value is None
    assert sentences.verdict("f1", found.differences["f1"]) == NOT_MEASURED
    said_of_gain = sentences.no_gain(found, "f1")
    assert NOT_MEASURED in said_of_gain and sentences.NO_GAIN not in said_of_gain
    assert found.states["finetuned"]["accuracy"].value == 1.0  # supported metrics are kept


def test_classes_that_no_example_has_or_every_one_has_have_no_f1() -> None:
    found = class_results({"grafted": said(1, 1, 0)}, np.array([1, 1, 1]), resamples=20)
    f1 = found[found["metric"] == "f1"]
    assert f1[["value", "low", "high"]].isna().all(axis=None) and len(f1) == 2
    assert found[(found["metric"] == "recall") & (found["class"] == 1)]["value"].item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("metric", ["nll", "brier"])
def test_one_example_has_a_value_and_no_interval(metric: str) -> None:
    one, other, y = said(1), said(1, sure=1.0), np.array([1])
    found = metric_interval(one, y, metric)
    assert found.value > 0 and math.isnan(found.low) and math.isnan(found.high)
    less = metric_difference(one, other, y, metric)
    assert less.value < 0 and math.isnan(less.low) and math.isnan(less.high)
    assert metric_difference(one, one, y, metric)[:3] == (0.0, 0.0, 0.0)  # a model does not differ from itself


def test_resamples_without_spread_give_no_interval() -> None:
    y = np.array([0, 1] * 20)
    perfect = bootstrap(said(*y), y, "f1", resamples=50)
    assert perfect.value == 1.0 and math.isnan(perfect.low) and math.isnan(perfect.high)
    some = bootstrap(said(*y[:-1], 0), y, "f1", resamples=200)
    assert some.low < some.value <= some.high


def test_the_same_model_has_all_of_the_gain_and_another_needs_examples() -> None:
    y = np.array([0, 1] * 20)
    base, tuned = said(*[0] * 40), said(*y)
    assert recovered_gain(tuned, base, tuned, y)[:3] == (1.0, 1.0, 1.0)
    assert recovered_gain(base, base, tuned, y)[0] == 0.0
    alike = tuned * 1.5  # a different model, right on the same examples: no resample differs, but 40 examples are few
    found = recovered_gain(alike, base, tuned, y)
    assert found.value == 1.0 and found.low < 1.0 < found.high


def notes_of(folder: Path, train: Any, test: Any, **changes: Any) -> str:
    return " ".join(load(registry.task(str(task_file(folder, train, test, **changes)))).notes)


def test_a_split_of_one_class_is_said(tmp_path: Path) -> None:
    both = tiny_rows(60, seed=1)
    positive = [row for row in both if row["label"] == 1]
    said_of_test = notes_of(tmp_path / "a", both, positive)
    assert f"test: all {len(positive)} rows have the label 'positive'" in said_of_test
    assert "F1 is not measured" in said_of_test and "train: all" not in said_of_test
    assert "train: all 27 rows have the label 'positive'" in notes_of(tmp_path / "b", positive, both)
    assert "test: its only row has the label" in notes_of(tmp_path / "c", both, positive[:1])
    assert "have the label" not in notes_of(tmp_path / "d", both, both)


def test_a_class_that_the_test_set_lacks_is_said(tmp_path: Path) -> None:
    rows = tiny_rows(60, labels=2, seed=1) + [{"text": "so so film", "label": 2}] * 12
    labels = ["negative", "positive", "mixed"]
    said_of = notes_of(tmp_path / "a", rows, tiny_rows(30, seed=2), labels=labels)
    assert "test has no row with the label 'mixed'." in said_of and "train has no row" not in said_of


def test_what_is_left_of_another_task_may_be_one_class(tmp_path: Path) -> None:
    both = tiny_rows(60, seed=1)
    own = registry.task(str(task_file(tmp_path / "own", both, both)))
    other = registry.task(str(task_file(tmp_path / "other", both, tiny_rows(30, seed=5))))
    found = other_examples(own, other, "head", frozenset(), {"negative": None, "positive": "positive"})
    assert any(note.startswith("test: all 15 rows have the label 'positive'") for note in found.notes)
    unknown = other_examples(own, other, "head", None)
    assert unknown.dropped is None and not any("have the label" in note for note in unknown.notes)


def test_a_test_set_of_one_class_gives_no_f1_from_files_to_scores(tmp_path: Path) -> None:
    """Regression: an F1 of 100% was reported without a note."""
    tokenizer, model, train = tiny_tokenizer("bert"), bert(), tiny_rows(120, seed=1)
    base = saved(tmp_path / "base", model, tokenizer)
    fit(model, tokenizer, train, steps=60)
    tuned = saved(tmp_path / "tuned", model, tokenizer)
    positive = [row for row in tiny_rows(60, seed=2) if row["label"] == 1]
    task = task_file(tmp_path / "task", train, positive, metric="f1", positive="positive")
    accuracy, found = evaluated(base, tuned, task)
    assert accuracy > 0.9
    assert found.headline()["metrics"]["finetuned"]["f1"] is None
    assert any("have the label 'positive'" in note and "F1 is not measured" in note for note in found.notes)


def test_fine_tuning_keeps_the_last_step_where_validation_cannot_choose(tmp_path: Path) -> None:
    """Regression: an F1 that was always NaN made fine-tuning keep the initial parameters, so training had no effect."""
    rows = tiny_rows(60, seed=1)
    task = task_file(tmp_path / "task", rows, rows, metric="f1", positive="positive")
    (tmp_path / "task" / "validation.jsonl").write_text('{"text": "good film", "label": 1}\n' * 12)
    task.write_text(task.read_text().replace("  test:", "  validation: validation.jsonl\n  test:"))
    base = saved(tmp_path / "base", bert(), tiny_tokenizer("bert"))
    made = finetune(str(base), registry.task(str(task)), out=tmp_path / "out", steps=3, lr=0.1, device="cpu")
    assert made.best_step == 3 and made.touched > 0
    record = json.loads((tmp_path / "out" / "finetune.json").read_text(), parse_constant=pytest.fail)  # no NaN
    assert record["scores"]["validation"]["f1"] is None and record["scores"]["validation"]["accuracy"] is not None


def test_a_frame_without_classes_has_no_note(tmp_path: Path) -> None:
    task = registry.task(str(task_file(tmp_path / "a", tiny_rows(20), tiny_rows(20))))
    assert class_notes(task, "test", pd.Series([], dtype=int)) == []


def test_a_panel_of_a_metric_that_is_not_measured_is_empty_and_labelled() -> None:
    frame = pd.DataFrame(
        [(state, "f1", math.nan, math.nan, math.nan) for state in ("pretrained", "grafted", "finetuned")]
        + [(state, "nll", 0.4, 0.3, 0.5) for state in ("pretrained", "grafted", "finetuned")],
        columns=["state", "metric", "value", "low", "high"],
    )
    figure = state_comparison(frame, ["f1", "nll"], height=400)  # a warning is an error in tests
    assert figure.layout.xaxis.title.text == "F1, %" and all(math.isfinite(end) for end in figure.layout.xaxis.range)
    assert span(np.array([math.nan, math.inf])) == (0.0, 1.0) and span([3.0, math.nan, 1.0]) == (1.0, 3.0)


@pytest.mark.parametrize(("caps", "count"), [({}, 20), ({"max_train": 5}, 20), ({"k_shot": 4}, 8)])
def test_test_rows_that_fine_tuning_saw_are_all_counted(tmp_path: Path, caps: dict[str, int], count: int) -> None:
    """Validation rows and rows over the cap here may have been training rows when the model was made."""
    rows = [{"text": f"a good one {n}", "label": n % 2} for n in range(20)]
    task = task_file(tmp_path / "own", rows, rows)
    note = f"{count} of 20 test examples have the text of a training example"
    base, finetuned = tiny_pair(tmp_path)
    models = {"base": str(base), "finetuned": str(finetuned)}
    (said,) = Session().overlap(RunSpec(**models, task=str(task), device="cpu", **caps))
    assert said.startswith(note)
    if "max_train" not in caps:
        assert any(one.startswith(note) for one in evaluated(base, finetuned, task, **caps)[1].notes)
