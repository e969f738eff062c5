"""Tests of Explain: it names the word of the text that speaks most for the class, not the template or half a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.live.operations import attribute
from skillviz.live.request import PairRequest, Worker
from skillviz.show import attribution as shown
from tests.tiny import tiny_pair, tiny_task

TOKENS = ("[CLS]", "dull", "un", "speakably", "good", "it", "was", "[MASK]", "[SEP]")
WORDS = (-1, 0, 1, 1, 2, -1, -1, -1, -1)


def rows(**values: list[float]) -> pd.DataFrame:
    """Return the rows of one example by state; the template is "it was [MASK]"."""
    special = [token.startswith("[") for token in TOKENS]
    states = {state: {"values": np.array(numbers)} for state, numbers in values.items()}
    return shown.token_rows({"tokens": TOKENS, "special": special, "word": WORDS, "states": states})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([0, -3.0, 0.1, 0.1, 1.0, 0.2, 0.2, 0, 0], "“good” in the fine-tuned model (+1.00 nats)"),
        ([0, 0.1, 0.1, 0.1, 0.3, 2.0, 0.2, 0, 0], "“good” in the fine-tuned model (+0.30 nats)"),
        ([0, 0.1, 0.4, 0.5, 0.6, 0.0, 0.0, 0, 0], "“unspeakably” in the fine-tuned model (+0.90 nats)"),
        ([0, 0.5, 2.0, -1.9, 0.1, 0.0, 0.0, 0, 0], "“dull” in the fine-tuned model (+0.50 nats)"),
        ([0, -0.5, -2.0, -1, -0.1, 3.0, 0.0, 0, 0], ""),
    ],
    ids=["against", "the template", "a whole word", "a word's sum", "none"],
)
def test_the_word_that_is_named(values: list[float], named: str) -> None:
    said = shown.tokens_words(rows(finetuned=values), "positive")
    none = "No word speaks for **positive** in the fine-tuned model."
    assert said == (f"What counts most for **positive**: {named}." if named else none)


def test_every_model_is_named_even_where_no_word_speaks_for_the_class() -> None:
    for_it, against = [0, 0, 0, 0, 0.7, 0, 0, 0, 0], [0, -1, 0, 0, -0.2, 0.4, 0, 0, 0]
    said = shown.tokens_words(rows(pretrained=against, finetuned=for_it), "positive")
    assert "no word in the pre-trained model; “good” in the fine-tuned model (+0.70 nats)" in said
    said = shown.tokens_words(rows(pretrained=against, finetuned=against), "positive")
    assert said == "No word speaks for **positive** in any of the models."


def test_a_layer_that_speaks_against_the_class_is_not_named() -> None:
    parts = pd.DataFrame([("grafted", "MLP out", 0, -4.0), ("grafted", "attention output", 1, 0.2)],
                         columns=["state", "part", "layer", "value"])  # fmt: skip
    assert "layer 1's attention output in the grafted model (+0.20 nats)" in shown.parts_words(parts, "positive")
    assert shown.parts_words(parts.iloc[:1], "positive") == "No layer speaks for **positive** in the grafted model."


def answer_of(tmp_path: Path, family: str, readout: str, text: Any, pair: bool = False) -> dict[str, Any]:
    base, tuned = tiny_pair(tmp_path, family, readout)
    task = tiny_task(tmp_path / "task", pair=pair)
    asked = {"base": str(base), "finetuned": str(tuned), "task": str(task), "readout": readout, "device": "cpu"}
    return attribute(PairRequest(Worker(tmp_path / "runs"), asked), text, states=["finetuned"], steps=4)


@pytest.mark.cases(6, 5)
@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("bert", "prompt"), ("roberta", "prompt"), ("gpt2", "causal")]
)
@pytest.mark.parametrize("text", ["the film was great", "it was great it was", "a", "1 it was"])
def test_words_are_those_of_the_text(tmp_path: Path, family: str, readout: str, text: str) -> None:
    """This holds even if the text contains the template's own words or a filler word."""
    found = answer_of(tmp_path, family, readout, text)
    numbers, tokens = found["word"], found["tokens"]
    words = ["".join(t for t, n in zip(tokens, numbers, strict=True) if n == k) for k in range(max(numbers) + 1)]
    assert words == text.split()
    assert not any(special and number >= 0 for special, number in zip(found["special"], numbers, strict=True))


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("llama", "causal")])
def test_words_are_those_of_both_texts(tmp_path: Path, family: str, readout: str) -> None:
    texts = ["the film was great", "it was a great plot"]
    found = answer_of(tmp_path, family, readout, texts, pair=True)
    numbers, tokens = found["word"], found["tokens"]
    words = ["".join(t for t, n in zip(tokens, numbers, strict=True) if n == k) for k in range(max(numbers) + 1)]
    assert words == " ".join(texts).split()
