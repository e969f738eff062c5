"""Which seeds there are."""

LARGEST_SEED = 2**32 - 1
"""Any seed up to here can be multiplied by the steps, stored in a table, and given to numpy and torch alike."""
