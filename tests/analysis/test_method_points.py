"""Tests of methods as points: the touched share, differences as "method − graft", sizes and several studies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis import method_points
from skillviz.analysis.method_points import Selection
from skillviz.analysis.tables import check
from skillviz.core.localizers.table import RIVALS
from skillviz.core.metrics import panels
from tests.studies.fake_tables import FAKE_TABLES, SIZES, TASKS, D

SELECTION = Selection("sst2_sentences", "all", "stagewise")


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    names = ("scores", "differences")
    return {name: check(FAKE_TABLES[name](TASKS, np.random.default_rng(0)), name) for name in names}


def series(points: pd.DataFrame) -> set[tuple[str, str, str]]:
    """Return the (method, recipe, label) triples, one for each line of the figure."""
    return set(points[["method", "recipe", "label"]].itertuples(index=False, name=None))


def test_touched_is_a_share_of_the_graftable_parameters(tables: dict[str, pd.DataFrame]) -> None:
    points = method_points.points(tables["scores"], SELECTION, SELECTION.task)
    touched = points.drop_duplicates(["method", "share"]).set_index(["method"])["touched"]
    assert (
        touched["pretrained"] == 0 and touched["ft"] == pytest.approx(1) and touched["bitfit"] == pytest.approx(0.004)
    )
    assert sorted(points.loc[points["method"] == "graft", "touched"].unique()) == pytest.approx(SIZES)
    assert set(points["method"]) <= set(method_points.SHOWN)


def test_a_temperature_is_no_method_of_its_own_in_accuracy(tables: dict[str, pd.DataFrame]) -> None:
    points = method_points.points(tables["scores"], SELECTION, SELECTION.task)
    assert set(points.loc[points["method"] == "ft_scaled", "metric"]) == {"ece", "nll"}


def test_the_pre_trained_model_has_the_fine_tuned_models_head(tables: dict[str, pd.DataFrame]) -> None:
    own = tables["scores"]
    base = own[own["method"] == "pretrained"]
    of_lora = base.assign(recipe="lora", variant="rank 1", mean=base["mean"] + 0.3)
    both = pd.concat([of_lora, own], ignore_index=True)
    for read in (
        lambda scores: method_points.points(scores, SELECTION, SELECTION.task),
        lambda scores: method_points.every_point(scores, SELECTION.task, SELECTION.task),
    ):
        alone, beside = (frame[frame["method"] == "pretrained"] for frame in (read(own), read(both)))
        assert len(alone) and sorted(beside["value"]) == sorted(alone["value"])
    only = own[own["method"] != "pretrained"]
    points = method_points.points(pd.concat([of_lora, only], ignore_index=True), SELECTION, SELECTION.task)
    assert (points["method"] == "pretrained").any(), "the only base there is stays"


def test_differences_are_turned_to_method_less_graft(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["differences"]
    asked = (rows["id_task"] == SELECTION.task) & (rows["task"] == SELECTION.task) & (rows["metric"] == "ece")
    graft_less_ft = rows[asked & (rows["a"] == "graft") & (rows["b"] == "ft") & (rows["share"] == 0.01)].iloc[0]
    found = method_points.against_graft(rows, SELECTION, SELECTION.task, 0.01).set_index(["method", "metric"])
    turned = found.loc[("ft", "ece")]
    assert turned["value"] == -graft_less_ft["value"] and turned["low"] == -graft_less_ft["high"]
    assert turned["debiased"] == -graft_less_ft["debiased"]
    bitfit = rows[asked & (rows["a"] == "bitfit") & (rows["share"] == 0.01)].iloc[0]
    assert found.loc[("bitfit", "ece")]["value"] == bitfit["value"]


def test_the_main_size_is_taken_among_equals(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["differences"]
    assert method_points.sizes(rows, SELECTION) == pytest.approx(SIZES)
    assert (
        method_points.main_size(rows, SELECTION, 0.1) == 0.1 and method_points.main_size(rows, SELECTION, None) == 0.001
    )
    fewer = rows[~((rows["share"] == 0.1) & (rows["a"] != "graft"))]
    assert method_points.main_size(fewer, SELECTION, 0.1) == 0.001
    assert method_points.sizes(pd.DataFrame(), SELECTION) == []


def test_rows_that_two_studies_share_count_once(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    both = method_points.joined([scores, scores.assign(mean=0.0), pd.DataFrame()], method_points.KEYS)
    assert len(both) == len(scores) and (both["mean"] == scores["mean"]).all()
    assert method_points.joined([], method_points.KEYS).empty


def test_every_point_names_what_differs_among_models_of_one_recipe(tables: dict[str, pd.DataFrame]) -> None:
    """LoRA has a point per rank, the graft one per training; temperature scaling is drawn for one model only."""
    scores = tables["scores"]
    own = scores[(scores["id_task"] == SELECTION.task) & (scores["task"] == SELECTION.task)]
    ways = {"lora": (("lora", "rank 1"), ("lora", "rank 8")), "ft": (("sgd", "1 step"), ("sgd", "300 steps, lr 0.05"))}
    ways |= {"ft_scaled": (("lora", "rank 1"), ("sgd", "1 step")), "graft": (("sgd", "1 step"), ("adamw", "300 steps"))}
    rows = [own[own["method"] == method].assign(recipe=recipe, variant=variant)
            for method, both in ways.items() for recipe, variant in both]  # fmt: skip
    found = method_points.every_point(pd.concat(rows, ignore_index=True), SELECTION.task, SELECTION.task)
    assert series(found) == {
        ("lora", "", "rank 1"), ("lora", "", "rank 8"), ("ft", "", "1 step"), ("ft", "", "300 steps, lr 0.05"),
        ("ft_scaled", "", "1 step"), ("graft", "", "1 step"), ("graft", "adamw", "300 steps"),
    }  # fmt: skip
    assert "accuracy" not in set(found.loc[found["method"] == "ft_scaled", "metric"])


def two_bases(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of two bases; the second is twice as large and has the value 0 everywhere."""
    double = {name: 2 * scores[name] for name in ("size", "touched")}
    return pd.concat([scores, scores.assign(base="my/base", mean=0.0, **double)], ignore_index=True)


