"""Numbers as text, for all output: pages, figures, commands, reports, Markdown. Nothing here parses text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

SPACE = "\N{NO-BREAK SPACE}"  # between a number and its unit; a percent sign has none
MISSING = "n/a"
MINUS = "\N{MINUS SIGN}"
TO = "\N{EN DASH}"
NO_INTERVAL = "no interval"
MOST_MORE = 4  # decimals beyond a number's own; a share of a point that needs more is rounding error

Number = float | int | None


def missing(value: Number) -> bool:
    """True if there is no number to show."""
    return value is None or not math.isfinite(value)


def known(value: float) -> float | None:
    """Return the number, None if it is missing."""
    return None if missing(value) else float(value)


def number(value: Number, digits: int = 3) -> str:
    """`0.430`; a true minus sign, thousands separated, and `n/a` for a missing number."""
    if value is None or missing(value):
        return MISSING
    text = f"{abs(value):,.{digits}f}"
    return MINUS + text if value < 0 and float(text.replace(",", "")) else text


def times(gain: float | Mapping[str, float]) -> str:
    """`8.2`, or `1.2 to 30.0` for a gain that differs by module kind."""
    factors = gain.values() if isinstance(gain, Mapping) else (gain,)
    return " to ".join(dict.fromkeys(number(end(factors), 1) for end in (min, max)))


def signed(value: Number, digits: int = 3) -> str:
    """`+0.430`, `−0.430`, `0.000`: a difference."""
    text = number(value, digits)
    return text if value is None or missing(value) or not _rounded(value, digits) > 0 else f"+{text}"


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}f}")


def percent(value: Number, digits: int = 1) -> str:
    """`80.1%` of a share in 0..1."""
    return MISSING if value is None or missing(value) else number(100 * value, digits) + "%"


def share(value: Number) -> str:
    """A region's share of d: `0.1%`, `0.01%`, `12.5%`, with the decimals that two significant figures need."""
    if value is None or missing(value):
        return MISSING
    per_cent = 100 * value
    if per_cent <= 0 or per_cent >= 10:  # a share below zero is from a damaged record
        return percent(value)
    digits = 1 - math.floor(math.log10(per_cent))
    text = f"{round(per_cent, digits):.{max(digits, 1)}f}"
    return text.rstrip("0").rstrip(".") + "%"


def points(value: Number, digits: int = 1) -> str:
    """`+2.9 points`: a difference of two shares, with its sign."""
    return MISSING if value is None or missing(value) else f"{signed(100 * value, digits)} points"


def digits_apart(low: float, high: float, digits: int) -> int:
    """Return the decimals that keep an interval that excludes zero from showing a zero end; at least `digits`.

    If low and high are both above or both below zero, the nearer one is not rounded to it.
    """
    nearer = low if low > 0 else high
    if (low > 0 or high < 0) and not _rounded(nearer, digits):
        return next((more for more in range(digits + 1, digits + 1 + MOST_MORE) if _rounded(nearer, more)), digits)
    return digits


def interval(low: Number, high: Number, digits: int = 3, scale: float = 1.0) -> str:
    """`0.412–0.450`, `−0.2 to 0.4`: the ends in units of 1 / scale; `no interval` if one is missing.

    It has more decimals if an end would otherwise be rounded to a zero that the interval excludes.
    """
    if low is None or high is None or missing(low) or missing(high):
        return NO_INTERVAL
    digits = digits_apart(scale * low, scale * high, digits)
    joint = " to " if low < 0 or high < 0 else TO
    return number(scale * low, digits) + joint + number(scale * high, digits)


def percent_interval(low: Number, high: Number, digits: int = 1) -> str:
    """`77.4–82.6`: the ends of an interval of shares, in percent without the sign."""
    return interval(low, high, digits, 100.0)


