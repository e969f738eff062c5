"""Tests of regions of a model of two tasks: a tiny real pair with one head for both, its gains, and stored logits."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import check
from skillviz.core.region import Region
from skillviz.errors import ModelNotFound
from skillviz.models import predict
from skillviz.runs.produce import produce
from skillviz.runs.record import TaskNote
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies import task_unions
from skillviz.studies.paper.experiments import figure8
from skillviz.studies.task_unions import TaskScores, TaskUnion, mean_relative_gain, unions
from tests.tiny import tiny_pair, tiny_task

pytestmark = pytest.mark.slow

ONE, TWO = "sst2_sentences", "cr"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the input of the tables: two tasks of one tiny model, and a region of each for three mask seeds. The
    second task's first test text is also in the first task's training data, and only there."""
    folder = tmp_path_factory.mktemp("task_unions")
    tiny_pair(folder, steps=60)
    for name in (ONE, TWO):
        path = tiny_task(folder / name)
        path.write_text(path.read_text().replace("name: tiny", f"name: {name}"))
    leaked = (folder / TWO / "test.jsonl").read_text().splitlines()[0]
    with (folder / ONE / "train.jsonl").open("a") as file:
        file.write(leaked + "\n")
    store, session = Store(folder / "runs"), Session()
    runs = [
        produce(
            RunSpec(
                base=str(folder / "base"), finetuned=str(folder / "finetuned"), task=str(folder / name / "task.yaml"),
                localizer="stagewise", options={"start_share": 0.0}, sizes=("5%",), steps=3, batch_size=16, seed=seed,
                device="cpu",
            ),
            store, None, session,
        )
        for name, seed in product((ONE, TWO), (0, 1, 2))
    ]  # fmt: skip
    return SimpleNamespace(
        runs=lambda **labels: runs, store=store, session=session, entry=lambda run: {"recipe": "multi-task"}
    )


@pytest.fixture(scope="module")
def tables(results: Any) -> dict[str, pd.DataFrame]:
    """Return the tables of the study, checked."""
    return {name: check(frame, name) for name, frame in figure8.tables(results).items()}


def test_every_table_of_the_study_is_whole(tables: dict[str, pd.DataFrame]) -> None:
    assert set(tables) == {"overlap", "isolation", "gain", "scores", "stability", "note"}
    gain = {*tables["gain"][["region_tasks", "purified", "task", "seeds"]].itertuples(index=False, name=None)}
    regions = {((ONE,), False), ((TWO,), False), ((ONE, TWO), False), ((ONE, TWO), True)}
    assert gain == {(*region, task, 3) for region, task in product(regions, (ONE, TWO))}
    assert {"mask seeds", "bootstrap"} == set(tables["stability"]["source"])
    assert {"pretrained", "multi_task", "graft"} == set(tables["scores"]["method"])


def test_examples_that_another_task_trained_on_are_not_scored(results: Any, tables: dict[str, pd.DataFrame]) -> None:
    left = figure8.leaks_of(task_unions.region_runs(results))
    scored = {task: set(own["n"]) for task, own in tables["gain"].groupby("task")}
    assert scored == {task: {left[task].rows - len(left[task].leaked)} for task in (ONE, TWO)} and left[TWO].leaked
    assert tables["note"]["text"].str.contains("left out").any(), "it is told"


def test_without_weights_overlap_is_told_all_the_same(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_unions, "scored", Mock(side_effect=ModelNotFound("there is no model here.")))
    found = figure8.tables(results)
    assert "gain" not in found and len(found["overlap"]) == 8
    assert "need the weights" in found["note"]["text"].iloc[0]


def test_a_gain_is_the_paper_s_equation(results: Any) -> None:
    own = list(task_unions.region_runs(results)[ONE].values())
    chosen = [TaskUnion(ONE, (ONE,), tuple(run.region() for run in own))]
    found = task_unions.scored(results.session, own[0].spec, chosen, frozenset(), results.store.root)
    base, tuned, graft = (
        np.mean([run.logits(state)[2].argmax(axis=1) == run.logits(state)[1] for run in own])
        for state in ("pretrained", "finetuned", "grafted")
    )
    by_hand = (graft - base) / (tuned - base)
    assert mean_relative_gain(found, found.grafts[ONE, False]).value == pytest.approx(by_hand)


