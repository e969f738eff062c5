"""Tests that only seeds are averaged: models and searches with different settings have separate rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.analysis.differences import paired
from skillviz.analysis.observations import Observation, once, sides
from skillviz.analysis.recovered import recovered
from skillviz.analysis.scores import score_table
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.study_observations import model_fields, of_results, run_variants
from skillviz.studies.task_sequence import MANY_SEQUENCES, stages_and_notes
from tests.studies.tiny_studies import seen
from tests.studies.tiny_study import REGION, study_of, tasks

RIGHT = "1111011101"


def tuned(
    method: str = "ft",
    folder: str = "m",
    recipe: str = "sgd",
    right: str = RIGHT,
    of_parts: dict[tuple[str, ...], Any] | None = None,
    **fields: Any,
) -> Observation:
    """Return a model with these fields; `of_parts` are the fields of its regions."""
    return seen(method, right=right, model=folder, recipe=recipe, model_fields={**fields, **(of_parts or {})})


def test_what_differs_stands_beside_the_recipe_and_seeds_are_averaged() -> None:
    """Two seeds with three settings give three rows, each over two seeds."""
    ways: list[dict[str, Any]] = [{"steps": 1, "lr": 1e-4}, {"steps": 300, "lr": 0.05}, {"steps": 300, "lr": None}]
    found = once([tuned(folder=f"{way}-{seed}", **way, rank=None) for way in ways for seed in (0, 1)])
    rows = score_table(found).query("metric == 'accuracy'")
    assert rows["seeds"].tolist() == [2, 2, 2]
    assert set(rows["recipe"]) == {"sgd"}
    assert set(rows["variant"]) == {"1 step, lr 0.0001", "300 steps, lr 0.05", "300 steps, lr by default"}


def test_what_does_not_differ_is_not_said() -> None:
    """A variant compares the models of one recipe, task and training set only; others do not need a name."""
    alone = [tuned(steps=3), tuned(folder="l", recipe="lora", steps=9), tuned(folder="n", steps=3)]
    other = seen(right=RIGHT, recipe="sgd", id_task="cr", model_fields={"steps": 5})
    few = seen(right=RIGHT, recipe="sgd", setting="16-shot", model_fields={"steps": 7})
    assert {one.training for one in once([*alone, other, few])} == {("sgd", ""), ("lora", "")}


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("rank", (1, 8), {"rank 1", "rank 8"}),
        ("k_shot", (None, 16), {"all examples", "16-shot"}),
        ("head", ("own", "linear"), {"own head", "linear head"}),
        ("tasks", (["a/x.yaml"], ["b/x.yaml"]), {"tasks a/x.yaml", "tasks b/x.yaml"}),
        ("tasks", (["a/x.yaml", "cr"], ["cr", "a/x.yaml"]), {"tasks x+cr", "tasks cr+x"}),
        ("model", ("pairs/one", "pairs/two"), {"one", "two"}),
        (("region", "sizes"), ("1%", "5%"), {"region 1%", "region 5%"}),
        (("region", "model", "steps"), (1, 5), {"region model 1 step", "region model 5 steps"}),
    ],
)
def test_words_tell_every_value_apart(name: str | tuple[str, ...], values: tuple[Any, Any], words: set[str]) -> None:
    parts = [{name if isinstance(name, tuple) else (name,): value} for value in values]
    found = once([tuned(folder=str(value), of_parts=of) for value, of in zip(values, parts, strict=True)])
    assert {one.variant for one in found} == words


def test_stages_of_one_sequence_are_never_averaged() -> None:
    """The stage is always named, even if only one was scored; models of different modes are not compared."""
    ways: list[dict[str, Any]] = [
        {"mode": "naive", "stage": 1},
        {"mode": "naive", "stage": 2},
        {"mode": "grafting", "stage": 1, "of_parts": {("region", "sizes"): "5%"}},
    ]
    found = once([tuned("ft_scaled", str(way), "continual", **way) for way in ways])
    told = {"naive, after stage 1", "naive, after stage 2", "grafting, after stage 1"}
    assert {one.variant for one in found} == told and len(sides(found)) == 3


def test_a_difference_tells_both_models_where_there_are_several() -> None:
    plain = [tuned(folder=f"m{steps}", steps=steps, right=RIGHT) for steps in (1, 300)]
    lora = tuned("lora", "l", "lora", right=RIGHT[::-1])
    rows = paired(once([*plain, lora]), [("lora", "ft")]).query("metric == 'accuracy'")
    assert set(rows["recipe"]) == {"lora"} and set(rows["recipe_b"]) == {"sgd"}
    assert rows["variant_b"].tolist() == ["1 step", "300 steps"] and set(rows["variant"]) == {""}
    assert set(paired(once([plain[0], lora]), [("lora", "ft")])["recipe_b"]) == {""}


def test_the_recovered_gain_is_of_one_way_of_training() -> None:
    """The graft of a model is measured by that model's gain, not by the mean gain of both."""

    def pair(steps: int, tuned: float) -> list[Observation]:
        values = {"pretrained": 0.5, "ft": tuned, "graft": 0.7}
        common: dict[str, Any] = {"model": f"m{steps}", "recipe": "sgd", "model_fields": {"steps": steps}}
        region = {"graft": {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}}
        return [
            seen(method, split=split, values={"accuracy": value, "ece": 0.1}, **common, **region.get(method, {}))
            for split in ("validation", "test")
            for method, value in values.items()
        ]

    rows = recovered(once([*pair(1, 0.7), *pair(300, 0.9)])).set_index("variant")
    assert rows["reached"].to_dict() == {"1 step": True, "300 steps": False}
    assert rows["seeds"].tolist() == [1, 1] and rows["value_ft"].tolist() == [0.7, 0.9]


