"""Count the three headline claims of docs/results.md over all studies of a scale, and write the page's summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from docs.results_tables import MAIN_SEARCH, SEARCHED, estimate
from skillviz.analysis.observations import PAIR_RECIPE
from skillviz.analysis.tables import without_variants
from skillviz.core import formats
from skillviz.core.many_comparisons import expected_by_chance
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.models.finetune.recipes import SGD
from skillviz.show.comparisons import compared_rows, counted_rows
from skillviz.studies.paper.claims import at_main, beyond, main_share, of_task_metric
from skillviz.studies.paper.comparisons import GRAFTS
from skillviz.studies.paper.scales import SCALES
from skillviz.studies.store import StudyFolder

OWN_SIZE = "learned"
"""A search whose region size is an outcome."""


@dataclass(frozen=True)
class Count:
    """The numbers of comparisons that support a claim, contradict it, leave it open, and have no interval."""

    supporting: int
    against: int
    open: int
    unmeasured: int

    @property
    def total(self) -> int:
        """The number of comparisons with an interval."""
        return self.supporting + self.against + self.open


def counts(lows: Iterable[float], highs: Iterable[float], sign: int = 1) -> Count:
    """Return the counted verdicts of comparisons with these ends; `sign` as in `beyond`."""
    ends = list(zip(lows, highs, strict=True))
    measured = [beyond(low, high, 0.0, sign) for low, high in ends if np.isfinite(low) and np.isfinite(high)]
    outcomes = (sum(outcome is wanted for outcome in measured) for wanted in (True, False, None))
    return Count(*outcomes, len(ends) - len(measured))


def joined(studies: Sequence[StudyFolder], name: str) -> pd.DataFrame:
    """Return one table of several studies, with the study's name and its scale's main size."""
    tables = [
        study.table(name).assign(
            study=study.name, scale=study.record.scale, main=main_share(study.record.scale) or np.nan
        )
        for study in studies
        if name in study.tables()
    ]
    tables = [table for table in tables if not table.empty]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _rivals(studies: Sequence[StudyFolder]) -> pd.DataFrame:
    """Return searched regions less top movement on their own tasks.

    Runs that several studies share appear once, with an interval if one of the studies has it.
    """
    rows = joined(studies, "differences")
    if rows.empty:
        return rows
    rows = rows[(rows["a"] == "graft") & (rows["b"] == "graft_movement") & (rows["id_task"] == rows["task"])]
    rows = of_task_metric(without_variants(rows[rows["localizer"].isin(SEARCHED)], "search_variant"))
    rows = rows.dropna(subset=["value"]).sort_values("low", key=lambda low: low.isna(), kind="stable")
    rows = rows.assign(readout=_plain_readout(rows), recipe=rows["recipe"].replace(PAIR_RECIPE, SGD))
    rows = rows.assign(size_key=rows["share"].map("{:.3g}".format).where(rows["localizer"] != OWN_SIZE, OWN_SIZE))
    return rows.drop_duplicates(["id_task", "setting", "readout", "recipe", "variant", "localizer", "size_key"])


def _plain_readout(rows: pd.DataFrame) -> list[str]:
    """Return the readouts, empty for the scale's own: such runs are the same as those without a readout."""
    return [
        "" if scale in SCALES and readout == SCALES[scale].readout else readout
        for readout, scale in zip(rows["readout"], rows["scale"], strict=True)
    ]


def against_movement(studies: Sequence[StudyFolder]) -> list[str]:
    """Return the counts of searched regions against top movement at equal size: how often each is better, by size."""
    rows = _rivals(studies)
    lines = []
    for (localizer, _), group in sorted(
        rows.groupby(["localizer", "size_key"]) if len(rows) else [], key=lambda g: (g[0][0], g[1]["share"].min())
    ):
        count = counts(group["low"], group["high"])
        ends = _range(formats.points(group["value"].min()), formats.points(group["value"].max()))
        numbers = map(str, (count.supporting, count.against, count.open, count.unmeasured))
        lines.append([str(localizer), _sizes(group["share"]), *numbers, ends])
    if not lines:
        return []
    every = counts(rows["low"], rows["high"])
    sentence = (
        f"The search is better in {every.supporting} of {every.total} comparisons, top movement in {every.against}; "
        f"{every.open} show no clear difference. {counted_rows(rows)}"
    ).rstrip()
    head = ("search", "size", "search better", "movement better", NO_DIFFERENCE, NOT_MEASURED, "range over tasks")
    return [sentence, "", *formats.markdown_table(head, lines)]


def _sizes(shares: pd.Series) -> str:
    return _range(formats.share(float(shares.min())), formats.share(float(shares.max())))


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _needed(studies: Sequence[StudyFolder]) -> pd.DataFrame:
    """Return the smallest searched regions with 95% of the gain, one per task and search."""
    rows = joined(studies, "recovered")
    if rows.empty:
        return rows
    rows = rows[rows["localizer"].isin(GRAFTS) & np.isclose(rows["gain_share"], 0.95)]
    rows = without_variants(rows, "search_variant")
    return rows.drop_duplicates(["id_task", "setting", "readout", "recipe", "variant", "localizer"])


def _better_calibrated(rows: pd.DataFrame, rival: str) -> str:
    """Return `better on 1, worse on 0, no clear difference on 2, not measured on 9`."""
    return _outcomes(counts(rows[f"ece_less_{rival}_low"], rows[f"ece_less_{rival}_high"], -1))


