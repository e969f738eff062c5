"""Judge claims of the paper from the intervals in a study's tables.

Torch-free. A comparison supports or contradicts a claim only if its whole 95% interval does. A claim is confirmed if at
least half of the comparisons with an interval support it and fewer contradict it. It is contradicted the other way
round, and otherwise inconclusive. Without any comparison with an interval it is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import empty, task_metric
from skillviz.core.many_comparisons import Comparisons, p_values, tallied
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED, ClaimVerdict
from skillviz.studies.paper.scales import SCALES

LEAST_SHARE = 1e-12  # replaces 0, the share of an empty region, which has no logarithm


@dataclass(frozen=True)
class Comparison:
    """A number with its interval, and whether it `supports` the claim; None if the interval leaves that open.

    `unit` is points (a difference of shares), percent (a share) or times. A verdict needs an interval that excludes
    each of the `limits`: zero, another bound, or both margins of "equally good". For calibration errors the interval is
    around `debiased`, which is NaN for other metrics. The interval covers `seeds` seeds. For a difference of two
    models' shares of the same `examples`, only one of the two is right on `gained` and `lost` of them; else these are
    NaN. If it is not `is_paired`, the interval is joined from the intervals of two numbers.
    """

    where: str
    value: float
    low: float
    high: float
    supports: bool | None
    unit: str = "points"
    limits: tuple[float, ...] = (0.0,)
    debiased: float = float("nan")
    seeds: int = 1
    examples: float = float("nan")
    gained: float = float("nan")
    lost: float = float("nan")
    is_paired: bool = True

    @property
    def is_measured(self) -> bool:
        """True if it has an interval; an interval without width around a value other than 0 does not count."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high)) and not self.low == self.high != 0


@dataclass(frozen=True)
class StudyTables:
    """A study's tables by name; `main` is the share of its main region size, None if it has no single one."""

    tables: Mapping[str, pd.DataFrame]
    main: float | None = None

    def table(self, name: str) -> pd.DataFrame:
        """Return the table; without one, its columns without rows."""
        found = self.tables.get(name)
        return empty(name) if found is None or found.empty else found


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the comparisons by which it is judged.

    `stated` is the quantity of `published/figures.csv` with the paper's number, if no published table has it.
    """

    text: str
    compare: Callable[[StudyTables], list[Comparison]]
    stated: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim and the study's comparisons for it."""

    claim: str
    comparisons: tuple[Comparison, ...]

    @property
    def supporting(self) -> int:
        """The number of comparisons that support the claim."""
        return sum(one.supports is True for one in self.comparisons)

    @property
    def against(self) -> int:
        """The number of comparisons that contradict the claim."""
        return sum(one.supports is False for one in self.comparisons)

    @property
    def measured(self) -> int:
        """The number of comparisons with an interval."""
        return sum(one.is_measured for one in self.comparisons)

    @property
    def open(self) -> int:
        """The number of comparisons whose interval leaves the claim open."""
        return self.measured - self.supporting - self.against

    @property
    def outcome(self) -> ClaimVerdict:
        """confirmed, contradicted, inconclusive, or not measured if no comparison has an interval."""
        if not self.measured:
            return NOT_MEASURED
        half = self.measured / 2
        if self.supporting >= half and self.supporting > self.against:
            return CONFIRMED
        return CONTRADICTED if self.against >= half and self.against > self.supporting else INCONCLUSIVE

    @property
    def mean(self) -> Comparison | None:
        """The mean of the comparisons' values, and of their ends; None without a comparison.

        Half the width of the mean's interval is the mean of the half-widths, which assumes fully correlated errors, so
        it holds for any dependence. Comparisons without an interval count only if none has one.
        """
        known = [one for one in self.comparisons if np.isfinite(one.value)]
        known = [one for one in known if np.isfinite(one.low) and np.isfinite(one.high)] or known
        if not known:
            return None
        values: dict[str, Any] = {
            name: float(np.mean([getattr(one, name) for one in known])) for name in ("value", "low", "high", "debiased")
        }
        where = known[0].where if len(known) == 1 else f"mean of {len(known)}"
        values["is_paired"] = all(one.is_paired for one in known)
        return Comparison(where, supports=None, unit=known[0].unit, limits=known[0].limits, **values)


def judge(claims: Sequence[Claim], tables: Mapping[str, pd.DataFrame], main: float | None) -> list[Verdict]:
    """Return every claim with its comparisons in these tables, at the region size nearest to `main`."""
    study = StudyTables(tables, main)
    return [Verdict(claim.text, tuple(claim.compare(study))) for claim in claims]


def counted_comparisons(verdicts: Iterable[Verdict]) -> Comparisons:
    """Count the comparisons behind the verdicts.

    The counts are: all, decided, decided by chance alone if each true value were at its limit, and remaining at the
    controlled false discovery rate. A comparison with two limits counts by the limit that its interval excludes less
    clearly.
    """
    several = [one for verdict in verdicts for one in verdict.comparisons]
    decided = [one.supports is not None and one.low < one.high for one in several]
    return tallied([_p_value(one) for one in several], decided)


def _p_value(one: Comparison) -> float:
    """Return the largest p-value over the limits of a comparison; NaN without an interval."""
    names = ("value", "low", "high", "debiased", "seeds", "examples", "gained", "lost")
    numbers: dict[str, Any] = {name: np.full(len(one.limits), getattr(one, name)) for name in names}
    value, low, high = (numbers.pop(name) for name in names[:3])
    return float(p_values(value, low, high, **numbers, limits=one.limits).max())


def main_share(scale: str | None) -> float | None:
    """Return the scale's main region size as a share of the graftable entries."""
    return SCALES[scale].sizes[0] if scale in SCALES else None


def beyond(low: float, high: float, limit: float = 0.0, sign: int = 1) -> bool | None:
    """Return True if the whole interval is above `limit` (below it for sign -1), False on the other side, else None."""
    if not (np.isfinite(low) and np.isfinite(high)) or low == high:
        return None
    if sign > 0:
        return True if low > limit else False if high < limit else None
    return True if high < limit else False if low > limit else None


def within(low: float, high: float, margin: float) -> bool | None:
    """Return True if the whole interval is in -margin..margin, False if all of it is outside, else None."""
    if not (np.isfinite(low) and np.isfinite(high)) or low == high != 0:
        return None
    if -margin <= low and high <= margin:
        return True
    return False if low > margin or high < -margin else None


def at_main(rows: pd.DataFrame, main: float | None) -> pd.DataFrame:
    """Return each task's rows of the size nearest to the main one; rows without a size are kept."""
    if rows.empty or rows["share"].isna().all():
        return rows
    share = rows["share"].astype(float).clip(lower=LEAST_SHARE)
    wanted = main if main else float(share.median())
    distance = (np.log(share) - np.log(wanted)).abs().round(6)
    least = distance.groupby([rows["id_task"], rows["task"], rows["setting"], rows["readout"]]).transform("min")
    return rows[share.isna() | (distance == least)]


def of_task_metric(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each task's rows of its own metric."""
    if rows.empty:
        return rows
    return rows[rows["metric"] == rows.groupby("task")["metric"].transform(task_metric)]
