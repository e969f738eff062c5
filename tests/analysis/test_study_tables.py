"""Tests of the declared tables of a study, of tables over runs, and of the stages of continual learning, by hand."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.analysis import stages
from skillviz.analysis.answers import Answers
from skillviz.analysis.differences import paired, turned_round
from skillviz.analysis.observations import Observation, once
from skillviz.analysis.recovered import recovered, without_gain
from skillviz.analysis.run_tables import (
    DIFFERENCES,
    TABLE,
    differences,
    joined,
    sampled,
    table_of_runs,
)
from skillviz.analysis.scores import histogram, score_rows, score_table
from skillviz.analysis.seeds import (
    Scored,
    Side,
    apart,
    cut,
    difference_of_differences,
    difference_over_seeds,
    mean_over_seeds,
)
from skillviz.analysis.tables import TABLES, check, empty, notes
from skillviz.core.intervals import Interval, metric_difference, tango, wilson
from skillviz.core.many_comparisons import p_values
from skillviz.core.seeds_interval import mean_of_intervals, seeds_and_examples
from skillviz.errors import BadData, BadInput
from skillviz.runs.record import TaskNote
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show.comparisons import known_of
from tests.core.by_hand import by_hand, near, refused, refuses
from tests.core.drawn_predictions import PROPERTY
from tests.fake_run import fake_run
from tests.studies.tiny_study import D, seen

GRAFT = {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}
RIGHT = "1111011101"
NAN = pytest.approx(np.nan, nan_ok=True)


def row_of(frame: pd.DataFrame, **wanted: object) -> pd.Series:
    """Return the only row with these values."""
    ((_, row),) = frame[(frame[list(wanted)] == pd.Series(wanted)).all(axis=1)].iterrows()
    return row


test_a_table_that_is_not_as_declared_is_refused = refused(
    ValueError,
    ("missing columns", check, pd.DataFrame({"kind": ["iou"]}), "overlap"),
    (r"unknown columns \['texts'\]", check, pd.DataFrame({"texts": []}), "note"),
    ("missing values", check, pd.DataFrame({"text": [None]}), "note"),
    ("not a table of a study", check, pd.DataFrame(), "score"),
)


def accuracy(*observations: Observation) -> pd.Series:
    """Return the row of accuracy of these observations of one model."""
    return row_of(score_table(list(observations)), metric="accuracy")


def difference(sides: list[Observation], a: str = "graft", b: str = "ft", metric: str = "accuracy") -> pd.Series:
    """Return the only row of a metric in the paired differences of two methods."""
    return row_of(paired(sides, [(a, b)]), metric=metric)


def of_seeds(*values: float, **more: Any) -> list[Observation]:
    """Return grafts of one model with these accuracies, one for each mask seed."""
    return [seen(**GRAFT, seed=seed, values={"accuracy": value}, **more) for seed, value in enumerate(values)]


def at_sizes(localizer: str, rights: dict[float, str]) -> list[Observation]:
    """Return grafts of a localizer at these sizes, with these predictions."""
    of = {"method": f"graft_{localizer}", "localizer": localizer}
    return [seen(**of, size=size, requested_size=str(size), right=right) for size, right in rights.items()]


ONE, OTHER = seen(**GRAFT, right="1111110001"), seen("ft", right="0111110100")
SINGLE = paired([ONE, OTHER], [("graft", "ft")])
ROW, BACK = (row_of(frame, metric="accuracy") for frame in (SINGLE, turned_round(SINGLE)))
test_observations_and_ends_by_hand = by_hand(
    *((f"every column of {name} is declared once, in words", (len({column.name for column in table.columns}), True),
       lambda table=table: (len(table.columns), all(column.meaning for column in table.columns)))
      for name, table in TABLES.items()),
    *((f"an empty table is as declared: {name}", True, lambda name=name: check(empty(name), name).equals(empty(name)))
      for name in TABLES),
    ("a sentence is noted once", ["a", "b"], lambda: notes("a", "b", "a")["text"].tolist()),
    *((f"the ends of {metric} are cut to what it can be", ends, cut, metric, -0.5, 1.5) for metric, ends in {
        "ece": (0.0, 1.0), "nll": (0.0, 1.5), "recovered": (-0.5, 1.5), "overlap": (0.0, 1.0),
    }.items()),
    *((f"missing ends of {metric} stay missing", near(np.nan, np.nan), cut, metric, np.nan, np.nan)
      for metric in ("ece", "nll", "recovered", "overlap")),
    ("a state that several runs scored counts once", [[True], [True]], lambda: [
        [one.answers is not None for one in once(found)] for found in
        ([seen("ft", right=RIGHT)] * 2, [seen(**GRAFT, values={"accuracy": 0.5}), seen(**GRAFT, right=RIGHT)])
    ]),
    # Its p-value is made of discordant pairs; several seeds have Student's t.
    ("a difference of single models has its discordant pairs", [2, 1, -BACK["value"], 1, 2],
     lambda: [*ROW[["gained", "lost", "value"]], *BACK[["gained", "lost"]]]),
    ("of accuracy alone", True, lambda: SINGLE.query("metric != 'accuracy'")[["gained", "lost"]].isna().all(axis=None)),
    ("the p-value of discordant pairs", near([math.erfc(1 / math.sqrt(2 * 3))]), lambda: list(p_values(
        [ROW["value"]], [ROW["low"]], [ROW["high"]], **known_of(SINGLE.loc[[ROW.name]])))),
    *((f"nothing is paired: {name}", True, lambda of=of: pd.isna(difference(of)["gained"])) for name, of in (
        ("two seeds", [ONE, seen(**GRAFT, seed=1, right=RIGHT), OTHER]),
        ("no predictions", [ONE, replace(OTHER, answers=None, ends={"accuracy": wilson(6, 10)})]))),
    ("the difference of a method and itself is nothing", [[0.0] * 3], lambda: paired(
        [seen(**GRAFT, right=RIGHT), seen("ft", right=RIGHT)], [("graft", "ft")])[
            ["value", "low", "high"]].drop_duplicates().values.tolist()),
    ("nor is it debiased", {0.0}, lambda: set(paired(
        [seen(**GRAFT, right=RIGHT), seen("ft", right=RIGHT)], [("graft", "ft")])["debiased"].dropna())),
    *((f"sides of other sizes or recipes: {a} and {b}", is_left_out, lambda other=other, pair=(a, b): paired(
        [seen(**GRAFT, right=RIGHT), other], [pair]).empty) for a, b, other, is_left_out in (
        ("graft", "graft_movement",
         seen("graft_movement", right=RIGHT, localizer="movement", size=10.0, requested_size="1%"), True),
        ("graft", "ft", seen("ft", right=RIGHT, recipe="adamw"), True),
        ("graft_retrain", "graft", seen("graft_retrain", right=RIGHT, recipe="graft-retrain"), False))),
    ("without a gain there is no size that recovers it", True, lambda: recovered([
        *(one for one in ladder(0.7, 0.8, 0.9) if one.method != "ft"),
        seen("ft", split="validation", values={"accuracy": 0.5})]).empty),
    ("nothing gives empty tables with their columns", (list(TABLE), 0, list(DIFFERENCES)), lambda: (
        list(table_of_runs([]).columns), len(table_of_runs([])), list(differences([]).columns))),
    ("a localizer that was asked for in two ways has two names", [("stagewise", "steps=25"), ("stagewise", "steps=50")],
     lambda: [one.search for one in once([seen(**GRAFT, right=RIGHT, search_fields={"steps": n}) for n in (25, 50)])]),
)  # fmt: skip


def test_a_model_without_a_region_meets_the_graft_of_every_size_with_predictions() -> None:
    bare, stored = (
        [seen(localizer="stagewise", size=size, requested_size=str(size), **told) for size in sizes]
        for sizes, told in (((200.0, 400.0), {"values": {"accuracy": 0.5}}), ((50.0, 100.0), {"right": RIGHT}))
    )
    rows, alone = (
        paired([seen("lora", recipe="lora", right=RIGHT[::-1]), *bare, *grafts], [("lora", "graft")])
        .query("metric == 'accuracy'")
        for grafts in (stored, [])
    )  # fmt: skip
    assert sorted(rows["size"]) == [50.0, 100.0] and len(alone) == 1


ENDS = {"accuracy": (0.77, 0.83)}
MOVEMENT = {"localizer": "movement", "size": 100.0, "requested_size": "10%", "values": {"accuracy": 0.7}}
# A graft that is 0.1 better on each of two very different models is clearly better.
BETTER = [seen(**GRAFT, model=m, right=text * 20) for m, text in (("m0", "1" * 9 + "0"), ("m1", "1" * 3 + "0" * 7))]
TUNED = [seen("ft", model=m, right=text * 20) for m, text in (("m0", "1" * 8 + "00"), ("m1", "11" + "0" * 8))]
ROWS: dict[str, tuple[Callable[[], pd.Series], dict[str, Any]]] = {
    "one model is averaged over its mask seeds": (
        lambda: accuracy(*of_seeds(0.8, 0.9, 0.7)),
        {"mean": pytest.approx(0.8), "sd": pytest.approx(0.1), "seeds": 3, "share": 100 / D, "low": NAN, "high": NAN},
    ),
    "an accuracy is no larger than 1, whatever t says": (
        lambda: accuracy(*of_seeds(0.8, 0.9, 0.7, ends={"accuracy": (0.55, 0.95)})),
        {"low": pytest.approx(mean_of_intervals((0.8, 0.9, 0.7), [0.55] * 3, [0.95] * 3).low), "high": 1.0},
    ),
    "of several models each counts by the mean of its mask seeds": (
        lambda: accuracy(*(seen(**GRAFT, model=m, seed=s, values={"accuracy": v}) for m, s, v in (
            ("m0", 0, 0.8), ("m0", 1, 0.9), ("m1", 0, 0.6), ("m1", 1, 0.7), ("m2", 0, 0.5)))),
        {"seeds": 3, "mean": pytest.approx((0.85 + 0.65 + 0.5) / 3)},
    ),
    "a single observation keeps the interval it was stored with": (
        lambda: accuracy(seen("ft", right=RIGHT, ends={"accuracy": wilson(8, 10)})),
        {"low": wilson(8, 10)[0], "high": wilson(8, 10)[1], "seeds": 1, "localizer": "", "sd": NAN},
    ),
    # Both are wrong on the same four of ten examples; of the ten pairs, one differs.
    "a difference is paired by example": (
        lambda: difference([seen(**GRAFT, right="1111110000"), seen("ft", right="0111110000")]),
        {"value": pytest.approx(0.1), "low": pytest.approx(tango(1, 0, 10)[0]),
         "high": pytest.approx(tango(1, 0, 10)[1]), "localizer": "stagewise", "size": 100, "n": 10,
         "over": "examples and seeds"},
    ),
    "a region whose size is an outcome meets the next larger rival": (
        lambda: difference([seen(localizer="learned", size=50.0, right=RIGHT), *at_sizes("movement", {
            10.0: "0000000000", 100.0: "1111100000", 300.0: "1111111111"})], b="graft_movement"),
        {"value": pytest.approx(0.8 - 0.5), "size": 50},
    ),
    "a region whose rest is zero is met at the size that scores best": (
        lambda: difference([seen(**GRAFT, right=RIGHT), *at_sizes("lottery", {
            300.0: "0000000000", 500.0: "1111110000", 900.0: "1111000000"})], b="graft_lottery"),
        {"value": pytest.approx(0.8 - 0.6), "size": 100, "localizer": "stagewise"},
    ),
    "without predictions and ends a difference has no interval": (
        lambda: difference([*of_seeds(0.8, 0.82, 0.78), seen("graft_movement", **MOVEMENT)], b="graft_movement"),
        {"over": "", "seeds": 3, "value": pytest.approx(0.1), "low": NAN, "high": NAN},
    ),
    # Three seeds of 0.8 ± 0.03 against 0.7 ± 0.04 give 0.1 ± 0.05; equal seeds alone would suggest zero width.
    "without predictions intervals over examples are taken unpaired": (
        lambda: difference(
            [*of_seeds(0.8, 0.8, 0.8, ends=ENDS), seen("graft_movement", ends={"accuracy": (0.66, 0.74)}, **MOVEMENT)],
            b="graft_movement",
        ),
        {"over": "examples and seeds, unpaired", "value": pytest.approx(0.1), "low": pytest.approx(0.05),
         "high": pytest.approx(0.15)},
    ),
    "equal seeds have the interval over examples": (
        lambda: accuracy(*of_seeds(0.8, 0.8, 0.8, ends=ENDS)),
        {"low": pytest.approx(0.77), "high": pytest.approx(0.83)},
    ),
    "models that both sides have are paired": (
        lambda: difference([*BETTER, *TUNED]),
        {"value": pytest.approx(0.1), "low": pytest.approx(0.075, abs=0.025), "seeds": 2},
    ),
    "models of their own are not paired": (
        lambda: difference([*BETTER, *(replace(one, model=f"other-{one.model}") for one in TUNED)]),
        {"value": pytest.approx(0.1), "low": pytest.approx(-5.29, abs=0.01), "high": pytest.approx(5.49, abs=0.01)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "wanted"), ROWS.values(), ids=ROWS)
def test_a_row_says_that(make: Callable[[], pd.Series], wanted: dict[str, Any]) -> None:
    assert make()[list(wanted)].to_dict() == wanted


def side_of(*values: float, first_seed: int = 0, draws: np.ndarray | None = None) -> Side:
    return {
        seed: [Scored(Interval(value, value - 0.02, value + 0.02), draws=draws)]
        for seed, value in enumerate(values, first_seed)
    }


AS, BS, LUCK = (0.80, 0.83, 0.86), (0.70, 0.75), np.random.default_rng(0).normal(0.8, 0.01, 500)
DRAWS = 0.8 + 0.01 * np.random.default_rng(0).normal(size=(3, 1000))
WIDE = mean_over_seeds({n: [Scored(Interval(AS[n], 0, 1), draws=draws)] for n, draws in enumerate(DRAWS)}, "accuracy")
ERRORS = np.array([(0.05, 0.01, 0.06, 0.03), (0.04, 0.0, 0.05, 0.02), (0.06, 0.02, 0.07, 0.05)])
OF_ERRORS = {seed: [Scored(Interval(*one), draws=np.full(50, 0.5))] for seed, one in enumerate(ERRORS)}
OF_DEBIASED = mean_of_intervals(*ERRORS[:, [3, 1, 2]].T)
test_seeds_by_hand = by_hand(
    ("the interval over seeds and examples is that of the core",
     near(*seeds_and_examples(AS, float(DRAWS.mean(axis=0).std(ddof=1)))[:4]),
     lambda: (WIDE.value, WIDE.low, WIDE.high, WIDE.sd)),
    ("a narrower interval would be caught", True,
     lambda: WIDE.high - WIDE.low > 1.9 * 4.303 * 0.03 / np.sqrt(3) * 0.8),
    ("stored intervals are joined", near(*mean_of_intervals(AS, np.subtract(AS, 0.02), np.add(AS, 0.02))[1:3]),
     lambda found: (found.low, found.high), mean_over_seeds(side_of(*AS), "accuracy")),
    ("a calibration error joins the intervals of its seeds",
     near(0.05, ERRORS[:, 3].mean(), max(OF_DEBIASED.low, 0.0), OF_DEBIASED.high),
     lambda found: (found.value, found.debiased, found.low, found.high), mean_over_seeds(OF_ERRORS, "ece")),
    ("one seed without an interval leaves none", near(np.nan), lambda: mean_over_seeds(
        {**OF_ERRORS, 3: [Scored(Interval(0.05, np.nan, np.nan))]}, "ece").low),
    # Seeds that do not belong together count on both sides.
    *((f"a difference of seeds: {name}", wanted, read, difference_over_seeds(
        side_of(*AS, draws=LUCK), side_of(*other, first_seed=first, draws=LUCK), "accuracy"))
      for name, other, first, read, wanted in (
        ("others", BS, 7, lambda of: (of.value, of.low, of.high),
         near(0.83 - 0.725, *seeds_and_examples(np.subtract.outer(AS, BS), 0.0)[1:3])),
        ("one other", BS[:1], 7, lambda of: of.high - of.low, near(np.ptp(seeds_and_examples(AS, 0.0)[1:3]))),
        ("the same", AS, 0, lambda of: of[:3], (0, 0, 0)))),
)  # fmt: skip


def test_what_an_example_adds_to_both_differences_cancels() -> None:
    """Grafts and models vary on the same examples: each difference is uncertain, but the change between them is not."""
    luck, values, after = 0.05 * np.random.default_rng(0).normal(size=1000), (0.80, 0.82, 0.81), (0.85, 0.87, 0.86)
    graft, later = side_of(*values, draws=0.81 + luck), side_of(*after, draws=0.86 + luck)
    tuned, tuned_later = (side_of(value, draws=np.full(1000, value)) for value in (0.83, 0.93))
    found, apart, bare = (
        difference_of_differences((one, tuned_later), (other, tuned), "accuracy")
        for one, other in (
            (later, graft),
            (later, side_of(*values, first_seed=7, draws=0.81 + luck)),
            (side_of(*after), graft),
        )
    )
    assert [one.value for one in (found, apart, bare)] == pytest.approx([-0.05] * 3)
    alone = difference_over_seeds(later, tuned_later, "accuracy")
    assert -0.051 < found.low < found.high < -0.049 and alone.high - alone.low > 0.15
    assert np.isnan([apart.low, bare.high]).all(), "other seeds are not paired, nor are seeds without draws"


def test_a_difference_of_calibration_errors_is_that_of_each_seed() -> None:
    rng = np.random.default_rng(3)
    *texts, last = ["".join(rng.choice(["0", "1"], 80, p=[0.2, 0.8])) for _ in range(4)]
    a, b = [seen(**GRAFT, seed=seed, right=text) for seed, text in enumerate(texts)], seen("ft", right=last, sure=4.0)
    logits, labels = b.answers.logits, b.answers.labels  # type: ignore[union-attr]
    value, low, high, debiased, *_ = np.array(
        [metric_difference(one.answers.logits, logits, labels, "ece") for one in a]  # type: ignore[union-attr]
    ).T
    row = difference([*a, b], metric="ece")
    assert (row["over"], *row[["value", "debiased", "low", "high"]]) == (
        "examples and seeds",
        *map(pytest.approx, [value.mean(), *mean_of_intervals(debiased, low, high)[:3]]),
    )
    bare = difference([*a, replace(b, answers=None, debiased={}, ends={"ece": (0.0, 0.1)})], metric="ece")
    assert bare[["low", "high"]].isna().all() and bare["over"] == "", "a percentile interval is not shown"


@PROPERTY
@given(st.lists(st.floats(0.1, 0.9), min_size=2, max_size=6), st.floats(0.001, 0.1), st.randoms())
def test_the_order_of_seeds_does_not_matter(values: list[float], reach: float, order: Any) -> None:
    side = {seed: [Scored(Interval(v, v - reach, v + reach))] for seed, v in enumerate(values)}
    assert mean_over_seeds(dict(order.sample(list(side.items()), len(side))), "accuracy")[:5] == pytest.approx(
        mean_over_seeds(side, "accuracy")[:5]
    )
    wide = mean_over_seeds(side, "nll")
    assert wide.low <= wide.value - reach * 0.999 and wide.high >= wide.value + reach * 0.999


def ladder(*checked: float, tested: tuple[float, ...] = (0.6, 0.7, 0.8)) -> list[Observation]:
    """Return grafts of three sizes with these validation and test accuracies; the gain is 0.5 to 0.9 on both splits."""
    found = []
    for split, values in (("validation", checked), ("test", tested)):
        found += [
            seen(method, split=split, values={"accuracy": value, "ece": 0.1})
            for method, value in (("pretrained", 0.5), ("ft", 0.9), ("ft_scaled", 0.9))
        ]
        found += [
            seen(split=split, values={"accuracy": value, "ece": 0.04, "recovered": 0.5}, localizer="stagewise",
                 size=10.0 ** (place + 1), requested_size=f"{10**place}%")
            for place, value in enumerate(values)
        ]  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("checked", "tested", "share", "size", "reached_on"),
    [
        ((0.7, 0.885, 0.9), (0.6, 0.7, 0.8), 0.95, 100, "validation"),  # test is not used
        ((0.7, 0.879, 0.9), (0.6, 0.7, 0.8), 0.95, 1000, "validation"),
        ((0.7, 0.8, 0.87), (0.6, 0.7, 0.8), 0.95, 1000, ""),
        ((0.7, 0.8, 0.87), (0.6, 0.7, 0.8), 0.5, 10, "validation"),
        # The fine-tuned model was chosen on validation, so its gain is inflated there and 0.88 is not reached.
        ((0.7, 0.8, 0.87), (0.6, 0.88, 0.9), 0.95, 100, "test"),
        ((0.7, 0.8, 0.88), (0.6, 0.88, 0.9), 0.95, 1000, "validation"),
    ],
)
def test_the_size_is_chosen_on_validation_and_told_on_test(
    checked: tuple, tested: tuple, share: float, size: int, reached_on: str
) -> None:
    """95% of the gain from 0.5 to 0.9 is 0.88."""
    row = row_of(recovered(ladder(*checked, tested=tested), share=share), localizer="stagewise")
    there = tested[int(math.log10(size)) - 1]
    assert row[["size", "reached", "reached_on", "gain_share"]].tolist() == [size, reached_on != "", reached_on, share]
    wanted = {"value": there, "accuracy": there, "value_ft": 0.9, "ece_less_ft": -0.06, "ece_ft_scaled": 0.1}
    assert row[list(wanted)].to_dict() == pytest.approx(wanted)


# The fine-tuned model has 104 of 200 examples right and the base 100, on other examples: no gain is shown.
WITHOUT_TUNED = [
    *(one for one in ladder(0.7, 0.885, 0.9) if one.split == "validation" or one.method == "graft"),
    seen("pretrained", right="10" * 100),
]
CHANCE, GAINED = ([*WITHOUT_TUNED, seen("ft", right=right)] for right in ("01" * 96 + "1" * 8, "1" * 200))
HISTOGRAM = histogram([
    seen("ft", right=RIGHT, sure=5.0), seen(**GRAFT, seed=0, right=RIGHT, sure=0.2),
    seen(**GRAFT, seed=1, right="1" * 10, sure=5.0),
])  # fmt: skip
PLACE = np.arange(10_000)
LOGITS = [np.stack([np.where(100 * right > PLACE, 1.0, -1.0), 0 * PLACE], axis=1) for right in (80, 83, 86)]
test_gains_and_scores_by_hand = by_hand(
    ("a gain that may be chance on test is none", (True, 1), lambda: (recovered(CHANCE).empty, len(recovered(GAINED)))),
    *((f"what is said of {name}", said, lambda rows=rows: [one[:65] for one in without_gain(rows)])
      for name, rows, said in (
        ("a gain", GAINED, []), ("no fine-tuned model", [one for one in CHANCE if one.method != "ft"], []),
        ("chance", CHANCE, ["Fine-tuning gains nothing beyond chance on sst2: there is no gain"]))),
    ("the other model of the task has its row", [(True, False)], lambda: [
        ("(bitfit, all)" in one, "sgd" in one)
        for one in without_gain([*GAINED, *(replace(one, recipe="bitfit") for one in CHANCE)])]),
    ("histograms count every example once and average seeds", [["finetuned", NAN, 10], ["grafted", 0.1, 10]],
     lambda: HISTOGRAM.groupby(["state", "share"], dropna=False)["count"].sum().reset_index().values.tolist()),
    ("one of the two seeds; its bin has all ten examples", [[5, 5]],
     lambda: HISTOGRAM.query("high_edge == 1 and state == 'grafted'")[["count", "correct"]].values.tolist()),
    ("right examples of a histogram", RIGHT.count("1"),
     lambda: HISTOGRAM.query("state == 'finetuned'")["correct"].sum()),
    # With ten thousand examples only the seeds vary: 80%, 83% and 86% are right.
    ("scores of three seeds are as uncertain as their t-interval",
     ("accuracy", near(0.83), near(2 * 4.303 * 0.03 / np.sqrt(3), rel=0.1)),
     lambda row: (row["metric"], row["mean"], row["high"] - row["low"]),
     next(iter(score_rows(LOGITS, 0 * PLACE, TaskNote(name="a", labels=("no", "yes")), {})))),
)  # fmt: skip


TINY = {"n": {"validation": 20, "test": 60}, "layers": 1, "width": 8, "steps": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Runs of stagewise with three seeds and of movement with one, each at two sizes."""
    store, pairs = Store(tmp_path_factory.mktemp("runs")), [*(("stagewise", n) for n in range(3)), ("movement", 0)]
    return [
        fake_run(store, localizer=name, seed=seed, sizes=(size,), **TINY)
        for name, seed in pairs
        for size in ("1%", "10%")
    ]  # fmt: skip


