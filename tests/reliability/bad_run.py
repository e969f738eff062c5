"""Check that one bad run never hides the others: a store with one damaged folder of every kind, read in every way.

A store may also have a link out of it, as a copied store does: no repair, resume or deletion may follow the link.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from skillviz import jobs
from skillviz.errors import SkillvizError
from skillviz.runs.doctor import QUARANTINE, mended
from skillviz.runs.folder import WORK, RunFolder
from skillviz.runs.record import Failure, RunRecord
from skillviz.runs.run import Run
from skillviz.runs.store import PARTS, Library, Store
from tests.fake_run import fake_run
from tests.reliability.engine import SMALL
from tests.reliability.mutations import NASTY, Mutation, of_bytes, of_json
from tests.serving.test_read_only import contents

GOOD = 3
Damage = Callable[[Path, np.random.Generator], object]


def damaged(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of good runs beside a damaged one.

    It is a loss if a good run is not listed, the bad one has no reason, or a changed one counts as intact.
    """
    template = Store(work / "template")
    runs = [fake_run(template, seed=seed, **SMALL) for seed in range(GOOD + 1)]
    for index in range(number):
        draw, store = np.random.default_rng(index), Store(work / f"runs-{index}")
        shutil.copytree(template.root, store.root)
        name = list(DAMAGES)[index % len(DAMAGES)]
        DAMAGES[name](store.root / runs[0].id, draw)
        bad, good = runs[0], [run.id for run in runs[1:]]
        lost = _hidden(store, bad.id, good) or _taken_for_whole(store, bad) or _after_doctor(store, bad.id, good)
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
        of_jobs = {job.name for job in jobs.list(store, finished=True, kind="run")}
        seen = [listed, {run.id for run in Library([store]).list()}, of_jobs]
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
    scores[sorted(scores)[int(draw.integers(len(scores)))]]["accuracy"]["value"] = float(draw.random())


def _changed(
    change: Callable[[dict[str, Any], np.random.Generator], object], path: Path, draw: np.random.Generator
) -> None:
    record = json.loads((path / "run.json").read_text())
    change(record, draw)
    (path / "run.json").write_text(json.dumps(record))


def _file(path: Path, draw: np.random.Generator) -> Path:
    return sorted(path.glob("*.parquet"))[int(draw.integers(4))]


def _replaced(make: Callable[[Path], object], path: Path, draw: np.random.Generator) -> None:
    (path / "run.json").unlink()
    make(path / "run.json")


def _mutated(mutation: Mutation, path: Path, draw: np.random.Generator) -> None:
    (path / "run.json").write_bytes(mutation((path / "run.json").read_bytes(), draw))


NO_FILE = {"sha256": "", "size": 1}
DAMAGES: dict[str, Damage] = {
    "mutated JSON": partial(_mutated, of_json),
    "mutated bytes": partial(_mutated, of_bytes),
    "empty run.json": lambda path, draw: (path / "run.json").write_bytes(b""),
    "another version": partial(_changed, lambda record, draw: record.update(layout=99)),
    "another number": partial(_changed, _other_number),
    "no version": partial(_changed, lambda record, draw: record.pop("layout")),
    "another id": partial(
        _changed, lambda record, draw: record.update(run_id=str(NASTY[int(draw.integers(len(NASTY)))]))
    ),
    "strange files": partial(
        _changed, lambda record, draw: record.update(files={name: NO_FILE for name in ("../x", "\0")})
    ),
    "strange date": partial(
        _changed, lambda record, draw: record.update(created=str(NASTY[int(draw.integers(len(NASTY)))]))
    ),
    "a missing table": lambda path, draw: _file(path, draw).unlink(),
    "a shorter table": lambda path, draw: os.truncate(_file(path, draw), 10),
    "a table that is a folder": lambda path, draw: (lambda file: (file.unlink(), file.mkdir()))(_file(path, draw)),
    "a table that is a link to itself": lambda path, draw: (lambda f: (f.unlink(), f.symlink_to(f)))(_file(path, draw)),
    "run.json is a pipe": partial(_replaced, os.mkfifo),
    "run.json is a device": partial(_replaced, lambda path: path.symlink_to("/dev/zero")),
    "run.json is a link to itself": partial(_replaced, lambda path: path.symlink_to(path)),
    "run.json is a folder": partial(_replaced, Path.mkdir),
    "a folder that links to itself": lambda path, draw: (shutil.rmtree(path), path.symlink_to(path)),
    "a name of no letters": lambda path, draw: path.rename(os.fsdecode(os.fsencode(path.parent) + b"/\xff\xfe")),
    "still running": partial(_changed, lambda record, draw: record.update(status="running")),
    "an unknown status": partial(
        _changed, lambda record, draw: record.update(status=str(NASTY[int(draw.integers(len(NASTY)))]))
    ),
}  # fmt: skip


LINKS: dict[str, Callable[[Path, str, str], Path]] = {
    "work of a finished run": lambda root, run, stopped: root / run / WORK,
    "work of a stopped run": lambda root, run, stopped: root / stopped / WORK,
    "a hidden entry of a stopped run": lambda root, run, stopped: root / stopped / ".draft",
    "a run": lambda root, run, stopped: root / run,
    "the quarantine": lambda root, run, stopped: root / QUARANTINE,
    "a run's part scores": lambda root, run, stopped: root / PARTS / run,
}
ACTS: tuple[Callable[[Store, str, str], object], ...] = (
    lambda store, run, stopped: mended(store),
    lambda store, run, stopped: RunFolder(store.root / stopped).reopen(),
    lambda store, run, stopped: store.delete(run),
    lambda store, run, stopped: store.delete(stopped),
)


def linked(number: int, work: Path) -> Iterator[str]:
    """Yield the losses for each link in turn, after all actions that remove or move files, in any order.

    A change outside the store is a loss.
    """
    template = Store(work / "template")
    (fake_run(template, **SMALL).path / "extra.txt").write_text("not a file of the run")
    for index in range(number):
        name = list(LINKS)[index % len(LINKS)]
        lost = _after_all(work / f"linked-{index}", template, name, np.random.default_rng(index))
        yield f"{name}: {lost}" if lost else ""
        shutil.rmtree(work / f"linked-{index}")


def _after_all(folder: Path, template: Store, name: str, draw: np.random.Generator) -> str:
    store, outside = Store(folder / "runs"), folder / "outside"
    shutil.copytree(template.root, store.root)
    (run,) = store.list()
    stopped = store.create(run.spec)
    stopped.fail(Failure(kind="killed", message="m.", hint="h"))
    shutil.copytree(run.path, outside)
    (outside / ".hidden").mkdir()
    (outside / ".hidden" / "key").write_text("precious")
    place, before = LINKS[name](store.root, run.id, stopped.id), contents(outside)
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.symlink_to(outside)
    for act in draw.permutation(len(ACTS)):
        try:
            ACTS[act](store, run.id, stopped.id)
        except SkillvizError:
            pass
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if contents(outside) != before:
            return "what lies outside was changed"
    return ""
