"""A task's name for readers: of a built-in task, of a version of one, and of somebody's own."""

from __future__ import annotations

import pytest

from skillviz.tasks.readable_names import VERSIONS, readable_name
from skillviz.tasks.registry import TASKS


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("ag_news", "AG News"),
        ("sst2_sentences", "SST-2 sentences"),
        ("yelp_reviews", "Yelp reviews"),
        ("mnli_01", "MNLI without neutral"),
        *(
            (own, own)
            for own in ("film-sentiment", "film_sentiment", "COVID-19", "e-SNLI", "mr-bean", "cr-reviews", "_")
        ),
    ],
)
def test_a_name_is_readable(task: str, name: str) -> None:
    assert readable_name(task) == name


def test_no_two_built_in_tasks_are_called_the_same_and_none_by_its_id() -> None:
    names = {readable_name(task) for task in TASKS}
    assert len(names) == len(TASKS) and not names & set(VERSIONS.values()) and not names & set(TASKS)
