"""Runs of every version stay readable; those of later ones are refused in words."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.encoded import NO_OPTION
from skillviz.core.scores import probabilities
from skillviz.errors import CorruptRun, NewerSchema
from skillviz.runs.folder import RunFolder
from skillviz.runs.migrate import MIGRATIONS, SCHEMA_VERSION, migrated
from skillviz.runs.run import RECORD, stored_record
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.runs.tables import TABLES

FROZEN = Path(__file__).parent / "frozen"
OTHER_KINDS = {
    4: {"made-choice"}, 5: {"made-choice", "made-generation"},
    **dict.fromkeys((6, 7, 8, 9), {"made-choice", "made-generation", "made-likelihood"}),
}  # fmt: skip


def test_every_version_has_a_frozen_run() -> None:
    assert sorted(p.name for p in FROZEN.iterdir()) == [f"v{k}" for k in range(1, SCHEMA_VERSION + 1)]


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_frozen_run_is_read_whole(version: int, tmp_path: Path) -> None:
    store = Store(shutil.copytree(FROZEN / f"v{version}", tmp_path / "runs"))  # intervals are stored beside older runs
    runs = {run.record.task_name: run for run in store.list()}
    run = runs.pop("sst2")
    assert run.record.has_classes and set(runs) == OTHER_KINDS.get(version, set())
    assert store.verify(run.id) == []
    assert run.record.status == "finished" and run.labels == ("negative", "positive")
    assert len(run.predictions()) == 4 * (4 + 6)
    later = {"parts", "complement", "nulls"}  # parts lie beside a run; the others are empty in runs without them
    later |= {"interpolation_bins"} if version < 2 else set()  # a table that the version did not have
    assert all(len(getattr(run, name)()) for name in TABLES.keys() - later)
    sizes = run.interpolation().groupby("path")["size"]
    assert sizes.get_group("wise-ft").isna().all() and run.record.size in set(sizes.get_group("wise-graft"))
    assert run.datasets == (("sst2",) if version < 2 else ("sst2", "imdb"))
    assert run.cut(run.region().size) == run.region()
    assert run.record.metrics["test"].states["grafted"]["accuracy"].value is not None
    assert {"accuracy", "ece", "nll"} <= run.headline()["metrics"]["finetuned"].keys()


def test_a_frozen_run_of_options_is_read_whole(tmp_path: Path) -> None:
    runs = Store(shutil.copytree(FROZEN / "v4", tmp_path / "runs")).list()
    (run,) = [run for run in runs if not run.record.has_classes]
    assert run.record.task is not None and run.record.task.guessing("test") == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert run.record.task.majority == {} and run.labels == ("A", "B", "C")
    logits = run.logits("grafted")[2]
    absent = logits == NO_OPTION
    assert absent.any(axis=1).tolist() == [True, False] * 3 and (probabilities(logits)[absent] == 0).all()


def test_a_frozen_run_of_generated_texts_is_read_whole(tmp_path: Path) -> None:
    runs = Store(shutil.copytree(FROZEN / "v5", tmp_path / "runs")).list()
    (run,) = [run for run in runs if run.record.generates]
    assert Store(tmp_path / "runs").verify(run.id) == [] and run.record.temperature is None
    ids, labels, scores = run.logits("finetuned")
    rows = run.predictions().query("state == 'finetuned' and split == 'test'")
    assert rows["exact_match"].tolist() == (scores[:, 1] == 1).tolist() and set(labels) == {1}
    assert rows["tokens"].tolist() == (-scores[:, 3]).tolist() and rows["generated"].str.len().all()
    stored = run.record.metrics["test"].states["finetuned"]
    assert stored.keys() == {"exact_match", "perplexity"} and len(run.interpolation_bins()) == 0
    assert stored["exact_match"].value == rows["exact_match"].mean() and len(ids) == 6
    assert stored["perplexity"].value == pytest.approx(
        math.exp(-rows["log_likelihood"].sum() / rows["tokens"].sum()), rel=1e-6
    )


def test_a_frozen_run_of_references_is_read_whole(tmp_path: Path) -> None:
    """Nothing was generated: two columns stand for it, and no prediction is right or wrong."""
    runs = Store(shutil.copytree(FROZEN / "v6", tmp_path / "runs")).list()
    (run,) = [run for run in runs if run.record.has_reference and not run.record.generates]
    assert Store(tmp_path / "runs").verify(run.id) == [] and run.record.metric == "perplexity"
    rows = run.predictions().query("state == 'finetuned' and split == 'test'")
    assert {"log_likelihood", "tokens"} <= set(rows) and not {"exact_match", "generated"} & set(rows)
    scores = run.record.metrics["test"]
    assert scores.agreement is None and set(run.curve()["metric"]) == {"perplexity", "recovered"}
    value = {state: scores.states[state]["perplexity"].value for state in ("pretrained", "grafted", "finetuned")}
    assert value["finetuned"] == pytest.approx(math.exp(-rows["log_likelihood"].sum() / rows["tokens"].sum()), rel=1e-6)
    assert value["pretrained"] > value["finetuned"]
    pretrained, grafted, finetuned = (math.log(one) for one in value.values())
    assert scores.recovered.value == pytest.approx((pretrained - grafted) / (pretrained - finetuned), rel=1e-6)


def test_older_runs_are_of_tasks_with_classes() -> None:
    old = {"schema_version": 3, "task": {"name": "sst2"}}
    assert migrated(old)["task"] == {"name": "sst2", "kind": "classification"}
    assert (
        "task" not in migrated({"schema_version": 3}) and migrated({"schema_version": 3, "task": None})["task"] is None
    )


def test_a_migration_for_every_old_version() -> None:
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION))


def test_old_records_go_through_every_step_and_stay_as_they_were() -> None:
    steps = {1: lambda r: {**r, "b": r["a"] + 1}, 2: lambda r: {**r, "c": r["b"] + 1}}
    old = {"schema_version": 1, "a": 1}
    assert migrated(old, current=3, migrations=steps) == {"schema_version": 3, "a": 1, "b": 2, "c": 3}
    assert migrated({"schema_version": 2, "b": 5}, current=3, migrations=steps)["c"] == 6
    assert old == {"schema_version": 1, "a": 1}


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(NewerSchema, match="update skillviz"):
        migrated({"schema_version": SCHEMA_VERSION + 1})


@pytest.mark.parametrize("version", [None, "1", 0, -1, True, 1.0])
def test_a_record_without_a_version_is_not_ours(version: object) -> None:
    with pytest.raises(CorruptRun):
        migrated({"schema_version": version})


def objects(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every object of a record that has fields of its own, with its place."""
    keyed = {"seeds", "versions", "seconds", "options", "counts", "majority", "mapping"}  # by names of their own
    by_name = {"metrics", "states", "differences", "scaled_differences", "files"}  # to objects
    if isinstance(value, dict):
        inner = by_name & {*path[-1:]} or (len(path) > 1 and path[-2] == "states")
        if not inner:
            yield path, value
        for name, below in value.items():
            if name not in keyed:
                yield from objects(below, (*path, name))
    if isinstance(value, list):
        for number, below in enumerate(value):
            yield from objects(below, (*path, str(number)))


