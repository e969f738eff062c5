"""Tests of stability over a study's seeds: the compared runs, on a tiny study that is really made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.analysis.run_tables import stability_of_runs
from skillviz.core.stability import stability
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.store import list_studies
from skillviz.studies.study_observations import finetuned_labels
from tests.studies.tiny_study import study_of, tasks

pytestmark = pytest.mark.nightly

SEEDS = {"seed": [0, 1], "data_seed": [0, 1, 2], "k_shot": 4}


@pytest.fixture(scope="module")
def results(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Run two recipes, three data seeds (one model each) and two mask seeds; movement has one region per model."""
    folder = tmp_path_factory.mktemp("stable")
    one, _ = tasks(tiny)
    search = {"localizer": "stagewise", "size": "5%", "steps": 2, "batch_size": 4}
    study = study_of(tiny, {"task": one, "recipe": ["sgd", "adamw"], **search, **SEEDS})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
        store = Store(folder / "runs")
        assert run_study(study, store).is_whole
    return Results(study_plan(study), store)


def row(table: pd.DataFrame, **wanted: str) -> Any:
    """Return the only row with these values."""
    for name, value in wanted.items():
        table = table[table[name] == value]
    assert len(table) == 1, table
    return table.iloc[0]


def test_the_table_is_one_of_the_study_s(results: Results) -> None:
    (folder,) = list_studies(results.store)
    table = folder.table("stability")
    assert len(table) == 4 and set(table["recipe"]) == {"sgd", "adamw"}
    assert set(table["source"]) == {"mask seeds", "data seeds"} and (table["chance"] > 0).all()


def test_trainings_of_one_recipe_are_kept_apart(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of six steps and one of two are different models: each has its own row of mask seeds."""
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "finetuned-models"))
    one, _ = tasks(tiny)
    entry = {"task": one, "recipe": "sgd", "localizer": "random", "size": "5%", "seed": [0, 1]}
    study, store = study_of(tiny, entry, {**entry, "finetune": {"steps": 2}}), Store(tmp_path / "runs")
    assert run_study(study, store).is_whole
    made = Results(study_plan(study), store)
    table = stability_of_runs(made.runs(), finetuned_labels(made))
    assert table["source"].tolist() == ["mask seeds", "mask seeds"]


@pytest.mark.parametrize("recipe", ["sgd", "adamw"])
def test_one_thing_differs_at_a_time(results: Results, recipe: str) -> None:
    """Mask seeds are compared on the first data seed's model, data seeds at the first mask seed, recipes separately."""
    table = stability_of_runs(results.runs(), finetuned_labels(results))
    runs = {(r.spec.data_seed, r.spec.seed): r.region() for r in results.runs(recipe=recipe)}
    assert len(runs) == 6
    masks = stability([runs[0, 0], runs[0, 1]])
    found = row(table, recipe=recipe, source="mask seeds")
    assert (found["iou"], found["pairs"]) == (masks.iou, 1) and pd.isna(found["low"])
    data = stability([runs[seed, 0] for seed in range(3)])
    found = row(table, recipe=recipe, source="data seeds")
    assert (found["iou"], found["low"], found["high"]) == (data.iou, data.low, data.high)
    assert (found["pairs"], *found[["chance", "chance_low", "chance_high"]]) == (3, *data.chance)
