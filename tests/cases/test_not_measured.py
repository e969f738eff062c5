"""Tests of what data cannot tell: without an interval, or on a single class, the word is *not measured*, never "no
clear difference"; a temperature is fitted on unseen data of the own task only; and the docs agree with their tables."""

import json
import math
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.observations import leak_sentences
from skillviz.core.confusion import class_results
from skillviz.core.intervals import bootstrap, metric_difference, metric_interval, recovered_gain
from skillviz.core.metrics import METRICS, metric_row, score
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NO_DIFFERENCE, NOT_MEASURED
from skillviz.errors import BadInput
from skillviz.layout import KEY, LAYOUT
from skillviz.plots.figure import span
from skillviz.plots.overview import state_comparison
from skillviz.runs import held_out
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.held_out import against_fitting, fitted, why_not
from skillviz.runs.metrics import SCALED, metrics, split_scores
from skillviz.runs.record import Estimate, Scores, TaskNote, TransferNote
from skillviz.runs.score import ScoreSpec, make_score
from skillviz.runs.transfer import other_examples
from skillviz.show import measures, sentences, slices, surgery, transfer
from skillviz.show.comparisons import counted_rows
from skillviz.show.paper import evidence
from skillviz.show.report import sections
from skillviz.studies.paper.claims import Comparison, StudyTables, Verdict, within
from skillviz.studies.paper.comparisons import less
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.tasks import registry
from skillviz.tasks.leaks import digests
from skillviz.tasks.splits import class_notes, load
from skillviz.ui import paper_words
from skillviz.ui.chip import SIGNS, chip_text, lead_words, verdict_line
from skillviz.ui.pages import continual, tasks
from skillviz.ui.pages.tour import questions
from tests.cases.build import (
    Evaluation,
    Graft,
    Run,
    RunSpec,
    Session,
    Store,
    bert,
    by_hand,
    evaluate,
    evaluated,
    finetune,
    fitted_pair,
    produce,
    refuses,
    saved,
    task_file,
    tiny_pair,
    tiny_rows,
    tiny_tokenizer,
)
from tests.cli.calls import Said, done
from tests.scripts import script
from tests.tables import says
from tests.ui.test_chip import chips

NAN = float("nan")
BARE, OPEN = Estimate(value=-0.053), Estimate(value=-0.053, low=-0.12, high=0.02)
F1 = TaskNote(name="t", labels=("no", "yes"), metric="f1", positive=1)
HALF = np.array([0, 1] * 20)


def said(*classes: int, sure: float = 2.0) -> np.ndarray:
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
    np.testing.assert_array_equal([score(z, y, "f1", 1)["f1"], *metric_interval(z, y, "f1")], NAN)
    assert metrics(z, y, F1)["f1"].columns() == {"value": None, "debiased": None, "low": None, "high": None}


test_by_hand = by_hand(
    *((f"f1 of two classes is what it was: {predicted}", value,
       lambda predicted=predicted: score(said(*predicted), np.array([1, 0, 1, 0]), "f1", 1)["f1"])
      for predicted, value in (((1, 1, 0, 0), 0.5), ((0, 0, 0, 0), 0.0), ((1, 0, 1, 0), 1.0))),
    *((f"an interval without width is no proof of equality: {ends}", is_equal, within, *ends, 0.03)
      for ends, is_equal in (((0.01, 0.01), None), ((0.0, 0.0), True), ((-0.01, 0.01), True))),
    ("a figure marks what has no interval", ["leaves open", NOT_MEASURED], lambda: evidence(
        Verdict("claim", (one(None), BARE_ONE)), Verdict("claim", ()))["says"].tolist()[-2:]),
    ("another task without an interval is not told to be alike", NOT_MEASURED,
     lambda: transfer.findings([note(BARE)], "accuracy")[0][0]),
    ("nor are several others", [f"3 more: {NO_DIFFERENCE} on 1, {NOT_MEASURED} on 2"],
     lambda: transfer.rest([note(OPEN)] * 4 + [note(BARE), note(None)], "accuracy")),
    ("the word has a chip of its own", (True, 1),
     lambda: (NOT_MEASURED in chip_text(NOT_MEASURED), list(SIGNS.values()).count(SIGNS[NOT_MEASURED]))),
)  # fmt: skip


