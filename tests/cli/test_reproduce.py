"""Tests of `reproduce`: the study file it writes, its output, and its errors for wrong names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from skillviz.jobs import slots
from skillviz.studies.paper.costs import CORE_HOURS
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import is_as_requested
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import read_study
from tests.cli.calls import call
from tests.studies.tiny_studies import tiny_scale, write_world
from tests.tiny import tiny_pair, tiny_task

TINY_SIZES = "1%,10%"
"""Region sizes for a tiny base; the smallest sizes of the scale would be less than one entry."""


def test_the_study_file_is_written_and_timed(tmp_path: Path) -> None:
    said = call("reproduce", "figure6", "--write-only", "--runs-dir", tmp_path, "--json")
    assert said.code == 0 and "6 runs, the tables); time left: not measured yet" in said.out
    study = read_study(tmp_path / "studies" / "figure6-small" / "study.yaml")
    assert study.experiment == "figure6" and said.json["name"] == study.name
    assert "MiniLM-L6 (10.6 million graftable parameters)" in said.err  # the difference from the paper
    assert not list(tmp_path.glob("*/run.json"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tabel2",), f"'tabel2' is not an experiment; known: {', '.join(EXPERIMENTS)}."),
        (("table2", "--scale", "big"), "'big' is not a scale; known: small, paper."),
        (("table2", "--tasks", "sst2"), "'sst2' is not a task of the scale small; known: mr"),
        (("table2", "--data", "here"), "here is not a folder"),
        (("table2", "--data", "deploy"), "has no folder with a task.yaml"),
        (("all", "--tasks", "mr"), "all takes --scale, --core-hours, --workers"),
        (("table2", "--core-hours", "2"), "--core-hours limits all"),
        (("figure7", "--tasks", "subj"), "by --also TASK"),
        (("table2", "--finetuned", "mine"), "belongs to one task"),
        (("table2", "--steps", "0"), "--steps is 0; give 1 or more."),
        (("table2", "--train-steps", "-1"), "--train-steps is -1; give 1 or more."),
        (("table2", "--max-test", "0", "--dry-run"), "--max-test is 0; give 1 or more."),
        (("table2", "--k-shot", "0"), "--k-shot is 0; give 1 or more."),
        (("table2", "--sizes", "500"), "'500' is a number of parameters; the sizes of an experiment are shares"),
        (("table2", "--sizes", "much"), "'much' cannot be read as a region size"),
        (("table2", "--sizes", "0.1%,200%"), "'200%' asks for"),
        (("table2", "--scale", "paper", "--data", "deploy"), "has no folder with a task.yaml"),
        (("table2", "--base", "no/such/folder"), "no/such/folder"),
        (("table2", "--base", "no/such/folder", "--dry-run"), "no/such/folder"),
        (("table2", "--base", "no/such/folder", "--write-only"), "no/such/folder"),
    ],
)
def test_wrong_words_end_in_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    said = call("reproduce", *words, "--runs-dir", tmp_path)
    assert said.code == 2 and sentence in said.err and "Traceback" not in said.err and "about" not in said.out
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_steps_sizes_and_examples_reach_every_run(tmp_path: Path) -> None:
    words = ("--steps", 7, "--sizes", "2%,20%", "--sizes", "0.05", "--max-test", 50, "--write-only")
    said = call("reproduce", "table2", *words, "--runs-dir", tmp_path, "--json")
    assert said.code == 0, said.err
    study = read_study(Path(said.json["file"]))
    runs = study_plan(study).runs
    assert {run.sizes for run in runs if run.localizer != "learned"} == {("2%", "20%", "5%")}
    assert {run.sizes for run in runs if run.localizer == "learned"} == {("2%",)}, "its size is an outcome"
    assert {run.max_test for run in runs} == {50}
    assert {run.steps for run in runs if run.localizer == "stagewise"} == {7}
    assert study.request is not None and is_as_requested(study) and study.name != "table2-small"
    assert study.request.command().endswith("--steps 7 --max-test 50 --sizes 2% --sizes 20% --sizes 0.05")
    assert "at most 50 test examples" in said.err and "7 steps" in said.err and "2% to 20%" in said.err


def test_fine_tuning_of_other_steps_takes_no_stored_pair(tmp_path: Path) -> None:
    words = ("--train-steps", 9, "--k-shot", 12, "--tasks", "mr", "--write-only")
    said = call("reproduce", "figure5", *words, "--runs-dir", tmp_path, "--json")
    models = study_plan(read_study(Path(said.json["file"]))).finetuned
    assert {model.recipe for model in models} == {"sgd", "adamw", "adamw-l1"}
    assert {(model.steps, model.k_shot) for model in models} == {(9, 12)} and "12 examples per label" in said.err


@pytest.mark.nightly
def test_a_dry_run_says_what_is_needed_and_writes_nothing(tmp_path: Path) -> None:
    said = call("reproduce", "table1", "--tasks", "mr", "--dry-run", "--runs-dir", tmp_path / "r", "--json")
    assert said.code == 0 and not (tmp_path / "r").exists()
    known = said.json
    assert (known["runs"], known["scores"]) == (3, 9) and known["models"] in (9, 10)
    other = call("reproduce", "table1", "--tasks", "mr", "--train-steps", 9000, "--dry-run", "--json",
                  "--runs-dir", tmp_path / "r").json  # fmt: skip
    assert other["models"] == 10


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny base with a language-model head, and two tasks with the same labels."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_asked_of_a_base_and_a_task_file(name: str, world: Path, tmp_path: Path) -> None:
    """The command of the README: the study is checked, timed and written with only the user's models and tasks."""
    words = ["reproduce", name, "--base", world / "base", "--readout", "prompt", "--tasks", world / "task.yaml"]
    words += ["--sizes", TINY_SIZES]
    if EXPERIMENTS[name].on_other_data:
        words += ["--also", world / "other.yaml"]
    said = call(*words, "--write-only", "--runs-dir", tmp_path, "--json")
    if "needs two or more" in said.err:  # needs one model of several tasks
        words[words.index("--tasks") + 1] = f"{world / 'task.yaml'},{world / 'other.yaml'}"
        said = call(*words, "--write-only", "--runs-dir", tmp_path, "--json")
    assert said.code == 0, said.err
    study = read_study(Path(said.json["file"]))
    assert study.experiment == name and "examples/" not in study.yaml_text()
    assert f"Model: {world / 'base'} (the paper: " in said.err
    assert not [word for word in ("10.6 million", "stored pair", "examples/") if word in said.err]