def test_what_is_touched_is_a_share_of_the_rows_own_base(tables: dict[str, pd.DataFrame]) -> None:
    found = method_points.every_point(two_bases(tables["scores"]), SELECTION.task, SELECTION.task)
    other = found["label"] == "base"
    assert other.any() and (found[other]["value"] == 0).all() and (found[~other]["value"] > 0).all()
    assert found.loc[found["method"] == "ft", "touched"].to_numpy() == pytest.approx(1)


def test_a_graft_of_another_recipe_is_a_method_of_its_own(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    other = scores[scores["method"] == "graft"].assign(recipe="adamw")
    points = method_points.points(pd.concat([scores, other]), SELECTION, SELECTION.task)
    assert {("graft", "", ""), ("graft", "adamw", "")} <= series(points)


def test_every_point_names_further_localizers(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    other = scores[scores["method"] == "graft"].assign(localizer="learned")
    points = method_points.every_point(pd.concat([scores, other]), SELECTION.task, SELECTION.task)
    assert {("graft", "", ""), ("graft", "", "learned"), ("graft_random", "", "")} <= series(points)
    assert "complement" not in set(points["method"])


def test_transfer_goes_to_the_tasks_that_were_not_trained_on(tables: dict[str, pd.DataFrame]) -> None:
    assert method_points.other_tasks(tables["scores"], SELECTION) == ["cr", "yelp_reviews"]
    assert method_points.scored_metric(tables["scores"], SELECTION.task) == "accuracy"


@pytest.mark.parametrize("metric", ["accuracy", "f1", "exact_match"])
def test_the_metric_of_a_task_is_its_own(metric: str) -> None:
    scores = pd.DataFrame({"task": "t", "mean": 0.5, "metric": [*panels(metric), "agreement", "recovered"]})
    assert method_points.scored_metric(scores, "t") == metric


def test_the_temperature_is_that_of_the_fine_tuned_model(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    own = scores[scores["method"] == "ft_scaled"]
    others = [own.assign(recipe=recipe, touched=0.004 * D, mean=0.0) for recipe in ("bitfit", "graft-retrain", "lora")]
    mixed = pd.concat([*others, scores], ignore_index=True)
    for found in (
        method_points.points(mixed, SELECTION, SELECTION.task),
        method_points.every_point(mixed, SELECTION.task, SELECTION.task),
    ):
        scaled = found[found["method"] == "ft_scaled"]
        assert len(scaled) and (scaled["touched"] == 1).all() and (scaled["value"] > 0).all()


def test_the_page_asks_for_few_methods_first(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    more = pd.concat([scores, scores[scores["method"] == "graft"].assign(recipe="adamw")])
    found = method_points.main_ones(method_points.points(more, SELECTION, SELECTION.task))
    assert set(found["method"]) <= set(method_points.MAIN) and {"graft", "ft", "lora", "bitfit"} <= set(found["method"])
    assert method_points.has_further(more, SELECTION)
    assert not method_points.has_further(scores[scores["method"].isin(("graft", "ft"))], SELECTION)


def test_bases_go_by_the_last_part_of_their_names_where_that_tells_them_apart() -> None:
    assert method_points.base_names(["a/one", "b/two"]) == {"a/one": "one", "b/two": "two"}
    assert method_points.base_names(["a/one", "b/one"]) == {"a/one": "a/one", "b/one": "b/one"}


RANKS = {"rank 1, last 1 matrix": 0.001, "rank 1": 0.008, "rank 4": 0.11}


def with_ranks(tables: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables with LoRA of three sizes in place of one; each size has a value of its own."""
    scores, differences = tables["scores"], tables["differences"]
    lora, less = scores["method"] == "lora", differences["a"] == "lora"
    ways = list(enumerate(RANKS.items(), 1))
    more = [scores[lora].assign(variant=way, touched=touched * D, mean=i / 10) for i, (way, touched) in ways]
    compared = [differences[less].assign(variant=way, value=i / 10) for i, (way, _) in ways]
    return pd.concat([scores[~lora], *more]), pd.concat([differences[~less], *compared])


def test_lora_of_every_size_is_a_point(tables: dict[str, pd.DataFrame]) -> None:
    scores, _ = with_ranks(tables)
    points = method_points.points(scores, SELECTION, SELECTION.task)
    lora = points[(points["method"] == "lora") & (points["metric"] == "accuracy")]
    assert sorted(lora["touched"]) == pytest.approx(list(RANKS.values()))


@pytest.mark.parametrize(("share", "value"), list(zip(SIZES, (0.1, 0.2, 0.3), strict=True)))
def test_a_graft_is_compared_with_the_lora_of_its_size(
    tables: dict[str, pd.DataFrame], share: float, value: float
) -> None:
    assert SIZES == (0.001, 0.01, 0.1)
    scores, differences = with_ranks(tables)
    rows = method_points.against_graft(differences, SELECTION, SELECTION.task, share, scores)
    lora = rows[rows["method"] == "lora"]
    assert len(lora) == lora["metric"].nunique() and (lora["value"] == value).all()


def test_every_other_choice_of_a_region_is_compared(tables: dict[str, pd.DataFrame]) -> None:
    differences = tables["differences"]
    movement = differences[differences["b"] == "graft_movement"]
    assert len(movement)
    more = pd.concat([differences, *(movement.assign(b=rival) for rival in RIVALS)])
    rows = method_points.against_graft(more, SELECTION, SELECTION.task, 0.01)
    assert set(RIVALS) <= set(rows["method"]) and "graft_dare" in RIVALS
