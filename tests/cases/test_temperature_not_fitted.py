"""Tests of temperatures that cannot be fitted on unseen validation data: they are no rival, and the run says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from skillviz.layout import KEY, LAYOUT
from skillviz.runs import held_out
from skillviz.runs.held_out import against_fitting, fitted, why_not
from skillviz.runs.metrics import SCALED
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.show import measures, sentences
from skillviz.show.report import sections
from skillviz.tasks import registry
from skillviz.tasks.leaks import digests
from skillviz.tasks.splits import load
from tests.cases.build import bert, fit, saved, task_file, tiny_rows, trained_pair
from tests.tiny import tiny_tokenizer

TRAIN, HELD, TEST = tiny_rows(120, seed=1), tiny_rows(40, seed=2), tiny_rows(40, seed=3)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `base` and `tuned`, which was trained elsewhere on all of the train rows."""
    return trained_pair(tmp_path_factory.mktemp("pair"), TRAIN)


def made(pair: Path, task: Path, runs: Path, *others: Path) -> Run:
    """Make a run of top movement on the pair and the task, also scored on the other tasks."""
    models = {"base": str(pair / "base"), "finetuned": str(pair / "tuned"), "task": str(task)}
    spec = RunSpec(**models, localizer="movement", sizes=("5%",), device="cpu", others=tuple(map(str, others)))
    return produce(spec, Store(runs))


def test_rows_that_the_model_has_seen_judge_nothing(pair: Path, tmp_path: Path) -> None:
    """Regression: without a validation file, the split is cut from rows that the model was trained on."""
    run = made(pair, task_file(tmp_path / "task", TRAIN, TEST), tmp_path / "runs")
    record, scores = run.record, run.record.metrics["test"]
    assert record.temperature is None and record.unfitted == held_out.PROBABLY_SEEN
    assert SCALED not in scores.states and not scores.scaled_differences
    assert "finetuned" in scores.states and "ece" in scores.differences  # the fine-tuned model itself is still a rival
    said = sentences.temperature(record)
    assert "No comparison with temperature scaling" in said and "validation file" in said and said in record.notes
    assert measures.TEMPERATURE not in measures.levels(record, "test", "nll")
    asked = ("finetuned", measures.TEMPERATURE)
    assert list(measures.state_logits(run.predictions(), record, "test", asked)[0]) == ["finetuned"]
    report = repr(sections.calibration(run))
    assert why_not(held_out.PROBABLY_SEEN) in report and "for temperature scaling" not in report


def with_validation(folder: Path, validation: Any, train: Any = TRAIN, **changes: Any) -> Path:
    """Write the task with a validation file of these rows; return its path."""
    path = task_file(folder, train, TEST, **changes)
    (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in validation))
    values = yaml.safe_load(path.read_text())
    values["data"]["validation"] = "validation.jsonl"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def test_an_unseen_validation_file_is_fitted_on_and_the_rival_stands(pair: Path, tmp_path: Path) -> None:
    noisy = [{**row, "label": 1 - row["label"]} if n % 5 == 0 else row for n, row in enumerate(HELD)]
    other = task_file(tmp_path / "other", TRAIN, tiny_rows(30, seed=7))
    run = made(pair, with_validation(tmp_path / "task", noisy), tmp_path / "runs", other)
    scores = run.record.metrics["test"]
    (elsewhere,) = run.record.transfers
    assert SCALED in elsewhere.scores.states and "ece" in elsewhere.scores.scaled_differences
    assert run.record.temperature is not None and run.record.unfitted == ""
    assert SCALED in scores.states and "ece" in scores.scaled_differences
    assert not any("No comparison with temperature" in note for note in run.record.notes)


def reason(task: Path, folder: Path, is_own: bool = True, drawn: Any = None, **sampling: Any) -> str:
    """Return the reason why no temperature is fitted for the model in this folder."""
    found = registry.task(str(task))
    splits = load(found, **sampling)
    training = frozenset(digests(splits.train))
    return against_fitting(folder, found, splits, training=training, is_own=is_own, drawn=drawn)


def recorded(folder: Path, task: Path, **draw: Any) -> Path:
    """Return a folder whose finetune.json says that its model was trained on this draw of the task."""
    found = registry.task(str(task))
    splits = load(found, **draw)
    counts = {name: len(getattr(splits, name)) for name in ("train", "validation", "test")}
    record = {
        KEY: LAYOUT, "task": found.name, "labels": list(found.labels), "k_shot": splits.k_shot,
        "data_seed": splits.seed, "examples": counts, "data_fingerprint": splits.fingerprint,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "finetune.json").write_text(json.dumps(record))
    return folder


