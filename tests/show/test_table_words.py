"""Tests of the words in a study's table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import csv_text
from skillviz.show import tasks
from skillviz.show.table_words import worded
from tests.studies.fake_tables import FAKE_TABLES


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("sgd", "SGD"), ("continual", "one task after the other"), ("adamw-l1", "AdamW + L1"), ("a new one", "a new one")],
)
def test_a_recipe_is_told_in_words(stored: str, shown: str) -> None:
    rows = pd.DataFrame({"recipe": [stored], "recipe_b": [stored], "variant": ["rank 8"]})
    assert worded(rows).loc[0].tolist() == [shown, shown, "rank 8"]


def test_tasks_have_readable_names_for_readers_and_ids_in_files() -> None:
    gain = FAKE_TABLES["gain"](("cr", "film-reviews"), np.random.default_rng(0))
    ids = csv_text(gain)
    shown = tasks.gain(gain, ("cr", "film-reviews"), "light")
    assert csv_text(shown.table) == ids and "cr + film-reviews" in ids and "CR" not in ids, "keys stay"
    assert set(shown.figure.layout.xaxis.ticktext) == {"CR", "film-reviews"}
    assert "CR + film-reviews on CR" in shown.alt
    assert set(worded(gain)["region_tasks"]) - {""} == {"CR", "film-reviews", "CR + film-reviews"}
    assert gain["region_tasks"].map(type).eq(tuple).all(), "the argument is left as it is"
