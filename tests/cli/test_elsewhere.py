"""Tests of a pair that was fine-tuned elsewhere: the terminal shows the same warnings as the pages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skillviz.core.temperature import Temperature
from skillviz.runs.held_out import AT_END, UNKNOWN_TASK, why_not
from skillviz.runs.store import Store
from tests.cli.calls import call, done
from tests.cli.conftest import QUICK, members_of
from tests.models.folders import drop
from tests.tiny import tiny_pair, tiny_task

SEEN = "the validation examples are train rows"


def without_validation(task_file: Path, folder: Path) -> Path:
    copy = shutil.copytree(task_file.parent, folder) / task_file.name
    copy.write_text(copy.read_text().replace("  validation: validation.jsonl\n", ""))
    return copy


@pytest.mark.nightly
@pytest.mark.parametrize(("is_elsewhere", "is_cut"), [(True, True), (False, True), (True, False)])
def test_validation_cut_from_rows_that_a_model_may_have_seen(
    is_elsewhere: bool, is_cut: bool, pair: tuple[Path, Path], task_file: Path, tmp_path: Path, user_runs: Path
) -> None:
    """With a validation file the pair was trained on every train row, so both models saw a cut of them."""
    tuned = shutil.copytree(pair[1], tmp_path / "tuned")
    if is_elsewhere:
        (tuned / "finetune.json").unlink()
    words = members_of(pair[0], tuned, without_validation(task_file, tmp_path / "task") if is_cut else task_file)
    said = done("localize", *words, "--size", "5%", *QUICK)
    (run,) = Store(user_runs).list()
    assert (SEEN in said.out, any(SEEN in note for note in run.record.notes)) == (is_cut, is_cut)
    assert why_not(UNKNOWN_TASK) in done("evaluate", *words, "--device", "cpu").out


@pytest.mark.nightly
def test_a_temperature_at_the_end_of_its_range_is_told_as_on_the_page(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    for value, at_bound in ((0.02, True), (50.0, True), (1.5, False)):
        fit = Temperature(value, at_bound)
        monkeypatch.setattr("skillviz.runs.held_out.temperature_fit", lambda *_, fit=fit: fit)
        localized = call("localize", *models, "--size", "5%", *QUICK, "--runs-dir", tmp_path / str(value))
        for said in (localized, call("evaluate", *models, "--device", "cpu")):
            assert said.code == 0, said.err
            assert (why_not(AT_END) in said.out) == at_bound
            assert ("fine-tuned, scaled" in said.out) != at_bound


@pytest.mark.slow
def test_moved_embeddings_and_the_bases_own_pooler_are_told(tmp_path: Path, user_runs: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", move_embeddings=True)
    words, pooler = members_of(base, tuned, tiny_task(tmp_path / "task")), "The base's own pooler"
    said = done("localize", *words, "--size", "5%", *QUICK)
    assert "outside what can be grafted" in said.out
    assert pooler in said.out and pooler in call("preflight", *words).out
    drop(base, "pooler")
    assert pooler not in call("preflight", *words).out