@pytest.fixture
def newest(tmp_path: Path) -> Store:
    (run,) = (FROZEN / f"v{SCHEMA_VERSION}").glob("sst2-*")
    shutil.copytree(run, tmp_path / "runs" / run.name)
    return Store(tmp_path / "runs")


def test_a_field_that_a_later_version_added_is_left_out_and_said_so_at_every_level(newest: Store) -> None:
    path = newest.folders()[0] / RECORD
    text = path.read_text()
    (run,) = newest.list()
    places = [".".join((*place, "surprise")) for place, _ in objects(json.loads(text))]
    kinds = {"surprise", "spec", "base", "task", "architecture", "metrics", "transfers", "checks", "files"}
    assert kinds <= {place.split(".")[0] for place in places} and len(places) > 30
    levels = {(place.split(".")[0], place.count(".")): number for number, place in enumerate(places)}
    for number in levels.values():
        place = places[number]
        content = json.loads(text)
        list(objects(content))[number][1]["surprise"] = {"of": ["a later version"]}
        path.write_text(json.dumps(content))
        (read,) = newest.list()
        *notes, note = read.record.notes
        assert read.record.model_copy(update={"notes": tuple(notes)}) == run.record, place
        assert place in note and ("Update skillviz" in note) == place.startswith("spec")
        assert newest.verify(run.id) == [] and len(read.predictions())
        assert stored_record(path.parent)[0] == run.record


def test_many_odd_names_make_a_short_note_of_one_line(newest: Store) -> None:
    path = newest.folders()[0] / RECORD
    content = json.loads(path.read_text()) | {f"{number}\nname" * 1000: number for number in range(1000)}
    path.write_text(json.dumps(content))
    note = newest.list()[0].record.notes[-1]
    assert len(note) < 600 and "\n" not in note and note.endswith("996 more.")


def test_an_unfinished_run_of_a_later_version_is_listed_and_neither_resumed_nor_rewritten(tmp_path: Path) -> None:
    folder = Store(tmp_path).create(RunSpec(base="a", finetuned="b", task="sst2"))
    folder.start()
    folder.cancel()
    path = folder.path / RECORD
    text = json.dumps(json.loads(path.read_text()) | {"surprise": 1})
    path.write_text(text)
    (entry,) = Store(tmp_path).unfinished()
    assert entry.record.status == "cancelled" and "surprise" in entry.record.notes[-1]
    with pytest.raises(NewerSchema, match="'surprise' .* Update skillviz to resume"):
        RunFolder(folder.path).reopen()
    path.write_text(text := text.replace("cancelled", "queued"))
    with pytest.raises(NewerSchema):
        RunFolder(folder.path).cancel()
    assert path.read_text() == text


def test_a_run_of_the_same_version_from_before_a_field_was_added_opens(newest: Store) -> None:
    written = json.loads((newest.folders()[0] / RECORD).read_text())
    assert not {"definition", "words"} & written["task"].keys()  # were added to version 3 after this run was frozen
    assert newest.list()[0].record.task.words == 0.0
