"""Tests of temperatures: fitted on unseen validation data of the own task only; else no rival, and the run says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.core.graft import Graft
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.layout import KEY, LAYOUT
from skillviz.runs import held_out
from skillviz.runs.evaluation import Evaluation, evaluate
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.held_out import against_fitting, fitted, why_not
from skillviz.runs.metrics import SCALED
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.score import ScoreSpec, make_score
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.show import measures, sentences
from skillviz.show.report import sections
from skillviz.tasks import registry
from skillviz.tasks.leaks import digests
from skillviz.tasks.splits import load
from tests.cases.build import fitted_pair, task_file, tiny_rows
from tests.cli.calls import call

TRAIN, HELD, TEST = tiny_rows(120, seed=1), tiny_rows(40, seed=2), tiny_rows(40, seed=3)
NOISY = [{**row, "label": 1 - row["label"]} if n % 4 == 0 else row for n, row in enumerate(HELD)]
OTHERS = tiny_rows(60, seed=11), tiny_rows(40, seed=13), tiny_rows(40, seed=12)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make base, tuned (trained elsewhere on all train rows of `own`) and tasks; return the folder. The tasks `own` and
    `other` have validation files, and `cut` has none."""
    folder = tmp_path_factory.mktemp("world")
    fitted_pair(folder, TRAIN, steps=40)
    task_file(folder / "own", TRAIN, TEST, NOISY)
    task_file(folder / "other", *OTHERS)
    task_file(folder / "cut", TRAIN, TEST)
    return folder


def members(world: Path, task: str) -> dict[str, Any]:
    return {"base": str(world / "base"), "finetuned": str(world / "tuned"), "task": str(world / task / "task.yaml")}


def made(world: Path, task: str, runs: Path, **changes: Any) -> Run:
    """Make a run of top movement at 5% on the task."""
    spec = RunSpec(**members(world, task), localizer="movement", sizes=("5%",), device="cpu", **changes)
    return produce(spec, Store(runs))


@pytest.fixture(scope="module")
def run(world: Path) -> Run:
    """Return a run on the task `own`, also scored on the task `other`."""
    return made(world, "own", world / "runs", max_test=30, others=(str(world / "other" / "task.yaml"),))


def evaluated(world: Path, task: str, **options: Any) -> Evaluation:
    return evaluate(world / "base", world / "tuned", world / task / "task.yaml", device="cpu", **options)


def is_scaled(found: Evaluation) -> bool:
    """Return whether any split has a temperature-scaled model; check that the note and the temperature agree."""
    states = {SCALED in scores.states for scores in found.scores.values()}
    assert states == {found.temperature is not None}
    assert any("No comparison with temperature" in note for note in found.notes) != any(states)
    return any(states)


def test_rows_that_the_model_has_seen_judge_nothing(world: Path, tmp_path: Path) -> None:
    """Regression: without a validation file, the split is cut from rows that the model was trained on."""
    run = made(world, "cut", tmp_path / "runs")
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
    # scores apart from grafts follow the same rule
    score = make_score(ScoreSpec(**members(world, "cut")), Store(tmp_path / "runs"), Session(), device="cpu")
    assert score.record.temperature is None and score.record.unfitted == held_out.PROBABLY_SEEN
    assert set(score.metrics) == {"pretrained", "finetuned"}


def test_an_unseen_validation_file_is_fitted_on_and_the_rival_stands(run: Run) -> None:
    (elsewhere,) = run.record.transfers
    for scores in (elsewhere.scores, run.record.metrics["test"]):
        assert SCALED in scores.states and "ece" in scores.scaled_differences
    assert run.record.temperature is not None and run.record.unfitted == ""
    assert not any("No comparison with temperature" in note for note in run.record.notes)


def test_other_data_choose_no_temperature(world: Path, run: Run) -> None:
    """Regression: a temperature is fitted for the region's own task, but not for another with a validation split."""
    region = run.path / "region.safetensors"
    other = evaluated(world, "other", region=region)
    assert not is_scaled(other) and why_not(held_out.UNKNOWN_TASK) in other.notes
    assert not other.scores["test"].scaled_differences and other.scores["test"].differences
    own = evaluated(world, "own", region=region)
    assert is_scaled(own) and own.temperature == pytest.approx(run.record.temperature)
    assert is_scaled(evaluated(world, "own", region=region, max_test=20))  # the same data with another cap


