"""What the paper page says: its items, why some have no experiment here, verdicts on the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.show import text
from skillviz.show.comparisons import counted
from skillviz.studies.paper.claims import (
    AGREES,
    DISAGREES,
    UNDECIDED,
    UNTESTED,
    Comparison,
    Verdict,
    counted_comparisons,
)
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import TABLES
from skillviz.studies.store import StudyFolder

# what the paper shows and nothing here repeats: title, and why
WITHOUT = {
    "table5": (
        "Table 5: 50,000 examples a class",
        "It needs 50,000 examples a class and ten times longer searches; the data at hand have fewer.",
    ),
    "table6": (
        "Table 6: is it the number of parameters?",
        "Adapters are not built in. LoRA (rank 8) stands in Tables 1 and 3, grafts of several sizes in Figure 2.",
    ),
    "table7": (
        "Table 7: the same on other data",
        "Adapters are not built in. Grafts, re-training and BitFit on other data stand in Table 3.",
    ),
    "table9": (
        "Table 9: GPT-2",
        "The base has to be at hand: `reproduce table2 --base gpt2 --readout causal` asks the same of it.",
    ),
    "figure11": (
        "Figure 11: as Figure 8, from a base of 0.001 %",
        "Only Figure 8, from the empty base, is asked here.",
    ),
    "figure12": ("Figure 12: as Figure 8, from a base of 0.01 %", "Only Figure 8, from the empty base, is asked here."),
    "figure13": ("Figure 13: as Figure 8, with AdamW", "Only Figure 8, with SGD, is asked here."),
    "figure14": ("Figure 14: as Figure 8, with AdamW + l1", "Only Figure 8, with SGD, is asked here."),
    "figure15": (
        "Figure 15: core skills first",
        "It needs checkpoints along the fine-tuning, which are not stored here.",
    ),
}
ORDER = (*TABLES, *(f"figure{number}" for number in range(1, 16)))
"""Of the paper; what is ours comes after it."""
SIGNS = {
    AGREES: ("green", ":material/check_circle:"),
    DISAGREES: ("red", ":material/cancel:"),
    UNDECIDED: ("gray", ":material/help:"),
    UNTESTED: ("gray", ":material/remove:"),
}
VERBS = {
    AGREES: ("agrees", "agree"),
    DISAGREES: ("does not agree", "do not agree"),
    UNDECIDED: ("stays undecided", "stay undecided"),
}
"""What one claim does, and what several do."""
CAUTION = (
    "Published numbers are of RoBERTa-base (GPT-2 in Table 9), with other data and other seeds. A difference is no "
    "error, here or there: it says how far a number carries over."
)
CLAIM_LIMIT = "the claim's limit"
PUBLISHED_ONLY = "No study of this is stored, so only the published values are shown. This makes one:"


def items() -> dict[str, str]:
    """The titles of all tables and figures by name, in the paper's order: tables, figures, then what is ours."""
    titles = {name: title for name, (title, _) in WITHOUT.items()}
    titles |= {name: row.title for name, row in EXPERIMENTS.items()}
    return {name: titles[name] for name in sorted(titles, key=_place)}


def place_of(study: StudyFolder) -> tuple[int, str]:
    """Where a study comes in a list: by its experiment as in the paper, then by name."""
    place, _ = _place(study.record.experiment or "")
    return place, study.name


def _place(name: str) -> tuple[int, str]:
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def verdict_counts(verdicts: Sequence[Verdict]) -> str:
    """The page's sentence: how many of the paper's claims come out here."""
    if not verdicts:
        return "The paper makes no claim here that a study could be judged by."
    counts = {outcome: sum(verdict.outcome == outcome for verdict in verdicts) for outcome in SIGNS}
    parts = [f"**{counts[o]}** {VERBS[o][0 if counts[o] == 1 else 1]}" for o in VERBS if counts[o]]
    rest = f" {counts[UNTESTED]} could not be asked of this study." if counts[UNTESTED] else ""
    of = formats.counted(len(verdicts), "claim")
    several = counted_comparisons(verdicts)
    many = f" {counted(several, CLAIM_LIMIT)}" if several.n > 1 else ""
    return f"Of the paper's {of} here, {formats.listed(parts, 3) if parts else 'none was tested'}.{rest}{many}"


def verdict_line(verdict: Verdict) -> str:
    """One claim with its outcome, in Markdown."""
    colour, sign = SIGNS[verdict.outcome]
    evidence = f" ({_evidence(verdict)})" if verdict.comparisons else " This study has no row for it."
    return f":{colour}-badge[{sign} {verdict.outcome}] {text.plain(verdict.claim)}{evidence}"


def _evidence(verdict: Verdict) -> str:
    """`3 of 4 comparisons support it, 1 leaves it open`; a single comparison with its value."""
    against, left_open = verdict.against, verdict.open
    if len(verdict.comparisons) == 1:
        (only,) = verdict.comparisons
        return f"{text.plain(only.where)}: {value_words(only)}"
    parts = [f"{verdict.supporting} of {len(verdict.comparisons)} comparisons support it"]
    parts += [f"{against} {'speaks' if against == 1 else 'speak'} against it"] if against else []
    parts += [f"{left_open} {'leaves' if left_open == 1 else 'leave'} it open"] if left_open else []
    return ", ".join(parts)


def value_words(comparison: Comparison) -> str:
    """The value with its interval in its unit: `−5.2 points, 95 %: −7.2 to −3.2`; of calibration `−5.2 points
    (debiased −4.8), ...`."""
    value, low, high = comparison.value, comparison.low, comparison.high
    if comparison.unit == "times":
        return f"{formats.number(value, 2)} times, 95{formats.SPACE}%: {formats.interval(low, high, 2)}"
    number = formats.points(value) if comparison.unit == "points" else formats.percent(value)
    debiased = formats.points(comparison.debiased).removesuffix(" points")
    center = f" (debiased {debiased})" if np.isfinite(comparison.debiased) else ""
    return f"{number}{center}, 95{formats.SPACE}%: {formats.percent_interval(low, high, 1)}"


def comparison_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Every comparison behind the verdicts."""
    words = {True: "supports", False: "speaks against", None: "leaves open"}
    rows = [
        {"claim": one.claim, "where": c.where, "value (95 %)": value_words(c), "says": words[c.supports]}
        for one in verdicts
        for c in one.comparisons
    ]
    return pd.DataFrame(rows, columns=["claim", "where", "value (95 %)", "says"])


def unmatched(rows: pd.DataFrame) -> str:
    """Which of our rows have no published value beside them; empty where all have one."""
    tasks = list(dict.fromkeys(rows.loc[rows["published"].isna() & rows["value"].notna(), "task"]))
    if not tasks:
        return ""
    names = formats.listed([text.plain(task) for task in tasks], 5)
    return (
        f"The paper prints no value here of {names}, nor of any other task with a name that it does not have: ours "
        "stand alone there. Its own rows stay empty where the study has no task that stands for theirs."
    )


def numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """The single published numbers as a table for the eye."""
    units = rows["unit"].str.replace("percent relative", "% less").str.replace("percent", "%")
    value = [f"{v} {u}".strip() for v, u in zip(rows["value"], units, strict=True)]
    of = (
        rows["quantity"]
        .str.replace(r"\bFT\b", "fine-tuned", regex=True)
        .str.cat(rows["task"].where(rows["task"] == "", " (" + rows["task"] + ")"))
    )
    return pd.DataFrame({"published": of, "value": value, "where": rows["where"], "remark": rows["note"]})
