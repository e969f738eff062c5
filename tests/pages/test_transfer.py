"""Tests of the transfer page: stored tasks at once, another one by a real worker with labels mapped by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.live.conftest import lived, own_workers
from tests.pages.scored_world import asked, pressed, scored, scored_world
from tests.pages.test_pages import charts, opened, words
from tests.visitor import confirmed


def bands(test: object) -> list[str]:
    """Return the tasks of the first chart, from the top."""
    return json.loads(charts(test)[0].proto.spec)["layout"]["yaxis"]["ticktext"]


def test_stored_tasks_are_there_at_once(ids: dict[str, str]) -> None:
    test = opened("transfer", run=ids["stagewise0"])
    assert not test.exception and bands(test) == ["SST-2", "IMDb"] and len(charts(test)) == 2
    assert "-badge[" in words(test) and "IMDb, zero-shot: accuracy **" in words(test)
    assert "**120 examples** scored · 12 skipped (seen in training) · 0 skipped (label not mapped)" in words(test)
    assert test.table[0].value["label here"].tolist() == ["negative", "positive"]
    assert any("--also imdb" in code.value for code in test.code)


def test_the_metric_stands_in_the_address(ids: dict[str, str]) -> None:
    test = opened("transfer", run=ids["stagewise0"], metric="nll")
    assert "IMDb, zero-shot: NLL **" in words(test) and test.query_params["metric"] == "nll"
    names = {trace["name"] for trace in json.loads(charts(test)[0].proto.spec)["data"]}
    assert "temperature-scaled" in names and "chance" not in names
    accuracy = json.loads(charts(opened("transfer", run=ids["stagewise0"]))[0].proto.spec)["data"]
    assert "temperature-scaled" not in {trace["name"] for trace in accuracy}


def test_a_run_on_its_own_task_alone_says_so(ids: dict[str, str]) -> None:
    test = opened("transfer", run=ids["paraphrase"])
    assert not test.exception and not charts(test) and "No other task scored yet" in words(test)
    assert "its own task alone" in words(test) and any("--also TASK" in code.value for code in test.code)
    assert [box.label for box in test.selectbox].count("Score another task now") == 1


def test_without_weights_the_stored_ones_stay(ids: dict[str, str]) -> None:
    test = opened("transfer", run=ids["stagewise0"], also="yelp")
    assert not test.exception and bands(test) == ["SST-2", "IMDb"]
    assert len(test.warning) == 1 and "demo/tiny-base" in words(test)


@pytest.mark.parametrize("name", ["no-such-task", "~nobody-is-called-so", "x" * 280])
def test_what_is_no_task_is_explained(ids: dict[str, str], name: str) -> None:
    test = opened("transfer", run=ids["stagewise0"], also=name)
    assert not test.exception and "is not a task" in test.warning[0].value and len(charts(test)) == 2


@pytest.mark.nightly
@pytest.mark.usefixtures("own_workers")
def test_another_task_is_asked_of_the_models(scored: str, scored_world: Path) -> None:
    test = asked("transfer", run=scored)
    offered = next(box for box in test.selectbox if box.label == "Score another task now").options
    assert offered[0] == "far" and not any(name.startswith("near") for name in offered)
    live = asked("transfer", run=scored, also=str(scored_world / "far.yaml"))
    assert bands(live) == ["tiny", "near"], "nothing is computed on opening"
    pressed(live, "Score this task")
    assert not live.exception and not live.warning, [w.value for w in live.warning]
    assert bands(live) == ["tiny", "near", "far"] and "Computed live on far" in words(live)
    assert "**40 examples** scored" in words(live) and "2 comparisons" in words(live)


@pytest.mark.nightly
@pytest.mark.usefixtures("own_workers")
def test_labels_of_other_names_are_mapped_by_the_reader(scored: str, scored_world: Path, tmp_path: Path) -> None:
    told = yaml.safe_load((scored_world / "far.yaml").read_text())
    data = {split: str(scored_world / file) for split, file in told["data"].items()}
    other = tmp_path / "strange.yaml"
    other.write_text(yaml.safe_dump({**told, "name": "strange", "labels": ["bad", "good"], "data": data}))
    test = asked("transfer", run=scored, also=str(other))
    confirmed(test)
    assert not test.exception and "Choose above which label" in test.info[0].value and bands(test) == ["tiny", "near"]
    boxes = {box.label: box for box in test.selectbox}
    boxes["good"].select("class-great").run()
    pressed(test, "Score this task")
    assert bands(test) == ["tiny", "near", "strange"] and test.query_params["map.strange.good"] == "class-great"
    assert "20 skipped (label not mapped)" in words(test)
