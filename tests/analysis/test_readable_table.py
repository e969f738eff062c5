"""Tests of readable tables: whole rows in a pipe, the main columns on a terminal, and the other output formats."""

import io
import re
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from skillviz.analysis.readable_table import as_stored, html, latex, markdown, readable, stored_heading, tab_separated
from skillviz.analysis.tables import TABLES, check, csv_text
from skillviz.commands.output import print_table
from tests.core.by_hand import by_hand
from tests.studies.fake_tables import FAKE_TABLES, TASKS
from tests.tiers import first, in_the_night


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
    return pd.DataFrame(
        {
            "base": "b", "id_task": "one", "task": "one", "method": ["graft", "ft"], "size": [106467.0, np.nan],
            "share": [0.0099999, np.nan], "metric": ["accuracy", "nll"], "mean": [0.82512, 0.49712],
            "sd": [0.01, np.nan], "low": [0.79349, 0.4], "high": [0.8533, 0.6], "seeds": [3, 1],
        }
    ).assign(**changes)  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_pipe_gets_every_row_and_column_on_a_line_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = check(FAKE_TABLES[name](tuple(TASKS), np.random.default_rng(0)), name)
    print_table("title", frame)
    heading, *rows = lines = capsys.readouterr().out.splitlines()
    assert lines == tab_separated(frame) and heading.split("\t") == list(frame.columns)
    assert [row.count("\t") for row in rows] == [len(frame.columns) - 1] * len(frame)


