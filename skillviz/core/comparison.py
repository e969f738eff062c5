"""The result of comparing two things that should be equal; a comparison that cannot be made is UNKNOWN, never SAME."""

from __future__ import annotations

from enum import StrEnum


class Comparison(StrEnum):
    """Whether two things are equal, as far as a check can tell; the last two are said where the numbers stand."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
