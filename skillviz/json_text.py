"""Parse untrusted JSON: all errors become JSONDecodeError, which is a ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput, CorruptFile
from skillviz.regular_file import LONGEST_JSON, read_text, regular


def loads(text: str | bytes, decoder: Callable[[str], Any] | None = None, **options: Any) -> Any:
    """Like `json.loads`, but lists nested too deeply and numbers of over 4,300 digits raise JSONDecodeError too.

    A `decoder` made once for many texts saves making one for each.
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
    """Return the JSON in a regular file of at most LONGEST_JSON bytes; raises OSError or ValueError without one."""
    try:
        return loads(read_text(regular(path), LONGEST_JSON))
    except BadInput as error:  # the file is too long, or was replaced just now
        raise OSError(error.args[0]) from error


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a model's folder; raises CorruptFile without one, BadInput if it is long."""
    try:
        content = loads(read_text(path, LONGEST_JSON))
    except (ValueError, OSError) as error:
        raise CorruptFile(f"{path} is not readable as JSON ({error}); fetch or save it again.") from error
    if not isinstance(content, dict):
        raise CorruptFile(f"{path} is not a JSON object; fetch or save it again.")
    return content
