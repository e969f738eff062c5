"""A study's table for the eye: order of columns, percent where a number is a share, titles of tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.studies.tables import TABLES, check, empty
from skillviz.ui import study_table, task_titles
from tests.studies.fake_tables import MADE, TASKS


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {name: check(made(TASKS, np.random.default_rng(0)), name) for name, made in MADE.items()}


def test_what_is_asked_first_stands_first_and_what_is_empty_last(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].assign(pooled_low=np.nan)
    order = study_table.columns(scores)
    assert sorted(order) == sorted(scores.columns)
    assert order[:6] == ["id_task", "task", "method", "localizer", "share", "metric"] and order[-1] == "pooled_low"
    assert order.index("mean") < order.index("base")
    own = study_table.columns(scores[scores["id_task"] == scores["task"]])
    assert own[0] == "task" and set(own[-2:]) == {"pooled_low", "id_task"}


def test_shares_are_in_percent_and_nats_stay(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    seen = study_table.shown(scores, "scores")
    is_nll = scores["metric"] == "nll"
    assert is_nll.any() and not is_nll.all()
    np.testing.assert_allclose(seen["mean"], scores["mean"] * np.where(is_nll, 1, 100))
    np.testing.assert_allclose(seen["share"], 100 * scores["share"])
    assert (seen["size"].dropna() == scores["size"].dropna()).all() and "nll is in nats" in study_table.aside(scores)


def test_a_table_without_a_metric_holds_shares(tables: dict[str, pd.DataFrame]) -> None:
    seen = study_table.shown(tables["overlap"], "overlap")
    for column in ("value", "low", "high", "chance"):
        np.testing.assert_allclose(seen[column], 100 * tables["overlap"][column])
    assert study_table.aside(tables["overlap"]) == "" and study_table.methods(tables["overlap"]) == []


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_every_table_is_headed(name: str) -> None:
    held = study_table.config(name)
    assert list(held) == [column.name for column in TABLES[name].columns]
    assert study_table.shown(empty(name), name).empty and len(study_table.columns(empty(name))) == len(held)


def test_percent_is_said_in_the_head_and_methods_are_explained(tables: dict[str, pd.DataFrame]) -> None:
    held = study_table.config("recovered")
    assert held["ece_ft_low"]["label"] == "ece_ft_low, %" and held["size"]["label"] == "size"
    assert study_table.config("scores")["mean"]["label"] == "mean, %"
    said = study_table.methods(tables["scores"])
    assert any(line.strip() == "- `graft`: graft of a searched region" for line in said)


def test_tasks_are_told_by_the_titles_of_their_files() -> None:
    said = task_titles.told(["cr", "film-sentiment", "unknown", "../cr", "cr"])
    assert said.count("**cr**: Customer reviews") == 1 and "**film-sentiment**: Films\\: praise or blame." in said
    assert "unknown" not in said and task_titles.told(["unknown"]) == ""
