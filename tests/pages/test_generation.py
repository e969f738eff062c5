"""Runs of tasks whose answer is generated: every page opens, and says where confidence or classes are meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillviz.runs.store import Store
from skillviz.show.sentences import no_classes, no_confidence
from tests.pages.test_examples import use
from tests.pages.test_pages import RUN_PAGES, opened, told, with_tables, words

__all__ = ["use"]

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "v5"
SAYS = {
    "examples": ("By class", no_classes),
    "transfer": ("Other tasks cannot be scored", no_classes),
    "calibration": ("No calibration", no_confidence),
    "interpolation": ("Confidence at this point", no_confidence),
}


@pytest.fixture
def run_id(use: Callable[[Path], None]) -> str:
    """The frozen run of a task whose answer is generated, in the user's folder."""
    use(FROZEN)
    return next(run.id for run in Store(FROZEN).list() if run.record.generates)


@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_opens(name: str, run_id: str) -> None:
    run = Store(FROZEN).open(run_id)
    said = told(name, run, {page: (title, reason(run.record)) for page, (title, reason) in SAYS.items()})
    assert "ECE" not in said and "Temperature" not in said
    if name in ("overview", "sparsity"):
        assert "exact match" in said.casefold()


def test_an_area_of_confidence_is_forgotten(run_id: str) -> None:
    test = opened("examples", run=run_id, area="confidence_0.5_1_0_0.5")
    assert not test.exception and "area" not in test.query_params and "true class" not in words(test)


def test_a_phone_has_what_is_generated_without_a_number(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    wide = next(frame.value for frame in test.dataframe if "grafted generates" in frame.value)
    narrow = next(frame.value for frame in test.dataframe if "grafted" in frame.value)
    assert list(narrow) == ["example", "grafted", "fine-tuned"], "one label for all says nothing"
    assert narrow["grafted"].tolist() == wide["grafted generates"].tolist()
    assert "What each model generates." in words(test)


def test_what_each_model_generates_stands_beside_an_example(run_id: str) -> None:
    test = opened("examples", run=run_id, example="test-0")
    assert not test.exception and not test.error
    labels = {box.label for box in (*test.selectbox, *test.text_input, *test.toggle)}
    assert not labels & {"True class", "Look at", "Sentence", "Explain this prediction", "Show the complement"}
    said = words(test)
    assert said.count(" generates ") == 3 and "per token" in said and "By slice" in said
