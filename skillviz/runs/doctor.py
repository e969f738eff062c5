"""Find and repair problems in a folder of runs: remove leftovers and quarantine runs that cannot be trusted."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError, safe_open

from skillviz import json_text
from skillviz.atomic import abandoned, clear_abandoned
from skillviz.errors import NotReadable, OtherVersion, StoreError
from skillviz.layout import refuse_another
from skillviz.regular_file import reading
from skillviz.runs.folder import CHECKPOINT, LOG, WORK, RunFolder, artifacts
from skillviz.runs.liveness import DEAD, life
from skillviz.runs.packed import STUDIES, packed_runs, packs
from skillviz.runs.record import content_of
from skillviz.runs.run import RECORD, REGION, Run, read_record
from skillviz.runs.score import FOLDER as SCORES
from skillviz.runs.store import (
    FEDERATIONS,
    NOTES,
    PARTS,
    SETS,
    Store,
    Unfinished,
    Unreadable,
    option_of,
    problems_of,
    written,
)

QUARANTINE = ".quarantine"
OF_RUNS = (REGION, "predictions.parquet")
NAME = re.compile(r"[a-zA-Z0-9][\w.-]{0,199}", re.ASCII)  # a run id that is a valid folder name
Cure = Literal["cleaned", "repaired", "quarantined", "left"]


@dataclass(frozen=True)
class Finding:
    """One problem with `path`. `cure` names the action of `mend`; "left" means that a person must act."""

    path: Path
    problem: str
    cure: Cure
    mend: Callable[[], None] = lambda: None


def findings(store: Store) -> Iterator[Finding]:
    """Yield all problems of the store, one by one. Nothing is changed until the `mend` of a finding is called.

    Leftovers of killed processes are removed, and work/ of finished runs is cleared. A folder whose name differs from
    its run's id gets the run's id back. A file that does not belong to its run, and a run whose files differ from the
    hashes in its run.json, move to .quarantine in the store, so that no wanted file is deleted. Targets of links belong
    to other users and are left alone; so are the read-only files of studies.
    """
    try:
        folders = [path for path in store.folders() if not os.path.islink(path)]
        known = {path.name for path in folders}
        others = [store.root / name for name in store.names() if name not in known]
    except NotReadable as error:
        yield Finding(store.root, str(error.args[0]), "left")
        return
    for folder in (store.root, store.root / NOTES, store.root / PARTS):
        if folder == store.root or not os.path.islink(folder):
            yield from _readable(folder, partial(_leftovers, folder))
    for path in folders:
        yield from _readable(path, partial(_of_folder, store, path))
    for path in others:
        if not os.path.islink(path) and any(os.path.lexists(path / name) for name in OF_RUNS):
            yield Finding(
                path,
                f"it holds a run's files, but no {RECORD} that is a file; restore it, or delete the folder",
                "left",
            )
    for record in (
        path for pattern in (f"{SCORES}/*.json", f"{PARTS}/*/*/parts.json", f"{FEDERATIONS}/*.json", f"{SETS}/*.json")
        for path in store.root.glob(pattern)
    ):  # fmt: skip
        yield from _readable(record, partial(_of_record, record))
    yield from _readable(store.root / STUDIES, partial(_of_packs, store))
    for name in sorted(store.noted()):
        yield from _readable(store.root / NOTES / f"{name}.txt", partial(_of_note, store, name))


def _readable(path: Path, look: Callable[[], Iterator[Finding] | None]) -> Iterator[Finding]:
    """Yield the findings of a look at a path; an unreadable path is itself a finding."""
    try:
        with reading(str(path)):
            yield from look() or ()
    except StoreError as error:
        yield Finding(path, str(error.args[0]), "left")


def _leftovers(folder: Path) -> Iterator[Finding]:
    if life(folder / WORK) == life(folder) == DEAD:
        for path in abandoned(folder):
            clear = partial(clear_abandoned, folder)
            yield Finding(path, "It was left by a process that was killed.", "cleaned", clear)


def _of_record(path: Path) -> None:
    refuse_another(content_of(path), f"{path.name} in {path.parent}")


def _of_checkpoint(path: Path) -> None:
    with suppress(SafetensorError, KeyError, ValueError), safe_open(path, "numpy") as file:
        refuse_another(json_text.loads(file.metadata()["checkpoint"]), f"the checkpoint {path}")


def _of_note(store: Store, name: str) -> None:
    store.note(name)


def mended(store: Store) -> list[Finding]:
    """Repair all problems as far as possible and return them; raises StoreError in a read-only store."""
    done = []
    with written(store.root):
        for finding in findings(store):
            try:
                finding.mend()
            except OSError as error:
                why = f"{finding.problem} It could not be {finding.cure} ({error.strerror or error})."
                finding = replace(finding, problem=why, cure="left")
            done.append(finding)
    return done


def _of_folder(store: Store, path: Path) -> Iterator[Finding]:
    for folder in (path, path / WORK):
        if not folder.is_symlink():
            yield from _leftovers(folder)
    yield from _of_run(store, path)


def _of_run(store: Store, path: Path) -> Iterator[Finding]:
    entry = store.look(path.name)
    if isinstance(entry, Unfinished):
        if (checkpoint := path / WORK / CHECKPOINT).is_file():
            yield from _readable(checkpoint, partial(_of_checkpoint, checkpoint))
        if entry.record.status == "failed":
            resume = f"Resume it: python -m skillviz jobs resume {entry.id}{option_of(store.root)}"
            yield Finding(
                path, f"{entry.record.error.message if entry.record.error else 'It failed.'} {resume}", "left"
            )
        return
    if isinstance(entry, Unreadable):
        yield _of_unreadable(store, entry)
        return
    if any(left.name != LOG for left in _children(path / WORK)) and life(path / WORK) == DEAD:
        yield Finding(path / WORK, "The run is finished and needs it no more.", "cleaned", RunFolder(path).clear_work)
    problems = problems_of(entry)
    changed = [problem.sentence for problem in problems if not problem.is_foreign]
    if any(problem.is_unknown for problem in problems):  # the run may be complete, so it is not moved
        yield Finding(path, " ".join(changed), "left")
        return
    if changed:
        again = f"Make it again: {entry.spec.command()}"
        yield Finding(path, f"{' '.join(changed)} {again}", "quarantined", partial(_set_aside, store, path))
        return
    for file in artifacts(path):
        if file.name not in entry.files:
            move = partial(_set_aside, store, file, path.name)
            yield Finding(file, f"{file.name} is not a file of this run.", "quarantined", move)


def _of_packs(store: Store) -> Iterator[Finding]:
    """Yield the problems in the files of studies. These are read-only: a damaged file has to be packed again."""
    for pack in packs(store.root):
        try:
            runs = packed_runs(pack)
        except StoreError as error:
            yield Finding(pack, str(error.args[0]), "left")
            continue
        for path in runs.values():
            entry = store.look(path.name)
            wrong = [entry.reason] if isinstance(entry, Unreadable) else []
            if isinstance(entry, Run):
                wrong = [problem.sentence for problem in problems_of(entry)]
            if wrong and entry.path == path:  # otherwise the run's own folder takes precedence
                again = f"Pack the study again: python -m skillviz study pack {pack.parent.name}"
                yield Finding(path, f"{' '.join(wrong)} {again}", "left")


def _of_unreadable(store: Store, entry: Unreadable) -> Finding:
    if isinstance(entry.error, NotReadable | OtherVersion):
        return Finding(entry.path, entry.reason, "left")
    try:
        record = read_record(entry.path)
    except StoreError:
        record = None
    if record is not None and record.run_id != entry.path.name:
        target = store.root / record.run_id
        if NAME.fullmatch(record.run_id) and not target.exists():
            return Finding(entry.path, entry.reason, "repaired", partial(os.rename, entry.path, target))
    return Finding(entry.path, entry.reason, "quarantined", partial(_set_aside, store, entry.path))


def _set_aside(store: Store, path: Path, below: str = "") -> None:
    """Move a folder or file of the store to its quarantine. An existing item of the same name there is kept.

    Raises StoreError if the quarantine is a link.
    """
    place = store.root / QUARANTINE / below
    if (store.root / QUARANTINE).is_symlink() or place.is_symlink():
        raise StoreError(
            f"{store.root / QUARANTINE} is or holds a link; remove it, so that nothing leaves the folder of runs."
        )
    place.mkdir(parents=True, exist_ok=True)
    target = place / path.name
    os.rename(path, target.with_name(f"{path.name}.{secrets.token_hex(3)}") if target.exists() else target)


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
