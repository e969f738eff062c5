"""The command that asks for other data names the study's own models and task, and does what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.paper.request import study_of
from skillviz.studies.paper.scales import DEMO
from skillviz.studies.spec import ExperimentRequest, StudySpec
from skillviz.studies.subject import place, subject
from skillviz.tasks.project import located
from skillviz.ui.pages.methods.view import OTHER, transfer_command

FILM = {
    "base": "demo_world/base", "readout": "prompt", "task": "demo_world/tasks/film-sentiment.yaml",
    "finetuned": "demo_world/pairs/film-sentiment",
}  # fmt: skip
MADE = {"finetuned": None, "recipe": "sgd"}
NEWS = {"task": "demo_world/tasks/news-topic.yaml", "finetuned": "demo_world/pairs/news-topic"}


def command(asked: str = "film-sentiment", **changed: Any) -> tuple[str, bool]:
    entry = {name: value for name, value in {**FILM, **changed}.items() if value is not None}
    return transfer_command(DEMO, subject(StudySpec(name="x", runs=(entry,))), str(entry["base"]), asked)


def test_the_scales_own_study_needs_no_more_than_the_experiment() -> None:
    assert command() == ("python -m skillviz reproduce table3 --scale demo", True)


def test_a_base_and_readout_of_ones_own_are_named() -> None:
    told, is_whole = command(base="my/base", readout="head", **MADE)
    assert is_whole and told.endswith("--scale demo --base my/base --readout head --tasks film-sentiment")


def test_a_fine_tuned_model_of_ones_own_is_named(tmp_path: Path) -> None:
    assert command(finetuned=str(tmp_path))[0].endswith(f"--finetuned {tmp_path} --tasks film-sentiment")


def test_a_task_without_other_data_leaves_them_to_be_named(tmp_path: Path) -> None:
    told, is_whole = command("news-topic", **NEWS)
    assert not is_whole and told.endswith("--scale demo --tasks news-topic --also OTHER.yaml")
    file = tmp_path / "my task.yaml"
    file.write_text("name: mine\n")
    told, is_whole = command("mine", base="my/base", task=str(file), **MADE)
    assert not is_whole and shlex.split(told)[-4:] == ["--tasks", str(file), "--also", OTHER]


@pytest.mark.parametrize(("base", "task"), [(DEMO.base, "film-sentiment"), ("my/base", "film-sentiment"),
                                            (DEMO.base, "gadget-sentiment")])  # fmt: skip
def test_the_command_asks_for_scores_transfer_command(base: str, task: str, tmp_path: Path) -> None:
    models = {"finetuned": f"demo_world/pairs/{task}"} if base == DEMO.base else MADE
    told, is_whole = command(task, base=base, task=f"demo_world/tasks/{task}.yaml", **models)
    _, _, study = study_of(_asked(told), Store(tmp_path))
    assert is_whole and any("restaurant-sentiment" in str(entry.get("others")) for entry in study.runs)
    assert {place(str(entry["base"])) for entry in study.runs} == {place(base)}
    assert any(task in str(entry["task"]) for entry in study.runs)


def test_with_other_data_in_the_place_of_the_word_the_command_takes_them(tmp_path: Path) -> None:
    told, _ = command("film-subjectivity", base="my/base", task="demo_world/tasks/film-subjectivity.yaml", **MADE)
    news, _ = command("news-topic", base="my/base", task=NEWS["task"], **MADE)
    assert OTHER not in told and OTHER in news
    with pytest.raises(BadInput, match="which no task asked for can be scored on"):
        study_of(_asked(news.replace(OTHER, FILM["task"])), Store(tmp_path))
    other = tmp_path / "other.yaml"
    other.write_text(located(NEWS["task"]).read_text().replace("name: news-topic", "name: other-news"))
    _, _, study = study_of(_asked(news.replace(OTHER, str(other))), Store(tmp_path))
    assert all(entry["task"] == NEWS["task"] and str(other) in str(entry) for entry in study.runs)


def _asked(told: str) -> ExperimentRequest:
    """What a command asks for."""
    words = shlex.split(told)
    given = dict(zip(words[5::2], words[6::2], strict=True))
    several = {name: (given[f"--{name}"],) for name in ("tasks", "also") if f"--{name}" in given}
    return ExperimentRequest(words[4], given["--scale"], given.get("--base"), readout=given.get("--readout"), **several)