def test_the_same_cut_that_skillviz_trained_beside_was_held_out(tmp_path: Path) -> None:
    task, model = task_file(tmp_path / "task", TRAIN, TEST), tmp_path / "model"
    recorded(model, task)
    assert reason(task, model) == "" and reason(task, tmp_path) == held_out.PROBABLY_SEEN
    assert reason(task, model, max_validation=8) == "" and reason(task, model, max_train=50) == ""  # from the same draw
    assert reason(task, model, seed=1) == held_out.SEEN  # a different tenth of the train rows
    assert reason(task, model, k_shot=4) == held_out.SEEN
    recorded(model, task, k_shot=16)
    assert reason(task, model, k_shot=16) == "" and reason(task, model, k_shot=16, seed=3) == held_out.SEEN
    assert reason(task, model) == held_out.SEEN


def test_other_rows_under_the_same_name_are_not_the_same_data(tmp_path: Path) -> None:
    task = task_file(tmp_path / "task", TRAIN, TEST)
    model = recorded(tmp_path / "model", task)
    task_file(tmp_path / "task", tiny_rows(200, seed=8), TEST)
    assert reason(task, model) == held_out.PROBABLY_SEEN and reason(task, model, is_own=False) == held_out.UNKNOWN_TASK


def test_a_record_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    task = task_file(tmp_path / "task", TRAIN, TEST)
    strange = {KEY: LAYOUT, "examples": {"train": -3}, "task": "task", "labels": ["negative", "positive"]}
    for content in ("{", "[]", json.dumps(strange)):
        (tmp_path / "finetune.json").write_text(content)
        assert reason(task, tmp_path) in (held_out.PROBABLY_SEEN, held_out.SEEN), content


@pytest.mark.parametrize(
    ("rows", "why"), [(TRAIN[:40], held_out.SEEN), (TEST, held_out.TESTED), (HELD, ""), (HELD + TRAIN[:10], "")]
)
def test_a_validation_file_that_is_a_copy_is_not_held_out(rows: Any, why: str, tmp_path: Path) -> None:
    task = with_validation(tmp_path / "task", rows)
    assert reason(task, tmp_path) == why
    shouted = [{**row, "text": row["text"].upper() + " "} for row in rows]  # differs only in letter case and spaces
    assert reason(with_validation(tmp_path / "task", shouted), tmp_path) == why


def test_another_tasks_model_is_not_judged_by_this_tasks_labels(tmp_path: Path) -> None:
    task = with_validation(tmp_path / "task", HELD)
    other = with_validation(tmp_path / "other", HELD, train=tiny_rows(60, seed=9))
    model = recorded(tmp_path / "model", other)
    assert reason(task, model) == held_out.OTHER_TASK and reason(other, model) == ""


def drawn(n: int, share_wrong: float, sure: float = 3.0, classes: int = 2) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return logits of a fine-tuned model, all with confidence `sure` and wrong on this share; and the labels."""
    labels = np.arange(n) % classes
    said = np.where(np.arange(n) < share_wrong * n, (labels + 1) % classes, labels)
    return {"finetuned": sure * np.eye(classes)[said]}, labels


def test_what_validation_examples_cannot_support_is_not_fitted() -> None:
    logits, labels = drawn(40, 0.2)
    fit = fitted(logits, labels, True)
    assert fit.value is not None and fit.reason == "" and 0.02 < fit.value < 50
    z = logits["finetuned"] / fit.value
    chance = np.exp(z[np.arange(40), labels]) / np.exp(z).sum(1)
    assert chance[labels == z.argmax(1)].mean() == pytest.approx(0.8)  # confidence of 80%, equal to its accuracy
    few, one_class = slice(0, 9), labels == 0
    for z_of, y, why in (
        (logits["finetuned"][few], labels[few], held_out.FEW),
        (logits["finetuned"][one_class], labels[one_class], held_out.ONE_CLASS),
        (drawn(40, 0.0)[0]["finetuned"], labels, held_out.AT_END),  # no error: higher confidence is better
        (drawn(40, 0.9)[0]["finetuned"], labels, held_out.AT_END),  # worse than guessing: lower confidence is better
    ):
        assert fitted({"finetuned": z_of}, y, True) == (None, why)
    assert fitted(logits, labels, True, held_out.SEEN) == (None, held_out.SEEN)


def test_every_reason_says_why_and_what_to_do() -> None:
    for why in held_out.WHY:
        said = why_not(why)
        assert said.startswith("No comparison with temperature scaling: ") and said.count(". ") >= 1 and "{" not in said
        assert "Name a validation file" in said or "Score the task" in said
    assert why_not("") == ""
    assert "of several classes" in why_not(held_out.ONE_CLASS) and "several classes" not in why_not(held_out.FEW)


def test_scores_apart_from_grafts_follow_the_same_rule(pair: Path, tmp_path: Path) -> None:
    from skillviz.runs.score import ScoreSpec, make_score
    from skillviz.runs.session import Session

    task = task_file(tmp_path / "task", TRAIN, TEST)
    models = {"base": str(pair / "base"), "finetuned": str(pair / "tuned"), "task": str(task)}
    score = make_score(ScoreSpec(**models), Store(tmp_path / "runs"), Session(), device="cpu")
    assert score.record.temperature is None and score.record.unfitted == held_out.PROBABLY_SEEN
    assert set(score.metrics) == {"pretrained", "finetuned"}
