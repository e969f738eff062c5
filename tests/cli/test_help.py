"""Tests of the help: it reads like documentation, starts without torch, and lists everything available."""

import re
import subprocess
import sys

import pytest

from skillviz import __version__
from skillviz.cli import folded
from skillviz.runs.store import Store, shipped_root
from tests.cli.calls import PROJECT, call, done, refused, started
from tests.tables import check

NAMED = {
    "finetune": "base task readout steps batch-size lr seed k-shot out",
    "localize": "base finetuned task readout method size steps batch-size seed device dtype max-train max-validation "
    "max-test runs-dir json interpolation also k-shot data-seed",
    "evaluate": "base finetuned region graft task",
    "runs list": "runs-dir json",
    "runs show": "runs-dir",
    "runs verify": "runs-dir",
    "runs delete": "runs-dir yes",
    "export": "out format overwrite push-to-hub private revision commit-message base-model license dry-run json",
    "apply": "base graft out force",
    "verify-graft": "base task device json",
    "difference": "base finetuned out hub license overwrite json",
    "preflight": "base finetuned task",
    "pairs": "json",
    "dashboard": "runs-dir port",
    "study run": "runs-dir workers dry-run partial json",
    "study status": "runs-dir workers json",
    "study table": "runs-dir name differences out json",
    "rivals": "sample runs-dir json",
    "parts": "by sample draws seed again runs-dir out json",
    "checkpoints": "base checkpoints task method size seed runs-dir out report json",
    "slices": "by metric runs-dir out json",
    "study pack": "to as-folder no-rankings runs-dir json",
}


@pytest.mark.parametrize("command", NAMED)
def test_every_command_explains_its_options(command):
    assert (
        set(NAMED[command].split()) - set(re.findall(r"--([a-z-]+)\b", done(*command.split(), "--help").out)) == set()
    )


def test_the_front_page_shows_commands_in_panels_with_an_example():
    check(call("--help").out, ("Find a skill", "Share a graft", "Look at runs", "python -m skillviz localize"))


def test_version():
    assert call("--version").out.strip() == f"skillviz {__version__}"


EACH = """
import sys
from skillviz.cli import app
for words in sys.argv[1:]:
    try:
        app(words.split())
    except SystemExit as end:
        heavy = [m for m in ("torch", "transformers", "streamlit") if m in sys.modules]
        print(words.split()[0], end.code or 0, heavy, file=sys.stderr)
"""


def each(*commands: str) -> list[str]:
    """Run the commands in one process, and return what they write to stderr: how each ended, and heavy libraries."""
    words = [sys.executable, "-c", EACH, *commands]
    return subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=60).stderr.strip().splitlines()


@pytest.mark.nightly
def test_it_starts_and_verifies_a_run_without_torch():
    commands = ["--help", "localize --help", "runs list", f"runs verify {Store(shipped_root()).list()[0].id}"]
    assert each(*commands)[-4:] == [f"{words.split()[0]} 0 []" for words in commands]


@pytest.mark.nightly
def test_models_that_are_none_are_refused_without_torch(task_file, tmp_path):
    base, task = f"--base {tmp_path}/none", f"--task {task_file}"
    pair = f"{base} --finetuned {tmp_path}/neither {task}"
    said = each(f"localize {pair}", f"evaluate {pair}", f"finetune {base} {task} --out {tmp_path}/out")
    assert said[1::2] == ["localize 2 []", "evaluate 2 []", "finetune 2 []"]
    assert [line for line in said[::2] if "none'; give a model's folder" not in line] == []


def test_the_module_runs_as_a_program():
    process = started("--version")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, f"skillviz {__version__}")


def test_paragraphs_are_folded_and_examples_kept():
    assert folded("One\ntwo.\n\n  code a\n  code b\n\nthree\nfour") == "One two.\n\n  code a\n  code b\n\nthree four"


def test_an_unknown_command_is_bad_use():
    refused(call("localise"), "localise")
