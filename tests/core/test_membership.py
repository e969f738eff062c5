"""Membership inference by loss: analytic cases, a slow twin, and refusals."""

import numpy as np
import pytest

from skillviz.core.membership import membership_auc
from skillviz.errors import BadData
from tests.reference.membership import auc
from tests.refused import refused


def test_losses_that_do_not_overlap_reveal_everything_and_equal_ones_nothing() -> None:
    for members, unseen, value in (
        ([0.1, 0.2], [0.3, 0.4], 1.0),
        ([0.3, 0.4], [0.1, 0.2], 0.0),
        ([0.3] * 2, [0.3] * 2, 0.5),
    ):
        for times in (1, 50):
            found = membership_auc(members * times, unseen * times)
            assert found.value == value and (found.low == 0.5 if value == 0.5 and times > 1 else np.isnan(found.low))


@pytest.mark.parametrize("seed", range(4))
def test_it_is_its_slow_twin_with_ties(seed: int) -> None:
    random = np.random.default_rng(seed)
    members, unseen = random.integers(0, 6, 57) / 4, random.integers(2, 8, 63) / 4
    value, half = auc(members.tolist(), unseen.tolist())
    found = membership_auc(members, unseen)
    assert found[:3] == pytest.approx((value, max(0.0, value - half), min(1.0, value + half)))
    assert membership_auc(unseen, members).value != pytest.approx(value), "the sides are not swapped"


test_too_few_or_undefined_losses_are_refused = refused(
    BadData,
    ("got 1 and 3", membership_auc, [0.1], [1.0, 2.0, 3.0]),
    ("finite", membership_auc, [0.1, np.nan], [1.0, 2.0]),
)
