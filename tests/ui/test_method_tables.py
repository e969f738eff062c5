"""The methods page's tables: touched as a share, differences turned to 'method less graft', sizes, several studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import check
from skillviz.studies.store import StudyFolder, StudyRecord
from skillviz.tasks.project import project_root
from skillviz.ui.pages.methods import tables as method_tables
from skillviz.ui.pages.methods import view
from skillviz.ui.pages.methods.tables import Selection
from skillviz.ui.study_words import base_names
from tests.studies.fake_tables import FAKE_TABLES, SIZES, TASKS, D

SELECTION = Selection("film-sentiment", "all", "stagewise")


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    names = ("scores", "differences")
    return {name: check(FAKE_TABLES[name](TASKS, np.random.default_rng(0)), name) for name in names}


def series(points: pd.DataFrame) -> set[tuple[str, str, str]]:
    """What tells the points of one line from another's."""
    return set(points[["method", "recipe", "label"]].itertuples(index=False, name=None))


def test_touched_is_a_share_of_the_graftable_parameters(tables: dict[str, pd.DataFrame]) -> None:
    points = method_tables.points(tables["scores"], SELECTION, SELECTION.task)
    touched = points.drop_duplicates(["method", "share"]).set_index(["method"])["touched"]
    assert (
        touched["pretrained"] == 0 and touched["ft"] == pytest.approx(1) and touched["bitfit"] == pytest.approx(0.004)
    )
    assert sorted(points.loc[points["method"] == "graft", "touched"].unique()) == pytest.approx(SIZES)
    assert set(points["method"]) <= set(method_tables.SHOWN)


def test_a_temperature_is_no_method_of_its_own_in_accuracy(tables: dict[str, pd.DataFrame]) -> None:
    points = method_tables.points(tables["scores"], SELECTION, SELECTION.task)
    assert set(points.loc[points["method"] == "ft_scaled", "metric"]) == {"ece", "nll"}


def test_the_interval_over_examples_and_seeds_comes_before_the_one_over_seeds(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].copy()
    before = method_tables.points(scores, SELECTION, SELECTION.task)
    scores[["pooled_low", "pooled_high"]] = np.nan
    after = method_tables.points(scores, SELECTION, SELECTION.task)
    assert (after["low"] > before["low"]).all() and (after["high"] < before["high"]).all()


