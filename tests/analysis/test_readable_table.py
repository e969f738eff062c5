"""Tests of readable tables: whole rows in a pipe, the main columns on a terminal, and the other output formats."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from skillviz.analysis.readable_table import as_stored, html, latex, markdown, readable, stored_heading, tab_separated
from skillviz.analysis.tables import TABLES, check
from skillviz.commands.output import print_table
from tests.studies.fake_tables import FAKE_TABLES, TASKS
from tests.tiers import first, in_the_night

WIDE = 10_000


class Terminal(io.StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True


def shown(frame: pd.DataFrame, title: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the text that a terminal of 100 columns shows for a table, without bold type."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(Terminal()) as said:
        print_table(title, frame)
    return re.sub(r"\x1b\[[\d;]*m", "", said.getvalue())


def scores(**changes: object) -> pd.DataFrame:
    """Return two rows of a table of scores: a share and a value in nats."""
    frame = pd.DataFrame(
        {
            "base": "b", "id_task": "one", "task": "one", "method": ["graft", "ft"], "size": [106467.0, np.nan],
            "share": [0.0099999, np.nan], "metric": ["accuracy", "nll"], "mean": [0.82512, 0.49712],
            "sd": [0.01, np.nan], "low": [0.79349, 0.4], "high": [0.8533, 0.6], "seeds": [3, 1],
        }
    )  # fmt: skip
    return frame.assign(**changes)


@pytest.mark.parametrize("name", TABLES)
def test_a_pipe_gets_every_row_and_column_on_a_line_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = check(FAKE_TABLES[name](tuple(TASKS), np.random.default_rng(0)), name)
    print_table("title", frame)
    lines = capsys.readouterr().out.splitlines()
    assert lines == tab_separated(frame) and len(lines) == 1 + len(frame)
    assert lines[0].split("\t") == list(frame.columns)
    assert {line.count("\t") for line in lines} == {len(frame.columns) - 1}


def test_numbers_in_a_pipe_are_as_stored_to_six_digits() -> None:
    frame = pd.DataFrame(
        {"mean": [0.123456789, float("nan")], "size": [10646784.0, 12.5], "n": [1821, 2], "is": [True, False],
         "text": ["a\tb\nc", ""]}
    )  # fmt: skip
    assert tab_separated(frame)[1:] == ["0.123457\t10646784\t1821\tTrue\ta b c", "\t12.5\t2\tFalse\t"]


def test_a_second_table_in_a_pipe_stands_under_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("mine", scores(), is_alone=False)
    assert capsys.readouterr().out.splitlines()[0] == "mine"


def test_what_is_read_first_stands_in_the_table_and_the_rest_above() -> None:
    found = readable(scores())
    assert found.headings == (
        "method", "region size, entries", "region size, %", "metric", "mean (95%)", "seeds"
    )  # fmt: skip
    assert found.rows == (
        ("graft", "106,467", "1", "accuracy, %", "82.5 (79.3–85.3)", "3"),
        ("ft", "", "", "NLL, nats", "0.497 (0.400–0.600)", "1"),
    )
    assert found.shared == "All rows: base model b, task one; not shown: sd over seeds."
    assert readable(scores(), keep=("base",)).headings[0] == "base model"
    assert readable(scores().iloc[:1]).headings[0] == "base model"  # a single row has no shared values


def test_tasks_stand_apart_where_they_differ() -> None:
    assert readable(scores(task=["one", "two"])).headings[:2] == ("task", "method")
    assert "trained on one" in readable(scores(task=["one", "two"])).shared


def test_differences_are_in_points_and_keep_their_sign() -> None:
    frame = pd.DataFrame(
        {"a": "graft", "b": ["ft", "lora"], "metric": "accuracy", "value": [-0.0111, 0.02], "low": [-0.0398, 0.01],
         "high": [0.017, 0.03]}
    )  # fmt: skip
    found = readable(frame)
    assert [row[-1] for row in found.rows] == ["−1.1 (−4.0 to 1.7)", "2.0 (1.0–3.0)"]
    assert found.shared == "All rows: method A graft, metric accuracy, points."


@pytest.mark.slow
@pytest.mark.parametrize("name", first(TABLES, ("scores", "curve").__contains__, in_the_night))
def test_no_value_is_lost_on_a_narrow_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = check(FAKE_TABLES[name](tuple(TASKS), np.random.default_rng(0)), name)
    before = frame.copy()
    said = shown(frame, "title", monkeypatch)
    drawn = [line for line in said.splitlines() if not line.startswith(("All rows", "Not shown"))]
    assert drawn[0] == "title" and "…" not in said and max(map(cell_len, drawn)) <= 100
    for _, part in readable(frame).parts(100):
        for word in " ".join(part.rows[0]).split():
            assert word[:5] in said, word  # longer words may be folded
    pd.testing.assert_frame_equal(frame, before)


def test_a_table_of_many_columns_is_told_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    many = pd.DataFrame({f"column {i}": [f"first{i}", f"second{i}"] for i in range(20)})
    lines = [line.split() for line in shown(many, "title", monkeypatch).splitlines()]
    assert ["column", "3", "first3"] in lines and ["column", "19", "second19"] in lines


def test_rows_of_a_task_come_together_where_the_table_is_too_wide() -> None:
    frame = pd.concat([scores(id_task=task, task=task) for task in ("one", "two", "one", "two")], ignore_index=True)
    whole = readable(frame)
    assert whole.parts(WIDE) == [("", whole)]
    (first, one), (second, two) = whole.parts(40)
    assert (first, second) == ("one", "two") and "task" not in one.names and len(one.rows) == len(two.rows) == 4
    few = readable(scores(task=["one", "two"], id_task=["one", "two"]))
    assert few.parts(10) == [("", few)]  # one table for each row would not help


def test_square_brackets_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(pd.DataFrame({"[x]": ["[/y] [bold]"]}), "[red]", monkeypatch)
    assert "[/y] [bold]" in said and "[red]" in said and "[x]" in said


def test_the_emitters_write_the_same_cells() -> None:
    table = readable(pd.DataFrame({"task": ["a_b", "c<d>|e"], "mean": [0.825, 0.5], "low": [0.79, 0.4], "high": 0.9}))
    assert table.headings == ("task", "mean, % (95%)")
    assert markdown(table).splitlines() == [
        "| task | mean, % (95%) |", "| --- | --- |", "| a_b | 82.5 (79.0–90.0) |", "| c<d>\\|e | 50.0 (40.0–90.0) |"
    ]  # fmt: skip
    written = html(table, "T & U")
    assert "<caption>T &amp; U</caption>" in written and '<th scope="row">c&lt;d&gt;|e</th>' in written
    assert written.count("<tr>") == 3 and "<td>82.5 (79.0–90.0)</td>" in written
    lines = latex(table, "100%").splitlines()
    assert r"a\_b & 82.5 (79.0--90.0) \\" in lines and r"\caption{100\%}" in lines and r"\begin{tabular}{lr}" in lines


def test_latex_says_what_all_rows_share() -> None:
    table = readable(scores())
    assert table.shared and latex(table, "T").splitlines()[3].startswith(r"\caption{T. All rows: ")


@pytest.mark.parametrize(
    ("cell", "tex"),
    [
        ("[2pt] x", "{[}2pt] x"),  # without braces, LaTeX would read it as the length of the row break before it
        ("* x", "{*} x"),
        ("a\\b", r"a\textbackslash{}b"),
        ("\\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("1 × α ± 2", r"1 $\times$ $\alpha$ $\pm$ 2"),
        ("two\nlines\tand & more", r"two lines and \& more"),
        ('<a> | "q"', r"\textless{}a\textgreater{} \textbar{} \textquotedbl{}q\textquotedbl{}"),
    ],
)
def test_a_cell_is_text_in_latex(cell: str, tex: str) -> None:
    assert rf"{tex} & 1 \\" in latex(as_stored(pd.DataFrame({"text": [cell], "n": [1]})), "T").splitlines()


@pytest.mark.slow
@given(st.text(max_size=40))
def test_a_cell_stays_one_row(cell: str) -> None:
    table = as_stored(pd.DataFrame({"text": [cell], "n": [1]}))
    assert len(latex(table, "T").splitlines()) == 12
    heading, rule, row, end = markdown(table).split("\n")
    assert end == "" and len(row.replace("\\|", "").split("|")) == len(heading.split("|")) == 4


def test_numbers_of_a_frame_stay_as_they_are() -> None:
    table = as_stored(pd.DataFrame({"loss_1": [0.12346, np.nan], "size": [10646, 3], "is": [True, False]}))
    assert table.headings == ("loss_1", "size", "is")
    assert table.rows == (("0.1235", "10,646", "yes"), ("n/a", "3", "no"))


def test_a_heading_of_stored_numbers_has_their_unit() -> None:
    columns = ("layer", "share", "size", "seconds", "value", "ece", "ece_less_ft")
    said = [
        "layer",
        "region size, share",
        "region size, entries",
        "seconds",
        "value",
        "ECE, share",
        "ECE less fine-tuned",
    ]
    assert [stored_heading(name) for name in columns] == said
    assert stored_heading("share", "composition") == "share of region"
