"""Exit codes of commands: one sentence and code 2 for a user's error, 130 for Ctrl-C, a traceback for a bug."""

from __future__ import annotations

import errno
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
