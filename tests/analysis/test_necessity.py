"""Tests of recovery and necessity: the sizes at which each crosses one half, and the curves they are read from."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
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
from tests.core.by_hand import by_hand, near, refused
from tests.fake_run import fake_run
from tests.plots.frames import rows

SHARES, ENDS = (0.0001, 0.001, 0.01, 0.1), ("mean", "low", "high")
BOTH = "examples and seeds"


def curve(values: tuple[float, ...], half: float = 0.1, seed: int = 0, **more: object) -> pd.DataFrame:
    """Return a curve.parquet of `recovered`: one row for each share, with intervals of `half` on either side."""
    v = np.array(values)
    return pd.DataFrame({
        "localizer": "stagewise", "seed": seed, "size": np.round(1e6 * np.array(SHARES)).astype(int), "share": SHARES,
        "dataset": "d", "split": "test", "metric": "recovered", "value": v, "low": v - half, "high": v + half, **more,
    })  # fmt: skip


def crossing(values: tuple[float, ...], half: float = 0.1, level: float = HALF) -> GainSize:
    """Return the size at which a curve of grafts reaches the level."""
    return gain_size(restored_and_left(curve(values, half), pd.DataFrame()), "grafted", level)


RESTORED, LOST = (
    gain_size(restored_and_left(curve((0.1, 0.4, 0.8, 1.0)), curve((1.0, 0.9, 0.7, 0.1))), state)
    for state in ("grafted", "complement")
)
NEVER, ALWAYS = crossing((0.0, 0.1, 0.2, 0.3)), crossing((0.9, 0.9, 0.9, 0.9))
NOUGHT, ENDLESS = (GainSize(end, 0.0, np.inf, 0.001, 0.1) for end in (0.0, np.inf))


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
@settings(deadline=None)
@given(st.lists(st.floats(-0.5, 1.5), min_size=4, max_size=4), st.floats(0, 0.4))
def test_the_crossing_is_where_a_fine_grid_sees_it(level: float, values: list[float], half: float) -> None:
    found, grid = crossing(tuple(values), half, level), np.linspace(np.log(SHARES[0]), np.log(SHARES[-1]), 3001)
    for share, shift in ((found.share, 0.0), (found.low, half), (found.high, -half)):
        reached = np.interp(grid, np.log(SHARES), np.array(values) + shift) >= level
        wanted = np.inf if not reached.any() else 0.0 if reached[0] else float(np.exp(grid[reached.argmax()]))
        nearly = {wanted, share} & {0.0, np.inf} and abs(max(values) + shift - level) < 1e-6
        assert share == pytest.approx(wanted, rel=0.005) or nearly
    assert found.low <= found.share <= found.high


def test_areas_are_as_wide_as_errors_that_agree_allow() -> None:
    """Independent errors: the joint interval contains the mean in 95% of draws."""
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


POINTS = given_and_cost(restored_and_left(curve((0.1, 0.4, 0.8, 1.0)), curve((1.0, 0.9, 0.7, 0.1), 0.05)))
SHORT = curve((0.0, 0.2, 0.6, 0.0))[1:3]
AREAS = areas({**POINTS, "short": SHORT, "one": SHORT[:1]})
TWO_SIZES = pd.concat([rows([0.7], "learned", [0], 90), rows([0.8, 0.9], "learned", [1, 2], 100)])
ERRORS = rows([0.07, 0.08, 0.09]).assign(metric="ece")
SETTINGS = pd.concat([rows([0.7, 0.8]), rows([0.9]).assign(settings="batch size 1024")])
test_by_hand = by_hand(
    # A quarter of the decade from 0.4 to 0.8; the share lost is 0.3 at 1% and 0.9 at 10%.
    *((f"{name} at size", near(10.0 ** np.array(powers), rel=1e-6), lambda of=of: [of.share, of.low, of.high])
      for name, of, powers in (
        ("restored", RESTORED, [-3 + 1 / 4, -3, -3 + 1 / 2]),
        ("lost", LOST, [-2 + 1 / 3, -2 + 1 / 6, -2 + 1 / 2]))),
    ("never crossed", (np.inf, False), lambda: (NEVER.share, NEVER.is_crossed)),
    ("always crossed", (0.0, False), lambda: (ALWAYS.share, ALWAYS.is_crossed)),
    ("one size", None,
     lambda: gain_size(restored_and_left(curve((0.1, 0.2, 0.3, 0.9))[:1], pd.DataFrame()), "grafted")),
    ("areas over the sizes in common, 0.1% to 1%", near(np.array([[0.6, 0.5, 0.7], [0.2, 0.15, 0.25]]), rel=1e-7),
     lambda: AREAS.loc[["given", "cost"], ["value", "low", "high"]].to_numpy(float)),
    ("ends of areas", ({SHARES[1]}, {SHARES[2]}), lambda: (set(AREAS["smallest"]), set(AREAS["largest"]))),
    ("sizes of areas", [4, 4, 2, 1], lambda: AREAS["sizes"].tolist()),
    ("no area of one size", near(np.nan), lambda: AREAS.loc["one", "value"]),
    ("a curve alone", near((0.25 + 0.6 + 0.9) / 3),
     lambda: areas({"given": POINTS["given"]}).loc["given", "value"]),
    ("no size in common", near(np.nan, np.nan), lambda: areas({
        "low": curve((0.1, 0.2, 0, 0))[:2], "high": curve((0, 0, 0.1, 0.2))[2:]})["value"].tolist()),
    ("seeds are put together and missing gains left out", near(np.array([[0.15, 2], [0.5, 2], [0.8, 2], [1.0, 1]])),
     lambda seeds: restored_and_left(seeds, pd.DataFrame())[["value", "seeds"]].to_numpy(float),
     pd.concat([curve((0.1, 0.4, 0.8, 1.0), seed=0), curve((0.2, 0.6, 0.8, np.nan), seed=1)])),
    *((f"sizes of a curve: {name}", sizes, lambda of=of, options=options: by_size(
        of, "accuracy", **options)["size"].tolist()) for name, of, options, sizes in (
        ("a size of its own is never averaged", TWO_SIZES, {}, [90, 100, 100]),
        ("unless it may be", TWO_SIZES, {"per_run": ()}, [90, 100]),
        ("size zero is the reference line's", pd.concat([rows([0.6], size=0), rows([0.7])]), {}, [100]))),
    *((f"seeds are pooled: {name}", (near(value), near(low), near(min(high, 1.0)), seeds, over),
       lambda frame: tuple(by_size(frame, "accuracy").loc[0, ["value", "low", "high", "seeds", "over"]]), frame)
      for name, frame, (value, low, high), seeds, over in (
        ("three intervals joined", rows([0.7, 0.8, 0.9]),
         mean_of_intervals([0.7, 0.8, 0.9], [0.6, 0.7, 0.8], [0.8, 0.9, 1.0])[:3], 3, BOTH),
        ("one", rows([0.7]), (0.7, 0.6, 0.8), 1, "examples"),
        ("seeds that agree exactly do not claim certainty", rows([0.7] * 3), (0.7, 0.6, 0.8), 3, "examples"),
        ("two runs of one seed are one seed", rows([0.7, 0.8, 0.9], seeds=[0, 0, 1]), (0.825, 0.0, 1.0), 2, BOTH))),
    ("without a debiased value a calibration error has no interval", (near(0.08), near(np.nan)),
     lambda: tuple(by_size(ERRORS, "ece").loc[0, ["value", "low"]])),
    ("with one it has", (near(0.06), True), lambda of: (of["debiased"], of["low"] < 0.06 < of["high"]), by_size(
        ERRORS.assign(low=ERRORS["value"] - 0.05, high=ERRORS["value"] + 0.02, debiased=ERRORS["value"] - 0.02), "ece")
     .loc[0]),
    ("settings are lines of their own and none are the usual ones", [["", 2], ["batch size 1024", 1]],
     lambda: by_size(SETTINGS, "accuracy")[["settings", "seeds"]].values.tolist()),
)  # fmt: skip
test_mixed_data_are_refused = refused(
    ValueError,
    *(
        (
            f"choose one {column}; given: ",
            by_size,
            pd.concat([rows([0.7]), rows([0.7]).assign(**{column: other})]),
            "accuracy",
        )
        for column, other in (("split", "validation"), ("dataset", "imdb"))
    ),
)
