"""Small files that others wrote: regular ones only, of a bounded size, read as text."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from skillviz.core.formats import byte_size
from skillviz.errors import BadInput

MOST_BYTES = 1 << 20
LONGEST_JSON = 1 << 28
"""Of a model's configuration, index or tokenizer: vocabularies of a million pieces take some 100 MiB."""


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file of at most `most` bytes, in UTF-8.

    Raises BadInput for a device, a pipe, a folder or a longer file, without reading it; OSError and UnicodeDecodeError
    as `Path.read_text` does.
    """
    # without waiting: opening a pipe that nobody writes to would hang
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BadInput(f"{path} is not a regular file. Only regular files are read: name one.")
        content = file.read(most + 1)
    if len(content) > most:
        raise BadInput(
            f"{path} is larger than {byte_size(most)}, the most that is read of such a file; name a smaller one."
        )
    return content.decode("utf-8")