def test_a_difference_and_a_gain_in_it_are_not_measured_either() -> None:
    logits = {"pretrained": said(*[0] * 30), "finetuned": said(*[1] * 30), "grafted": said(*[1, 0] * 15)}
    found = split_scores(logits, np.ones(30, dtype=int), F1)
    less, said_of_gain = found.differences["f1"], sentences.no_gain(found, "f1")
    assert (less.value, found.recovered.value, sentences.verdict("f1", less)) == (None, None, NOT_MEASURED)
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
    found, less = metric_interval(one, y, metric), metric_difference(one, other, y, metric)
    assert found.value > 0 > less.value
    np.testing.assert_array_equal([found.low, found.high, less.low, less.high], NAN)
    assert metric_difference(one, one, y, metric)[:3] == (0.0, 0.0, 0.0)  # a model does not differ from itself


def test_resamples_without_spread_give_no_interval() -> None:
    perfect = bootstrap(said(*HALF), HALF, "f1", resamples=50)
    assert perfect.value == 1.0 and math.isnan(perfect.low) and math.isnan(perfect.high)
    some = bootstrap(said(*HALF[:-1], 0), HALF, "f1", resamples=200)
    assert some.low < some.value <= some.high


def test_the_same_model_has_all_of_the_gain_and_another_needs_examples() -> None:
    base, tuned = said(*[0] * 40), said(*HALF)
    assert (recovered_gain(tuned, base, tuned, HALF)[:3], recovered_gain(base, base, tuned, HALF)[0]) == (
        (1.0, 1.0, 1.0), 0.0,
    )  # fmt: skip
    # a different model, right on the same examples: no resample differs, but 40 examples are few
    found = recovered_gain(tuned * 1.5, base, tuned, HALF)
    assert found.value == 1.0 and found.low < 1.0 < found.high


BOTH = tiny_rows(60, seed=1)
POSITIVE = [row for row in BOTH if row["label"] == 1]
MIXED = BOTH + [{"text": "so so film", "label": 2}] * 12
THREE = {"labels": ["negative", "positive", "mixed"]}


@pytest.mark.parametrize(
    ("train", "test", "changes", "words", "absent"),
    [
        (BOTH, POSITIVE, {}, ("test: all 30 rows have the label 'positive'", "F1 is not measured"), "train: all"),
        (POSITIVE, BOTH, {}, ("train: all 27 rows have the label 'positive'",), "test: all"),
        (BOTH, POSITIVE[:1], {}, ("test: its only row has the label",), "train: all"),
        (BOTH, BOTH, {}, (), "have the label"),
        (MIXED, tiny_rows(30, seed=2), THREE, ("test has no row with the label 'mixed'.",), "train has no row"),
        (BOTH, BOTH, THREE, ("train has no row with the label 'mixed'.",), "have the label"),
    ],
    ids=["test of one class", "train of one class", "one test row", "both", "test lacks one", "train lacks one"],
)
def test_a_split_that_lacks_classes_is_said(
    train: Any, test: Any, changes: dict[str, Any], words: tuple[str, ...], absent: str, tmp_path: Path
) -> None:
    found = " ".join(load(registry.task(str(task_file(tmp_path, train, test, **changes)))).notes)
    assert [word for word in (*words, absent) if word not in found] == [absent]


def test_what_is_left_of_another_task_may_be_one_class_and_a_frame_may_have_none(tmp_path: Path) -> None:
    own, other = (
        registry.task(str(task_file(tmp_path / name, BOTH, test)))
        for name, test in (("own", BOTH), ("other", tiny_rows(30, seed=5)))
    )
    found = other_examples(own, other, "head", frozenset(), {"negative": None, "positive": "positive"})
    assert any(note.startswith("test: all 15 rows have the label 'positive'") for note in found.notes)
    unknown = other_examples(own, other, "head", None)
    assert unknown.dropped is None and not any("have the label" in note for note in unknown.notes)
    assert class_notes(own, "test", pd.Series([], dtype=int)) == []


def test_a_test_set_of_one_class_gives_no_f1_from_files_to_scores(tmp_path: Path) -> None:
    """Regression: an F1 of 100% was reported without a note."""
    train, positive = tiny_rows(120, seed=1), [row for row in tiny_rows(60, seed=2) if row["label"] == 1]
    base, tuned, _ = fitted_pair(tmp_path, train, steps=60)
    task = task_file(tmp_path / "task", train, positive, metric="f1", positive="positive")
    accuracy, found = evaluated(base, tuned, task)
    assert accuracy > 0.9 and found.headline()["metrics"]["finetuned"]["f1"] is None
    assert any("have the label 'positive'" in note and "F1 is not measured" in note for note in found.notes)


