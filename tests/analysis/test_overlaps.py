"""Tests of the overlap between regions of several tasks, computed by hand on small regions."""

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.overlaps import isolation, overlap
from skillviz.core.region import Region
from skillviz.core.stability import stability
from skillviz.tasks.readable_names import family, relation
from tests.core.by_hand import by_hand, near


def region(*entries: int) -> Region:
    return Region.from_flat(np.array(entries), {"w": (10, 10)})


REGIONS = {
    "mr": {0: region(0, 1, 2, 3), 1: region(0, 1, 2, 4)},
    "cr": {0: region(2, 3, 5, 6), 1: region(2, 3, 5, 7)},
    "snli": {0: region(20, 21), 1: region(20, 2)},
}


WITH_A_THIRD = {task: {**own, 2: region(30, 31, 32, 33)} for task, own in REGIONS.items()}


def by_pair(regions: dict[str, dict[int, Region]]) -> pd.DataFrame:
    return overlap(regions).set_index(["row_task", "column_task", "kind"])


def by_relation(regions: dict[str, dict[int, Region]]) -> pd.DataFrame:
    return isolation(regions).set_index(["kind", "relation"])


# The jackknife leaves out one region with all its pairs; there are three regions of ten entries.
THREE = {0: region(*range(10)), 1: region(*range(2, 12)), 2: region(*range(1, 7), 20, 21, 22, 23)}
OF_THREE = stability(list(THREE.values()))
SINGLE = {task: {0: own[0]} for task, own in REGIONS.items()}


FOUND = by_relation(REGIONS).loc["overlap", ["value", "seeds", "pairs"]]
RELATED, UNRELATED = FOUND.loc["related"], FOUND.loc["unrelated"]
UNEVEN = {**WITH_A_THIRD, "snli": {0: region(20, 21), 2: region(30, 20)}}
ALONE = by_pair({**REGIONS, "mr": {0: region(), 1: region()}})["value"]
test_by_hand = by_hand(
    ("sentences", "sentiment", family, "sst2_sentences"), ("reviews", "sentiment", family, "uci_yelp"),
    ("a task of its own", "my_own", family, "my_own"), ("a task and itself", "same", relation, "qnli", "qnli"),
    ("two of a family", "related", relation, "qnli", "mnli"),
    ("two families", "unrelated", relation, "qqp", "ag_news"),
    ("without related tasks there is no difference", {"same", "unrelated"},
     lambda: set(isolation({name: REGIONS[name] for name in ("mr", "snli")})["relation"])),
    ("a pair in the table", "related", lambda: by_pair(REGIONS)["relation"][("mr", "cr", "overlap")]),
    # Overlap is asymmetric and over all pairs of seeds.
    *((f"{kind} of {row} and {column}", near(wanted),
       lambda of=regions, at=(row, column, kind), wanted=wanted: by_pair(of).loc[at, list(wanted)].to_dict())
      for regions, (row, column, kind), wanted in [
        # The share of snli's two entries in mr: 0 and 0, then 1/2 and 1/2, because entry 2 is in both of mr's regions.
        (REGIONS, ("mr", "snli", "overlap"), {"value": 0.25}),
        # The share of mr's four entries in snli: 0, 0, 1/4 and 1/4.
        (REGIONS, ("snli", "mr", "overlap"), {"value": 0.125}),
        # mr's {0,1,2,3} shares 2 of 4 entries with each region of cr; {0,1,2,4} shares 1 of 4 with each.
        # The interval is 0.375 +- 1.588 by t, and a share has ends.
        (REGIONS, ("mr", "cr", "overlap"), {"value": 0.375, "seeds": 2, "chance": 0.04, "low": 0.0, "high": 1.0}),
        (REGIONS, ("mr", "mr", "overlap"), {"value": 0.75}),
        (REGIONS, ("mr", "mr", "iou"), {"value": 3 / 5}),
        # One seed has no interval.
        (SINGLE, ("mr", "mr", "iou"), {"value": 1.0, "low": np.nan}),
        ({"a": THREE}, ("a", "a", "iou"), {"value": OF_THREE.iou, "low": OF_THREE.low, "high": OF_THREE.high}),
    ]),
    ("related less unrelated is taken within each seed", (near(RELATED["value"] - UNRELATED["value"]), 2),
     lambda: tuple(FOUND.loc["related - unrelated", ["value", "seeds"]])),
    ("pairs of tasks", (2, 4), lambda: (RELATED["pairs"], UNRELATED["pairs"])),
    # One task lacks a seed: pairs of tasks keep all their regions, and summaries over tasks use seeds 0 and 2.
    ("pairs keep all seeds", [2, 3],
     lambda: by_pair(UNEVEN).loc[[("mr", "snli", "overlap"), ("mr", "cr", "overlap")], "seeds"].tolist()),
    ("summaries take the common seeds", True,
     isolation({task: {seed: own[seed] for seed in (0, 2)} for task, own in UNEVEN.items()}).equals, isolation(UNEVEN)),
    ("without a common seed there is no interval", (True, True),
     lambda rows: (rows["low"].isna().all(), rows["value"].notna().all()), isolation({
         "mr": REGIONS["mr"], "cr": {seed + 10: one for seed, one in REGIONS["cr"].items()},
         "snli": {20: REGIONS["snli"][0]}})),
    # A task with one region overlaps fully with itself on the map, but does not count as agreement between seeds.
    ("one region alone says nothing of other seeds", set(),
     lambda: {"same"} & set(isolation(SINGLE)["relation"])),
    ("an empty region overlaps fully with none", False, lambda: (ALONE == 1.0).any()),
    ("no share of an empty region", near(np.nan), lambda: ALONE[("cr", "mr", "overlap")]),
)  # fmt: skip


