"""Tests of a task's readable name: built-in tasks, versions of them, and a user's own."""

from __future__ import annotations

import pytest

from skillviz.tasks.readable_names import SHIPPED, readable, readable_name
from skillviz.tasks.registry import TASKS


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("ag_news", "AG News"),
        ("sst2_sentences", "SST-2 sentences"),
        ("yelp_reviews", "Yelp reviews"),
        ("mnli_01", "MNLI without neutral"),
        *((own, own) for own in ("film-reviews", "film_reviews", "COVID-19", "e-SNLI", "mr-bean", "cr-reviews", "_")),
    ],
)
def test_a_name_is_readable(task: str, name: str) -> None:
    assert readable_name(task) == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cr + film-reviews", "CR + film-reviews"),
        ("sst2_sentences+cr (multi-task, seed 0)", "SST-2 sentences+CR (multi-task, seed 0)"),
        ("qnli to mnli_01, computed live", "QNLI to MNLI without neutral, computed live"),
        ("no share of a gain is told on rte: it gains nothing", "no share of a gain is told on RTE: it gains nothing"),
        *((own, own) for own in ("mr-bean", "my_cr", "data/cr", "cr.yaml", "cr:2", "org/sst2@cr", "--cr", "`cr`")),
    ],
)
def test_words_name_tasks_readably_and_leave_files_options_and_own_names(words: str, said: str) -> None:
    assert readable(words) == said


def test_no_two_built_in_tasks_are_called_the_same_and_none_by_its_id() -> None:
    names = {readable_name(task) for task in TASKS}
    assert len(names) == len(TASKS) and not names & set(SHIPPED.values()) and not names & set(TASKS)
