"""Tests of the paper's published values as printed, and of the verdict on a claim, which uses intervals alone."""

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import numpy as np
import pandas as pd
import pytest

from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import RECIPES
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
from skillviz.studies.paper.published_values import (
    FOLDER,
    NAMES,
    SETTINGS,
    TABLES,
    numbers,
    published,
    slips,
    stands_for,
    stated,
)
from skillviz.tasks.registry import TASKS as KNOWN
from skillviz.ui import paper_words as words
from tests.core.by_hand import by_hand, refused
from tests.studies.fake_tables import FAKE_TABLES, TASKS

NAN = float("nan")


def row(task: str = "cr", value: float = 0.05, half: float = 0.02, **changed: object) -> dict[str, object]:
    """Return a row of `differences`: graft − ft in accuracy."""
    return {
        "id_task": task, "task": task, "setting": "all", "readout": "", "recipe": "sgd", "variant": "",
        "localizer": "stagewise", "search_variant": "", "size": 100.0,
        "share": 0.001, "a": "graft", "b": "ft", "metric": "accuracy", "value": value, "low": value - half,
        "high": value + half, "over": "seeds", "n": 100, "seeds": 3, **changed,
    }  # fmt: skip


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
    assert (found.outcome, (found.supporting, found.against, found.open)) == (
        wanted,
        tuple(said.count(one) for one in (True, False, None)),
    )


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
            counts = counted_comparisons(
                [Verdict("claim", (Comparison("here", plug_in, low, high, supports, limits=limits, debiased=center),))]
            )
            is_decided = supports is not None
            assert (counts.n, counts.decided, counts.held) == (1, is_decided, is_decided)


def test_equally_good_is_no_difference_from_zero() -> None:
    """An interval inside the margin is a verdict even if it contains zero; equal answers count without a p-value."""
    inside = Comparison("here", 0.0, -0.01, 0.01, within(-0.01, 0.01, 0.03), limits=(-0.03, 0.03))
    equal = Comparison("here", 0.0, 0.0, 0.0, within(0.0, 0.0, 0.03), limits=(-0.03, 0.03))
    assert (
        tuple(counted_comparisons([Verdict("claim", (inside, equal))]))[:2],
        counted_comparisons([Verdict("claim", (Comparison("here", 0.1, NAN, NAN, None),))]).n,
    ) == ((2, 1), 0)


@pytest.mark.parametrize(
    ("shares", "main", "kept"),
    [((0.0001, 0.002, 0.1), 0.001, [0.002]), ((0.1,), 0.001, [0.1]), ((0.0, 0.001, 0.1), 0.001, [0.001]),
     ((0.0,), None, [0.0])],
    ids=["the nearest", "the only one", "an empty region has the smallest size", "an empty region alone"],
)  # fmt: skip
def test_each_task_is_judged_at_the_size_nearest_to_the_main_one(
    shares: tuple[float, ...], main: float | None, kept: list[float]
) -> None:
    assert (
        list(at_main(pd.DataFrame([*(row(share=share) for share in shares), row("mr", share=0.1)]), main)["share"]),
        main_share("small"),
    ) == ([*kept, 0.1], pytest.approx(0.001)) and main_share("own") is None


def tuned(task: str = "cr", mean: float = 0.8, **changed: object) -> dict[str, object]:
    """Return a row of `scores`: the fine-tuned model's accuracy."""
    return {
        "id_task": task, "task": task, "setting": "all", "readout": "", "split": "test", "method": "ft",
        "metric": "accuracy", "mean": mean, **changed,
    }  # fmt: skip


def kept(*scores: dict[str, object], **changed: object) -> dict[str, float]:
    """Return the share of each task's fine-tuned score that the graft keeps, from Table 2's first claim."""
    return {
        one.where: one.value
        for one in verdicts(
            "table2",
            {
                "differences": pd.DataFrame([row(task, -0.1, **changed) for task in ("cr", "mr")]),
                "scores": pd.DataFrame(list(scores)),
            },
            None,
        )[0].comparisons
    }


@pytest.mark.parametrize("mean", [0.0, NAN])
def test_of_a_score_of_zero_no_share_is_kept(mean: float) -> None:
    assert (kept(tuned("cr", mean), tuned("mr")), kept()) == ({"mr": pytest.approx(0.875)}, {})


