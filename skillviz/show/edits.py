"""A sentence beside an edited one: the words that changed, and what each model makes of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.plots.edits import edited_probability
from skillviz.plots.theme import state_style
from skillviz.show import text
from skillviz.show.exhibit import Exhibit, drawn_once


def edited_words(before: str, after: str) -> str:
    """Both sentences as one line of Markdown: removed words struck out, new words bold."""
    old, new = before.split(), after.split()
    pieces = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(text.plain_line(" ".join(old[a:b])))
            continue
        if b > a:
            pieces.append(f"~~{text.plain_line(' '.join(old[a:b]))}~~")
        if d > c:
            pieces.append(f"**{text.plain_line(' '.join(new[c:d]))}**")
    return " ".join(pieces)


def changes(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], label: int) -> pd.DataFrame:
    """One row per model: its probability of the class `label` before and after, and the class that it then predicts.

    `before` and `after` are probabilities [label] by state.
    """
    rows = [
        (state, float(p[label]), float(after[state][label]), int(p.argmax()), int(after[state].argmax()))
        for state, p in before.items()
    ]
    return pd.DataFrame(rows, columns=["state", "before", "after", "predicted_before", "predicted_after"])


def finding(table: pd.DataFrame, labels: Sequence[str], label: int) -> str:
    """What the edit does to each model's confidence in the class, and which models change their prediction."""
    phrases, turned = list[str](), list[str]()
    for row in table.to_dict("records"):
        model, points = state_style(row["state"]).title, round(100 * (row["after"] - row["before"]), 1)
        moved = f"{'+' if points > 0 else ''}{formats.number(points, 1)} points"
        phrases.append(f"{model} {formats.percent(row['before'])} → {formats.percent(row['after'])} ({moved})")
        if row["predicted_before"] != row["predicted_after"]:
            turned.append(f"{model} now predicts **{text.plain(labels[row['predicted_after']])}**")
    told = f"**{text.plain(labels[label])}**: {'; '.join(phrases)}."
    return f"{told} {formats.capital('; '.join(turned))}." if turned else f"{told} No model changes its prediction."


@drawn_once
def edited(table: pd.DataFrame, label: str, theme: str) -> Exhibit:
    """Each model's probability of the class before and after the edit."""
    moves = [
        f"{state_style(state).title} {formats.percent(before)} to {formats.percent(after)}"
        for state, before, after in zip(table["state"], table["before"], table["after"], strict=True)
    ]
    return Exhibit(
        name="edited",
        title="What the edit changes",
        figure=edited_probability(table, label, theme=theme),
        reads="a hollow mark is the model's probability for the original sentence, a filled one for the edited "
        "sentence. The class is the one that the fine-tuned model predicts for the original.",
        alt=f"Probability of {label} by model, original to edited: {'; '.join(moves)}.",
        table=table,
        words=("pretrained", "graft", "confidence"),
    )