def test_base_and_member_have_gain_nought_and_one() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    base, model = rng.normal(size=(200, 2)), np.eye(2)[labels] + rng.normal(scale=0.3, size=(200, 2))
    found = TaskScores(TaskNote(name="a", labels=("no", "yes")), labels, base, model)
    nought, one, middle = (mean_relative_gain(found, of) for of in ([base], [model], [base, model]))
    assert (nought.value, one[:3], middle.value) == (0.0, (1.0, 1.0, 1.0), pytest.approx(0.5))
    assert middle.low < 0.5 < middle.high
    assert np.isnan(mean_relative_gain(TaskScores(found.task, labels, model, model), [base]).value)


def test_a_gain_over_three_regions_is_as_uncertain_as_their_t_interval() -> None:
    """Gains of 0.5, 0.6 and 0.7 with so many examples that only the regions differ: 0.6 ± 4.303 * 0.1 / sqrt(3)."""
    place, labels = np.arange(10_000), np.zeros(10_000, np.int64)
    base, tuned, *grafts = (
        np.stack([np.where(place < right * 10_000, 1.0, -1.0), 0.0 * place], axis=1) for right in (0, 1, 0.5, 0.6, 0.7)
    )
    gain = mean_relative_gain(TaskScores(TaskNote(name="a", labels=("no", "yes")), labels, base, tuned), grafts)
    width = pytest.approx(2 * 4.303 * 0.1 / np.sqrt(3), rel=0.15)
    assert (gain.value, gain.high - gain.low) == (pytest.approx(0.6), width)


def test_regions_of_one_model_and_data_seed_are_compared_and_the_rest_is_told(results: Any) -> None:
    """Only runs of the first model are compared, and data seed 0 is not required."""
    runs = results.runs()
    models = {run.id: "first" if run.spec.seed < 2 else "second" for run in runs}
    one = SimpleNamespace(**{**vars(results), "entry": lambda run: {"finetuned_key": models[run.id]}})
    found = task_unions.region_runs(one)  # type: ignore[arg-type]
    assert {task: list(own) for task, own in found.items()} == {ONE: [0, 1], TWO: [0, 1]}
    assert task_unions.left_out(one, found).startswith("2 runs of other models")  # type: ignore[arg-type]
    assert task_unions.left_out(results, task_unions.region_runs(results)) == ""
    other = [SimpleNamespace(**{**vars(run), "spec": run.spec.model_copy(update={"data_seed": 3})}) for run in runs]
    moved = SimpleNamespace(**{**vars(results), "runs": lambda **labels: other})
    assert list(task_unions.region_runs(moved)) == [ONE, TWO]  # type: ignore[arg-type]


def test_logits_are_scored_once(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = task_unions.region_runs(results)[ONE][0]
    chosen = [TaskUnion(ONE, (ONE,), (run.region(),))]
    first = task_unions.scored(results.session, run.spec, chosen, frozenset(), results.store.root)

    monkeypatch.setattr(predict, "predict", Mock(side_effect=AssertionError("scored again")))
    again = task_unions.scored(results.session, run.spec, chosen, frozenset(), results.store.root)
    assert np.array_equal(first.grafts[ONE, False][0], again.grafts[ONE, False][0])
    other = [TaskUnion(ONE, (ONE,), (Region.from_flat(run.region().flat()[:-1], run.region().shapes),))]
    with pytest.raises(AssertionError):
        task_unions.scored(results.session, run.spec, other, frozenset(), results.store.root)


@pytest.mark.parametrize(
    ("families", "united"),
    [
        ("xxy", ["ab", "ac", "bc", "abc"]),
        ("xxxyz", ["abc", "ab", "ac", "bc", "abcde"]),
    ],
)
def test_which_sets_of_tasks_are_united(families: str, united: list[str]) -> None:
    names = "abcde"[: len(families)]
    assert unions(list(names), dict(zip(names, families, strict=True))) == [tuple(one) for one in united]
