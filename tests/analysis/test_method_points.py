"""Tests of methods as points: the touched share, differences as "method − graft", sizes and several studies."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis import method_points
from skillviz.analysis.method_points import Selection
from skillviz.analysis.tables import check
from skillviz.core.localizers.table import RIVALS
from skillviz.core.metrics import panels
from tests.studies.fake_tables import FAKE_TABLES, SIZES, TASKS, D

TASK = "sst2_sentences"
SELECTION = Selection(TASK, "all", "stagewise")


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    return check(FAKE_TABLES["scores"](TASKS, np.random.default_rng(0)), "scores")


@pytest.fixture(scope="module")
def differences() -> pd.DataFrame:
    return check(FAKE_TABLES["differences"](TASKS, np.random.default_rng(0)), "differences")


def selected(scores: pd.DataFrame) -> pd.DataFrame:
    return method_points.points(scores, SELECTION, TASK)


def every(scores: pd.DataFrame) -> pd.DataFrame:
    return method_points.every_point(scores, TASK, TASK)


def against(differences: pd.DataFrame, share: float, *more: pd.DataFrame) -> pd.DataFrame:
    return method_points.against_graft(differences, SELECTION, TASK, share, *more)


def of_method(frame: pd.DataFrame, method: str, **changes: object) -> pd.DataFrame:
    """Return the method's rows with these changes."""
    return frame[frame["method"] == method].assign(**changes)


def series(points: pd.DataFrame) -> set[tuple[str, str, str]]:
    """Return the (method, recipe, label) triples, one for each line of the figure."""
    return set(points[["method", "recipe", "label"]].itertuples(index=False, name=None))


def test_touched_is_a_share_of_the_graftable_parameters(scores: pd.DataFrame) -> None:
    points = selected(scores)
    touched = points.groupby("method")["touched"].agg(lambda shares: sorted(shares.unique()))
    wanted = {"pretrained": [0], "ft": [1], "bitfit": [0.004], "graft": list(SIZES)}
    assert {name: touched[name] for name in wanted} == {name: pytest.approx(s) for name, s in wanted.items()}
    assert set(points["method"]) <= set(method_points.SHOWN)


def test_a_temperature_is_no_method_of_its_own_in_accuracy(scores: pd.DataFrame) -> None:
    assert set(of_method(selected(scores), "ft_scaled")["metric"]) == {"ece", "nll"}


def test_the_pre_trained_model_has_the_fine_tuned_models_head(scores: pd.DataFrame) -> None:
    of_lora = of_method(scores, "pretrained", recipe="lora", variant="rank 1", mean=lambda rows: rows["mean"] + 0.3)
    both = pd.concat([of_lora, scores], ignore_index=True)
    for read in (selected, every):
        alone, beside = (of_method(read(frame), "pretrained") for frame in (scores, both))
        assert len(alone) and sorted(beside["value"]) == sorted(alone["value"])
    assert "pretrained" in set(
        selected(pd.concat([of_lora, scores[scores["method"] != "pretrained"]], ignore_index=True))["method"]
    ), "the only base there is stays"


def test_differences_are_turned_to_method_less_graft(differences: pd.DataFrame) -> None:
    own = differences.query("id_task == @TASK and task == @TASK and metric == 'ece' and share == 0.01")
    graft_less_ft, bitfit = own.query("a == 'graft' and b == 'ft'").iloc[0], own.query("a == 'bitfit'").iloc[0]
    found = against(differences, 0.01).set_index(["method", "metric"])
    ends = -graft_less_ft[["value", "high", "low", "debiased"]].astype(float)
    assert found.loc[("ft", "ece"), ["value", "low", "high", "debiased"]].tolist() == ends.tolist()
    assert found.loc[("bitfit", "ece"), "value"] == bitfit["value"]


def test_the_main_size_is_taken_among_equals(differences: pd.DataFrame) -> None:
    fewer = differences[~((differences["share"] == 0.1) & (differences["a"] != "graft"))]
    cases = ((differences, 0.1), (differences, None), (fewer, 0.1))
    assert [method_points.main_size(rows, SELECTION, share) for rows, share in cases] == [0.1, 0.001, 0.001]
    assert method_points.sizes(differences, SELECTION) == pytest.approx(SIZES)
    assert method_points.sizes(pd.DataFrame(), SELECTION) == []


def test_rows_that_two_studies_share_count_once(scores: pd.DataFrame) -> None:
    both = method_points.joined([scores, scores.assign(mean=0.0), pd.DataFrame()], method_points.KEYS)
    assert len(both) == len(scores) and (both["mean"] == scores["mean"]).all()
    assert method_points.joined([], method_points.KEYS).empty


def test_every_point_names_what_differs_among_models_of_one_recipe(scores: pd.DataFrame) -> None:
    """LoRA has a point per rank, the graft one per training; temperature scaling is drawn for one model only."""
    own = scores.query("id_task == @TASK and task == @TASK")
    ways = {"lora": (("lora", "rank 1"), ("lora", "rank 8")), "ft": (("sgd", "1 step"), ("sgd", "300 steps, lr 0.05"))}
    ways |= {"ft_scaled": (("lora", "rank 1"), ("sgd", "1 step")), "graft": (("sgd", "1 step"), ("adamw", "300 steps"))}
    rows = [of_method(own, method, recipe=recipe, variant=variant)
            for method, both in ways.items() for recipe, variant in both]  # fmt: skip
    found = every(pd.concat(rows, ignore_index=True))
    assert series(found) == {
        ("lora", "", "rank 1"), ("lora", "", "rank 8"), ("ft", "", "1 step"), ("ft", "", "300 steps, lr 0.05"),
        ("ft_scaled", "", "1 step"), ("graft", "", "1 step"), ("graft", "adamw", "300 steps"),
    }  # fmt: skip
    assert "accuracy" not in set(of_method(found, "ft_scaled")["metric"])