def test_the_readout_is_that_of_the_models(
    pair: tuple[Path, Path], task_file: Path, world: Path, tmp_path: Path
) -> None:
    """The scale reads a head, but a model that was fine-tuned with a prompt is read with the prompt."""
    base, tuned = pair
    words = ("--tasks", task_file, "--sizes", TINY_SIZES, "--write-only", "--runs-dir", tmp_path, "--json")
    for models, readout in (
        (("--base", base, "--finetuned", tuned), "head"),
        (("--base", base), "head"),
        (("--base", world / "base"), "head"),
        (("--base", world / "base", "--finetuned", world / "finetuned"), "prompt"),
    ):
        said = call("reproduce", "table2", *models, *words)
        assert said.code == 0, said.err
        assert {run.readout for run in study_plan(read_study(Path(said.json["file"]))).runs} == {readout}


def test_a_random_language_model_head_is_refused(pair: tuple[Path, Path], task_file: Path, tmp_path: Path) -> None:
    words = ("--base", pair[0], "--readout", "prompt", "--tasks", task_file, "--dry-run", "--runs-dir", tmp_path / "r")
    said = call("reproduce", "table2", "--scale", "paper", *words)
    assert said.code == 2 and "which the prompt readout needs" in said.err and not (tmp_path / "r").exists()


@pytest.mark.nightly
def test_an_edited_study_file_is_kept(world: Path, tmp_path: Path) -> None:
    words = ("reproduce", "figure6", "--write-only", "--runs-dir", tmp_path)
    assert call(*words).code == 0 and call(*words).code == 0
    path = tmp_path / "studies" / "figure6-small" / "study.yaml"
    path.write_text(path.read_text().replace("- 1%", "- 2%"))
    said = call(*words)
    assert said.code == 2 and f"study run {path}" in said.err and "- 2%" in path.read_text()
    assert call("study", "run", path, "--dry-run", "--runs-dir", tmp_path).code == 0


