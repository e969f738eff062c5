"""Check that one bad run never hides the others: a store with one damaged folder of every kind, read in every way."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skillviz import jobs
from skillviz.runs.doctor import mended
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.runs.store import Library, Store
from tests.fake_run import fake_run
from tests.reliability.engine import SMALL
from tests.reliability.mutations import NASTY, of_bytes, of_json

GOOD = 3
Damage = Callable[[Path, np.random.Generator], object]


def damaged(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of good runs beside a damaged one.

    It is a loss if a good run is not listed, the bad one has no reason, or a changed one counts as intact.
    """
    template = Store(work / "template")
    runs = [fake_run(template, seed=seed, **SMALL) for seed in range(GOOD + 1)]
    for index in range(number):
        draw = np.random.default_rng(index)
        store = Store(work / f"runs-{index}")
        shutil.copytree(template.root, store.root)
        name = list(DAMAGES)[index % len(DAMAGES)]
        DAMAGES[name](store.root / runs[0].id, draw)
        lost = _hidden(store, runs[0].id, [run.id for run in runs[1:]]) or _taken_for_whole(store, runs[0])
        if not lost:
            lost = _after_doctor(store, runs[0].id, [run.id for run in runs[1:]])
        yield f"{name}: {lost}" if lost else ""
        shutil.rmtree(store.root, ignore_errors=True)


def _after_doctor(store: Store, bad: str, good: list[str]) -> str:
    try:
        mended(store)
    except Exception as error:
        return f"runs doctor: {type(error).__name__}: {error}"
    lost = _hidden(store, bad, good)
    return f"after runs doctor: {lost}" if lost else ""


def _hidden(store: Store, bad: str, good: list[str]) -> str:
    try:
        listed = {run.id for run in store.list()}
        seen = [listed, {run.id for run in Library([store]).list()}]
        seen += [{job.name for job in jobs.list(store, finished=True, kind="run")}]
        reasons = {broken.path.name: broken.reason for broken in store.unreadable()}
        unfinished = {entry.path.name for entry in store.unfinished()}
    except Exception as error:
        return f"the list does not open: {type(error).__name__}: {error}"
    if missing := [name for names in seen for name in good if name not in names]:
        return f"{missing[0]} is not listed"
    if wrong := [reason for reason in reasons.values() if not reason.strip() or "\n" in reason]:
        return f"the reason is no sentence: {wrong[0]!r}"
    is_run = (store.root / bad / "run.json").is_file()
    return "the bad run is passed over" if is_run and bad not in {*reasons, *unfinished, *listed} else ""


def _taken_for_whole(store: Store, run: Run) -> str:
    """Return a loss if the run is listed as finished with changed values, and `runs verify` finds nothing."""
    for listed in store.list():
        if listed.id == run.id and _said(listed) != _said(run) and not store.verify(run.id):
            return "runs verify does not notice that run.json was changed"
    return ""


def _said(run: Run) -> RunRecord:
    """Return a record without its notes, which name the superfluous fields of a damaged record."""
    return run.record.model_copy(update={"notes": ()})


def _other_number(record: dict[str, Any], draw: np.random.Generator) -> None:
    scores = record["metrics"]["test"]["states"]
    state = sorted(scores)[int(draw.integers(len(scores)))]
    scores[state]["accuracy"]["value"] = float(draw.random())


def _json(change: Callable[[dict[str, Any], np.random.Generator], object]) -> Damage:
    def damage(path: Path, draw: np.random.Generator) -> None:
        record = json.loads((path / "run.json").read_text())
        change(record, draw)
        (path / "run.json").write_text(json.dumps(record))

    return damage


def _file(path: Path, draw: np.random.Generator) -> Path:
    return sorted(path.glob("*.parquet"))[int(draw.integers(4))]


def _replaced(make: Callable[[Path], object]) -> Damage:
    def damage(path: Path, draw: np.random.Generator) -> None:
        (path / "run.json").unlink()
        make(path / "run.json")

    return damage


def _mutated(mutation: Callable[[bytes, np.random.Generator], bytes]) -> Damage:
    def damage(path: Path, draw: np.random.Generator) -> None:
        (path / "run.json").write_bytes(mutation((path / "run.json").read_bytes(), draw))

    return damage


NO_FILE = {"sha256": "", "size": 1}
DAMAGES: dict[str, Damage] = {
    "mutated JSON": _mutated(of_json),
    "mutated bytes": _mutated(of_bytes),
    "empty run.json": lambda path, draw: (path / "run.json").write_bytes(b""),
    "another version": _json(lambda record, draw: record.update(layout=99)),
    "another number": _json(_other_number),
    "no version": _json(lambda record, draw: record.pop("layout")),
    "another id": _json(lambda record, draw: record.update(run_id=str(NASTY[int(draw.integers(len(NASTY)))]))),
    "strange files": _json(lambda record, draw: record.update(files={name: NO_FILE for name in ("../x", "\0")})),
    "strange date": _json(lambda record, draw: record.update(created=str(NASTY[int(draw.integers(len(NASTY)))]))),
    "a missing table": lambda path, draw: _file(path, draw).unlink(),
    "a shorter table": lambda path, draw: os.truncate(_file(path, draw), 10),
    "a table that is a folder": lambda path, draw: (lambda file: (file.unlink(), file.mkdir()))(_file(path, draw)),
    "a table that is a link to itself": lambda path, draw: (lambda f: (f.unlink(), f.symlink_to(f)))(_file(path, draw)),
    "run.json is a pipe": _replaced(lambda path: os.mkfifo(path)),
    "run.json is a device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "run.json is a link to itself": _replaced(lambda path: path.symlink_to(path)),
    "run.json is a folder": _replaced(lambda path: path.mkdir()),
    "a folder that links to itself": lambda path, draw: (shutil.rmtree(path), path.symlink_to(path)),
    "a name of no letters": lambda path, draw: path.rename(os.fsdecode(os.fsencode(path.parent) + b"/\xff\xfe")),
    "still running": _json(lambda record, draw: record.update(status="running")),
    "an unknown status": _json(lambda record, draw: record.update(status=str(NASTY[int(draw.integers(len(NASTY)))]))),
}  # fmt: skip
