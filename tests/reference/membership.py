"""Slow twin of membership inference: every pair of a member and an unseen example, and DeLong's variance by loops."""

from collections.abc import Sequence
from math import sqrt


def won(member: float, unseen: float) -> float:
    return 1.0 if member < unseen else 0.5 if member == unseen else 0.0


def auc(members: Sequence[float], unseen: Sequence[float]) -> tuple[float, float]:
    """Return the AUC and half its 95% interval."""
    value = sum(won(a, b) for a in members for b in unseen) / (len(members) * len(unseen))
    each = [
        [sum(won(a, b) for b in unseen) / len(unseen) for a in members],
        [sum(won(a, b) for a in members) / len(members) for b in unseen],
    ]
    parts = [sum((x - value) ** 2 for x in of) / (len(of) - 1) / len(of) for of in each]
    return value, 1.959963984540054 * sqrt(sum(parts))
