"""The range of valid seeds."""

LARGEST_SEED = 2**32 - 1
"""Any seed up to this one can be multiplied by the steps, stored in a table, and passed to numpy and torch."""
