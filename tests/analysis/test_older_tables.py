"""Tables with older columns are read as today's: texts taken apart, estimates as they were, one interval each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.check_stored_tables import KEYS, Tally, compare, with_old_texts
from skillviz.analysis.older_tables import read_older
from skillviz.analysis.tables import TABLES
from tests.studies.fake_tables import FAKE_TABLES, TASKS

NEW = {
    "readout", "variant", "search_variant", "recipe_b", "variant_b", "row_task", "row_localizer", "column_task",
    "column_localizer", "region_tasks",
}  # fmt: skip


def older(name: str, **texts: str) -> pd.DataFrame:
    """A made-up table as it was stored, with these texts in its first row."""
    table = with_old_texts(FAKE_TABLES[name](TASKS, np.random.default_rng(0)), name)
    for column, text in texts.items():
        table.loc[0, column] = text
    gone = {*NEW, "training", "training_b", *({"size", "share"} if name in ("overlap", "histogram") else ())}
    return of_layout_3(table, name).drop(columns=[column for column in gone if column in table])


def of_layout_3(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table as it was stored with two intervals a mean, and none about a debiased value."""
    if name == "scores":
        table = table.assign(pooled_low=table["low"], pooled_high=table["high"], low=0.0, high=1.0)
    return table.drop(columns=[c for c in table if c.endswith("debiased") or c in ("chance_low", "chance_high")])


def test_the_interval_over_examples_and_seeds_stays_and_that_of_calibration_goes() -> None:
    scores = FAKE_TABLES["scores"](TASKS, np.random.default_rng(0))
    found = read_older(of_layout_3(scores, "scores"), "scores", 3)
    is_error = scores["metric"] == "ece"
    assert found.loc[is_error, ["low", "high", "debiased"]].isna().all(axis=None) and is_error.any()
    ends = ["low", "high"]
    pd.testing.assert_frame_equal(found.loc[~is_error, ends], scores.loc[~is_error, ends])
    rows = FAKE_TABLES["differences"](TASKS, np.random.default_rng(0))
    older_rows = of_layout_3(rows, "differences").assign(over=["seeds", *rows["over"][1:]])
    found = read_older(older_rows, "differences", 3)
    assert found["low"].isna().tolist() == [True, *(rows["metric"] == "ece")[1:]] and found["over"][0] == ""
    needed = FAKE_TABLES["recovered"](TASKS, np.random.default_rng(0))
    found = read_older(of_layout_3(needed, "recovered"), "recovered", 3)
    assert found.filter(regex="_(low|high|debiased)$").isna().all(axis=None)
    assert found["ece_less_ft"].equals(needed["ece_less_ft"])


def test_a_level_of_chance_that_is_not_matched_per_tensor_is_blank() -> None:
    """Up to layout 3 all are those of random entries of the whole model; in layout 4 those of their size's share."""
    stored = FAKE_TABLES["stability"](TASKS, np.random.default_rng(0)).drop(columns=["chance_low", "chance_high"])
    assert read_older(stored, "stability", 3)["chance"].isna().all()
    even = stored["share"] / (2 - stored["share"])
    mixed = stored.assign(chance=even.where(stored.index % 2 == 0, 3 * even))
    found = read_older(mixed, "stability", 4)
    assert found["chance"].isna().tolist() == (stored.index % 2 == 0).tolist()
    assert found.loc[found["chance"].notna(), "chance"].equals(mixed["chance"][1::2])
    assert found[["chance_low", "chance_high"]].isna().all(axis=None) and found["low"].equals(stored["low"])


@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_what_it_was(name: str) -> None:
    tally = Tally()
    compare(older(name), read_older(older(name), name, 2), name, name, tally)
    assert tally.faults == [] and tally.counts[name]["rows"] > 0


@pytest.mark.parametrize("name", sorted(set(KEYS) - {"note"}))
def test_a_changed_number_is_a_fault(name: str) -> None:
    """In the last bit, in one place."""
    changed, tally = read_older(older(name), name, 2), Tally()
    column = next(c for c in ("value", "mean", "iou", "count", "selected") if c in changed)
    changed[column] = changed[column].astype(float)
    changed.loc[len(changed) - 1, column] = np.nextafter(changed.loc[len(changed) - 1, column], np.inf)
    compare(older(name), changed, name, name, tally)
    assert len(tally.faults) == 1 and column in tally.faults[0]
    fewer = Tally()
    compare(older(name), changed.iloc[:-1], name, name, fewer)
    assert "1 rows are gone" in fewer.faults[0]


def test_what_stood_in_one_text_has_columns() -> None:
    texts = {"recipe": "lora, rank 8, 50 steps", "setting": "256-shot, head", "localizer": "learned lr=0.1 bias=5"}
    row = read_older(older("scores", **texts, id_task="a+b"), "scores", 2).iloc[0]
    assert (row["recipe"], row["variant"]) == ("lora", "rank 8, 50 steps")
    assert (row["setting"], row["readout"], row["id_task"]) == ("256-shot", "head", "a + b")
    assert (row["localizer"], row["search_variant"]) == ("learned", "lr=0.1 bias=5")
    purified = read_older(older("scores", localizer="stagewise, purified"), "scores", 2).iloc[0]
    assert (purified["localizer"], purified["search_variant"]) == ("stagewise", "purified")
    row = read_older(older("differences", recipe="lora, rank 1 less sgd, 1 step"), "differences", 2).iloc[0]
    assert [row[c] for c in ("recipe", "variant", "recipe_b", "variant_b")] == ["lora", "rank 1", "sgd", "1 step"]
    row = read_older(older("gain", of="a+b"), "gain", 2).iloc[0]
    assert row["region_tasks"] == ("a", "b")
    row = read_older(older("composition", localizer="learned, 25 steps"), "composition", 2).iloc[0]
    assert (row["localizer"], row["variant"]) == ("learned", "25 steps")


@pytest.mark.parametrize(("text", "size", "share"), [("0.1%", np.nan, 0.001), ("10646", 10646, np.nan)])
def test_regions_of_localizers_have_a_size(text: str, size: float, share: float) -> None:
    frame = older("overlap").assign(row=f"a b stagewise {text}", column=f"a b random {text}").iloc[:1]
    row = read_older(frame, "overlap", 2).iloc[0]
    assert (row["row_task"], row["row_localizer"], row["column_localizer"]) == ("a b", "stagewise", "random")
    assert (row["size"], row["share"]) == pytest.approx((size, share), nan_ok=True)
    table = older("histogram").assign(state=f"grafted {text}")
    row = read_older(table, "histogram", 2).iloc[0]
    assert row["state"] == "grafted" and (row["size"], row["share"]) == pytest.approx((size, share), nan_ok=True)
