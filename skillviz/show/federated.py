"""Federated training: its figures, and the finding about accuracy, bytes and membership."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skillviz.core import formats
from skillviz.plots.federated import AXES, STYLES, by_round
from skillviz.show.exhibit import Exhibit, drawn_once

TITLES = {"score": "Test metric by round", "membership": "What a message reveals"}
READS = {
    "score": "the server's model on the task's test set, after each round; round 0 is the pre-trained model with a new "
    "head. Vertical lines are 95% intervals over test examples and seeds.",
    "membership": "the AUC of telling a client's training rows from test rows by their loss, with the server's model "
    "and what one client sent; 0.5 is chance. Mean over clients, with 95% intervals over examples, clients and seeds.",
}


@drawn_once
def rounds(table: pd.DataFrame, task: str, what: str, theme: str) -> Exhibit:
    """The test metric, or what messages reveal, over the rounds of one task."""
    rows = table[(table["task"] == task) & (table["what"] == what)].reset_index(drop=True)
    scale = AXES[what][1]
    digits = 1 if scale > 1 else 2
    phrases = [
        f"{STYLES[row['send']].title}, round {row['round']}: {formats.number(scale * row['value'], digits)}"
        for row in rows.to_dict("records")
    ]
    return Exhibit(
        name=f"federated_{what}", title=TITLES[what], figure=by_round(rows, what, theme=theme), reads=READS[what],
        intervals="95% intervals over test examples and seeds", alt=f"{TITLES[what]}. {'; '.join(phrases)}.",
        table=rows, words=("region", "graft"),
    )  # fmt: skip


def _ends(row: Mapping[Any, Any]) -> str:
    return f" ({formats.interval(row['low'], row['high'], 2, 1.0)})" if pd.notna(row["low"]) else " (no interval)"


def finding(table: pd.DataFrame, task: str) -> str:
    """The last round's score, bytes and membership of every kind of message, and the caveat."""
    last = table[(table["task"] == task) & (table["round"] == table["round"].max())]
    cells = {(row["send"], row["what"]): row for row in last.to_dict("records")}
    lines = []
    for send, style in STYLES.items():
        score, sent, auc = (cells.get((send, what)) for what in ("score", "bytes", "membership"))
        if score is None or sent is None or auc is None:
            continue
        lines.append(
            f"**{style.title[0].upper()}{style.title[1:]}**: test metric "
            f"**{formats.percent_estimate(score['value'], score['low'], score['high'])}**, "
            f"{formats.byte_size(sent['value'])} uploaded in the round, membership AUC "
            f"{formats.number(auc['value'], 2)}{_ends(auc)}."
        )
    if not lines:
        return "No federation of this task has finished a round."
    first = last.iloc[0]
    lines.append(
        f"After round {first['round']}, {formats.counted(int(first['clients']), 'client')}, "
        f"{formats.counted(int(first['seeds']), 'seed')}. Bytes are those of the graft files' indices and values. "
        "Clients of one task also send their head, whatever else they send, and it reveals something too; attacks that "
        "use more than the loss may reveal more."
    )
    return " ".join(lines)
