"""Tests of a pair that was fine-tuned elsewhere: the terminal shows the same warnings as the pages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from skillviz.core.temperature import Temperature
from skillviz.runs.held_out import AT_END, UNKNOWN_TASK, why_not
from skillviz.runs.store import Store
from tests.cli.calls import call
from tests.cli.conftest import QUICK
from tests.models.folders import change_weights
from tests.tiny import tiny_pair, tiny_task

SEEN = "the validation examples are train rows"


def without_validation(task_file: Path, folder: Path) -> Path:
    """Copy the task without its validation file."""
    copy = shutil.copytree(task_file.parent, folder) / task_file.name
    task = yaml.safe_load(copy.read_text())
    del task["data"]["validation"]
    copy.write_text(yaml.safe_dump(task))
    return copy


@pytest.mark.nightly
def test_validation_cut_from_rows_that_a_model_may_have_seen(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path
) -> None:
    task = without_validation(task_file, tmp_path / "task")
    elsewhere = shutil.copytree(pair[1], tmp_path / "elsewhere")
    (elsewhere / "finetune.json").unlink()
    # With a validation file the pair was trained on every train row, so both models saw a cut of them.
    for tuned, cut, warned in ((elsewhere, task, True), (pair[1], task, True), (elsewhere, task_file, False)):
        models = ("--base", pair[0], "--finetuned", tuned, "--task", cut)
        runs = tmp_path / f"runs-{warned}-{tuned.name}-{cut.parent.name}"
        said = call("localize", *models, "--size", "5%", *QUICK, "--runs-dir", runs)
        assert said.code == 0, said.err
        assert (SEEN in said.out) == warned
        assert any(SEEN in note for note in Store(runs).list()[0].record.notes) == warned
        scored = call("evaluate", *models, "--device", "cpu")
        assert scored.code == 0 and why_not(UNKNOWN_TASK) in scored.out


@pytest.mark.nightly
def test_a_temperature_at_the_end_of_its_range_is_told_as_on_the_page(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    for value, at_bound in ((0.02, True), (50.0, True), (1.5, False)):
        fit = Temperature(value, 0.7, 0.6, at_bound)
        monkeypatch.setattr("skillviz.runs.held_out.temperature_fit", lambda *_, fit=fit: fit)
        localized = call("localize", *models, "--size", "5%", *QUICK, "--runs-dir", tmp_path / str(value))
        for said in (localized, call("evaluate", *models, "--device", "cpu")):
            assert said.code == 0, said.err
            assert (why_not(AT_END) in said.out) == at_bound
            assert ("fine-tuned, scaled" in said.out) != at_bound


@pytest.mark.slow
def test_moved_embeddings_and_the_bases_own_pooler_are_told(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", move_embeddings=True)
    models = ("--base", base, "--finetuned", tuned, "--task", tiny_task(tmp_path / "task"))
    said = call("localize", *models, "--size", "5%", *QUICK, "--runs-dir", tmp_path / "runs")
    assert said.code == 0, said.err
    assert "outside what can be grafted" in said.out
    pooler = "The base's own pooler"
    assert pooler in said.out and pooler in call("preflight", *models).out
    change_weights(base, lambda tensors: {n: t for n, t in tensors.items() if "pooler" not in n})
    assert pooler not in call("preflight", *models).out
