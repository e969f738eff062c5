"""A verdict's chip says its words; sign and colour repeat them."""

from __future__ import annotations

from typing import get_args

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.core.verdicts import ClaimVerdict, DifferenceVerdict
from skillviz.ui.chip import SIGNS, chip_text


def test_every_verdict_has_a_chip_with_its_words() -> None:
    assert [*SIGNS] == [*get_args(DifferenceVerdict), *get_args(ClaimVerdict)]
    for verdict, (colour, icon) in SIGNS.items():
        assert chip_text(verdict) == f":{colour}-badge[{icon} {verdict}]"


@pytest.mark.parametrize("kind", (DifferenceVerdict, ClaimVerdict))
def test_within_a_kind_neither_colour_nor_sign_is_used_twice(kind: object) -> None:
    for part in zip(*(SIGNS[verdict] for verdict in get_args(kind)), strict=True):
        assert len(set(part)) == 3


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