MRPC = [row("mrpc", -0.05), row("mrpc", 0.05, metric="f1"), row("cr", -0.05)]
SHIFTS = {
    ("qnli", "mnli_01"): "large", ("mpqa", "yelp_reviews"): "large", ("sst2", "imdb"): "small",
    ("mnli", "snli"): "small", ("qnli", "qnli"): "none",
}  # fmt: skip
test_the_rules_of_a_claim_by_hand = by_hand(
    ("a comparison of calibration holds the debiased difference", [(-0.045, (0.0,))],
     lambda: [(one.debiased, one.limits)
              for one in outcome("table2", 1, row(metric="ece", value=-0.05, debiased=-0.045)).comparisons]),
    ("F1 stands for a task that has it", [0.05, -0.05], lambda: list(of_task_metric(pd.DataFrame(MRPC))["value"])),
    ("what is kept is measured against the same training data and readout", pytest.approx(0.8),
     lambda: kept(tuned(mean=0.4, readout="head"), tuned(mean=0.5), tuned("mr", 0.5))["cr"]),
    ("where the paper claims nothing there is no verdict", [], verdicts, "sensitivity", {}, "small"),
    ("nor without an experiment", [], verdicts, None, {}, None),
    ("only tasks that something was learned after can be forgotten", list(TASKS[:2]),
     lambda: [one.where for one in verdicts("table4", every_table(), "small")[0].comparisons]),
    *((f"is the shift from {pair[0]} to {pair[1]} {name}", size == name, shift, *pair)
      for pair, size in SHIFTS.items() for name, shift in (("large", large_shift), ("small", small_shift))),
)  # fmt: skip


@pytest.mark.cases(6, 5)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_is_judged_or_says_that_it_was_not_tested(name: str) -> None:
    assert {one.outcome for one in verdicts(name, {}, "small")} <= {NOT_MEASURED} and np.isfinite(
        [(c.value, c.low, c.high) for one in verdicts(name, every_table(), "small") for c in one.comparisons]
    ).all()


def test_the_mean_of_a_claim_has_the_mean_of_its_ends() -> None:
    several = [Comparison(str(n), *ends, None) for n, ends in enumerate([(0.1, 0.0, 0.3), (0.2, 0.1, 0.3)])]
    without = Comparison("without", 9.0, NAN, NAN, None)
    mean, only = Verdict("claim", (*several, without)).mean, Verdict("claim", (without,)).mean
    assert mean is not None
    assert only is not None
    assert Verdict("claim", ()).mean is None
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.15, 0.05, 0.3))
    assert mean.where == "mean of 2"
    assert only.value == 9.0
    assert np.isnan(only.low)


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
    return [
        {**common, "step": s, "value": v, "low": v - 0.01, "high": v + 0.01}
        for s, v in {int(name.removeprefix("step_")): value for name, value in by_step.items()}.items()
    ]


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
    found = verdicts(
        "figure15",
        {
            "checkpoints": pd.DataFrame(
                [*along("gap", step_50=gap, step_800=-0.2), *along("gap_change", step_200=0.5, step_800=change)]
            ).sample(frac=1, random_state=0)
        },
        None,
    )
    ((first,), (last,)) = (verdict.comparisons for verdict in found)
    assert first.where == "cr, step 50"
    assert first.value == gap
    assert last.value == -change
    assert (first.supports, last.supports) == said
    assert first.is_paired
    assert last.is_paired


def make_up(kind: str, selected: Callable[[int], int], layers: int = 4) -> dict[str, pd.DataFrame]:
    """Return the make-up of three regions: so many entries of 1,000 of this kind in each layer, and more by seed."""
    told = {"task": "cr", "localizer": "stagewise", "variant": "", "is_bias": False, "total": 1000}
    return {
        "composition": pd.DataFrame(
            [
                {**told, "seed": seed, "layer": layer, "kind": kind, "selected": selected(layer) + seed * (layers > 1)}
                for seed in range(3)
                for layer in range(layers)
            ]
        ).assign(share=0.0, density_ratio=0.0)
    }


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


