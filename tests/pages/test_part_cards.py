"""Tests of the region page's parts: the cost is shown, a real worker scores them on a click, then they are drawn."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.part_scores import CONTROL, DISJOINT, MINIMAL, REGIONS, SEARCHED, region_rows, store_parts
from skillviz.runs.store import PARTS, Store
from skillviz.runs.tables import score_matrix
from skillviz.ui.page_table import PAGES
from tests.analysis.test_subskills import DRAWS, predictions
from tests.live.conftest import lived, own_workers

__all__ = ["lived", "own_workers"]


def opened(**query: str) -> AppTest:
    """Return the page after its first script run, with these parameters in the address."""
    test = AppTest.from_file(str(PAGES["region"].path), default_timeout=300)
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


def button(test: AppTest):
    return next((b for b in test.button if b.label == "Score the parts"), None)


def words_of(test: AppTest) -> str:
    return "\n".join(str(p.value) for p in (*test.markdown, *test.caption, *test.warning, *test.info))


@pytest.fixture
def run(lived: Path, user_runs: Path) -> str:
    """Return the id of a tiny pair's run in the user's folder."""
    shutil.copytree(lived / "runs", user_runs)
    return Store(user_runs).list()[0].id


@pytest.mark.nightly
def test_parts_are_scored_on_request_and_kept(run: str, user_runs: Path) -> None:
    test = opened(run=run)
    assert not test.exception and "forward passes over" in words_of(test)
    assert "Not scored yet" in words_of(opened(run=run, view="effect"))
    before = len(test.get("plotly_chart"))
    button(test).click().run()
    assert not test.exception and (user_runs / PARTS / run / "cells").is_dir()
    assert len(test.get("plotly_chart")) == before + 3 and button(test) is None, "parts, and two of their sub-skills"
    assert "Alone, **layer" in words_of(test)
    again = opened(run=run, condition="without", effect="accuracy")
    assert "Without **layer" in words_of(again) and "accuracy" in words_of(again)
    on_the_map = opened(run=run, view="effect")
    assert not on_the_map.exception and len(on_the_map.get("plotly_chart")) == before + 3
    assert button(opened(run=run, parts="heads")) is not None
    assert Store(user_runs).verify(run) == []


@pytest.mark.slow
def test_without_the_models_it_says_what_is_missing(run: str, user_runs: Path, lived: Path) -> None:
    record = user_runs / run / "run.json"
    record.write_text(record.read_text().replace(str(lived / "base"), "/nowhere/base"))
    test = opened(run=run)
    button(test).click().run()
    assert not test.exception and "/nowhere/base" in words_of(test)
    assert not (user_runs / PARTS).exists()


@pytest.mark.slow
def test_subskills_are_shown_with_the_link_that_grafts_one_alone(run: str, user_runs: Path) -> None:
    assert "Sub-skills" not in words_of(opened(run=run))
    own = Store(user_runs).open(run)
    store_parts(
        Store(user_runs), own, predictions(names=own.labels), grouping="cells", split="test", draws=DRAWS,
        seed=0, seconds=1.0,
    )  # fmt: skip
    test = opened(run=run, subskill="2")
    assert not test.exception and "**2 sub-skills** beyond a random region's" in words_of(test)
    assert len(test.table) >= 2 and "are falls and left out" in words_of(test)
    (link,) = [one for one in test.get("page_link") if "sub-skill" in one.proto.label]
    assert f"run={run}" in link.proto.query_string and "intersection" in link.proto.query_string


@pytest.mark.slow
def test_other_regions_are_shown_once_they_are_stored_and_the_command_before(run: str, user_runs: Path) -> None:
    test = opened(run=run)
    assert not test.exception
    assert f"python -m skillviz regions {run} --find minimal" in "\n".join(code.value for code in test.code)
    own = Store(user_runs).open(run)
    flat = own.region().flat()
    ids = own.predictions().query("state == 'grafted' and split == 'test'")
    logits = np.stack([score_matrix(ids, own.labels)] * 2)
    rows = [
        region_rows(kind, 1, len(entries), [(SEARCHED, 0), (CONTROL, 1)], logits, ids["example_id"].tolist(),
                    ids["label"].to_numpy(), own.labels)
        for kind, entries in ((MINIMAL, flat[:5]), (DISJOINT, flat))
    ]  # fmt: skip
    store_parts(
        Store(user_runs), own, pd.concat(rows), grouping=REGIONS, split="test", draws=1, seed=0, seconds=1.0,
        entries={"minimal 1": flat[:5], "disjoint 1": flat},
        facts={"minimal 1": {"loss": 0.5, "loss_kept": 0.4}, "disjoint 1": {"seconds": 1.0}},
    )  # fmt: skip
    for view in ("density", MINIMAL, "roles"):
        shown = opened(run=run, view=view)
        assert not shown.exception and "of the region suffices" in words_of(shown)
    assert len(shown.table) >= 2
    assert [code.value for code in shown.code] == [f"python -m skillviz regions {run} --find adversarial"]
