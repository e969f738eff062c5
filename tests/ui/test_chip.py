"""Tests of a verdict's chip: its words are complete, and its sign and color only repeat them."""

import re
from typing import get_args

import pandas as pd
import pytest

from skillviz.core.verdicts import ClaimVerdict, DifferenceVerdict
from skillviz.ui.chip import SIGNS, chip_text, lead_words, verdict_line
from tests.refused import refuses
from tests.ui.driven import opened, said

NAN = float("nan")


def chips(line: str) -> str:
    """Return the line without the signs and colors of its chips."""
    return re.sub(r":\w+-badge\[:material/\w+: ([^]]+)\]", r"\1", line)


def test_every_verdict_has_a_chip_with_its_words_and_nothing_else_has_one() -> None:
    texts = {verdict: f":{colour}-badge[{icon} {verdict}]" for verdict, (colour, icon) in SIGNS.items()}
    kinds = get_args(DifferenceVerdict), get_args(ClaimVerdict)
    assert {verdict: chip_text(verdict) for kind in kinds for verdict in kind} == texts
    refuses(KeyError, None, chip_text, "undecided")


@pytest.mark.parametrize("kind", (DifferenceVerdict, ClaimVerdict))
def test_within_a_kind_neither_colour_nor_sign_is_used_twice(kind: object) -> None:
    assert [len({*part}) for part in zip(*(SIGNS[verdict] for verdict in get_args(kind)), strict=True)] == [4, 4]


def test_it_stands_behind_what_it_is_about() -> None:
    def script() -> None:
        from skillviz.ui.chip import chip

        chip("better", of="Calibration")
        chip("inconclusive")

    assert said(opened(script)).splitlines() == [f"Calibration {chip_text('better')}", chip_text("inconclusive")]


B, C = ("b", "ece", 0.02, -0.01, 0.05, 0.02, None), ("c", "ece", 0.01, -0.01, 0.05, 0.02, None)
BARE = [(name, "accuracy", 0.05 * (name < "c"), 0.001 - (name > "b"), 0.06, NAN, name == "a") for name in "abc"]


@pytest.mark.parametrize(
    ("metric", "rows", "line"),
    [
        ("ece", [("a", "ece", -0.05, -0.06, -0.01, -0.04, None), B, C, ("d", "accuracy", 0.3, 0.2, 0.4, None, None)],
         "ECE: **a** better −4.0 points (−6.0 to −1.0); **b** and **c** no clear difference"),
        ("ece", [B], "ECE: **b** no clear difference +2.0 points (−1.0 to 5.0)"),
        ("ece", [("a", "ece", NAN, None, None, None, None)], ""),
        ("ece", [("a", "ece", -0.5, NAN, NAN, NAN, None)], "ECE: **a** not measured −50.0 points (no interval)"),
        ("accuracy", BARE, "Accuracy: **a** better +5.0 points (0.1–6.0); **b** better† +5.0 points (0.1–6.0); "
                           "**c** no clear difference"),
        ("accuracy", [(name + again, *rest) for again in "01" for name, *rest in BARE],
         "Accuracy: **a0** and **a1** better; **b0** and **b1** better†; **c0** and **c1** no clear difference"),
        ("accuracy", [*((name, "accuracy", -0.2, -0.3, -0.1, None, None) for name in "abc"),
                      ("d", "accuracy", 0.2, 0.1, 0.3, None, None), ("e", "accuracy", 0.0, -0.1, 0.1, None, None)],
         "Accuracy: **d** better; **a**, **b** and **c** worse; **e** no clear difference"),
    ],
    ids=["each claim has its interval", "one", "no number", "no interval", "one does not hold", "two do not",
         "a chip a verdict"],
)  # fmt: skip
def test_a_line_has_every_claim_and_names_the_others(metric: str, rows: list[tuple], line: str) -> None:
    frame = pd.DataFrame(rows, columns=["name", "metric", "value", "low", "high", "debiased", "holds"])
    assert chips(verdict_line(frame if frame["holds"].notna().any() else frame.drop(columns="holds"), metric)) == line


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("a", "nll", -0.0021, -0.00423, -0.00031, None, None), "**a** better −0.0021 nats (95%: −0.0042 to −0.0003)"),
        (("a_b", "ece", -0.05, -0.06, -0.01, -0.04, None), r"**a\_b** better −4.0 points (95%: −6.0 to −1.0)"),
        (("a_b", "ece", -0.05, NAN, NAN, -0.04, None), r"**a\_b** not measured −5.0 points (no interval)"),
        (BARE[1], "**b** better† +5.0 points (95%: 0.1–6.0)"),
        (BARE[2], "**c** no clear difference 0.0 points (95%: −99.9 to 6.0)"),
    ],
    ids=["without zero", "debiased", "no interval", "does not hold", "no claim to hold"],
)
def test_a_headline_has_one_comparison_with_its_level_said(row: tuple, words: str) -> None:
    told = dict(zip(("name", "metric", "value", "low", "high", "debiased", "holds"), row, strict=True))
    held = told if row[-1] is not None else {name: value for name, value in told.items() if name != "holds"}
    assert chips(lead_words(held)) == words


def test_a_number_stands_with_its_interval_and_a_missing_one_without() -> None:
    def script() -> None:
        from skillviz.runs.record import Estimate
        from skillviz.ui import cards

        cards.estimate("accuracy", Estimate(value=0.801, low=0.774, high=0.826))
        cards.estimate("nll", Estimate(value=None))
        cards.estimate("ece", None)

    test = opened(script)
    shown = dict(zip((metric.label for metric in test.metric), said(test, "metric").splitlines(), strict=True))
    assert shown == {"Accuracy": "80.1%", "NLL": "n/a", "ECE": "n/a"}
    assert said(test, "caption") == "77.4–\u206082.6", "in one line"
