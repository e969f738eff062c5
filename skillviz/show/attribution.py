"""The worker's attributions as tables, the sentences that they support, and the exhibits of one explained sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.plots.attribution import largest, layer_parts, token_layers, token_values
from skillviz.plots.theme import state_style
from skillviz.show import text
from skillviz.show.exhibit import Exhibit, drawn_once

BLOCK = "block"
LARGE_SHARE, LARGE_NATS = 0.1, 0.05  # there is a warning if a gap exceeds both of these

Answer = Mapping[str, Any]


def token_rows(answer: Answer) -> pd.DataFrame:
    """state, position, token, special, word, value (nats) of integrated gradients."""
    frames = [_tokens(answer).assign(state=state, value=part["values"]) for state, part in answer["states"].items()]
    return pd.concat(frames, ignore_index=True)[["state", "position", "token", "special", "word", "value"]]


def part_rows(answer: Answer) -> pd.DataFrame:
    """state, part, layer, value (nats, summed over tokens) of layer conductance; whole blocks are left out.

    A block's sum is the same for every layer, because no path bypasses a block.
    """
    rows = [
        (state, part, layer, float(value))
        for state, parts in answer["states"].items()
        for part, values in parts["parts"].items()
        if part != BLOCK
        for layer, value in enumerate(np.asarray(values).sum(axis=1))
    ]
    return pd.DataFrame(rows, columns=["state", "part", "layer", "value"])


def flow_rows(answer: Answer) -> pd.DataFrame:
    """state, layer, position, token, special, value (nats): the position of the evidence after each layer."""
    frames = [
        _tokens(answer).assign(state=state, layer=layer, value=values)
        for state, part in answer["states"].items()
        for layer, values in enumerate(np.asarray(part["parts"][BLOCK]))
    ]
    return pd.concat(frames, ignore_index=True)[["state", "layer", "position", "token", "special", "value"]]


def completeness(answer: Answer) -> pd.DataFrame:
    """One row per state, in nats: score, reference (on the baseline), change, explained, gap, and gap / change."""
    rows = []
    for state, part in answer["states"].items():
        change = part["score"] - part["reference"]
        share = abs(part["gap"] / change) if change else float("nan")
        rows.append((state, part["score"], part["reference"], change, change + part["gap"], part["gap"], share))
    return pd.DataFrame(rows, columns=["state", "score", "reference", "change", "explained", "gap", "share"])


def large_gaps(gaps: pd.DataFrame) -> list[str]:
    """The states whose gap is large compared with the change to be explained."""
    large = (gaps["gap"].abs() > LARGE_NATS) & ~(gaps["share"] <= LARGE_SHARE)
    return gaps.loc[large, "state"].tolist()


def completeness_words(gaps: pd.DataFrame) -> str:
    """The largest gap among the states, in nats and as a share of the change to be explained."""
    worst = gaps.iloc[int(gaps["gap"].abs().to_numpy().argmax())]
    beside = f" of a change of {_nats(worst['change'])} ({formats.percent(worst['share'])})" if worst["change"] else ""
    names = "the models" if len(gaps) > 1 else "this model"
    return (
        f"From the baseline to the sentence the class's log-odds change, and the values add up to that change but for "
        f"a gap. The largest among {names}: **{_nats(worst['gap'])}**{beside}, {state_style(worst['state']).title}."
    )


def tokens_words(rows: pd.DataFrame, label: str) -> str:
    """The words of the text that speak most for and most against the class in each state."""
    if not rows.loc[~rows["special"].astype(bool), "value"].abs().max() > 0:
        return "No token changes anything: sentence and baseline are the same to the models."
    of_text = rows[rows["word"] >= 0].groupby(["state", "word"], sort=False)
    words = of_text.agg(token=("token", "".join), value=("value", "sum")).reset_index()
    return _most_for(rows, words, label, "word", lambda most: f"“{text.plain(most['token'])}”")


def parts_words(rows: pd.DataFrame, label: str) -> str:
    """The layers' modules that speak most for and most against the class in each state."""
    return _most_for(rows, rows, label, "layer", lambda most: f"layer {most['layer']}'s {most['part']}")


def _most_for(rows: pd.DataFrame, shares: pd.DataFrame, label: str, noun: str, name: Callable[[pd.Series], str]) -> str:
    """What speaks most for and most against the class in each state of `rows`."""
    sides = (("for", 1), ("against", -1))
    return " ".join(_most(rows, shares, sign, f"{side} **{text.plain(label)}**", noun, name) for side, sign in sides)


