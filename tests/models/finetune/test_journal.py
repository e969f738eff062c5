"""Tests of the journal: an interrupted fine-tuning resumes and gives the same weights, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from skillviz.errors import DiskFull
from skillviz.models.finetune import training
from skillviz.models.finetune.journal import Journal, JournalEntry, TrainingState
from skillviz.models.finetune.run import Finetuned, journal_of
from skillviz.models.state_file import ENVIRONMENT
from skillviz.tasks.task import Task
from tests.models.finetune.trained import CASES, STEPS, hashes, trained, variant
from tests.models.folders import flip, weights
from tests.tiers import first

Train = Callable[..., Finetuned]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    """Return two tasks with two labels each."""
    folder = tmp_path_factory.mktemp("tasks")
    return [variant(folder, "one", 2, seed=1), variant(folder, "two", 2, seed=2)]


@pytest.fixture
def train(bare: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> Train:
    """Return a function that fine-tunes a case; frequent checks make the best step differ from the last."""
    monkeypatch.setattr("skillviz.models.finetune.training_config.CHECK_EVERY", 2)
    monkeypatch.setenv(ENVIRONMENT, "0")

    return partial(trained, bare, tasks)


def stop(train: Train, case: dict[str, Any], out: Path, after: int = 7) -> None:
    """Fine-tune a case until Ctrl-C, after this many reports."""
    with pytest.raises(KeyboardInterrupt):
        train(case, out, on_step=Mock(side_effect=[None] * (after - 1) + [KeyboardInterrupt]))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps that are trained."""
    steps, backward = list[int](), training.Trainer.backward
    monkeypatch.setattr(training.Trainer, "backward", lambda self, step: (steps.append(step), backward(self, step))[1])
    return steps


@pytest.mark.cases(0, 2)
@pytest.mark.slow
@pytest.mark.parametrize("name", first(CASES, ("adamw",).__contains__, ("multi-task", "lora").__contains__))
def test_an_interrupted_training_gives_the_same_weights(train: Train, tmp_path: Path, name: str) -> None:
    whole = train(CASES[name], tmp_path / "whole")
    history = [(r.step, r.loss, r.metric, r.best) for r in whole.history]
    total = 3 * STEPS if name == "grid" else len(history)
    for after in (1, 5, total - 1, total):
        out = tmp_path / f"cut-{after}"
        stop(train, CASES[name], out, after)
        assert not out.exists() and any(journal_of(out).iterdir())
        stop(train, CASES[name], out, after + 3 if after + 3 < total else 2)  # and once more, later
        done = train(CASES[name], out)
        assert hashes(out) == hashes(tmp_path / "whole") and not journal_of(out).exists(), after
        assert [(r.step, r.loss, r.metric, r.best) for r in done.history] == history
        assert done.best_step == whole.best_step


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, marks=pytest.mark.slow, id="a bit"),
        *(pytest.param(case, marks=pytest.mark.nightly) for case in ({"lr": 0.02}, {"seed": 1}, {"batch_size": 8})),
    ],
)
def test_with_other_settings_or_a_changed_bit_training_starts_over(
    train: Train, tmp_path: Path, changed: dict[str, Any]
) -> None:
    stop(train, {}, tmp_path / "out")
    (file,) = journal_of(tmp_path / "out").iterdir()
    if not changed:
        flip(file, -1000)
    for name in ("out", "whole"):
        train(changed, tmp_path / name)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "whole") and not journal_of(tmp_path / "out").exists()


