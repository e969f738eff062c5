"""Tests of the overlap between regions of several tasks, computed by hand on small regions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.overlaps import isolation, overlap
from skillviz.core.region import Region
from skillviz.core.stability import stability
from skillviz.tasks.family import family, relation

SHAPES = {"w": (10, 10)}


def region(*entries: int) -> Region:
    return Region.from_flat(np.array(entries), SHAPES)


REGIONS = {
    "mr": {0: region(0, 1, 2, 3), 1: region(0, 1, 2, 4)},
    "cr": {0: region(2, 3, 5, 6), 1: region(2, 3, 5, 7)},
    "snli": {0: region(20, 21), 1: region(20, 2)},
}


def table() -> pd.DataFrame:
    return overlap(REGIONS).set_index(["row_task", "column_task", "kind"])


def test_families_and_relations() -> None:
    assert family("sst2_sentences") == family("uci_yelp") == "sentiment"
    assert family("my_own") == "my_own"
    assert relation("qnli", "qnli") == "same" and relation("qnli", "mnli") == "related"
    assert relation("qqp", "ag_news") == "unrelated"


def test_overlap_is_asymmetric_and_over_all_pairs_of_seeds() -> None:
    found = table()
    # The share of snli's two entries in mr: 0 and 0, then 1/2 and 1/2, because entry 2 is in both of mr's regions.
    assert found.loc[("mr", "snli", "overlap"), "value"] == pytest.approx(0.25)
    # The share of mr's four entries in snli: 0, 0, 1/4 and 1/4.
    assert found.loc[("snli", "mr", "overlap"), "value"] == pytest.approx(0.125)
    # mr's {0,1,2,3} shares 2 of 4 entries with each region of cr; {0,1,2,4} shares 1 of 4 with each.
    row = found.loc[("mr", "cr", "overlap")]
    assert row["value"] == pytest.approx(0.375) and row["relation"] == "related" and row["seeds"] == 2
    assert row["low"] == 0.0 and row["high"] == 1.0, "0.375 +- 1.588 by t, and a share has ends"
    assert row["chance"] == pytest.approx(0.04)


def test_a_task_with_itself_is_told_between_seeds() -> None:
    found = table()
    assert found.loc[("mr", "mr", "overlap"), "value"] == pytest.approx(0.75)
    assert found.loc[("mr", "mr", "iou"), "value"] == pytest.approx(3 / 5)
    single = {task: {0: own[0]} for task, own in REGIONS.items()}
    alone = overlap(single).set_index(["row_task", "column_task", "kind"])
    assert alone.loc[("mr", "mr", "iou"), "value"] == 1.0
    assert np.isnan(alone.loc[("mr", "mr", "iou"), "low"]), "one seed has no interval"


def test_related_less_unrelated_is_taken_within_each_seed() -> None:
    found = isolation(REGIONS).set_index(["kind", "relation"])
    related = found.loc[("overlap", "related"), "value"]
    unrelated = found.loc[("overlap", "unrelated"), "value"]
    gap = found.loc[("overlap", "related - unrelated")]
    assert gap["value"] == pytest.approx(related - unrelated) and gap["seeds"] == 2
    assert found.loc[("overlap", "related"), "pairs"] == 2 and found.loc[("overlap", "unrelated"), "pairs"] == 4


def test_without_related_tasks_there_is_no_difference() -> None:
    apart = {name: REGIONS[name] for name in ("mr", "snli")}
    assert "related" not in set(isolation(apart)["relation"])


def test_the_interval_within_a_task_is_that_of_its_stability() -> None:
    """The jackknife leaves out one region with all its pairs; there are three regions of ten entries."""
    own = {0: region(*range(10)), 1: region(*range(2, 12)), 2: region(*range(1, 7), 20, 21, 22, 23)}
    found = overlap({"a": own}).set_index("kind").loc["iou"]
    by_hand = stability(list(own.values()))
    assert tuple(found[["value", "low", "high"]]) == pytest.approx((by_hand.iou, by_hand.low, by_hand.high))


def test_the_interval_of_two_tasks_holds_the_luck_of_both() -> None:
    """Computed by hand: leave out each seed of one task, then of the other, and add the two jackknife variances."""
    a = {0: region(*range(10)), 1: region(*range(3, 13)), 2: region(*range(5, 15))}
    b = {0: region(*range(4, 14)), 1: region(*range(8, 18)), 2: region(*range(2, 12))}
    shared = np.array([[len(set(one.flat()) & set(two.flat())) / 10 for two in b.values()] for one in a.values()])
    variance = 0.0
    for values in (shared, shared.T):
        without = np.array([np.delete(values, i, axis=0).mean() for i in range(3)])
        variance += 2 / 3 * ((without - without.mean()) ** 2).sum()
    found = overlap({"a": a, "b": b}).set_index(["row_task", "column_task", "kind"])
    one, other = (found.loc[(*pair, "overlap")] for pair in (("a", "b"), ("b", "a")))
    assert one["value"] == pytest.approx(shared.mean())
    assert one["value"] - one["low"] == pytest.approx(4.3027 * np.sqrt(variance), rel=1e-4)
    assert one["high"] == 1.0, "cut: a share is no larger"
    assert (one["low"], one["high"]) == pytest.approx((other["low"], other["high"])), "equal sizes, so symmetric"


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Use regions whose seeds share different amounts of a common core. A t-interval over the means of pairs held
    the truth in 64 of 100 studies of one task and in 88 of 100 of two tasks."""
    random, held, everything = np.random.default_rng(0), [], np.arange(400)

    def drawn(core: np.ndarray) -> Region:
        share = float(np.clip(random.normal(0.5, 0.2), 0, 1))
        inside = random.choice(core, int(random.binomial(40, share)), replace=False)
        rest = random.choice(np.setdiff1d(everything, inside), 40 - len(inside), replace=False)
        return Region.from_flat(np.sort(np.concatenate([inside, rest])), {"w": (20, 20)})

    for _ in range(150):
        study = {
            task: {seed: drawn(core) for seed in range(3)}
            for task, core in (("a", everything[:60]), ("b", everything[20:80]))
        }
        found = overlap(study)
        held.append(found[found["kind"] == "iou"][["row_task", "column_task", "value", "low", "high"]])
    rows = pd.concat(held)
    truth = rows.groupby(["row_task", "column_task"])["value"].transform("mean")
    covered = ((rows["low"] <= truth) & (truth <= rows["high"])).groupby([rows["row_task"], rows["column_task"]]).mean()
    assert covered.min() > 0.88, covered