def estimate(
    value: Number, low: Number, high: Number, digits: int = 3, scale: float = 1.0, debiased: Number = None
) -> str:
    """`82.5 (79.3–85.3)`: a value with its interval, if it has one.

    A calibration error's interval is about its debiased value, which is shown first: `3.9 (2.6–5.2), plug-in 4.3`.
    """
    if value is None or missing(value):
        return MISSING
    ends = interval(low, high, digits, scale)
    if ends == NO_INTERVAL:
        return number(scale * value, digits)
    if low is not None and high is not None:
        digits = digits_apart(scale * low, scale * high, digits)
    center, plug_in = read_first(value, debiased)
    behind = "" if plug_in is None else f", plug-in {number(scale * plug_in, digits)}"
    return f"{number(scale * center, digits)} ({ends}){behind}"


def read_first(value: float, debiased: Number = None) -> tuple[float, float | None]:
    """Return the value to show first, and the plug-in value after it or None.

    A calibration error shows its debiased value first. Any other metric, or an error without a debiased value, shows
    the value itself.
    """
    return (value, None) if debiased is None or missing(debiased) else (debiased, value)


def percent_estimate(value: Number, low: Number = None, high: Number = None, debiased: Number = None) -> str:
    """`87.0 (85.1–88.9)`: a share with its interval, in percent without the sign."""
    return estimate(value, low, high, 1, 100.0, debiased)


def by_chance(mean: Number, low: Number = None, high: Number = None) -> str:
    """`1.2% (95%: 0.9–1.5%)`: a chance level with the range of 95% of random draws."""
    if mean is None or missing(mean):
        return MISSING
    if low is None or high is None or missing(low) or missing(high):
        return share(mean)
    return f"{share(mean)} (95%: {share(low).removesuffix('%')}{TO}{share(high)})"


def count(value: int | None) -> str:
    """`10,646`."""
    return MISSING if value is None else f"{value:,}"


def millions(value: int) -> str:
    """`67.0 M`: a model's number of parameters."""
    return f"{value / 1e6:,.1f}{SPACE}M"


def counted(value: int, noun: str) -> str:
    """`1 run`, `1,821 examples`, `2 entries`."""
    several = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{value:,} {noun if value == 1 else several}"


def listed(words: Sequence[str], most: int = 2) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    shown = words if len(words) <= most else [*words[:most], f"{len(words) - most} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def capital(words: str) -> str:
    """Return the words with their first letter in upper case, the rest unchanged."""
    return words[:1].upper() + words[1:]


def seconds(value: Number) -> str:
    """A measured duration: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if value is None or missing(value):
        return MISSING
    if value < 60:
        return number(value, 1) + SPACE + "s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}{SPACE}min {rest}{SPACE}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{SPACE}h {minutes}{SPACE}min"


NOT_MEASURED = "time left: not measured yet"


def rough_seconds(value: Number) -> str:
    """An estimated duration: `40 s`, `3 min`, `2.5 h`."""
    if value is None or missing(value):
        return MISSING
    if value < 90:
        return f"{max(round(value), 1)} s"
    return f"{round(value / 60)} min" if value < 7200 else f"{value / 3600:.1f} h"


def time_left(seconds: float | None) -> str:
    """`about 12 s left`; other words if nothing is measured yet, or if the work takes longer than measured."""
    if seconds is None:
        return NOT_MEASURED
    return f"about {rough_seconds(max(1.0, seconds))} left" if seconds > 0 else "longer than measured so far"


def byte_size(value: float) -> str:
    """`12.3 GiB`, `87 MiB`, `120 KiB`."""
    if value < 2**20:
        return f"{value / 2**10:.0f} KiB"
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def day(stamp: str | None) -> str:
    """`20 Nov 2026, 14:05 UTC` from an ISO time; any other text is returned unchanged."""
    if not stamp:
        return MISSING
    try:
        time = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; one line if there are no rows."""
    heading, *lines = [
        f"| {' | '.join(one_line(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in (headings, *rows)
    ]
    return [heading, "| --- " * len(headings) + "|", *lines] if lines else ["No row."]


def one_line(text: str) -> str:
    """Return the text with line breaks and tabs replaced by spaces."""
    return " ".join(text.replace("\t", " ").splitlines())