def test_fine_tuning_keeps_the_last_step_where_validation_cannot_choose(tmp_path: Path) -> None:
    """Regression: an F1 that was always NaN made fine-tuning keep the initial parameters, so training had no effect."""
    good = [{"text": "good film", "label": 1}] * 12
    task = registry.task(str(task_file(tmp_path / "task", BOTH, BOTH, good, metric="f1", positive="positive")))
    base = saved(tmp_path / "base", bert(), tiny_tokenizer("bert"))
    made = finetune(str(base), task, out=tmp_path / "out", steps=3, lr=0.1, device="cpu")
    assert made.best_step == 3 and made.touched > 0
    record = json.loads((tmp_path / "out" / "finetune.json").read_text(), parse_constant=pytest.fail)  # no NaN
    assert record["scores"]["validation"]["f1"] is None and record["scores"]["validation"]["accuracy"] is not None


def test_a_panel_of_a_metric_that_is_not_measured_is_empty_and_labelled() -> None:
    states = ("pretrained", "grafted", "finetuned")
    frame = pd.DataFrame(
        [(state, "f1", NAN, NAN, NAN) for state in states] + [(state, "nll", 0.4, 0.3, 0.5) for state in states],
        columns=["state", "metric", "value", "low", "high"],
    )
    figure = state_comparison(frame, ["f1", "nll"], height=400)  # a warning is an error in tests
    assert figure.layout.xaxis.title.text == "F1, %" and np.isfinite(figure.layout.xaxis.range).all()
    assert span(np.array([NAN, math.inf])) == (0.0, 1.0) and span([3.0, NAN, 1.0]) == (1.0, 3.0)


@pytest.mark.parametrize(("caps", "count"), [({}, 20), ({"max_train": 5}, 20), ({"k_shot": 4}, 8)])
def test_test_rows_that_fine_tuning_saw_are_all_counted(tmp_path: Path, caps: dict[str, int], count: int) -> None:
    """Validation rows and rows over the cap here may have been training rows when the model was made."""
    rows = [{"text": f"a good one {n}", "label": n % 2} for n in range(20)]
    task, (base, finetuned) = task_file(tmp_path / "own", rows, rows), tiny_pair(tmp_path)
    note = f"{count} of 20 test examples have the text of a training example"
    (said,) = Session().overlap(RunSpec(base=str(base), finetuned=str(finetuned), task=str(task), device="cpu", **caps))
    told = said if "max_train" in caps else "\n".join(evaluated(base, finetuned, task, **caps)[1].notes)
    assert said.startswith(note) and note in told


@pytest.mark.parametrize("metric", [name for name, row in METRICS.items() if row.better])
def test_every_metric_has_a_fourth_word(metric: str) -> None:
    verdict = metric_row(metric).verdict
    ends = {
        (None, None): NOT_MEASURED, (NAN, NAN): NOT_MEASURED, (None, 0.1): NOT_MEASURED, (-0.1, NAN): NOT_MEASURED,
        (0.1, 0.1): NOT_MEASURED, (-0.1, -0.1): NOT_MEASURED,  # no width: one example, resampled
        (0.0, 0.0): NO_DIFFERENCE, (-0.1, 0.1): NO_DIFFERENCE,  # the same predictions twice
    }  # fmt: skip
    assert {pair: verdict(*pair) for pair in ends} == ends and verdict(0.1, 0.2) in ("better", "worse")
    assert sentences.verdict(metric, None) == sentences.verdict(metric, BARE) == NOT_MEASURED


def scores(difference: Estimate | None) -> Scores:
    """Return scores of the graft and the fine-tuned model with their errors, and this difference if given."""
    states = {name: {"ece": Estimate(value=value)} for name, value in (("grafted", 0.018), ("finetuned", 0.071))}
    return Scores(n=9, states=states, differences={"ece": difference} if difference else {})


