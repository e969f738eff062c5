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


@PROPERTY
@given(predictions(), st.integers(0, 1000))
def test_agreement_equals_its_slow_twin(drawn: tuple, seed: int) -> None:
    a = drawn[0]
    b = a + np.random.default_rng(seed).normal(size=a.shape) * a.std()
    assert agreement(a, b) == pytest.approx(slow.agreement(a, b), rel=1e-12)
    assert agreement(a, b) == agreement(b, a)
    assert agreement(a, a) == 1.0
    value, low, high = agreement_interval(a, b)[:3]
    assert value == agreement(a, b) and (low, high) == pytest.approx(wilson(value * len(a), len(a)), abs=1e-12)


@PROPERTY
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_mcnemar_equals_counting_every_fall_of_the_coins(right: list[tuple[bool, bool]]) -> None:
    a, b = (logits_of([0.9 if r[i] else 0.1 for r in right]) for i in (0, 1))
    labels = np.zeros(len(right), dtype=int)
    p, n01, n10 = mcnemar(a, b, labels)
    assert (n01, n10) == slow.discordant(a, b, labels)
    assert p == pytest.approx(slow.exact_p(n01, n10), rel=1e-12)
    assert mcnemar(b, a, labels) == (p, n10, n01)


def test_mcnemar_by_hand() -> None:
    labels = np.zeros(10, dtype=int)
    better, worse = logits_of([0.9] * 10), logits_of([0.1] * 5 + [0.9] * 5)
    assert mcnemar(worse, better, labels) == (2 / 2**5, 5, 0)
    assert mcnemar(better, better, labels) == (1.0, 0, 0)


def test_mcnemar_of_many_examples_stays_exact() -> None:
    n = 20_000
    labels, a = np.zeros(n, dtype=int), logits_of([0.9] * n)
    b = logits_of([0.1] * n)
    assert mcnemar(a, b, labels).p == 0.0  # 2^-19999 is below the smallest float
    half = np.arange(n) % 2 == 0
    p = mcnemar(np.where(half[:, None], a, b), np.where(half[:, None], b, a), labels).p
    assert p == 1.0


def test_bad_input() -> None:
    a = np.zeros((3, 2))
    with pytest.raises(BadInput, match=r"\(3, 2\) and \(2, 2\)"):
        agreement(a, a[:2])
    with pytest.raises(BadInput, match="no predictions"):
        agreement(a[:0], a[:0])
    with pytest.raises(BadInput, match="one label for each"):
        mcnemar(a, a[:2], [0, 0, 0])
