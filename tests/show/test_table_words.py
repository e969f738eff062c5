"""The words that a study's table is shown in."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.show.table_words import worded


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("sgd", "SGD"),
        ("sgd, 300 steps, lr 0.05", "SGD, 300 steps, lr 0.05"),
        ("continual, naive, after stage 2", "one task after the other, naive, after stage 2"),
        ("lora, rank 8 less sgd, 1 step", "LoRA, rank 8 less SGD, 1 step"),
        ("adamw-l1, rank 8", "AdamW + L1, rank 8"),
        ("a new one, rank 8", "a new one, rank 8"),
    ],
)
def test_a_recipe_is_told_in_words_with_what_differs(stored: str, shown: str) -> None:
    assert worded(pd.DataFrame({"recipe": [stored]}))["recipe"].tolist() == [shown]
