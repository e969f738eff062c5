"""Tests of `reproduce`: the study file it writes, its output, and its errors for wrong names."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from skillviz.jobs import slots
from skillviz.studies.paper import costs, scales
from skillviz.studies.paper.costs import CORE_HOURS
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import is_as_requested
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec, read_study
from tests.cli.calls import Said, call, done, refused
from tests.studies.conftest import world
from tests.studies.tiny_study import tiny_scale
from tests.tables import check
from tests.tiny import tiny_pair, tiny_task

TINY_SIZES = "1%,10%"
"""Region sizes for a tiny base; the smallest sizes of the scale would be less than one entry."""


def asked(*words: object) -> tuple[StudySpec, Said]:
    """Return the study of the file that the command writes, and its output."""
    said = done("reproduce", *words, "--write-only", "--json")
    return read_study(Path(said.json["file"])), said


def test_the_study_file_is_written_and_timed(tmp_path: Path) -> None:
    study, said = asked("figure6", "--runs-dir", tmp_path)
    assert "6 runs, the tables); time left: not measured yet" in said.out
    assert said.json["file"] == str(tmp_path / "studies" / "figure6-small" / "study.yaml")
    assert (study.experiment, said.json["name"]) == ("figure6", study.name) and not list(tmp_path.glob("*/run.json"))
    assert "MiniLM-L6 (10.6 million graftable parameters)" in said.err  # the difference from the paper


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
    refused(said, sentence)
    assert "about" not in said.out and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_steps_sizes_and_examples_reach_every_run(tmp_path: Path) -> None:
    study, said = asked(
        "table2", "--steps", 7, "--sizes", "2%,20%", "--sizes", "0.05", "--max-test", 50, "--runs-dir", tmp_path
    )
    runs = study_plan(study).runs
    given = {(run.localizer == "learned", run.sizes, run.max_test) for run in runs}
    assert given == {(False, ("2%", "20%", "5%"), 50), (True, ("2%",), 50)}, "the size of learned is an outcome"
    assert {run.steps for run in runs if run.localizer == "stagewise"} == {7}
    assert study.request is not None and is_as_requested(study) and study.name != "table2-small"
    assert study.request.command().endswith("--steps 7 --max-test 50 --sizes 2% --sizes 20% --sizes 0.05")
    check(said.err, ("at most 50 test examples", "7 steps", "2% to 20%"))


def test_fine_tuning_of_other_steps_takes_no_stored_pair(tmp_path: Path) -> None:
    study, said = asked("figure5", "--train-steps", 9, "--k-shot", 12, "--tasks", "mr", "--runs-dir", tmp_path)
    models = {(model.recipe, model.steps, model.k_shot) for model in study_plan(study).finetuned}
    assert (
        models == {(recipe, 9, 12) for recipe in ("sgd", "adamw", "adamw-l1")} and "12 examples per label" in said.err
    )


@pytest.mark.nightly
def test_a_dry_run_says_what_is_needed_and_writes_nothing(tmp_path: Path) -> None:
    words = ("reproduce", "table1", "--tasks", "mr", "--dry-run", "--runs-dir", tmp_path / "r", "--json")
    known = done(*words).json
    assert (known["runs"], known["scores"]) == (3, 9) and known["models"] in (9, 10)
    assert call(*words, "--train-steps", 9000).json["models"] == 10 and not (tmp_path / "r").exists()


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_asked_of_a_base_and_a_task_file(name: str, world: Path, tmp_path: Path) -> None:
    """The command of the README: the study is checked, timed and written with only the user's models and tasks."""
    own, other = world / "task.yaml", world / "other.yaml"
    words = (
        name,
        "--base",
        world / "base",
        "--readout",
        "prompt",
        "--sizes",
        TINY_SIZES,
        *(("--also", other) if EXPERIMENTS[name].on_other_data else ()),
        "--runs-dir",
        tmp_path,
    )
    needs_two = "needs two or more" in call("reproduce", *words, "--tasks", own, "--write-only").err
    study, said = asked(*words, "--tasks", f"{own},{other}" if needs_two else own)
    assert study.experiment == name and "examples/" not in study.yaml_text()
    assert f"Model: {world / 'base'} (the paper: " in said.err
    assert [word for word in ("10.6 million", "stored pair", "examples/") if word in said.err] == []


@pytest.mark.parametrize(
    ("of_world", "is_tuned", "readout"),
    [(False, True, "head"), (False, False, "head"), (True, False, "head"), (True, True, "prompt")],
)
def test_the_readout_is_that_of_the_models(
    of_world: bool, is_tuned: bool, readout: str, pair: tuple[Path, Path], task_file: Path, world: Path, tmp_path: Path
) -> None:
    """The scale reads a head, but a model that was fine-tuned with a prompt is read with the prompt."""
    base, tuned = (world / "base", world / "finetuned") if of_world else pair
    models = ("--base", base, *(("--finetuned", tuned) if is_tuned else ()))
    study, _ = asked("table2", *models, "--tasks", task_file, "--sizes", TINY_SIZES, "--runs-dir", tmp_path)
    assert {run.readout for run in study_plan(study).runs} == {readout}


