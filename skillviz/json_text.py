"""JSON of a stranger's: whatever cannot be read is a JSONDecodeError, which is a ValueError."""

from __future__ import annotations

import json
from typing import Any


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
