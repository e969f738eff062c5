"""The answers of a class to the tour's questions, as a figure and as a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.plots import classroom
from skillviz.show.exhibit import Exhibit, drawn_once

MARKUP = re.compile(r"\\([^\w\s])|\*")  # of Markdown in a question: an escaped character, an asterisk
COLUMNS = ("step", "question", "answer", "count")


def shares(choices: Mapping[str, str], counts: Mapping[str, int], answer: str | None) -> pd.DataFrame:
    """answer, count, share (0..1; 0 if nobody answered) and is_right of each choice, in their order."""
    total = sum(counts.values())
    return pd.DataFrame(
        [(title, counts[name], counts[name] / max(total, 1), name == answer) for name, title in choices.items()],
        columns=["answer", "count", "share", "is_right"],
    )


def said(rows: pd.DataFrame) -> str:
    """`the graft 61% (14, right); no clear difference 39% (9)`: the shares in words."""
    return "; ".join(
        f"{row['answer']} {formats.percent(row['share'], 0)} ({row['count']}{', right' if row['is_right'] else ''})"
        for row in rows.to_dict("records")
    )


@drawn_once
def exhibit(rows: pd.DataFrame, theme: str, height: int | None = None) -> Exhibit:
    """The figure of one question, whose rows `shares` returns."""
    total = int(rows["count"].sum())
    return Exhibit(
        name="class_answers",
        title="Answers of the class",
        figure=classroom.answers(rows, theme=theme, height=height),
        reads="one bar per choice: the share of the students who chose it, with their number. The right answer has a "
        "check mark.",
        alt=f"{formats.counted(total, 'answer')} of the class: {said(rows)}." if total else classroom.NOBODY,
        table=rows,
    )


def table(rows: Sequence[tuple[int, str, Mapping[str, str], Mapping[str, int]]]) -> pd.DataFrame:
    """The columns COLUMNS, a row for each choice; `rows` are the steps with question, choices and counts."""
    return pd.DataFrame(
        [
            (step, MARKUP.sub(r"\1", question), title, counts[name])
            for step, question, choices, counts in rows
            for name, title in choices.items()
        ],
        columns=list(COLUMNS),
    )