def test_a_random_language_model_head_is_refused(pair: tuple[Path, Path], task_file: Path, tmp_path: Path) -> None:
    words = ("--base", pair[0], "--readout", "prompt", "--tasks", task_file, "--dry-run", "--runs-dir", tmp_path / "r")
    refused(call("reproduce", "table2", "--scale", "paper", *words), "which the prompt readout needs")
    assert not (tmp_path / "r").exists()


@pytest.mark.nightly
def test_an_edited_study_file_is_kept(world: Path, tmp_path: Path) -> None:
    words = ("reproduce", "figure6", "--write-only", "--runs-dir", tmp_path)
    for _ in range(2):
        done(*words)
    path = tmp_path / "studies" / "figure6-small" / "study.yaml"
    path.write_text(path.read_text().replace("- 1%", "- 2%"))
    refused(call(*words), f"study run {path}")
    assert "- 2%" in path.read_text()
    done("study", "run", path, "--dry-run", "--runs-dir", tmp_path)


@pytest.mark.nightly
def test_a_pair_of_the_user_is_asked_from_end_to_end(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figure 6 on a tiny pair: run it, report it, and run it again without repeated work."""
    few = {"options": {"stagewise": {"steps": 2, "batch_size": 16}}, "mask_seeds": (0,), "ladder": (0.1, 0.2)}
    monkeypatch.setitem(scales.SCALES, "small", scales.replace(scales.SMALL, **few))
    taken = Mock(wraps=slots.devices_for_study)
    monkeypatch.setattr("skillviz.commands.study.devices_for_study", taken)
    base, tuned = pair
    words = ("reproduce", "figure6", "--base", base, "--finetuned", tuned, "--tasks", task_file, "--readout", "head")
    words += ("--workers", "1", "--runs-dir", tmp_path, "--json")  # in this process, where the patches apply
    first, again = done(*words), done(*words)
    bars = {(row["state"], row["share"] and round(row["share"], 2)) for row in first.json["rows"]["histogram"]}
    assert {("grafted", 0.1), ("grafted", 0.2)} <= bars and f"Model: {base} (the paper: " in first.err
    assert (first.json["finished"], again.json["finished"], again.json["rows"]) == (3, 0, first.json["rows"])
    assert [list(one.args[1]) for one in taken.call_args_list] == [["cpu"], []]  # jobs wait while the study computes


def test_paths_of_the_working_folder_mean_the_same_from_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, runs = tmp_path / "here", ("--runs-dir", tmp_path / "runs")
    base, tuned = tiny_pair(here, steps=1)
    tiny_task(here)
    monkeypatch.chdir(here)
    words = ("--base", "base", "--finetuned", "finetuned", "--tasks", "task.yaml", "--sizes", TINY_SIZES)
    study, said = asked("figure6", *words, *runs)
    monkeypatch.chdir(tmp_path)
    assert study.request is not None and is_as_requested(study)
    command = study.request.command()
    assert [path for path in (base, tuned, here / "task.yaml") if str(path) not in command] == []
    done("study", "run", study.name, "--dry-run", *runs)
    assert asked(*command.split()[4:], *runs)[1].json["file"] == said.json["file"]


@pytest.mark.slow
def test_all_experiments_are_listed_with_their_missing_steps_and_nothing_is_written(tmp_path: Path) -> None:
    told = done("reproduce", "all", "--dry-run", "--runs-dir", tmp_path / "r", "--json").json["experiments"]
    rows = {row["experiment"]: row for row in told[:-1]}
    assert list(rows) == list(CORE_HOURS) and rows.keys() == EXPERIMENTS.keys() and not (tmp_path / "r").exists()
    assert (told[-1]["core-hours spent"], told[0]["models"]) == (0, 3)
    assert rows["figure9"]["runs"] == 0, "its runs are those of Table 2"


@pytest.mark.nightly
def test_all_stops_when_the_core_hours_are_spent_and_goes_on(
    tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "members"))
    monkeypatch.setitem(scales.SCALES, "tiny", tiny_scale(world))
    monkeypatch.setattr(costs, "CORE_HOURS", {"figure9": 1, "figure6": 1})
    words, studies = ("reproduce", "all", "--scale", "tiny", "--runs-dir", tmp_path / "r"), tmp_path / "r" / "studies"

    def left() -> dict[str, float]:
        return call(*words, "--dry-run", "--json").json["experiments"][-1]

    everything = left()
    assert "Not finished: figure9, figure6." in done(*words, "--core-hours", "0").err and not studies.exists()
    assert "Finished: none. Not finished: figure9, figure6." in done(*words, "--core-hours", "0.000001").err
    assert (now := left())["models"] == everything["models"] - 1, "one step was made, and the next was not started"
    assert now["runs"] == everything["runs"] > 0
    done(*words, "--core-hours", "9")
    assert {path.name for path in studies.iterdir()} == {"figure9-tiny", "figure6-tiny"}
    assert [(now := left())[name] for name in ("models", "runs", "scores")] == [0, 0, 0] and now["core-hours spent"] > 0
