"""Which cases of a long list a plain run tries; the others are of the second step of .ci/run."""

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
