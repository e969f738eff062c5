"""Tests of the declared tables of a study, and of tables over runs, by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from skillviz.errors import BadInput
from skillviz.runs.record import TaskNote
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show.comparisons import known_of
from tests.core.by_hand import by_hand, near
from tests.core.drawn_predictions import PROPERTY
from tests.fake_run import fake_run
from tests.refused import refused, refuses
from tests.studies.tiny_study import D, seen

GRAFT = {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}
RIGHT = "1111011101"
NAN = pytest.approx(np.nan, nan_ok=True)


def row_of(frame: pd.DataFrame, **wanted: object) -> pd.Series:
    """Return the only row with these values."""
    ((_, row),) = frame[(frame[list(wanted)] == pd.Series(wanted)).all(axis=1)].iterrows()
    return row


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_declared_in_words(name: str) -> None:
    columns = {column.name: column.meaning for column in TABLES[name].columns}
    assert "" not in columns.values() and len(columns) == len(TABLES[name].columns)
    assert check(empty(name), name).equals(empty(name))


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


test_observations_and_ends_by_hand = by_hand(
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
    ("a localizer that was asked for in two ways has two names", [("stagewise", "steps=25"), ("stagewise", "steps=50")],
     lambda: [one.search for one in once([seen(**GRAFT, right=RIGHT, search_fields={"steps": n}) for n in (25, 50)])]),
)  # fmt: skip


def test_a_difference_of_single_models_has_its_discordant_pairs() -> None:
    """What its p-value is made of; several seeds have Student's t."""
    a, b = seen(**GRAFT, right="1111110001"), seen("ft", right="0111110100")
    rows = paired([a, b], [("graft", "ft")])
    row, back = row_of(rows, metric="accuracy"), row_of(turned_round(rows), metric="accuracy")
    assert [*row[["gained", "lost", "value"]], *back[["gained", "lost"]]] == [2, 1, -back["value"], 1, 2]
    assert rows[rows["metric"] != "accuracy"][["gained", "lost"]].isna().all(axis=None)
    (p,) = p_values(**{f"{end}s": [row[end]] for end in ("value", "low", "high")}, **known_of(rows.loc[[row.name]]))
    assert p == pytest.approx(math.erfc(1 / math.sqrt(2 * 3)))
    several = difference([a, seen(**GRAFT, seed=1, right=RIGHT), b])
    bare = difference([a, replace(b, answers=None, ends={"accuracy": wilson(6, 10)})])
    assert pd.isna(several["gained"]) and pd.isna(bare["gained"]), "nothing is paired"


def test_the_difference_of_a_method_and_itself_is_nothing() -> None:
    rows = paired([seen(**GRAFT, right=RIGHT), seen("ft", right=RIGHT)], [("graft", "ft")])
    assert (rows[["value", "low", "high"]] == 0).all(axis=None) and (rows["debiased"].dropna() == 0).all()


@pytest.mark.parametrize(
    ("method", "changes", "is_compared"),
    [
        ("graft_movement", {"localizer": "movement", "size": 10.0, "requested_size": "1%"}, False),
        ("ft", {"recipe": "adamw"}, False),
        ("graft_retrain", {"recipe": "graft-retrain"}, True),
    ],
)
def test_sides_of_other_sizes_or_recipes_are_not_compared(method: str, changes: dict, is_compared: bool) -> None:
    sides = [seen(**GRAFT, right=RIGHT), seen(method, right=RIGHT, **changes)]
    assert paired(sides, [(method, "graft") if is_compared else ("graft", method)]).empty is not is_compared


def test_a_model_without_a_region_meets_the_graft_of_every_size_with_predictions() -> None:
    small = seen("lora", recipe="lora", right=RIGHT[::-1])
    bare, stored = (
        [seen(localizer="stagewise", size=size, requested_size=str(size), **told) for size in sizes]
        for sizes, told in (((200.0, 400.0), {"values": {"accuracy": 0.5}}), ((50.0, 100.0), {"right": RIGHT}))
    )
    rows, alone = (paired([small, *bare, *grafts], [("lora", "graft")]).query("metric == 'accuracy'")
                   for grafts in (stored, []))  # fmt: skip
    assert sorted(rows["size"]) == [50.0, 100.0] and len(alone) == 1