@pytest.mark.parametrize(("difference", "verdict"), [(BARE, NOT_MEASURED), (None, NOT_MEASURED), (OPEN, NO_DIFFERENCE)])
def test_the_sentence_on_calibration_claims_nothing(difference: Estimate | None, verdict: str) -> None:
    said, asked = sentences.calibration(scores(difference)), questions.calibrated(scores(difference))
    assert {word for word in (NOT_MEASURED, NO_DIFFERENCE) if word in said} == {verdict}
    # no choice is marked as right
    assert asked.answer == (None if verdict == NOT_MEASURED else questions.UNTOLD)
    assert verdict != NOT_MEASURED or "1.8%" in said and NOT_MEASURED in asked.why


def test_the_docs_tables_say_it_and_count_it_apart() -> None:
    """Regression: `−5.3, no clear difference` was shown without an interval."""
    results = script("docs/results.py")
    row = {"ece_less_ft": -0.053, "ece_less_ft_debiased": NAN, "ece_less_ft_low": NAN, "ece_less_ft_high": NAN}
    known = {**row, "ece_less_ft_low": -0.1, "ece_less_ft_high": 0.02, "ece_less_ft_debiased": -0.05}
    bare, told = (results.results_tables._ece_less(one, "ft") for one in (row, known))
    assert bare == f"−5.3, {NOT_MEASURED}" and told.endswith(NO_DIFFERENCE)
    count = results.headline_claims.counts([0.1, -0.2, -0.1, NAN], [0.2, -0.1, 0.1, NAN])
    assert (count.supporting, count.against, count.open, count.unmeasured, count.total) == (1, 1, 1, 1, 3)


def one(supports: bool | None, low: float = 0.0, high: float = 0.2) -> Comparison:
    return Comparison("here", 0.1, low, high, supports)


BARE_ONE = one(None, NAN, NAN)


@pytest.mark.parametrize(
    ("comparisons", "outcome"),
    [
        ((one(True), BARE_ONE, BARE_ONE), CONFIRMED),  # one of the one comparison with an interval
        ((one(False), BARE_ONE, BARE_ONE), CONTRADICTED),
        ((one(None), BARE_ONE), INCONCLUSIVE),
        ((BARE_ONE, BARE_ONE), NOT_MEASURED),
        ((one(None, 0.1, 0.1),), NOT_MEASURED),
        ((), NOT_MEASURED),
    ],
)
def test_a_claim_is_judged_on_what_has_an_interval(comparisons: tuple[Comparison, ...], outcome: str) -> None:
    verdict, bare = Verdict("claim", comparisons), sum(not one.is_measured for one in comparisons)
    assert (verdict.outcome, verdict.supporting + verdict.against + verdict.open + bare) == (outcome, len(comparisons))
    said = paper_words.support(verdict) if comparisons else paper_words.verdict_line(verdict)
    assert f"of {len(comparisons)} comparison" not in said or bare in (0, len(comparisons))
    assert bare in (0, len(comparisons)) or f"{bare} more " in said and NOT_MEASURED in said
    assert NOT_MEASURED in paper_words.verdict_counts([verdict]) or outcome != NOT_MEASURED


def test_a_task_without_a_gain_does_not_count_for_a_claim_on_grafts() -> None:
    """Regression: "6 of 13" counted a task whose rows do not apply to grafts."""
    row = {
        "setting": "all", "readout": "", "recipe": "sgd", "variant": "", "localizer": "stagewise", "size": 1.0,
        "share": 0.01, "a": "graft", "b": "ft", "metric": "ece", "value": -0.1, "low": -0.2, "high": -0.05, "n": 100,
        "seeds": 3, "over": "", "debiased": -0.1,
    }  # fmt: skip
    tables = {"differences": pd.DataFrame([{**row, "id_task": task, "task": task} for task in ("cr", "rte")])}
    compare = less("graft", "ft", "ece", sign=-1)
    for gains, where in (({}, ["cr", "rte"]), ({"recovered": pd.DataFrame({"id_task": ["cr"]})}, ["cr"])):
        assert [found.where for found in compare(StudyTables({**tables, **gains}))] == where


def test_a_line_of_verdicts_names_what_was_not_measured() -> None:
    rows = pd.DataFrame(
        [("a", "accuracy", 0.2, 0.1, 0.3, None), ("b", "accuracy", 0.0, -0.1, 0.1, None)]
        + [(name, "accuracy", 0.1, NAN, NAN, None) for name in ("c", "d")],
        columns=["name", "metric", "value", "low", "high", "debiased"],
    )
    assert f"**b** {NO_DIFFERENCE}; **c** and **d** {NOT_MEASURED}" in chips(verdict_line(rows, "accuracy"))
    assert f"**c** {NOT_MEASURED} +10.0 points (no interval)" in chips(lead_words(rows.iloc[2]))
    assert counted_rows(rows) == "2 of 4 are not measured." and "not measured" not in counted_rows(rows.head(2))


