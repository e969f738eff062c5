"""Tests of the region page's parts: the cost is shown, a real worker scores them on a click, then they are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.part_scores import CONTROL, DISJOINT, MINIMAL, REGIONS, SEARCHED, region_rows, store_parts
from skillviz.runs.run import Run
from skillviz.runs.store import PARTS, Store
from skillviz.runs.tables import score_matrix
from tests.analysis.test_subskills import DRAWS, predictions
from tests.ui.driven import charts, labels, lacks, links, opened, pressed, said

SCORE = "Score the parts"


@pytest.mark.nightly
def test_parts_are_scored_on_request_and_kept(alive: Run, user_runs: Path) -> None:
    test = opened("region", run=alive.id)
    assert "forward passes over" in said(test) and "Not scored yet" in said(
        opened("region", run=alive.id, view="effect")
    )
    before = len(charts(test))
    assert "Alone, **layer" in said(pressed(test, SCORE)) and (user_runs / PARTS / alive.id / "cells").is_dir()
    assert len(charts(test)) == before + 3 and SCORE not in labels(test), "parts, and two of their sub-skills"
    assert not lacks(
        said(opened("region", run=alive.id, condition="without", effect="accuracy")), "Without **layer", "accuracy"
    )
    assert len(charts(opened("region", run=alive.id, view="effect"))) == before + 3
    assert SCORE in labels(opened("region", run=alive.id, parts="heads")) and Store(user_runs).verify(alive.id) == []


@pytest.mark.slow
def test_without_the_models_it_says_what_is_missing(alive: Run, user_runs: Path, lived: Path) -> None:
    record = user_runs / alive.id / "run.json"
    record.write_text(record.read_text().replace(str(lived / "base"), "/nowhere/base"))
    assert "/nowhere/base" in said(pressed(opened("region", run=alive.id), SCORE)) and not (user_runs / PARTS).exists()


@pytest.mark.slow
def test_subskills_are_shown_with_the_link_that_grafts_one_alone(alive: Run, user_runs: Path) -> None:
    assert "Sub-skills" not in said(opened("region", run=alive.id))
    store_parts(
        Store(user_runs), alive, predictions(names=alive.labels), grouping="cells", split="test", draws=DRAWS,
        seed=0, seconds=1.0,
    )  # fmt: skip
    test = opened("region", run=alive.id, subskill="2")
    assert not lacks(said(test), "**2 sub-skills** beyond a random region's", "are falls and left out")
    (query,) = [query for label, query in links(test).items() if "sub-skill" in label]
    assert not lacks(query, f"run={alive.id}", "intersection") and len(test.table) >= 2


@pytest.mark.slow
def test_other_regions_are_shown_once_they_are_stored_and_the_command_before(alive: Run, user_runs: Path) -> None:
    assert f"python -m skillviz regions {alive.id} --find minimal" in said(opened("region", run=alive.id), "code")
    flat, ids = alive.region().flat(), alive.predictions().query("state == 'grafted' and split == 'test'")
    logits = np.stack([score_matrix(ids, alive.labels)] * 2)
    rows = [
        region_rows(kind, 1, len(entries), [(SEARCHED, 0), (CONTROL, 1)], logits, ids["example_id"].tolist(),
                    ids["label"].to_numpy(), alive.labels)
        for kind, entries in ((MINIMAL, flat[:5]), (DISJOINT, flat))
    ]  # fmt: skip
    store_parts(
        Store(user_runs), alive, pd.concat(rows), grouping=REGIONS, split="test", draws=1, seed=0, seconds=1.0,
        entries={"minimal 1": flat[:5], "disjoint 1": flat},
        facts={"minimal 1": {"loss": 0.5, "loss_kept": 0.4}, "disjoint 1": {"seconds": 1.0}},
    )  # fmt: skip
    for view in ("density", MINIMAL, "roles"):
        shown = opened("region", run=alive.id, view=view)
        assert "of the region suffices" in said(shown), view
    assert said(shown, "code") == f"python -m skillviz regions {alive.id} --find adversarial" and len(shown.table) >= 2
