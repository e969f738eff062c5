"""What regions of several tasks share: by hand on regions of four entries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.region import Region
from skillviz.studies.family import family, relation
from skillviz.studies.overlaps import isolation_rows, overlap_rows
from skillviz.studies.tables import check

SHAPES = {"w": (10, 10)}


def region(*entries: int) -> Region:
    return Region.from_flat(np.array(entries), SHAPES)


REGIONS = {
    "film-sentiment": {0: region(0, 1, 2, 3), 1: region(0, 1, 2, 4)},
    "gadget-sentiment": {0: region(2, 3, 5, 6), 1: region(2, 3, 5, 7)},
    "news-inference": {0: region(20, 21), 1: region(20, 2)},
}


def table() -> pd.DataFrame:
    return check(pd.DataFrame(overlap_rows(REGIONS)), "overlap").set_index(["row", "column", "kind"])


def test_families_and_relations() -> None:
    assert family("sst2_sentences") == family("film-sentiment") == "sentiment"
    assert family("my_own") == "my_own"
    assert relation("qnli", "qnli") == "same" and relation("qnli", "mnli") == "related"
    assert relation("qqp", "ag_news") == "unrelated"


def test_overlap_is_asymmetric_and_over_all_pairs_of_seeds() -> None:
    found = table()
    # of news-inference's two entries: none, none; then one of two (entry 2) in both of film's regions
    assert found.loc[("film-sentiment", "news-inference", "overlap"), "value"] == pytest.approx(0.25)
    # of film's four: none, none, one, one
    assert found.loc[("news-inference", "film-sentiment", "overlap"), "value"] == pytest.approx(0.125)
    # film {0,1,2,3} with gadget: 2 and 2 of 4; {0,1,2,4}: 1 and 1 of 4
    row = found.loc[("film-sentiment", "gadget-sentiment", "overlap")]
    assert row["value"] == pytest.approx(0.375) and row["relation"] == "related" and row["seeds"] == 2
    assert row["low"] == 0.0 and row["high"] == 1.0, "0.375 +- 1.588 by t, and a share has ends"
    assert row["chance"] == pytest.approx(0.04)


def test_a_task_with_itself_is_told_between_seeds() -> None:
    found = table()
    assert found.loc[("film-sentiment", "film-sentiment", "overlap"), "value"] == pytest.approx(0.75)
    assert found.loc[("film-sentiment", "film-sentiment", "iou"), "value"] == pytest.approx(3 / 5)
    single = {task: {0: own[0]} for task, own in REGIONS.items()}
    alone = pd.DataFrame(overlap_rows(single)).set_index(["row", "column", "kind"])
    assert alone.loc[("film-sentiment", "film-sentiment", "iou"), "value"] == 1.0
    assert np.isnan(alone.loc[("film-sentiment", "film-sentiment", "iou"), "low"]), "one seed has no interval"


def test_related_less_unrelated_is_taken_within_each_seed() -> None:
    found = check(pd.DataFrame(isolation_rows(REGIONS)), "isolation").set_index(["kind", "relation"])
    related = found.loc[("overlap", "related"), "value"]
    unrelated = found.loc[("overlap", "unrelated"), "value"]
    gap = found.loc[("overlap", "related - unrelated")]
    assert gap["value"] == pytest.approx(related - unrelated) and gap["seeds"] == 2
    assert found.loc[("overlap", "related"), "pairs"] == 2 and found.loc[("overlap", "unrelated"), "pairs"] == 4


def test_without_related_tasks_there_is_no_difference() -> None:
    apart = {name: REGIONS[name] for name in ("film-sentiment", "news-inference")}
    assert "related" not in {row["relation"] for row in isolation_rows(apart)}