@pytest.mark.nightly
def test_a_pair_of_the_user_is_asked_from_end_to_end(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figure 6 on a tiny pair: run it, report it, and run it again without repeated work."""
    from skillviz.studies.paper import scales

    few = {"stagewise": {"steps": 2, "batch_size": 16}}
    own = scales.replace(scales.SMALL, options=few, mask_seeds=(0,), ladder=(0.1, 0.2))
    monkeypatch.setitem(scales.SCALES, "small", own)
    taken: list[list[str]] = []

    def noted(root: Path, names: Sequence[str], on_wait: Callable[[str], None]) -> AbstractContextManager[None]:
        taken.append(list(names))
        return really(root, names, on_wait)

    really = slots.devices_for_study
    monkeypatch.setattr("skillviz.commands.study.devices_for_study", noted)
    base, tuned = pair
    words = ("reproduce", "figure6", "--base", base, "--finetuned", tuned, "--tasks", task_file, "--readout", "head")
    words += ("--workers", "1")  # in this process, where the patches apply
    first = call(*words, "--runs-dir", tmp_path, "--json")
    assert first.code == 0 and first.json["finished"] == 3
    bars = {(row["state"], row["share"] and round(row["share"], 2)) for row in first.json["rows"]["histogram"]}
    assert {("grafted", 0.1), ("grafted", 0.2)} <= bars
    assert f"Model: {base} (the paper: " in first.err
    again = call(*words, "--runs-dir", tmp_path, "--json")
    assert again.json["finished"] == 0 and again.json["rows"] == first.json["rows"]
    assert taken == [["cpu"], []]  # jobs wait while the study computes


def test_paths_of_the_working_folder_mean_the_same_from_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, runs = tmp_path / "here", tmp_path / "runs"
    here.mkdir()
    base, tuned = tiny_pair(here, steps=1)
    tiny_task(here)
    monkeypatch.chdir(here)
    words = ("--base", "base", "--finetuned", "finetuned", "--tasks", "task.yaml", "--write-only")
    words += ("--sizes", TINY_SIZES)
    said = call("reproduce", "figure6", *words, "--runs-dir", runs, "--json")
    assert said.code == 0, said.err
    monkeypatch.chdir(tmp_path)
    study = read_study(Path(said.json["file"]))
    assert study.request is not None and is_as_requested(study)
    command = study.request.command()
    assert all(str(path) in command for path in (base, tuned, here / "task.yaml"))
    again = call("study", "run", study.name, "--dry-run", "--runs-dir", runs)
    assert again.code == 0, again.err
    same = call(*command.split()[3:], "--write-only", "--runs-dir", runs, "--json")
    assert same.code == 0 and same.json["file"] == said.json["file"], same.err


@pytest.mark.slow
def test_all_experiments_are_listed_with_their_missing_steps_and_nothing_is_written(tmp_path: Path) -> None:
    said = call("reproduce", "all", "--dry-run", "--runs-dir", tmp_path / "r", "--json")
    assert said.code == 0 and not (tmp_path / "r").exists()
    *rows, total = said.json["experiments"]
    assert [row["experiment"] for row in rows] == list(CORE_HOURS) and set(CORE_HOURS) == set(EXPERIMENTS)
    assert total["core-hours spent"] == 0 and rows[0]["models"] == 3
    by_name = {row["experiment"]: row for row in rows}
    assert by_name["figure9"]["runs"] == 0, "its runs are those of Table 2"


@pytest.mark.nightly
def test_all_stops_when_the_core_hours_are_spent_and_goes_on(
    tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillviz.studies.paper import costs, scales

    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "members"))
    monkeypatch.setitem(scales.SCALES, "tiny", tiny_scale(world))
    monkeypatch.setattr(costs, "CORE_HOURS", {"figure9": 1, "figure6": 1})
    words = ("reproduce", "all", "--scale", "tiny", "--runs-dir", tmp_path / "r")
    everything = call(*words, "--dry-run", "--json").json["experiments"][-1]
    said = call(*words, "--core-hours", "0")
    assert said.code == 0 and "Not finished: figure9, figure6." in said.err
    assert not (tmp_path / "r" / "studies").exists()
    said = call(*words, "--core-hours", "0.000001")
    assert said.code == 0 and "Finished: none. Not finished: figure9, figure6." in said.err, said.err
    left = call(*words, "--dry-run", "--json").json["experiments"][-1]
    assert left["models"] == everything["models"] - 1, "one step was made, and the next was not started"
    assert left["runs"] == everything["runs"] > 0
    assert call(*words, "--core-hours", "9").code == 0
    assert {path.name for path in (tmp_path / "r" / "studies").iterdir()} == {"figure9-tiny", "figure6-tiny"}
    left = call(*words, "--dry-run", "--json").json["experiments"][-1]
    assert left["models"] == left["runs"] == left["scores"] == 0 and left["core-hours spent"] > 0
