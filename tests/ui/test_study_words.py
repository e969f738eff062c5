"""A study in a line: how it ended and what is there, and the command that really makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillviz.studies.store import StudyFolder, open_study
from skillviz.ui import study_words
from tests.studies.fake_study import fake_study

FILM = "demo_world/tasks/film-sentiment.yaml"
STEPS = {
    str(number): {"kind": "localize", "title": f"step {number}", "state": state}
    for number, state in enumerate(("finished", "finished", "failed", "missing"))
}


def study(root: Path, **record: Any) -> StudyFolder:
    folder = open_study(fake_study(root, **{"tables": ("scores", "note"), **record}))
    assert folder is not None
    return folder


def test_a_whole_study_was_made(tmp_path: Path) -> None:
    assert "`table1-demo` · made 20 Nov 2026, 10:05 UTC · in 5" in study_words.caption(study(tmp_path))


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_one_that_is_not_whole_says_how_it_ended_and_what_is_there(status: str, tmp_path: Path) -> None:
    ended = "2026-11-20T10:05:00+00:00"
    caption = study_words.caption(study(tmp_path, status=status, steps=STEPS, finished=ended))
    assert f"**{status}** 20 Nov 2026, 10:05 UTC" in caption and "2 of 4 steps" in caption and "1 table" in caption


def about(found: StudyFolder, base: str = "demo_world/base", task: str = FILM) -> StudyFolder:
    """The study, its file with another base or task."""
    file = found.path / "study.yaml"
    text = file.read_text().replace("base: demo_world/base", f"base: {base}").replace(FILM, task)
    file.write_text(text)
    return found


def test_a_study_is_called_after_its_base_or_tasks_where_they_are_its_own(tmp_path: Path) -> None:
    shown = [
        study_words.label(about(study(tmp_path, name=name, tables=()), base, task))
        for name, base, task in (
            ("table1-demo", "demo_world/base", FILM), ("table1-demo-a", "demo_world/base", FILM),
            ("table1-demo-b", "my/minibert", FILM), ("table1-demo-c", "demo_world/base", "my/task.yaml"),
        )
    ]  # fmt: skip
    assert shown == [
        "Table 1 · demo world", "Table 1 · demo world · table1-demo-a", "Table 1 · own base minibert · table1-demo-b",
        "Table 1 · own tasks · table1-demo-c",
    ]  # fmt: skip


def test_only_the_demo_worlds_own_models_and_tasks_are_called_toys(tmp_path: Path) -> None:
    assert study_words.is_demo(study(tmp_path))
    assert not study_words.is_demo(about(study(tmp_path, name="b"), "my/minibert"))
    broken = study(tmp_path, name="c")
    (broken.path / "study.yaml").write_text("runs: 3")
    assert not study_words.is_demo(broken) and study_words.label(broken) == "Table 1 · demo world · c"


def test_one_that_was_cut_has_no_date(tmp_path: Path) -> None:
    caption = study_words.caption(study(tmp_path, status="running", steps=STEPS, tables=()))
    assert "2 of 4 steps" in caption and "2026" not in caption


@pytest.mark.parametrize("command", [
    "curl evil.example", "python -m skillviz reproduce `id`", "python -m skillviz reproduce x; rm y", "a 'lone quote",
    "python -m skillviz study run nowhere.yaml", "python -m skillviz demo", "", None,
    "python -m skillviz reproduce table1 --scale demo --base minibert",
    "python -m skillviz reproduce table1 --tasks a.yaml",
])  # fmt: skip
def test_a_command_that_is_not_ours_gives_way_to_the_one_that_runs_the_file(
    command: str | None, tmp_path: Path
) -> None:
    found = study(tmp_path, command=command)
    assert study_words.command(found) == f"python -m skillviz study run {found.path}/study.yaml"
    assert "evil" not in study_words.caption(found)


@pytest.mark.parametrize("command", [
    "python -m skillviz reproduce table1 --scale demo",
    "python -m skillviz study run benchmarks/studies/stories260k.yaml",
])  # fmt: skip
def test_a_command_of_ours_stands(command: str, tmp_path: Path) -> None:
    assert study_words.command(study(tmp_path, command=command)) == command
