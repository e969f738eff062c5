"""Tests of values as tables: the name of a case, what is wanted, what is called, and its arguments."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.refused import refused, refuses

# Re-exported, so that a test imports all its tables from one place.
__all__ = ["by_hand", "near", "refused", "refuses"]


def by_hand(*cases: tuple[Any, ...]) -> Callable[[Any], None]:
    """Return a test in which each call gives what is wanted. A case has its name, that value, what is called, and its
    arguments."""

    @pytest.mark.parametrize("case", cases, ids=lambda case: case[0])
    def test(case: tuple[Any, ...]) -> None:
        _, wanted, call, *arguments = case
        assert call(*arguments) == wanted

    return test


def near(*values: Any, **tolerance: float) -> Any:
    """Return what a float, or a sequence of them, must be near to; NaN equals NaN."""
    return pytest.approx(values[0] if len(values) == 1 else values, nan_ok=True, **tolerance)