test_a_change_without_an_interval_is_neither_lost_nor_gained = says({
    word: (partial(continual._change, {"task": "qnli", "at_end": 0.8, "value": -0.06, "low": low, "high": high},
                   "accuracy"), (word,), lacks)
    for low, high, word, lacks in ((NAN, NAN, NOT_MEASURED, ("lost", "gained")),
                                   (-0.1, -0.02, "**lost**", ("gained",)))
})  # fmt: skip


def test_pairs_of_tasks_without_an_interval_are_counted_apart() -> None:
    rows = [(("a",), "b", 0.5, 0.2, 0.8), (("a",), "c", 0.4, NAN, NAN), (("b",), "a", -0.3, -0.5, -0.1)]
    gain = pd.DataFrame(rows, columns=["region_tasks", "task", "value", "low", "high"])
    said = tasks.transfer(gain, {(row[0][0], row[1]): tasks.RELATED for row in rows})
    assert "In 2 pairs of related tasks" in said and f"other in 1 and harms it in 1; 1 more {NOT_MEASURED}" in said


def note(difference: Estimate | None, dropped: int | None = 0) -> TransferNote:
    own = {"accuracy": Estimate(value=0.8)}
    differences = {"accuracy": difference} if difference else {}
    found = Scores(n=30, states={"grafted": own, "finetuned": own}, differences=differences)
    return TransferNote(name="cr", mapping={"no": "no"}, rows=30, dropped=dropped, scores=found)


def test_training_data_that_were_not_at_hand_leave_it_unknown_what_was_seen() -> None:
    known, unknown = (transfer.counted(note(OPEN, dropped=dropped)) for dropped in (0, None))
    assert "skipped (seen in training)" in known and "0 skipped" in known
    assert "may have been seen in training" in unknown and "0 skipped (seen" not in unknown
    assert leak_sentences(note(OPEN), "sst2") == ()
    assert "not checked" in leak_sentences(note(OPEN, dropped=None), "sst2")[0]


def test_slices_too_small_for_an_interval_are_not_level() -> None:
    table = pd.DataFrame({"column": ["class"] * 2, "name": ["a", "b"], "n": [5, 6], "value": [-0.2, 0.1]})
    said = slices.finding(table.assign(low=NAN, high=NAN, verdict=[NOT_MEASURED] * 2), "accuracy")
    assert NOT_MEASURED in said and "neither worse nor better" not in said and "2 slices" in said


def test_a_region_built_by_hand_is_not_told_to_be_alike() -> None:
    scores = {surgery.REGION: {"accuracy": Estimate(value=0.8)}}
    bare, open_ = (
        surgery.compared(Mock(scores=scores, **{"difference.return_value": found}), None, "accuracy")
        for found in (BARE, OPEN)
    )  # type: ignore[arg-type]
    assert NOT_MEASURED in bare and open_.startswith("No clear difference")


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
    spec = RunSpec(**members(world, task), localizer="movement", sizes=("5%",), device="cpu", **changes)
    return produce(spec, Store(runs))


@pytest.fixture(scope="module")
def run(world: Path) -> Run:
    return made(world, "own", world / "runs", max_test=30, others=(str(world / "other" / "task.yaml"),))


def scored(world: Path, task: str, **options: Any) -> Evaluation:
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
    # scores apart from grafts follow the same rule
    score = make_score(ScoreSpec(**members(world, "cut")), Store(tmp_path / "runs"), Session(), device="cpu")
    for one in (record, score.record):
        assert (one.temperature, one.unfitted) == (None, held_out.PROBABLY_SEEN)
    assert set(score.metrics) == {"pretrained", "finetuned"}
    assert SCALED not in scores.states and not scores.scaled_differences
    assert "finetuned" in scores.states and "ece" in scores.differences  # the fine-tuned model itself is still a rival
    said = sentences.temperature(record)
    assert "No comparison with temperature scaling" in said and "validation file" in said and said in record.notes
    asked, report = ("finetuned", measures.TEMPERATURE), repr(sections.calibration(run))
    assert measures.TEMPERATURE not in measures.levels(record, "test", "nll")
    assert list(measures.state_logits(run.predictions(), record, "test", asked)[0]) == ["finetuned"]
    assert why_not(held_out.PROBABLY_SEEN) in report and "for temperature scaling" not in report


