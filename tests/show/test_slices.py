"""Tests of the sentences on slices: losses by name, and the number of verdicts expected by chance."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.show import text
from skillviz.show.slices import by_slice, columns_of, differences, finding, title

LABELS = ("a*b", "other")
N = 400


def answers() -> tuple[Answers, Answers]:
    """Return a graft that loses class 0 and nothing else, and the fine-tuned model."""
    labels = np.arange(N) % 2
    ids = np.array([f"test-{n}" for n in range(N)], dtype=object)
    tuned = np.where(np.eye(2)[labels] > 0, 2.0, 0.0)
    graft = tuned.copy()
    graft[(labels == 0) & (np.arange(N) % 4 == 0)] *= -1
    return Answers(ids, labels, graft), Answers(ids, labels, tuned)


def test_losses_are_named_and_chance_is_said() -> None:
    graft, tuned = answers()
    columns = columns_of(graft, LABELS, pd.DataFrame({"words": np.arange(N)}, index=graft.ids))
    table = differences(graft, tuned, columns, "accuracy")
    assert len(table) == 6 and table.iloc[0]["name"] == "a*b" and table.iloc[0]["value"] == -0.5
    assert table.iloc[0]["verdict"] == "worse" and table.iloc[0]["holds"]
    assert table.iloc[-1]["verdict"] == NO_DIFFERENCE and not table.iloc[-1]["holds"]  # no width
    said = finding(table, "accuracy", text.plain)
    assert "The graft is worse in accuracy on **true class" in said and r"a\*b" in said
    assert "better on 0 of 6 slices. Of 6 comparisons, 5 exclude zero; chance alone would give about 0.3." in said
    assert r"a*b" in finding(table, "accuracy")
    shown = by_slice(table, "accuracy", "light")
    assert "6 slices" in shown.alt and "true class: a*b (200) −50.0 points" in shown.alt


def test_without_other_columns_there_is_the_class() -> None:
    graft, tuned = answers()
    assert list(columns_of(graft, LABELS, None).columns) == ["class"]
    table = differences(graft, graft, columns_of(graft, LABELS, None), "nll")
    assert "neither worse nor better in NLL on any of 2 slices. None of 2 comparisons excludes zero." in finding(
        table, "nll"
    )
    rare = pd.DataFrame({"source": np.where(np.arange(N) < 100, "rare", "usual")}, index=graft.ids)
    few = differences(graft, tuned, rare, "nll")
    assert few["low"].isna().tolist() == (few["name"] == "rare").tolist()
    assert finding(few, "nll").endswith("Too small for an interval: 1 slice.")
    one = differences(graft, graft, columns_of(graft, LABELS, None).assign(**{"class": "x"}), "nll")
    assert one.empty and "nothing to compare" in finding(one, "nll")


def test_titles() -> None:
    assert (title("class"), title("words"), title("source")) == ("true class", "length in words", "source")
