"""Tests of experiments on several tasks: plans at both scales, and Table 4 from invented scores with a planted bug."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import check
from skillviz.errors import BadData, BadInput
from skillviz.runs.record import TaskNote
from skillviz.runs.store import Store
from skillviz.studies import task_sequence
from skillviz.studies.paper.experiments import EXPERIMENTS, figure7, table4
from skillviz.studies.paper.scales import SCALES, size_text
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.tasks.leaks import Unseen
from tests.fake_run import fake_run
from tests.refused import refused

ORDER = ("one", "two", "three")
N = 40


def planned(name: str, scale: str) -> Any:
    return study_plan(StudySpec(**EXPERIMENTS[name].build(SCALES[scale])))


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_a_sequence_is_scored_after_every_stage_in_both_modes(scale: str) -> None:
    found = planned("table4", scale)
    (naive,), (grafting,) = (found.of("finetune", recipe="continual", mode=mode) for mode in ("naive", "grafting"))
    assert (len(naive.spec.regions), len(grafting.spec.regions), len(found.of("localize", role="region"))) == (0, 3, 3)
    assert len(found.scores) == 2 * (1 + 2 + 3)


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_one_model_of_several_tasks_has_a_region_a_task_and_seed(scale: str) -> None:
    found = planned("figure8", scale)
    (model,) = found.finetuned
    steps = SCALES[scale].training.get("steps")  # without it, the sum of the tasks' own steps
    assert model.recipe == "multi-task" and model.steps == (steps and len(model.tasks) * steps)
    assert len(found.runs) == len(model.tasks) * len(SCALES[scale].mask_seeds)
    settings = {(run.options["start_share"], run.sizes) for run in found.runs}
    assert settings == {(0.0, found.runs[0].sizes)}, "the base of the mask is empty, and sizes are equal"


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_other_data_are_scored_at_every_size(scale: str) -> None:
    runs, main = planned("figure7", scale).runs, size_text(SCALES[scale].sizes[0])
    assert [run for run in runs if not run.others] == [] and {run.interpolation for run in runs} == {True, False}
    assert {run.sizes[0] for run in runs if run.interpolation} == {main}


@pytest.mark.parametrize("name", ["figure9", "figure10"])
def test_figures_9_and_10_are_made_of_the_runs_of_table_2(name: str) -> None:
    figure, table = ({run.key() for run in planned(one, "small").runs} for one in (name, "table2"))
    assert figure <= table


test_one_task_is_no_sequence = refused(
    BadInput, ("two or more", SCALES["small"].several_tasks, "multi-task", ("mr",), {})
)


def predictions(task: str, wrong: int, states: tuple[str, ...] = ("finetuned",)) -> pd.DataFrame:
    """Return a model that errs on the first `wrong` of 40 examples; all labels are "yes"."""
    right, told = np.arange(N) >= wrong, {"dataset": task, "split": "test", "label": 1}
    logits = {"logit_no": np.where(right, 0.0, 1.0), "logit_yes": np.where(right, 1.0, 0.0)}
    frame = pd.DataFrame({"example_id": [f"test-{number}" for number in range(N)], **told, **logits})
    return pd.concat([frame.assign(state=state) for state in states], ignore_index=True)


def scored(task: str, frame: pd.DataFrame, spec: dict[str, Any], **record: Any) -> Any:
    """Return a score or a run with these predictions."""
    note = TaskNote(name=task, labels=("no", "yes"))
    return SimpleNamespace(
        spec=SimpleNamespace(task=task, **spec), record=SimpleNamespace(task=note, **record), predictions=lambda: frame
    )


def score(mode: str, stage: int, task: str, wrong: int) -> Any:
    return scored(task, predictions(task, wrong), {"finetuned": f"${{SKILLVIZ_FINETUNED}}/x-{mode}/{stage}/{task}"})


def alone(task: str) -> Any:
    frame = predictions(task, 2, ("pretrained", "finetuned", "grafted"))
    return scored(task, frame, {"base": "base", "localizer": "stagewise"}, task_name=task, size=10, share=0.1)


def results(grafting: dict[tuple[int, str], int]) -> Any:
    """Return results: naive training errs on four more after each later stage, grafting on the given counts."""
    naive = {(s, t): 4 * (s - ORDER.index(t)) for s in (1, 2, 3) for t in ORDER[:s]}
    told = {"naive": naive, "grafting": grafting}
    return SimpleNamespace(
        scores=lambda recipe, mode: [score(mode, *key, wrong) for key, wrong in told[mode].items()],
        runs=lambda **_: [alone(task) for task in ORDER],
    )


@pytest.fixture
def no_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    leaks = {task: Unseen(task, N, frozenset({"test-39"}), {}) for task in ORDER}
    monkeypatch.setattr(task_sequence.registry, "task", lambda path, *_: path)
    monkeypatch.setattr(task_sequence, "unseen", lambda tasks: leaks)


STEADY = {(s, t): 3 for s in (1, 2, 3) for t in ORDER[:s]}


@pytest.mark.usefixtures("no_leaks")
def test_table_4_tells_what_each_mode_keeps() -> None:
    found = {name: check(frame, name) for name, frame in table4.tables(results(STEADY)).items()}
    rows = found["stages"].query("metric == 'accuracy'").set_index(["mode", "stage", "task"])
    less = found["differences"].query("metric == 'accuracy' and task == 'one'").set_index(["a", "b"])["value"]
    assert set(found["stages"]["n"]) == {N - 1}, "the example that another task trained on is left out"
    assert rows.loc[("grafting", 3, "one"), "change"] == 0.0
    told = (rows["change"]["naive", 3, "one"], rows["value"]["independent", 2, "two"])
    assert (*told, less["continual_graft", "continual_naive"]) == pytest.approx((-8 / 39, 37 / 39, 9 / 39))
    methods = {"continual_naive", "continual_graft", "independent", "pretrained", "graft"}
    assert set(found["scores"]["method"]) == methods
    assert found["note"]["text"].str.contains("bit for bit the same after every later stage").any()


@pytest.mark.usefixtures("no_leaks")
def test_a_grafting_model_that_forgets_is_refused() -> None:
    with pytest.raises(BadData, match="after stage 3 the grafting model answers 1 of 39 test examples of 'one'"):
        table4.tables(results({**STEADY, (3, "one"): 4}))


@pytest.mark.nightly
def test_ways_between_the_models_are_means_over_mask_seeds(tmp_path: Any) -> None:
    small = {"n": {"validation": 20, "test": 30}, "layers": 1, "width": 8, "steps": 2, "sizes": ("10%",)}
    runs = [fake_run(Store(tmp_path / str(seed)), interpolation=True, seed=seed, **small) for seed in (0, 1, 2)]
    found = check(pd.DataFrame(figure7.path_rows(runs)), "paths")
    assert set(found["path"]) == {"wise-ft", "wise-graft"} and not found["metric"].str.endswith("_difference").any()
    key = ["path", "alpha", "id_task", "task", "metric"]
    assert not found.duplicated(key).any() and found["alpha"].nunique() == 11
    whole = "path == 'wise-graft' and alpha == 1.0 and metric == 'accuracy'"
    own = pd.concat([run.interpolation() for run in runs]).query(whole)
    told = found.query(f"{whole} and task == id_task")["value"].iloc[0]
    assert told == pytest.approx(own[own["dataset"] == runs[0].datasets[0]]["value"].mean())