def test_an_unseen_validation_file_is_fitted_on_and_the_rival_stands(run: Run) -> None:
    (elsewhere,) = run.record.transfers
    for scores in (elsewhere.scores, run.record.metrics["test"]):
        assert SCALED in scores.states and "ece" in scores.scaled_differences
    assert run.record.temperature is not None and run.record.unfitted == ""
    assert "No comparison with temperature" not in "".join(run.record.notes)


def test_other_data_choose_no_temperature(world: Path, run: Run) -> None:
    """Regression: a temperature is fitted for the region's own task, but not for another with a validation split."""
    region = run.path / "region.safetensors"
    other, own = (scored(world, task, region=region) for task in ("other", "own"))
    capped = scored(world, "own", region=region, max_test=20)  # the same data with another cap
    assert [is_scaled(one) for one in (other, own, capped)] == [False, True, True]
    assert own.temperature == pytest.approx(run.record.temperature) and why_not(held_out.UNKNOWN_TASK) in other.notes
    assert not other.scores["test"].scaled_differences and other.scores["test"].differences


def test_without_a_word_on_the_models_data_nothing_is_fitted(world: Path, run: Run, tmp_path: Path) -> None:
    task_file(tmp_path / "own", *OTHERS)  # other rows under the same name
    assert [
        is_scaled(scored(world, "own")),
        is_scaled(scored(world, "own", region=run.region())),  # an object does not record its task
        is_scaled(scored(world, str(tmp_path / "own"), region=run.path / "region.safetensors")),
    ] == [False] * 3


def test_a_graft_says_which_data_are_its_own(world: Path, run: Run, tmp_path: Path) -> None:
    graft_of_run(run)[0].save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    assert [is_scaled(scored(world, task, graft=graft)) for task in ("own", "other")] == [True, False]


def evaluated_by_command(world: Path, task: str, region: Path, *options: object) -> Said:
    models = [f"--{name}={value}" for name, value in members(world, task).items()]
    return done("evaluate", *models, "--device", "cpu", "--region", region, *options)


def test_the_graft_is_compared_with_the_finetuned_model_by_a_paired_interval(world: Path, run: Run) -> None:
    region = run.path / "region.safetensors"
    said = evaluated_by_command(world, "other", region, "--json")
    found, states = said.json["differences"]["accuracy"], scored(world, "other", region=region).scores["test"].states
    assert found["value"] == pytest.approx(states["grafted"]["accuracy"].value - states["finetuned"]["accuracy"].value)
    assert found["low"] <= found["value"] <= found["high"] and found["low"] < found["high"]
    lines = [line for line in said.out.splitlines() if "grafted − fine-tuned on test" in line]
    assert [line.split(",")[0] for line in lines] == ["Accuracy", "ECE", "NLL"]
    words = ("better", "worse", NO_DIFFERENCE)
    assert [line for line in lines if "95%: " not in line or not any(word in line for word in words)] == []
    assert why_not(held_out.UNKNOWN_TASK) in said.out.replace("\n", " ") and "fine-tuned, scaled" not in said.out
    assert said.json["temperature"] is None and why_not(held_out.UNKNOWN_TASK) in said.json["notes"]


def test_what_has_no_interval_is_said_not_to_be_measured(world: Path, run: Run) -> None:
    said = evaluated_by_command(world, "own", run.path / "region.safetensors", "--max-test", 4)
    (ece,) = [line for line in said.out.splitlines() if line.startswith("ECE, grafted − fine-tuned")]
    assert NOT_MEASURED in ece and NO_DIFFERENCE not in ece and "no interval" in ece


def reason(task: Path, folder: Path, is_own: bool = True, drawn: Any = None, **sampling: Any) -> str:
    found = registry.task(str(task))
    splits = load(found, **sampling)
    return against_fitting(folder, found, splits, training=frozenset(digests(splits.train)), is_own=is_own, drawn=drawn)


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
    assert reason(task, tmp_path if recorded_draw is None else recorded(tmp_path, task, **recorded_draw), **draw) == why


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
    return sure * np.eye(classes)[np.where(np.arange(n) < share_wrong * n, (labels + 1) % classes, labels)], labels


