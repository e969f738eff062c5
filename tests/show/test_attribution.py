"""Tests of the worker's attributions as tables, and of the claims made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.show import attribution as exhibits
from tests.tables import says

TOKENS = ["[CLS]", "not", "good", "[SEP]"]


def tokens_answer(gap: float = 0.02) -> dict[str, Any]:
    """Return integrated gradients in two states; the graft's values miss the change by `gap`."""
    states = {
        "grafted": {"values": np.array([0, -1.5, 0.5, 0.0]), "score": -0.7 - gap, "reference": 0.3, "gap": gap},
        "finetuned": {"values": np.array([0, -0.5, 2.5, 0.0]), "score": 2.0, "reference": 0.0, "gap": 0.0},
    }
    return {
        "tokens": TOKENS,
        "special": [True, False, False, True],
        "word": [-1, 0, 1, -1],
        "target": 1,
        "label": "pos*itive",
        "states": states,
    }


def layers_answer(known: bool = True) -> dict[str, Any]:
    """Return the layer conductance of two layers in two states."""
    block = np.array([[0.0, 0.2, 0.4, 0.0], [0.4, 0.1, 0.0, 0.0]])
    parts = {"block": block} | ({"attention output": block / 2, "MLP out": -3 * block} if known else {})
    told = {"parts": parts, "score": 1.0, "reference": 0.5, "gap": 0.0}
    return {**tokens_answer(), "states": {"pretrained": told, "grafted": told}}


def test_one_row_a_state_and_token() -> None:
    rows = exhibits.token_rows(tokens_answer())
    assert rows["token"].tolist() == 2 * TOKENS and rows["special"].tolist() == 2 * [True, False, False, True]
    assert rows[rows["state"] == "finetuned"]["value"].tolist() == [0, -0.5, 2.5, 0]


def test_parts_are_summed_over_tokens_without_whole_blocks() -> None:
    rows = exhibits.part_rows(layers_answer()).set_index(["state", "part", "layer"])["value"]
    assert len(rows) == 8 and set(rows.index.unique("part")) == {"attention output", "MLP out"}
    assert rows["grafted", "MLP out", 0] == pytest.approx(-1.8)
    assert exhibits.part_rows(layers_answer(known=False)).empty


def test_flow_keeps_layers_and_tokens() -> None:
    rows = exhibits.flow_rows(layers_answer())
    one = rows[(rows["state"] == "pretrained") & (rows["layer"] == 1)]
    assert one[["position", "value"]].to_numpy().tolist() == [[0, 0.4], [1, 0.1], [2, 0.0], [3, 0.0]]


def test_completeness_adds_up() -> None:
    found = exhibits.completeness(tokens_answer()).set_index("state").loc["grafted", ["change", "explained", "share"]]
    assert found.to_dict() == pytest.approx({"change": -1.02, "explained": -1.0, "share": 0.02 / 1.02})


@pytest.mark.parametrize(("gap", "large"), [(0.02, []), (0.04, []), (0.5, ["grafted"]), (-0.5, ["grafted"])])
def test_a_gap_is_large_beside_the_change_and_in_nats(gap: float, large: list[str]) -> None:
    assert exhibits.large_gaps(exhibits.completeness(tokens_answer(gap))) == large


def test_a_gap_of_no_change_is_judged_in_nats_alone() -> None:
    answer = tokens_answer()
    answer["states"]["finetuned"] |= {"score": 0.0, "reference": 0.0, "gap": 0.2}
    found = exhibits.completeness(answer)
    assert exhibits.large_gaps(found) == ["finetuned"] and "change of" not in exhibits.completeness_words(found)


ROWS, LAYERS = exhibits.token_rows(tokens_answer()), exhibits.layers(layers_answer(), "grafted", "dark")
test_what_is_said_of_attributions = says({
    "the largest gap": (
        lambda: exhibits.completeness_words(exhibits.completeness(tokens_answer(0.02))),
        ("**+0.020 nats** of a change of −1.02 nats (2.0%), grafted",),
    ),
    "no gap": (
        lambda: exhibits.completeness_words(exhibits.completeness(tokens_answer(0.0))), ("**0.000 nats**",),
    ),
    "the word that speaks most for the class, harmless": (
        lambda: exhibits.tokens_words(ROWS, "pos*itive"),
        ("^What counts most for **pos\\*itive**: “good” in the grafted model (+0.50 nats); "
         "“good” in the fine-tuned model (+2.50 nats).$",),
    ),
    "no word": (lambda: exhibits.tokens_words(ROWS.assign(value=0.0), "x"), ("No token changes anything",)),
    "the strongest layer": (
        lambda: exhibits.parts_words(exhibits.part_rows(layers_answer()), "positive"),
        ("layer 0's attention output in the pre-trained model (+0.30 nats)",),
    ),
    "tokens, read out": (
        lambda: exhibits.tokens(tokens_answer(), "light").alt, ("^What counts most for pos*itive",),
    ),
    "layers, read out": (
        lambda: LAYERS.alt, ("after layer 0 most of it lies at “good”, after layer 1 most of it lies at “[CLS]”",),
    ),
})  # fmt: skip


def test_exhibits_have_tables_and_a_scale() -> None:
    assert len(exhibits.tokens(tokens_answer(), "light").table) == 8 and LAYERS.figure.data[0].zmax == 0.4
    assert isinstance(exhibits.parts(layers_answer(), "light").table, pd.DataFrame)
