"""Tests of the page of several tasks on an invented study: maps, any union, an empty state, and the address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.pages.test_pages import charts, opened, words
from tests.studies.fake_study import fake_study

FOUR = ("cr", "sst2_sentences", "qnli", "ag_news")


@pytest.fixture
def study(empty: Path) -> Path:
    """Return a study of Figure 8 in the user's folder, without runs."""
    return fake_study(empty, "figure8", tables=("overlap", "isolation", "gain", "stability", "scores", "note"))


def figure(test: Any, number: int) -> dict[str, Any]:
    return json.loads(charts(test)[number].proto.spec)


def test_maps_sentences_and_notes(study: Path) -> None:
    test = opened("tasks")
    assert not test.exception and not test.error and len(charts(test)) == 4
    said = words(test)
    assert "Related tasks share more" in said and "of the multi-task model's gain on its own task" in said
    assert "The union of CR and SST-2 sentences recovers" in said
    assert len([e for e in test.expander if e.label == "Table"]) == 4
    assert all(chart.proto.alt for chart in charts(test))


def test_choices_stand_in_the_address(study: Path) -> None:
    test = opened("tasks", kind="iou", regions="purified", union="qnli~ag_news")
    assert test.query_params["kind"] == "iou" and test.query_params["union"] == "qnli~ag_news"
    assert "(purified)" in json.dumps(figure(test, 1)["layout"]["yaxis"]["ticktext"])
    assert "The union of QNLI and AG News recovers" in words(test)


def test_tasks_of_one_family_stand_together(empty: Path) -> None:
    fake_study(empty, "figure8", tasks=FOUR)
    test = opened("tasks")
    names = figure(test, 0)["layout"]["yaxis"]["ticktext"]
    names = [name.replace("<br>", "") for name in names]
    assert abs(names.index("CR") - names.index("SST-2sentences")) == 1


def test_no_task_chosen_asks_for_one(study: Path) -> None:
    test = opened("tasks", union="none")
    assert not test.exception and "Choose one or more tasks" in words(test) and len(charts(test)) == 3


def test_the_region_of_one_task_stands_beside_the_others_own(study: Path) -> None:
    test = opened("tasks", union="sst2_sentences")
    assert not test.exception and "The region of SST-2 sentences recovers" in words(test)
    assert "outside it" in words(test)


def test_a_union_that_is_not_stored_says_what_makes_it(study: Path) -> None:
    test = opened("tasks", union="sst2_sentences~ag_news")
    assert not test.exception and len(charts(test)) == 3
    assert "This union is not stored" in words(test)
    assert any("study run" in code.value for code in test.code)


def test_a_study_without_gains_shows_the_regions(empty: Path) -> None:
    fake_study(empty, "figure8", tables=("overlap", "isolation", "note"))
    test = opened("tasks", union="sst2_sentences")
    assert not test.exception and len(charts(test)) == 1 and "need the weights" in words(test)


def test_without_a_study_the_command_is_shown(empty: Path) -> None:
    test = opened("tasks")
    assert not test.exception and not charts(test)
    assert any("reproduce figure8 --scale small" in code.value for code in test.code)


def without(study: Path, *tasks: str) -> None:
    """Make the gain undefined on these tasks, or on all."""
    path = study / "gain.parquet"
    table = pd.read_parquet(path)
    table.loc[table["task"].isin(tasks or table["task"]), ["value", "low", "high"]] = float("nan")
    table.to_parquet(path, index=False)


def test_without_any_gain_it_is_said_once_and_no_map_is_drawn(study: Path) -> None:
    without(study)
    test = opened("tasks")
    assert not test.exception and len(charts(test)) == 2, "shared entries and stability"
    said = words(test)
    assert said.count("No task has a gain") == 1 and "n/a" not in said
    assert "Any set of tasks" not in said and not test.get("pills")


def test_tasks_without_a_gain_are_left_out_and_named(study: Path) -> None:
    without(study, "sst2_sentences")
    test = opened("tasks", union="sst2_sentences~cr")
    assert not test.exception and len(charts(test)) == 4
    said = words(test)
    assert "Left out of the gains" in said and "n/a" not in said
    columns = figure(test, 1)["layout"]["xaxis"]["ticktext"]
    assert len(columns) == 3 and not any("SST-2" in name for name in columns)
    assert any("SST-2" in name for name in figure(test, 1)["layout"]["yaxis"]["ticktext"]), "its region gives others"
    assert "The union of CR and SST-2 sentences recovers **" in said
    assert not any("SST-2" in name for name in figure(test, 2)["layout"]["yaxis"]["ticktext"])