def test_the_interval_of_two_tasks_holds_the_luck_of_both() -> None:
    """Computed by hand: leave out each seed of one task, then of the other, and add the two jackknife variances."""
    a, b = ({seed: region(*range(s, s + 10)) for seed, s in enumerate(starts)} for starts in ((0, 3, 5), (4, 8, 2)))
    shared = np.array([[(one & two).size / 10 for two in b.values()] for one in a.values()])
    means = [[np.delete(values, i, axis=0).mean() for i in range(3)] for values in (shared, shared.T)]
    half = 4.3027 * np.sqrt(2 * np.var(means, axis=1).sum())
    found = by_pair({"a": a, "b": b})
    one, other = (found.loc[(*pair, "overlap"), ["value", "low", "high"]].tolist() for pair in ("ab", "ba"))
    assert one == pytest.approx([shared.mean(), shared.mean() - half, 1.0], rel=1e-4), "cut: a share is no larger"
    assert one[1:] == pytest.approx(other[1:]), "equal sizes, so symmetric"


@pytest.mark.nightly
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Use regions whose seeds share different amounts of a common core. A t-interval over the means of pairs held
    the truth in 64 of 100 studies of one task and in 88 of 100 of two tasks."""
    random, everything, keys = np.random.default_rng(0), np.arange(400), ["row_task", "column_task"]

    def drawn(core: np.ndarray) -> Region:
        share = float(np.clip(random.normal(0.5, 0.2), 0, 1))
        inside = random.choice(core, int(random.binomial(40, share)), replace=False)
        rest = random.choice(np.setdiff1d(everything, inside), 40 - len(inside), replace=False)
        return Region.from_flat(np.sort(np.concatenate([inside, rest])), {"w": (20, 20)})

    cores = {"a": everything[:60], "b": everything[20:80]}
    studies = ({task: {seed: drawn(core) for seed in range(3)} for task, core in cores.items()} for _ in range(150))
    rows = pd.concat([overlap(study).query("kind == 'iou'") for study in studies])
    truth = rows.groupby(keys)["value"].transform("mean")
    covered = ((rows["low"] <= truth) & (truth <= rows["high"])).groupby([rows[key] for key in keys]).mean()
    assert covered.min() > 0.88, covered


def test_a_mask_seed_is_left_out_in_all_tasks_at_once() -> None:
    """The interval of "related − unrelated" is made from the differences without each seed."""
    seeds = ({0, 1, 2}, {1, 2}, {0, 2}, {0, 1})
    row, *without = (
        by_relation({task: {seed: own[seed] for seed in kept} for task, own in WITH_A_THIRD.items()})
        .loc[("overlap", "related - unrelated")]
        for kept in seeds
    )  # fmt: skip
    half = 4.3027 * np.sqrt(2 * np.var([one["value"] for one in without]))
    assert (row["low"], row["high"]) == pytest.approx((row["value"] - half, row["value"] + half), rel=1e-4)