def of(runs: list[Run], localizer: str, size: str = "1%") -> list[Run]:
    return [r for r in runs if r.spec.localizer == localizer and r.spec.sizes == (size,)]


def values(runs: list[Run], metric: str) -> np.ndarray:
    return np.array([r.record.metrics["test"].states["grafted"][metric].value for r in runs])


def rows_of(runs: list[Run], localizer: str) -> pd.DataFrame:
    """Return the table's rows of a localizer at the smaller size, by metric."""
    return table_of_runs(runs).query("localizer == @localizer and share < 0.05").set_index("metric")


@pytest.mark.nightly
def test_means_and_deviations_over_seeds(runs: list[Run]) -> None:
    assert table_of_runs(runs).dtypes.astype(str).to_dict() == TABLE
    for metric in ("accuracy", "ece", "nll"):
        row, expected = rows_of(runs, "stagewise").loc[metric], values(of(runs, "stagewise"), metric)
        assert tuple(row[["mean", "sd", "seeds"]]) == pytest.approx((expected.mean(), expected.std(ddof=1), 3))
        assert row["low"] <= (row["debiased"] if metric == "ece" else row["mean"]) <= row["high"]
        assert row["high"] - row["low"] > (2 * 1.96 * expected.std(ddof=1) / np.sqrt(3)), "the examples count too"


