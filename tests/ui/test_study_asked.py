"""The command that asks for other data names the study's own models and task, and does what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from skillviz.runs.store import Store
from skillviz.studies.reproduce import Asked, study_of
from skillviz.studies.scales import DEMO
from skillviz.studies.spec import StudySpec
from skillviz.studies.subject import place, subject
from skillviz.ui.study_asked import on_other_data

FILM = {
    "base": "demo_world/base", "readout": "prompt", "task": "demo_world/tasks/film-sentiment.yaml",
    "finetuned": "demo_world/pairs/film-sentiment",
}  # fmt: skip
MADE = {"finetuned": None, "recipe": "sgd"}
NEWS = {"task": "demo_world/tasks/news-topic.yaml", "finetuned": "demo_world/pairs/news-topic"}


def command(asked: str = "film-sentiment", **changed: Any) -> tuple[str, bool]:
    entry = {name: value for name, value in {**FILM, **changed}.items() if value is not None}
    return on_other_data(DEMO, subject(StudySpec(name="x", runs=(entry,))), str(entry["base"]), asked)


def test_the_scales_own_study_needs_no_more_than_the_experiment() -> None:
    assert command() == ("python -m skillviz reproduce table3 --scale demo", True)


def test_a_base_and_readout_of_ones_own_are_named() -> None:
    told, is_whole = command(base="my/base", readout="head", **MADE)
    assert is_whole and told.endswith("--scale demo --base my/base --readout head --tasks film-sentiment")


def test_a_fine_tuned_model_of_ones_own_is_named(tmp_path: Path) -> None:
    assert command(finetuned=str(tmp_path))[0].endswith(f"--finetuned {tmp_path} --tasks film-sentiment")


def test_a_task_without_other_data_gets_a_file_to_name_them_in(tmp_path: Path) -> None:
    told, is_whole = command("news-topic", **NEWS)
    assert not is_whole and told.endswith("--scale demo --tasks news-topic --write-only")
    file = tmp_path / "my task.yaml"
    file.write_text("name: mine\n")
    told, is_whole = command("mine", base="my/base", task=str(file), **MADE)
    assert not is_whole and shlex.split(told)[-3:] == ["--tasks", str(file), "--write-only"]


@pytest.mark.parametrize("base", ["demo_world/base", "my/base"])
def test_the_command_asks_for_scores_on_other_data(base: str, tmp_path: Path) -> None:
    words = shlex.split(command(base=base, **({} if base == DEMO.base else MADE))[0])
    given = dict(zip(words[5::2], words[6::2], strict=True))
    tasks = (given["--tasks"],) if "--tasks" in given else ()
    _, _, study = study_of(Asked(words[4], given["--scale"], given.get("--base"), None, tasks), Store(tmp_path))
    assert any("restaurant-sentiment" in str(entry.get("others")) for entry in study.runs)
    assert {place(str(entry["base"])) for entry in study.runs} == {place(base)}
