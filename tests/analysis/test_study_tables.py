"""The declared tables of a study, and what is made from observations written down by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.differences import paired
from skillviz.analysis.histogram import histogram
from skillviz.analysis.observations import Observation, once
from skillviz.analysis.recovered import recovered, without_gain
from skillviz.analysis.scores import score_rows, scores
from skillviz.analysis.seeds import Resampled, cut, difference_draws, mean_draws, widening
from skillviz.analysis.tables import TABLES, check, empty, notes
from skillviz.core.intervals import seeds_interval, wilson
from skillviz.runs.record import TaskNote
from tests.studies.tiny_studies import D, seen

GRAFT = {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}
RIGHT = "1111011101"


def row_of(frame: pd.DataFrame, **wanted: object) -> pd.Series:
    """The one row of these values."""
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, frame
    return frame.iloc[0]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_declared_in_words(name: str) -> None:
    columns = TABLES[name].columns
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.meaning for column in columns)
    assert check(empty(name), name).equals(empty(name))


def test_a_table_that_is_not_as_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="missing columns"):
        check(pd.DataFrame({"kind": ["iou"]}), "overlap")
    with pytest.raises(ValueError, match=r"unknown columns \['texts'\]"):
        check(pd.DataFrame({"texts": []}), "note")
    with pytest.raises(ValueError, match="missing values"):
        check(pd.DataFrame({"text": [None]}), "note")
    with pytest.raises(ValueError, match="not a table of a study"):
        check(pd.DataFrame(), "score")


def test_a_sentence_is_noted_once() -> None:
    assert notes("a", "b", "a")["text"].tolist() == ["a", "b"]


def test_one_model_is_averaged_over_its_mask_seeds() -> None:
    values = (0.8, 0.9, 0.7)
    found = [seen(**GRAFT, seed=seed, values={"accuracy": value}) for seed, value in enumerate(values)]
    row = row_of(scores(found), metric="accuracy")
    by_hand = seeds_interval(values)
    assert (row["mean"], row["sd"], row["low"]) == pytest.approx(by_hand[:1] + by_hand[3:4] + by_hand[1:2])
    assert by_hand.high > 1.04 and row["high"] == 1.0, "an accuracy is no larger than 1, whatever t says"
    assert row["seeds"] == 3 and np.isnan(row["pooled_low"]) and row["share"] == 100 / D


@pytest.mark.parametrize(
    ("metric", "ends"),
    [("ece", (0.0, 1.0)), ("nll", (0.0, 1.5)), ("recovered", (-0.5, 1.5)), ("overlap", (0.0, 1.0))],
)
def test_ends_are_cut_to_what_the_metric_can_be(metric: str, ends: tuple[float, float]) -> None:
    assert cut(metric, -0.5, 1.5) == ends
    assert np.isnan(cut(metric, np.nan, np.nan)).all()


def test_of_several_models_each_counts_by_the_mean_of_its_mask_seeds() -> None:
    values = {("m0", 0): 0.8, ("m0", 1): 0.9, ("m1", 0): 0.6, ("m1", 1): 0.7, ("m2", 0): 0.5}
    found = [seen(**GRAFT, model=m, seed=s, values={"accuracy": value}) for (m, s), value in values.items()]
    row = row_of(scores(found), metric="accuracy")
    assert row["seeds"] == 3 and row["mean"] == pytest.approx((0.85 + 0.65 + 0.5) / 3)
    assert row["mean"] != pytest.approx(np.mean(list(values.values())))  # what counting every run alike would give


def test_a_single_observation_keeps_the_interval_it_was_stored_with() -> None:
    hits = RIGHT.count("1")
    one = seen("ft", right=RIGHT, ends={"accuracy": wilson(hits, len(RIGHT))})
    row = row_of(scores([one]), metric="accuracy")
    assert (row["pooled_low"], row["pooled_high"]) == wilson(hits, len(RIGHT))
    assert np.isnan(row["low"]) and row["seeds"] == 1 and row["localizer"] == ""


def test_a_state_that_several_runs_scored_counts_once() -> None:
    twice = [seen("ft", right=RIGHT), seen("ft", right=RIGHT)]
    assert len(once(twice)) == 1
    bare = seen(**GRAFT, values={"accuracy": 0.5})
    full = seen(**GRAFT, right=RIGHT)
    assert once([bare, full])[0].answers is not None


def test_a_localizer_that_was_asked_for_in_two_ways_has_two_names() -> None:
    ways = [seen(**GRAFT, right=RIGHT, search_fields={"steps": steps}) for steps in (25, 50)]
    assert [one.search for one in once(ways)] == [("stagewise", "steps=25"), ("stagewise", "steps=50")]


def test_a_difference_is_paired_by_example() -> None:
    """Both are wrong on the same four of ten but for one: unpaired intervals would be many times as wide."""
    other = "1" + "1" * 5 + "0" * 4
    a = seen(**GRAFT, right=other)
    b = seen("ft", right="0" + other[1:])
    row = row_of(paired([a, b], [("graft", "ft")]), metric="accuracy")
    assert row["value"] == pytest.approx(0.1) and row["over"] == "examples and seeds"
    assert row["low"] >= 0 and row["high"] <= 0.31  # at most three draws of that one example in ten are likely
    assert (row["localizer"], row["size"], row["n"]) == ("stagewise", 100, 10)


def test_the_difference_of_a_method_and_itself_is_nothing() -> None:
    a, b = seen(**GRAFT, right=RIGHT), seen("ft", right=RIGHT)
    rows = paired([a, b], [("graft", "ft")])
    assert (rows[["value", "low", "high"]] == 0).all(axis=None)


def test_sides_of_other_sizes_or_recipes_are_not_compared() -> None:
    graft = seen(**GRAFT, right=RIGHT)
    small = seen("graft_movement", localizer="movement", size=10.0, requested_size="1%", right=RIGHT)
    assert paired([graft, small], [("graft", "graft_movement")]).empty
    other = seen("ft", right=RIGHT, recipe="adamw")
    assert paired([graft, other], [("graft", "ft")]).empty
    retrained = seen("graft_retrain", right=RIGHT, recipe="graft-retrain")
    assert len(paired([graft, retrained], [("graft_retrain", "graft")])) > 0


def test_a_region_whose_size_is_an_outcome_meets_the_next_larger_rival() -> None:
    learned = seen(localizer="learned", size=50.0, right=RIGHT)
    rivals = [
        seen("graft_movement", localizer="movement", size=size, requested_size=str(size), right=right)
        for size, right in ((10.0, "0000000000"), (100.0, "1111100000"), (300.0, "1111111111"))
    ]
    row = row_of(paired([learned, *rivals], [("graft", "graft_movement")]), metric="accuracy")
    assert row["value"] == pytest.approx(0.8 - 0.5) and row["size"] == 50


def test_without_predictions_a_difference_speaks_of_seeds_alone() -> None:
    a = [seen(**GRAFT, seed=seed, values={"accuracy": value}) for seed, value in enumerate((0.8, 0.82, 0.78))]
    b = seen("graft_movement", localizer="movement", size=100.0, requested_size="10%", values={"accuracy": 0.7})
    row = row_of(paired([*a, b], [("graft", "graft_movement")]), metric="accuracy")
    by_hand = seeds_interval([0.1, 0.12, 0.08])
    assert row["over"] == "seeds" and row["seeds"] == 3
    assert (row["value"], row["low"], row["high"]) == pytest.approx(by_hand[:3])


def test_without_predictions_intervals_over_examples_are_taken_unpaired() -> None:
    """Three seeds of equal value 0.8 +- 0.03 against 0.7 +- 0.04: 0.1 +- 0.05, and not the nothing that seeds say."""
    ends = {"accuracy": (0.77, 0.83)}
    a = [seen(**GRAFT, seed=seed, values={"accuracy": 0.8}, ends=ends) for seed in range(3)]
    other = {"localizer": "movement", "size": 100.0, "requested_size": "10%"}
    b = seen("graft_movement", values={"accuracy": 0.7}, ends={"accuracy": (0.66, 0.74)}, **other)
    row = row_of(paired([*a, b], [("graft", "graft_movement")]), metric="accuracy")
    assert row["over"] == "examples and seeds, unpaired"
    assert (row["value"], row["low"], row["high"]) == pytest.approx((0.1, 0.05, 0.15))
    level = row_of(scores(a), metric="accuracy")
    assert (level["low"], level["high"]) == pytest.approx((0.8, 0.8))
    assert (level["pooled_low"], level["pooled_high"]) == pytest.approx((0.77, 0.83))


def test_models_that_both_sides_have_are_drawn_together() -> None:
    """A graft that is a tenth better on each of two very different models is better for certain."""
    draws = {("m0", 0): np.full(200, 0.9), ("m1", 0): np.full(200, 0.3)}
    less = {unit: values - 0.1 for unit, values in draws.items()}
    assert np.allclose(difference_draws(draws, less), 0.1)
    elsewhere = {(f"other-{m}", s): values for (m, s), values in less.items()}
    assert difference_draws(draws, elsewhere).std() > 0.1  # models of their own are drawn on their own


def test_the_pooled_mean_agrees_with_plain_draws_over_runs() -> None:
    """One model, three mask seeds: as in run_tables, the mean over runs drawn again, on the same resamples."""
    found = [seen(**GRAFT, seed=seed, right=right) for seed, right in enumerate((RIGHT, "1110000111", "1111111110"))]
    draws = Resampled(found).of(found, "accuracy")
    assert draws is not None
    mean, plain = mean_draws(draws), np.mean(list(draws.values()), axis=0)
    assert mean.mean() == pytest.approx(plain.mean(), abs=0.02)
    assert mean.std() > plain.std()  # seeds are drawn too


def test_three_seeds_are_as_uncertain_as_their_t_interval() -> None:
    """No examples' luck: the draws over three seeds are as wide as mean +- 4.303 sd / sqrt(3), which a plain bootstrap
    over three values is far from; so is it over three fine-tuned models of one seed."""
    values = np.array([0.80, 0.83, 0.86])
    half = 4.303 * values.std(ddof=1) / np.sqrt(3)
    for units in ([("m0", 0), ("m0", 1), ("m0", 2)], [("m0", 0), ("m1", 0), ("m2", 0)]):
        draws = {unit: np.full(20_000, value) for unit, value in zip(units, values, strict=True)}
        drawn = mean_draws(draws)
        assert drawn.mean() == pytest.approx(0.83, abs=2e-3)
        assert 1.96 * drawn.std() == pytest.approx(half, rel=0.03)
    assert widening(1) == 1.0 and widening(3) == pytest.approx(np.sqrt(1.5) * 4.3027 / 1.95996, rel=1e-4)


def test_scores_of_three_seeds_are_as_uncertain_as_their_t_interval() -> None:
    """Ten thousand examples, so that luck is of the seeds: 80, 83 and 86 of a hundred are right."""
    n, labels = 10_000, np.zeros(10_000, np.int64)
    logits = []
    for right in (0.80, 0.83, 0.86):
        one = np.zeros((n, 2))
        one[:, 0] = np.where(np.arange(n) < right * n, 1.0, -1.0)
        logits.append(one)
    row = next(r for r in score_rows(logits, labels, TaskNote(name="a", labels=("no", "yes")), {}))
    assert row["metric"] == "accuracy" and row["mean"] == pytest.approx(0.83)
    assert row["pooled_high"] - row["pooled_low"] == pytest.approx(row["high"] - row["low"], rel=0.1)


def ladder(*checked: float, tested: tuple[float, ...] = (0.6, 0.7, 0.8)) -> list[Observation]:
    """Grafts of three sizes with these validation and test accuracies; the gain is from 0.5 to 0.9 on both."""
    ends = [
        seen(method, split=split, values={"accuracy": value, "ece": 0.1})
        for split in ("validation", "test")
        for method, value in (("pretrained", 0.5), ("ft", 0.9), ("ft_scaled", 0.9))
    ]
    rows = []
    for place, (v, t) in enumerate(zip(checked, tested, strict=True)):
        region = {"localizer": "stagewise", "size": 10.0 ** (place + 1), "requested_size": f"{10**place}%"}
        for split, value in (("validation", v), ("test", t)):
            rows.append(seen(split=split, values={"accuracy": value, "ece": 0.04, "recovered": 0.5}, **region))
    return [*ends, *rows]


def test_the_size_is_chosen_on_validation_and_told_on_test() -> None:
    """95 % of 0.5 to 0.9 is 0.88: the second size has it on validation, whatever it has on test."""
    row = row_of(recovered(ladder(0.7, 0.885, 0.9)), localizer="stagewise")
    assert row["size"] == 100 and row["reached"] and row["reached_on"] == "validation"
    assert (row["value"], row["accuracy"], row["value_ft"]) == pytest.approx((0.7, 0.7, 0.9))
    assert row["ece_less_ft"] == pytest.approx(-0.06) and row["ece_ft_scaled"] == pytest.approx(0.1)


def test_just_below_the_share_is_not_reached() -> None:
    assert row_of(recovered(ladder(0.7, 0.879, 0.9)), localizer="stagewise")["size"] == 1000
    last = row_of(recovered(ladder(0.7, 0.8, 0.87)), localizer="stagewise")
    assert last["size"] == 1000 and not last["reached"] and last["reached_on"] == ""
    half = row_of(recovered(ladder(0.7, 0.8, 0.87), share=0.5), localizer="stagewise")
    assert half["size"] == 10 and half["reached"] and half["gain_share"] == 0.5


def test_where_validation_is_never_reached_test_may_be() -> None:
    """The fine-tuned model was chosen on validation: there its gain is flattered, and 0.88 is not reached."""
    row = row_of(recovered(ladder(0.7, 0.8, 0.87, tested=(0.6, 0.88, 0.9))), localizer="stagewise")
    assert (row["size"], row["reached"], row["reached_on"]) == (100, True, "test")
    row = row_of(recovered(ladder(0.7, 0.8, 0.88, tested=(0.6, 0.88, 0.9))), localizer="stagewise")
    assert (row["size"], row["reached_on"]) == (1000, "validation")


def test_without_a_gain_there_is_no_size_that_recovers_it() -> None:
    flat = [one for one in ladder(0.7, 0.8, 0.9) if one.method != "ft"]
    assert recovered([*flat, seen("ft", split="validation", values={"accuracy": 0.5})]).empty


def test_a_gain_that_may_be_chance_on_test_is_none() -> None:
    """Of 200 examples the fine-tuned model has 104 right and the base 100, other ones: no gain is shown."""
    found = [one for one in ladder(0.7, 0.885, 0.9) if one.split == "validation" or one.method == "graft"]
    base = seen("pretrained", right="10" * 100)
    assert recovered([*found, base, seen("ft", right="01" * 96 + "1" * 8)]).empty
    chance = [*found, base, seen("ft", right="01" * 96 + "1" * 8)]
    (said,) = without_gain(chance)
    assert said.startswith("Fine-tuning gains nothing beyond chance on sst2: no share")
    better = [*found, base, seen("ft", right="1" * 200)]
    assert len(recovered(better)) == 1 and without_gain(better) == []
    other = [replace(one, recipe="bitfit") for one in chance]
    (said,) = without_gain([*better, *other])
    assert "(bitfit, all)" in said and "sgd" not in said, "the other model of the task has its row"
    assert without_gain([one for one in chance if one.method != "ft"]) == [], "no fine-tuned model was scored"


def test_histograms_count_every_example_once_and_average_seeds() -> None:
    found = [
        seen("ft", right=RIGHT, sure=5.0),
        seen(**GRAFT, seed=0, right=RIGHT, sure=0.2),
        seen(**GRAFT, seed=1, right="1" * 10, sure=5.0),
    ]
    frame = histogram(found)
    assert frame.groupby("state")["count"].sum().to_dict() == {"finetuned": 10, "grafted": 10}
    assert set(frame.loc[frame["state"] == "grafted", "share"]) == {0.1} and frame["share"].isna().any()
    top = frame[(frame["high_edge"] == 1.0) & (frame["state"] == "grafted")].iloc[0]
    assert top["count"] == 5 and top["correct"] == 5  # one of the two seeds, all ten of its examples
    assert frame[frame["state"] == "finetuned"]["correct"].sum() == RIGHT.count("1")
