"""Tests of the words for each kind of task: no kind uses another's words, and all offer the same cases and orders."""

from __future__ import annotations

import pytest

from skillviz.plots.examples import FACTORS
from skillviz.show.example_table import CLASSES, OPTIONS, TEXTS, AnswerWords, Filters, passing
from tests.show.test_example_area import TABLE


def said(answers: AnswerWords) -> str:
    measures = [word for measure in answers.measures.values() for word in measure]
    return " ".join([answers.right, answers.one, *measures, *answers.cases.values(), *answers.sorts.values()])


@pytest.mark.parametrize(
    ("answers", "own", "foreign"),
    [
        (CLASSES, "true class", ("option", "reference", "token")),
        (OPTIONS, "right option", ("class", "reference", "token")),
        (TEXTS, "reference", ("class", "option", "confiden")),
    ],
)
def test_a_kind_of_task_is_told_in_its_own_words(answers: AnswerWords, own: str, foreign: tuple[str, ...]) -> None:
    words = said(answers)
    assert own in words and not [word for word in foreign if word in words]
    assert set(answers.cases) == set(CLASSES.cases) and set(answers.sorts) == set(CLASSES.sorts)
    assert set(answers.measures) <= set(FACTORS)


def test_every_case_is_one_that_examples_can_be_filtered_by() -> None:
    table = TABLE.assign(grafted_says="a", finetuned_says="b", moved=[0.1, 0.2, 0.3, 0.4])
    kept = {case: int(passing(table, Filters(case)).sum()) for case in CLASSES.cases}
    assert kept == {"all": 4, "differ": 4, "finetuned": 1, "grafted": 0, "neither": 1, "moved": 1}
