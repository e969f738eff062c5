"""Only regular files are read: a stranger's folder may hold pipes and devices, whose reading never ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def regular(path: Path | str) -> Path:
    """The path of a file, or of a link to one; raises FileNotFoundError for anything else."""
    if not Path(path).is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return Path(path)