def test_one_seed_says_nothing_about_seeds(runs: list[Run]) -> None:
    one = of(runs, "movement")[0].record.metrics["test"].states["grafted"]["accuracy"]
    assert rows_of(runs, "movement").loc["accuracy", ["mean", "low", "high", "sd"]].tolist() == near(
        one.value, one.low, one.high, np.nan
    ), "Wilson's"


def test_metrics_of_several_models_join_the_intervals_of_the_runs(runs: list[Run]) -> None:
    frame, stored = rows_of(runs, "stagewise"), [r.record.metrics["test"].agreement for r in of(runs, "stagewise")]
    assert tuple(frame.loc["agreement", ["low", "high"]]) == pytest.approx(
        mean_of_intervals(*np.array([(one.value, one.low, one.high) for one in stored if one]).T)[1:3]
    )
    assert frame.loc["recovered", ["low", "mean", "high"]].is_monotonic_increasing
    assert np.isnan(frame.loc["confidence", "low"]), "its row of metrics has no interval"


def test_other_sizes_of_a_run_have_the_intervals_that_it_stored(tmp_path: Path) -> None:
    frame = table_of_runs([fake_run(Store(tmp_path), sizes=("5%", "1%"), **TINY)]).set_index("metric")
    errors = frame.loc["ece", ["low", "debiased", "high"]].to_numpy(float)
    assert frame.loc["accuracy", "low"].notna().all() and errors.shape == (2, 3) and (np.diff(errors) >= 0).all()