def test_without_a_word_on_the_models_data_nothing_is_fitted(world: Path, run: Run, tmp_path: Path) -> None:
    task_file(tmp_path / "own", *OTHERS)  # other rows under the same name
    assert [
        is_scaled(evaluated(world, "own")),
        is_scaled(evaluated(world, "own", region=run.region())),  # an object does not record its task
        is_scaled(evaluated(world, str(tmp_path / "own"), region=run.path / "region.safetensors")),
    ] == [False] * 3


def test_a_graft_says_which_data_are_its_own(world: Path, run: Run, tmp_path: Path) -> None:
    graft_of_run(run)[0].save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    assert [is_scaled(evaluated(world, task, graft=graft)) for task in ("own", "other")] == [True, False]


def test_the_graft_is_compared_with_the_finetuned_model_by_a_paired_interval(world: Path, run: Run) -> None:
    options = [word for name, value in members(world, "other").items() for word in (f"--{name}", value)]
    region = run.path / "region.safetensors"
    said = call("evaluate", *options, "--device", "cpu", "--region", region, "--json")
    assert said.code == 0, said.err
    found, states = said.json["differences"]["accuracy"], evaluated(world, "other", region=region).scores["test"].states
    assert found["value"] == pytest.approx(states["grafted"]["accuracy"].value - states["finetuned"]["accuracy"].value)
    assert found["low"] <= found["value"] <= found["high"] and found["low"] < found["high"]
    lines = [line for line in said.out.splitlines() if "grafted − fine-tuned on test" in line]
    assert [line.split(",")[0] for line in lines] == ["Accuracy", "ECE", "NLL"]
    for line in lines:
        assert any(word in line for word in ("better", "worse", NO_DIFFERENCE)) and "95%: " in line, line
    assert why_not(held_out.UNKNOWN_TASK) in said.out.replace("\n", " ") and "fine-tuned, scaled" not in said.out
    assert said.json["temperature"] is None and why_not(held_out.UNKNOWN_TASK) in said.json["notes"]


def test_what_has_no_interval_is_said_not_to_be_measured(world: Path, run: Run) -> None:
    options = [word for name, value in members(world, "own").items() for word in (f"--{name}", value)]
    said = call("evaluate", *options, "--device", "cpu", "--max-test", 4, "--region", run.path / "region.safetensors")
    assert said.code == 0, said.err
    (ece,) = [line for line in said.out.splitlines() if line.startswith("ECE, grafted − fine-tuned")]
    assert NOT_MEASURED in ece and NO_DIFFERENCE not in ece and "no interval" in ece


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
    record = {
        KEY: LAYOUT, "task": found.name, "labels": list(found.labels), "k_shot": splits.k_shot,
        "data_seed": splits.seed, "data_fingerprint": splits.fingerprint,
        "examples": {name: len(getattr(splits, name)) for name in ("train", "validation", "test")},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "finetune.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize(
    ("recorded_draw", "draw", "why"),
    [
        (None, {}, held_out.PROBABLY_SEEN),
        ({}, {}, ""),
        ({}, {"max_validation": 8}, ""),  # from the same draw
        ({}, {"max_train": 50}, ""),
        ({}, {"seed": 1}, held_out.SEEN),  # a different tenth of the train rows
        ({}, {"k_shot": 4}, held_out.SEEN),
        ({"k_shot": 16}, {"k_shot": 16}, ""),
        ({"k_shot": 16}, {"k_shot": 16, "seed": 3}, held_out.SEEN),
        ({"k_shot": 16}, {}, held_out.SEEN),
    ],
)
def test_the_same_cut_that_skillviz_trained_beside_was_held_out(
    world: Path, recorded_draw: dict[str, int] | None, draw: dict[str, int], why: str, tmp_path: Path
) -> None:
    task = world / "cut" / "task.yaml"
    model = tmp_path if recorded_draw is None else recorded(tmp_path, task, **recorded_draw)
    assert reason(task, model, **draw) == why