def _most(
    rows: pd.DataFrame, shares: pd.DataFrame, sign: int, side: str, noun: str, name: Callable[[pd.Series], str]
) -> str:
    """The largest of the `shares` with this sign in each state of `rows`, or a sentence that there is none."""
    phrases, models, none = list[str](), list[str](), True
    shares = shares.assign(value=sign * shares["value"])
    for state in rows["state"].unique():
        models.append(model := f"in the {state_style(str(state)).title} model")
        best = shares[shares["state"] == state].nlargest(1, "value")
        best = best[best["value"] > 0]
        found = [f"{name(most)} {model} ({_nats(sign * most['value'])})" for _, most in best.iterrows()]
        phrases += found or [f"no {noun} {model}"]
        none = none and not found
    if none:
        where = models[0] if len(models) == 1 else "in any of the models"
        return f"No {noun} speaks {side} {where}."
    return f"What counts most {side}: {'; '.join(phrases)}."


def _tokens(answer: Answer) -> pd.DataFrame:
    columns = {name: answer[name] for name in ("special", "word")}
    return pd.DataFrame({"position": range(len(answer["tokens"])), "token": answer["tokens"], **columns})


def _nats(value: float) -> str:
    """`+1.25 nats`, with as many decimals as the value needs; `0.000 nats` has no sign."""
    words = formats.number(value, 2 if abs(value) >= 0.1 else 3)
    return f"{'+' if float(words.replace(formats.MINUS, '-').replace(',', '')) > 0 else ''}{words} nats"


@drawn_once
def tokens(answer: Answer, theme: str, name: str = "tokens") -> Exhibit:
    """The contribution of every token to the class's log-odds, for all models side by side."""
    rows = token_rows(answer)
    return Exhibit(
        name=name,
        title=f"What each token adds to “{answer['label']}”",
        figure=token_values(rows, theme=theme),
        reads="a row is a token, a column a model. Ochre and a plus speak for the class, blue and a minus against it; "
        "all models share one scale, so their colours and numbers compare. Tokens in brackets are the tokenizer's own: "
        "they stay in the baseline and have no number.",
        alt=_unmarked(tokens_words(rows, answer["label"])),
        table=rows,
        words=("attribution", "logodds", "baseline"),
    )


@drawn_once
def parts(answer: Answer, theme: str) -> Exhibit:
    """The contribution of each layer's attention and MLP to the class, for all models side by side."""
    rows = part_rows(answer)
    return Exhibit(
        name="parts",
        title=f"Which layers carry “{answer['label']}”",
        figure=layer_parts(rows, theme=theme),
        reads="how much of the class's log-odds flows through each layer's attention output (above) and MLP (below) "
        "and not past it: high is for the class, below zero against it. One line a model.",
        alt=_unmarked(parts_words(rows, answer["label"])),
        table=rows,
        words=("conductance", "logodds"),
    )


@drawn_once
def layers(answer: Answer, state: str, theme: str) -> Exhibit:
    """The tokens at which one model's evidence is after each layer."""
    every = flow_rows(answer)
    rows = every[every["state"] == state].drop(columns="state")
    return Exhibit(
        name="layers",
        title=f"Where the evidence lies: {state_style(state).title}",
        figure=token_layers(rows, limit=largest(every["value"]), theme=theme),
        reads="a column is a layer: what the tokens carry for (ochre, plus) or against (blue, minus) the class after "
        "it. Each column adds up to the same: nothing passes a block by. Evidence moves to where the answer is read. "
        "The colours are those of all models.",
        alt=_layers_alt(rows, state, answer["label"]),
        table=rows,
        words=("conductance",),
    )


def _layers_alt(rows: pd.DataFrame, state: str, label: str) -> str:
    ends = []
    for layer in (rows["layer"].min(), rows["layer"].max()):
        mine = rows[rows["layer"] == layer]
        most = mine.loc[mine["value"].idxmax()]
        where = f"most of it lies at “{most['token']}”" if most["value"] > 0 else "no token carries any"
        ends.append(f"after layer {layer} {where}")
    return f"Evidence for {label} in the {state_style(state).title} model: {', '.join(dict.fromkeys(ends))}."


def _unmarked(markdown: str) -> str:
    return markdown.replace("**", "").replace("\\", "")
