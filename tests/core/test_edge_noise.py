"""Tests of the noise of equal-mass edges: against a slow twin, its size by simulation, and cases without noise."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.bins import bin_numbers, equal_mass_edges
from skillviz.core.edge_noise import DRAWS, _bridges, edge_noise


def sample(n: int, seed: int = 0, gap: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Return confidences and outcomes [n] of a model whose gap changes sign after a third of the examples."""
    random = np.random.default_rng(seed)
    sure = random.uniform(0.4, 0.8, n)
    return sure, random.random(n) < sure + np.where(sure < 0.4 + 0.4 / 3, gap, -gap)


def error(sure: np.ndarray, right: np.ndarray, edges: np.ndarray, norm: str) -> float:
    """Compute the binned error from its definition."""
    number = bin_numbers(sure, edges)
    gaps = np.array([(sure - right)[number == k].sum() for k in range(len(edges) - 1)])
    if norm == "l1":
        return float(np.abs(gaps).sum() / len(sure))
    counts = np.bincount(number, minlength=len(gaps))
    return float(np.sqrt((gaps[counts > 0] ** 2 / counts[counts > 0]).sum() / len(sure)))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("models", [1, 2])
def test_it_is_the_spread_of_the_error_over_moved_edges_less_that_of_the_outcomes(norm: str, models: int) -> None:
    n, bins = 400, 6
    sides = [sample(n, seed, gap) for seed, gap in zip(range(models), (0.2, 0.0), strict=False)]
    pooled = np.sort(np.concatenate([sure for sure, _ in sides]))
    own, m = equal_mass_edges(pooled, bins), len(pooled)
    exact = np.array([-(-k * m // bins) for k in range(1, bins + 1)])
    ranks = np.rint(exact + m / np.sqrt(n) * _bridges(bins))  # the bridges have a test below
    ranks = np.maximum.accumulate(np.clip(ranks, 1, m), axis=1).astype(int)
    signs, squares = [1, -1], []
    bends = [np.diff(slopes(sure, right, own, norm)) for sure, right in sides]
    for row in ranks:
        edges = np.concatenate([[0.0], pooled[row - 1]])
        change, luck = 0.0, 0.0
        for sign, bend, (sure, right) in zip(signs, bends, sides, strict=False):
            change += sign * (error(sure, right, edges, norm) - error(sure, right, own, norm))
            for edge in range(1, bins):  # outcomes between the two positions of an edge change the sums of two bins
                between = (sure > min(own[edge], edges[edge])) & (sure <= max(own[edge], edges[edge]))
                luck += bend[edge - 1] ** 2 * ((sure - right)[between] ** 2).sum()
        squares.append(change**2 - luck)
    assert len(ranks) == DRAWS
    found = edge_noise(*zip(*sides, strict=True), bins, norm)
    assert found == pytest.approx(np.sqrt(max(np.mean(squares), 0.0)), rel=1e-9) and found > 0.005


def slopes(sure: np.ndarray, right: np.ndarray, edges: np.ndarray, norm: str) -> np.ndarray:
    """Return the derivative of the error by each bin's sum of gaps, from a small difference."""
    number, n = bin_numbers(sure, edges), len(sure)
    gaps = np.array([(sure - right)[number == k].sum() for k in range(len(edges) - 1)])
    counts = np.bincount(number, minlength=len(gaps))

    def of(sums: np.ndarray) -> float:
        return float(np.abs(sums).sum() / n if norm == "l1" else np.sqrt((sums**2 / counts).sum() / n))

    step = 1e-4 * np.eye(len(gaps))
    return np.array([(of(gaps + one) - of(gaps - one)) / 2e-4 for one in step])


def test_bridges_move_as_the_quantiles_of_samples_do() -> None:
    random, n, bins = np.random.default_rng(3), 900, 5
    ranks = np.array([equal_mass_edges(random.random(n), bins) for _ in range(2000)])[:, 1:-1]
    wanted = np.cov((ranks - np.arange(1, bins) / bins).T * np.sqrt(n))
    assert np.cov(_bridges(bins)[:, :-1].T) == pytest.approx(wanted, abs=0.06)
    assert (_bridges(bins)[:, -1] == pytest.approx(0)) and _bridges(bins) is _bridges(bins)


def test_it_is_as_large_as_the_spread_over_true_edges() -> None:
    """Compare the error of a large population, binned at each sample's edges, with estimates of single samples."""
    n, bins = 1000, 3
    sure, _ = sample(200_000, 9)
    chance = sure + np.where(sure < 0.4 + 0.4 / 3, 0.2, -0.2)
    between = [
        error(sure, chance, np.append(equal_mass_edges(sample(n, seed)[0], bins)[:-1], 1.0), "l1") for seed in range(60)
    ]
    root = np.sqrt(np.mean((np.array(between) - 0.2) ** 2))
    found = [edge_noise(*([part] for part in sample(n, seed)), bins) for seed in range(60)]
    assert np.mean(found) == pytest.approx(root, rel=0.35)


def test_one_bin_and_gaps_of_one_sign_have_none() -> None:
    sure, right = sample(500)
    assert edge_noise([sure], [right], 1) == 0.0
    wrong = np.zeros(500, dtype=bool)
    assert edge_noise([sure], [wrong], 15) == pytest.approx(0, abs=1e-12)
    assert edge_noise([sure, sure], [right, right], 15) == 0.0


def test_the_order_of_the_examples_does_not_count() -> None:
    sure, right = sample(500)
    order = np.random.default_rng(1).permutation(500)
    ties = np.round(sure, 2)
    for one in (sure, ties):
        assert edge_noise([one[order]], [right[order]], 15) == pytest.approx(edge_noise([one], [right], 15), rel=1e-9)
