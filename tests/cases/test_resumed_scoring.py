"""Tests of work that goes on and finished work: a run cut during scoring resumes bit for bit, and what is finished is
kept and compared with its sources as same, different or unknown, never as "unchanged" when they cannot be read."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from skillviz.commands import finetune
from skillviz.core.encoded import Encoded
from skillviz.errors import DiskFull
from skillviz.runs import passes as scoring
from skillviz.runs.artifact import CURRENT, RunArtifact
from skillviz.runs.folder import RunFolder
from skillviz.runs.passes import FOLDER, Passes, digest
from skillviz.runs.produce import carry_on, produce
from skillviz.studies.step import SKIPPED, attempt
from skillviz.ui.pages.compare import Side, unlike
from tests.cases.build import (
    Comparison,
    Region,
    Run,
    RunSpec,
    Session,
    Store,
    task_file,
    tiny_pair,
    tiny_rows,
    tiny_task,
)
from tests.runs.tiny_world import spec_of as tiny_spec

TABLES = ("predictions", "curve", "complement", "interpolation", "interpolation_bins")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pair")
    base, finetuned = tiny_pair(folder, steps=20)
    task = task_file(folder / "own", tiny_rows(48), tiny_rows(24, seed=1))
    other = task_file(folder / "other", tiny_rows(8, seed=2), tiny_rows(20, seed=3))
    return {"base": str(base), "finetuned": str(finetuned), "task": str(task), "others": (str(other),)}


def spec_of(members: dict[str, Any], **changes: Any) -> RunSpec:
    fields = {"localizer": "movement", "sizes": ("5%", "2%"), "interpolation": True, "device": "cpu", **members}
    return RunSpec(**{**fields, **changes})


def cut(spec: RunSpec, store: Store, after: int, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return the folder of a run that was stopped after this many stored passes or paths of the grid."""
    real, kept = Passes.keep, itertools.count(1)

    def keep(self: Passes, scores: np.ndarray, *place: object) -> None:
        real(self, scores, *place)
        if next(kept) == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Passes, "keep", keep)
        produce(spec, store)
    (entry,) = store.unfinished()
    return RunFolder(entry.path)


def resumed(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, list[str]]:
    """Resume the run; return it and the states of the passes that were computed."""
    predict = Mock(side_effect=scoring.predict)
    folder.reopen()
    with monkeypatch.context() as patched:
        patched.setattr(scoring, "predict", predict)
        return carry_on(folder), [call.args[2] for call in predict.call_args_list]


# The run makes 4 passes of the two models, 4 of the main grafts, 4 on the other task, 2 and 2 of the second size, and
# three paths of the grid on two data sets.
@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("after", [3, 8, 11, 20])
def test_finished_passes_are_not_made_again(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    whole = produce(spec_of(members), Store(tmp_path / "whole"))
    run, made = resumed(cut(spec_of(members), Store(tmp_path / "cut"), after, monkeypatch), monkeypatch)
    assert len(made) == 16 - min(after, 16)
    found, wanted = (
        ([one.record.files[f"{name}.parquet"] for name in TABLES], one.record.metrics, one.record.transfers)
        for one in (run, whole)
    )
    assert found == wanted and run.region() == whole.region()
    assert [path.name for path in (run.path / "work").iterdir()] == ["log.txt"], "the scores are gone"


@pytest.mark.slow
@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("change", ["damaged", "other data", "other weights"])
def test_scores_of_something_else_are_made_again(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder = cut(spec_of(members), Store(tmp_path / "cut"), 8, monkeypatch)
    if change == "damaged":
        for path in (folder.work / FOLDER).iterdir():
            *content, last = path.read_bytes()
            path.write_bytes(bytes([*content, last ^ 1]))
    else:
        stamp = Passes.__init__

        def another(self: Passes, *given: Any, **named: Any) -> None:
            stamp(self, *given, **named)
            if self.stamp:
                key = "data" if change == "other data" else "finetuned"
                object.__setattr__(self, "stamp", {**self.stamp, key: "another"})

        monkeypatch.setattr(Passes, "__init__", another)
    run, made = resumed(folder, monkeypatch)
    assert len(made) == 16
    whole = produce(spec_of(members), Store(tmp_path / "whole"))
    assert run.record.files["predictions.parquet"] == whole.record.files["predictions.parquet"]


def test_a_kept_pass_belongs_to_its_examples(tmp_path: Path) -> None:
    def examples(*first: int, second: tuple[int, ...] = (3,)) -> Encoded:
        return Encoded(["a", "b"], [np.array(first), np.array(second)], np.array([0, 1]), 2)

    scores, place = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32), ("test", digest(examples(1, 2)), "grafted")
    passes = Passes(folder=tmp_path / FOLDER, stamp={"spec": "one"})
    passes.keep(scores, *place)
    found = passes.kept(2, *place)
    assert found is not None and found.dtype == np.float32 and np.array_equal(found, scores)
    others = {
        "another token": passes.kept(2, "test", digest(examples(7, 2)), "grafted"),
        "another length": passes.kept(2, "test", digest(examples(1, 2, 2)), "grafted"),
        "the same tokens, cut elsewhere": passes.kept(2, "test", digest(examples(1, second=(2, 3))), "grafted"),
        "another state": passes.kept(2, *place[:2], "complement"),
        "another stamp": Passes(folder=tmp_path / FOLDER, stamp={"spec": "two"}).kept(2, *place),
        "no folder": Passes().kept(2, "test"),
    }
    assert others == dict.fromkeys(others)


def test_a_full_disk_does_not_end_the_run(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "write_file", Mock(side_effect=DiskFull("no room")))
    spec = spec_of(members, interpolation=False, others=(), sizes=("5%",))
    assert produce(spec, Store(tmp_path / "runs")).record.status == "finished"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run, Store]:
    """Make a tiny pair with its task, and a finished run of it."""
    folder = tmp_path_factory.mktemp("sources")
    tiny_pair(folder)
    tiny_task(folder)
    store = Store(folder / "runs")
    return folder, produce(tiny_spec(folder), store), store


