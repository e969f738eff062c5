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
from skillviz.studies.paper.experiments import EXPERIMENTS, figure7, figure8, table4
from skillviz.studies.paper.scales import SCALES, size_text
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.tasks.leaks import Unseen
from tests.fake_run import fake_run

ORDER = ("one", "two", "three")
N = 40


def planned(name: str, scale: str) -> Any:
    return study_plan(StudySpec(**EXPERIMENTS[name].build(SCALES[scale])))


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_a_sequence_is_scored_after_every_stage_in_both_modes(scale: str) -> None:
    found = planned("table4", scale)
    assert [model.recipe for model in found.finetuned].count("continual") == 2
    assert len(found.scores) == 2 * (1 + 2 + 3)
    naive, grafting = (found.of("finetune", recipe="continual", mode=mode) for mode in ("naive", "grafting"))
    assert not naive[0].spec.regions and len(grafting[0].spec.regions) == 3
    assert len(found.of("localize", role="region")) == 3


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_one_model_of_several_tasks_has_a_region_a_task_and_seed(scale: str) -> None:
    found = planned("figure8", scale)
    (model,) = found.finetuned
    steps = SCALES[scale].training.get("steps")  # without it, the sum of the tasks' own steps
    assert model.recipe == "multi-task" and model.steps == (steps and len(model.tasks) * steps)
    assert len(found.runs) == len(model.tasks) * len(SCALES[scale].mask_seeds)
    assert {run.options["start_share"] for run in found.runs} == {0.0}, "the base of the mask is empty"
    assert len({run.sizes for run in found.runs}) == 1, "equal sizes"


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_other_data_are_scored_at_every_size(scale: str) -> None:
    found = planned("figure7", scale)
    assert all(run.others for run in found.runs)
    assert {run.interpolation for run in found.runs} == {True, False}
    assert {run.sizes[0] for run in found.runs if run.interpolation} == {size_text(SCALES[scale].sizes[0])}


def test_figures_9_and_10_are_made_of_the_runs_of_table_2() -> None:
    of_table = {run.key() for run in planned("table2", "small").runs}
    for name in ("figure9", "figure10"):
        assert {run.key() for run in planned(name, "small").runs} <= of_table


def test_one_task_is_no_sequence() -> None:
    with pytest.raises(BadInput, match="two or more"):
        SCALES["small"].several_tasks("multi-task", ("mr",), {})


def predictions(task: str, wrong: int, states: tuple[str, ...] = ("finetuned",)) -> pd.DataFrame:
    """Return a model that errs on the first `wrong` of 40 examples; all labels are "yes"."""
    right = np.arange(N) >= wrong
    frame = pd.DataFrame(
        {
            "example_id": [f"test-{number}" for number in range(N)], "dataset": task, "split": "test", "label": 1,
            "logit_no": np.where(right, 0.0, 1.0), "logit_yes": np.where(right, 1.0, 0.0),
        }
    )  # fmt: skip
    return pd.concat([frame.assign(state=state) for state in states], ignore_index=True)


def score(mode: str, stage: int, task: str, wrong: int) -> Any:
    spec = SimpleNamespace(finetuned=f"${{SKILLVIZ_FINETUNED}}/x-{mode}/{stage}/{task}", task=task)
    record = SimpleNamespace(task=TaskNote(name=task, labels=("no", "yes")))
    return SimpleNamespace(spec=spec, record=record, predictions=lambda: predictions(task, wrong))


def alone(task: str) -> Any:
    spec = SimpleNamespace(base="base", task=task, localizer="stagewise")
    record = SimpleNamespace(task=TaskNote(name=task, labels=("no", "yes")), task_name=task, size=10, share=0.1)
    frame = predictions(task, 2, ("pretrained", "finetuned", "grafted"))
    return SimpleNamespace(spec=spec, record=record, predictions=lambda: frame)


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
    stages = found["stages"]
    rows = stages[stages["metric"] == "accuracy"].set_index(["mode", "stage", "task"])
    assert set(stages["n"]) == {N - 1}, "the example that another task trained on is left out"
    assert rows.loc[("naive", 3, "one"), "change"] == pytest.approx(-8 / 39)
    assert rows.loc[("grafting", 3, "one"), "change"] == 0.0
    assert rows.loc[("independent", 2, "two"), "value"] == pytest.approx(37 / 39)
    less = found["differences"]
    less = less[(less["metric"] == "accuracy") & (less["task"] == "one")].set_index(["a", "b"])["value"]
    assert less[("continual_graft", "continual_naive")] == pytest.approx(9 / 39)
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
    grids = pd.concat([run.interpolation() for run in runs])
    own = grids[(grids["path"] == "wise-graft") & (grids["alpha"] == 1.0) & (grids["metric"] == "accuracy")]
    told = found[(found["path"] == "wise-graft") & (found["alpha"] == 1.0) & (found["metric"] == "accuracy")]
    one = told[told["task"] == told["id_task"]]["value"].iloc[0]
    assert one == pytest.approx(own[own["dataset"] == runs[0].datasets[0]]["value"].mean())