def test_other_rows_under_the_same_name_and_other_tasks_are_not_the_same_data(tmp_path: Path) -> None:
    task = task_file(tmp_path / "task", TRAIN, TEST)
    model = recorded(tmp_path / "model", task)
    task_file(tmp_path / "task", tiny_rows(200, seed=8), TEST)
    assert reason(task, model) == held_out.PROBABLY_SEEN and reason(task, model, is_own=False) == held_out.UNKNOWN_TASK
    task = task_file(tmp_path / "task", TRAIN, TEST, HELD)
    other = task_file(tmp_path / "other", tiny_rows(60, seed=9), TEST, HELD)
    recorded(model, other)
    assert reason(task, model) == held_out.OTHER_TASK and reason(other, model) == ""


STRANGE = {KEY: LAYOUT, "examples": {"train": -3}, "task": "cut", "labels": ["negative", "positive"]}


@pytest.mark.parametrize("content", ["{", "[]", json.dumps(STRANGE)])
def test_a_record_that_cannot_be_read_is_unknown(world: Path, content: str, tmp_path: Path) -> None:
    (tmp_path / "finetune.json").write_text(content)
    assert reason(world / "cut" / "task.yaml", tmp_path) in (held_out.PROBABLY_SEEN, held_out.SEEN)


@pytest.mark.parametrize("is_shouted", [False, True], ids=["as it is", "in other case, with other spaces"])
@pytest.mark.parametrize(
    ("rows", "why"), [(TRAIN[:40], held_out.SEEN), (TEST, held_out.TESTED), (HELD, ""), (HELD + TRAIN[:10], "")]
)
def test_a_validation_file_that_is_a_copy_is_not_held_out(
    rows: Any, why: str, is_shouted: bool, tmp_path: Path
) -> None:
    rows = [{**row, "text": row["text"].upper() + " "} for row in rows] if is_shouted else rows
    assert reason(task_file(tmp_path / "task", TRAIN, TEST, rows), tmp_path) == why


def drawn(n: int, share_wrong: float, sure: float = 3.0, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of a fine-tuned model, all with confidence `sure` and wrong on this share; and the labels."""
    labels = np.arange(n) % classes
    said = np.where(np.arange(n) < share_wrong * n, (labels + 1) % classes, labels)
    return sure * np.eye(classes)[said], labels


def test_what_validation_examples_can_support_is_fitted() -> None:
    logits, labels = drawn(40, 0.2)
    fit = fitted({"finetuned": logits}, labels, True)
    assert fit.value is not None and fit.reason == "" and 0.02 < fit.value < 50
    z = logits / fit.value
    chance = np.exp(z[np.arange(40), labels]) / np.exp(z).sum(1)
    assert chance[labels == z.argmax(1)].mean() == pytest.approx(0.8)  # confidence of 80%, equal to its accuracy


@pytest.mark.parametrize(
    ("share_wrong", "rows", "known", "why"),
    [
        (0.2, slice(0, 9), (), held_out.FEW),
        (0.2, slice(0, 40, 2), (), held_out.ONE_CLASS),
        (0.0, slice(None), (), held_out.AT_END),  # no error: higher confidence is better
        (0.9, slice(None), (), held_out.AT_END),  # worse than guessing: lower confidence is better
        (0.2, slice(None), (held_out.SEEN,), held_out.SEEN),
    ],
)
def test_what_validation_examples_cannot_support_is_not_fitted(
    share_wrong: float, rows: slice, known: tuple[str, ...], why: str
) -> None:
    logits, labels = drawn(40, share_wrong)
    assert fitted({"finetuned": logits[rows]}, labels[rows], True, *known) == (None, why)


@pytest.mark.parametrize("why", held_out.WHY)
def test_every_reason_says_why_and_what_to_do(why: str) -> None:
    said = why_not(why)
    assert said.startswith("No comparison with temperature scaling: ") and said.count(". ") >= 1 and "{" not in said
    assert "Name a validation file" in said or "Score the task" in said
    assert ("several classes" in said) is (why == held_out.ONE_CLASS) and why_not("") == ""