OF_MODELS = {("m0", 0): 0.8, ("m0", 1): 0.9, ("m1", 0): 0.6, ("m1", 1): 0.7, ("m2", 0): 0.5}
ENDS = {"accuracy": (0.77, 0.83)}
MOVEMENT = {"localizer": "movement", "size": 100.0, "requested_size": "10%", "values": {"accuracy": 0.7}}
RIVALS = [
    seen("graft_movement", localizer="movement", size=size, requested_size=str(size), right=right)
    for size, right in ((10.0, "0000000000"), (100.0, "1111100000"), (300.0, "1111111111"))
]
KEPT_ALONE = [
    seen("graft_lottery", localizer="lottery", size=size, requested_size=str(size), right=right)
    for size, right in ((300.0, "0000000000"), (500.0, "1111110000"), (900.0, "1111000000"))
]
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
        lambda: accuracy(*(seen(**GRAFT, model=m, seed=s, values={"accuracy": v}) for (m, s), v in OF_MODELS.items())),
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
        lambda: difference([seen(localizer="learned", size=50.0, right=RIGHT), *RIVALS], b="graft_movement"),
        {"value": pytest.approx(0.8 - 0.5), "size": 50},
    ),
    "a region whose rest is zero is met at the size that scores best": (
        lambda: difference([seen(**GRAFT, right=RIGHT), *KEPT_ALONE], b="graft_lottery"),
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
    found = make()
    assert {name: found[name] for name in wanted} == wanted


def side_of(*values: float, first_seed: int = 0, draws: np.ndarray | None = None) -> Side:
    return {
        seed: [Scored(Interval(value, value - 0.02, value + 0.02), draws=draws)]
        for seed, value in enumerate(values, first_seed)
    }


def test_the_interval_over_seeds_and_examples_is_that_of_the_core() -> None:
    rng, values = np.random.default_rng(0), (0.80, 0.83, 0.86)
    draws = [0.8 + 0.01 * rng.normal(size=1000) for _ in values]
    side = {seed: [Scored(Interval(v, 0, 1), draws=d)] for seed, (v, d) in enumerate(zip(values, draws, strict=True))}
    found, stored = mean_over_seeds(side, "accuracy"), mean_over_seeds(side_of(*values), "accuracy")
    wanted = seeds_and_examples(values, float(np.mean(draws, axis=0).std(ddof=1)))
    joined = mean_of_intervals(values, np.array(values) - 0.02, np.array(values) + 0.02)
    assert (found.value, found.low, found.high, found.sd) == pytest.approx(wanted[:4])
    assert found.high - found.low > 1.9 * 4.303 * 0.03 / np.sqrt(3) * 0.8, "a planted narrower interval is caught"
    assert (stored.low, stored.high) == pytest.approx(joined[1:3])


def test_a_calibration_error_joins_the_intervals_of_its_seeds() -> None:
    errors = [(0.05, 0.01, 0.06, 0.03), (0.04, 0.0, 0.05, 0.02), (0.06, 0.02, 0.07, 0.05)]
    side = {seed: [Scored(Interval(*one), draws=np.full(50, 0.5))] for seed, one in enumerate(errors)}
    found, (_, low, high, debiased) = mean_over_seeds(side, "ece"), np.array(errors).T
    wanted = mean_of_intervals(debiased, low, high)
    assert (found.value, found.debiased, found.low, found.high) == pytest.approx(
        (0.05, debiased.mean(), max(wanted.low, 0.0), wanted.high)
    )
    without = {**side, 3: [Scored(Interval(0.05, np.nan, np.nan))]}
    assert np.isnan(mean_over_seeds(without, "ece").low), "one seed without an interval leaves none"


def test_seeds_that_do_not_belong_together_count_on_both_sides() -> None:
    a, b, draws = (0.80, 0.83, 0.86), (0.70, 0.75), np.random.default_rng(0).normal(0.8, 0.01, 500)
    found, one, same = (
        difference_over_seeds(side_of(*a, draws=draws), side_of(*other, first_seed=first, draws=draws), "accuracy")
        for other, first in ((b, 7), (b[:1], 7), (a, 0))
    )
    wanted = seeds_and_examples(np.subtract.outer(a, b), 0.0)
    assert (found.value, found.low, found.high) == pytest.approx((0.83 - 0.725, wanted.low, wanted.high))
    assert (one.high - one.low, same[:3]) == (pytest.approx(np.ptp(seeds_and_examples(a, 0.0)[1:3])), (0, 0, 0))


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
    each = [metric_difference(one.answers.logits, logits, labels, "ece") for one in a]  # type: ignore[union-attr]
    value, low, high, debiased, *_ = np.array(each).T
    row, wanted = difference([*a, b], metric="ece"), mean_of_intervals(debiased, low, high)
    ends, told = (
        [value.mean(), wanted.value, wanted.low, wanted.high],
        row[["value", "debiased", "low", "high"]].tolist(),
    )
    assert (row["over"], told) == ("examples and seeds", pytest.approx(ends))
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


def test_scores_of_three_seeds_are_as_uncertain_as_their_t_interval() -> None:
    """With ten thousand examples only the seeds vary: 80%, 83% and 86% are right."""
    labels, place = np.zeros(10_000, np.int64), np.arange(10_000)
    ones = (np.where(place < right * 10_000, 1.0, -1.0) for right in (0.80, 0.83, 0.86))
    logits = [np.stack([one, np.zeros(10_000)], axis=1) for one in ones]
    row = next(r for r in score_rows(logits, labels, TaskNote(name="a", labels=("no", "yes")), {}))
    assert (row["metric"], row["mean"]) == ("accuracy", pytest.approx(0.83))
    assert row["high"] - row["low"] == pytest.approx(2 * 4.303 * 0.03 / np.sqrt(3), rel=0.1)


def ladder(*checked: float, tested: tuple[float, ...] = (0.6, 0.7, 0.8)) -> list[Observation]:
    """Return grafts of three sizes with these validation and test accuracies; the gain is 0.5 to 0.9 on both splits."""
    ends = [
        seen(method, split=split, values={"accuracy": value, "ece": 0.1})
        for split in ("validation", "test")
        for method, value in (("pretrained", 0.5), ("ft", 0.9), ("ft_scaled", 0.9))
    ]
    rows = [
        seen(split=split, values={"accuracy": value, "ece": 0.04, "recovered": 0.5}, localizer="stagewise",
             size=10.0 ** (place + 1), requested_size=f"{10**place}%")
        for split, values in (("validation", checked), ("test", tested)) for place, value in enumerate(values)
    ]  # fmt: skip
    return [*ends, *rows]


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


def test_without_a_gain_there_is_no_size_that_recovers_it() -> None:
    flat = [one for one in ladder(0.7, 0.8, 0.9) if one.method != "ft"]
    assert recovered([*flat, seen("ft", split="validation", values={"accuracy": 0.5})]).empty


def test_a_gain_that_may_be_chance_on_test_is_none() -> None:
    """The fine-tuned model has 104 of 200 examples right and the base 100, on other examples: no gain is shown."""
    grafts = [one for one in ladder(0.7, 0.885, 0.9) if one.split == "validation" or one.method == "graft"]
    found = [*grafts, seen("pretrained", right="10" * 100)]
    chance, better = [*found, seen("ft", right="01" * 96 + "1" * 8)], [*found, seen("ft", right="1" * 200)]
    assert recovered(chance).empty and len(recovered(better)) == 1 and without_gain(better) == []
    both = [*better, *(replace(one, recipe="bitfit") for one in chance)]
    (said,), (other,) = without_gain(chance), without_gain(both)
    assert said.startswith("Fine-tuning gains nothing beyond chance on sst2: there is no gain")
    assert "(bitfit, all)" in other and "sgd" not in other, "the other model of the task has its row"
    assert without_gain([one for one in chance if one.method != "ft"]) == [], "no fine-tuned model was scored"


def test_histograms_count_every_example_once_and_average_seeds() -> None:
    grafts = [seen(**GRAFT, seed=0, right=RIGHT, sure=0.2), seen(**GRAFT, seed=1, right="1" * 10, sure=5.0)]
    frame = histogram([seen("ft", right=RIGHT, sure=5.0), *grafts])
    sums = frame.groupby(["state", "share"], dropna=False)["count"].sum().reset_index().values.tolist()
    assert sums == [["finetuned", pytest.approx(np.nan, nan_ok=True), 10], ["grafted", 0.1, 10]]
    (top,) = frame.query("high_edge == 1 and state == 'grafted'")[["count", "correct"]].values.tolist()
    assert top == [5, 5], "one of the two seeds; its bin has all ten examples"
    assert frame.query("state == 'finetuned'")["correct"].sum() == RIGHT.count("1")


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
    row = rows_of(runs, "movement").loc["accuracy", ["mean", "low", "high", "sd"]]
    one = of(runs, "movement")[0].record.metrics["test"].states["grafted"]["accuracy"]
    assert row.tolist() == pytest.approx([one.value, one.low, one.high, np.nan], nan_ok=True), "Wilson's"


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


def test_nothing_gives_empty_tables_with_their_columns() -> None:
    assert (list(table_of_runs([]).columns), len(table_of_runs([])), list(differences([]).columns)) == (
        list(TABLE),
        0,
        list(DIFFERENCES),
    )


def test_each_pair_at_equal_size_and_its_mirror(runs: list[Run]) -> None:
    frame = differences(runs, metrics=("accuracy", "nll"))
    assert len(frame) == 2 * 2 * 2 and (frame["n"] == 60).all()
    for _, row in frame.iterrows():
        other = frame.query("a == @row.b and size == @row['size'] and metric == @row.metric").iloc[0]
        assert (row["value"], row["low"], row["high"]) == pytest.approx(
            (-other["value"], -other["high"], -other["low"])
        )
        same = [r for r in runs if r.record.size == row["size"]]
        a, b = (values([r for r in same if r.spec.localizer == row[side]], row["metric"]).mean() for side in "ab")
        assert row["value"] == pytest.approx(a - b) and row["low"] <= row["value"] <= row["high"]


def test_a_run_against_itself_differs_by_exactly_nothing(runs: list[Run]) -> None:
    one = of(runs, "movement")
    for metric, sides in sampled({"a": one, "b": one}, ("accuracy", "ece")).by_metric.items():
        assert difference_over_seeds(sides["a"], sides["b"], metric)[:3] == (0, 0, 0)


def test_pairing_narrows_the_interval(runs: list[Run]) -> None:
    both = {"a": of(runs, "stagewise"), "b": of(runs, "stagewise", "10%")}
    for metric, sides in sampled(both, ("accuracy", "nll", "ece")).by_metric.items():
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
