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
    problem = tiny_problem(n=10)
    size = 60
    _, first = finish(start(name, kept_out(problem, np.empty(0, dtype=np.int64)), size))
    outside = np.sort(first.order)
    _, second = finish(start(name, kept_out(problem, outside), size))
    assert not np.isin(second.order, outside).any()
    assert len(second.order) == size or not LOCALIZERS[name].budgeted


def test_a_search_that_would_have_to_enter_it_is_refused() -> None:
    problem = tiny_problem(n=10)
    outside = np.arange(problem.d - 20)
    with pytest.raises(BadSize, match=r"10 of the 30 chosen entries lie in the region .* choose a smaller size"):
        finish(start("movement", kept_out(problem, outside), 30))
    _, found = finish(start("movement", kept_out(problem, outside), 20))
    assert set(found.order) == set(range(problem.d - 20, problem.d))
