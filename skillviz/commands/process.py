"""Exit codes of commands: one sentence and code 2 for a user's error, 130 for Ctrl-C, a traceback for a bug."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from skillviz.errors import ENDS, OUT_OF_MEMORY, SkillvizError, is_disk_full, is_out_of_memory, without_drafts

BAD_USE = 2
INTERRUPTED = 130
UNUSABLE = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG,
    errno.EIO, errno.ELOOP, errno.ESTALE, errno.EBUSY,
}  # fmt: skip
"""System errors of a path given by a user that cannot be read or written."""
PLAIN = {"–": "-", "—": "-", "−": "-", "…": "...", "·": "|", "×": "x", "≥": ">=", "≤": "<=", "→": "->", "’": "'"}
"""Replacements for characters of our own messages if a terminal's encoding lacks them; others become `\\u2020`."""
ERRORS = "skillviz"
CLOSED = (errno.EPIPE, errno.EBADF)


class Commands(TyperGroup):
    """The group that turns the errors of skillviz into a sentence on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """The command's result; raises typer.Exit for Ctrl-C and for an error that a user can cause."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            print("Interrupted.", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from error
        except typer.BadParameter as error:
            error.message = _phrase(error)
            raise
        except Exception as error:
            sentence = sentence_for(error)
            if sentence is None:
                raise
            print(sentence, file=sys.stderr)
            raise typer.Exit(BAD_USE) from error


def _phrase(error: typer.BadParameter) -> str:
    """The error in an option's value; if pydantic refused it, in the same words as for files."""
    from pydantic import ValidationError  # heavy import

    from skillviz.tasks.refusals import refused  # imports pydantic

    cause = error.__cause__
    return f"{refused(cause)[1].rstrip('.')}." if isinstance(cause, ValidationError) else error.message


def sentence_for(error: BaseException) -> str | None:
    """The sentence for a user about this error; None if it is a bug and should be shown as one."""
    if isinstance(error, SkillvizError):
        return str(error)
    if is_out_of_memory(error):
        return f"OutOfMemory: the device's memory ran out. {ENDS[OUT_OF_MEMORY].hint}"
    if is_disk_full(error):
        where = without_drafts(str(getattr(error, "filename", None) or "the result"))
        return f"DiskFull: no space is left to write {where}; free some and try again."
    if isinstance(error, OSError) and error.errno in UNUSABLE and error.filename:
        where = without_drafts(str(error.filename))
        return f"BadInput: {where} cannot be read or written ({error.strerror}); check the path and your rights to it."
    return None


class Sink(io.RawIOBase):
    """A descriptor that accepts all output: after the first system error it keeps the error and writes nothing more."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.error, self.has_lost = descriptor, _closed(descriptor), False

    def writable(self) -> bool:
        """True, even if the descriptor is closed."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self.descriptor

    def isatty(self) -> bool:
        """True if it is a terminal."""
        return self.error is None and os.isatty(self.descriptor)

    def write(self, content: Any) -> int:
        """The number of bytes, written or lost."""
        size = memoryview(content).nbytes
        if self.error is None:
            try:
                return os.write(self.descriptor, content)
            except BlockingIOError:
                return 0
            except OSError as error:
                self.error = error
        self.has_lost = True
        return size


def _closed(descriptor: int) -> OSError | None:
    """The error of a closed descriptor, or None. Its number is pointed at /dev/null, so that no file opened later
    gets it: libraries write to that number."""
    try:
        os.fstat(descriptor)
    except OSError as error:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != descriptor:
            os.dup2(nothing, descriptor)
            os.close(nothing)
        return error
    return None


def _plainer(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replaces the characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, ascii(letter)[1:-1]) for letter in letters), error.end


def install() -> tuple[Sink, Sink]:
    """Puts a Sink below the standard output and error of this process, each in its own encoding; returns both."""
    codecs.register_error(ERRORS, _plainer)
    sinks = Sink(1), Sink(2)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(sink),
            encoding=getattr(old, "encoding", None) or "utf-8",
            errors=ERRORS,
            line_buffering=sink.isatty() or sink.fileno() == 2,
            write_through=False,
        )
        for sink, old in zip(sinks, (sys.stdout, sys.stderr), strict=True)
    )
    return sinks


def what_was_lost(sink: Sink) -> str:
    """The sentence on a standard output that could not be written; empty if nothing was lost."""
    sys.stdout.flush()
    if sink.error is None or not sink.has_lost:
        return ""
    why = "was closed" if sink.error.errno in CLOSED else f"cannot be written ({sink.error.strerror})"
    return f"Standard output {why}, so the result is not printed in full. Everything that the command stores is stored."
