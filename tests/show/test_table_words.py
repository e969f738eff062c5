"""The words that a study's table is shown in."""

from __future__ import annotations

import pandas as pd
import pytest

from skillviz.show.table_words import worded


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("sgd", "SGD"), ("continual", "one task after the other"), ("adamw-l1", "AdamW + L1"), ("a new one", "a new one")],
)
def test_a_recipe_is_told_in_words(stored: str, shown: str) -> None:
    rows = pd.DataFrame({"recipe": [stored], "recipe_b": [stored], "variant": ["rank 8"]})
    assert worded(rows).loc[0].tolist() == [shown, shown, "rank 8"]
