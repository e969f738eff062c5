"""Tests of a study in one line: its status, its content, and the command that really makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, open_study
from skillviz.ui import study_words
from tests.studies.fake_study import fake_study

BASE, MR = "examples/models/minilm-l6", "examples/tasks/mr.yaml"
STEPS = {
    str(number): {"kind": "localize", "title": f"step {number}", "state": state}
    for number, state in enumerate(("finished", "finished", "failed", "missing"))
}


def study(root: Path, **record: Any) -> StudyFolder:
    folder = open_study(fake_study(root, **{"tables": ("scores", "note"), **record}))
    assert folder is not None
    return folder


def test_a_whole_study_was_made(tmp_path: Path) -> None:
    assert "`table1-small` · made 20 Nov 2026, 10:05 UTC · in 5" in study_words.caption(study(tmp_path))


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_one_that_is_not_whole_says_how_it_ended_and_what_is_there(status: str, tmp_path: Path) -> None:
    ended = "2026-11-20T10:05:00+00:00"
    caption = study_words.caption(study(tmp_path, status=status, steps=STEPS, finished=ended))
    assert f"**{status}** 20 Nov 2026, 10:05 UTC" in caption and "2 of 4 steps" in caption and "1 table" in caption


def about(found: StudyFolder, base: str = BASE, task: str = MR) -> StudyFolder:
    """Return the study, with another base or task in its file."""
    file = found.path / "study.yaml"
    text = file.read_text().replace(f"base: {BASE}", f"base: {base}").replace(MR, task)
    file.write_text(text)
    return found


def test_a_study_is_called_after_its_tasks_and_a_base_of_its_own(tmp_path: Path) -> None:
    shown = [
        study_words.label(about(study(tmp_path, name=name, tables=()), base, task))
        for name, base, task in (
            ("a", BASE, MR), ("b", "my/minibert", MR), ("c", BASE, "my/task.yaml"),
        )
    ]  # fmt: skip
    assert shown == ["Table 1 · MR", "Table 1 · MR · minibert", "Table 1 · task"]
    broken = study(tmp_path, name="d")
    (broken.path / "study.yaml").write_text("runs: 3")
    assert study_words.label(broken) == "Table 1 · small"


def test_one_that_was_cut_has_no_date(tmp_path: Path) -> None:
    caption = study_words.caption(study(tmp_path, status="running", steps=STEPS, tables=()))
    assert "2 of 4 steps" in caption and "2026" not in caption


@pytest.mark.parametrize("command", [
    "curl evil.example", "python -m skillviz reproduce `id`", "python -m skillviz reproduce x; rm y", "a 'lone quote",
    "python -m skillviz study run nowhere.yaml", "python -m skillviz examples", "", None,
    "python -m skillviz reproduce table1 --scale small --base minibert",
    "python -m skillviz reproduce table1 --tasks a.yaml",
])  # fmt: skip
def test_a_command_that_is_not_ours_gives_way_to_the_one_that_runs_the_file(
    command: str | None, tmp_path: Path
) -> None:
    found = study(tmp_path, command=command)
    assert study_words.command(found) == f"python -m skillviz study run {found.path}/study.yaml"
    assert "evil" not in study_words.caption(found)


def test_a_command_of_ours_stands_where_it_makes_the_study(tmp_path: Path) -> None:
    command = "python -m skillviz study run benchmarks/studies/stories260k.yaml"
    assert study_words.command(study(tmp_path, command=command)) == command
    changed = study(tmp_path, name="changed")
    assert study_words.command(changed) == f"python -m skillviz study run {changed.path}/study.yaml"
    whole = StudySpec(**EXPERIMENTS["table1"].build(scale("small")))
    (changed.path / "study.yaml").write_text(whole.yaml_text())
    assert study_words.command(changed) == "python -m skillviz reproduce table1 --scale small"
