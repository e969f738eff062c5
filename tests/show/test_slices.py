"""Tests of the sentences on slices: losses by name, and the number of verdicts expected by chance."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.show import text
from skillviz.show.slices import by_slice, columns_of, differences, finding, title
from tests.tables import check

LABELS = ("a*b", "other")
N = 400


IDS, Y = np.array([f"test-{n}" for n in range(N)], dtype=object), np.arange(N) % 2
LOGITS = np.where(np.eye(2)[Y] > 0, 2.0, 0.0)
LOST = (Y == 0) & (np.arange(N) % 4 == 0)
# A graft that loses class 0 and nothing else, and the fine-tuned model.
GRAFT, TUNED = Answers(IDS, Y, np.where(LOST[:, None], -LOGITS, LOGITS)), Answers(IDS, Y, LOGITS)
CLASS = columns_of(GRAFT, LABELS, None)


def test_losses_are_named_and_chance_is_said() -> None:
    columns = columns_of(GRAFT, LABELS, pd.DataFrame({"words": np.arange(N)}, index=IDS))
    table = differences(GRAFT, TUNED, columns, "accuracy")
    first, last = (table.iloc[at][["name", "value", "verdict", "holds"]].tolist() for at in (0, -1))
    assert len(table) == 6 and first == ["a*b", -0.5, "worse", True]
    assert last[2:] == [NO_DIFFERENCE, False]  # no width
    check(finding(table, "accuracy", text.plain), (
        "The graft is worse in accuracy on **true class", r"a\*b",
        "better on 0 of 6 slices. Of 6 comparisons, 5 exclude zero; chance alone would give about 0.3.",
    ))  # fmt: skip
    check(finding(table, "accuracy"), (r"a*b",))
    check(by_slice(table, "accuracy", "light").alt, ("6 slices", "true class: a*b (200) −50.0 points"))


def test_without_other_columns_there_is_the_class() -> None:
    equal, one = (differences(GRAFT, GRAFT, columns, "nll") for columns in (CLASS, CLASS.assign(**{"class": "x"})))
    assert list(CLASS.columns) == ["class"] and one.empty
    check(finding(equal, "nll"), (
        "neither worse nor better in NLL on any of 2 slices. None of 2 comparisons excludes zero.",
    ))  # fmt: skip
    check(finding(one, "nll"), ("nothing to compare",))
    rare = pd.DataFrame({"source": np.where(np.arange(N) < 100, "rare", "usual")}, index=IDS)
    few = differences(GRAFT, TUNED, rare, "nll")
    assert few["low"].isna().tolist() == (few["name"] == "rare").tolist()
    assert finding(few, "nll").endswith("Too small for an interval: 1 slice.")


def test_titles() -> None:
    assert (title("class"), title("words"), title("source")) == ("true class", "length in words", "source")
