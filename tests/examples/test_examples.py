"""Tests of examples: a license for every folder, pairs that are small, whole and described correctly, and built once,
resumably, from base and data."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.errors import BadInput
from skillviz.models import examples
from skillviz.models.examples import ExamplePair, example_bases, example_pairs
from skillviz.models.fetch import no_folder
from skillviz.models.finetune import training
from skillviz.models.preflight import preflight
from skillviz.runs import example_runs
from skillviz.runs.spec import key_in
from skillviz.tasks import project, registry
from skillviz.tasks.leaks import digests, whole_split
from skillviz.tasks.splits import load
from tests.cli.calls import done
from tests.refused import refuses
from tests.test_arrows import PROJECT
from tests.tiny import tiny_pair, tiny_task

EXAMPLES = PROJECT / "examples"
LICENSE = re.compile(r"\[(Apache-2\.0|MIT|CC BY(?:-SA)? [34]\.0)\]\((https://\S+|licenses/\S+)\)")


def rows() -> dict[str, list[str]]:
    """Return folder -> its cells in the tables of the notice."""
    lines = [line.strip("| ").split(" | ") for line in (EXAMPLES / "NOTICE.md").read_text("utf-8").splitlines()]
    return {cells[0].strip("`"): cells[1:] for cells in lines if cells[0].startswith("`")}


def folders(*kinds: str) -> list[str]:
    """Return the folders of these kinds, named like in the notice."""
    return sorted(f"{kind}/{folder.name}" for kind in kinds for folder in (EXAMPLES / kind).iterdir())


def test_the_notice_names_every_folder_and_no_other() -> None:
    assert sorted(rows()) == folders("models", "data", "pairs")


@pytest.mark.parametrize("folder", folders("models", "data"))
def test_a_folder_is_named_with_source_authors_license_and_changes(folder: str) -> None:
    source, authors, license, changed = rows()[folder]
    assert "](https://" in source and re.search(r"20\d\d", authors) and changed
    assert LICENSE.fullmatch(license)


@pytest.mark.parametrize("pair", [pair for pair in example_pairs() if pair.ships], ids=lambda pair: pair.name)
def test_a_pair_is_under_the_license_of_its_base_and_names_that_of_its_texts(pair: ExamplePair) -> None:
    base, license, trained_on = rows()[f"pairs/{pair.name}"]
    base, data = base.strip("`"), f"data/{Path(pair.task).stem}"
    of_texts = LICENSE.fullmatch(rows()[data][2])
    assert f"examples/{base}" == pair.base and license == rows()[base][2]
    assert of_texts is not None and trained_on == f"`{data}`, {of_texts[1]}"


def test_the_texts_of_licenses_are_carried() -> None:
    """Apache-2.0 and MIT require a copy of their text."""
    texts = {match[2] for cells in rows().values() for cell in cells if (match := LICENSE.fullmatch(cell))}
    kept = {text for text in texts if text.startswith("licenses/")}
    assert kept == {f"licenses/{path.name}" for path in (EXAMPLES / "licenses").iterdir()} and len(kept) == 2
    assert all((EXAMPLES / text).stat().st_size > 1000 for text in kept)


@pytest.mark.parametrize("path", sorted((EXAMPLES / "tasks").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_task_says_the_license_of_its_texts(path: Path) -> None:
    task = yaml.safe_load(path.read_text("utf-8"))
    given = [names if isinstance(names, list) else [names] for names in task["data"].values()]
    folders = {Path(name).parent.name for names in given for name in names}
    licenses = {re.match(r"\[(.*?)\]", rows()[f"data/{folder}"][2])[1] for folder in folders}
    assert len(licenses) == 1 and f"; {licenses.pop()} (examples/NOTICE.md)" in task["source"]


def test_the_merged_task_has_every_training_row_and_none_of_a_test_text() -> None:
    merged, parts = (
        [registry.task(f"examples/tasks/{name}.yaml") for name in names]
        for names in (("sentiment",), ("mr", "cr", "uci_yelp", "uci_amazon", "uci_imdb"))
    )
    found = load(merged[0])
    test = {text for task in parts[:2] for text in digests(whole_split(task, "test"))}
    every = [text for task in parts for text in digests(whole_split(task, "train" if task.has_training else "test"))]
    mine = [text for frame in (found.train, found.validation) for text in digests(frame)]
    assert set(digests(found.test)) == test and len(found.test) == 3995
    assert sorted(mine) == sorted(text for text in every if text not in test)
    assert len(every) - len(mine) == 4 and any("4 of 13,409 rows left out" in note for note in found.notes)


def test_the_guide_tells_the_number_of_examples_of_every_task() -> None:
    lines = (PROJECT / "docs" / "examples.md").read_text("utf-8").splitlines()
    cells = {line.split("`")[1]: line.strip("| ").split("|") for line in lines if re.match(r"\| `\w+` \|.*\d", line)}
    for folder in (EXAMPLES / "data").iterdir():
        files = [folder / f"{split}.jsonl" for split in ("train", "validation", "test")]
        assert [cell.strip() for cell in cells[folder.name][3:]] == [
            f"{len(file.read_text('utf-8').splitlines()):,}" if file.is_file() else "" for file in files
        ], folder.name


PAIRS = [pair for pair in example_pairs() if pair.ships and pair.is_built]
MOST = 32 * 2**20
OF_A_MACHINE = re.compile(r"(?<![\w.])/(home|tmp|work|root)/")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_it_is_small_licensed_and_opens_beside_its_base(pair: ExamplePair) -> None:
    folder = project.located(pair.finetuned)
    assert sum(file.stat().st_size for file in folder.iterdir()) < MOST
    license = example_bases()[pair.base].license.lower()
    assert f'license: "{license}"' in (folder / "README.md").read_text()
    record, task = json.loads((folder / "finetune.json").read_text()), registry.task(pair.task)
    assert (record["task"], record["labels"]) == (task.name, list(task.labels))
    check = preflight(pair.base, pair.finetuned, task)
    assert check.fits and check.d == record["d"]
    for file in folder.glob("*.*"):
        assert file.suffix == ".safetensors" or not OF_A_MACHINE.search(file.read_text()), file.name


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
    assert ([pair["built"] for pair in before["pairs"]], before["runs"]) == (
        [False],
        {"tiny-sgd/opening": None, "tiny-sgd/matched": None},
    )
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
    assert (listed(runs_dir), {path: path.stat().st_mtime_ns for path in runs_dir.rglob("*") if path.is_file()}) == (
        after,
        stamps,
    )


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