UNPAIRED = {"a": "graft", "b": "graft_movement", "over": "examples and seeds, unpaired"}


def test_what_is_not_paired_says_so_and_what_has_no_interval_is_counted() -> None:
    found = outcome(
        "figure2",
        0,
        *(
            row(task, **UNPAIRED | own)
            for task, own in zip(
                TASKS, ({}, {"over": "examples and seeds"}, {"low": NAN, "high": NAN, "over": ""}), strict=False
            )
        ),
    )
    assert ([words.value_words(one) for one in found.comparisons], words.support(found)) == (
        ["+5.0 points, 95%, not paired: 3.0–7.0", "+5.0 points, 95%: 3.0–7.0", "+5.0 points, 95%: no interval"],
        "2 of 2 comparisons support it; 1 more is not measured",
    )


def test_ends_of_a_difference_of_two_sizes_are_joined_as_squares() -> None:
    """Not added, as in Zou and Donner (2008); the difference is not paired, nor is a mean of such."""
    rows = (row(share=share, value=value, **UNPAIRED) for share, value in ((0.001, 0.09), (0.1, 0.03)))
    ((shrinks,), reach) = outcome("figure2", 2, *rows).comparisons, math.hypot(0.02, 0.02)
    several, alone = (Verdict("claim", (shrinks,) * count) for count in (2, 1))
    assert (shrinks.value, shrinks.low, shrinks.high) == pytest.approx((0.06, 0.06 - reach, 0.06 + reach))
    assert not shrinks.is_paired
    assert not several.mean.is_paired
    assert several.mean is not None
    assert (
        "not paired" in words.value_words(shrinks)
        and "(not paired)" in evidence(alone, Verdict("claim", ()))["where"].iloc[0]
    )


test_published_values_by_hand = by_hand(
    ("the tables have the rows that were counted", {
        "table1": 32, "table2": 129, "table3": 12, "table4": 9, "table5": 32, "table6": 160, "table7": 128,
        "table8": 84, "table9": 108, "figures": 70,
     }, lambda: {name: len(published(name)) for name in NAMES}),
    ("what a claim quotes is printed", ["about 70%", "about 80%"],
     lambda: [stated(claim.stated) for row in EXPERIMENTS.values() for claim in row.claims if claim.stated]),
    ("and so is this quantity", "at least 5 points", stated, "graft minus FT, at least"),
)  # fmt: skip


def value(name: str, **asked: object) -> float:
    """Return the only value of a table with these fields."""
    rows = published(name)
    (found,) = rows[(rows[list(asked)] == pd.Series(asked)).all(axis=1)]["value"]
    return round(100 * float(found), 3)


def test_values_are_shares_and_keep_their_printed_digits() -> None:
    (row,) = published("table1").query("method == 'graft' and id_task == 'sst2' and metric == 'ece'").to_dict("records")
    assert row["printed"] == "3.1"
    assert row["value"] == pytest.approx(0.031)
    assert row["share"] == pytest.approx(0.0001)
    assert published("table2").query("method == 'graft'")["is_bound"].all()
    assert (
        [name for name in TABLES if not set(published(name)["setting"]) <= set(SETTINGS)],
        [name for name in TABLES if not published(name)["value"].between(0, 1).all()],
    ) == ([], [])


def test_the_averages_of_table_2_agree_with_their_rows() -> None:
    table = published("table2")
    rows, averages = (table[table["kind"] == kind] for kind in ("row", "average"))
    assert len(averages) == 17
    for average in averages.to_dict("records"):
        own = rows[
            (
                rows["id_task"].isin(("qnli", "snli", "mnli", "rte", "mrpc", "qqp"))
                == (average["task"] == "avg_two_sentence")
            )
            & (rows[["setting", "method"]] == [average["setting"], average["method"]]).all(axis=1)
            & rows["metric"].isin(("accuracy", "f1") if average["metric"] == "accuracy_or_f1" else (average["metric"],))
        ]
        assert (
            abs(100 * own["value"].mean() - float(average["printed"]))
            <= 0.5 * 10 ** -len(average["printed"].partition(".")[2]) + 1e-6
        ), average


