"""Tests of the verdict on a claim, which uses intervals alone: supporting, contradicting or inconclusive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import numpy as np
import pandas as pd
import pytest

from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.show.paper import evidence
from skillviz.studies.paper.claims import (
    Comparison,
    Verdict,
    at_main,
    beyond,
    counted_comparisons,
    main_share,
    of_task_metric,
    within,
)
from skillviz.studies.paper.comparisons import large_shift, small_shift
from skillviz.studies.paper.experiments import EXPERIMENTS, verdicts
from skillviz.ui import paper_words as words
from tests.studies.fake_tables import FAKE_TABLES, TASKS

NAN = float("nan")


def row(task: str = "cr", value: float = 0.05, half: float = 0.02, **changed: object) -> dict[str, object]:
    """Return a row of `differences`: graft − ft in accuracy."""
    told = {
        "id_task": task, "task": task, "setting": "all", "readout": "", "recipe": "sgd", "variant": "",
        "localizer": "stagewise", "search_variant": "", "size": 100.0,
        "share": 0.001, "a": "graft", "b": "ft", "metric": "accuracy", "value": value, "low": value - half,
        "high": value + half, "over": "seeds", "n": 100, "seeds": 3,
    }  # fmt: skip
    return {**told, **changed}


def outcome(experiment: str, number: int, *rows: dict[str, object]) -> Verdict:
    """Return the verdict on one claim from these rows of `differences`."""
    return verdicts(experiment, {"differences": pd.DataFrame(rows)}, None)[number]


def every_table() -> dict[str, pd.DataFrame]:
    """Return every table of an invented study."""
    return {name: make(TASKS, np.random.default_rng(0)) for name, make in FAKE_TABLES.items()}


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (lambda: beyond(0.1, 0.2), True), (lambda: beyond(-0.1, 0.2), None), (lambda: beyond(-0.2, -0.1), False),
        (lambda: beyond(-0.2, -0.1, 0.0, -1), True), (lambda: beyond(0.1, 0.2, 0.0, -1), False),
        # What has no interval decides nothing.
        (lambda: beyond(NAN, 0.2), None), (lambda: beyond(0.1, 0.1), None), (lambda: within(NAN, 0.0, 0.03), None),
        # Alike is an interval inside the margin.
        (lambda: within(-0.02, 0.01, 0.03), True), (lambda: within(-0.02, 0.05, 0.03), None),
        (lambda: within(0.04, 0.09, 0.03), False),
    ],
)  # fmt: skip
def test_an_interval_decides_only_as_a_whole(judge: Callable[[], bool | None], said: bool | None) -> None:
    assert judge() is said


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ((True, True, None), CONFIRMED),
        ((True, None), CONFIRMED),
        ((True, None, None), INCONCLUSIVE),
        ((True, False), INCONCLUSIVE),
        ((False, False, None), CONTRADICTED),
        ((None, None), INCONCLUSIVE),
        ((), NOT_MEASURED),
    ],
)
def test_a_claim_goes_with_half_of_its_comparisons(said: tuple[bool | None, ...], wanted: str) -> None:
    found = Verdict("claim", tuple(Comparison("here", 0.1, 0.0, 0.2, one) for one in said))
    assert found.outcome == wanted
    assert (found.supporting, found.against, found.open) == tuple(said.count(one) for one in (True, False, None))


@pytest.mark.slow
def test_verdicts_are_counted_against_the_limit_of_their_claim() -> None:
    """A comparison is decided exactly if its p-value is below 5%, for any limits and debiased value."""
    generator = np.random.default_rng(0)
    for _ in range(300):
        center, margin = generator.normal(0, 0.03), 0.03
        low, high = center - generator.uniform(0.001, 0.05), center + generator.uniform(0.001, 0.05)
        plug_in = center + generator.normal(0, 0.05)
        for supports, limits in (
            (within(low, high, margin), (-margin, margin)),
            (beyond(low, high), (0.0,)),
            (beyond(low, high, margin, -1), (margin,)),
        ):
            one = Comparison("here", plug_in, low, high, supports, limits=limits, debiased=center)
            counts = counted_comparisons([Verdict("claim", (one,))])
            is_decided = supports is not None
            assert (counts.n, counts.decided, counts.held) == (1, is_decided, is_decided)


def test_equally_good_is_no_difference_from_zero() -> None:
    """An interval inside the margin is a verdict even if it contains zero; equal answers count without a p-value."""
    inside = Comparison("here", 0.0, -0.01, 0.01, within(-0.01, 0.01, 0.03), limits=(-0.03, 0.03))
    equal = Comparison("here", 0.0, 0.0, 0.0, within(0.0, 0.0, 0.03), limits=(-0.03, 0.03))
    assert tuple(counted_comparisons([Verdict("claim", (inside, equal))]))[:2] == (2, 1)
    assert counted_comparisons([Verdict("claim", (Comparison("here", 0.1, NAN, NAN, None),))]).n == 0


def test_comparisons_of_calibration_hold_the_debiased_difference() -> None:
    (one,) = outcome("table2", 1, row(metric="ece", value=-0.05, debiased=-0.045)).comparisons
    assert one.debiased == -0.045 and one.limits == (0.0,)


def test_f1_stands_for_a_task_that_has_it() -> None:
    rows = [row("mrpc", -0.05), row("mrpc", 0.05, metric="f1"), row("cr", -0.05)]
    assert list(of_task_metric(pd.DataFrame(rows))["value"]) == [0.05, -0.05]


@pytest.mark.parametrize(
    ("shares", "main", "kept"),
    [((0.0001, 0.002, 0.1), 0.001, [0.002]), ((0.1,), 0.001, [0.1]), ((0.0, 0.001, 0.1), 0.001, [0.001]),
     ((0.0,), None, [0.0])],
    ids=["the nearest", "the only one", "an empty region has the smallest size", "an empty region alone"],
)  # fmt: skip
def test_each_task_is_judged_at_the_size_nearest_to_the_main_one(
    shares: tuple[float, ...], main: float | None, kept: list[float]
) -> None:
    rows = pd.DataFrame([*(row(share=share) for share in shares), row("mr", share=0.1)])
    assert list(at_main(rows, main)["share"]) == [*kept, 0.1]
    assert main_share("small") == pytest.approx(0.001) and main_share("own") is None


def tuned(task: str = "cr", mean: float = 0.8, **changed: object) -> dict[str, object]:
    """Return a row of `scores`: the fine-tuned model's accuracy."""
    told = {"id_task": task, "task": task, "setting": "all", "readout": "", "split": "test"}
    return {**told, "method": "ft", "metric": "accuracy", "mean": mean, **changed}


