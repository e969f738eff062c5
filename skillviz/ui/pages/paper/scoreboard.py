"""The scoreboard: one row per claim of the paper, with its number, ours, the verdict, and its experiment on a click."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.studies.paper.claims import Claim, Comparison, Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS, published_verdicts
from skillviz.studies.paper.published_values import stated
from skillviz.studies.store import StudyFolder
from skillviz.ui import cache, controls, exports, study_choice, study_words
from skillviz.ui.chip import chip_text
from skillviz.ui.pages.paper import words
from skillviz.ui.row_click import rows_that_open, selected

KEY = "paper.scoreboard"
ITEM, CLAIM, NONE = "item", "claim", "none"
TALL, SHORT = 600, 320  # pixels; short if an experiment without a claim is open below
COLORS = {CONFIRMED: "green", CONTRADICTED: "red", INCONCLUSIVE: "gray", NOT_MEASURED: "blue"}
COLUMNS = {
    "where": st.column_config.TextColumn("in paper", width=60),
    "verdict": st.column_config.MultiselectColumn(
        "verdict", options=list(COLORS), color=list(COLORS.values()), width=102, help=about("verdict")
    ),
    "claim": st.column_config.TextColumn("claim of the paper", width=405),
    "paper": st.column_config.TextColumn(
        "paper", width=80, help="Mean over the tasks of the published table. Most figures print no number."
    ),
    "here": st.column_config.TextColumn(
        "here (95%)", width=163, help="Mean over the comparisons, with an interval that holds however they depend on "
        "each other. The verdict counts the comparisons.",
    ),
    "data": st.column_config.TextColumn("measured on", width=103),
}  # fmt: skip


@dataclass(frozen=True)
class Score:
    """A claim of an experiment, judged by its published values and by our study; the study is None if not stored."""

    experiment: str
    claim: Claim
    paper: Verdict
    here: Verdict
    study: StudyFolder | None


def scores() -> list[Score]:
    """Every claim in the order of the paper, each judged by the best stored study."""
    judged = []
    for name, row in EXPERIMENTS.items():
        study = next(iter(study_choice.measuring(name)), None)
        here = cache.study_verdicts(study) if study else row.verdicts({}, None)
        judged += [Score(name, *one, study) for one in zip(row.claims, published_verdicts(name), here, strict=True)]
    return judged


def sentence(judged: Sequence[Score]) -> str:
    """`19 of 36 claims confirmed, 2 contradicted, 3 inconclusive, 12 not measured`, and a command for the rest."""
    rest = f" To measure the rest: `{study_words.commands(('all',))}`."
    is_whole = all(score.here.outcome != NOT_MEASURED for score in judged)
    return f"{words.verdict_counts([score.here for score in judged])}.{'' if is_whole else rest}"


def table(judged: Sequence[Score]) -> pd.DataFrame:
    """One row per claim, for display."""
    rows = [
        {
            "where": study_words.experiment_title(score.experiment),
            "verdict": [score.here.outcome],
            "claim": score.claim.text,
            "paper": _in_paper(score),
            "here": _estimate(score.here.mean) if score.here.mean else "",
            "data": study_words.data(score.study) if score.study else "",
        }
        for score in judged
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def draw(judged: Sequence[Score], rows: pd.DataFrame, *, height: int) -> None:
    """Draws the `table`; a click opens the claim's experiment. On a phone it is a list, in which claims wrap."""
    with st.container(key="claims-wide"):
        rows_that_open(
            rows, key=KEY, column_config=COLUMNS, height=height, on_select=lambda: _open(judged),
            alt="The claims of the paper, each with the paper's value, ours and the verdict",
        )  # fmt: skip
    with st.container(key="claims-narrow"):
        names = dict(zip(rows["where"], (score.experiment for score in judged), strict=True))
        for where, words_of_claims in listed(rows).items():
            st.button(
                where, type="tertiary", icon=":material/chevron_right:", key=f"claims.{where}",
                on_click=controls.assign, args=(ITEM, names[where]),
            )  # fmt: skip
            st.markdown(words_of_claims)
    plain = rows.assign(verdict=[outcome for (outcome,) in rows["verdict"]])
    exports.table_menu(plain, file="claims", key="claims", caption="The paper's claims and our verdicts")


def listed(rows: pd.DataFrame) -> dict[str, str]:
    """The rows of `table` as Markdown, claim by claim; the key is the claim's table or figure."""
    by_item = {}
    for where, of_item in rows.groupby("where", sort=False):
        lines = []
        for row in of_item.to_dict("records"):
            (outcome,) = row["verdict"]
            values = [f"paper {row['paper']}", f"here {row['here']}" if row["here"] else "", row["data"]]
            said = text.plain(" · ".join(filter(None, values)))
            lines.append(f"{chip_text(outcome)} {text.plain(row['claim'])}  \n:gray[{said}]")
        by_item[str(where)] = "\n\n".join(lines)
    return by_item


def _open(judged: Sequence[Score]) -> None:
    """Opens the experiment of the selected row; called when the selection changes."""
    row = selected(KEY)
    if row is not None:
        score = judged[row]
        controls.assign(ITEM, score.experiment)
        controls.assign(CLAIM, score.claim.text)
    else:
        controls.assign(ITEM, NONE)


def _in_paper(score: Score) -> str:
    if score.paper.mean is not None:
        return words.number(score.paper.mean)
    return stated(score.claim.stated) if score.claim.stated else "figure only"


def _estimate(mean: Comparison) -> str:
    """`−2.1 points (−3.0 to −1.2)`."""
    return f"{words.number(mean)} ({words.ends(mean)})" if not formats.missing(mean.low) else words.number(mean)
