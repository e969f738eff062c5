"""Tests of `evaluate` on other data: no temperature is fitted on their labels, and comparisons have intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.core.graft import Graft
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.runs import held_out
from skillviz.runs.evaluation import Evaluation, evaluate
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.held_out import why_not
from skillviz.runs.metrics import SCALED
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.cases.build import bert, fit, saved, task_file, tiny_rows, trained_pair
from tests.cli.calls import call
from tests.tiny import tiny_tokenizer

TRAIN, TEST = tiny_rows(120, seed=1), tiny_rows(40, seed=3)
HELD = [{**row, "label": 1 - row["label"]} if n % 4 == 0 else row for n, row in enumerate(tiny_rows(40, seed=2))]
OTHER_TRAIN, OTHER_HELD, OTHER_TEST = (tiny_rows(n, seed=seed) for n, seed in ((60, 11), (40, 12), (40, 13)))


def with_validation(path: Path, rows: Any) -> Path:
    """Return the task file with a validation file of these rows."""
    (path.parent / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = yaml.safe_load(path.read_text())
    values["data"]["validation"] = "validation.jsonl"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make base, tuned (trained elsewhere on `own`), the tasks `own` and `other`, and return the folder."""
    folder = trained_pair(tmp_path_factory.mktemp("world"), TRAIN)
    with_validation(task_file(folder / "own", TRAIN, TEST), HELD)
    with_validation(task_file(folder / "other", OTHER_TRAIN, OTHER_TEST), OTHER_HELD)
    return folder


@pytest.fixture(scope="module")
def run(world: Path) -> Run:
    """Return a run of top movement at 5% on the task `own`."""
    models = {"base": str(world / "base"), "finetuned": str(world / "tuned"), "task": str(world / "own" / "task.yaml")}
    spec = RunSpec(**models, localizer="movement", sizes=("5%",), device="cpu", max_test=30)
    return produce(spec, Store(world / "runs"))


def evaluated(world: Path, task: str, **options: Any) -> Evaluation:
    return evaluate(world / "base", world / "tuned", world / task / "task.yaml", device="cpu", **options)


def is_scaled(found: Evaluation) -> bool:
    """Return whether any split has a temperature-scaled model; check that the note and the temperature agree."""
    states = [SCALED in scores.states for scores in found.scores.values()]
    assert all(states) == any(states) == (found.temperature is not None)
    assert any("No comparison with temperature" in note for note in found.notes) != any(states)
    return any(states)


def test_other_data_choose_no_temperature(world: Path, run: Run) -> None:
    """Regression: a temperature is fitted for the region's own task, but not for another with a validation split."""
    region = run.path / "region.safetensors"
    other = evaluated(world, "other", region=region)
    assert not is_scaled(other) and why_not(held_out.UNKNOWN_TASK) in other.notes
    assert not other.scores["test"].scaled_differences and other.scores["test"].differences
    own = evaluated(world, "own", region=region)
    assert is_scaled(own) and own.temperature == pytest.approx(run.record.temperature)
    assert is_scaled(evaluated(world, "own", region=region, max_test=20))  # the same data with another cap


def test_other_rows_under_the_own_name_are_other_data(world: Path, run: Run, tmp_path: Path) -> None:
    task = with_validation(task_file(tmp_path / "own", OTHER_TRAIN, OTHER_TEST), OTHER_HELD)
    region = run.path / "region.safetensors"
    found = evaluate(world / "base", world / "tuned", task, region=region, device="cpu")
    assert not is_scaled(found)


def test_without_a_word_on_the_models_data_nothing_is_fitted(world: Path, run: Run) -> None:
    assert not is_scaled(evaluated(world, "own"))
    assert not is_scaled(evaluated(world, "own", region=run.region()))  # an object does not record its task


def test_a_graft_says_which_data_are_its_own(world: Path, run: Run, tmp_path: Path) -> None:
    graft, _ = graft_of_run(run)
    graft.save(tmp_path / "graft.safetensors")
    again = Graft.load(tmp_path / "graft.safetensors")
    assert is_scaled(evaluated(world, "own", graft=again)) and not is_scaled(evaluated(world, "other", graft=again))


def test_the_graft_is_compared_with_the_finetuned_model_by_a_paired_interval(world: Path, run: Run) -> None:
    models = ("--base", world / "base", "--finetuned", world / "tuned", "--device", "cpu")
    region = run.path / "region.safetensors"
    said = call("evaluate", *models, "--task", world / "other" / "task.yaml", "--region", region, "--json")
    assert said.code == 0, said.err
    found = said.json["differences"]["accuracy"]
    evaluation = evaluated(world, "other", region=region)
    states = evaluation.scores["test"].states
    assert found["value"] == pytest.approx(states["grafted"]["accuracy"].value - states["finetuned"]["accuracy"].value)
    assert found["low"] <= found["value"] <= found["high"] and found["low"] < found["high"]
    lines = [line for line in said.out.splitlines() if "grafted − fine-tuned on test" in line]
    assert [line.split(",")[0] for line in lines] == ["Accuracy", "ECE", "NLL"]
    for line in lines:
        assert any(word in line for word in ("better", "worse", NO_DIFFERENCE)) and "95%: " in line, line
    assert why_not(held_out.UNKNOWN_TASK) in said.out.replace("\n", " ") and "fine-tuned, scaled" not in said.out
    assert said.json["temperature"] is None and why_not(held_out.UNKNOWN_TASK) in said.json["notes"]


def test_what_has_no_interval_is_said_not_to_be_measured(world: Path, run: Run) -> None:
    models = ("--base", world / "base", "--finetuned", world / "tuned", "--device", "cpu", "--max-test", 4)
    said = call("evaluate", *models, "--task", world / "own" / "task.yaml", "--region", run.path / "region.safetensors")
    assert said.code == 0, said.err
    (ece,) = [line for line in said.out.splitlines() if line.startswith("ECE, grafted − fine-tuned")]
    assert NOT_MEASURED in ece and NO_DIFFERENCE not in ece and "no interval" in ece