def test_each_pair_at_equal_size_and_its_mirror(runs: list[Run]) -> None:
    frame = differences(runs, metrics=("accuracy", "nll"))
    assert len(frame) == 2 * 2 * 2 and (frame["n"] == 60).all()
    for _, row in frame.iterrows():
        other = frame.query("a == @row.b and size == @row['size'] and metric == @row.metric").iloc[0]
        assert (row["value"], row["low"], row["high"]) == pytest.approx(
            (-other["value"], -other["high"], -other["low"])
        )
        a, b = (
            values(
                [r for r in runs if (r.spec.localizer, r.record.size) == (row[side], row["size"])], row["metric"]
            ).mean()
            for side in "ab"
        )
        assert row["value"] == pytest.approx(a - b) and row["low"] <= row["value"] <= row["high"]


def test_a_run_against_itself_differs_by_exactly_nothing(runs: list[Run]) -> None:
    one = of(runs, "movement")
    for metric, sides in sampled({"a": one, "b": one}, ("accuracy", "ece")).by_metric.items():
        assert difference_over_seeds(sides["a"], sides["b"], metric)[:3] == (0, 0, 0)


def test_pairing_narrows_the_interval(runs: list[Run]) -> None:
    for metric, sides in sampled(
        {"a": of(runs, "stagewise"), "b": of(runs, "stagewise", "10%")}, ("accuracy", "nll", "ece")
    ).by_metric.items():
        pair = difference_over_seeds(sides["a"], sides["b"], metric)
        loose = apart(*(mean_over_seeds(side, metric) for side in sides.values()))
        assert pair.value == pytest.approx(loose.value) and pair.high - pair.low < loose.high - loose.low