def test_what_is_touched_is_a_share_of_the_rows_own_base(scores: pd.DataFrame) -> None:
    """The second base is twice as large and has the value 0 everywhere."""
    double = scores.assign(base="my/base", mean=0.0, size=2 * scores["size"], touched=2 * scores["touched"])
    found = every(pd.concat([scores, double], ignore_index=True))
    other = found["label"] == "base"
    assert other.any() and (found[other]["value"] == 0).all() and (found[~other]["value"] > 0).all()
    assert of_method(found, "ft")["touched"].to_numpy() == pytest.approx(1)


@pytest.mark.parametrize(
    ("read", "change", "lines"),
    [
        (selected, {"recipe": "adamw"}, {("graft", "", ""), ("graft", "adamw", "")}),
        (every, {"localizer": "learned"}, {("graft", "", ""), ("graft", "", "learned"), ("graft_random", "", "")}),
    ],
    ids=["recipe", "localizer"],
)
def test_a_graft_of_another_recipe_or_localizer_is_a_line_of_its_own(
    scores: pd.DataFrame, read: Callable[[pd.DataFrame], pd.DataFrame], change: dict[str, str], lines: set
) -> None:
    points = read(pd.concat([scores, of_method(scores, "graft", **change)]))
    assert lines <= series(points) and "complement" not in set(points["method"])


def test_transfer_goes_to_the_tasks_that_were_not_trained_on(scores: pd.DataFrame) -> None:
    assert method_points.other_tasks(scores, SELECTION) == ["cr", "yelp_reviews"]


@pytest.mark.parametrize("metric", ["accuracy", "f1", "exact_match"])
def test_the_metric_of_a_task_is_its_own(scores: pd.DataFrame, metric: str) -> None:
    frame = pd.DataFrame({"task": "t", "mean": 0.5, "metric": [*panels(metric), "agreement", "recovered"]})
    assert [method_points.scored_metric(*of) for of in ((frame, "t"), (scores, TASK))] == [metric, "accuracy"]


@pytest.mark.parametrize("read", [selected, every])
def test_the_temperature_is_that_of_the_fine_tuned_model(scores: pd.DataFrame, read: Callable) -> None:
    recipes = ("bitfit", "graft-retrain", "lora")
    others = [of_method(scores, "ft_scaled", recipe=recipe, touched=0.004 * D, mean=0.0) for recipe in recipes]
    scaled = of_method(read(pd.concat([*others, scores], ignore_index=True)), "ft_scaled")
    assert len(scaled) and (scaled["touched"] == 1).all() and (scaled["value"] > 0).all()


def test_the_page_asks_for_few_methods_first(scores: pd.DataFrame) -> None:
    more = pd.concat([scores, of_method(scores, "graft", recipe="adamw")])
    found = method_points.main_ones(selected(more))
    assert {"graft", "ft", "lora", "bitfit"} <= set(found["method"]) <= set(method_points.MAIN)
    few = scores[scores["method"].isin(("graft", "ft"))]
    assert method_points.has_further(more, SELECTION) and not method_points.has_further(few, SELECTION)


@pytest.mark.parametrize("names", [{"a/one": "one", "b/two": "two"}, {"a/one": "a/one", "b/one": "b/one"}])
def test_bases_go_by_the_last_part_of_their_names_where_that_tells_them_apart(names: dict[str, str]) -> None:
    assert method_points.base_names(list(names)) == names


RANKS = {"rank 1, last 1 matrix": 0.001, "rank 1": 0.008, "rank 4": 0.11}


def with_ranks(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with LoRA of three sizes in place of one."""
    return pd.concat(
        [
            scores[scores["method"] != "lora"],
            *[of_method(scores, "lora", variant=way, touched=touched * D) for way, touched in RANKS.items()],
        ]
    )


def test_lora_of_every_size_is_a_point(scores: pd.DataFrame) -> None:
    assert sorted(
        of_method(selected(with_ranks(scores)), "lora").query("metric == 'accuracy'")["touched"]
    ) == pytest.approx(list(RANKS.values()))


@pytest.mark.parametrize(("share", "way"), list(zip(SIZES, RANKS, strict=True)))
def test_a_graft_is_compared_with_the_lora_of_its_size(
    scores: pd.DataFrame, differences: pd.DataFrame, share: float, way: str
) -> None:
    less, values = differences["a"] == "lora", dict(zip(RANKS, (0.1, 0.2, 0.3), strict=True))
    compared = [differences[less].assign(variant=name, value=value) for name, value in values.items()]
    lora = of_method(against(pd.concat([differences[~less], *compared]), share, with_ranks(scores)), "lora")
    assert len(lora) == lora["metric"].nunique() and (lora["value"] == values[way]).all()


def test_every_other_choice_of_a_region_is_compared(differences: pd.DataFrame) -> None:
    movement = differences[differences["b"] == "graft_movement"]
    more = pd.concat([differences, *(movement.assign(b=rival) for rival in RIVALS)])
    assert len(movement) and {"graft_dare", *RIVALS} <= set(against(more, 0.01)["method"])
