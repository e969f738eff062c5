"""The words of a verdict: on a difference, from its interval, and on a claim of the paper, from a study."""

from __future__ import annotations

from typing import Literal

DifferenceVerdict = Literal["better", "worse", "no clear difference", "not measured"]
ClaimVerdict = Literal["confirmed", "contradicted", "inconclusive", "not measured"]

NO_DIFFERENCE: Literal["no clear difference"] = "no clear difference"
CONFIRMED: Literal["confirmed"] = "confirmed"
CONTRADICTED: Literal["contradicted"] = "contradicted"
INCONCLUSIVE: Literal["inconclusive"] = "inconclusive"
NOT_MEASURED: Literal["not measured"] = "not measured"
"""Without an interval nothing is decided, not even that there is no clear difference."""
UNDECIDED = (NO_DIFFERENCE, NOT_MEASURED)
