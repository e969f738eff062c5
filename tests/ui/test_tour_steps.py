"""The tour's steps: short texts with the run's own numbers, every word of the glossary that they explain."""

from __future__ import annotations

import re

import pytest

from skillviz.runs.run import Run
from skillviz.show.glossary import GLOSSARY
from skillviz.tasks.demo_world import World
from skillviz.ui.pages.tour import steps
from skillviz.ui.pages.tour.demo_run import DemoRun
from skillviz.ui.pages.tour.view import STEPS
from tests.demo_world.miniature import skilled, skilled_runs

__all__ = ["skilled", "skilled_runs"]

SENTENCE = re.compile(r"[.?!:]\W*(?= [A-Z*]|$)")


@pytest.fixture
def demo(skilled: Run) -> DemoRun:
    return DemoRun(skilled, None)


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_says_at_most_four_short_sentences(number: int, demo: DemoRun) -> None:
    sentences = [part for part in SENTENCE.split(STEPS[number].says(demo)) if part.strip(" *")]
    assert 2 <= len(sentences) <= 5, sentences  # what is asked of the models counts as one more
    assert max(len(sentence.split()) for sentence in sentences) <= 32, sentences
    assert set(STEPS[number].words) <= set(GLOSSARY)


def test_there_are_seven_steps_at_most() -> None:
    assert 2 <= len(STEPS) <= 7 and len({step.title for step in STEPS}) == len(STEPS)


def test_the_captions_have_the_worlds_and_the_runs_numbers(demo: DemoRun) -> None:
    world = World(seed=0, vocabulary=1190, parameters={"base": 972_198})
    caption = steps.toy_caption(DemoRun(demo.run, world))
    assert "1.0 million parameters" in caption and "1,190 words" in caption
    assert "parameters" not in steps.toy_caption(demo) and f"{demo.record.d:,}" in steps.larger_share(demo)


def test_words_that_are_not_known_are_named() -> None:
    assert steps.unknown_words([]) == ""
    assert "“a\\*b”" in steps.unknown_words(["a*b"]) and "“a” and “b”" in steps.unknown_words(["a", "b"])
