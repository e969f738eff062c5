"""Tests of runs whose examples have their own options: every page opens, and explains classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillviz.runs.store import Store, store_root
from skillviz.show.sentences import no_classes
from skillviz.tasks.task import CHOICE
from tests.fake_run import SMALL, fake_run
from tests.pages.test_examples import use
from tests.pages.test_pages import RUN_PAGES, charts, opened, told, with_tables, words

__all__ = ["use"]

SAYS = {"examples": "By class", "transfer": "Other tasks cannot be scored"}


@pytest.fixture
def run_id(use: Callable[[Path], None], tmp_path: Path) -> str:
    """Make a run of a multiple-choice task in the user's folder."""
    use(tmp_path)
    kind = {"task": "made-choice", "kind": CHOICE, "labels": ("A", "B", "C")}
    return fake_run(Store(tmp_path), interpolation=True, **kind, **SMALL).id


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_opens(name: str, run_id: str) -> None:
    run = Store(store_root()).open(run_id)
    told(name, run, {page: (title, no_classes(run.record)) for page, title in SAYS.items()})


def test_what_is_right_is_an_option_in_table_figures_and_captions(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    assert "Confidence in the right option, %." in words(test) and "Confidence by option" in words(test)
    drawn = [chart.proto.spec for chart in charts(test)]
    assert any("right option, %" in spec for spec in drawn) and not any("true class" in spec for spec in drawn)
    assert any("grafted: right option" in frame.value for frame in test.dataframe)


def test_a_marked_area_is_of_the_right_option(run_id: str) -> None:
    said = words(opened("examples", run=run_id, area="confidence_0_0.5_0_0.5"))
    assert "confidence in the right option, fine-tuned" in said and "true class" not in said


def test_no_other_task_is_asked_for_where_labels_are_no_classes(run_id: str) -> None:
    test = opened("interpolation", run=run_id)
    said = words(test) + "".join(code.value for code in test.code)
    assert "--interpolation" in said and "--also" not in said and "No other task" not in said


def test_classes_are_offered_nowhere_among_the_examples(run_id: str) -> None:
    test = opened("examples", run=run_id, label="B", look="typed")
    assert not test.exception and not test.error
    labels = {box.label for box in (*test.selectbox, *test.text_input, *test.toggle)}
    assert not labels & {"True class", "Look at", "Sentence", "Explain this prediction", "Show the complement"}
    assert "right option" in words(test) and "By slice" in words(test)