def test_what_validation_examples_can_support_is_fitted() -> None:
    logits, labels = drawn(40, 0.2)
    fit = fitted({"finetuned": logits}, labels, True)
    assert fit.reason == "" and 0.02 < fit.value < 50
    z = logits / fit.value
    chance = np.exp(z[np.arange(40), labels]) / np.exp(z).sum(1)
    assert chance[labels == z.argmax(1)].mean() == pytest.approx(0.8)  # confidence of 80%, equal to its accuracy


test_what_validation_examples_cannot_support_is_not_fitted = by_hand(
    *((f"{why}: {share_wrong} wrong", (None, why), fitted, {"finetuned": drawn(40, share_wrong)[0][rows]},
       drawn(40, share_wrong)[1][rows], True, *known)
      for share_wrong, rows, known, why in (
        (0.2, slice(0, 9), (), held_out.FEW),
        (0.2, slice(0, 40, 2), (), held_out.ONE_CLASS),
        (0.0, slice(None), (), held_out.AT_END),  # no error: higher confidence is better
        (0.9, slice(None), (), held_out.AT_END),  # worse than guessing: lower confidence is better
        (0.2, slice(None), (held_out.SEEN,), held_out.SEEN))),
)  # fmt: skip


@pytest.mark.parametrize("why", held_out.WHY)
def test_every_reason_says_why_and_what_to_do(why: str) -> None:
    said = why_not(why)
    assert said.startswith("No comparison with temperature scaling: ") and said.count(". ") >= 1 and "{" not in said
    assert re.search("Name a validation file|Score the task", said)
    assert ("several classes" in said) is (why == held_out.ONE_CLASS) and why_not("") == ""


