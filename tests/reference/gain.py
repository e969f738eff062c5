"""Slow twin of the gains by module kind: coordinate descent over tried gains, from the formula, with loops."""

from collections.abc import Callable, Mapping, Sequence

from tests.reference.calibration import nll

TRIED = [2 ** (step / 2) - 1 for step in range(17)]


def best(losses: Sequence[float]) -> float:
    """Return the gain at the vertex of the parabola through the lowest loss and its neighbors, in log2(gain + 1)."""
    at = losses.index(min(losses))
    if at in (0, len(losses) - 1):
        return TRIED[at]
    (x0, y0), (x1, y1), (x2, y2) = ((number / 2, losses[number]) for number in (at - 1, at, at + 1))
    slope, next_slope = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    return 2 ** ((x0 + x1) / 2 - slope / (2 * ((next_slope - slope) / (x2 - x0)))) - 1


def gains_by_kind(
    logits_of: Callable[[Mapping[str, float]], Sequence[Sequence[float]]], kinds: Sequence[str], start: float,
    labels: Sequence[int], sweeps: int, at_once: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Return the gain of each kind after some sweeps; `at_once` is the planted error: a sweep keeps the others."""
    gains = {kind: start for kind in kinds}
    for _ in range(sweeps):
        before = dict(gains)
        for kind in kinds:
            others = before if at_once else gains
            gains[kind] = best([nll(logits_of({**others, kind: tried}), labels) for tried in TRIED])
    return gains
