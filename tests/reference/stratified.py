"""Slow twin of the stratified sample's counts: one place at a time, with exact fractions."""

from fractions import Fraction


def slow_counts(labels: list[int], count: int) -> dict[int, int]:
    """Rows of each class among `count`: whole shares first, then the largest remainders."""
    shares = {label: Fraction(count * labels.count(label), len(labels)) for label in sorted(set(labels))}
    counts = {label: int(share) for label, share in shares.items()}
    while sum(counts.values()) < count:
        counts[max(shares, key=lambda label: (shares[label] - counts[label], -label))] += 1
    return counts
