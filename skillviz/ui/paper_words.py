"""The text of the paper page: its items, and verdicts on claims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from skillviz.core import formats
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.show import text
from skillviz.show.comparisons import counted
from skillviz.studies.paper.claims import Comparison, Verdict, counted_comparisons
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import TABLES
from skillviz.studies.store import StudyFolder
from skillviz.ui.chip import chip_text

ORDER = (*TABLES, *(f"figure{number}" for number in range(1, 16)))
"""The paper's order; our own items follow."""
OUTCOMES = (CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED)
CAUTION = (
    "Published numbers are for RoBERTa-base (GPT-2 in Table 9), with other data and seeds. A difference is no error, "
    "here or there."
)
CLAIM_LIMIT = "the claim's limit"
PUBLISHED_ONLY = "Not measured: no study of this is stored."


def items() -> dict[str, str]:
    """The titles of all tables and figures by name, in the paper's order: tables, figures, then our own items."""
    return {name: EXPERIMENTS[name].title for name in sorted(EXPERIMENTS, key=_place)}


def place_of(study: StudyFolder) -> tuple[int, str]:
    """The sort key of a study: its experiment's position in the paper, then its name."""
    place, _ = _place(study.record.experiment or "")
    return place, study.name


def _place(name: str) -> tuple[int, str]:
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def verdict_counts(verdicts: Sequence[Verdict]) -> str:
    """`2 of 3 claims confirmed, 1 inconclusive`: the verdicts on the paper's claims."""
    if not verdicts:
        return "The paper makes no claim here."
    counts = {outcome: sum(verdict.outcome == outcome for verdict in verdicts) for outcome in OUTCOMES}
    first = f"**{counts[CONFIRMED]} of {formats.counted(len(verdicts), 'claim')}** {CONFIRMED}"
    return ", ".join([first, *(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES[1:] if counts[outcome])])


def comparison_counts(verdicts: Sequence[Verdict]) -> str:
    """The number of comparisons behind the verdicts, and how many would decide by chance; empty for fewer than two."""
    several = counted_comparisons(verdicts)
    return counted(several, CLAIM_LIMIT) if several.n > 1 else ""


def verdict_line(verdict: Verdict) -> str:
    """The chip of a claim's verdict and its comparisons, in Markdown."""
    outcome = verdict.outcome
    if not verdict.comparisons:
        return f"{chip_text(outcome)} this study has no row for it."
    if len(verdict.comparisons) == 1:
        (only,) = verdict.comparisons
        return f"{chip_text(outcome)} {text.tasks(only.where)}: {value_words(only)}"
    return f"{chip_text(outcome)} {support(verdict)}"


def support(verdict: Verdict) -> str:
    """`2 of 6 comparisons support it, 1 contradicts it, 3 leave it open; 3 more are not measured`."""
    n, bare = verdict.measured, len(verdict.comparisons) - verdict.measured
    if not n:
        return f"None of {formats.counted(bare, 'comparison')} has an interval"
    parts = [
        f"{verdict.supporting} of {formats.counted(n, 'comparison')} "
        f"{_verb(1 if n == 1 else verdict.supporting, 'support')} it"
    ]
    parts += [f"{verdict.against} {_verb(verdict.against, 'contradict')} it"] if verdict.against else []
    parts += [f"{verdict.open} {_verb(verdict.open, 'leave')} it open"] if verdict.open else []
    return ", ".join(parts) + (f"; {bare} more {'is' if bare == 1 else 'are'} {NOT_MEASURED}" if bare else "")


def _verb(count: int, plural: str) -> str:
    return f"{plural}s" if count == 1 else plural


def value_words(comparison: Comparison) -> str:
    """The value with its interval in its unit: `−5.2 points, 95%: −7.2 to −3.2`.

    It says `not paired` if the interval combines the intervals of two rows."""
    paired = "" if comparison.is_paired or formats.missing(comparison.low) else ", not paired"
    return f"{number(comparison)}, 95%{paired}: {ends(comparison)}"


def number(comparison: Comparison) -> str:
    """Its value in its unit, for calibration errors the debiased one: `−5.2 points`, `97.6%`, `2.81 times`."""
    value, _ = formats.read_first(comparison.value, comparison.debiased)
    if comparison.unit == "times":
        return f"{formats.number(value, 2)} times"
    return formats.points(value) if comparison.unit == "points" else formats.percent(value)


def ends(comparison: Comparison) -> str:
    """Its interval, without the unit."""
    write = partial(formats.interval, digits=2) if comparison.unit == "times" else formats.percent_interval
    return write(comparison.low, comparison.high)


def unmatched(rows: pd.DataFrame) -> str:
    """The tasks of our rows that have no published value, as a sentence; empty if all have one."""
    tasks = list(dict.fromkeys(rows.loc[rows["published"].isna() & rows["value"].notna(), "task"]))
    if not tasks:
        return ""
    names = formats.listed([text.tasks(task) for task in tasks], 5)
    return f"The paper has no value for {names}. Rows without a counterpart in our study stay empty."


def numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """The single published numbers as a table for display."""
    units = rows["unit"].str.replace("percent relative", "% less").str.replace("percent", "%")
    value = [f"{v} {u}".strip() for v, u in zip(rows["value"], units, strict=True)]
    of = (
        rows["quantity"]
        .str.replace(r"\bFT\b", "fine-tuned", regex=True)
        .str.cat(rows["task"].where(rows["task"] == "", " (" + rows["task"] + ")"))
    )
    return pd.DataFrame({"published": of, "value": value, "where": rows["where"], "remark": rows["note"]})
