"""Tests of the tour's steps: short texts with the run's own numbers, and the glossary's words that they explain."""

from __future__ import annotations

import re

import pytest

from skillviz.runs.run import Run
from skillviz.show.glossary import GLOSSARY
from skillviz.ui.pages.tour import steps
from skillviz.ui.pages.tour.steps import OpeningRun
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.tour_runs import skilled, skilled_runs

__all__ = ["skilled", "skilled_runs"]

SENTENCE = re.compile(r"[.?!:]\W*(?= [A-Z*]|$)")


@pytest.fixture
def opening(skilled: Run) -> OpeningRun:
    return OpeningRun(skilled)


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_says_at_most_four_short_sentences(number: int, opening: OpeningRun) -> None:
    sentences = [part for part in SENTENCE.split(STEPS[number].says(opening)) if part.strip(" *")]
    assert 2 <= len(sentences) <= 5, sentences  # the live control adds one
    assert max(len(sentence.split()) for sentence in sentences) <= 32, sentences
    assert set(STEPS[number].words) <= set(GLOSSARY)


def test_there_are_eight_steps_at_most() -> None:
    assert 2 <= len(STEPS) <= 8 and len({step.title for step in STEPS}) == len(STEPS)


def test_the_captions_have_the_runs_numbers(opening: OpeningRun) -> None:
    assert f"{opening.record.d:,}" in steps.text_paper(opening)
    assert opening.other is not None and f"{opening.other.scores.n:,} sentences" in steps.text_other(opening.other)
    none, some = (opening.other.model_copy(update={"dropped": count}) for count in (None, 4))
    assert "4 left out" in steps.text_other(some) and "left out" not in steps.text_other(none)
    assert steps.text_source(opening) == "", "its task's file is not here"
