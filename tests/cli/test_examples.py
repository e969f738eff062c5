"""Tests of `examples`: the shipped list, and building a pair and its runs from base and data, once and resumably."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.errors import BadInput
from skillviz.models import examples
from skillviz.models.fetch import no_folder
from skillviz.models.finetune import training
from skillviz.models.preflight import preflight
from skillviz.runs import example_runs
from skillviz.runs.spec import key_in
from skillviz.tasks import project, registry
from tests.cli.calls import done
from tests.refused import refuses
from tests.test_arrows import PROJECT
from tests.tiny import tiny_pair, tiny_task


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a checkout with one tiny example pair that is not built, and two runs of it."""
    base, _ = tiny_pair(tmp_path / "made")
    shutil.copytree(base, tmp_path / "examples" / "models" / "tiny")
    tiny_task(tmp_path / "examples" / "tasks")
    pair = {
        "name": "tiny-sgd", "title": "Tiny", "about": "A tiny pair.", "base": "examples/models/tiny",
        "task": "examples/tasks/task.yaml",
        "training": {"head": "linear", "steps": 6, "batch_size": 4, "lr": 0.04, "seed": 0},
    }  # fmt: skip
    table = {"bases": {"examples/models/tiny": {"hub": "some/tiny", "license": "MIT"}}, "pairs": [pair]}
    runs = {
        "opening": {"sizes": ["10%", "5%"], "steps": 2, "parts": {"cells": 8}},
        "matched": {"localizer": "random-matched", "region_of": "opening", "sizes": ["10%"]},
    }
    (tmp_path / "examples" / "examples.yaml").write_text(yaml.safe_dump(table))
    (tmp_path / "examples" / "runs.yaml").write_text(yaml.safe_dump({"tiny-sgd": runs}, sort_keys=False))
    (tmp_path / "pyproject.toml").write_text("[project]\nversion = '0'\n")
    monkeypatch.setattr(project, "PROJECT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listed(runs_dir: Path) -> dict[str, Any]:
    """Return the output of `examples list` as JSON."""
    return done("examples", "list", "--runs-dir", runs_dir, "--json").json


@pytest.mark.nightly
def test_a_pair_and_its_runs_are_built_once(world: Path) -> None:
    runs_dir = world / "runs"
    before = listed(runs_dir)
    assert [pair["built"] for pair in before["pairs"]] == [False]
    assert before["runs"] == {"tiny-sgd/opening": None, "tiny-sgd/matched": None}
    done("examples", "build", "--runs-dir", runs_dir, "--device", "cpu")
    folder = world / "examples" / "pairs" / "tiny-sgd"
    check = preflight(world / "examples" / "models" / "tiny", folder)
    assert check.fits and "stored without" in check.notes[0]
    card = (folder / "README.md").read_text()
    assert "some/tiny" in card and "MIT" in card and "python -m skillviz examples build --only tiny-sgd" in card
    assert not (world / "models" / "examples" / "whole" / "tiny-sgd").exists()
    after = listed(runs_dir)
    assert after["pairs"][0]["built"] and all(after["runs"].values())
    record = json.loads((runs_dir / after["runs"]["tiny-sgd/opening"] / "run.json").read_text())
    assert record["spec"]["finetuned"] == "examples/pairs/tiny-sgd" and record["spec"]["sizes"] == ["10%", "5%"]
    assert (runs_dir / "parts" / after["runs"]["tiny-sgd/opening"] / "cells").is_dir()
    stamps = {path: path.stat().st_mtime_ns for path in runs_dir.rglob("*") if path.is_file()}
    done("examples", "build", "--only", "tiny-sgd", "--runs-dir", runs_dir)
    assert listed(runs_dir) == after
    assert {path: path.stat().st_mtime_ns for path in runs_dir.rglob("*") if path.is_file()} == stamps


def test_an_interrupted_training_resumes(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    backward = training.Trainer.backward
    monkeypatch.setattr(training.Trainer, "backward", lambda self, step: (taken.append(step), backward(self, step))[1])

    def interrupt(record: training.TrainStep) -> None:
        if record.step == 3:
            raise KeyboardInterrupt

    (pair,) = examples.example_pairs()
    refuses(KeyboardInterrupt, None, example_runs.make_pair, pair, interrupt, "cpu")
    assert not pair.is_built
    example_runs.make_pair(pair, None, "cpu")
    assert taken == [1, 2, 3, 4, 5, 6] and pair.is_built, "no step is made twice"


def test_a_name_stands_for_what_it_needs(world: Path) -> None:
    pairs, (opening, matched) = example_runs.chosen(["tiny-sgd/matched"])
    assert [one.name for one in (*pairs, opening, matched)] == ["tiny-sgd", "tiny-sgd/opening", "tiny-sgd/matched"], (
        "the region that it matches"
    )
    assert key_in(matched.spec.options["reference"]) == opening.spec.key()
    refuses(BadInput, "'tiny' is not an example; known: tiny-sgd, tiny-sgd/opening", example_runs.chosen, ["tiny"])
    assert no_folder("examples/pairs/tiny-sgd").endswith("`python -m skillviz examples build --only tiny-sgd`.")


def test_the_tables_that_ship_can_be_built() -> None:
    pairs, runs = example_runs.chosen(())
    assert {run.pair.name for run in runs} == {pair.name for pair in pairs}
    for pair in pairs:
        pair.config().settings()
        assert (PROJECT / pair.base).is_dir() and registry.task(pair.task).has_training
        assert pair.base in examples.example_bases()
    assert all(registry.task(name) for run in runs for name in run.spec.others)
    assert {path.name for path in (PROJECT / examples.PAIRS).glob("*")} <= {
        pair.name for pair in pairs if pair.ships
    }, "a folder of examples/pairs has no row"
