"""Test that preflight, Launch and the run give the same list of notes on a pair, its data and its options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillviz.runs.plan import planned
from skillviz.runs.produce import produce
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library
from tests.cases.build import task_file, tiny_rows
from tests.cli.calls import call
from tests.tiny import tiny_pair

CASES = {
    "validation drawn from train": ({}, {}, ("the validation examples are train rows",)),
    "test rows that are train rows": ({"again": 5}, {}, (" of 45 test examples have the text of a training example",)),
    "an option that the localizer lacks": ({}, {"steps": 7}, ("has no steps; the value given is not used",)),
    "few rows of each split": ({}, {"max_test": 10, "k_shot": 8}, ("test: 10 of 40 rows",)),
    "a size that is an outcome": ({}, {"localizer": "learned", "steps": 2}, ("sets its own size",)),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    tiny_pair(folder, steps=5)
    return folder


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("case", CASES)
def test_every_surface_has_the_notes_of_the_run(case: str, pair: Path, tmp_path: Path) -> None:
    data, options, wanted = CASES[case]
    train, test = tiny_rows(64), tiny_rows(40, seed=1)
    kept = [{"text": f"{row['text']} once", "label": row["label"]} for row in test]
    task = task_file(tmp_path / "task", train, kept + train[: data.get("again", 0)])
    members = {"base": str(pair / "base"), "finetuned": str(pair / "finetuned"), "task": str(task), "device": "cpu"}
    spec = RunSpec(**{"localizer": "movement", "sizes": ("5%",), **members, **options})

    before = planned(spec, Session(), library()).notes
    for words in wanted:
        assert any(words in note for note in before), before
    stored = produce(spec, Store(tmp_path / "runs")).record.notes
    assert stored[: len(before)] == before
    later = stored[len(before) :]
    assert all(note.startswith("Learned mask") or "moved in fine-tuning" in note for note in later), later

    words = ["preflight", *(f"--{name}={value}" for name, value in members.items()), "--method", spec.localizer,
             "--size", "5%", *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()
             if name != "localizer"), "--runs-dir", tmp_path / "runs", "--json"]  # fmt: skip
    said = call(*words)
    assert tuple(said.json["notes"]) == before
    printed = " ".join(said.out[: said.out.index("{")].split())
    for note in before:
        assert " ".join(note.split()) in printed, json.dumps(note)
