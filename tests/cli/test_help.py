"""Tests of what a terminal shows: help like documentation, lines of progress, and names that cannot affect it."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from rich.progress import Progress

from skillviz import __version__
from skillviz.cli import folded
from skillviz.commands import output, reproduce, study
from skillviz.commands.output import progress_bar
from skillviz.runs.store import Store, shipped_root
from tests.cli.calls import PROJECT, call, done, refused, started
from tests.cli.conftest import QUICK, Members
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
    assert (said[1::2], [line for line in said[::2] if "none'; give a model's folder" not in line]) == (
        ["localize 2 []", "evaluate 2 []", "finetune 2 []"],
        [],
    )


def test_the_module_runs_as_a_program():
    process = started("--version")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, f"skillviz {__version__}")


def test_paragraphs_are_folded_and_examples_kept():
    assert folded("One\ntwo.\n\n  code a\n  code b\n\nthree\nfour") == "One two.\n\n  code a\n  code b\n\nthree four"


def test_an_unknown_command_is_bad_use():
    refused(call("localise"), "localise")


EVIL = "\x1b]0;taken\x07 \x1b[8mhidden\u202e [bold]"
LINE = re.compile(
    r".+, \d+ (s|min) so far(, about .+ left|, time left: not measured yet|, longer than measured so far)?"
)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_names_move_no_cursor_and_hide_nothing(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "200")
    output.say(EVIL)
    output.note(EVIL)
    output.print_rows(EVIL, [EVIL], [[EVIL]])
    output.print_table(EVIL, pd.DataFrame({EVIL: [EVIL, "b"], "other": [1.0, 2.0]}), is_alone=False)
    with output.progress_bar(EVIL, 3) as advance:
        advance(1, 3, EVIL)
    for text in capsys.readouterr():
        check(text, ("\\x1b]0;taken\\x07", "[bold]", "\\u202e"))
        assert [word for word in ("\x07", "\u202e", "\x1b]", "\x1b[8m") if word in text] == []


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert output.LINE_EVERY == 10  # seconds, by default
    monkeypatch.setattr(output, "LINE_EVERY", 0.05)


def test_lines_come_while_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("loading"):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 7 and set(lines) == {"loading, 1 s so far"}
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("is_whole", "steps", "first", "last"),
    [
        # A different count: its pace is unknown.
        (True, [(0.12, 1, 1_000, "stagewise"), (0.12, 2, 1_000, "stagewise, loss 0.312"), (0.12, 3, 50, "scoring")],
         "stagewise, 1 of 1,000, 1 s so far", "scoring, 3 of 50, 1 s so far"),
        (True, [(0.2, 0, 100, "x"), (0.08, 1, 100, "x")],
         "x, 0 of 100, 1 s so far", r"x, 1 of 100, 1 s so far, about (1[5-9]|[2-5]\d|60) s left"),
        # In a run of several searches, the count is of one search, and the time is that of the whole.
        (True, [(0.08, 0, 50, "x", 700.0), (0.08, 49, 50, "x", 600.0)],
         "x, 0 of 50, 1 s so far, about 12 min left", "x, 49 of 50, 1 s so far, about 10 min left"),
        # No scoring was measured yet for this run, so the pace of its search is not the pace of the run.
        (False, [(0.08, 1, 50, "x"), (0.08, 2, 50, "x")],
         "x, 1 of 50, 1 s so far", "x, 2 of 50, 1 s so far, time left: not measured yet"),
    ],
    ids=["another count", "pace", "the whole is known", "a part"],
)  # fmt: skip
def test_a_line_has_the_count_and_the_time_left(
    is_whole: bool, steps: list[tuple], first: str, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("searching", is_whole=is_whole) as advance:
        for pause, *step in steps:
            advance(*step)
            time.sleep(pause)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(first) and re.fullmatch(last, lines[-1]), lines


@pytest.mark.parametrize(
    ("is_whole", "ends", "words"),
    [(True, 600.4, "about 10 min left"), (True, None, "-:--:--"), (False, None, "time left: not measured yet")],
)
def test_the_bar_on_a_terminal_says_it_too(is_whole: bool, ends: float | None, words: str) -> None:
    bar = Progress()
    bar.add_task("x", total=50, ends=ends and time.monotonic() + ends)
    assert output._TimeLeft(is_whole=is_whole).render(bar.tasks[0]).plain == words


def lines_of(*words: object) -> list[str]:
    """Return the lines of progress of a command that ends well."""
    lines = [line for line in done(*words).err.splitlines() if "so far" in line]
    assert lines and [line for line in lines if not LINE.fullmatch(line)] == []
    return lines


@pytest.mark.nightly
def test_the_long_commands_say_how_far_they_are(
    members: Members, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "LINE_EVERY", 0.005)
    for word, words in (
        ("load", ("localize", *members, "--size", "5%", *QUICK, "--runs-dir", tmp_path / "runs")),
        ("scoring", ("evaluate", *members, "--device", "cpu")),
        ("fine-tuning", ("finetune", "--base", members[1], "--task", task_file, "--out", tmp_path / "tuned",
                         "--steps", "100", "--device", "cpu")),
    ):  # fmt: skip
        assert [line for line in lines_of(*words) if word in line and (word != "fine-tuning" or " of 100, " in line)]


@pytest.mark.nightly
def test_a_study_says_how_far_it_is(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both `study run` and `reproduce` run the study with the same function."""
    monkeypatch.setattr(output, "LINE_EVERY", 0.005)
    assert reproduce.run_here is study.run_here
    models = {"base": str(pair[0]), "finetuned": str(pair[1]), "task": str(task_file), "readout": "head"}
    searches = {**models, "device": "cpu", "localizer": ["movement", "stagewise"], "size": "5%", "steps": 5}
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({"name": "Two", "runs": [searches]}))
    lines = lines_of("study", "run", tmp_path / "two.yaml", "--runs-dir", tmp_path / "runs")
    assert [line for line in lines if re.search(r"stagewise|movement", line)], lines
