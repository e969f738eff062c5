"""Tests of a search that matches outputs on the training texts of another task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from skillviz.errors import BadData, BadInput, UnknownTask
from skillviz.runs.plan import planned
from skillviz.runs.produce import produce, searched_data
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Library, Store
from tests.runs.tiny_world import spec_of
from tests.tiny import tiny_task


def rows_of(world: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (world / f"{split}.jsonl").read_text().splitlines()]


def other_task(folder: Path, rows: list[dict[str, Any]]) -> str:
    """Return the file of a task of three labels of its own with these training rows, all of its first label."""
    folder.mkdir()
    for split in ("train", "test"):
        lines = [json.dumps({**row, "label": 0}) for row in rows]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    data = {split: f"{split}.jsonl" for split in ("train", "test")}
    task = {"name": "elsewhere", "data": data, "text": ["text"], "label": "label", "labels": ["a", "b", "c"]}
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    return str(folder / "task.yaml")


def matched(world: Path, **options: Any) -> RunSpec:
    options = {"match": "outputs", **options}
    return spec_of(world, localizer="stagewise", steps=3, batch_size=16, options=options, nulls="shuffled")


def test_the_search_sees_the_other_task_s_texts_alone_and_none_that_is_held_out(world: Path, tmp_path: Path) -> None:
    train, test = rows_of(world, "train"), rows_of(world, "test")
    held = {row["text"] for split in ("validation", "test") for row in rows_of(world, split)}
    fresh = [row for row in train if row["text"] not in held]
    elsewhere = other_task(tmp_path / "elsewhere", [*fresh[:20], *test[:2]])
    spec, session = matched(world, texts=elsewhere), Session()
    plan = planned(spec, session, Library(()))
    assert any("20 training texts of elsewhere and no label" in n and "; 2 that " in n for n in plan.notes)
    data, own = searched_data(plan, session), session.encoded(spec)
    wanted = [own["train"].input_ids[train.index(row)] for row in fresh[:20]]
    assert all(map(np.array_equal, data["train"].input_ids, wanted)) and len(data["train"]) == len(wanted)
    assert data["test"] is own["test"] and data["train"].targets.shape == (20, 2)
    run = produce(spec, Store(tmp_path / "runs"))
    assert run.record.nulls and plan.texts.note in run.record.notes


def test_the_same_texts_give_the_same_region_whatever_their_labels(world: Path, tmp_path: Path) -> None:
    elsewhere = other_task(tmp_path / "elsewhere", rows_of(world, "train"))
    store = Store(tmp_path / "runs")
    own, other = (produce(spec, store).region() for spec in (matched(world), matched(world, texts=elsewhere)))
    assert own == other, "no training text is held out here"
    half = other_task(tmp_path / "half", rows_of(world, "train")[:32])
    assert produce(matched(world, texts=half), store).region() != own, "other texts, another region"


@pytest.mark.parametrize(
    ("change", "error", "facts"),
    [
        ({"match": "labels"}, BadInput, ("texts", "match=outputs")),
        ({"texts": "no-such-task"}, UnknownTask, ("no-such-task",)),
        ({"texts": "PAIRS"}, BadInput, ("tiny-pair", "number of texts")),
        ({"texts": "TEST"}, BadData, ("elsewhere", "held out")),
    ],
    ids=["with labels", "unknown task", "two texts", "nothing left"],
)
def test_texts_that_cannot_be_searched_are_refused_before_there_is_a_folder(
    world: Path, tmp_path: Path, change: dict[str, str], error: type[Exception], facts: tuple[str, ...]
) -> None:
    named = {
        "PAIRS": lambda: str(tiny_task(tmp_path / "pairs", pair=True)),
        "TEST": lambda: other_task(tmp_path / "elsewhere", rows_of(world, "test")),
    }
    texts = change.get("texts", "TEST")
    options = {**change, "texts": named.get(texts, lambda: texts)()}
    store = Store(tmp_path / "runs")
    with pytest.raises(error) as refused:
        produce(matched(world, **options), store)
    assert all(fact in str(refused.value) for fact in facts)
    assert not store.list() and not store.unfinished()


def test_a_relative_path_means_the_same_from_any_folder(world: Path, tmp_path: Path) -> None:
    elsewhere = other_task(tmp_path / "elsewhere", rows_of(world, "train"))
    spec = matched(world, texts="elsewhere/task.yaml").anchored(tmp_path)
    assert spec.options["texts"] == elsewhere and f'texts="{elsewhere}"' in spec.command()
