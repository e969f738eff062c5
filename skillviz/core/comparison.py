"""The result of comparing two things that should be equal; a comparison that cannot be made is UNKNOWN, never SAME."""

from __future__ import annotations

from enum import StrEnum


class Comparison(StrEnum):
    """The result of a check of two things that should be equal; the last two are shown beside the numbers."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