PARTS = [scores(id_task=task, task=task) for task in ("one", "two", "one", "two")]
CELLS = readable(pd.DataFrame({"task": ["a_b", "c<d>|e"], "mean": [0.825, 0.5], "low": [0.79, 0.4], "high": 0.9}))
WHOLE, FEW = readable(pd.concat(PARTS, ignore_index=True)), readable(scores(task=["one", "two"]))
test_numbers_and_headings_are_written_so = by_hand(
    ("numbers in a pipe are as stored to six digits",
     ["mean\tsize\tn\tis\ttext", "0.123457\t10646784\t1821\tTrue\ta b c", "\t12.5\t2\tFalse\t"],
     tab_separated, pd.DataFrame({"mean": [0.123456789, np.nan], "size": [10646784.0, 12.5], "n": [1821, 2],
                                  "is": [True, False], "text": ["a\tb\nc", ""]})),
    ("what is read first stands in the table and the rest above", (
        ("method", "region size, entries", "region size, %", "metric", "mean (95%)", "seeds"),
        ("graft", "106,467", "1", "accuracy, %", "82.5 (79.3–85.3)", "3"),
        ("ft", "", "", "NLL, nats", "0.497 (0.400–0.600)", "1"),
        "All rows: base model b, task one; not shown: sd over seeds.",
    ), lambda found: (found.headings, *found.rows, found.shared), readable(scores())),
    # A single row has no shared values.
    *((f"the base model stands in the table, {name}", "base model", lambda found: found.headings[0], found)
      for name, found in (("as asked for", readable(scores(), keep=("base",))),
                          ("for a single row", readable(scores().iloc[:1])))),
    ("tasks that differ", (("task", "method"), True), lambda: (FEW.headings[:2], "trained on one" in FEW.shared)),
    ("differences are in points and keep their sign",
     ("All rows: method A graft, metric accuracy, points.", "−1.1 (−4.0 to 1.7)", "2.0 (1.0–3.0)"),
     lambda found: (found.shared, *(row[-1] for row in found.rows)), readable(pd.DataFrame({
         "a": "graft", "b": ["ft", "lora"], "metric": "accuracy", "value": [-0.0111, 0.02], "low": [-0.0398, 0.01],
         "high": [0.017, 0.03]}))),
    ("rows of a task come together where the table is too wide", [("one", False, 4), ("two", False, 4)],
     lambda: [(name, "task" in part.names, len(part.rows)) for name, part in WHOLE.parts(40)]),
    ("a table that is not too wide", [("", WHOLE)], WHOLE.parts, 10_000),
    ("one table for each row would not help", [("", FEW)], FEW.parts, 10),
    *((f"in LaTeX: {cell!r}", rf"{tex} & 1 \\",
       lambda cell=cell: latex(as_stored(pd.DataFrame({"text": [cell], "n": [1]})), "T").splitlines()[8])
      for cell, tex in (
        ("[2pt] x", "{[}2pt] x"),  # without braces, LaTeX would read it as the length of the row break before it
        ("* x", "{*} x"),
        ("a\\b", r"a\textbackslash{}b"),
        ("\\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("1 × α ± 2", r"1 $\times$ $\alpha$ $\pm$ 2"),
        ("two\nlines\tand & more", r"two lines and \& more"),
        ('<a> | "q"', r"\textless{}a\textgreater{} \textbar{} \textquotedbl{}q\textquotedbl{}"),
      )),
    ("numbers of a frame as stored", "loss_1\tsize\tis\n0.1235\t10,646\tyes\nn/a\t3\tno",
     lambda frame: "\n".join("\t".join(row) for row in (as_stored(frame).headings, *as_stored(frame).rows)),
     pd.DataFrame({"loss_1": [0.12346, np.nan], "size": [10646, 3], "is": [True, False]})),
    ("headings of the emitters", ("task", "mean, % (95%)"), lambda: CELLS.headings),
    ("Markdown", [
        "| task | mean, % (95%) |", "| --- | --- |", "| a_b | 82.5 (79.0–90.0) |", "| c<d>\\|e | 50.0 (40.0–90.0) |"
    ], lambda: markdown(CELLS).splitlines()),
    *((f"HTML has {text}", times, html(CELLS, "T & U").count, text) for text, times in (
        ("<caption>T &amp; U</caption>", 1), ('<th scope="row">c&lt;d&gt;|e</th>', 1), ("<td>82.5 (79.0–90.0)</td>", 1),
        ("<tr>", 3))),
    ("LaTeX", {r"a\_b & 82.5 (79.0--90.0) \\", r"\caption{100\%}", r"\begin{tabular}{lr}"}, {
        r"a\_b & 82.5 (79.0--90.0) \\", r"\caption{100\%}", r"\begin{tabular}{lr}"}.intersection,
     latex(CELLS, "100%").splitlines()),
    ("what all rows share, in LaTeX", True,
     lambda: r"\caption{T. All rows: " in latex(readable(scores()), "T").splitlines()[3]),
    ("several tasks of a cell are joined", "tasks\na + b\n", csv_text, pd.DataFrame({"tasks": [("a", "b")]})),
    *((f"the heading of {column[0]}", heading, stored_heading, *column) for column, heading in (
        (("layer",), "layer"), (("share",), "region size, share"), (("size",), "region size, entries"),
        (("seconds",), "seconds"), (("value",), "value"), (("ece",), "ECE, share"),
        (("ece_less_ft",), "ECE less fine-tuned"), (("share", "composition"), "share of region"),
    )),
)  # fmt: skip


def test_a_second_table_in_a_pipe_stands_under_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("mine", scores(), is_alone=False)
    assert capsys.readouterr().out.splitlines()[0] == "mine"


@pytest.mark.nightly
@pytest.mark.parametrize("name", first(TABLES, ("scores", "curve").__contains__, in_the_night))
def test_no_value_is_lost_on_a_narrow_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = check(FAKE_TABLES[name](tuple(TASKS), np.random.default_rng(0)), name)
    before, said = frame.copy(), shown(frame, "title", monkeypatch)
    drawn = [line for line in said.splitlines() if not line.startswith(("All rows", "Not shown"))]
    assert drawn[0] == "title" and "…" not in said and max(map(cell_len, drawn)) <= 100
    words = [word for _, part in readable(frame).parts(100) for word in " ".join(part.rows[0]).split()]
    assert [word for word in words if word[:5] not in said] == []  # longer words may be folded
    pd.testing.assert_frame_equal(frame, before)


def test_a_table_of_many_columns_is_told_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    many = pd.DataFrame({f"column {i}": [f"first{i}", f"second{i}"] for i in range(20)})
    lines = [line.split() for line in shown(many, "title", monkeypatch).splitlines()]
    assert ["column", "3", "first3"] in lines and ["column", "19", "second19"] in lines


def test_square_brackets_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(pd.DataFrame({"[x]": ["[/y] [bold]"]}), "[red]", monkeypatch)
    assert [text for text in ("[/y] [bold]", "[red]", "[x]") if text not in said] == []


@pytest.mark.slow
@given(st.text(max_size=40))
def test_a_cell_stays_one_row(cell: str) -> None:
    table = as_stored(pd.DataFrame({"text": [cell], "n": [1]}))
    assert len(latex(table, "T").splitlines()) == 12
    heading, rule, row, end = markdown(table).split("\n")
    assert end == "" and len(row.replace("\\|", "").split("|")) == len(heading.split("|")) == 4


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_come_back_to_the_bit(numbers: list[float]) -> None:
    assert np.array_equal(
        pd.read_csv(io.StringIO(csv_text(pd.DataFrame({"value": numbers}))))["value"].to_numpy(float), np.array(numbers)
    )


test_a_formula_is_quoted_in_a_cell_and_in_a_heading = by_hand(
    *((f"{text!r} in a column of {dtype}", {quoted: {0: quoted, 1: "plain", 2: "-0.25"}},
       lambda text=text, dtype=dtype: pd.read_csv(io.StringIO(csv_text(
           pd.DataFrame({text: pd.Series([text, "plain", "-0.25"], dtype=dtype)}))), dtype=str).to_dict())
      for text, quoted in (("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-2+3", "'-2+3"), ("@SUM(A1)", "'@SUM(A1)"),
                           ("\t=1", "'\t=1"), ("\r=1", "'\n=1")) for dtype in ("object", "str", "category"))
)  # fmt: skip