DOCS = Path(__file__).resolve().parents[2] / "docs"
OUTCOMES = (CONFIRMED, INCONCLUSIVE, CONTRADICTED, NOT_MEASURED)
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_default_localizer_has_the_counts_of_its_table() -> None:
    """Regression: the sentence said 7 comparisons and the table 4, at a false discovery rate of 5%."""
    text = page("localizers.md")
    said = re.search(
        r"than the learned mask in (\d+) of (\d+) comparisons and worse in (\d+).*?(\d+) of these differences hold",
        flat(text),
    )
    counted = re.search(r"- stagewise − learned: Of (\d+) comparisons, (\d+) exclude zero;.*? (\d+) holds? at a", text)
    better, n, worse, held = map(int, said.groups())
    assert (n, better + worse, held) == tuple(map(int, counted.groups()))
    rows = re.findall(r"^\| stagewise − learned \| \S+ \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    columns = [sum(map(int, column)) for column in zip(*rows, strict=True)]
    assert [better, worse, n] == [*columns[:2], sum(columns)]


@pytest.mark.parametrize("planted", ["Both are confirmed.", "So it is not Confirmed here.", "Accuracy agrees.",
                                     "Calibration is inconclusive.", "All four claims are open."])  # fmt: skip
def test_no_verdict_is_typed(tmp_path: Path, planted: str) -> None:
    """Regression: Figure 4b was confirmed in the table, and `not confirmed` in the text below it."""
    results, path = script("docs/results.py"), tmp_path / "words.yaml"
    path.write_text(f"studies: {{figure4-small: '{planted}'}}\n")
    refuses(BadInput, r"studies\.figure4-small: .* is a verdict", results.read_words, path)
    assert results.read_words()  # the page's own text contains no verdicts


def parts_of_results() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", page("results.md"), flags=re.MULTILINE)
    titles = {row.title for row in EXPERIMENTS.values()}
    return {title: body for title, body in zip(parts[1::2], parts[2::2], strict=True) if title in titles}


def test_the_overview_has_the_verdicts_of_every_section() -> None:
    table = re.findall(r"^\| ((?:Table|Figure) \d+: .+?) \| ([^|]+?) \|$", page("results.md"), re.MULTILINE)
    assert len(table) > 10
    for title, cell in table:
        said = {
            outcome: sum(map(int, re.findall(rf"(\d+) {'of [0-9]+ ' * (outcome == CONFIRMED)}{outcome}", cell)))
            for outcome in OUTCOMES
        }
        counted = Counter(re.findall(rf"^- \*\*({'|'.join(OUTCOMES)})\*\*: ", parts_of_results()[title], re.MULTILINE))
        assert said == {outcome: counted[outcome] for outcome in OUTCOMES}, title


def test_no_difference_without_an_interval_is_called_unclear() -> None:
    text = page("results.md")
    bare = re.findall(r"\| (−?\d+\.\d), ([a-z ]+) (?=\|)", text)
    assert len(bare) > 10 and {verdict for _, verdict in bare} == {NOT_MEASURED}
    known = re.findall(rf"\), plug-in −?[\d.]+, ({NO_DIFFERENCE}|better|worse|{NOT_MEASURED}) \|", text)
    assert known and NOT_MEASURED not in known
    assert not re.search(r"\*\*(?:inconclusive|confirmed|contradicted)\*\*: [^\n]*None of", text)


def test_a_claim_counts_the_tasks_whose_rows_say_something() -> None:
    """Regression: "6 of 13" counted a task on which fine-tuning gains nothing."""
    checked = 0
    for part in re.split(r"^\*\*", parts_of_results()[EXPERIMENTS["table2"].title], flags=re.MULTILINE):
        rows = re.findall(r"^\| ([\w-]+) \| .* \| (no gain|none|[\d.]+%[^|]*) \|.*$", part, re.MULTILINE)
        claims = re.findall(r"\*\*: The graft (?:keeps|is better)[^\n]*? of (\d+) comparisons", part)
        if rows and claims:
            assert {int(n) for n in claims} == {sum(size != "no gain" for _, size in rows)}, part[:80]
            checked += 1
    assert checked


def test_baselines_on_minilm_say_what_their_verdicts_say() -> None:
    text = page("research/baselines.md")
    lines = re.findall(r"^- (?:mrpc|sst2_sentences|trec), ([\d,]+) entries: (.*)$", text, re.MULTILINE)
    better, worse, open_ = (
        [line.partition(word)[2].partition(";")[0] for _, line in lines]
        for word in ("better than", "worse than", f"{NO_DIFFERENCE} from")
    )
    said, ahead = flat(text), sum("`movement`" in line for line in better)
    assert len(lines) == 9 and f"and of top movement in {WORDS[ahead]} of {WORDS[len(lines)]} comparisons" in said
    assert (
        "`localize-and-stitch` at any size" in said and "ahead of random draws and of the largest weights every" in said
    )
    assert [line for line in open_ if "`localize-and-stitch`" not in line] == []
    others = ("`random`", "`random-matched`", "`magnitude`")
    assert [line for line in better if not {*others} <= {*re.findall("`.*?`", line)}] == []
    sizes = [size for (size, _), line in zip(lines, worse, strict=True) if "LoRA" in line]
    assert Counter(sizes) == {"9,216": 3, "768": 1} and "on all three tasks at 0.1%" in said


def test_minilm_says_what_its_table_says() -> None:
    text = page("research/minilm.md").partition("<!-- others")[0]
    cell = r"([\d.]+) \(([\d.]+)–([\d.]+)\), plug-in [\d.]+"
    tuned = re.search(rf"^\| \*fine-tuned\* .*?\| {cell} \|", text, re.MULTILINE)
    found = re.findall(rf"^\| \*\*stagewise\*\* \| [\d,]+ \(([\d.]+%)\) .*?\| {cell} \|", text, re.MULTILINE)
    grafts = {share: tuple(map(float, ends)) for share, *ends in found}
    assert tuned and set(grafts) == {"0.01%", "0.032%", "0.1%", "1%"}
    value, low, _ = map(float, tuned.groups())
    assert "At 0.1% and 1% the calibration error of `stagewise` grafts is far below" in flat(text)
    assert all(grafts[share][2] < low for share in ("0.1%", "1%"))  # the intervals do not overlap
    assert "At 0.01% it is above it" in flat(text) and grafts["0.01%"][0] > value and grafts["0.032%"][0] < value


def test_parts_say_what_their_table_says() -> None:
    text = page("research/parts-and-slices.md")
    ((alone, left_out),) = re.findall(r"^\| \d+ cells \| .*?(\d+) hold\) .*; (\d+) hold \|$", text, re.MULTILINE)
    assert "Parts that help alone need not be necessary" in flat(text) and int(left_out) < int(alone)
