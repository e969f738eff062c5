"""What a stranger's tokenizer makes its library raise, as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skillviz.errors import BadModel, SkillvizError, first_line

PANIC = "PanicException"
"""How the library's Rust code ends where it does not expect something: no Exception, so nothing else would catch it."""


@contextmanager
def refused(name: object) -> Iterator[None]:
    """Inside, whatever is raised of the tokenizer of that name becomes BadModel; our own errors stay."""
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
