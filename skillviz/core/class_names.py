"""Match two lists of class names: the correspondence between them, and whether it is certain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skillviz.core.comparison import Comparison

SHORTEST = 3
"""Letters of the shortest abbreviation that can match a name that begins with it: `pos`, `neg`."""
BETWEEN = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W_])|(?<=[^\W_])[\s_-]+(?=[^\W\d_])")
"""The characters that join two words, but not two numbers."""
WHOLE = re.compile(r"^(-?\d+)\.0+$")
"""A whole number as pandas writes it in a column with missing values."""


def _plain(name: str) -> str:
    return WHOLE.sub(r"\1", unicodedata.normalize("NFKC", name).strip().casefold())


def _joined(name: str) -> str:
    return BETWEEN.sub("", _plain(name))


KEYS: tuple[Callable[[str], str], ...] = (str, _plain, _joined)
"""The forms in which two names must agree, in turn: exact; without case and outer spaces; with their words joined."""


@dataclass(frozen=True)
class Matching:
    """The match of `names` with `labels`: `order` has each label's index among the names, None if one is unknown.

    SAME: every label has its name, in any order. DIFFERENT: a name is at another label's index, and the rest does not
    settle the order. UNKNOWN: there is no evidence for or against taking both in their order. `taken` are (name, label)
    that were matched though they differ by more than case: as an abbreviation, or as the last pair left.
    """

    comparison: Comparison
    order: tuple[int, ...] | None
    taken: tuple[tuple[str, str], ...] = ()
    misplaced: str = ""

    @property
    def is_reordered(self) -> bool:
        """True if the labels are known to be in another order than the names."""
        return self.order is not None and self.order != tuple(range(len(self.order)))


def places(names: Sequence[str], labels: Sequence[str]) -> list[int | None]:
    """Return for each name the index of its label, None if it matches no label or several."""
    found: list[int | None] = [None] * len(names)
    for key in KEYS:
        keys = [key(label) for label in labels]
        known = {one: place for place, one in enumerate(keys) if key is str or keys.count(one) == 1}
        found = [known.get(key(name)) if place is None else place for name, place in zip(names, found, strict=True)]
    return found


def match(names: Sequence[str], labels: Sequence[str]) -> Matching:
    """Return the match of these names with the labels; there may be more names than labels, and any may be missing."""
    found = places(names, labels)
    found = [None if place is not None and found.count(place) > 1 else place for place in found]
    by_name = {place: at for at, place in enumerate(found) if place is not None}
    taken = dict(by_name)
    free_names = [at for at, place in enumerate(found) if place is None]
    free_labels = [place for place in range(len(labels)) if place not in by_name]
    likely = [(at, place) for at in free_names for place in free_labels if _shortens(names[at], labels[place])]
    if [len({pair[side] for pair in likely}) for side in (0, 1)] == [len(likely)] * 2:
        taken |= {place: at for at, place in likely}
    rest = [at for at in free_names if at not in taken.values()], [p for p in free_labels if p not in taken]
    if taken and len(names) == len(labels) and (len(rest[0]), len(rest[1])) == (1, 1):
        taken[rest[1][0]] = rest[0][0]
    more = tuple((names[at], labels[place]) for place, at in sorted(taken.items()) if place not in by_name)
    if len(taken) == len(labels):
        return Matching(Comparison.SAME, tuple(taken[place] for place in range(len(labels))), more)
    misplaced = next((names[at] for place, at in sorted(by_name.items()) if at != place), "")
    return Matching(Comparison.DIFFERENT if misplaced else Comparison.UNKNOWN, None, misplaced=misplaced)


def _shortens(one: str, other: str) -> bool:
    """True if one of two names is an abbreviation of the other: its first letters, with no number cut short."""
    short, whole = sorted((_joined(one), _joined(other)), key=len)
    return len(short) >= SHORTEST and whole.startswith(short) and not whole[len(short) :][:1].isdigit()