@pytest.mark.parametrize("name", ["table6", "table7"])
def test_the_averages_of_tables_6_and_7_agree_but_for_the_known_slips(name: str) -> None:
    for key, own in published(name).groupby(["method", "config", "share"]):
        rows = own[own["kind"] == "row"]
        for average in own[own["kind"] == "average"].to_dict("records"):
            notes = rows["note"].str.startswith("ID" if average["task"] == "avg_id" else "zero-shot")
            metrics = rows["metric"].isin(("ece",) if average["metric"] == "ece" else ("accuracy", "f1"))
            gap = abs(100 * rows[metrics if name == "table6" else notes]["value"].mean() - float(average["printed"]))
            is_slip = (name, *key[:2]) == ("table7", "adapter_pfeiffer", "rank=16") and average["task"] == "avg_ood"
            # elsewhere the last digit may have been rounded differently
            assert (gap > 1) if is_slip else (gap <= 0.11), (key, average["task"], gap)


def test_tasks_and_methods_go_by_our_names() -> None:
    assert {
        task for name in TABLES for task in published(name).query("kind == 'row'")[["task", "id_task"]].values.flat
    } <= {*KNOWN, "sentiment", "qnli>ag_news>sst2"} and {
        *published("table4")[["method", "method_as_printed"]].itertuples(index=False, name=None)
    } == {("independent", "ft"), ("continual_naive", "continual_ft"), ("continual_graft", "continual_graft")}
    assert (stands_for("sst2_sentences"), stands_for("sst2")) == ("sst2", "sst2") and {
        stands_for(task) for task in ("uci_yelp", "uci_imdb", "yelp_reviews")
    } <= set(KNOWN)


def test_the_slips_concern_what_they_name_and_are_true_of_the_rows() -> None:
    assert (
        {
            name
            for names in pd.read_csv(FOLDER / "slips.csv")["where"]
            for name in names.split(";")
            if name.startswith("table")
        }
        <= set(TABLES)
        and any("71.2" in text for text in slips("table7"))
        and not slips("table3")
    )
    f1 = {name: published(name).query("id_task == 'qqp' and method == 'ft' and metric == 'f1'") for name in TABLES}
    brackets = {name: set(rows[rows["setting"] == "4096-shot"]["printed_std"]) for name, rows in f1.items()}
    assert (brackets["table1"], value("table8", id_task="qqp", metric="overlap_iou", share=0.0001)) == (
        {"0.1"},
        11.4,
    ) and brackets["table2"] == brackets["table6"] == {"0.6"}
    graft = {"id_task": "sst2", "method": "graft", "metric": "ece", "share": 0.0001}
    assert (value("table6", **graft), value("table8", **graft)) == (3.2, 3.1)


test_an_unknown_name_is_refused_with_the_known_ones = refused(
    BadInput,
    ("'table10' is no published table; known: table1", published, "table10"),
    ("is no quantity of", stated, "nothing"),
)


def test_what_a_caller_does_to_its_copy_stays_there() -> None:
    own = published("table1")
    own.loc[:, "value"] = 0.0
    assert published("table1")["value"].max() > 0.9


def test_numbers_of_text_and_captions_go_to_the_table_or_figure_that_they_are_about() -> None:
    seven = numbers("figure7")
    assert {"80.5", "79.6", "84.2", "80.0"} <= set(seven["value"])
    assert set(seven["topic"]) == {"wise", "ood"}
    assert len(numbers("figure1")) == 0
    assert len(numbers("table8")) == 2
    assert set(numbers("figure15")["where"]) == {"figure 15"}
    assert "figure 11" not in set(numbers("figure8")["where"])


def test_a_claim_is_computed_from_the_published_values_as_from_ours() -> None:
    """Computed by hand from printed rows: Table 2's ECE, Table 8's FISH grafts at 0.01%, Table 4's first two tasks."""
    wide = (
        published("table2")
        .query("setting == '4096-shot' and kind == 'row' and metric == 'ece'")
        .pivot(index="task", columns="method", values="value")
    )
    calibrated, (shared, fish, _) = EXPERIMENTS["table2"].in_paper()[1], EXPERIMENTS["table8"].in_paper()
    assert calibrated.mean.value == pytest.approx((wide["graft"] - wide["ft"]).mean())
    assert fish.mean.value == pytest.approx(0.128, abs=0.001)
    assert shared.comparisons[0].value == pytest.approx(0.092)
    assert len(calibrated.comparisons) == len(wide)
    assert len(shared.comparisons) == 12
    naive, _ = EXPERIMENTS["table4"].in_paper()
    assert {one.where: round(one.value, 3) for one in naive.comparisons} == {"qnli": -0.205, "ag_news": -0.055}