@pytest.fixture(scope="module")
def results(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Run a study: LoRA of two ranks, SGD with two settings and two seeds each, a retrained region, two modes, one
    model of both tasks."""
    one, two = tasks(tiny)
    search = {"localizer": "movement", "size": "5%"}
    study = study_of(
        tiny,
        {"task": one, "recipe": "lora", "finetune": {"rank": 1}, "localizer": "none"},
        {"task": one, "recipe": "lora", "finetune": {"rank": 2}, "localizer": "none"},
        {"task": one, "recipe": "sgd", "finetune": {"steps": 1, "seed": [0, 1]}, **search},
        {"task": one, "recipe": "sgd", "finetune": {"seed": [0, 1]}, **search},
        {"task": one, "recipe": "graft-retrain", "region": {**search, "finetune": {"steps": 2}}, "localizer": "none"},
        {"tasks": [one, two], "recipe": "continual", "mode": "naive"},
        {"tasks": [one, two], "recipe": "continual", "mode": "grafting", "region": REGION},
        {"tasks": [one, two], "recipe": "multi-task", "localizer": "fisher", "size": "5%"},
    )
    folder = tmp_path_factory.mktemp("ways")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
        store = Store(folder / "runs")
        assert run_study(study, store).is_whole
        yield Results(study_plan(study), store)


@pytest.mark.nightly
def test_every_row_of_a_study_is_of_one_setting(results: Results) -> None:
    """All observations of a row have the same settings except their seeds."""
    found = of_results(results)
    assert all(all(one.model_fields == side[0].model_fields for one in side) for side in sides(found))
    table = score_table(found).query("split == 'test' and metric == 'accuracy' and task == 'one'")
    seeds = table.set_index(["method", "variant"])["seeds"]
    assert seeds["ft"].to_dict() == {"1 step": 2, "6 steps": 2, "2 steps": 1}
    assert seeds["lora"].to_dict() == {"rank 1": 1, "rank 2": 1}
    for method, mode in (("continual_naive", "naive"), ("continual_graft", "grafting")):
        assert seeds[method].to_dict() == {f"{mode}, after stage {stage}": 1 for stage in (1, 2)}


@pytest.mark.nightly
def test_a_make_up_has_one_row_a_part_seed_and_setting(results: Results) -> None:
    assert set(run_variants(results)) == {"1 step", "6 steps", "2 steps", ""}  # one model for two localizers
    table = make_tables(results.study, results)["composition"]
    shares = table.groupby(["task", "localizer", "variant"])["share"].sum()
    models = pd.Series(2.0, index=[("one", "movement", "1 step"), ("one", "movement", "6 steps")])
    assert shares[models.index].tolist() == pytest.approx(models.tolist())


@pytest.mark.nightly
def test_a_region_s_run_and_model_are_told_without_their_seeds(results: Results) -> None:
    (score,) = results.scores(recipe="graft-retrain")
    fields = model_fields(results, score)
    assert fields["region", "localizer"] == "movement" and fields["region", "sizes"] == "5%"
    assert (fields["region", "model", "recipe"], fields["region", "model", "steps"], fields["steps"]) == ("sgd", 2, 6)
    assert not [name for name in fields if "seed" in name]


@pytest.mark.nightly
def test_a_study_of_models_of_several_tasks_tells_their_stages_and_what_their_regions_share(results: Results) -> None:
    made = make_tables(results.study, results)
    rows = made["stages"].query("metric == 'accuracy'")
    told = {
        (mode, stage, task) for mode in ("naive", "grafting") for stage, task in ((1, "one"), (2, "one"), (2, "two"))
    }
    alone = {("independent", 1, "one"), ("independent", 2, "two")}
    assert {*zip(rows["mode"], rows["stage"], rows["task"], strict=True)} == told | alone
    assert not rows.loc[rows["mode"] == "grafting", "change"].any()
    assert set(made["overlap"]["row_task"]) == {"one", "two"} and set(made["isolation"]["kind"]) == {"overlap", "iou"}
    assert made["note"]["text"].str.contains("bit for bit the same after every later stage").any()


@pytest.mark.parametrize("other", [{"finetune": {"seed": 1}}, {"tasks": "turned", "mode": "grafting"}])
def test_several_sequences_are_not_told_as_one(tiny: Path, store: Store, other: dict[str, Any]) -> None:
    one, two = tasks(tiny)
    entry = {"tasks": [one, two], "recipe": "continual", "region": REGION}
    turned = {"tasks": [two, one]} if "tasks" in other else {}
    study = study_of(tiny, entry, {**entry, **other, **turned})
    assert stages_and_notes(Results(study_plan(study), store)) == ({}, [MANY_SEQUENCES])
    assert stages_and_notes(Results(study_plan(study_of(tiny, entry)), store)) == ({}, [])  # nothing is made yet
