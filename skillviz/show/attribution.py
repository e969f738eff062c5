"""Exhibits of one explained sentence: what its tokens add, and which layers carry the decision."""

from __future__ import annotations

import pandas as pd

from skillviz.plots.attribution import largest, layer_parts, token_layers, token_values
from skillviz.plots.theme import state_style
from skillviz.show import attributions
from skillviz.show.attributions import Answer
from skillviz.show.exhibit import Exhibit, kept


@kept
def tokens(answer: Answer, theme: str) -> Exhibit:
    """Every token's part in the class's log-odds, model beside model."""
    rows = attributions.token_rows(answer)
    return Exhibit(
        name="tokens",
        title=f"What each token adds to “{answer['label']}”",
        figure=token_values(rows, theme=theme),
        reads="a row is a token, a column a model. Ochre and a plus speak for the class, blue and a minus against it; "
        "all models share one scale, so their colours and numbers compare. Tokens in brackets are the tokenizer's own: "
        "they stay in the baseline and have no number.",
        alt=_plain(attributions.tokens_words(rows, answer["label"])),
        table=rows,
        words=("attribution", "logodds", "baseline"),
    )


@kept
def parts(answer: Answer, theme: str) -> Exhibit:
    """What attention and MLP of each layer do for the class, model beside model."""
    rows = attributions.part_rows(answer)
    return Exhibit(
        name="parts",
        title=f"Which layers carry “{answer['label']}”",
        figure=layer_parts(rows, theme=theme),
        reads="how much of the class's log-odds flows through each layer's attention output (above) and MLP (below) "
        "and not past it: high is for the class, below zero against it. One line a model.",
        alt=_plain(attributions.parts_words(rows, answer["label"])),
        table=rows,
        words=("conductance", "logodds"),
    )


@kept
def layers(answer: Answer, state: str, theme: str) -> Exhibit:
    """At which tokens one model's evidence lies after each layer."""
    every = attributions.flow_rows(answer)
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
        ends.append(f"after layer {layer} most of it lies at “{attributions.strongest(mine)['token']}”")
    return f"Evidence for {label} in the {state_style(state).title} model: {', '.join(dict.fromkeys(ends))}."


def _plain(markdown: str) -> str:
    return markdown.replace("**", "").replace("\\", "")
