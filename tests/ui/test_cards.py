"""Tests of cards: each number has its interval."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def cards_script() -> None:
    from skillviz.runs.record import Estimate
    from skillviz.ui import cards

    cards.estimate("accuracy", Estimate(value=0.801, low=0.774, high=0.826))
    cards.estimate("nll", Estimate(value=None))
    cards.estimate("ece", None)


def test_a_number_stands_with_its_interval_and_a_missing_one_without() -> None:
    test = AppTest.from_function(cards_script, default_timeout=60).run()
    shown = [(m.label, m.value.replace("\N{NO-BREAK SPACE}", " ")) for m in test.metric]
    assert shown == [("Accuracy", "80.1%"), ("NLL", "n/a"), ("ECE", "n/a")]
    assert [c.value.replace("\N{NO-BREAK SPACE}", " ") for c in test.caption] == ["77.4–\u206082.6"], "in one line"
