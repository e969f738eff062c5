"""Which cases of a long list a plain run tries, which the second step of .ci/run, and which the night.

`first` chooses them by name where one differs from another, `@pytest.mark.cases(first, second)` by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

USUAL = ("stagewise", "stagewise-nested", "frank-wolfe", "learned", "movement", "random")
"""One localizer of each kind: by stages, nested, by steps, with a gradient on the mask, without a search, by chance."""


def in_the_night(case: Any) -> bool:
    """For `first`: none of the other cases is of the second step."""
    return False


def first(
    names: Iterable[Any],
    is_first: Callable[[Any], bool] = USUAL.__contains__,
    is_second: Callable[[Any], bool] = lambda name: True,
) -> list[Any]:
    """The cases, those of the second step marked slow, and those of neither marked nightly."""
    later = {True: pytest.mark.slow, False: pytest.mark.nightly}
    return [name if is_first(name) else pytest.param(name, marks=later[is_second(name)]) for name in names]


def spread_cases(items: Iterable[pytest.Item]) -> None:
    """Leaves `first` cases of each test with `cases(first, second)` in the first tier and `second` more in the second,
    each lot spread evenly over those that are there; what is too many moves on to the next tier."""
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
    """n of them, spread evenly."""
    n = min(n, len(items))
    return [items[index * len(items) // n] for index in range(n)]
