"""Whether a study comes out as in the paper: claims of the paper, each judged from intervals in the study's tables.

Torch-free. A comparison supports a claim, or speaks against it, only where its 95% interval does so as a whole. A
claim is confirmed if at least half of the comparisons that have an interval support it and fewer speak against it. It
is contradicted the other way round, and else inconclusive. Without any it is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import task_metric
from skillviz.core.many_comparisons import Comparisons, p_values, tallied
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED, ClaimVerdict
from skillviz.studies.paper.scales import SCALES

LEAST_SHARE = 1e-12  # in place of 0, that of an empty region, which has no logarithm


@dataclass(frozen=True)
class Comparison:
    """One number with its interval, and whether it `supports` the claim; None where the interval leaves that open.

    `unit` is points (a difference of shares), percent (a share) or times. A verdict needs an interval that leaves out
    each of the `limits`: zero, another bound, or both margins of "equally good". Of calibration errors the interval is
    about `debiased`, NaN for other metrics. It is over so many `seeds`; `examples` is their number for a difference of
    shares on the same ones, else NaN. The interval of one that is not `is_paired` is joined from those of two numbers.
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
    is_paired: bool = True

    @property
    def is_measured(self) -> bool:
        """True if it has an interval; one without width, about another value than 0, is none."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high)) and not self.low == self.high != 0


@dataclass(frozen=True)
class StudyTables:
    """A study's tables by name; `main` is the share of its main region size, None where it has no single one."""

    tables: Mapping[str, pd.DataFrame]
    main: float | None = None

    def table(self, name: str) -> pd.DataFrame:
        """The table, an empty frame where there is none."""
        return self.tables.get(name, pd.DataFrame())


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the comparisons by which it is judged.

    `stated` is the quantity of `published/figures.csv` that gives the paper's number, where no published table does.
    """

    text: str
    compare: Callable[[StudyTables], list[Comparison]]
    stated: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim with what the study says of it."""

    claim: str
    comparisons: tuple[Comparison, ...]

    @property
    def supporting(self) -> int:
        """How many comparisons support the claim."""
        return sum(one.supports is True for one in self.comparisons)

    @property
    def against(self) -> int:
        """How many speak against it."""
        return sum(one.supports is False for one in self.comparisons)

    @property
    def measured(self) -> int:
        """The number of comparisons with an interval."""
        return sum(one.is_measured for one in self.comparisons)

    @property
    def open(self) -> int:
        """The number of comparisons whose interval leaves it open."""
        return self.measured - self.supporting - self.against

    @property
    def outcome(self) -> ClaimVerdict:
        """confirmed, contradicted, inconclusive, or not measured where no comparison has an interval."""
        if not self.measured:
            return NOT_MEASURED
        half = self.measured / 2
        if self.supporting >= half and self.supporting > self.against:
            return CONFIRMED
        return CONTRADICTED if self.against >= half and self.against > self.supporting else INCONCLUSIVE

    @property
    def mean(self) -> Comparison | None:
        """The mean of the comparisons' values, and of their ends; None without a comparison.

        Half the width of the mean's interval is the mean of theirs, as if all erred alike, so it holds however they
        depend on each other. Comparisons without an interval count only where none has one.
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


def judge(claims: Sequence[Claim], tables: Mapping[str, pd.DataFrame], scale: str | None) -> list[Verdict]:
    """Every claim with its comparisons in these tables."""
    study = StudyTables(tables, main_share(scale))
    return [Verdict(claim.text, tuple(claim.compare(study))) for claim in claims]


def counted_comparisons(verdicts: Iterable[Verdict]) -> Comparisons:
    """How many comparisons the verdicts rest on, how many decide, how many would by chance alone were each true value
    at its limit, and how many remain with the false discovery rate held.

    A comparison with two limits counts by the one that its interval leaves out less clearly.
    """
    several = [one for verdict in verdicts for one in verdict.comparisons]
    decided = [one.supports is not None and one.low < one.high for one in several]
    return tallied([_p_value(one) for one in several], decided)


def _p_value(one: Comparison) -> float:
    """The largest p-value over the limits of a comparison; NaN without an interval."""
    numbers = (one.value, one.low, one.high, one.debiased, one.seeds, one.examples)
    value, low, high, debiased, seeds, examples = (np.full(len(one.limits), number) for number in numbers)
    return float(p_values(value, low, high, debiased, seeds=seeds, examples=examples, limits=one.limits).max())


def main_share(scale: str | None) -> float | None:
    """The scale's main region size as a share of the graftable entries."""
    return SCALES[scale].sizes[0] if scale in SCALES else None


def beyond(low: float, high: float, limit: float = 0.0, sign: int = 1) -> bool | None:
    """True where the whole interval is above `limit` (below it for sign -1), False on the other side, else None."""
    if not (np.isfinite(low) and np.isfinite(high)) or low == high:
        return None
    if sign > 0:
        return True if low > limit else False if high < limit else None
    return True if high < limit else False if low > limit else None


def within(low: float, high: float, margin: float) -> bool | None:
    """True where the whole interval lies in -margin..margin, False where it is wholly outside, else None."""
    if not (np.isfinite(low) and np.isfinite(high)) or low == high != 0:
        return None
    if -margin <= low and high <= margin:
        return True
    return False if low > margin or high < -margin else None


def at_main(rows: pd.DataFrame, main: float | None) -> pd.DataFrame:
    """Of each task's rows those of the size nearest to the main one; rows without a size are kept."""
    if rows.empty or rows["share"].isna().all():
        return rows
    share = rows["share"].astype(float).clip(lower=LEAST_SHARE)
    wanted = main if main else float(share.median())
    distance = (np.log(share) - np.log(wanted)).abs().round(6)
    least = distance.groupby([rows["id_task"], rows["task"], rows["setting"], rows["readout"]]).transform("min")
    return rows[share.isna() | (distance == least)]


def of_task_metric(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each task's rows those of its own metric."""
    if rows.empty:
        return rows
    return rows[rows["metric"] == rows.groupby("task")["metric"].transform(task_metric)]
