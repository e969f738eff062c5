"""Sub-skills: groups of a region's parts that help the same examples, by a non-negative factorization.

A matrix of effects [example, part] >= 0 is approximated by uses [example, sub-skill] times loadings [sub-skill, part]
with multiplicative updates of the squared error (Lee and Seung 2001). The same is done to the effects of random
controls of the parts. The effects of any parts can be factorized, so sub-skills count only if they are more stable, and
explain more, than the controls' (ours).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skillviz.core.intervals import LEVEL, Interval, draws, percentile_interval
from skillviz.core.scores import Floats
from skillviz.errors import BadData

COUNTS = (2, 3, 4, 5, 6)
"""The numbers of sub-skills that are tried."""
RESAMPLES = 20
"""Bootstrap samples of the examples."""
STARTS = 5
"""Random starts of the factorization of all examples; the one with the least error is used."""
STEPS = 300
"""Updates of a factorization; with 1,000 the explained shares of the shipped cells and controls change by < 0.001."""


@dataclass(frozen=True)
class Beyond:
    """A value of the region, the mean of the same over its control draws, and their difference with its interval.

    The interval is for the region minus one more control draw, not minus the mean of draws.
    """

    value: float
    control: float
    difference: Interval

    @property
    def holds(self) -> bool:
        """True if the region is beyond its controls."""
        return self.difference.low > 0


@dataclass(frozen=True)
class Subskills:
    """The sub-skills of a region's parts, largest first, and the comparison with its controls.

    `uses` [example, sub-skill] in the unit of the effects; `loadings` [sub-skill, part], each row of length 1.
    `stability` has the interval over bootstrap samples of each sub-skill's cosine with its match, `shares` of its part
    of the fitted effects, which sum to 1. `agreement` and `explained` are [matrix, count, resample] for the region
    (matrix 0) and each control draw, by the numbers in `counts`.
    """

    counts: tuple[int, ...]
    uses: Floats
    loadings: Floats
    weights: Floats
    stability: tuple[Interval, ...]
    shares: tuple[Interval, ...]
    agreement: Floats
    explained: Floats
    margin: Beyond
    explains: Beyond

    @property
    def count(self) -> int:
        """The number of sub-skills."""
        return len(self.loadings)

    @property
    def is_beyond_random(self) -> bool:
        """True if both the stability and the explained share are beyond the controls'."""
        return self.margin.holds and self.explains.holds


def subskills(effects: ArrayLike, controls: ArrayLike, seed: int = 0) -> Subskills:
    """Return the sub-skills of effects [example, part], compared with the controls' effects [draw, example, part].

    Stability is the mean cosine of the loadings between bootstrap samples of the examples, each sub-skill with its best
    match. The number of sub-skills is the one of COUNTS with the largest margin of the region's stability over the mean
    of the other matrices'. Each control's margin over all other matrices is searched in the same way, so the chosen
    maximum is compared with maxima. The result depends on the arguments and the seed alone. Raises BadData for negative
    or missing effects, and for fewer than two draws, three parts or two examples.
    """
    matrices = np.stack([np.asarray(effects, dtype=np.float64), *np.asarray(controls, dtype=np.float64)])
    _, n, parts = matrices.shape
    if len(matrices) < 3 or n < 2 or parts <= COUNTS[0] or not (np.isfinite(matrices) & (matrices >= 0)).all():
        raise BadData(
            "sub-skills need effects of 0 or more of at least three parts on two examples, and two control draws; got "
            f"{len(matrices) - 1} draws of {n} examples and {parts} parts."
        )
    counts = tuple(count for count in COUNTS if count < parts)
    weights = np.concatenate(list(draws(n, RESAMPLES, seed)))
    agreement, explained = np.empty((2, len(matrices), len(counts), RESAMPLES))
    of_region = []
    for number, matrix in enumerate(matrices):
        for place, count in enumerate(counts):
            uses, loadings = factorized(matrix, count, weights, seed)
            agreement[number, place] = mutual_agreement(loadings)
            explained[number, place] = explained_share(matrix, uses, loadings, weights)
            of_region += [] if number else [loadings]
    means = agreement.mean(axis=2)
    margins = _margins(means)
    chosen = margins.argmax(axis=1)
    at_chosen = np.stack([_margins(agreement[:, :, b])[range(len(chosen)), chosen] for b in range(RESAMPLES)], axis=1)
    uses, loadings = _largest_first(matrices[0], counts[chosen[0]], seed)
    cosines = np.stack([matched(loadings, other) for other in of_region[chosen[0]]])
    stability = tuple(percentile_interval(float(column.mean()), column) for column in cosines.T)
    return Subskills(
        counts, uses, loadings, weights, stability, resampled_shares(uses * loadings.sum(axis=1), weights),
        agreement, explained, beyond_draws(margins.max(axis=1), at_chosen),
        beyond_draws(explained[:, chosen[0]].mean(axis=1), explained[:, chosen[0]]),
    )  # fmt: skip


