"""The worker's attributions as tables, and what they allow to be said. No widgets here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.plots.theme import state_style
from skillviz.show import text

BLOCK = "block"
LARGE_SHARE, LARGE_NATS = 0.1, 0.05  # a gap beyond both of these is warned of

Answer = Mapping[str, Any]


def token_rows(answer: Answer) -> pd.DataFrame:
    """state, position, token, special, value (nats) of integrated gradients."""
    frames = [_tokens(answer).assign(state=state, value=told["values"]) for state, told in answer["states"].items()]
    return pd.concat(frames, ignore_index=True)[["state", "position", "token", "special", "value"]]


def part_rows(answer: Answer) -> pd.DataFrame:
    """state, part, layer, value (nats, summed over tokens) of layer conductance; whole blocks are left out.

    A block's sum is the same for every layer, since nothing passes it by.
    """
    rows = [
        (state, part, layer, float(value))
        for state, told in answer["states"].items()
        for part, values in told["parts"].items()
        if part != BLOCK
        for layer, value in enumerate(np.asarray(values).sum(axis=1))
    ]
    return pd.DataFrame(rows, columns=["state", "part", "layer", "value"])


def flow_rows(answer: Answer) -> pd.DataFrame:
    """state, layer, position, token, special, value (nats): where the evidence lies after each layer."""
    frames = [
        _tokens(answer).assign(state=state, layer=layer, value=values)
        for state, told in answer["states"].items()
        for layer, values in enumerate(np.asarray(told["parts"][BLOCK]))
    ]
    return pd.concat(frames, ignore_index=True)[["state", "layer", "position", "token", "special", "value"]]


def completeness(answer: Answer) -> pd.DataFrame:
    """One row a state, in nats: score, reference (on the baseline), change, explained, gap, and gap / change."""
    rows = []
    for state, told in answer["states"].items():
        change = told["score"] - told["reference"]
        share = abs(told["gap"] / change) if change else float("nan")
        rows.append((state, told["score"], told["reference"], change, change + told["gap"], told["gap"], share))
    return pd.DataFrame(rows, columns=["state", "score", "reference", "change", "explained", "gap", "share"])


def large_gaps(found: pd.DataFrame) -> list[str]:
    """The states whose gap is large beside the change that is to be explained."""
    large = (found["gap"].abs() > LARGE_NATS) & ~(found["share"] <= LARGE_SHARE)
    return found.loc[large, "state"].tolist()


def completeness_words(found: pd.DataFrame) -> str:
    """The largest gap among the states, in nats and beside the change that is to be explained."""
    worst = found.iloc[int(found["gap"].abs().to_numpy().argmax())]
    beside = f" of a change of {_nats(worst['change'])} ({formats.percent(worst['share'])})" if worst["change"] else ""
    names = "the models" if len(found) > 1 else "this model"
    return (
        f"From the baseline to the sentence the class's log-odds change, and the values add up to that change but for "
        f"a gap. The largest among {names}: **{_nats(worst['gap'])}**{beside}, {state_style(worst['state']).title}."
    )


def tokens_words(rows: pd.DataFrame, label: str) -> str:
    """The token that counts most in each state."""
    said = []
    for state, mine in rows[~rows["special"].astype(bool)].groupby("state", sort=False):
        if mine.empty or not mine["value"].abs().max():
            continue
        most = strongest(mine)
        said.append(
            f"“{text.plain(most['token'])}” in the {state_style(str(state)).title} model ({_nats(most['value'])})"
        )
    if not said:
        return "No token changes anything: sentence and baseline are the same to the models."
    return f"What counts most for **{text.plain(label)}**: {'; '.join(said)}."


def parts_words(rows: pd.DataFrame, label: str) -> str:
    """The layer's module that does most for the class in each state."""
    said = []
    for state, mine in rows.groupby("state", sort=False):
        most = strongest(mine)
        where = f"layer {most['layer']}'s {most['part']}"
        said.append(f"{where} in the {state_style(str(state)).title} model ({_nats(most['value'])})")
    return f"What counts most for **{text.plain(label)}**: {'; '.join(said)}."


def strongest(rows: pd.DataFrame) -> pd.Series:
    """The row whose value is largest in size; the first of several."""
    return rows.iloc[int(rows["value"].abs().to_numpy().argmax())]


def _tokens(answer: Answer) -> pd.DataFrame:
    tokens = answer["tokens"]
    return pd.DataFrame({"position": range(len(tokens)), "token": tokens, "special": answer["special"]})


def _nats(value: float) -> str:
    """`+1.25 nats`, with as many decimals as the value needs; `0.000 nats` has no sign."""
    words = formats.number(value, 2 if abs(value) >= 0.1 else 3)
    return f"{'+' if float(words.replace(formats.MINUS, '-').replace(',', '')) > 0 else ''}{words} nats"
