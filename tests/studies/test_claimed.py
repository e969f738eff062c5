"""Whether a file that names an experiment asks for it: what experiments build does, of any models; changes do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.paper.claimed import asks_its_experiment
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.reproduce import Asked, study_of
from skillviz.studies.paper.scales import SCALES
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec

TWO = ("film-sentiment", "news-topic")
FILES = tuple(f"demo_world/tasks/{name}.yaml" for name in ("film-sentiment", "gadget-sentiment"))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_an_experiment_builds_is_it(name: str, scale: str) -> None:
    study = StudySpec(**EXPERIMENTS[name].build(SCALES[scale]))
    assert asks_its_experiment(study)
    assert not asks_its_experiment(study.model_copy(update={"experiment": None}))
    changed = [{**study.runs[0], "steps": 7}, *study.runs[1:]]
    assert not asks_its_experiment(study.model_copy(update={"runs": tuple(changed)}))


@pytest.mark.parametrize(
    "own",
    [
        {"base": "models/mine", "tasks": TWO, "seeds": 2},
        {"base": "models/mine", "tasks": FILES},
        {"readout": "head", "tasks": TWO},
        {"tasks": TWO[:1], "finetuned": "models/tuned"},
        {"tasks": TWO[:1], "also": ("gadget-sentiment",)},
    ],
)
def test_it_may_be_asked_of_own_models_tasks_and_seeds(own: dict[str, Any], tmp_path: Path) -> None:
    study = study_of(Asked("table2", **own), Store(tmp_path))[2]
    assert asks_its_experiment(StudySpec(**study.model_dump(mode="json")))
    assert not asks_its_experiment(study.model_copy(update={"experiment": "figure6"}))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_may_be_asked_of_several_fine_tuning_seeds(name: str, scale: str, tmp_path: Path) -> None:
    asked = Asked(name, scale, seeds=3)
    if name in ("table4", "figure8", "sensitivity"):
        with pytest.raises(BadInput, match="leave --seeds 3 out; .*`python -m skillviz reproduce table2 --seeds 3`"):
            study_of(asked, Store(tmp_path))
        assert asks_its_experiment(study_of(Asked(name, scale, seeds=1), Store(tmp_path))[2])
        return
    study = study_of(asked, Store(tmp_path))[2]
    assert asks_its_experiment(study) and study.name.endswith("-3-seeds")
    main = [member.seed for member in plan(study).finetuned if member.recipe == "sgd" and member.readout == own(study)]
    assert set(main) == {0, 1, 2}
    grafted = {run.finetuned for run in plan(study).runs if run.localizer == "stagewise"}
    assert len(grafted) >= 3 and not any("pairs" in path for path in grafted)


def own(study: StudySpec) -> str:
    """The readout of its scale."""
    return SCALES[str(study.scale)].readout


def test_the_device_is_no_part_of_what_is_asked() -> None:
    study = StudySpec(**EXPERIMENTS["figure6"].build(SCALES["demo"]))
    runs = tuple({**run, "device": "cuda"} for run in study.runs)
    assert asks_its_experiment(study.model_copy(update={"runs": runs}))


def test_common_fields_may_stand_once_as_defaults() -> None:
    study = StudySpec(**EXPERIMENTS["table2"].build(SCALES["demo"]))
    rest = tuple({name: value for name, value in run.items() if name != "base"} for run in study.runs)
    same = study.model_copy(update={"defaults": {"base": study.runs[0]["base"]}, "runs": rest})
    assert asks_its_experiment(same)
    assert not asks_its_experiment(same.model_copy(update={"defaults": {"base": ["a", "b"]}}))


def test_entries_that_are_nonsense_are_not_it() -> None:
    for entry in ({}, {"base": {"a": 1}}, {"base": "b", "task": [{"x": 1}], "finetune": "no"}, {"base": [["b"]]}):
        assert not asks_its_experiment(StudySpec(name="x", experiment="table2", scale="demo", runs=(entry,)))
    assert not asks_its_experiment(StudySpec(name="x", experiment="table99", scale="demo", runs=({"base": "b"},)))