@pytest.mark.slow
def test_a_state_that_is_not_put_back_exactly_gives_other_weights(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant an error that the test of the weights must catch: one trained value is off by one unit."""
    train({"recipe": "adamw"}, tmp_path / "whole")
    stop(train, {"recipe": "adamw"}, tmp_path / "out")
    restored = JournalEntry.restored

    def spoiled(self: JournalEntry) -> TrainingState | None:
        state = restored(self)
        next(iter(state.optimizer.values()))["exp_avg"].view(-1)[0] += 1e-3
        return state

    monkeypatch.setattr(JournalEntry, "restored", spoiled)
    train({"recipe": "adamw"}, tmp_path / "out")
    assert hashes(tmp_path / "out") != hashes(tmp_path / "whole")


@pytest.mark.parametrize("threads", [1, 99])
def test_the_steps_that_are_done_are_not_trained_again_also_on_another_number_of_threads_which_is_said(
    train: Train, tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Hours of training are not repeated because of a difference in rounding."""
    stop(train, {}, tmp_path / "out")
    monkeypatch.setattr("skillviz.models.finetune.run.describe", lambda device: f"cpu ({threads} threads)")
    done, again = (train({}, tmp_path / name) for name in ("out", "again"))
    assert taken[7:] == [*range(8, STEPS + 1), *range(1, STEPS + 1)]
    said = [note for note in done.notes if "up to rounding" in note]
    assert [note.startswith("Started on cpu (1 threads), torch") for note in said] == [True] * (threads == 99)
    assert ["resumed on cpu (99 threads), torch" in note for note in said] == [True] * (threads == 99)
    assert [note for note in again.notes if "resumed" in note] == []


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    state = TrainingState([{"step": 1}], 0.5, [torch.ones(2)], [torch.zeros(2)], {0: {"step": torch.tensor(3.0)}})
    state.write(tmp_path / "1", "a")
    again = TrainingState.read(tmp_path / "1", "a")
    torch.testing.assert_close(asdict(again), asdict(state), rtol=0, atol=0)
    assert not again.is_done
    assert TrainingState.read(tmp_path / "1", "b") is None and TrainingState.read(tmp_path / "2", "a") is None


def test_no_room_for_a_state_does_not_end_the_training(train: Train, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(TrainingState, "write", Mock(side_effect=DiskFull("no space")))
    train({}, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file() and not journal_of(tmp_path / "out").exists()


@pytest.mark.nightly
def test_ctrl_c_in_a_terminal_says_how_to_resume(bare: Path, tasks: list[Task], tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import os, signal, sys; from skillviz.models.finetune import training; from skillviz.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "backward = training.Trainer.backward\n"
        "def interrupted(self, step):\n"
        "    if step == 9: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return backward(self, step)\n"
        "training.Trainer.backward = interrupted; sys.argv = ['skillviz', *sys.argv[1:]]; main()"
    )
    words = ["finetune", "--base", str(bare), "--task", str(tasks[0].path), "--steps", "20", "--device", "cpu"]
    said = subprocess.run(
        [sys.executable, "-c", code, *words, "--out", str(out)], capture_output=True, text=True, cwd=Path.cwd()
    )
    assert said.returncode == 130 and "Run the same command again" in said.stderr, said.stderr
    state = TrainingState.read(journal_of(out) / "1.safetensors", Journal(journal_of(out)).stamp)
    assert state is None, "it belongs to a request"
    (file,) = journal_of(out).iterdir()
    assert b'"step": 9' in file.read_bytes() or b'\\"step\\": 9' in file.read_bytes()


@pytest.mark.nightly
def test_a_killed_command_resumes(bare: Path, tasks: list[Task], tmp_path: Path) -> None:
    """Use kill -9 on the command; the same command again gives the weights of an uninterrupted one."""
    words = [
        sys.executable, "-m", "skillviz", "finetune", "--base", str(bare), "--task", str(tasks[0].path),
        "--steps", "60", "--lr", "0.01", "--device", "cpu", "--out",
    ]  # fmt: skip
    environment = {**os.environ, ENVIRONMENT: "0"}
    out = tmp_path / "out"
    code = (
        "import os, signal, sys; from skillviz.models.finetune import training; from skillviz.cli import main\n"
        "backward = training.Trainer.backward\n"
        "def killed(self, step):\n"
        "    if step == 40: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return backward(self, step)\n"
        "training.Trainer.backward = killed; sys.argv = ['skillviz', *sys.argv[1:]]; main()"
    )
    killed = subprocess.run([sys.executable, "-c", code, *words[3:], str(out)], env=environment, cwd=Path.cwd())
    assert killed.returncode == -signal.SIGKILL and not out.exists() and journal_of(out).is_dir()
    for folder in (out, tmp_path / "whole"):
        subprocess.run([*words, str(folder)], env=environment, cwd=Path.cwd(), check=True, capture_output=True)
    assert torch.equal(*(weights(folder)["classifier.weight"] for folder in (out, tmp_path / "whole")))
    assert hashes(out) == hashes(tmp_path / "whole")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], "nothing is left beside it"
