"""JSON of a stranger's: whatever cannot be read is a JSONDecodeError, which is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skillviz.regular_file import regular


def loads(text: str | bytes, **options: Any) -> Any:
    """As `json.loads`, which has other errors for lists some thousand deep and numbers of 4,300 figures."""
    try:
        return json.loads(text, **options)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("its lists or objects are nested too deeply", "", 0) from None
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from error


def read(path: Path) -> Any:
    """The JSON of a regular file; raises OSError or ValueError where there is none."""
    return loads(regular(path).read_text(encoding="utf-8"))
