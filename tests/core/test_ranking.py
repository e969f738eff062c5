"""Tests of ranking: exactly k entries, equal to a stable sort, including ties."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.ranking import Best, _contenders, top, top_of_parts, top_of_two
from skillviz.errors import BadModel, BadSize
from tests.reference.searches import slow_top
from tests.refused import refused, refuses

values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, float("inf"), float("-inf")])


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.lists(values, min_size=1, max_size=30), st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=200)
    ),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.data(),
)
def test_equals_a_stable_sort(scores: list[float], dtype: torch.dtype, data: st.DataObject) -> None:
    given_scores, k = torch.tensor(scores).to(dtype), data.draw(st.integers(0, len(scores)))
    assert top(given_scores, k).tolist() == slow_top(given_scores.tolist(), k)


@pytest.mark.parametrize("n", [1, 2, 1000, 70_000])
@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_exact_counts_with_many_ties(n: int, levels: int) -> None:
    scores = torch.randint(levels, (n,), generator=torch.Generator().manual_seed(n)).float() / levels
    wanted = torch.sort(scores, descending=True, stable=True).indices
    for k in {0, 1, n // 3, n - 1, n}:
        chosen = top(scores, k)
        assert chosen.dtype == torch.long and torch.equal(chosen, wanted[:k])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), values), min_size=1, max_size=25), st.data())
def test_ties_of_one_score_are_broken_by_another(pairs: list[tuple[float, float]], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(pairs)))
    first, then = (torch.tensor(column) for column in zip(*pairs, strict=True))
    assert (
        top_of_two(first, then, k).tolist()
        == sorted(range(len(pairs)), key=lambda i: (-pairs[i][0], -pairs[i][1], i))[:k]
    )


@pytest.mark.parametrize("levels", [1, 2, 40, 10_000])
@pytest.mark.parametrize("k", [1, 100, 2500])
def test_of_many_scores_the_contenders_alone_are_ranked(levels: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes ties at the bound, and a sample's bound above the k-th of all."""
    draw = torch.Generator().manual_seed(levels + k)
    random = (torch.rand(40_000, generator=draw) * levels).floor()
    misleading = (torch.arange(40_000) % 64 == 0).float()  # the sample sees only values that are larger than nearly all
    then = torch.randint(3, (40_000,), generator=draw).float()

    def ranked(*scores: torch.Tensor) -> list[list[int]]:
        return [ranks.tolist() for s in scores for ranks in (top(s, k), top_of_two(s, then, k))]

    wanted = ranked(random, misleading)
    monkeypatch.setattr("skillviz.core.ranking.MANY", 20_000)
    assert (ranked(random, misleading), _contenders(random, k) is not None) == (wanted, levels >= 40)
    random[5001] = float("nan")  # an entry outside the sample
    for rank in (lambda: top(random, k), lambda: top_of_two(random, then, k)):
        refuses(BadModel, "not numbers", rank)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [0, 1, 17, 250, 499, 500])
def test_parts_are_ranked_as_a_whole_is(k: int, seed: int) -> None:
    scores = torch.randn(500, generator=torch.Generator().manual_seed(seed))
    scores = (scores * 4).round() / 4 if seed % 2 else scores
    scores[::50] = -0.0
    parts, best = scores.split([100, 1, 250, 149]), Best(k)
    index, values = top_of_parts(lambda: parts, 500, k)
    assert torch.equal(index, top(scores, k).sort().values) and torch.equal(values, scores[index])
    for begin, number in ((351, 3), (0, 0), (101, 2), (100, 1)):
        best.add(parts[number], begin)
    assert torch.equal(best.order(), top(scores, k))


test_impossible_counts_are_refused = refused(BadSize, *(("between 0 and 3", top, torch.zeros(3), k) for k in (-1, 4)))


NO_NUMBER = torch.tensor([1.0, float("nan"), 2.0])
test_a_score_that_is_no_number_is_refused_wherever_it_stands = refused(
    BadModel,
    ("not numbers", top_of_parts, lambda: [NO_NUMBER], 3, 2),
    ("not numbers", lambda: Best(1).add(NO_NUMBER, 0)),
    *(
        ("not numbers", rank, torch.arange(10.0).index_fill(0, torch.tensor(place), float("nan")), *rest, k)
        for place in (0, 5, 9)
        for k in (1, 9, 10)
        for rank, *rest in ((top,), (top_of_two, torch.zeros(10)))
    ),
)