def test_predictions_are_joined_by_example_and_not_by_row(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    two, real, order = of(runs, "movement") * 2, Run.logits, np.random.default_rng(3)

    def shuffled(self: Run, *asked: Any, **more: Any) -> tuple[np.ndarray, ...]:
        rows = order.permutation(60)
        return tuple(column[rows] for column in real(self, *asked, **more))

    logits, labels = joined(two, "test")
    monkeypatch.setattr(Run, "logits", shuffled)
    again, same = joined(two, "test")
    assert np.array_equal(logits, again) and np.array_equal(labels, same)


def test_runs_on_other_examples_cannot_be_compared(runs: list[Run], tmp_path: Path) -> None:
    other = fake_run(Store(tmp_path), sizes=("1%",), **{**TINY, "n": {"validation": 20, "test": 50}})
    refuses(BadInput, "same test examples", sampled, {"a": runs[:1], "b": [other]}, ["accuracy"])


def test_other_tasks_and_pairs_are_kept_apart(runs: list[Run], tmp_path: Path) -> None:
    both = [*runs, fake_run(Store(tmp_path), task="cr", sizes=("1%",), **TINY)]
    assert set(table_of_runs(both)["task"]) == {"sst2", "cr"} and "cr" not in set(differences(both)["task"])


def test_f1_is_compared_where_it_is_the_metric(tmp_path: Path) -> None:
    common = {"metric": "f1", "sizes": ("5%",), **TINY}
    assert "f1" in set(
        differences([fake_run(Store(tmp_path), localizer=name, **common) for name in ("movement", "random")])["metric"]
    )


def asked(run: Run, **changes: Any) -> Run:
    """Return the run as if these fields of its settings had been requested."""
    return Run(run.path, run.record.model_copy(update={"spec": run.spec.model_copy(update=changes)}))


@pytest.mark.parametrize(
    "changes", [{"dtype": "bfloat16"}, {"autocast": "bfloat16"}, {"readout": "head"}, {"device": "cuda"}, {"k_shot": 4},
                {"options": {"start_share": 0.5}}, {"steps": 7}, {"cuda_graphs": True}],
)  # fmt: skip
def test_another_setting_is_no_further_seed(runs: list[Run], changes: dict[str, Any]) -> None:
    first, second, *_ = of(runs, "stagewise")
    (name, value), *_ = (changes.get("options") or changes).items()
    for other in (first, second):
        frame = table_of_runs([first, asked(other, **changes)]).query("metric == 'accuracy'")
        assert list(frame["seeds"]) == [1, 1] and frame["localizer"].nunique() == 2
        assert f"stagewise {name}={str(value).lower()}" in set(frame["localizer"])


def test_the_same_seed_twice_is_one_seed(runs: list[Run]) -> None:
    own = of(runs, "stagewise")
    assert list(
        table_of_runs([*own, asked(own[0], base="elsewhere/tiny-base")]).query("metric == 'accuracy'")["seeds"]
    ) == [3]


def test_a_size_that_two_runs_share_is_told_once(tmp_path: Path) -> None:
    frame = table_of_runs([fake_run(Store(tmp_path), sizes=sizes, **TINY) for sizes in (("5%", "1%"), ("1%",))]).query(
        "metric == 'accuracy'"
    )
    assert len(frame) == 2 and not frame.duplicated(["localizer", "size"]).any()
    assert frame["low"].notna().all(), "of two rows the one with an interval is kept"


def test_two_pairs_of_one_task_are_told_apart(tmp_path: Path) -> None:
    one = fake_run(Store(tmp_path), finetuned="demo/one", sizes=("1%",), **TINY)
    two = asked(one, finetuned="demo/two")
    other = two.record.finetuned.model_copy(update={"fingerprint": "another"})
    assert set(
        table_of_runs([one, Run(two.path, two.record.model_copy(update={"finetuned": other}))])["finetuned"]
    ) == {"one", "two"}


TASK = TaskNote(name="a", labels=("no", "yes"))


def answers(right: str) -> Answers:
    """Return the answers of a model that is right (1) or wrong (0) on each example; all labels are "yes"."""
    return Answers(
        np.array([f"test-{number}" for number in range(len(right))], dtype=object),
        np.ones(len(right), np.int64),
        np.array([[0.0, 1.0] if sign == "1" else [1.0, 0.0] for sign in right]),
    )


def stage_rows(found: dict[tuple[int, str], Answers]) -> pd.DataFrame:
    """Return the rows of these answers, by metric, stage and task."""
    tasks = {name: TaskNote(name=name, labels=("no", "yes")) for name in ("a", "b")}
    return stages.stages({"naive": found}, ["a", "b"], tasks).set_index(["metric", "stage", "task"])


STAGES = stage_rows({(1, "a"): answers("1111"), (2, "a"): answers("1100"), (2, "b"): answers("10")})
LONGER = stage_rows({(1, "a"): answers("1100" * 20), (2, "a"): answers("1101" * 20)})
ACCURACY = STAGES.loc["accuracy"]
LATER, OWN = ACCURACY.loc[(2, "a")], ACCURACY.loc[(1, "a")]
test_every_task_after_every_stage_with_the_change_since_its_own = by_hand(
    ("every task after every stage", {(1, "a"): 1.0, (2, "a"): 0.5, (2, "b"): 0.5}, ACCURACY["value"].to_dict),
    ("no change at its own stage", [0.0, 0.0], lambda: OWN[["change", "change_high"]].tolist()),
    ("a change", [near(-0.5), 0, 2, "b"],
     lambda: LATER[["change", "change_gained", "change_lost", "stage_task"]].tolist()),
    ("a change is within its interval", True, lambda: LATER["change_low"] < -0.5 < LATER["change_high"]),
    ("the tasks of the stages", {"a", "b"}, lambda: set(ACCURACY["stage_task"])),
    ("metrics", {"accuracy", "ece"}, lambda: set(STAGES.index.get_level_values(0))),
    ("only accuracy has pairs", True,
     lambda: STAGES.loc["ece", ["change_gained", "change_lost"]].isna().all(axis=None)),
    ("the interval of accuracy is Wilson's", (0.5, near(wilson(40, 80)[0]), near(np.nan)),
     lambda: tuple(LONGER.loc[("accuracy", 1, "a"), ["value", "low", "debiased"]])),
    *((f"the interval of {name} is about the debiased value", True,
       lambda names=names: LONGER.loc[("ece", 2, "a"), names].is_monotonic_increasing) for name, names in (
        ("calibration", ["low", "debiased", "high"]),
        ("its change", ["change_low", "change_debiased", "change_high"]))),
    ("a lower calibration error", True, lambda: LONGER.loc[("ece", 2, "a"), "change_high"] < 0),
    # What another task trained on is left out, and so are other splits and states.
    ("answers that no other task trained on", (["test-1"], [[0.0, 2.0]]), lambda found: (
        found.ids.tolist(), found.logits.tolist()), stages.unseen_answers(pd.DataFrame({
            "example_id": ["test-0", "test-1", "test-1", "test-2"], "dataset": "a",
            "split": ["test", "test", "test", "validation"],
            "state": ["finetuned", "finetuned", "pretrained", "finetuned"],
            "label": 1, "logit_no": 0.0, "logit_yes": [1.0, 2.0, 3.0, 4.0],
        }), TASK, frozenset({"test-0"}))),
)  # fmt: skip


def test_equal_answers_pass_and_a_planted_change_is_refused() -> None:
    same = {(1, "a"): answers("1101"), (2, "a"): answers("1101"), (2, "b"): answers("11")}
    stages.refuse_changed(same, ["a", "b"])
    last_bit = answers("1101")
    last_bit.logits[1, 1] = np.nextafter(last_bit.logits[1, 1], 2)
    for changed, words in ((answers("1100"), "of 'a' otherwise"), (last_bit, "(other logits; 0 other predictions)")):
        text = f"answers 1 of 4 test examples .*{re.escape(words)}"
        refuses(BadData, text, stages.refuse_changed, {**same, (2, "a"): changed}, ["a", "b"])


test_stages_of_other_examples_are_not_compared = refused(
    BadData,
    ("same test examples", lambda: stages.difference(answers("11"), answers("111"), "accuracy", TASK)),
)
