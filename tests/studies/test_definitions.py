"""Tests of changed task definitions: finished work is made again, with a note."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import pytest
import yaml

from skillviz.runs.artifact import CURRENT, RunArtifact
from skillviz.runs.graft_of_run import prompt_of
from skillviz.runs.score import ScoreArtifact, read_score, score_path
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.plan import study_plan
from skillviz.studies.task_unions import pair_key
from skillviz.tasks import registry
from skillviz.tasks.definition import definition
from tests.studies.tiny_study import few, tasks, tiny_world


def change(path: Path, **fields: object) -> None:
    """Change fields of a task file."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **fields}, sort_keys=False))


@pytest.mark.nightly
def test_a_changed_task_makes_members_runs_and_scores_again(tmp_path: Path) -> None:
    tiny_world(tmp_path / "world")
    study, store = few(tmp_path / "world"), Store(tmp_path / "runs")
    task = Path(tasks(tmp_path / "world")[0])
    assert not run_study(study, store).again
    change(task, title="Another title")
    assert not run_study(study, store).finished
    change(task, template={"masked": "<mask> is {text}", "causal": "Is {text}"}, length_normalised=True)
    assert not run_study(study, store).finished, "they are all of the head"
    change(task, max_length=12)
    outcome = run_study(study, store)
    assert outcome.is_whole and not outcome.skipped
    kinds = {step.kind: why for step, why in outcome.again}
    assert set(kinds) == {"finetune", "localize", "score"}
    assert all("the definition of the task" in why and "has changed" in why for why in kinds.values()), kinds


@pytest.mark.slow
def test_runs_scores_and_kept_logits_know_the_definition(tmp_path: Path) -> None:
    tiny_world(tmp_path / "world")
    study, store = few(tmp_path / "world"), Store(tmp_path / "runs")
    run_study(study, store)
    run, (spec,) = store.list()[0], study_plan(study).scores
    made = [(RunArtifact(run.spec), run), (ScoreArtifact(spec), read_score(score_path(store.root, spec)))]
    assert run.record.task is not None and run.record.task.definition
    assert [artifact.changes(one, store, Session()) for artifact, one in made] == [CURRENT, CURRENT]  # type: ignore[arg-type, attr-defined]
    key = pair_key(Session(), run.spec)
    change(Path(tasks(tmp_path / "world")[0]), metric="f1")
    for artifact, one in made:
        assert "definition" in artifact.changes(one, store, Session()).why  # type: ignore[arg-type, attr-defined]
    assert pair_key(Session(), run.spec) != key


@pytest.mark.parametrize(
    ("of_run", "is_told", "words"),
    [(None, True, ""), ("", True, "does not store the definition"), ("of before", False, "has changed since the run")],
)
def test_a_graft_says_no_prompt_that_has_changed_since_its_run(
    tiny: Path, of_run: str | None, is_told: bool, words: str
) -> None:
    task = registry.task(tasks(tiny)[0])
    note = SimpleNamespace(definition=definition(task) if of_run is None else of_run)
    record, spec = SimpleNamespace(readout="prompt", task=note), SimpleNamespace(readout="prompt", task=str(task.path))
    fields, remarks = prompt_of(SimpleNamespace(record=record, spec=spec))  # type: ignore[arg-type]
    assert fields == ({"template": task.template.masked, "label_words": ANY} if is_told else {})
    assert words in "".join(remarks) and len(remarks) == bool(words)
