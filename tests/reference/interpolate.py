"""Slow twin of interpolation: (1 - a) * base + a * end, one entry at a time."""

from __future__ import annotations


def interpolated(base, end, alpha, region=None):
    """A list of floats; entries outside the region are the base's."""
    mixed = []
    for i, (b, e) in enumerate(zip(base, end, strict=True)):
        inside = region is None or i in set(region)
        mixed.append((1 - alpha) * float(b) + alpha * float(e) if inside else float(b))
    return mixed
