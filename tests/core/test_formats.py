"""Tests of numbers as they are shown to a reader."""

from __future__ import annotations

import math

from skillviz.core import formats
from tests.core.by_hand import by_hand

NB = formats.SPACE
TIMES = (None, 240.0, 0.0)
SHOWN = [
    (formats.percent, (0.801, 0.0, 1.0, -0.029, None), ("80.1%", "0.0%", "100.0%", "−2.9%", "n/a")),
    (
        formats.share,
        (0.001, 0.0001, 10_646 / 10_646_784, 1_064 / 10_646_784, 0.125, 1.0, 0.0123, 0.00034, 0.0),
        ("0.1%", "0.01%", "0.1%", "0.01%", "12.5%", "100.0%", "1.2%", "0.034%", "0.0%"),
    ),
    (formats.count, (10_646_784,), ("10,646,784",)),
    (formats.number, ((-1234.5, 1), (-0.0001, 2)), ("−1,234.5", "0.00")),  # a rounded zero has no sign
    (formats.points, (0.029, -0.029, 0.0001), ("+2.9 points", "−2.9 points", "0.0 points")),
    (formats.signed, ((0.26, 1), (-0.26, 1), (0.01, 1), (None, 1)), ("+0.3", "−0.3", "0.0", "n/a")),
    (
        formats.percent_interval,
        ((0.774, 0.826), (-0.051, -0.008), (-0.1, 0.1, 0), (None, 0.1), (0.1, math.nan)),
        ("77.4–82.6", "−5.1 to −0.8", "−10 to 10", "no interval", "no interval"),
    ),
    (
        formats.estimate,
        ((-0.0021, -0.00423, -0.00031), (0.5, None, None), (0.5, math.nan, 0.6), (None, 0, 1)),
        ("−0.0021 (−0.0042 to −0.0003)", "0.500", "0.500", "n/a"),
    ),
    (
        formats.percent_estimate,
        ((0.02, 0.0004, 0.05), (0.825, 0.793, 0.853), (-0.05, -0.065, 0.01)),
        ("2.00 (0.04–5.00)", "82.5 (79.3–85.3)", "−5.0 (−6.5 to 1.0)"),
    ),
    (
        formats.seconds,
        (4.21, 200, 7500, 59.96),
        (f"4.2{NB}s", f"3{NB}min 20{NB}s", f"2{NB}h 5{NB}min", f"60.0{NB}s"),
    ),
    (formats.rough_seconds, (0.2, 5, 600, 9000), ("1 s", "5 s", "10 min", "2.5 h")),
    (formats.time_left, TIMES, ("time left: not measured yet", "about 4 min left", "longer than measured so far")),
    (formats.byte_size, (2**11, 87 * 2**20, 2**31), ("2 KiB", "87 MiB", "2.0 GiB")),
    (
        formats.day,
        ("2026-11-20T14:05:33+00:00", "2026-11-20T14:05:33+02:00", None, "yesterday"),
        ("20 Nov 2026, 14:05 UTC", "20 Nov 2026, 12:05 UTC", "n/a", "yesterday"),
    ),
    (
        formats.counted,
        ((0, "run"), (1, "run"), (1821, "run"), (2, "entry")),
        ("0 runs", "1 run", "1,821 runs", "2 entries"),
    ),
    (formats.listed, (["a"], ["a", "b"], ["a", "b", "c", "d"]), ("a", "a and b", "a, b and 2 more")),
]
"""Formats, what they are given, and what they show."""
INTERVALS = [
    (0.412, 0.45, 2, "0.41–0.45"),
    (-0.00423, -0.00031, 3, "−0.0042 to −0.0003"), (-0.004, -0.00002, 3, "−0.00400 to −0.00002"),
    (0.0004, 0.0312, 2, "0.0004–0.0312"), (0.04, 3.21, 1, "0.04–3.21"), (-0.3, -0.2, 0, "−0.3 to −0.2"),
    (-0.0004, 0.004, 3, "0.000 to 0.004"), (0.0, 0.004, 3, "0.000–0.004"), (-0.004, 0.0, 3, "−0.004 to 0.000"),
    (1e-17, 0.1, 2, "0.00–0.10"),
]  # fmt: skip
"""Ends, digits and text: an interval shows zero only where it holds it."""
NO_NUMBERS = (formats.percent, formats.number, formats.points, formats.share, formats.seconds)
test_by_hand = by_hand(
    *((f"{show.__name__} {text}", text, show, *(one if isinstance(one, tuple) else (one,)))
      for show, given, shown in SHOWN for one, text in zip(given, shown, strict=True)),
    *((f"interval {shown}", shown, formats.interval, low, high, digits) for low, high, digits, shown in INTERVALS),
    *((f"no number is made up: {show.__name__} of {value}", "n/a", show, value)
      for show in NO_NUMBERS for value in (None, math.nan, math.inf)),
    ("of a damaged record: Home and the lists must open", "0.1%", lambda: formats.share(-0.001)[-4:]),
    ("a table", ["| --- | --- |", "| 1 | x\\|y |"], lambda: formats.markdown_table(("a", "b"), [("1", "x|y")])[1:]),
    ("an empty table", ["No row."], formats.markdown_table, ("a",), []),
)  # fmt: skip
