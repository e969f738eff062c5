"""Tests of a sentence beside its edited version: the changed words, each model's change, the changed predictions."""

import numpy as np
import pytest

from skillviz.show import edits

BEFORE = {"pretrained": np.array([0.4, 0.6]), "grafted": np.array([0.1, 0.9]), "finetuned": np.array([0.0, 1.0])}
AFTER = {"pretrained": np.array([0.4, 0.6]), "grafted": np.array([0.7, 0.3]), "finetuned": np.array([0.2, 0.8])}


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("a good film", "a bad film", "a ~~good~~ **bad** film"),
        ("a good film", "a film", "a ~~good~~ film"),
        ("a film", "a very good film", "a **very good** film"),
        ("same words", "same words", "same words"),
        ("a *good* film", "a [bad] film", "a ~~\\*good\\*~~ **\\[bad\\]** film"),
    ],
)
def test_changed_words_are_marked(before: str, after: str, line: str) -> None:
    assert edits.edited_words(before, after) == line


def test_each_model_says_what_the_edit_changes() -> None:
    table = edits.changes(BEFORE, AFTER, 1)
    assert table.to_dict("list") == {
        "state": ["pretrained", "grafted", "finetuned"], "before": [0.6, 0.9, 1.0], "after": [0.6, 0.3, 0.8],
        "predicted_before": [1, 1, 1], "predicted_after": [1, 0, 1],
    }  # fmt: skip
    assert edits.finding(table, ("negative", "pos*itive"), 1) == (
        "**pos\\*itive**: pre-trained 60.0% → 60.0% (0.0 points); grafted 90.0% → 30.0% (\N{MINUS SIGN}60.0 points); "
        "fine-tuned 100.0% → 80.0% (\N{MINUS SIGN}20.0 points). Grafted now predicts **negative**."
    )
    same = edits.finding(edits.changes(BEFORE, BEFORE, 0), ("negative", "positive"), 0)
    assert same.endswith("No model changes its prediction.")
