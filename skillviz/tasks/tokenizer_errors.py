"""Turn the errors of an untrusted tokenizer into one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skillviz.errors import BadModel, SkillvizError, first_line

PANIC = "PanicException"
"""The error of the library's Rust code on an unexpected input; not an Exception, so nothing else would catch it."""


@contextmanager
def refused(name: object) -> Iterator[None]:
    """Turns any error of the named tokenizer inside the block into BadModel; our own errors are not changed."""
    try:
        yield
    except (SkillvizError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise BadModel(
            f"the tokenizer of '{name}' cannot be used ({first_line(error)}); save it again with "
            "`tokenizer.save_pretrained`."
        ) from error
