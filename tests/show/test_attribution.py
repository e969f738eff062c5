"""Tests of the worker's attributions as tables, and of the claims made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.core import formats
from skillviz.show import attribution as exhibits
from skillviz.show import text

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
    assert len(rows) == 8 and rows[rows["state"] == "finetuned"]["value"].tolist() == [0, -0.5, 2.5, 0]
    assert rows["token"].tolist() == 2 * TOKENS and rows["special"].tolist() == 2 * [True, False, False, True]


def test_parts_are_summed_over_tokens_without_whole_blocks() -> None:
    rows = exhibits.part_rows(layers_answer())
    assert set(rows["part"]) == {"attention output", "MLP out"} and len(rows) == 8
    found = rows.set_index(["state", "part", "layer"])["value"]
    assert found["grafted", "MLP out", 0] == pytest.approx(-1.8)
    assert exhibits.part_rows(layers_answer(known=False)).empty


def test_flow_keeps_layers_and_tokens() -> None:
    rows = exhibits.flow_rows(layers_answer())
    one = rows[(rows["state"] == "pretrained") & (rows["layer"] == 1)]
    assert one["value"].tolist() == [0.4, 0.1, 0.0, 0.0] and one["position"].tolist() == [0, 1, 2, 3]


def test_completeness_adds_up() -> None:
    found = exhibits.completeness(tokens_answer()).set_index("state")
    assert found.loc["grafted", "change"] == pytest.approx(-1.02)
    assert found.loc["grafted", "explained"] == pytest.approx(-1.0)
    assert found.loc["grafted", "share"] == pytest.approx(0.02 / 1.02)


@pytest.mark.parametrize(("gap", "large"), [(0.02, []), (0.04, []), (0.5, ["grafted"]), (-0.5, ["grafted"])])
def test_a_gap_is_large_beside_the_change_and_in_nats(gap: float, large: list[str]) -> None:
    assert exhibits.large_gaps(exhibits.completeness(tokens_answer(gap))) == large


def test_a_gap_of_no_change_is_judged_in_nats_alone() -> None:
    answer = tokens_answer()
    answer["states"]["finetuned"] |= {"score": 0.0, "reference": 0.0, "gap": 0.2}
    found = exhibits.completeness(answer)
    assert exhibits.large_gaps(found) == ["finetuned"]
    assert "change of" not in exhibits.completeness_words(found)


def test_the_largest_gap_is_said() -> None:
    said = exhibits.completeness_words(exhibits.completeness(tokens_answer(0.02)))
    assert "**+0.020 nats** of a change of −1.02 nats (2.0%), grafted" in said.replace(formats.SPACE, " ")
    assert "**0.000 nats**" in exhibits.completeness_words(exhibits.completeness(tokens_answer(0.0)))


def test_the_word_that_speaks_most_for_the_class_is_named_and_harmless() -> None:
    rows = exhibits.token_rows(tokens_answer())
    said = exhibits.tokens_words(rows, "pos*itive")
    assert said == (
        "What counts most for **pos\\*itive**: “good” in the grafted model (+0.50 nats); "
        "“good” in the fine-tuned model (+2.50 nats)."
    )
    assert "No token changes anything" in exhibits.tokens_words(rows.assign(value=0.0), "x")


def test_the_strongest_layer_is_named() -> None:
    said = exhibits.parts_words(exhibits.part_rows(layers_answer()), "positive")
    assert "layer 0's attention output in the pre-trained model (+0.30 nats)" in said


def test_exhibits_have_words_and_tables() -> None:
    tokens = exhibits.tokens(tokens_answer(), "light")
    assert tokens.alt.startswith("What counts most for pos*itive") and len(tokens.table) == 8
    layers = exhibits.layers(layers_answer(), "grafted", "dark")
    assert "after layer 0 most of it lies at “good”, after layer 1 most of it lies at “[CLS]”" in layers.alt
    assert layers.figure.data[0].zmax == 0.4
    assert isinstance(exhibits.parts(layers_answer(), "light").table, pd.DataFrame)