def kept(*scores: dict[str, object], **changed: object) -> dict[str, float]:
    """Return the share of each task's fine-tuned score that the graft keeps, from Table 2's first claim."""
    rows = [row(task, -0.1, **changed) for task in ("cr", "mr")]
    tables = {"differences": pd.DataFrame(rows), "scores": pd.DataFrame(list(scores))}
    return {one.where: one.value for one in verdicts("table2", tables, None)[0].comparisons}


@pytest.mark.parametrize("mean", [0.0, NAN])
def test_of_a_score_of_zero_no_share_is_kept(mean: float) -> None:
    assert kept(tuned("cr", mean), tuned("mr")) == {"mr": pytest.approx(0.875)}
    assert kept() == {}


def test_what_is_kept_is_measured_against_the_same_training_data_and_readout() -> None:
    assert kept(tuned(mean=0.4, readout="head"), tuned(mean=0.5), tuned("mr", 0.5))["cr"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("task", "other", "shift"),
    [
        ("qnli", "mnli_01", "large"), ("mpqa", "yelp_reviews", "large"), ("sst2", "imdb", "small"),
        ("mnli", "snli", "small"), ("qnli", "qnli", ""),
    ],
)  # fmt: skip
def test_a_shift_is_large_where_the_paper_calls_it_so(task: str, other: str, shift: str) -> None:
    assert (large_shift(task, other), small_shift(task, other)) == (shift == "large", shift == "small")


def test_where_the_paper_claims_nothing_there_is_no_verdict() -> None:
    assert verdicts("sensitivity", {}, "small") == [] and verdicts(None, {}, None) == []


@pytest.mark.cases(6, 5)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_is_judged_or_says_that_it_was_not_tested(name: str) -> None:
    assert {one.outcome for one in verdicts(name, {}, "small")} <= {NOT_MEASURED}
    found = [(c.value, c.low, c.high) for one in verdicts(name, every_table(), "small") for c in one.comparisons]
    assert np.isfinite(found).all()


def test_the_mean_of_a_claim_has_the_mean_of_its_ends() -> None:
    several = [Comparison(str(n), *ends, None) for n, ends in enumerate([(0.1, 0.0, 0.3), (0.2, 0.1, 0.3)])]
    without = Comparison("without", 9.0, NAN, NAN, None)
    mean, only = Verdict("claim", (*several, without)).mean, Verdict("claim", (without,)).mean
    assert mean is not None and only is not None and Verdict("claim", ()).mean is None
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.15, 0.05, 0.3)) and mean.where == "mean of 2"
    assert only.value == 9.0 and np.isnan(only.low)


