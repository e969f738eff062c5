"""Tests that every search that chooses by movement leaves out the excluded entries, or says that it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.problem import Problem
from skillviz.errors import BadSize
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import tiny_problem


def kept_out(problem: Problem, outside: np.ndarray) -> Problem:
    tuned = problem.finetuned.clone()
    tuned[outside] = problem.base[outside]
    return Problem(problem.flat, problem.base, tuned, problem.train, problem.train, outside=outside)


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize("name", [name for name, row in LOCALIZERS.items() if row.has_null])
def test_no_search_that_chooses_by_movement_enters_the_region_that_it_is_kept_out_of(name: str) -> None:
    problem, size = tiny_problem(n=10), 60
    outside = np.sort(finish(start(name, kept_out(problem, np.empty(0, dtype=np.int64)), size))[1].order)
    order = finish(start(name, kept_out(problem, outside), size))[1].order
    assert not np.isin(order, outside).any()
    assert len(order) == size or not LOCALIZERS[name].budgeted


def test_a_search_that_would_have_to_enter_it_is_refused() -> None:
    problem = tiny_problem(n=10)
    narrow, last = kept_out(problem, np.arange(problem.d - 20)), range(problem.d - 20, problem.d)
    with pytest.raises(BadSize, match=r"10 of the 30 chosen entries .* choose a smaller size"):
        finish(start("movement", narrow, 30))
    assert set(finish(start("movement", narrow, 20))[1].order) == set(last)
