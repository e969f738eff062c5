"""Names of layers and module kinds as one text, as an option holds them: `0,1`, `query,value`, or `all`. No torch."""

from __future__ import annotations

from skillviz.core.architectures import KINDS

EVERY = "all"


def layers_text(value: object) -> str:
    """`all`, or the numbers of blocks, sorted, with commas; raises ValueError."""
    words = _words(value)
    if words == [EVERY]:
        return EVERY
    numbers = sorted({int(word) for word in words})
    if not numbers or numbers[0] < 0:
        raise ValueError(value)
    return ",".join(map(str, numbers))


def kinds_text(value: object) -> str:
    """`all`, or the names of module kinds in their order, with commas; raises ValueError."""
    words = _words(value)
    if words == [EVERY]:
        return EVERY
    if not words or not set(words) <= set(KINDS):
        raise ValueError(value)
    return ",".join(kind for kind in KINDS if kind in words)


def _words(value: object) -> list[str]:
    """The items of a list, or of a text with commas; a single number is one item."""
    if isinstance(value, bool | float):
        raise ValueError(value)
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    return [word for item in items if (word := str(item).strip())]
