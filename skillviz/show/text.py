"""Numbers as a reader sees them: one decimal for percents, thousands separated, the interval beside."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from pathlib import PurePosixPath

SPACE = "\N{NO-BREAK SPACE}"
MISSING = "n/a"
MINUS = "\N{MINUS SIGN}"
TO = "\N{EN DASH}"
HASH = re.compile(r"[0-9a-f]{40}")

Number = float | int | None


def missing(value: Number) -> bool:
    """Whether there is no number to show."""
    return value is None or not math.isfinite(value)


def known(value: float) -> float | None:
    """The number, None where a table has none."""
    return None if missing(value) else float(value)


def number(value: Number, digits: int = 3) -> str:
    """`0.430`; a true minus sign, and `n/a` where there is no number."""
    if value is None or missing(value):
        return MISSING
    text = f"{abs(value):,.{digits}f}"
    return MINUS + text if value < 0 and float(text.replace(",", "")) else text


def percent(value: Number, digits: int = 1) -> str:
    """`80.1 %` of a share in 0..1; the space does not break."""
    return MISSING if value is None or missing(value) else number(100 * value, digits) + SPACE + "%"


def share(value: Number) -> str:
    """A region's share of d: `0.1 %`, `0.01 %`, `12.5 %`: as many decimals as two figures need."""
    if value is None or missing(value):
        return MISSING
    per_cent = 100 * value
    if per_cent == 0 or per_cent >= 10:
        return percent(value)
    digits = 1 - math.floor(math.log10(per_cent))
    return _plain(f"{round(per_cent, digits):.{max(digits, 1)}f}") + SPACE + "%"


def _plain(text: str) -> str:
    """Without the zeros at the end that say nothing: `0.10` is `0.1`, `1.0` is `1`."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int | None) -> str:
    """`10,646`."""
    return MISSING if value is None else f"{value:,}"


def counted(value: int, noun: str) -> str:
    """`1 run`, `1,821 examples`, `2 entries`."""
    several = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{value:,} {noun if value == 1 else several}"


def listed(words: list[str], most: int = 2) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    shown = words if len(words) <= most else [*words[:most], f"{len(words) - most} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def percent_interval(low: Number, high: Number, digits: int = 1) -> str:
    """`77.4–82.6`: the ends of an interval of shares, in percent without the sign."""
    return _interval(low, high, 100, digits)


def number_interval(low: Number, high: Number, digits: int = 3) -> str:
    """`0.412–0.450`."""
    return _interval(low, high, 1, digits)


def _interval(low: Number, high: Number, scale: float, digits: int) -> str:
    if low is None or high is None or missing(low) or missing(high):
        return "no interval"
    joint = " to " if low < 0 or high < 0 else TO
    return number(scale * low, digits) + joint + number(scale * high, digits)


def points(value: Number, digits: int = 1) -> str:
    """`+2.9 points`: a difference of two shares, with its sign."""
    if value is None or missing(value):
        return MISSING
    text = number(100 * value, digits)
    sign = "+" if float(f"{100 * value:.{digits}f}") > 0 else ""
    return f"{sign}{text} points"


def seconds(value: Number) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if value is None or missing(value):
        return MISSING
    if value < 60:
        return number(value, 1) + SPACE + "s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}{SPACE}min {rest}{SPACE}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{SPACE}h {minutes}{SPACE}min"


def day(stamp: str | None) -> str:
    """`20 Nov 2026, 14:05 UTC` of an ISO time; the text itself where it is not one."""
    if not stamp:
        return MISSING
    try:
        time = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def short_source(source: str) -> str:
    """A model's or task's name without its folders: `minilm-l6`, `org/name@1a2b3c4`, `sst2`."""
    name, _, revision = source.partition("@")
    if revision:
        return f"{short_source(name)}@{revision[:7] if HASH.fullmatch(revision) else revision}"
    parts = PurePosixPath(name.replace("\\", "/").rstrip("/")).parts
    is_hub_id = len(parts) == 2 and not name.startswith((".", "~", "/", "$"))
    last = parts[-1] if parts else name
    return name if is_hub_id else last.removesuffix(".yaml").removesuffix(".yml")


def last_part(source: str) -> str:
    """The name alone, without organisation or folders: `MiniLM` of `microsoft/MiniLM`."""
    return short_source(source).rpartition("/")[2]


def short_hash(fingerprint: str) -> str:
    """The first twelve figures of a fingerprint."""
    return fingerprint[:12] if fingerprint else MISSING


def plain(text: str) -> str:
    """The text with Markdown's signs escaped, so that a user's own names are shown as they are."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>$~:])", r"\\\1", text)


def with_code(text: str) -> str:
    """A sentence of ours for Markdown: what it has between backticks, such as a command, stays code; the rest plain."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(f"`{part}`" if number % 2 else plain(part) for number, part in enumerate(parts))