def _outcomes(count: Count, of: str = "") -> str:
    """Return `better on 1, worse on 0, no clear difference on 2, not measured on 9`; `of` follows the first number."""
    unmeasured = f", {NOT_MEASURED} on {count.unmeasured}" if count.unmeasured else ""
    return f"better on {count.supporting}{of}, worse on {count.against}, {NO_DIFFERENCE} on {count.open}{unmeasured}"


def _ece_differences(rows: pd.DataFrame) -> pd.DataFrame:
    """Return both differences of a row of `recovered` as separate rows: value, low, high, debiased, seeds."""
    names = {"value": "", "low": "_low", "high": "_high", "debiased": "_debiased"}
    return pd.concat(
        [
            pd.DataFrame(
                {**{name: rows[f"ece_less_{rival}{end}"] for name, end in names.items()}, "seeds": rows["seeds"]}
            )
            for rival in ("ft", "scaled")
        ]
    )


def calibration(studies: Sequence[StudyFolder]) -> list[str]:
    """Return the graft's ECE at 95% of the gain against the fine-tuned model, with and without temperature scaling."""
    rows = _needed(studies)
    if rows.empty:
        return []
    reached = rows[rows["reached"]]
    rivals = {"ft": "the fine-tuned model", "scaled": "that model with temperature scaling"}
    outcomes = [f"against {name}, {_better_calibrated(reached, rival)}" for rival, name in rivals.items()]
    on = reached["reached_on"].eq("validation").sum()
    sentence = (
        f"{len(reached)} of {len(rows)} grafts, one a task and search, reach it. ECE {'; '.join(outcomes)}. "
        f"{on} of these sizes were found on validation, the others on test. "
        "Table 2 has each task. Predictions are stored at the size that a run is for; "
        "at its other sizes a calibration error has no interval. "
    )
    return [f"{sentence}{counted_rows(_ece_differences(reached))}".rstrip()]


def relatives(studies: Sequence[StudyFolder]) -> list[str]:
    """Return the overlap of regions of related tasks against unrelated ones, and of one task over mask seeds."""
    rows = joined(studies, "isolation")
    if rows.empty:
        return []
    lines = [
        [
            r["study"], r["kind"], SAME if r["relation"] == "same" else r["relation"],
            estimate(r), formats.percent_estimate(r["chance"], r["chance_low"], r["chance_high"]), str(r["pairs"]),
        ]
        for r in rows.to_dict("records")
        if r["kind"] == "overlap"
    ]  # fmt: skip
    return formats.markdown_table(("study", "kind", "tasks", "share, %", "by chance, % (95% of draws)", "pairs"), lines)


SAME = "one task, two mask seeds"


def brief(studies: Sequence[StudyFolder]) -> list[str]:
    """Return a scale's three claims in a sentence each."""
    return [one for make in (_movement_brief, _calibration_brief, _relatives_brief) if (one := make(studies))]


def _movement_brief(studies: Sequence[StudyFolder]) -> str:
    rows = _rivals(studies)
    if rows.empty:
        return ""
    rows = rows[(rows["localizer"] == MAIN_SEARCH) & rows["setting"].eq("all") & rows["recipe"].eq(SGD)]
    rows = without_variants(rows, "readout", "variant")
    if rows.empty:
        return ""
    main = at_main(rows, float(rows["main"].iloc[0]) if np.isfinite(rows["main"].iloc[0]) else None)
    most = rows[np.isclose(rows["share"], rows["share"].max(), rtol=0.01)]
    parts = [_versus(main)]
    if _sizes(most["share"]) != _sizes(main["share"]):
        parts.append(_versus(most))
    return f"{MAIN_SEARCH} against top movement: {'; '.join(parts)}"


def _versus(rows: pd.DataFrame) -> str:
    count = counts(rows["low"], rows["high"])
    outcomes = _outcomes(count, f" of {count.total} tasks")
    by_chance = f"chance alone would decide about {expected_by_chance(count.total):.1f}"
    return f"at {_sizes(rows['share'])}, {outcomes} ({by_chance})"


def _calibration_brief(studies: Sequence[StudyFolder]) -> str:
    rows = _needed(studies)
    rows = rows[rows["localizer"] == MAIN_SEARCH] if len(rows) else rows
    if rows.empty:
        return ""
    reached = rows[rows["reached"]]
    several = compared_rows(_ece_differences(reached))
    chance = f" (chance alone would decide about {several.by_chance:.1f} of {several.n})" if several.n else ""
    return (
        f"{len(reached)} of {len(rows)} tasks have a graft of {MAIN_SEARCH} with 95% of the gain. Its ECE against the "
        f"fine-tuned model's: {_better_calibrated(reached, 'ft')}. Against temperature scaling: "
        f"{_better_calibrated(reached, 'scaled')}{chance}"
    )


def _relatives_brief(studies: Sequence[StudyFolder]) -> str:
    rows = joined(studies, "isolation")
    if rows.empty:
        return ""
    rows = rows[rows["kind"] == "overlap"].drop_duplicates("relation").set_index("relation")
    shares = {name: estimate(row) for name, row in rows.to_dict("index").items()}
    if not {"related", "unrelated", "related - unrelated"} <= set(shares):
        return ""
    return (
        f"regions of related tasks share {shares['related']}% of their entries, regions of unrelated tasks "
        f"{shares['unrelated']}%: a difference of {shares['related - unrelated']} points"
    )
