"""`reproduce`: the study file it writes, what it says, and how wrong names end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from skillviz.jobs import slots
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.spec import read_study
from tests.cli.calls import call
from tests.studies.tiny_studies import write_world


def test_the_study_file_is_written_and_timed(tmp_path: Path) -> None:
    said = call("reproduce", "figure6", "--write-only", "--runs-dir", tmp_path, "--json")
    assert said.code == 0 and "steps" in said.out and "about" in said.out
    study = read_study(tmp_path / "studies" / "figure6-demo" / "study.yaml")
    assert study.experiment == "figure6" and said.json["name"] == study.name
    assert "RoBERTa of 0.97 million parameters" in said.err  # what differs from the paper
    assert not list(tmp_path.glob("*/run.json"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tabel2",), f"'tabel2' is not an experiment; known: {', '.join(EXPERIMENTS)}."),
        (("table2", "--scale", "big"), "'big' is not a scale; known: demo, small."),
        (("table2", "--tasks", "sst2"), "'sst2' is not a task of the scale demo; known: film-sentiment"),
        (("table2", "--data", "here"), "here is not a folder"),
        (("table2", "--data", "docs"), "has data of its own"),
        (("figure7", "--tasks", "news-topic"), "with its labels (world, sports, business, science) by --also TASK"),
        (("table2", "--finetuned", "mine"), "belongs to one task"),
        (("table2", "--base", "no/such/folder"), "no/such/folder"),
        (("table2", "--base", "no/such/folder", "--write-only"), "no/such/folder"),
    ],
)
def test_wrong_words_end_in_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    said = call("reproduce", *words, "--runs-dir", tmp_path)
    assert said.code == 2 and sentence in said.err and "Traceback" not in said.err and "about" not in said.out
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base with a language-model head, and two tasks of the same labels."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_asked_of_a_base_and_a_task_file(name: str, world: Path, tmp_path: Path) -> None:
    """The command of the README: the study is checked, timed and written, and all of it is of the user's own."""
    words = ["reproduce", name, "--base", world / "base", "--readout", "prompt", "--tasks", world / "task.yaml"]
    if EXPERIMENTS[name].on_other_data:
        words += ["--also", world / "other.yaml"]
    said = call(*words, "--write-only", "--runs-dir", tmp_path, "--json")
    if "needs two or more" in said.err:  # of one model of several tasks
        words[words.index("--tasks") + 1] = f"{world / 'task.yaml'},{world / 'other.yaml'}"
        said = call(*words, "--write-only", "--runs-dir", tmp_path, "--json")
    assert said.code == 0, said.err
    study = read_study(Path(said.json["file"]))
    assert study.experiment == name and "demo_world" not in study.yaml_text()
    assert f"Model: {world / 'base'} (the paper: " in said.err
    assert not [word for word in ("0.97", "wrong on purpose", "stored pair", "demo world") if word in said.err]


def test_an_edited_study_file_is_kept(world: Path, tmp_path: Path) -> None:
    words = ("reproduce", "figure6", "--write-only", "--runs-dir", tmp_path)
    assert call(*words).code == 0 and call(*words).code == 0
    path = tmp_path / "studies" / "figure6-demo" / "study.yaml"
    path.write_text(path.read_text().replace("- 10%", "- 20%"))
    said = call(*words)
    assert said.code == 2 and f"study run {path}" in said.err and "- 20%" in path.read_text()
    assert call("study", "run", path, "--dry-run", "--runs-dir", tmp_path).code == 0


def test_task_files_for_data_go_with_a_study_that_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data" / "cr").mkdir(parents=True)
    words = ("reproduce", "figure6", "--scale", "small", "--data", tmp_path / "data", "--tasks", "cr")
    said = call(*words, "--base", "no/such/folder", "--runs-dir", tmp_path / "runs")
    assert said.code == 2 and "there is no file" in said.err and not (tmp_path / "runs").exists()


def test_a_pair_of_the_user_is_asked_from_end_to_end(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figure 6 of a tiny pair: run, told, and run again without doing anything twice."""
    from skillviz.studies.paper import scales

    few = {"stagewise": {"steps": 2, "batch_size": 16}}
    own = scales.replace(scales.DEMO, options=few, mask_seeds=(0,), ladder=(0.1, 0.2))
    monkeypatch.setitem(scales.SCALES, "demo", own)
    taken: list[list[str]] = []

    def noted(root: Path, names: Sequence[str], on_wait: Callable[[str], None]) -> AbstractContextManager[None]:
        taken.append(list(names))
        return really(root, names, on_wait)

    really = slots.devices_for_study
    monkeypatch.setattr("skillviz.commands.study.devices_for_study", noted)
    base, tuned = pair
    words = ("reproduce", "figure6", "--base", base, "--finetuned", tuned, "--tasks", task_file, "--readout", "head")
    words += ("--workers", "1")  # in this process, where what is patched holds
    first = call(*words, "--runs-dir", tmp_path, "--json")
    assert first.code == 0 and first.json["finished"] == 3
    bars = {(row["state"], row["share"] and round(row["share"], 2)) for row in first.json["rows"]["histogram"]}
    assert {("grafted", 0.1), ("grafted", 0.2)} <= bars
    assert f"Model: {base} (the paper: " in first.err
    again = call(*words, "--runs-dir", tmp_path, "--json")
    assert again.json["finished"] == 0 and again.json["rows"] == first.json["rows"]
    assert taken == [["cpu"], []]  # jobs wait while it computes
