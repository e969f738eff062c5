"""JSON of a stranger's: whatever cannot be read is a JSONDecodeError, which is a ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput
from skillviz.regular_file import LONGEST_JSON, read_text, regular


def loads(text: str | bytes, decoder: Callable[[str], Any] | None = None, **options: Any) -> Any:
    """As `json.loads`, which has other errors for lists some thousand deep and numbers of 4,300 figures.

    A `decoder` that is made once saves that for each of many texts.
    """
    try:
        return decoder(text) if decoder is not None and isinstance(text, str) else json.loads(text, **options)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("its lists or objects are nested too deeply", "", 0) from None
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from error


def read(path: Path) -> Any:
    """The JSON of a regular file of LONGEST_JSON bytes at most; raises OSError or ValueError where there is none."""
    try:
        return loads(read_text(regular(path), LONGEST_JSON))
    except BadInput as error:  # it is longer, or has become something else just now
        raise OSError(error.args[0]) from error