def test_the_mean_interval_covers_however_the_comparisons_depend() -> None:
    """With 1,000 draws of four equal errors and of four independent errors, the coverage is at least nominal."""
    random = np.random.default_rng(0)
    for errors in (random.normal(size=(1000, 1)).repeat(4, axis=1), random.normal(size=(1000, 4))):
        covered = [
            mean.low <= 0 <= mean.high
            for draw in errors
            if (mean := Verdict("c", tuple(Comparison("", e, e - 1.96, e + 1.96, None) for e in draw)).mean)
        ]
        assert len(covered) == 1000 and np.mean(covered) > 0.93


def along(what: str, **by_step: float) -> list[dict[str, object]]:
    """Return rows of `checkpoints` of a search: the values at `step_50` and so on, with intervals of ±1 point."""
    common = {"id_task": "cr", "what": what, "localizer": "stagewise", "metric": "accuracy", "n": 600, "seeds": 3}
    values = {int(name.removeprefix("step_")): value for name, value in by_step.items()}
    return [{**common, "step": s, "value": v, "low": v - 0.01, "high": v + 0.01} for s, v in values.items()]


@pytest.mark.parametrize(
    ("gap", "change", "said"),
    [
        (-0.01, -0.03, (True, True)),
        (-0.01, 0.03, (True, False)),
        (-0.03, 0.005, (None, None)),
        (0.08, 0.0, (False, None)),
    ],
)
def test_along_fine_tuning_the_first_gap_and_its_last_change_are_judged(
    gap: float, change: float, said: tuple[bool | None, bool | None]
) -> None:
    """The gap is graft − model: if it falls, the model has improved more."""
    rows = [*along("gap", step_50=gap, step_800=-0.2), *along("gap_change", step_200=0.5, step_800=change)]
    found = verdicts("figure15", {"checkpoints": pd.DataFrame(rows).sample(frac=1, random_state=0)}, None)
    ((first,), (last,)) = (verdict.comparisons for verdict in found)
    assert (first.where, first.value, last.value) == ("cr, step 50", gap, -change)
    assert (first.supports, last.supports) == said and first.is_paired and last.is_paired


def make_up(kind: str, selected: Callable[[int], int], layers: int = 4) -> dict[str, pd.DataFrame]:
    """Return the make-up of three regions: so many entries of 1,000 of this kind in each layer, and more by seed."""
    told = {"task": "cr", "localizer": "stagewise", "variant": "", "is_bias": False, "total": 1000}
    rows = [{**told, "seed": seed, "layer": layer, "kind": kind, "selected": selected(layer) + seed * (layers > 1)}
            for seed in range(3) for layer in range(layers)]  # fmt: skip
    return {"composition": pd.DataFrame(rows).assign(share=0.0, density_ratio=0.0)}


