"""Test that user-supplied names of labels and tasks cannot affect the terminal that prints them."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from rich.progress import Progress

from skillviz.commands import output, reproduce, study
from skillviz.commands.output import progress_bar
from tests.cli.calls import Said, call
from tests.cli.conftest import QUICK

EVIL = "\x1b]0;taken\x07 \x1b[8mhidden\u202e [bold]"
LINE = re.compile(r".+, \d+ s so far(, about .+ left|, time left: not measured yet|, longer than measured so far)?")


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
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert "\\x1b]0;taken\\x07" in text and "[bold]" in text and "\\u202e" in text
        assert not {"\x07", "\u202e"} & set(text) and "\x1b]" not in text and "\x1b[8m" not in text


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LINE_EVERY", 0.05)


def test_ten_seconds_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert output.LINE_EVERY == 10


def test_lines_come_while_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("loading"):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 7 and all(line == "loading, 1 s so far" for line in lines)
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_line_has_the_count_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("searching") as advance:
        advance(1, 1_000, "stagewise")
        time.sleep(0.12)
        advance(2, 1_000, "stagewise, loss 0.312")
        time.sleep(0.12)
        advance(3, 50, "scoring")  # a different count: its pace is unknown
        time.sleep(0.12)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("stagewise, 1 of 1,000, 1 s so far")
    assert last == "scoring, 3 of 50, 1 s so far"


def test_pace_is_that_of_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("searching") as advance:
        advance(0, 100, "x")
        time.sleep(0.2)
        advance(1, 100, "x")
        time.sleep(0.08)
    left = re.findall(r"1 of 100, 1 s so far, about (\d+) s left", capsys.readouterr().err)
    assert left and all(15 <= int(seconds) <= 60 for seconds in left)


def test_the_time_left_is_that_of_the_whole_work_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """In a run of several searches, the count is of one search."""
    with progress_bar("searching") as advance:
        advance(0, 50, "x", 700.0)
        time.sleep(0.08)
        advance(49, 50, "x", 600.0)
        time.sleep(0.08)
    err = capsys.readouterr().err
    assert "x, 0 of 50, 1 s so far, about 12 min left" in err
    assert err.splitlines()[-1] == "x, 49 of 50, 1 s so far, about 10 min left"


def test_the_count_of_a_part_does_not_tell_the_time_of_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """No scoring was measured yet for this run, so the pace of its search is not the pace of the run."""
    with progress_bar("localizing", is_whole=False) as advance:
        advance(1, 50, "x")
        time.sleep(0.08)
        advance(2, 50, "x")
        time.sleep(0.08)
    assert capsys.readouterr().err.splitlines()[-1] == "x, 2 of 50, 1 s so far, time left: not measured yet"


def test_the_bar_on_a_terminal_says_it_too() -> None:
    column, bar = output._TimeLeft(is_whole=True), Progress()
    number = bar.add_task("x", total=50, ends=time.monotonic() + 600.4)
    assert column.render(bar.tasks[0]).plain == "about 10 min left"
    bar.update(number, ends=None)
    assert column.render(bar.tasks[0]).plain == "-:--:--"
    assert output._TimeLeft(is_whole=False).render(bar.tasks[0]).plain == "time left: not measured yet"


def lines_of(said: Said) -> list[str]:
    assert said.code == 0, said.err
    return [line for line in said.err.splitlines() if "so far" in line]


@pytest.mark.nightly
def test_the_long_commands_say_how_far_they_are(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "LINE_EVERY", 0.005)
    models = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    localizing = lines_of(call("localize", *models, "--size", "5%", *QUICK, "--runs-dir", tmp_path / "runs"))
    evaluating = lines_of(call("evaluate", *models, "--device", "cpu"))
    tuned = ("--out", tmp_path / "tuned", "--steps", "100", "--device", "cpu")
    training = lines_of(call("finetune", "--base", pair[0], "--task", task_file, *tuned))
    for lines, word in ((localizing, "load"), (evaluating, "scoring"), (training, "fine-tuning")):
        assert lines and all(LINE.fullmatch(line) for line in lines), lines
        assert any(word in line for line in lines), lines
    assert any(" of 100, " in line for line in training)


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
    lines = lines_of(call("study", "run", tmp_path / "two.yaml", "--runs-dir", tmp_path / "runs"))
    assert lines and all(LINE.fullmatch(line) for line in lines), lines
    assert any(re.search(r"stagewise|movement", line) for line in lines), lines