def factorized(effects: Floats, count: int, weights: Floats, seed: int, steps: int = STEPS) -> tuple[Floats, Floats]:
    """Return uses [fit, example, sub-skill] and loadings [fit, sub-skill, part] of weights [fit, example] on examples.

    Each fit starts from its own random values and descends on the weighted squared error; it ends in a local minimum.
    Loadings have length 1, or are 0 if nothing is left to explain.
    """
    fits, (n, parts) = len(weights), effects.shape
    generator, scale = np.random.default_rng([seed, count]), math.sqrt(float(effects.mean()) / count)
    loadings = scale * generator.uniform(0.5, 1.5, (fits, count, parts))
    uses = scale * generator.uniform(0.5, 1.5, (fits, n, count))
    least = 1e-12 * (float(effects.mean()) or 1.0)  # keeps 0 / 0 at 0
    for _ in range(steps):
        seen = (effects @ loadings.reshape(-1, parts).T).reshape(n, fits, count).transpose(1, 0, 2)
        uses *= seen / (uses @ (loadings @ loadings.transpose(0, 2, 1)) + least)
        weighted = (uses * weights[:, :, None]).transpose(0, 2, 1)
        wanted = (weighted.reshape(-1, n) @ effects).reshape(loadings.shape)
        loadings *= wanted / (weighted @ uses @ loadings + least)
    lengths = np.linalg.norm(loadings, axis=2)
    return uses * lengths[:, None, :], np.divide(loadings, lengths[:, :, None], where=lengths[:, :, None] > 0,
                                                 out=np.zeros_like(loadings))  # fmt: skip


def explained_share(effects: Floats, uses: Floats, loadings: Floats, weights: Floats) -> Floats:
    """Return 1 - squared error / sum of squared effects [fit], on the weighted examples; 0 if all effects are 0."""
    wrong = (((effects - uses @ loadings) ** 2).sum(axis=2) * weights).sum(axis=1)
    total = weights @ (effects**2).sum(axis=1)
    return 1 - np.divide(wrong, total, out=np.ones(len(weights)), where=total > 0)


def matched(loadings: Floats, others: Floats) -> Floats:
    """Return the cosine of each row of loadings [sub-skill, part] with its match among others, all matched one to one.

    The matching has the largest sum of cosines (Kuhn 1955). Rows have length 1 or 0.
    """
    from scipy.optimize import linear_sum_assignment  # importing takes 0.3 s, which `import skillviz` should not cost

    cosines = loadings @ others.T
    return np.asarray(cosines[linear_sum_assignment(cosines, maximize=True)])


def mutual_agreement(loadings: Floats) -> Floats:
    """Return the mean matched cosine of each fit's loadings with all other fits' [fit]; their mean is the stability."""
    agreement = np.zeros((len(loadings), len(loadings)))
    for one in range(len(loadings)):
        for other in range(one):
            agreement[one, other] = agreement[other, one] = matched(loadings[one], loadings[other]).mean()
    return np.asarray(agreement.sum(axis=1) / (len(loadings) - 1))


def resampled_shares(sizes: Floats, weights: Floats) -> tuple[Interval, ...]:
    """Return the share of each column of sizes [example, column] in the sum of all, with its interval over resamples.

    `weights` [resample, example] are the draws. The shares sum to 1; all are NaN if there is nothing to share.
    """
    with np.errstate(invalid="ignore"):
        value, drawn = (sums / sums.sum(axis=-1, keepdims=True) for sums in (sizes.sum(axis=0), weights @ sizes))
    return tuple(percentile_interval(float(one), column) for one, column in zip(value, drawn.T, strict=True))


def beyond_draws(values: Floats, resampled: Floats) -> Beyond:
    """Return the first of values [matrix] beyond the others, the control draws, with an interval for one more draw.

    If the region's parts were a further draw, the interval would include 0 in 95 of 100 cases: it is Student's t with
    draws - 1 degrees of freedom on the spread of the draws. `resampled` [matrix, resample] widens it by the spread of
    the difference over resampled examples, joined as squares.
    """
    from scipy.special import ndtri, stdtrit  # importing takes 0.2 s, which `import skillviz` should not cost

    control, m = float(values[1:].mean()), len(values) - 1
    over_draws = float(stdtrit(m - 1, 0.5 + LEVEL / 2)) * float(values[1:].std(ddof=1)) * math.sqrt(1 + 1 / m)
    over_examples = float(ndtri(0.5 + LEVEL / 2)) * float((resampled[0] - resampled[1:].mean(axis=0)).std(ddof=1))
    half = math.hypot(over_draws, over_examples)
    difference = float(values[0]) - control
    return Beyond(float(values[0]), control, Interval(difference, difference - half, difference + half))


def _margins(stability: Floats) -> Floats:
    """Return the stability of each matrix minus the mean of all others' [matrix, count]."""
    return (stability - stability.mean(axis=0)) * len(stability) / (len(stability) - 1)


def _largest_first(effects: Floats, count: int, seed: int) -> tuple[Floats, Floats]:
    """Return the best of STARTS factorizations of all examples, the sub-skill with the largest fitted effect first."""
    whole = np.ones((STARTS, len(effects)))
    uses, loadings = factorized(effects, count, whole, seed)
    best = explained_share(effects, uses, loadings, whole).argmax()
    order = np.argsort(-(uses[best].sum(axis=0) * loadings[best].sum(axis=1)), kind="stable")
    return uses[best][:, order], loadings[best][order]