def test_tables_6_and_7_compare_each_size_with_the_nearest_graft_as_their_captions_do() -> None:
    """The captions: LoRA of rank 1 (Table 6), Houlsby adapters of width 2 (Table 7), against the graft of 0.05%."""
    worse, better = EXPERIMENTS["table6"].in_paper()
    other, own = EXPERIMENTS["table7"].in_paper()
    for verdict, size, said in (
        (worse, "LoRA rank 1", 0.046), (better, "LoRA rank 1", 0.017), (other, "Houlsby width 2", -0.079),
        (own, "Houlsby width 2", 0.010),
    ):  # fmt: skip
        found = [one.value for one in verdict.comparisons if one.where.startswith(f"{size}:")]
        assert np.mean(found) == pytest.approx(said, abs=0.0011) and len(verdict.comparisons) == 11 * len(found)


def test_a_small_update_is_compared_at_its_size_or_not_at_all() -> None:
    """LoRA touches 0.4% of 1,000 parameters (a graft of 0.5% is nearest), and 10%, which no graft is near to."""
    sizes = {"rank 1": 4.0, "rank 8": 100.0}
    scores = [{"method": "lora", "variant": name, "touched": size} for name, size in sizes.items()]
    scores += [{"method": "graft", "variant": "", "size": 1000 * share, "share": share} for share in (0.001, 0.005)]
    rows = [
        row(a="lora", b="graft", variant=name, share=share, metric="ece", value=value)
        for name in sizes for share, value in ((0.001, -0.05), (0.005, 0.05))
    ]  # fmt: skip
    tables = {"scores": pd.DataFrame(scores), "differences": pd.DataFrame(rows)}
    worse, _ = verdicts("table6", tables, None)
    assert [(one.where, one.value, one.supports) for one in worse.comparisons] == [("LoRA rank 1: cr", 0.05, True)]
    assert verdicts("table6", {}, None)[0].outcome == NOT_MEASURED


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_published_comparison_stands_twice_and_none_has_an_interval(name: str) -> None:
    for verdict in EXPERIMENTS[name].in_paper():
        found = [(one.where, np.isfinite(one.value), np.isnan(one.low)) for one in verdict.comparisons]
        assert found == [(where, True, True) for where in dict.fromkeys(where for where, *_ in found)]


def test_the_overlap_of_two_starts_decides_both_ways() -> None:
    """From top movement regions share five points more in the invented table; turned round, it is contradicted."""
    table = FAKE_TABLES["variants"](TASKS, np.random.default_rng(0)).assign(
        low=lambda rows: rows["value"] - 0.01, high=lambda rows: rows["value"] + 0.01
    )
    planted = table.assign(variant=table["variant"].map({"no entry": "top movement", "top movement": "no entry"}))
    for rows, wanted, value in ((table, CONFIRMED, 0.05), (planted, CONTRADICTED, -0.05)):
        found = verdicts("figure11", {"variants": rows}, "small")[0]
        assert (found.outcome, [one.value for one in found.comparisons]) == (wanted, [pytest.approx(value)] * 2)
    assert verdicts("figure11", {}, "small")[0].outcome == NOT_MEASURED
    names = {"top movement": "AdamW", "no entry": "AdamW + l1"}
    names = dict(zip(names, (RECIPES["adamw"].title, RECIPES["adamw-l1"].title), strict=True))
    for shift, wanted in ((0.05, CONTRADICTED), (0.0, CONFIRMED)):
        rows = table.assign(variant=table["variant"].map(names))
        first = rows["variant"] == names["top movement"]
        for end in ("value", "low", "high"):
            rows.loc[first, end] += shift - 0.05
        assert verdicts("figure14", {"variants": rows}, "small")[0].outcome == wanted
