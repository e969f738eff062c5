"""Tests of a verdict's chip: its words are complete, and its sign and color only repeat them."""

from __future__ import annotations

import re
from typing import get_args

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.core.verdicts import ClaimVerdict, DifferenceVerdict
from skillviz.ui.chip import SIGNS, chip_text, lead_words, verdict_line


def chips(line: str) -> str:
    """Return the line without the signs and colors of its chips."""
    return re.sub(r":\w+-badge\[:material/\w+: ([^]]+)\]", r"\1", line)


def test_every_verdict_has_a_chip_with_its_words() -> None:
    assert {*SIGNS} == {*get_args(DifferenceVerdict), *get_args(ClaimVerdict)}
    for verdict, (colour, icon) in SIGNS.items():
        assert chip_text(verdict) == f":{colour}-badge[{icon} {verdict}]"


@pytest.mark.parametrize("kind", (DifferenceVerdict, ClaimVerdict))
def test_within_a_kind_neither_colour_nor_sign_is_used_twice(kind: object) -> None:
    for part in zip(*(SIGNS[verdict] for verdict in get_args(kind)), strict=True):
        assert len(set(part)) == 4


def test_anything_else_has_none() -> None:
    with pytest.raises(KeyError):
        chip_text("undecided")  # type: ignore[arg-type]


def test_it_stands_behind_what_it_is_about() -> None:
    def script() -> None:
        from skillviz.ui.chip import chip

        chip("better", of="Calibration")
        chip("inconclusive")

    test = AppTest.from_function(script, default_timeout=60).run()
    assert [m.value for m in test.markdown] == [f"Calibration {chip_text('better')}", chip_text("inconclusive")]


def compared(*rows: tuple, metric: str = "ece") -> str:
    frame = pd.DataFrame(rows, columns=["name", "metric", "value", "low", "high", "debiased"])
    return chips(verdict_line(frame, metric))


def test_a_line_has_the_interval_of_every_claim_and_names_the_others() -> None:
    rows = [("a", "ece", -0.05, -0.06, -0.01, -0.04), ("b", "ece", 0.02, -0.01, 0.05, 0.02)]
    assert compared(*rows, ("c", "ece", 0.01, -0.01, 0.05, 0.02), ("d", "accuracy", 0.3, 0.2, 0.4, None)) == (
        "ECE: **a** better −4.0 points (−6.0 to −1.0); **b** and **c** no clear difference"
    )
    assert compared(*rows[1:]) == "ECE: **b** no clear difference +2.0 points (−1.0 to 5.0)"
    assert compared(("a", "ece", float("nan"), None, None, None)) == ""


def test_a_verdict_that_does_not_hold_among_several_is_marked() -> None:
    rows = [("a", 0.05, 0.001, 0.06, True), ("b", 0.05, 0.001, 0.06, False), ("c", 0.0, -0.1, 0.1, False)]
    frame = pd.DataFrame(rows, columns=["name", "value", "low", "high", "holds"])
    frame = frame.assign(metric="accuracy", debiased=float("nan"))
    assert chips(verdict_line(frame, "accuracy")) == (
        "Accuracy: **a** better +5.0 points (0.1–6.0); **b** better† +5.0 points (0.1–6.0); **c** no clear difference"
    )
    more = pd.concat([frame.assign(name=frame["name"] + str(n)) for n in range(2)])
    assert chips(verdict_line(more, "accuracy")) == (
        "Accuracy: **a0** and **a1** better; **b0** and **b1** better†; **c0** and **c1** no clear difference"
    )
    lead = chips(lead_words(frame.to_dict("records")[1]))
    assert lead.startswith("**b** better† ") and "†" not in lead_words(frame.to_dict("records")[2])


def test_an_interval_without_zero_is_not_written_as_if_it_held_it() -> None:
    row = {"name": "a", "metric": "nll", "value": -0.0021, "low": -0.00423, "high": -0.00031, "debiased": None}
    assert chips(lead_words(row)) == "**a** better −0.0021 nats (95%: −0.0042 to −0.0003)"


def test_a_headline_has_one_comparison_with_its_level_said() -> None:
    row = {"name": "a_b", "metric": "ece", "value": -0.05, "low": -0.06, "high": -0.01, "debiased": -0.04}
    assert chips(lead_words(row)) == r"**a\_b** better −4.0 points (95%: −6.0 to −1.0)"
    open_ = {**row, "low": float("nan"), "high": float("nan")}
    assert chips(lead_words(open_)) == r"**a\_b** not measured −5.0 points (no interval)"


def test_many_claims_share_a_chip_a_verdict() -> None:
    worse = [(name, "accuracy", -0.2, -0.3, -0.1, None) for name in ("a", "b", "c")]
    better, open_ = ("d", "accuracy", 0.2, 0.1, 0.3, None), ("e", "accuracy", 0.0, -0.1, 0.1, None)
    assert compared(*worse, better, open_, metric="accuracy") == (
        "Accuracy: **d** better; **a**, **b** and **c** worse; **e** no clear difference"
    )


def test_a_difference_without_an_interval_claims_nothing() -> None:
    assert "better" not in compared(("a", "ece", -0.5, float("nan"), float("nan"), float("nan")))


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
