"""Plant faults: each changes one line of skillviz, and the attempt that it names must then lose something."""

import html
import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest import MonkeyPatch

from skillviz import atomic, json_text
from skillviz.analysis import tables
from skillviz.core import calibration_error, scores
from skillviz.errors import DiskFull
from skillviz.models import state_file
from skillviz.models.finetune.training import Trainer
from skillviz.runs import doctor, folder, liveness, store
from skillviz.runs.checkpoint import Checkpoints
from skillviz.runs.folder import RunFolder
from skillviz.runs.run import Run, is_as_written, read_record
from skillviz.serving import quota, read_only, visitor


@dataclass(frozen=True)
class Fault:
    """One fault; `plant` makes it in this process and its children. Rare losses need the tries of the long form."""

    words: str
    attempt: str
    plant: Callable[[MonkeyPatch], None]
    is_rare: bool = False


def swap(patch: MonkeyPatch, function: Any, other: Any) -> None:
    """Replace a function in every module of skillviz that has it, under any name."""
    for module in [one for name, one in sys.modules.items() if name.startswith("skillviz")]:
        for name, value in list(vars(module).items()):
            if value is function:
                patch.setattr(module, name, other)


def in_place(patch: MonkeyPatch) -> None:
    swap(patch, atomic.write_file, lambda path, write: write(path) and None)
    swap(patch, atomic.write_text, lambda path, text: path.write_text(text, encoding="utf-8") and None)


def finished_early(patch: MonkeyPatch) -> None:
    """Mark a run as finished before its tables are written."""
    write_region = RunFolder.write_region

    def early(self: RunFolder, region: Any, header: Any) -> None:
        write_region(self, region, header)
        self._write_record({"status": "finished"})
        self.record = self.record.model_copy(update={"status": "running"})

    patch.setattr(RunFolder, "write_region", early)
    patch.setattr(RunFolder, "_refuse_if_closed", lambda self: None)


def drafts_stay(patch: MonkeyPatch) -> None:
    patch.setattr(atomic, "_is_abandoned", lambda draft: False)
    patch.setattr(doctor, "abandoned", lambda folder: [])


def changed_state(change: Callable[[dict[str, Any]], object], patch: MonkeyPatch) -> None:
    """Change the state from which a search resumes."""
    restored = Checkpoints.restored

    def spoiled(self: Checkpoints) -> Any:
        kept = restored(self)
        if kept is not None and kept.state is not None:
            change(kept.state)
        return kept

    patch.setattr(Checkpoints, "restored", spoiled)


def file_ignored(patch: MonkeyPatch) -> None:
    write_file = folder.write_file

    def lenient(path: Path, write: Callable[[Path], object]) -> None:
        with suppress(DiskFull):
            write_file(path, write)

    patch.setattr(folder, "write_file", lenient)


def no_lock(patch: MonkeyPatch) -> None:
    """Let two processes that resume a run at once not see each other."""
    patch.setattr(quota, "in_turn", lambda root, what="start": nullcontext())
    patch.setattr(folder, "is_alive", lambda work: False)


def known_by_clock(patch: MonkeyPatch) -> None:
    """Decide by the clock if a process lives, not by its lock."""
    patch.setattr(liveness, "_is_locked", lambda work: abs(time.time() - (work / liveness.PROCESS).stat().st_mtime) < 5)


def other_bins(patch: MonkeyPatch) -> None:
    bin_numbers = calibration_error.bin_numbers
    swap(patch, bin_numbers, lambda sure, edges: bin_numbers(sure, edges) * 9 // 10)


def one_in_100(patch: MonkeyPatch) -> None:
    correct = scores.correct

    def wrong(logits: Any, labels: Any) -> Any:
        right = correct(logits, labels)
        right[::100] = ~right[::100]
        return right

    swap(patch, correct, wrong)


class Equal(str):
    """A text that equals every other value."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def flip(state: dict[str, Any]) -> None:
    for value in state.values():
        if value.is_floating_point():
            value.copy_(value.flip(0))


FAULTS = {
    "in-place": Fault("files are written in place", "kills-at-steps", in_place),
    "verdict-first": Fault(
        "run.json says finished before the tables are written", "random-kills", finished_early, is_rare=True
    ),
    "drafts-stay": Fault("drafts of killed processes are never removed", "kills-at-steps", drafts_stay),
    "state-spoiled": Fault(
        "one entry of the restored state is wrong", "kills-at-steps",
        partial(changed_state, lambda state: state["values"][:1].add_(1)),
    ),
    "no-sync": Fault(
        "nothing is synced before it is renamed", "power-cuts",
        lambda patch: patch.setattr(atomic, "_sync", lambda path: None),
    ),
    "file-passed-over": Fault("a file that finds no room is left out", "full-disks", file_ignored, is_rare=True),
    "system-errors": Fault(
        "the system's errors are passed on", "read-only",
        lambda patch: swap(patch, store.written, lambda root: nullcontext()),
    ),
    "no-lock": Fault("nobody looks whether a run is being made", "at-once", no_lock, is_rare=True),
    "clock-start": Fault("a process is known by the clock, not by its lock", "clock-steps", known_by_clock),
    "search-state": Fault(
        "a resumed search has another state", "localizers", partial(changed_state, flip), is_rare=True
    ),
    "batches-again": Fault(
        "a resumed fine-tuning takes its first batches again", "fine-tuning",
        lambda patch: patch.setattr(Trainer, "skip", lambda self: None),
    ),
    "no-guard": Fault(
        "deep JSON is read without its guard", "mutated-input",
        lambda patch: swap(patch, json_text.loads, json.loads), is_rare=True,
    ),
    "list-stops": Fault(
        "a run that cannot be read ends the list", "bad-runs",
        lambda patch: patch.setattr(store, "_entry", lambda path: Run(path, read_record(path))),
    ),
    "links-followed": Fault(
        "links in a folder of runs are followed", "linked-stores",
        lambda patch: patch.setattr(Path, "is_symlink", lambda self: False),
    ),
    "record-unchecked": Fault(
        "run.json is not compared with its own hash", "bad-runs",
        lambda patch: swap(patch, is_as_written, lambda folder: True),
    ),
    "links-stay": Fault(
        "links and steps up in a visitor's path are not followed", "visitor-paths",
        lambda patch: patch.setattr(Path, "resolve", lambda self, strict=False: self.absolute()),
    ),
    "variables-pass": Fault(
        "a visitor's path may name any variable", "visitor-paths",
        lambda patch: swap(patch, visitor.refuse_variables, lambda text: text),
    ),
    "not-escaped": Fault(
        "names are put into HTML as they are", "markup",
        lambda patch: swap(patch, html.escape, lambda text, quote=True: text),
    ),
    "formulas-pass": Fault(
        "a cell that begins a formula is not quoted", "markup",
        lambda patch: patch.setattr(tables, "FORMULA", ("\0",)),
    ),
    "demo-writes": Fault(
        "a read-only dashboard refuses nothing", "public-demo",
        lambda patch: patch.setattr(read_only, "refuse", lambda: None),
    ),
    "bins-off": Fault("confidences are put into lower bins", "other-programs", other_bins),
    "one-in-100": Fault("one example in a hundred counts the wrong way", "stored-numbers", one_in_100),
    "hash-skipped": Fault(
        "the hash of a checkpoint is not compared", "checkpoint-bits",
        lambda patch: swap(patch, state_file.content_sha256, lambda *_: Equal("")),
    ),
}  # fmt: skip
