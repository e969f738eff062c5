"""Tests of sub-skills: planted blocks are found, noise is not, and every step equals its slow twin."""

from functools import cache

import numpy as np
import pytest

from skillviz.core.subskills import (
    RESAMPLES,
    Subskills,
    beyond_draws,
    explained_share,
    factorized,
    matched,
    mutual_agreement,
    resampled_shares,
    subskills,
)
from skillviz.errors import BadData
from tests.core.by_hand import by_hand, near, refused
from tests.reference.subskills import slow_explained, slow_factorized, slow_margins, slow_matched

N, PARTS = 60, 12


def noise(seed: int, draws: int = 4) -> np.ndarray:
    """Return effects without structure [draw, example, part]."""
    return np.maximum(np.random.default_rng(seed).normal(0, 1, (draws, N, PARTS)), 0)


def blocks(seed: int, count: int = 3) -> np.ndarray:
    """Return effects in which every third of the parts helps its own third of the examples, plus little noise."""
    own = (np.arange(N) % count)[:, None] == (np.arange(PARTS) % count)
    return np.asarray(own * (1 + np.random.default_rng(seed).random((N, PARTS))) + 0.02 * noise(seed)[0])


@cache
def planted() -> Subskills:
    return subskills(blocks(0), noise(1, 10))


def test_the_margin_of_planted_blocks_is_the_twins() -> None:
    (lead, number), *others = slow_margins(planted().agreement.mean(axis=2).tolist())
    assert (planted().count, planted().margin.value, planted().margin.control) == pytest.approx(
        (planted().counts[number], lead, np.mean([other for other, _ in others]))
    )


def test_the_result_depends_on_arguments_and_seed_alone() -> None:
    again = subskills(blocks(0), noise(1, 10))
    assert np.array_equal(again.loadings, planted().loadings) and again.margin == planted().margin
    assert not np.array_equal(subskills(blocks(0), noise(1, 10), seed=1).agreement, planted().agreement)
    assert subskills(1000 * blocks(0), noise(1, 10) / 1000).loadings == pytest.approx(planted().loadings, abs=1e-6), (
        "the unit does not count"
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_step_is_the_twins(seed: int) -> None:
    random = np.random.default_rng(seed)
    effects, weights = random.random((7, 5)), random.integers(0, 3, (2, 7)).astype(float)
    uses, loadings = factorized(effects, 3, weights, seed, steps=4)
    generator, scale = np.random.default_rng([seed, 3]), np.sqrt(effects.mean() / 3)
    starts = scale * generator.uniform(0.5, 1.5, (2, 3, 5)), scale * generator.uniform(0.5, 1.5, (2, 7, 3))
    for fit in range(2):
        own = effects.tolist(), weights[fit].tolist(), starts[1][fit].tolist(), starts[0][fit].tolist()
        w, h = slow_factorized(*own, 4)
        assert uses[fit] == pytest.approx(np.array(w)) and loadings[fit] == pytest.approx(np.array(h))
        assert loadings[fit] != pytest.approx(np.array(slow_factorized(own[0], [1.0] * 7, *own[2:], 4)[1])), (
            "weights left out would pass"
        )
        assert explained_share(effects, uses, loadings, weights)[fit] == pytest.approx(
            slow_explained(own[0], w, h, own[1])
        )
    best = slow_matched(*loadings.tolist())
    assert [*matched(*loadings), *mutual_agreement(loadings)] == pytest.approx([*best, *[np.mean(best)] * 2])


@pytest.mark.slow
def test_noise_is_seldom_beyond_noise() -> None:
    """Few of 100 regions of noise are beyond three draws of noise: the rule's rate is at most 2.5% for each
    of its two conditions, and 8 or more have a probability below 1%."""
    assert sum(subskills(of[0], of[1:]).is_beyond_random for of in map(noise, range(100, 200))) < 8


OTHERS, OUTER, ONES = (
    np.array([[0.8, 0.6, 0], [1, 0, 0], [0, 0, 1]]),
    np.outer([1.0, 2, 3, 0], [1.0, 0, 2]),
    np.ones((1, 4)),
)
FIVE, STILL = np.array([5.0, 1, 2, 3]), np.zeros((4, RESAMPLES))
BEYOND = beyond_draws(FIVE, STILL)
WIDTH = 4.302652729911275 * np.sqrt(1 + 1 / 3)  # Student's t with 2 degrees of freedom, and a spread of 1
test_by_hand = by_hand(
    ("planted blocks are recovered and beyond noise", (3, True), lambda: (planted().count, planted().is_beyond_random)),
    ("the parts of each", {frozenset(range(k, PARTS, 3)) for k in range(3)},
     lambda: {frozenset(np.flatnonzero(planted().loadings.argmax(axis=0) == k)) for k in range(3)}),
    ("the examples of each", True, lambda: bool(
        (planted().uses.argmax(axis=1).reshape(-1, 3) == planted().uses[:3].argmax(axis=1)).all())),
    ("the shares", near(1), lambda: sum(share.value for share in planted().shares)),
    ("the largest is first", True, lambda: bool((np.diff([share.value for share in planted().shares]) <= 0).all())),
    ("each is stable", [True] * 3,
     lambda: [one.low <= one.value <= one.high and one.low > 0.95 for one in planted().stability]),
    ("an interval for one more draw", (5, 2, near(3, 3 - WIDTH, 3 + WIDTH)),
     lambda: (BEYOND.value, BEYOND.control, BEYOND.difference[:3])),
    ("not beyond the draws", False, lambda: BEYOND.holds),
    ("beyond the draws", True, lambda: beyond_draws(FIVE + [3, 0, 0, 0], STILL).holds),
    ("resampled examples widen it", True, lambda: beyond_draws(
        FIVE, np.random.default_rng(0).normal(0, 1, (4, RESAMPLES))).difference.low < BEYOND.difference.low),
    ("the second may not take the first's match", [1.0, 0.6, 1.0], lambda: matched(np.eye(3), OTHERS).tolist()),
    ("the same, turned round", [1.0, 1.0, 1.0], lambda: matched(np.eye(3), np.eye(3)[::-1]).tolist()),
    ("one factor explains all", near([1.0]),
     lambda: explained_share(OUTER, *factorized(OUTER, 1, ONES, 0), ONES).tolist()),
    ("one factor is the outer product", near(OUTER), lambda: np.matmul(*factorized(OUTER, 1, ONES, 0))[0]),
    ("of nothing", [[[0.0] * 3] * 2], lambda: factorized(0 * OUTER, 2, ONES, 0)[1].tolist()),
    ("of nothing, explained", [0.0],
     lambda: explained_share(0 * OUTER, *factorized(0 * OUTER, 2, ONES, 0), ONES).tolist()),
    ("shares", [0.25, 0.75], lambda: [one.value for one in resampled_shares(
        np.array([[1.0, 3.0], [1.0, 3.0]]), np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]]))]),
)  # fmt: skip
test_effects_that_cannot_be_compared_are_refused = refused(
    BadData,
    *(("at least three parts", subskills, *one) for one in (
        (-blocks(0), noise(1, 3)), (blocks(0) * np.nan, noise(1, 3)), (blocks(0), noise(1, 1)),
        (blocks(0)[:, :2], noise(1, 3)[:, :, :2]),
        (blocks(0)[:1], noise(1, 3)[:, :1]),
    )),
)  # fmt: skip
