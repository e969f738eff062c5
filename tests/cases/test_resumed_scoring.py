"""Tests of a run cut during scoring: it resumes bit for bit, and scores with another stamp are not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.core.encoded import Encoded
from skillviz.runs import passes as scoring
from skillviz.runs.folder import RunFolder
from skillviz.runs.passes import FOLDER, Passes, digest
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.cases.build import task_file, tiny_rows
from tests.tiny import tiny_pair

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
    kept = 0
    real = Passes.keep

    def keep(self: Passes, scores: np.ndarray, *place: object) -> None:
        nonlocal kept
        real(self, scores, *place)
        kept += 1
        if kept == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Passes, "keep", keep)
        produce(spec, store)
    (entry,) = store.unfinished()
    return RunFolder(entry.path)


def resumed(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, list[str]]:
    """Resume the run; return it and the states of the passes that were computed."""
    made: list[str] = []
    real = scoring.predict

    def predict(pair: Any, encoded: Encoded, state: str, *others: Any, **named: Any) -> np.ndarray:
        made.append(state)
        return real(pair, encoded, state, *others, **named)

    folder.reopen()
    with monkeypatch.context() as patched:
        patched.setattr(scoring, "predict", predict)
        return carry_on(folder), made


# The run makes 4 passes of the two models, 4 of the main grafts, 4 on the other task, 2 and 2 of the second size, and
# three paths of the grid on two data sets.
@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("after", [3, 8, 11, 20])
def test_finished_passes_are_not_made_again(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    whole = produce(spec_of(members), Store(tmp_path / "whole"))
    folder = cut(spec_of(members), Store(tmp_path / "cut"), after, monkeypatch)
    run, made = resumed(folder, monkeypatch)
    assert len(made) == 16 - min(after, 16)
    for name in TABLES:
        assert run.record.files[f"{name}.parquet"] == whole.record.files[f"{name}.parquet"], name
    assert run.record.metrics == whole.record.metrics and run.record.transfers == whole.record.transfers
    assert run.region() == whole.region()
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
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(bytes(content))
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
    def examples(*first: int) -> Encoded:
        return Encoded(["a", "b"], [np.array([*first, 2]), np.array([3])], np.array([0, 1]), 2)

    scores = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32)
    passes = Passes(folder=tmp_path / FOLDER, stamp={"spec": "one"})
    passes.keep(scores, "test", digest(examples(1)), "grafted")
    found = passes.kept(2, "test", digest(examples(1)), "grafted")
    assert found is not None and found.dtype == np.float32 and np.array_equal(found, scores)
    assert passes.kept(2, "test", digest(examples(7)), "grafted") is None, "another token"
    assert passes.kept(2, "test", digest(examples(1, 2)), "grafted") is None, "another length"
    assert passes.kept(2, "test", digest(examples(1)), "complement") is None
    assert (
        Passes(folder=tmp_path / FOLDER, stamp={"spec": "two"}).kept(2, "test", digest(examples(1)), "grafted") is None
    )
    assert Passes().kept(2, "test") is None, "nothing is kept without a folder"


def test_a_full_disk_does_not_end_the_run(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillviz.errors import DiskFull

    def full(path: Path, write: Any) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr(scoring, "write_file", full)
    told: list[Progress] = []
    spec = spec_of(members, interpolation=False, others=(), sizes=("5%",))
    assert produce(spec, Store(tmp_path / "runs"), told.append).record.status == "finished"
