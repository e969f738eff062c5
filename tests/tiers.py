"""Divide long lists of cases among a plain run, the second step of .ci/run, and the night.

`first` selects them by name if cases differ, `@pytest.mark.cases(first, second)` by number.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

USUAL = ("stagewise", "stagewise-nested", "frank-wolfe", "learned", "movement", "random")
"""One localizer of each kind: by stages, nested, by steps, with a gradient on the mask, without a search, by chance."""


def in_the_night(case: Any) -> bool:
    """Return False: as `is_second` of `first`, it puts all other cases in the night."""
    return False


def first(
    names: Iterable[Any],
    is_first: Callable[[Any], bool] = USUAL.__contains__,
    is_second: Callable[[Any], bool] = lambda name: True,
) -> list[Any]:
    """Return the cases, with a slow mark for those of the second step and a nightly mark for the rest."""
    later = {True: pytest.mark.slow, False: pytest.mark.nightly}
    return [name if is_first(name) else pytest.param(name, marks=later[is_second(name)]) for name in names]


def spread_cases(items: Iterable[pytest.Item]) -> None:
    """Keep `first` cases of each test with `cases(first, second)` in the first tier, and `second` more in the
    second.

    Each group is spread evenly over the available cases; the others move to the next tier.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        marker = cases[0].get_closest_marker("cases")
        assert marker is not None
        first_tier, second_tier = marker.args
        day = [item for item in cases if not item.get_closest_marker("nightly")]
        plain = [item for item in day if not (item.get_closest_marker("slow") or item.get_closest_marker("e2e"))]
        kept = _spread(plain, first_tier)
        later = [item for item in day if item not in kept]
        slow = _spread(later, second_tier)
        for item in later:
            item.add_marker("slow" if item in slow else "nightly")


def _spread(items: list[pytest.Item], n: int) -> list[pytest.Item]:
    """Return n of the items, evenly spread."""
    n = min(n, len(items))
    return [items[index * len(items) // n] for index in range(n)]
