"""Slow twins of the factorization, its matching and its comparison with controls, from the formulas, with loops."""

from itertools import permutations

Rows = list[list[float]]


def slow_factorized(effects: Rows, weights: list[float], uses: Rows, loadings: Rows, steps: int) -> tuple[Rows, Rows]:
    """Return uses and loadings of length 1 after multiplicative updates, Lee and Seung 2001, Theorem 1."""
    n, parts, count = len(effects), len(effects[0]), len(loadings)
    w, h = [list(row) for row in uses], [list(row) for row in loadings]
    for _ in range(steps):
        fitted = [[sum(w[i][r] * h[r][p] for r in range(count)) for p in range(parts)] for i in range(n)]
        w = [
            [
                w[i][r] * sum(effects[i][p] * h[r][p] for p in range(parts))
                / sum(fitted[i][p] * h[r][p] for p in range(parts))
                for r in range(count)
            ]
            for i in range(n)
        ]  # fmt: skip
        fitted = [[sum(w[i][r] * h[r][p] for r in range(count)) for p in range(parts)] for i in range(n)]
        h = [
            [
                h[r][p] * sum(weights[i] * w[i][r] * effects[i][p] for i in range(n))
                / sum(weights[i] * w[i][r] * fitted[i][p] for i in range(n))
                for p in range(parts)
            ]
            for r in range(count)
        ]  # fmt: skip
    lengths = [sum(value**2 for value in row) ** 0.5 for row in h]
    return (
        [[w[i][r] * lengths[r] for r in range(count)] for i in range(n)],
        [[value / length for value in row] for row, length in zip(h, lengths, strict=True)],
    )


def slow_matched(loadings: Rows, others: Rows) -> list[float]:
    """Return the cosines of the best matching among all permutations."""
    cosines = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in others] for one in loadings]
    tried = ([cosines[r][c] for r, c in enumerate(order)] for order in permutations(range(len(others))))
    return max(tried, key=sum)


def slow_explained(effects: Rows, uses: Rows, loadings: Rows, weights: list[float]) -> float:
    """Return 1 - weighted squared error / weighted squares."""
    wrong = total = 0.0
    for row, use, weight in zip(effects, uses, weights, strict=True):
        for p, value in enumerate(row):
            fitted = sum(u * loading[p] for u, loading in zip(use, loadings, strict=True))
            wrong, total = wrong + weight * (value - fitted) ** 2, total + weight * value**2
    return 1 - wrong / total


def slow_margins(stability: Rows) -> list[tuple[float, int]]:
    """Return each matrix's largest lead over the mean of the others, and its place [matrix][count]."""
    leads = []
    for own in range(len(stability)):
        others = [row for number, row in enumerate(stability) if number != own]
        each = [value - sum(o[k] for o in others) / len(others) for k, value in enumerate(stability[own])]
        leads.append((max(each), each.index(max(each))))
    return leads
