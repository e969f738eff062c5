"""Plant faults: each changes one line of skillviz, and the attempt that it names must then lose something."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.reliability.table import ATTEMPTS

HEAVY = ("torch", "transformers", "streamlit.testing.v1")
"""Packages of attempts, imported once for the children of all faults; not skillviz, because faults change it."""


@dataclass(frozen=True)
class Fault:
    """One fault; `plant` makes it in this process and its children. Rare losses need the tries of the long form."""

    name: str
    says: str
    attempt: str
    plant: Callable[[], None]
    form: str = "short"


def _in_place() -> None:
    """Write files in place."""
    from skillviz import atomic
    from skillviz.runs import checkpoint, folder, process

    def write_file(path: Path, write: Callable[[Path], object]) -> None:
        write(path)

    def write_text(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")

    for module in (atomic, folder, process, checkpoint):
        for name, function in (("write_file", write_file), ("write_text", write_text)):
            if hasattr(module, name):
                setattr(module, name, function)


def _no_sync() -> None:
    from skillviz import atomic

    atomic._sync = lambda path: None  # type: ignore[assignment]


def _verdict_first() -> None:
    """Mark a run as finished before its tables are written."""
    from skillviz.runs.folder import RunFolder

    write_region = RunFolder.write_region

    def early(self: RunFolder, region: Any, header: Any) -> None:
        write_region(self, region, header)
        self._write_record({"status": "finished"})
        self.record = self.record.model_copy(update={"status": "running"})

    RunFolder.write_region = early  # type: ignore[method-assign]
    RunFolder._refuse_if_closed = lambda self: None  # type: ignore[method-assign]


def _drafts_stay() -> None:
    """Never remove the drafts of killed processes."""
    from skillviz import atomic
    from skillviz.runs import doctor

    atomic._is_abandoned = lambda draft: False  # type: ignore[assignment]
    doctor.abandoned = lambda folder: []  # type: ignore[assignment]


def _no_state() -> None:
    """Spoil the state from which a search resumes."""
    from skillviz.runs.checkpoint import Checkpoints

    restored = Checkpoints.restored

    def spoiled(self: Checkpoints) -> Any:
        kept = restored(self)
        if kept is not None and kept.state is not None:
            kept.state["values"][:1] += 1
        return kept

    Checkpoints.restored = spoiled  # type: ignore[method-assign]


def _file_passed_over() -> None:
    """Ignore a file that does not fit on the disk."""
    from contextlib import suppress

    from skillviz.errors import DiskFull
    from skillviz.runs import folder

    write_file = folder.write_file

    def lenient(path: Path, write: Callable[[Path], object]) -> None:
        with suppress(DiskFull):
            write_file(path, write)

    folder.write_file = lenient


def _system_errors() -> None:
    """Do not turn the system's refusal to write into a sentence."""
    from contextlib import nullcontext

    from skillviz.runs import doctor, store

    store.written = lambda root: nullcontext()  # type: ignore[assignment]
    doctor.written = store.written


def _no_lock() -> None:
    """Remove the lock, so that two processes that resume a run at once do not see each other."""
    from skillviz.jobs import control
    from skillviz.runs import folder

    class Open:
        def __init__(self, *_: Any) -> None: ...

        def acquire(self) -> None: ...

        def release(self) -> None: ...

    control.FileLock = Open  # type: ignore[assignment,misc]
    folder.is_alive = lambda work: False  # type: ignore[assignment]


def _start_by_the_clock() -> None:
    """Identify a process by its start on the clock, not in the machine's ticks."""
    from skillviz.runs import process

    process._ticks = lambda pid: None  # type: ignore[assignment]


def _search_state() -> None:
    """Change the floating-point values of a resumed search's state."""
    from skillviz.runs.checkpoint import Checkpoints

    restored = Checkpoints.restored

    def spoiled(self: Checkpoints) -> Any:
        kept = restored(self)
        for value in (kept.state or {}).values() if kept is not None else ():
            if value.is_floating_point():
                value.copy_(value.flip(0))
        return kept

    Checkpoints.restored = spoiled  # type: ignore[method-assign]


def _batches_again() -> None:
    """Let a resumed fine-tuning use the first batches again."""
    from skillviz.models.finetune.training import Trainer

    Trainer.skip = lambda self: None  # type: ignore[method-assign]


def _no_deep_json() -> None:
    """Read JSON without the limits on depth and number length."""
    import json

    from skillviz import json_text

    json_text.loads = json.loads


def _unreadable_raises() -> None:
    """Let an unreadable run end the listing."""
    from skillviz.runs import store
    from skillviz.runs.run import Run, read_record

    store._entry = lambda path: Run(path, read_record(path))  # type: ignore[assignment]


def _links_followed() -> None:
    """Recognize no entry of a folder as a link."""
    Path.is_symlink = lambda self: False  # type: ignore[method-assign]


def _record_unchecked() -> None:
    """Do not check run.json."""
    from skillviz.runs import store

    store.is_as_written = lambda folder: True  # type: ignore[assignment]