def test_a_mask_seed_is_left_out_in_all_tasks_at_once() -> None:
    """The interval of "related − unrelated" is made from the differences without each seed."""
    rows = isolation({task: {**own, 2: region(*(30 + i for i in range(4)))} for task, own in REGIONS.items()})
    own = {task: {**regions, 2: region(*(30 + i for i in range(4)))} for task, regions in REGIONS.items()}
    gaps = []
    for left in range(3):
        kept = {task: {seed: one for seed, one in regions.items() if seed != left} for task, regions in own.items()}
        found = isolation(kept).set_index(["kind", "relation"])["value"]
        gaps.append(found["overlap", "related"] - found["overlap", "unrelated"])
    half = 4.3027 * np.sqrt(2 / 3 * ((np.array(gaps) - np.mean(gaps)) ** 2).sum())
    row = rows.set_index(["kind", "relation"]).loc[("overlap", "related - unrelated")]
    assert (row["low"], row["high"]) == pytest.approx((row["value"] - half, row["value"] + half), rel=1e-4)


def test_of_seeds_that_not_every_task_has_the_common_ones_are_taken() -> None:
    """One task lacks a seed: pairs of tasks keep all their regions, and summaries over tasks use seeds 0 and 2."""
    three = {task: {**own, 2: region(*(30 + i for i in range(4)))} for task, own in REGIONS.items()}
    uneven = {**three, "snli": {0: region(20, 21), 2: region(30, 20)}}
    even = {task: {0: own[0], 2: own[2]} for task, own in uneven.items()}
    rows, wanted = (isolation(one) for one in (uneven, even))
    pd.testing.assert_frame_equal(rows, wanted)
    pairs = overlap(uneven).set_index(["row_task", "column_task", "kind"])
    assert pairs.loc[("mr", "snli", "overlap"), "seeds"] == 2
    assert pairs.loc[("mr", "cr", "overlap"), "seeds"] == 3


def test_without_a_common_seed_there_is_no_interval() -> None:
    apart = {
        task: {seed + 10 * place: one for seed, one in own.items()} for place, (task, own) in enumerate(REGIONS.items())
    }
    apart["snli"].pop(21)
    rows = isolation(apart).set_index(["kind", "relation"])
    assert rows["low"].isna().all() and rows["value"].notna().all()


def test_one_region_alone_says_nothing_of_other_seeds() -> None:
    """A task with one region overlaps fully with itself on the map, but does not count as agreement between seeds."""
    single = {task: {0: own[0]} for task, own in REGIONS.items()}
    assert "same" not in set(isolation(single)["relation"])
    empty = {**REGIONS, "mr": {0: region(), 1: region()}}
    found = overlap(empty).set_index(["row_task", "column_task", "kind"])["value"]
    assert not (found == 1.0).any() and np.isnan(found[("cr", "mr", "overlap")])