def test_differences_are_turned_to_method_less_graft(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["differences"]
    asked = (rows["id_task"] == SELECTION.task) & (rows["task"] == SELECTION.task) & (rows["metric"] == "ece")
    graft_less_ft = rows[asked & (rows["a"] == "graft") & (rows["b"] == "ft") & (rows["share"] == 0.01)].iloc[0]
    found = method_tables.against_graft(rows, SELECTION, SELECTION.task, 0.01).set_index(["method", "metric"])
    turned = found.loc[("ft", "ece")]
    assert turned["value"] == -graft_less_ft["value"] and turned["low"] == -graft_less_ft["high"]
    bitfit = rows[asked & (rows["a"] == "bitfit") & (rows["share"] == 0.01)].iloc[0]
    assert found.loc[("bitfit", "ece")]["value"] == bitfit["value"]


def test_the_main_size_is_taken_among_equals(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["differences"]
    assert method_tables.sizes(rows, SELECTION) == pytest.approx(SIZES)
    assert (
        method_tables.main_size(rows, SELECTION, 0.1) == 0.1 and method_tables.main_size(rows, SELECTION, None) == 0.001
    )
    fewer = rows[~((rows["share"] == 0.1) & (rows["a"] != "graft"))]
    assert method_tables.main_size(fewer, SELECTION, 0.1) == 0.001
    assert method_tables.sizes(pd.DataFrame(), SELECTION) == []


def test_rows_that_two_studies_share_count_once(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    both = method_tables.joined([scores, scores.assign(mean=0.0), pd.DataFrame()], method_tables.KEYS)
    assert len(both) == len(scores) and (both["mean"] == scores["mean"]).all()
    assert method_tables.joined([], method_tables.KEYS).empty


def test_every_point_names_what_differs_among_models_of_one_recipe(tables: dict[str, pd.DataFrame]) -> None:
    """Both ranks and the grafts of both trainings are drawn; the temperature is that of the tuned model alone."""
    scores = tables["scores"]
    own = scores[(scores["id_task"] == SELECTION.task) & (scores["task"] == SELECTION.task)]
    ways = {"lora": (("lora", "rank 1"), ("lora", "rank 8")), "ft": (("sgd", "1 step"), ("sgd", "300 steps, lr 0.05"))}
    ways |= {"ft_scaled": (("lora", "rank 1"), ("sgd", "1 step")), "graft": (("sgd", "1 step"), ("adamw", "300 steps"))}
    rows = [own[own["method"] == method].assign(recipe=recipe, variant=variant)
            for method, both in ways.items() for recipe, variant in both]  # fmt: skip
    found = method_tables.every_point(pd.concat(rows, ignore_index=True), SELECTION.task, SELECTION.task)
    assert series(found) == {
        ("lora", "", "rank 1"), ("lora", "", "rank 8"), ("ft", "", "1 step"), ("ft", "", "300 steps, lr 0.05"),
        ("ft_scaled", "", "1 step"), ("graft", "", "1 step"), ("graft", "adamw", "300 steps"),
    }  # fmt: skip
    assert "accuracy" not in set(found.loc[found["method"] == "ft_scaled", "metric"])


def two_bases(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of two bases; the other one is twice as large and knows nothing."""
    double = {name: 2 * scores[name] for name in ("size", "touched")}
    return pd.concat([scores, scores.assign(base="my/base", mean=0.0, **double)], ignore_index=True)


def test_scores_of_another_base_are_left_out(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    both = two_bases(scores)
    assert method_tables.bases(both) == ["demo_world/base", "my/base"] and method_tables.bases(pd.DataFrame()) == []
    pd.testing.assert_frame_equal(method_tables.of_base(both, "demo_world/base"), scores)
    named = str(project_root() / "demo_world/base")
    assert len(method_tables.of_base(both, named)) == len(scores)
    assert (method_tables.points(method_tables.of_base(both, "my/base"), SELECTION, SELECTION.task)["value"] == 0).all()


def test_what_is_touched_is_a_share_of_the_rows_own_base(tables: dict[str, pd.DataFrame]) -> None:
    found = method_tables.every_point(two_bases(tables["scores"]), SELECTION.task, SELECTION.task)
    other = found["label"] == "my/base"
    assert other.any() and (found[other]["value"] == 0).all() and (found[~other]["value"] > 0).all()
    assert found.loc[found["method"] == "ft", "touched"].to_numpy() == pytest.approx(1)


def test_bases_go_by_the_last_part_of_their_names_where_that_tells_them_apart() -> None:
    assert base_names(["a/one", "b/two"]) == {"a/one": "one", "b/two": "two"}
    assert base_names(["a/one", "b/one"]) == {"a/one": "a/one", "b/one": "b/one"}


def test_a_graft_of_another_recipe_is_a_method_of_its_own(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    other = scores[scores["method"] == "graft"].assign(recipe="adamw")
    points = method_tables.points(pd.concat([scores, other]), SELECTION, SELECTION.task)
    assert {("graft", "", ""), ("graft", "adamw", "")} <= series(points)


def test_every_point_names_further_localizers(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    other = scores[scores["method"] == "graft"].assign(localizer="learned")
    points = method_tables.every_point(pd.concat([scores, other]), SELECTION.task, SELECTION.task)
    assert {("graft", "", ""), ("graft", "", "learned"), ("graft_random", "", "")} <= series(points)
    assert "complement" not in set(points["method"])


def test_transfer_goes_to_the_tasks_that_were_not_trained_on(tables: dict[str, pd.DataFrame]) -> None:
    assert method_tables.other_tasks(tables["scores"], SELECTION) == ["gadget-sentiment", "restaurant-sentiment"]
    assert method_tables.own_metric(tables["scores"], SELECTION.task) == "accuracy"


def difference(method: str, metric: str, value: float) -> dict[str, object]:
    told = {"method": method, "metric": metric, "value": value, "low": value - 0.01, "high": value + 0.01}
    return {**told, "n": 100, "seeds": 3}


def test_the_sentence_claims_only_what_an_interval_allows() -> None:
    rows = [difference("graft_retrain", "accuracy", 0.02), difference("graft_retrain", "ece", 0.005)]
    rows += [difference("bitfit", "accuracy", -0.03), difference("bitfit", "ece", 0.04)]
    said = view.comparison(pd.DataFrame(rows), SELECTION, 0.001, "accuracy").replace("\N{NO-BREAK SPACE}", " ")
    assert "against a graft of **0.1 %** of the parameters, re-training the region **gains** in accuracy" in said
    assert "+2.0 points, 95 %: 1.0–3.0" in said and "shows **no difference in ECE**" in said
    assert "- BitFit **loses** in accuracy" in said and "is **worse calibrated**" in said


def test_nothing_to_compare_is_said() -> None:
    rows = pd.DataFrame(columns=["method", "metric", "value", "low", "high", "n", "seeds"])
    said = view.comparison(rows, SELECTION, 0.001, "accuracy").replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "this stays open here: no stored study of this base and readout compares a graft of **0.1 %** of the parameters"
        in said
    )


def test_rows_are_of_one_study_or_of_several_about_the_same() -> None:
    studies = [StudyFolder(Path(name), StudyRecord(name=name)) for name in ("one", "two")]
    assert view.sources(studies[:1]) == "All rows are of the study `one`."
    assert "2 studies of one scale, base and readout: `one` and `two`" in view.sources(studies)


def test_differences_that_do_not_tell_their_base_are_said_to_be_missing() -> None:
    assert "several bases" in view.no_rival("cr", True) and "several" not in view.no_rival("cr")


def test_another_choice_of_a_region_is_told_and_is_no_other_method() -> None:
    rows = [("graft_movement", metric, -0.2, -0.22, -0.18, 100, 3) for metric in ("accuracy", "ece")]
    frame = pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high", "n", "seeds"])
    said = view.comparison(frame, SELECTION, 0.001, "accuracy").replace("\N{NO-BREAK SPACE}", " ")
    assert "this stays open here" in said
    assert "- A graft of the top movement **loses** in accuracy (−20.0 points, 95 %: −22.0 to −18.0); " in said
    both = pd.concat([frame, frame.assign(method="bitfit")])
    assert "stays open" not in view.comparison(both, SELECTION, 0.001, "accuracy")


def test_the_temperature_is_that_of_the_fine_tuned_model(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    own = scores[scores["method"] == "ft_scaled"]
    others = [own.assign(recipe=recipe, touched=0.004 * D, mean=0.0) for recipe in ("bitfit", "graft-retrain", "lora")]
    mixed = pd.concat([*others, scores], ignore_index=True)
    for found in (
        method_tables.points(mixed, SELECTION, SELECTION.task),
        method_tables.every_point(mixed, SELECTION.task, SELECTION.task),
    ):
        scaled = found[found["method"] == "ft_scaled"]
        assert len(scaled) and (scaled["touched"] == 1).all() and (scaled["value"] > 0).all()


def test_the_page_asks_for_few_methods_first(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    more = pd.concat([scores, scores[scores["method"] == "graft"].assign(recipe="adamw")])
    found = method_tables.main_ones(method_tables.points(more, SELECTION, SELECTION.task))
    assert set(found["method"]) <= set(method_tables.MAIN) and {"graft", "ft", "lora", "bitfit"} <= set(found["method"])
    assert method_tables.has_further(more, SELECTION)
    assert not method_tables.has_further(scores[scores["method"].isin(("graft", "ft"))], SELECTION)