# 500 of 600 examples of the model are near 1, and 200 of the graft.
CERTAIN = pd.DataFrame(
    [("finetuned", NAN, 0.5, 0.95, 100), ("finetuned", NAN, 0.95, 1.0, 500), ("grafted", 0.01, 0.5, 0.95, 400),
     ("grafted", 0.01, 0.95, 1.0, 200)], columns=["state", "share", "low_edge", "high_edge", "count"],
).assign(task="qnli", n=600, size=lambda rows: 1000 * rows["share"], correct=lambda rows: rows["count"])  # fmt: skip
IN_MIDDLE = make_up("value", lambda layer: 90 if layer in (1, 2) else 10)
TURNED = every_table()["isolation"].assign(value=lambda rows: -rows["value"], low=-0.2, high=-0.1)
VERDICTS: dict[str, tuple[Callable[[], Verdict], str, list[Any]]] = {
    "lower is better": (lambda: outcome("table2", 1, row(metric="ece", value=-0.05)), CONFIRMED, [-0.05]),
    "higher is worse": (lambda: outcome("table2", 1, row(metric="ece")), CONTRADICTED, [0.05]),
    "zero within": (lambda: outcome("table2", 1, row(metric="ece", value=-0.01)), INCONCLUSIVE, [-0.01]),
    "a row": (lambda: outcome("table1", 0, row(a="graft_retrain", b="graft")), CONFIRMED, [0.05]),
    "and the other way round": (
        lambda: outcome("table1", 0, row(a="graft", b="graft_retrain", value=-0.05)), CONFIRMED, [0.05]
    ),
    "the default search for the paper's": (
        lambda: outcome("table2", 1, row(metric="ece", value=-0.05), row(metric="ece", localizer="learned")),
        CONFIRMED, [-0.05],
    ),
    "the paper's alone": (lambda: outcome("table2", 1, row(metric="ece", localizer="learned")), CONTRADICTED, [0.05]),
    "forgotten": (lambda: verdicts("table4", every_table(), "small")[0], CONFIRMED, [ANY] * 2),
    "isolated": (lambda: verdicts("figure8", every_table(), "small")[0], CONFIRMED, [pytest.approx(0.15)]),
    "a planted result": (
        lambda: verdicts("figure8", {**every_table(), "isolation": TURNED}, "small")[0],
        CONTRADICTED, [pytest.approx(-0.15)],
    ),
    "confidence near one": (
        lambda: verdicts("figure6", {"histogram": CERTAIN}, None)[0], CONFIRMED, [pytest.approx(500 / 600 - 200 / 600)]
    ),
    "the middle against its fair share": (
        lambda: verdicts("figure9", IN_MIDDLE, None)[0], CONFIRMED, [pytest.approx(1.79, abs=0.02)]
    ),
    "a kind against its fair share": (
        lambda: verdicts("figure10", IN_MIDDLE, None)[0], NOT_MEASURED, [pytest.approx(1)]
    ),
    "a kind that there is not": (lambda: verdicts("figure10", IN_MIDDLE, None)[1], NOT_MEASURED, []),
    **{
        f"part {number} that the model does not have": (
            lambda number=number: verdicts("figure10", make_up("query", lambda layer: 10, layers=1), None)[number],
            NOT_MEASURED, [],
        )
        for number in range(3)
    },
    "an empty region": (
        lambda: verdicts("figure10", make_up("value", lambda layer: 0, layers=1), None)[0], NOT_MEASURED, []
    ),
    **{
        f"claim {number} without gaps": (
            lambda number=number: verdicts(
                "figure15", {"checkpoints": pd.DataFrame(along("finetuned", step_50=0.8))}, None
            )[number], NOT_MEASURED, [],
        )
        for number in range(2)
    },
}  # fmt: skip


@pytest.mark.parametrize(("judge", "wanted", "values"), VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_is_made_of_its_comparisons(judge: Callable[[], Verdict], wanted: str, values: list[Any]) -> None:
    found = judge()
    assert (found.outcome, [one.value for one in found.comparisons]) == (wanted, values)


def test_only_tasks_that_something_was_learned_after_can_be_forgotten() -> None:
    assert [one.where for one in verdicts("table4", every_table(), "small")[0].comparisons] == list(TASKS[:2])


UNPAIRED = {"a": "graft", "b": "graft_movement", "over": "examples and seeds, unpaired"}


def test_what_is_not_paired_says_so_and_what_has_no_interval_is_counted() -> None:
    changes = ({}, {"over": "examples and seeds"}, {"low": NAN, "high": NAN, "over": ""})
    found = outcome("figure2", 0, *(row(task, **UNPAIRED | own) for task, own in zip(TASKS, changes, strict=False)))
    assert [words.value_words(one) for one in found.comparisons] == [
        "+5.0 points, 95%, not paired: 3.0–7.0", "+5.0 points, 95%: 3.0–7.0", "+5.0 points, 95%: no interval",
    ]  # fmt: skip
    assert words.support(found) == "2 of 2 comparisons support it; 1 more is not measured"


def test_ends_of_a_difference_of_two_sizes_are_joined_as_squares() -> None:
    """Not added, as in Zou and Donner (2008); the difference is not paired, nor is a mean of such."""
    rows = (row(share=share, value=value, **UNPAIRED) for share, value in ((0.001, 0.09), (0.1, 0.03)))
    ((shrinks,), reach) = outcome("figure2", 2, *rows).comparisons, math.hypot(0.02, 0.02)
    several, alone = (Verdict("claim", (shrinks,) * count) for count in (2, 1))
    assert (shrinks.value, shrinks.low, shrinks.high) == pytest.approx((0.06, 0.06 - reach, 0.06 + reach))
    assert several.mean is not None and (shrinks.is_paired, several.mean.is_paired) == (False, False)
    assert "not paired" in words.value_words(shrinks)
    assert "(not paired)" in evidence(alone, Verdict("claim", ()))["where"].iloc[0]
