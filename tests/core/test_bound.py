"""Tests of the variance term of the generalization bound: the paper's numbers, limits, and a slow twin."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.bound import Variance
from skillviz.errors import BadInput
from tests.core.by_hand import by_hand, near
from tests.reference import bound as twin

ROBERTA = Variance(5000, 85_054_464, 8192)
FIXED, FULL = replace(ROBERTA, is_fixed=True), replace(ROBERTA, size=ROBERTA.d)
ONE_BIT = Variance(0, 1, 1, bits=1, delta=2 / math.e)  # log(2 / delta) = 1


test_values = by_hand(
    ("learned", near(9.9, abs=0.05), lambda: ROBERTA.value),
    ("fixed", near(7.4, abs=0.05), lambda: FIXED.value),
    ("full", near(960, abs=1), lambda: FULL.value),
    ("full and fixed", True, lambda: FULL.value == replace(FULL, is_fixed=True).value),
    ("examples of 4 s log q", near(444_000, rel=2e-3), FIXED.examples_needed),
    ("empty region, one example", near(2.0), lambda: ONE_BIT.value),
    ("four examples are not enough", 5, ONE_BIT.examples_needed),
    ("the three alone", near(ROBERTA.value), lambda: math.hypot(*map(ROBERTA.alone, ROBERTA.nats))),
    ("no entry", 0, ONE_BIT.largest_size),
    ("never the full region", 9, replace(ONE_BIT, d=10, examples=10**6).largest_size),
    ("smaller level", True, lambda: ROBERTA.examples_needed(0.5) > 3.99 * ROBERTA.examples_needed()),
)


@pytest.mark.parametrize(
    "wrong", [{"size": -1}, {"size": ROBERTA.d + 1}, {"examples": 0}, {"bits": 0}, {"delta": 0.0}, {"delta": 1.0}]
)
def test_a_number_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="size is 0 to d"):
        replace(ROBERTA, **wrong)


SMALL = (st.integers(1, 12), st.integers(2, 12), st.sampled_from([1, 4, 16]), st.booleans(), st.floats(0.01, 0.5))


@given(*SMALL, st.integers(1, 2000))
def test_the_slow_twin_gives_the_same(size: int, d: int, bits: int, fixed: bool, delta: float, n: int) -> None:
    term = Variance(min(size, d), d, n, bits, fixed, delta)
    assert term.value == near(twin.variance(term.size, d, n, bits, fixed, delta), rel=1e-9)
    assert term.examples_needed() == twin.examples_needed(term.size, d, bits, fixed, delta)
    assert term.largest_size() == twin.largest_size(d, n, bits, fixed, delta)
    planted = 2 * math.sqrt(math.fsum([*term.nats.values(), math.log(0.5)]) / n)  # D.2's log(1 / delta)
    assert planted != near(term.value, rel=1e-6)


@given(*SMALL, st.integers(1, 2000))
def test_the_term_grows_with_size_and_falls_with_examples(
    size: int, d: int, bits: int, fixed: bool, delta: float, n: int
) -> None:
    term = Variance(min(size, d), d + 1, n, bits, fixed, delta)
    assert replace(term, size=term.size - 1).value < term.value > replace(term, examples=n + 1).value
    assert replace(term, is_fixed=True).value <= term.value < replace(term, bits=bits + 1).value