@pytest.mark.parametrize(
    ("source", "wanted", "why"),
    [
        ("test.jsonl", Comparison.SAME, ""),
        ("base/model.safetensors", Comparison.UNKNOWN, ""),
        ("finetuned/config.json", Comparison.UNKNOWN, ""),
        ("test.jsonl", Comparison.UNKNOWN, ""),
        ("test.jsonl", Comparison.DIFFERENT, "data"),
    ],
)
def test_an_unchanged_source_is_the_same_one_that_is_gone_unknown_and_a_changed_one_different(
    finished: tuple[Path, Run, Store], source: str, wanted: Comparison, why: str
) -> None:
    folder, run, store = finished
    file = folder / source
    before = file.read_bytes()
    if wanted is Comparison.UNKNOWN:
        file.unlink()
    elif wanted is Comparison.DIFFERENT:
        file.write_bytes(before.replace(b'"label": 0', b'"label": 1', 1))
    try:
        change = RunArtifact(run.spec).changes(run, store, Session())
    finally:
        file.write_bytes(before)
    is_same = wanted is Comparison.SAME
    assert (change.comparison, bool(change.why), change == CURRENT) == (wanted, not is_same, is_same)
    assert why in change.why


def with_record(run: Run, **changes: Any) -> Any:
    """Return a stand-in of the run with these fields of its record changed."""
    return SimpleNamespace(record=run.record.model_copy(update=changes), spec=changes.get("spec", run.spec))


def test_a_skipped_step_says_that_it_was_not_compared(finished: tuple[Path, Run, Store]) -> None:
    folder, run, store = finished
    gone = tiny_spec(folder).model_copy(update={"base": str(folder / "absent")})
    change = RunArtifact(gone).changes(with_record(run, spec=gone), store, Session())
    assert change.comparison is Comparison.UNKNOWN and "absent" in change.why
    assert attempt(lambda: (SKIPPED, change), workshop=None).change == change  # type: ignore[arg-type]


def test_a_region_without_a_base_is_noted(
    finished: tuple[Path, Run, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run, _ = finished
    Region(run.region().indices, run.region().shapes).save(tmp_path / "region.safetensors")
    notes: list[str] = []
    monkeypatch.setattr(finetune, "note", notes.append)
    finetune.check_bases(
        str(folder / "base"), [finetune.RegionSource("region.safetensors", tmp_path / "region.safetensors", None)]
    )
    assert len(notes) == 1 and "cannot be compared" in notes[0]


def test_runs_that_do_not_name_their_data_are_not_compared(finished: tuple[Path, Run, Store]) -> None:
    _, run, _ = finished
    one, two = (Side(name, SimpleNamespace(), run) for name in ("one", "two"))  # type: ignore[arg-type]
    task = run.record.task
    assert unlike(two, one) == "" and task is not None
    silent = with_record(run, task=task.model_copy(update={"fingerprint": ""}))
    assert "which data" in unlike(replace(two, run=silent), replace(one, run=silent))