def _other_edges() -> None:
    """Put confidences into lower bins."""
    from skillviz.core import metrics

    bin_numbers = metrics.bin_numbers
    metrics.bin_numbers = lambda sure, edges: bin_numbers(sure, edges) * 9 // 10  # type: ignore[assignment]


def _another_class() -> None:
    """Count one example in a hundred the wrong way, in F1 and accuracy."""
    from skillviz.core import scores

    correct = scores.correct

    def wrong(logits: Any, labels: Any) -> Any:
        right = correct(logits, labels)
        right[::100] = ~right[::100]
        return right

    scores.correct = wrong  # type: ignore[assignment]
    from skillviz.core import metrics

    metrics.correct = wrong


def _hash_skipped() -> None:
    """Do not compare the hash of a checkpoint."""
    from skillviz.models.finetune import journal
    from skillviz.runs import checkpoint

    class Equal(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

    checkpoint.content_sha256 = journal.content_sha256 = lambda *_: Equal("")  # type: ignore[assignment]


def _links_stay() -> None:
    """Decide by a path's letters whether it is inside: links in it and steps up are not followed."""
    Path.resolve = lambda self, strict=False: self.absolute()  # type: ignore[method-assign]


def _variables_pass() -> None:
    """Let a path from a page name every variable of the environment."""
    from skillviz.serving import visitor

    visitor.refuse_variables = lambda text: text  # type: ignore[assignment]


def _not_escaped() -> None:
    """Do not escape a user's words in HTML."""
    import html

    html.escape = lambda text, quote=True: text  # type: ignore[assignment]


def _formulas_pass() -> None:
    """Do not change cells that begin a formula."""
    from skillviz.analysis import tables

    tables.FORMULA = ("\0",)  # type: ignore[assignment]


def _demo_writes() -> None:
    """Let a read-only dashboard refuse nothing."""
    from skillviz.serving import read_only

    read_only.refuse = lambda: None


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("in-place", "files are written in place", "kills-at-steps", _in_place),
        Fault("verdict-first", "run.json says finished before the tables are written", "random-kills", _verdict_first),
        Fault("drafts-stay", "drafts of killed processes are never removed", "kills-at-steps", _drafts_stay),
        Fault("state-spoiled", "one entry of the restored state is wrong", "kills-at-steps", _no_state),
        Fault("no-sync", "nothing is synced before it is renamed", "power-cuts", _no_sync),
        Fault("file-passed-over", "a file that finds no room is left out", "full-disks", _file_passed_over),
        Fault("system-errors", "the system's errors are passed on", "read-only", _system_errors),
        Fault("no-lock", "nobody looks whether a run is being made", "at-once", _no_lock, "long"),
        Fault("clock-start", "a process is known by the clock", "clock-steps", _start_by_the_clock),
        Fault("search-state", "a resumed search has another state", "localizers", _search_state, "long"),
        Fault("batches-again", "a resumed fine-tuning takes its first batches again", "fine-tuning", _batches_again),
        Fault("no-guard", "deep JSON is read without its guard", "mutated-input", _no_deep_json, "long"),
        Fault("list-stops", "a run that cannot be read ends the list", "bad-runs", _unreadable_raises),
        Fault("links-followed", "links in a folder of runs are followed", "linked-stores", _links_followed),
        Fault("record-unchecked", "run.json is not compared with its own hash", "bad-runs", _record_unchecked),
        Fault("links-stay", "links and steps up in a visitor's path are not followed", "visitor-paths", _links_stay),
        Fault("variables-pass", "a visitor's path may name any variable", "visitor-paths", _variables_pass),
        Fault("not-escaped", "names are put into HTML as they are", "markup", _not_escaped),
        Fault("formulas-pass", "a cell that begins a formula is not quoted", "markup", _formulas_pass),
        Fault("demo-writes", "a read-only dashboard refuses nothing", "public-demo", _demo_writes),
        Fault("bins-off", "confidences are put into lower bins", "other-programs", _other_edges),
        Fault("one-in-100", "one example in a hundred counts the wrong way", "stored-numbers", _another_class),
        Fault("hash-skipped", "the hash of a checkpoint is not compared", "checkpoint-bits", _hash_skipped),
    )
}


def planted(names: Sequence[str]) -> list[str]:
    """Return the faults whose attempts lose nothing; each is planted in a child, because it cannot be undone."""
    for package in HEAVY:
        import_module(package)
    unnoticed = []
    for name in names:
        print(f"planted: {FAULTS[name].says}", flush=True)
        child = os.fork()
        if not child:
            lost = 0
            try:
                with TemporaryDirectory(prefix="skillviz-reliability-") as work:
                    FAULTS[name].plant()
                    attempt, report = ATTEMPTS[FAULTS[name].attempt], partial(print, flush=True)
                    lost = int(str(attempt.made(FAULTS[name].form, Path(work), report, until_lost=True)["lost"]))
            except Exception:  # an error of the attempt itself is not a reported loss
                traceback.print_exc()
            finally:
                os._exit(1 if lost else 0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 1:
            unnoticed.append(name)
    return unnoticed
