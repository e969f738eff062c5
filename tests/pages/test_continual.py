"""Tests of the page of sequences on an invented study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pages.test_pages import charts, opened, words
from tests.studies.fake_study import fake_study


@pytest.fixture
def study(empty: Path) -> Path:
    """Return a study of Table 4 in the user's folder, without runs."""
    return fake_study(empty, "table4", tables=("stages", "scores", "differences", "note"))


def test_stages_and_what_was_lost(study: Path) -> None:
    test = opened("continual")
    assert not test.exception and not test.error and len(charts(test)) == 1
    said = words(test)
    assert "SST-2 sentences **lost** 16.0 points" in said
    assert "unchanged, prediction by prediction" in said and "SST-2 sentences" in said
    assert charts(test)[0].proto.alt.startswith("Accuracy by stage.")


def test_the_metric_stands_in_the_address(study: Path) -> None:
    test = opened("continual", metric="ece")
    assert test.query_params["metric"] == "ece" and "ECE since each task" in words(test)
    assert json.loads(charts(test)[0].proto.spec)["layout"]["yaxis"]["title"]["text"] == "debiased ECE, %"


def test_a_study_without_a_stage_shows_its_command(empty: Path) -> None:
    fake_study(empty, "table4", tables=("note",))
    test = opened("continual")
    assert not test.exception and not charts(test)
    assert "No stage of this study is finished" in words(test)
    assert any("study run" in code.value for code in test.code)


def test_without_a_study_the_command_is_shown(empty: Path) -> None:
    test = opened("continual")
    assert not test.exception and not charts(test)
    assert any("reproduce table4 --scale small" in code.value for code in test.code)
