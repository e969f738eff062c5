"""Tests of recovery and necessity: the sizes at which each crosses one half, and the curves they are read from."""

import re
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.analysis.necessity import (
    HALF,
    MOST,
    GainSize,
    areas,
    gain_size,
    given_and_cost,
    restored_and_left,
    study_areas,
    without_region,
)
from skillviz.analysis.size_curve import by_size
from skillviz.core.intervals import recovered_gain
from skillviz.core.seeds_interval import mean_of_intervals
from skillviz.runs.store import Store
from skillviz.show.sparsity import necessity, necessity_finding
from tests.fake_run import fake_run
from tests.plots.frames import rows

SHARES, ENDS = (0.0001, 0.001, 0.01, 0.1), ("mean", "low", "high")
BOTH = "examples and seeds"


def curve(values: tuple[float, ...], half: float = 0.1, seed: int = 0, **more: object) -> pd.DataFrame:
    """Return a curve.parquet of `recovered`: one row for each share, with intervals of `half` on either side."""
    rows = [
        {"localizer": "stagewise", "seed": seed, "size": round(1e6 * share), "share": share, "dataset": "d",
         "split": "test", "metric": "recovered", "value": v, "low": v - half, "high": v + half, **more}
        for share, v in zip(SHARES, values, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def crossing(values: tuple[float, ...], half: float = 0.1, level: float = HALF) -> GainSize:
    """Return the size at which a curve of grafts reaches the level."""
    return gain_size(restored_and_left(curve(values, half), pd.DataFrame()), "grafted", level)


BY_HAND = restored_and_left(curve((0.1, 0.4, 0.8, 1.0)), curve((1.0, 0.9, 0.7, 0.1)))
RESTORED, LOST = gain_size(BY_HAND, "grafted"), gain_size(BY_HAND, "complement")
NEVER, ALWAYS = crossing((0.0, 0.1, 0.2, 0.3)), crossing((0.9, 0.9, 0.9, 0.9))
NOUGHT, ENDLESS = (GainSize(end, 0.0, inf, 0.001, 0.1) for end in (0.0, inf))


def test_the_sizes_of_a_curve_worked_by_hand() -> None:
    """A quarter of the decade from 0.4 to 0.8; the share lost is 0.3 at 1% and 0.9 at 10%."""
    ends = [[found.share, found.low, found.high] for found in (RESTORED, LOST)]
    powers = np.array([[-3 + 1 / 4, -3, -3 + 1 / 2], [-2 + 1 / 3, -2 + 1 / 6, -2 + 1 / 2]])
    np.testing.assert_allclose(ends, 10**powers, rtol=1e-6)
    assert [(one.share, one.is_crossed) for one in (NEVER, ALWAYS)] == [(inf, False), (0.0, False)]
    assert gain_size(restored_and_left(curve((0.1, 0.2, 0.3, 0.9))[:1], pd.DataFrame()), "grafted") is None


@pytest.mark.parametrize(
    ("restored", "lost", "words"),
    [
        (RESTORED, LOST, r"^Grafting \*\*0.18.*Removal takes more"), (LOST, RESTORED, "Removal takes fewer"),
        (RESTORED, RESTORED, "No clear difference"), (NOUGHT, NOUGHT, "not compared"),
        (ENDLESS, ENDLESS, "not compared"),
        (NOUGHT, RESTORED, "No clear difference"), (ENDLESS, RESTORED, "No clear difference"),
        (NEVER, None, r"\*\*more than 10"), (ALWAYS, None, r"\*\*at most 0.01"), (None, None, "One size is stored"),
    ],
)  # fmt: skip
def test_a_finding_compares_what_restores_with_what_is_lost(
    restored: GainSize | None, lost: GainSize | None, words: str
) -> None:
    assert re.search(words, necessity_finding(restored, lost))


@pytest.mark.nightly
@pytest.mark.parametrize("level", [HALF, MOST])
@given(st.lists(st.floats(-0.5, 1.5), min_size=4, max_size=4), st.floats(0, 0.4))
def test_the_crossing_is_where_a_fine_grid_sees_it(level: float, values: list[float], half: float) -> None:
    found, grid = crossing(tuple(values), half, level), np.linspace(np.log(SHARES[0]), np.log(SHARES[-1]), 3001)
    for share, shift in ((found.share, 0.0), (found.low, half), (found.high, -half)):
        reached = np.interp(grid, np.log(SHARES), np.array(values) + shift) >= level
        wanted = inf if not reached.any() else 0.0 if reached[0] else float(np.exp(grid[reached.argmax()]))
        nearly = {wanted, share} & {0.0, inf} and abs(max(values) + shift - level) < 1e-6
        assert share == pytest.approx(wanted, rel=0.005) or nearly
    assert found.low <= found.share <= found.high


def test_seeds_are_put_together_and_missing_gains_left_out() -> None:
    seeds = pd.concat([curve((0.1, 0.4, 0.8, 1.0), seed=0), curve((0.2, 0.6, 0.8, np.nan), seed=1)])
    np.testing.assert_allclose(
        restored_and_left(seeds, pd.DataFrame())[["value", "seeds"]].to_numpy(),
        [[0.15, 2], [0.5, 2], [0.8, 2], [1.0, 1]],
    )


def test_areas_are_over_the_sizes_in_common_and_as_wide_as_errors_that_agree_allow() -> None:
    points = given_and_cost(restored_and_left(curve((0.1, 0.4, 0.8, 1.0)), curve((1.0, 0.9, 0.7, 0.1), 0.05)))
    short = curve((0.0, 0.2, 0.6, 0.0))[1:3]
    found = areas({**points, "short": short, "one": short[:1]})
    np.testing.assert_allclose(
        found.loc[["given", "cost"], ["value", "low", "high"]], [[0.6, 0.5, 0.7], [0.2, 0.15, 0.25]]
    )  # sizes 0.1% to 1%
    assert (found["smallest"].unique(), found["largest"].unique()) == (SHARES[1], SHARES[2])
    assert np.isnan(found.loc["one", "value"]) and found["sizes"].tolist() == [4, 4, 2, 1]
    assert areas({"given": points["given"]}).loc["given", "value"] == pytest.approx((0.25 + 0.6 + 0.9) / 3)
    assert areas({"low": curve((0.1, 0.2, 0, 0))[:2], "high": curve((0, 0, 0.1, 0.2))[2:]})["value"].isna().all(), (
        "no size in common"
    )
    # Independent errors: the joint interval contains the mean in 95% of draws.
    drawn, half = np.random.default_rng(0).normal(0, 0.1, (200, 4)), 1.96 * 0.1
    assert np.mean([abs(areas({0: curve(tuple(errors), half)})["value"][0]) <= half for errors in drawn]) >= 0.95


def test_a_studys_areas_are_of_its_own_metric_and_of_both_states() -> None:
    common = {"base": "b", "id_task": "d", "task": "d", "setting": "all", "readout": "", "recipe": "sgd",
              "variant": "", "search_variant": "", "localizer": "stagewise", "split": "test"}  # fmt: skip
    rows = [
        {**common, "method": method, "share": share, "metric": metric, **dict.fromkeys(ENDS, m + shift)}
        for method, means in (("graft", (0.5, 0.7)), ("complement", (0.9, 0.8)))
        for metric, shift in (("accuracy", 0.0), ("nll", 5.0))
        for share, m in zip((0.001, 0.01), means, strict=True)
    ]  # fmt: skip
    found = study_areas(pd.DataFrame([*rows, {**rows[0], "split": "validation", "mean": 0.0}]))
    assert found.set_index("state")["value"].to_dict() == pytest.approx({"grafted": 0.6, "complement": 0.85})
    assert set(found["metric"]) == {"accuracy"} and study_areas(pd.DataFrame(rows)[:0]).empty


def test_a_run_without_the_table_offers_its_main_size(tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path))
    left, rows = without_region(run, "test"), run.predictions().query("split == 'test'")
    assert "complement.parquet" not in run.files and left["size"].tolist() == [run.record.size]
    z = {s: p.filter(like="logit_").to_numpy(float) for s, p in rows.groupby("state")}
    labels = rows[rows["state"] == "finetuned"]["label"].to_numpy()
    assert left[["value", "low", "high"]].iloc[0].tolist() == pytest.approx(
        recovered_gain(z["complement"], z["pretrained"], z["finetuned"], labels, "accuracy")[:3]
    )
    assert left["value"].iloc[0] != run.record.metrics["test"].recovered.value, "the graft's would pass"
    exhibit = necessity(run.curve().query("split == 'test'"), left, ("stagewise", "fitted gain"), "light")
    assert "stagewise (fitted gain)" in exhibit.title and set(exhibit.table["state"]) == {"grafted", "complement"}
    assert "stored at one size" in exhibit.finding and "complement" in exhibit.alt


@pytest.mark.parametrize(
    ("values", "seeds", "wanted", "over"),
    [
        ([0.7, 0.8, 0.9], None, None, BOTH),  # the three intervals joined
        ([0.7], None, (0.7, 0.6, 0.8), "examples"),
        ([0.7] * 3, None, (0.7, 0.6, 0.8), "examples"),  # seeds that agree exactly do not claim certainty
        ([0.7, 0.8, 0.9], [0, 0, 1], (0.825, 0.0, 1.0), BOTH),  # two runs of one seed are one seed
    ],
    ids=["three seeds", "one", "three alike", "one of them twice"],
)  # fmt: skip
def test_seeds_are_pooled_by_hand(
    values: list[float], seeds: list[int] | None, wanted: tuple | None, over: str
) -> None:
    (row,) = by_size(rows(values, **({"seeds": seeds} if seeds else {})), "accuracy").to_dict("records")
    value, low, high, *_ = wanted or mean_of_intervals(values, np.subtract(values, 0.1), np.add(values, 0.1))
    assert (row["value"], row["low"], row["high"]) == pytest.approx((value, low, min(high, 1.0)))
    assert (row["seeds"], row["over"]) == (len(set(seeds or range(len(values)))), over)


def test_calibration_has_an_interval_where_its_debiased_value_is_stored() -> None:
    curve = rows([0.07, 0.08, 0.09]).assign(metric="ece")
    known = curve.assign(low=curve["value"] - 0.05, high=curve["value"] + 0.02, debiased=curve["value"] - 0.02)
    (row,), (with_ends,) = (by_size(frame, "ece").to_dict("records") for frame in (curve, known))
    assert pd.isna(row["low"]) and row["value"] == pytest.approx(0.08)
    assert with_ends["debiased"] == pytest.approx(0.06) and with_ends["low"] < 0.06 < with_ends["high"]


@pytest.mark.parametrize(
    ("curves", "options", "sizes"),
    [
        ([rows([0.7], "learned", [0], 90), rows([0.8, 0.9], "learned", [1, 2], 100)], {}, [90, 100, 100]),
        ([rows([0.7], "learned", [0], 90), rows([0.8, 0.9], "learned", [1, 2], 100)], {"per_run": ()}, [90, 100]),
        ([rows([0.6], size=0), rows([0.7])], {}, [100]),
    ],
    ids=["a size of its own is never averaged", "unless it may be", "size zero is the reference line's"],
)
def test_the_sizes_of_a_curve(curves: list[pd.DataFrame], options: dict, sizes: list[int]) -> None:
    assert list(by_size(pd.concat(curves), "accuracy", **options)["size"]) == sizes


@pytest.mark.parametrize(("column", "other"), [("split", "validation"), ("dataset", "imdb")])
def test_mixed_data_are_refused(column: str, other: str) -> None:
    curve = pd.concat([rows([0.7]), rows([0.7]).assign(**{column: other})])
    with pytest.raises(ValueError, match=f"choose one {column}; given: "):
        by_size(curve, "accuracy")


def test_settings_are_lines_of_their_own_and_none_are_the_usual_ones() -> None:
    points = by_size(pd.concat([rows([0.7, 0.8]), rows([0.9]).assign(settings="batch size 1024")]), "accuracy")
    assert list(zip(points["settings"], points["seeds"], strict=True)) == [("", 2), ("batch size 1024", 1)]
