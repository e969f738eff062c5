"""Tests of agreement and McNemar's test against their slow twins and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.agreement import agreement, agreement_interval, mcnemar
from skillviz.core.intervals import wilson
from skillviz.errors import BadInput
from tests.core.drawn_predictions import PROPERTY, logits_of, predictions
from tests.reference import agreement as slow
from tests.refused import refused


@PROPERTY
@given(predictions(), st.integers(0, 1000))
def test_agreement_equals_its_slow_twin(drawn: tuple, seed: int) -> None:
    a = drawn[0]
    b = a + np.random.default_rng(seed).normal(size=a.shape) * a.std()
    value, low, high = agreement_interval(a, b)[:3]
    assert value == agreement(a, b) == agreement(b, a) == pytest.approx(slow.agreement(a, b), rel=1e-12)
    assert (low, high) == pytest.approx(wilson(value * len(a), len(a)), abs=1e-12) and agreement(a, a) == 1.0


@PROPERTY
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_mcnemar_equals_counting_every_fall_of_the_coins(right: list[tuple[bool, bool]]) -> None:
    a, b = (logits_of([0.9 if r[i] else 0.1 for r in right]) for i in (0, 1))
    labels = np.zeros(len(right), dtype=int)
    p, n01, n10 = mcnemar(a, b, labels)
    assert (n01, n10) == slow.discordant(a, b, labels)
    assert p == pytest.approx(slow.exact_p(n01, n10), rel=1e-12)
    assert mcnemar(b, a, labels) == (p, n10, n01)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ("0000011111", "1111111111", (2 / 2**5, 5, 0)),
        ("1111111111", "1111111111", (1.0, 0, 0)),
        ("1" * 20_000, "0" * 20_000, (0.0, 0, 20_000)),  # 2^-19999 is below the smallest float
        ("10" * 10_000, "01" * 10_000, (1.0, 10_000, 10_000)),
    ],
    ids=["one better", "the same", "many, one better", "many, level"],
)
def test_mcnemar_by_hand(a: str, b: str, wanted: tuple[float, int, int]) -> None:
    both = (logits_of([0.9 if right == "1" else 0.1 for right in text]) for text in (a, b))
    assert mcnemar(*both, np.zeros(len(a), dtype=int)) == wanted


A = np.zeros((3, 2))
test_bad_input = refused(
    BadInput,
    (r"\(3, 2\) and \(2, 2\)", agreement, A, A[:2]),
    ("no predictions", agreement, A[:0], A[:0]),
    ("one label for each", mcnemar, A, A[:2], [0, 0, 0]),
)
