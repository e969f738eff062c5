"""What the paper page says: its items, why some have no experiment here, verdicts on the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.show import text
from skillviz.studies.paper.claims import AGREES, DISAGREES, UNDECIDED, UNTESTED, Comparison, Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS
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
SIGNS = {
    AGREES: ("green", ":material/check_circle:"),
    DISAGREES: ("red", ":material/cancel:"),
    UNDECIDED: ("gray", ":material/help:"),
    UNTESTED: ("gray", ":material/remove:"),
}
CAUTION = (
    "Published numbers are of RoBERTa-base (GPT-2 in Table 9), with other data and other seeds. A difference is no "
    "error, here or there: it says how far a number carries over."
)
PUBLISHED_ONLY = "No study of this is stored, so only the published values are shown. This makes one:"


def items() -> dict[str, str]:
    """The titles of all tables and figures by name, in the paper's order: tables, figures, then what is ours."""
    titles = {name: title for name, (title, _) in WITHOUT.items()}
    titles |= {name: row.title for name, row in EXPERIMENTS.items()}
    return {name: titles[name] for name in sorted(titles, key=_place)}


def place_of(study: StudyFolder) -> tuple[int, int, str]:
    """Where a study comes in a list: by its experiment as in the paper, then by name."""
    word, number, _ = _place(study.record.experiment or "")
    return word, number, study.name


def _place(name: str) -> tuple[int, int, str]:
    word, number = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return ("table", "figure").index(word) if word in ("table", "figure") else 2, int(number or 0), name


def counted(found: Sequence[Verdict]) -> str:
    """The page's sentence: how many of the paper's claims come out here."""
    if not found:
        return "The paper makes no claim here that a study could be judged by."
    words = []
    for outcome, said in ((AGREES, "agree"), (DISAGREES, "do not agree"), (UNDECIDED, "stay undecided")):
        count = sum(verdict.outcome == outcome for verdict in found)
        if count:
            words.append(f"**{count}** {said if count > 1 else _one(said)}")
    untested = sum(verdict.outcome == UNTESTED for verdict in found)
    rest = f" {untested} could not be asked of this study." if untested else ""
    of = formats.counted(len(found), "claim")
    return f"Of the paper's {of} here, {formats.listed(words, 3) if words else 'none was tested'}.{rest}"


def _one(said: str) -> str:
    return {"agree": "agrees", "do not agree": "does not agree", "stay undecided": "stays undecided"}[said]


def verdict(found: Verdict) -> str:
    """One claim with its outcome, in Markdown."""
    colour, sign = SIGNS[found.outcome]
    told = f" {_counts(found)}" if found.comparisons else " This study has no row for it."
    return f":{colour}-badge[{sign} {found.outcome}] {text.plain(found.claim)}{told}"


def _counts(found: Verdict) -> str:
    total = len(found.comparisons)
    if total == 1:
        return f"({comparison(found.comparisons[0])})"
    said = [f"{found.supporting} of {total} comparisons support it"]
    said += [f"{found.against} {'speaks' if found.against == 1 else 'speak'} against it"] if found.against else []
    said += [f"{found.open} {'leaves' if found.open == 1 else 'leave'} it open"] if found.open else []
    return f"({', '.join(said)})"


def comparison(found: Comparison) -> str:
    """`film-sentiment: −5.2 points, 95 %: −7.2 to −3.2`."""
    return f"{text.plain(found.where)}: {number(found)}"


def number(found: Comparison) -> str:
    """The value with its interval in its unit."""
    if found.unit == "points":
        value = formats.points(found.value)
    else:
        value = formats.percent(found.value) if found.unit == "percent" else f"{formats.number(found.value, 2)} times"
    digits = 2 if found.unit == "times" else 1
    ends = formats.interval if found.unit == "times" else formats.percent_interval
    return f"{value}, 95{formats.SPACE}%: {ends(found.low, found.high, digits)}"


def comparisons(found: Sequence[Verdict]) -> pd.DataFrame:
    """Every comparison behind the verdicts."""
    words = {True: "supports", False: "speaks against", None: "leaves open"}
    rows = [
        {"claim": one.claim, "where": c.where, "value (95 %)": number(c), "says": words[c.supports]}
        for one in found
        for c in one.comparisons
    ]
    return pd.DataFrame(rows, columns=["claim", "where", "value (95 %)", "says"])


def unmatched(rows: pd.DataFrame) -> str:
    """Which of our rows have no published value beside them; empty where all have one."""
    own = list(dict.fromkeys(rows.loc[rows["published"].isna() & rows["value"].notna(), "task"]))
    if not own:
        return ""
    said = formats.listed([text.plain(task) for task in own], 5)
    return (
        f"The paper prints no value here of {said}, nor of any other task with a name that it does not have: ours "
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
