"""Tests of missing intervals: without one, the verdict is *not measured*, never "no clear difference"."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from skillviz.analysis.observations import leak_sentences
from skillviz.core.metrics import METRICS, metric_row
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NO_DIFFERENCE, NOT_MEASURED
from skillviz.runs.record import Estimate, Scores, TransferNote
from skillviz.show import sentences, slices, surgery, transfer
from skillviz.show.comparisons import counted_rows
from skillviz.show.paper import evidence
from skillviz.studies.paper.claims import Comparison, StudyTables, Verdict, within
from skillviz.studies.paper.comparisons import less
from skillviz.ui import paper_words
from skillviz.ui.chip import SIGNS, chip_text, lead_words, verdict_line
from skillviz.ui.pages import continual, tasks
from skillviz.ui.pages.tour import questions
from tests.scripts import script
from tests.ui.test_chip import chips

NAN = float("nan")
BARE, OPEN = Estimate(value=-0.053), Estimate(value=-0.053, low=-0.12, high=0.02)


@pytest.mark.parametrize("metric", [name for name, row in METRICS.items() if row.better])
def test_every_metric_has_a_fourth_word(metric: str) -> None:
    verdict = metric_row(metric).verdict
    assert [verdict(*ends) for ends in ((None, None), (NAN, NAN), (None, 0.1), (-0.1, NAN))] == [NOT_MEASURED] * 4
    assert verdict(0.1, 0.1) == verdict(-0.1, -0.1) == NOT_MEASURED  # no width: one example, resampled
    assert verdict(0.0, 0.0) == verdict(-0.1, 0.1) == NO_DIFFERENCE  # the same predictions twice
    assert verdict(0.1, 0.2) in ("better", "worse")
    assert sentences.verdict(metric, None) == sentences.verdict(metric, BARE) == NOT_MEASURED


def test_it_has_a_chip_of_its_own() -> None:
    assert NOT_MEASURED in chip_text(NOT_MEASURED) and list(SIGNS.values()).count(SIGNS[NOT_MEASURED]) == 1


def scores(difference: Estimate | None) -> Scores:
    """Return scores of the graft and the fine-tuned model with their errors, and this difference if given."""
    states = {name: {"ece": Estimate(value=value)} for name, value in (("grafted", 0.018), ("finetuned", 0.071))}
    return Scores(n=9, states=states, differences={"ece": difference} if difference else {})


@pytest.mark.parametrize("difference", [BARE, None])
def test_the_sentence_on_calibration_claims_nothing(difference: Estimate | None) -> None:
    said = sentences.calibration(scores(difference))
    assert NOT_MEASURED in said and NO_DIFFERENCE not in said and "1.8%" in said
    measured = sentences.calibration(scores(OPEN))
    assert NO_DIFFERENCE in measured and NOT_MEASURED not in measured
    asked = questions.calibrated(scores(difference))
    assert asked.answer is None and NOT_MEASURED in asked.why  # no choice is marked as right
    assert questions.calibrated(scores(OPEN)).answer == questions.UNTOLD


def test_the_docs_table_of_calibration_says_it() -> None:
    """Regression: `−5.3, no clear difference` was shown without an interval."""
    tables = script("docs/results.py").results_tables
    row = {"ece_less_ft": -0.053, "ece_less_ft_debiased": NAN, "ece_less_ft_low": NAN, "ece_less_ft_high": NAN}
    assert tables._ece_less(row, "ft") == f"−5.3, {NOT_MEASURED}"
    known = {**row, "ece_less_ft_low": -0.1, "ece_less_ft_high": 0.02, "ece_less_ft_debiased": -0.05}
    assert tables._ece_less(known, "ft").endswith(NO_DIFFERENCE)


def test_the_docs_count_what_has_no_interval_apart() -> None:
    count = script("docs/results.py").headline_claims.counts([0.1, -0.2, -0.1, NAN], [0.2, -0.1, 0.1, NAN])
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
    verdict = Verdict("claim", comparisons)
    assert verdict.outcome == outcome
    bare = sum(not one.is_measured for one in comparisons)
    assert verdict.supporting + verdict.against + verdict.open + bare == len(comparisons)
    said = paper_words.support(verdict) if comparisons else paper_words.verdict_line(verdict)
    assert f"of {len(comparisons)} comparison" not in said or bare in (0, len(comparisons))
    if 0 < bare < len(comparisons):
        assert f"{bare} more " in said and NOT_MEASURED in said
    assert NOT_MEASURED in paper_words.verdict_counts([verdict]) or outcome != NOT_MEASURED


def test_an_interval_without_width_is_no_proof_of_equality() -> None:
    assert within(0.01, 0.01, 0.03) is None and within(0.0, 0.0, 0.03) is True and within(-0.01, 0.01, 0.03) is True


def test_the_figure_of_a_claim_marks_what_has_no_interval() -> None:
    rows = evidence(Verdict("claim", (one(None), BARE_ONE)), Verdict("claim", ()))
    assert rows["says"].tolist()[-2:] == ["leaves open", NOT_MEASURED]


def test_a_task_without_a_gain_does_not_count_for_a_claim_on_grafts() -> None:
    """Regression: "6 of 13" counted a task whose rows do not apply to grafts."""
    row = {
        "setting": "all", "readout": "", "recipe": "sgd", "variant": "", "localizer": "stagewise", "size": 1.0,
        "share": 0.01, "a": "graft", "b": "ft", "metric": "ece", "value": -0.1, "low": -0.2, "high": -0.05, "n": 100,
        "seeds": 3, "over": "", "debiased": -0.1,
    }  # fmt: skip
    differences = pd.DataFrame([{**row, "id_task": task, "task": task} for task in ("cr", "rte")])
    compare = less("graft", "ft", "ece", sign=-1)
    assert len(compare(StudyTables({"differences": differences}))) == 2
    gained = {"differences": differences, "recovered": pd.DataFrame({"id_task": ["cr"]})}
    assert [found.where for found in compare(StudyTables(gained))] == ["cr"]


def test_a_line_of_verdicts_names_what_was_not_measured() -> None:
    rows = pd.DataFrame(
        [("a", "accuracy", 0.2, 0.1, 0.3, None), ("b", "accuracy", 0.0, -0.1, 0.1, None)]
        + [(name, "accuracy", 0.1, NAN, NAN, None) for name in ("c", "d")],
        columns=["name", "metric", "value", "low", "high", "debiased"],
    )
    said = chips(verdict_line(rows, "accuracy"))
    assert f"**b** {NO_DIFFERENCE}; **c** and **d** {NOT_MEASURED}" in said
    assert f"**c** {NOT_MEASURED} +10.0 points (no interval)" in chips(lead_words(rows.iloc[2]))
    assert counted_rows(rows).endswith("2 more are not measured.")
    assert "not measured" not in counted_rows(rows.head(2))


def test_a_change_without_an_interval_is_neither_lost_nor_gained() -> None:
    row = {"task": "qnli", "at_end": 0.8, "value": -0.06, "low": NAN, "high": NAN}
    said = continual._change(row, "accuracy")
    assert NOT_MEASURED in said and "lost" not in said and "gained" not in said
    assert "**lost**" in continual._change({**row, "low": -0.1, "high": -0.02}, "accuracy")


def test_pairs_of_tasks_without_an_interval_are_counted_apart() -> None:
    rows = [(("a",), "b", 0.5, 0.2, 0.8), (("a",), "c", 0.4, NAN, NAN), (("b",), "a", -0.3, -0.5, -0.1)]
    gain = pd.DataFrame(rows, columns=["region_tasks", "task", "value", "low", "high"])
    said = tasks.transfer(gain, {(row[0][0], row[1]): tasks.RELATED for row in rows})
    assert "In 2 pairs of related tasks" in said
    assert f"helps the other in 1 and harms it in 1; 1 more {NOT_MEASURED}" in said


def note(difference: Estimate | None, dropped: int | None = 0) -> TransferNote:
    own = {"accuracy": Estimate(value=0.8)}
    differences = {"accuracy": difference} if difference else {}
    found = Scores(n=30, states={"grafted": own, "finetuned": own}, differences=differences)
    return TransferNote(name="cr", mapping={"no": "no"}, rows=30, dropped=dropped, scores=found)


def test_other_tasks_are_not_told_to_be_alike() -> None:
    assert transfer.findings([note(BARE)], "accuracy")[0][0] == NOT_MEASURED
    several = [note(OPEN)] * 4 + [note(BARE), note(None)]
    assert transfer.rest(several, "accuracy") == [f"3 more: {NO_DIFFERENCE} on 1, {NOT_MEASURED} on 2"]


def test_training_data_that_were_not_at_hand_leave_it_unknown_what_was_seen() -> None:
    assert "skipped (seen in training)" in transfer.counted(note(OPEN)) and "0 skipped" in transfer.counted(note(OPEN))
    unknown = transfer.counted(note(OPEN, dropped=None))
    assert "may have been seen in training" in unknown and "0 skipped (seen" not in unknown
    assert leak_sentences(note(OPEN), "sst2") == ()
    assert "not checked" in leak_sentences(note(OPEN, dropped=None), "sst2")[0]


def test_slices_too_small_for_an_interval_are_not_level() -> None:
    table = pd.DataFrame({"column": ["class"] * 2, "name": ["a", "b"], "n": [5, 6], "value": [-0.2, 0.1]})
    table = table.assign(low=NAN, high=NAN, verdict=[NOT_MEASURED] * 2)
    said = slices.finding(table, "accuracy")
    assert NOT_MEASURED in said and "neither worse nor better" not in said and "2 slices" in said


class Built:
    """A hand-built graft beside the run's region, with this difference between them."""

    def __init__(self, difference: Estimate) -> None:
        self.found = difference
        self.scores = {surgery.REGION: {"accuracy": Estimate(value=0.8)}}

    def difference(self, metric: str, task: Any, against: str = "") -> Estimate:
        return self.found


def test_a_region_built_by_hand_is_not_told_to_be_alike() -> None:
    task: Any = None
    assert NOT_MEASURED in surgery.compared(Built(BARE), task, "accuracy")  # type: ignore[arg-type]
    assert surgery.compared(Built(OPEN), task, "accuracy").startswith("No clear difference")  # type: ignore[arg-type]
