"""Record an early end of a run: the error's class, its sentence and advice, as far as the disk allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from skillviz.errors import BUG, OUT_OF_MEMORY, SkillvizError, StoreError, advice, is_out_of_memory, visible
from skillviz.runs.folder import RunFolder
from skillviz.runs.process import Suspended
from skillviz.runs.record import Failure
from skillviz.runs.store import option_of


@contextmanager
def record_failure(folder: RunFolder) -> Iterator[None]:
    """Write the reason of an early end into `folder`, once, and re-raise the error."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        with suppress(StoreError):  # finished just now, or no room even for this: Ctrl-C stays Ctrl-C
            if isinstance(interrupt, Suspended) and _is_open(folder):
                if folder.record.status == "running":  # otherwise it is queued already
                    folder.suspend()
            elif _is_open(folder):
                folder.log("cancelled")
                folder.cancel()
                resume = f"python -m skillviz jobs resume {folder.id}{option_of(folder.path.parent)}"
                interrupt.add_note(f"Run cancelled. Resume it: {resume}")
        raise
    except Exception as error:
        if _is_open(folder):
            folder.give_up(failure_of(error))
        raise


def failure_of(error: BaseException) -> Failure:
    """Return the record of this error. Every error outside the tree of errors.py is a bug, except out of memory."""
    message = str(error).strip().split("\n")[0][:500]  # without the pages of text that some libraries add
    if is_out_of_memory(error):
        kind = OUT_OF_MEMORY
    elif isinstance(error, SkillvizError):
        kind, message = type(error).__name__, str(error.args[0]) if error.args else ""
    else:
        kind, message = BUG, f"{type(error).__name__}: {visible(message)}"
    return Failure(kind=kind, message=message, hint=advice(kind).hint)


def _is_open(folder: RunFolder) -> bool:
    with suppress(StoreError):
        return folder.is_open
    return False
