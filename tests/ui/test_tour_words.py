"""What the tour says: short, with the run's own numbers, and honest about its small world."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skillviz.runs.run import Run
from skillviz.show.glossary import GLOSSARY
from skillviz.tasks.demo_world import World, words
from skillviz.ui.pages.tour import steps as tour_words
from skillviz.ui.pages.tour.lesson import Lesson
from skillviz.ui.pages.tour.view import STEPS
from tests.demo_world.miniature import skilled, skilled_runs

__all__ = ["skilled", "skilled_runs"]

SENTENCE = re.compile(r"[.?!:]\W*(?= [A-Z*]|$)")


@pytest.fixture
def lesson(skilled: Run) -> Lesson:
    return Lesson(skilled, None)


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_says_at_most_four_short_sentences(number: int, lesson: Lesson) -> None:
    said = STEPS[number].says(lesson)
    found = [one for one in SENTENCE.split(said) if one.strip(" *")]
    assert 2 <= len(found) <= 5, found  # what is asked of the models counts as one more
    assert max(len(one.split()) for one in found) <= 32, found
    assert set(STEPS[number].words) <= set(GLOSSARY)


def test_there_are_seven_steps_at_most() -> None:
    assert 2 <= len(STEPS) <= 7 and len({step.title for step in STEPS}) == len(STEPS)


def test_the_toy_is_called_a_toy(lesson: Lesson) -> None:
    world = World(seed=0, vocabulary=1190, parameters={"base": 972_198})
    said = tour_words.toy_caption(Lesson(lesson.run, world))
    assert (
        "A toy: 1.0 million parameters, 1,190 words, sentences" in said
        and "A toy: sentences" in tour_words.toy_caption(lesson)
    )
    assert f"{lesson.record.d:,}" in tour_words.larger_share(lesson) and "85 million" in tour_words.larger_share(lesson)


def test_words_that_are_not_known_are_named() -> None:
    assert tour_words.unknown_words([]) == ""
    assert "“a\\*b”: the models read it as" in tour_words.unknown_words(["a*b"])
    assert "“a”, “b” and 2 more" not in tour_words.unknown_words(
        ["a", "b"]
    ) and "read them" in tour_words.unknown_words(["a", "b"])


def test_a_tokenizer_that_cannot_be_read_knows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    assert words(path) == frozenset()
    for broken in ("{", "[]", "{}", '{"model": {"vocab": null}}'):
        path.write_text(broken)
        assert words(path) == frozenset()
    path.write_text('{"model": {"vocab": {"film": 5}}}')
    assert words(path) == {"film"}
