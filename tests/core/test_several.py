"""Unions, chance and the relative gain, by hand."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from skillviz.core.intervals import recovered_gain
from skillviz.core.region import Region
from skillviz.core.task_unions import (
    chance_intersection,
    chance_union,
    gain_interval,
    gain_lost,
    intersection,
    relative_gain,
    union,
    unions,
)
from skillviz.errors import BadData, BadInput

SHAPES = {"a": (4,), "b": (2, 3)}


def region(*flat: int) -> Region:
    return Region.from_flat(np.array(flat, dtype=np.int64), SHAPES)


REGIONS = {"sst2": region(0, 1, 5), "cr": region(1, 2), "qnli": region(1, 9)}


def test_unions_and_intersections_by_hand() -> None:
    assert union(REGIONS).flat().tolist() == [0, 1, 2, 5, 9]
    assert union(REGIONS, ["cr", "qnli"]).flat().tolist() == [1, 2, 9]
    assert union(REGIONS, ["cr"]) == REGIONS["cr"]
    assert intersection(REGIONS).flat().tolist() == [1]
    assert intersection({"x": region(0), "y": region(1)}).size == 0
    found = unions(REGIONS, [("sst2", "cr"), ("qnli",)])
    assert {name: r.flat().tolist() for name, r in found.items()} == {"sst2+cr": [0, 1, 2, 5], "qnli": [1, 9]}
    with pytest.raises(BadInput, match="no region named 'mnli'; there are: sst2, cr, qnli"):
        union(REGIONS, ["sst2", "mnli"])
    with pytest.raises(BadInput, match="at least one"):
        union(REGIONS, [])


def test_what_chance_covers_together() -> None:
    assert chance_union([5], 10) == 0.5
    assert chance_union([5, 5], 10) == 0.75 and chance_intersection([5, 5], 10) == 0.25
    assert chance_union([], 10) == 0 and chance_union([10, 1], 10) == 1 and chance_intersection([0, 10], 10) == 0
    rng = np.random.default_rng(0)
    sizes, d, drawn = (3, 4, 2), 12, []
    for _ in range(4000):
        drawn.append(len(set().union(*(rng.choice(d, s, replace=False).tolist() for s in sizes))) / d)
    assert chance_union(sizes, d) == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 4000**0.5)
    assert comb(12, 3) == 220
    with pytest.raises(BadInput, match="0..d"):
        chance_union([11], 10)


@pytest.mark.parametrize(
    ("grafted", "pretrained", "finetuned", "wanted"),
    [(0.7, 0.5, 0.9, 0.5), (0.5, 0.5, 0.9, 0.0), (0.9, 0.5, 0.9, 1.0), (0.4, 0.5, 0.9, -0.25), (1.0, 0.5, 0.9, 1.25)],
)
def test_relative_gain_by_hand(grafted: float, pretrained: float, finetuned: float, wanted: float) -> None:
    assert float(relative_gain(grafted, pretrained, finetuned)) == pytest.approx(wanted)


def test_without_a_gain_there_is_no_share_of_one() -> None:
    found = relative_gain([0.6, 0.6, 0.75], [0.5, 0.7, 0.5], [0.5, 0.6, 1.0])
    assert np.isnan(found[:2]).all() and found[2] == 0.5


def answers(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    return hard < 0.8, hard < 0.5, hard < 0.9  # nested: each model answers what a worse one does


def test_the_interval_is_paired_and_holds_the_value() -> None:
    grafted, pretrained, finetuned = answers()
    found = gain_interval(grafted, pretrained, finetuned, resamples=400)
    value = (grafted.mean() - pretrained.mean()) / (finetuned.mean() - pretrained.mean())
    assert found.value == pytest.approx(value) and found.low < value < found.high
    mixed = np.random.default_rng(1).permutation(len(grafted))
    apart = gain_interval(grafted[mixed], pretrained, finetuned, resamples=400)
    assert apart.value == pytest.approx(value)
    assert apart.high - apart.low > 1.2 * (found.high - found.low), "pairing is what makes it narrow"
    assert found == gain_interval(grafted, pretrained, finetuned, resamples=400)


def test_from_logits_it_is_the_recovered_gain() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=120)
    logits = [rng.normal(size=(120, 2)) + strength * np.eye(2)[labels] for strength in (1.0, 0.2, 2.0)]
    right = [z.argmax(1) == labels for z in logits]
    found = gain_interval(*right, resamples=200, seed=3)
    assert found == pytest.approx(recovered_gain(*logits, labels, resamples=200, seed=3))


def test_a_gain_that_hardly_is_one_says_so() -> None:
    right = np.arange(40) % 2 == 0
    better = right.copy()
    better[1] = True
    found = gain_interval(right, right, better, resamples=200)
    assert found.value == 0 and 0.2 < gain_lost(right, right, better, resamples=200) < 0.6
    none = gain_interval(right, better, right, resamples=50)
    assert np.isnan(none).all()
    assert gain_lost(*answers(), resamples=50) == 0


def test_only_answers_to_the_same_examples_are_taken() -> None:
    with pytest.raises(BadData, match="same examples"):
        gain_interval([1, 0], [1], [1, 1])
    with pytest.raises(BadData, match="same examples"):
        gain_interval([], [], [])
    with pytest.raises(BadData, match="1 where the model is right"):
        gain_interval([0.5, 1], [0, 1], [1, 1])
