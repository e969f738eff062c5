"""Only regular files are read, of a bounded size: a stranger's folder may hold pipes and devices, whose reading never
ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from skillviz.errors import BadInput

MOST_BYTES = 1 << 20
LONGEST_JSON = 1 << 28
"""Of a model's configuration, index or tokenizer: vocabularies of a million pieces take some 100 MiB."""


def regular(path: Path | str) -> Path:
    """The path of a file, or of a link to one; raises FileNotFoundError for anything else."""
    if not Path(path).is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return Path(path)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file of at most `most` bytes (whole MiB), in UTF-8.

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
            f"{path} is larger than {most >> 20} MiB, the most that is read of such a file; name another one."
        )
    return content.decode("utf-8")
