"""The gain of a graft: a factor on the movement inside its region, fitted on validation examples.

A graft of gain α has base + α (fine-tuned - base) in its region; α = 1 is the paper's graft. Ilharco et al. (2023)
choose such a factor on task vectors by validation; ours has the lowest NLL, and a bootstrap interval. A gain may also
be one factor for each module kind (ours), fitted by coordinate descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core.scores import losses
from skillviz.errors import BadData, CorruptFile

STEPS = np.arange(17) / 2
GAINS = np.exp2(STEPS) - 1
"""The gains that a fit tries: 0 (the base), 0.41, 1, 1.8, 3, ..., 255: steps of a factor of 1.4 in α + 1."""
RESAMPLES, SEED = 1000, 20260
OVERFLOWN = 1e6
"""The loss in nats of a gain that is too large for the model's dtype, so high that no fit chooses it."""
SWEEPS = 2  # of the coordinate descent over the module kinds

Gain = float | Mapping[str, float]
"""One factor on the movement, or one by module kind (`ParameterTable.by_kind`); a kind without one has 1."""


def gain_in(header: Mapping[str, Any]) -> Gain:
    """Return the gain in the header of a region or graft file; 1 without one. Raises CorruptFile for another value."""
    gain = header.get("gain", 1.0)
    for factor in gain.values() if isinstance(gain, Mapping) else (gain,):
        if type(factor) not in (int, float) or not 0 <= factor < math.inf:
            raise CorruptFile(f"the file's gain is {gain!r}; it must be 0 or more, or such a number by module kind.")
    return gain


class GainFit(NamedTuple):
    """The gain with the lowest NLL, its 95% interval over examples, and whether that ends below the largest gain tried.

    If the curve still falls at the largest gain, `value` is that gain; `high` is infinite if the interval ends there.
    """

    value: float
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        """True if the examples rule out a larger gain."""
        return math.isfinite(self.high)


def gain_fit(logits: ArrayLike, labels: ArrayLike, resamples: int = RESAMPLES) -> GainFit:
    """Fit the gain of lowest mean NLL on these (validation) examples; `logits` [len(GAINS), n, label] are the grafts'.

    Between the tried gains it is the vertex of the parabola through the lowest and its neighbors, in log2(α + 1). The
    interval is from the same estimate on bootstrap samples of the examples. Raises BadData for another number of gains.
    """
    by_gain = np.asarray(logits)
    if len(by_gain) != len(GAINS):
        raise BadData(f"a gain is fitted on the logits of {len(GAINS)} grafts; got {len(by_gain)}.")
    by_example = np.stack([_losses(z, labels) for z in by_gain], axis=1)
    n, rng = len(by_example), np.random.default_rng(SEED)
    drawn = (np.bincount(rng.integers(0, n, n), minlength=n) @ by_example / n for _ in range(resamples))
    lowest = _lowest(np.stack([by_example.mean(axis=0), *drawn]))
    low, high = np.quantile(lowest[1:], (0.025, 0.975))
    gain, low, high_end = (float(np.exp2(step) - 1) for step in (lowest[0], low, high))
    return GainFit(gain, low, high_end if high < STEPS[-1] else math.inf)


def gain_fits(
    logits_of: Callable[[str, Mapping[str, float]], ArrayLike], kinds: Iterable[str], start: float, labels: ArrayLike,
    resamples: int = RESAMPLES,
) -> dict[str, GainFit]:  # fmt: skip
    """Return the gain of each module kind after SWEEPS sweeps of coordinate descent from the single gain `start`.

    A step is `gain_fit` of one kind with the others fixed, so each interval is for these values of the others.
    `logits_of` returns logits [len(GAINS), n, label]: the kind has each of GAINS, the others the given gains.
    """
    fits = {kind: GainFit(start, start, start) for kind in kinds}
    for _ in range(SWEEPS):
        for kind in fits:
            fits[kind] = gain_fit(logits_of(kind, {name: fit.value for name, fit in fits.items()}), labels, resamples)
    return fits


def _losses(logits: np.ndarray, labels: ArrayLike) -> NDArray[np.float64]:
    """Return the losses [n] of a graft; all OVERFLOWN if one of its logits is not finite."""
    return losses(logits, labels) if np.isfinite(logits).all() else np.full(len(logits), OVERFLOWN)


def _lowest(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the step [k] at which each curve [k, len(STEPS)] is lowest."""
    at = curves.argmin(axis=1)
    inside = np.clip(at, 1, len(STEPS) - 2)
    rows = np.arange(len(curves))
    before, here, after = (curves[rows, inside + shift] for shift in (-1, 0, 1))
    bend = before - 2 * here + after
    shift = np.divide(before - after, 2 * bend, out=np.zeros_like(bend), where=bend > 0)
    return np.where(at == inside, STEPS[inside] + STEPS[1] * np.clip(shift, -0.5, 0.5), STEPS[at])
