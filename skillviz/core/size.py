"""Conversion of a region's size from user input to a number of entries."""

from __future__ import annotations

import re
from fractions import Fraction

from skillviz.errors import BadSize

LONGEST = 100
"""The most characters of a size; Python itself rejects numbers of more than 4,300 digits."""


def parse_size(text: str, d: int) -> int:
    """Return the number of entries that `text` requests among d, in 1..d; raises BadSize.

    An integer is a count, a decimal (with a point or an exponent) a share of d, a trailing `%` a percentage. Shares are
    rounded down to whole entries, exactly: 0.1% of 10,646,784 is 10,646.
    """
    typed = str(text).strip()
    if len(typed) > LONGEST:
        raise BadSize(f"'{typed[:20]}…' is not a region size: its {len(typed):,} characters are over {LONGEST}.")
    number = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(%?)", typed, re.ASCII)
    if number is None:
        raise BadSize(
            f"'{typed}' cannot be read as a region size; give a count such as 10646, a share such as 0.001, "
            "or a percentage such as 0.1%."
        )
    value = Fraction(number[1])
    is_count = not number[2] and re.fullmatch(r"[+-]?\d+", number[1], re.ASCII) is not None
    size = int(value) if is_count else int(value * d / (100 if number[2] else 1) // 1)
    if not 1 <= size <= d or value <= 0:
        amount = f"{size:,} entries" if abs(size) < 10**15 else "far more entries"
        if not is_count and value > 0 and size == 0:
            amount = "less than one entry"
        raise BadSize(
            f"'{typed}' asks for {amount} of {d:,} graftable entries; "
            f"a region has 1 to {d:,} entries (a share of up to 1, or 100%)."
        )
    return size
