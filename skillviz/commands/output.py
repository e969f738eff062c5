"""Output of commands: tables for people on stdout, progress on stderr, JSON as the last line of stdout."""

from __future__ import annotations

import json
import math
import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from skillviz.analysis.readable_table import ReadableTable, html, latex, markdown, readable, tab_separated
from skillviz.analysis.tables import csv_text
from skillviz.atomic import write_text
from skillviz.core import formats
from skillviz.core.formats import MISSING, NOT_MEASURED, rough_seconds, time_left
from skillviz.core.interpolate import PATHS
from skillviz.core.metrics import Metric, metric_row, panels
from skillviz.errors import BadInput, visible
from skillviz.runs.part_scores import PartScores
from skillviz.runs.record import Estimate, Scores
from skillviz.runs.run import Run
from skillviz.serving import read_only
from skillviz.show.briefs import headline_scores, headline_split
from skillviz.show.finding import finding

STATE_WORDS = {
    "pretrained": "pre-trained",
    "grafted": "grafted",
    "finetuned": "fine-tuned",
    "finetuned_scaled": "fine-tuned, scaled",
    "complement": "complement",
}

PATH_WORDS = dict(zip(PATHS, ("fine-tuned model", "graft"), strict=True))

LINE_EVERY = 10.0  # seconds between two lines of progress if stderr is not a terminal
LEAST = 9
"""The width in characters that a column needs so that its cells do not break apart."""


def say(text: str = "") -> None:
    """Prints a sentence for the user on stdout."""
    Console(soft_wrap=True).print(visible(text), markup=False, highlight=False)


def note(text: str) -> None:
    """Prints a remark on stderr."""
    print(visible(text), file=sys.stderr)


def command_line() -> str:
    """The command as it was typed."""
    return "python -m skillviz " + shlex.join(sys.argv[1:])


def writable(out: Path | None, overwrite: bool = True) -> None:
    """Raises BadInput or ReadOnly, before the work begins, if a file is named that may not be written."""
    if out is None:
        return
    read_only.refuse()
    if not out.absolute().parent.is_dir() or (out.exists() and not out.is_file()):
        raise BadInput(f"{out} cannot be written: name a file in a folder that exists.")
    if out.exists() and not overwrite:
        raise BadInput(f"{out} exists; name another file, or add --overwrite.")


def write_table(frame: pd.DataFrame, out: Path) -> None:
    """Writes the table atomically: as CSV, or in its readable form if the name ends in .md, .html or .tex."""
    writable(out)
    texts = {
        ".md": lambda: markdown(readable(frame)),
        ".html": lambda: html(readable(frame), out.stem),
        ".tex": lambda: latex(readable(frame), out.stem),
    }
    write_text(out, texts.get(out.suffix.lower(), lambda: csv_text(frame))())


def print_json(value: Mapping[str, Any]) -> None:
    """Prints one line of JSON on stdout; NaN and infinity become null."""
    print(json.dumps(plain(value), allow_nan=False))


def plain(value: Any) -> Any:
    """The value in the types of JSON: tuples as lists, NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_run(run: Run) -> None:
    """Prints a run's tables: the models, the sizes, the other tasks and the path to the graft."""
    record = run.record
    print_scores(record.metrics, record.metric)
    print_sizes(run.curve(), record.metric)
    print_scores({f"{note.name}, test": note.scores for note in record.transfers}, record.metric)
    print_path(run, record.metric)


def print_finding(run: Run) -> None:
    """Prints the finding of a run in sentences, and the notes on it last."""
    for sentence in finding(run):
        say(sentence)
    if run.record.notes:
        say("Notes:")
    for remark in run.record.notes:
        say(f"- {remark}")


def run_json(run: Run) -> dict[str, Any]:
    """A run as an object for --json: plain numbers, with 95% intervals and debiased errors under separate keys."""
    scores = headline_scores(run.record)
    if scores is None:
        return run.headline()
    return {
        **run.headline(),
        "split": headline_split(run.record),
        "n": scores.n,
        "sizes": list(run.record.sizes),
        "differences": {m: e.model_dump() for m, e in scores.differences.items()},
        "recovered": scores.recovered.model_dump() if scores.recovered else None,
    }


def print_scores(scores: Mapping[str, Scores], metric: str) -> None:
    """Prints one table per split, test first: one row per state, the task's metric first, with 95% intervals."""
    rows = [metric_row(name) for name in panels(metric)]
    for split, split_scores in sorted(scores.items(), key=lambda item: item[0] != "test"):
        title = f"{split}, n = {split_scores.n:,} (95% intervals)"
        table = _table(title, ["state", *(row.axis for row in rows)])
        for state in [s for s in STATE_WORDS if s in split_scores.states]:
            estimates = split_scores.states[state]
            table.add_row(STATE_WORDS[state], *(estimate_text(estimates.get(row.name), row) for row in rows))
        Console().print(table)
        if split_scores.agreement is not None:
            agreement = estimate_text(split_scores.agreement, metric_row("agreement"))
            say(f"Grafted and fine-tuned agree on {agreement}% of the examples.")


def print_sizes(curve: pd.DataFrame, metric: str) -> None:
    """Prints the graft by region size on the test set, or on validation if there is no test set: the task's metric
    and the share of the gain that it recovers. `curve` has the columns of curve.parquet."""
    split = "test" if (curve["split"] == "test").any() else "validation"
    shown = [metric_row(name) for name in (metric, "recovered")]
    rows = []
    for size, of_size in curve[curve["split"] == split].groupby("size"):
        estimates = of_size.set_index("metric")[["value", "low", "high"]].reindex([row.name for row in shown])
        cells = (row.cell(*estimate) for row, estimate in zip(shown, estimates.to_numpy(float), strict=True))
        rows.append([formats.share(of_size["share"].iloc[0]), f"{size:,}", *cells])
    if rows:
        columns = ["of the parameters", "region size", *(row.axis for row in shown)]
        print_rows(f"graft by region size, {split} (95% intervals)", columns, rows)


def print_path(run: Run, metric: str) -> None:
    """Prints the task's metric between the base and both ends, on each data set of the WiSE grid, if there is one."""
    row = metric_row(metric)
    if not run.spec.interpolation:
        return
    points = run.interpolation()
    points = points[(points["metric"] == metric) & (points["size"].isna() | (points["size"] == run.record.size))]
    for dataset, of_data in points.groupby("dataset", sort=False):
        cells = {
            (path, alpha): row.cell(*estimate)
            for path, alpha, *estimate in of_data[["path", "alpha", "value", "low", "high"]].itertuples(index=False)
        }
        alphas = sorted({alpha for _, alpha in cells})
        rows = [[f"{alpha:.0%}", *(cells.get((path, alpha), MISSING) for path in PATHS)] for alpha in alphas]
        title = f"from the base to the fine-tuned model and to the graft, {dataset} (95% intervals)"
        print_rows(title, ["of the way", *(f"{PATH_WORDS[path]}: {row.axis}" for path in PATHS)], rows)


def estimate_text(estimate: Estimate | None, metric: Metric) -> str:
    """A value with its 95% interval, such as `86.4 (84.8–87.9)`; the unit is in the heading."""
    return metric.cell(estimate.value, estimate.low, estimate.high, estimate.debiased) if estimate else MISSING


def print_finetuned(scores: Mapping[str, Mapping[str, float]], metric: str) -> None:
    """Prints a fine-tuned model's scores, one row per split: the task's metric first, values without an interval."""
    metrics = [metric_row(name).plug_in for name in panels(metric)]
    rows = [
        [split, *(row.cell(values.get(row.name), None, None) for row in metrics)] for split, values in scores.items()
    ]
    print_rows("fine-tuned", ["split", *(row.axis for row in metrics)], rows)


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table of texts."""
    table = _table(title, columns)
    for row in rows:
        table.add_row(*map(_cell, row))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def print_stored(
    heading: str, table: pd.DataFrame, finding: Iterable[str], scores: PartScores, found: pd.DataFrame, key: str = ""
) -> None:
    """Prints scores that are stored next to a run: their table, the finding, the path; with `key` also as JSON."""
    print_rows(f"{heading}, n = {scores.record.n:,} (95% intervals)", list(table.columns), table.values.tolist())
    for line in finding:
        say(line.replace("**", ""))
    say(f"Stored in {scores.path}")
    if key:
        print_json(stored_json(scores, **{key: found}))


def stored_json(scores: PartScores, **tables: pd.DataFrame | None) -> dict[str, Any]:
    """Scores that are stored next to a run as an object for --json, with tables of rows by name."""
    rows = {
        name: None if table is None else table.astype(object).where(table.notna(), None).to_dict("records")
        for name, table in tables.items()
    }
    return {**scores.record.model_dump(exclude={"files"}), "path": str(scores.path), **rows}


def print_table(title: str, frame: pd.DataFrame, *, keep: Sequence[str] = (), is_alone: bool = True) -> None:
    """Prints a table; `keep` names columns that are shown even if all rows agree.

    In a pipe, a table that is printed alone has no title, so that the output holds only its rows. On a terminal that is
    too narrow, rows are grouped under their task and split.
    """
    if not sys.stdout.isatty():
        lines = [*([] if is_alone else [title]), *tab_separated(frame), *([] if is_alone else [""])]
        print("\n".join(map(visible, lines)))
        return
    console = Console()
    table = readable(frame, keep)
    console.print(visible(title), style="bold", markup=False, highlight=False)
    if table.shared:
        say(table.shared)
    for name, part in table.parts(console.width):
        if name:
            console.print(f"\n{visible(name)}", style="bold", markup=False, highlight=False)
        _draw(console, part)


def _draw(console: Console, part: ReadableTable) -> None:
    """Prints the rows below one another; if cells would break apart, each row as a list of its columns."""
    if LEAST * len(part.names) > console.width:
        for row in part.rows:
            grid = Table.grid(padding=(0, 2))
            for heading, cell in zip(part.headings, row, strict=True):
                grid.add_row(_cell(heading), _cell(cell))
            console.print(grid, "")
        return
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for heading, is_number, width in zip(part.headings, part.is_number, part.widths, strict=True):
        drawn.add_column(_cell(heading), overflow="fold", justify="right" if is_number else "left", max_width=width)
    for row in part.rows:
        drawn.add_row(*map(_cell, row))
    console.print(drawn)


@contextmanager
def progress_bar(title: str, total: int | None = None, is_whole: bool = True) -> Iterator[Any]:
    """Yields a function `advance(done, total, text, left)` that moves a bar on stderr; if stderr is not a terminal, it
    prints the same as a plain line every ten seconds.

    `left` is the number of seconds that the whole work still takes; if None, it is estimated from the count and its
    pace. If the count covers only part of the work (`is_whole` False), the time left is then shown as not measured yet.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        with _progress_lines(title, total, is_whole) as advance:
            yield advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _TimeLeft(is_whole))
    with Progress(*columns, console=console, transient=True) as bar:
        number = bar.add_task(_cell(title), total=total, ends=None)

        def advance(done: int, total: int | None = None, text: str | None = None, left: float | None = None) -> None:
            ends = None if left is None else time.monotonic() + left
            bar.update(number, completed=done, total=total, description=_cell(text or title), ends=ends)

        yield advance


class _TimeLeft(TimeRemainingColumn):
    """The time left for the whole work if given; otherwise estimated from the count, if that covers the whole work."""

    def __init__(self, is_whole: bool) -> None:
        super().__init__()
        self.is_whole = is_whole

    def render(self, task: Any) -> Text:
        ends = task.fields["ends"]
        if ends is None:
            return super().render(task) if self.is_whole else Text(NOT_MEASURED, "progress.remaining")
        return Text(time_left(ends - time.monotonic()), "progress.remaining")


@contextmanager
def _progress_lines(title: str, total: int | None, is_whole: bool) -> Iterator[Any]:
    """Does the same as `progress_bar` for a log: a thread writes the lines, also while `advance` is not called."""
    begun = time.monotonic()
    now: dict[str, Any] = {"text": title, "done": 0, "total": total, "since": begun, "from": 0, "ends": None}

    def advance(done: int, total: int | None = None, text: str | None = None, left: float | None = None) -> None:
        if total != now["total"] or done < now["done"]:  # a new count, with a pace of its own
            now.update({"since": time.monotonic(), "from": done})
        ends = None if left is None else time.monotonic() + left
        now.update({"text": text or title, "done": done, "total": total, "ends": ends})

    def line() -> str:
        seen, at = dict(now), time.monotonic()
        words = [seen["text"]]
        if seen["total"]:
            words.append(f"{seen['done']:,} of {seen['total']:,}")
        words.append(f"{rough_seconds(at - begun)} so far")
        if seen["ends"] is not None:
            words.append(time_left(seen["ends"] - at))
        elif not is_whole:
            words.append(NOT_MEASURED)
        elif seen["total"] and seen["done"] > seen["from"]:
            each = (at - seen["since"]) / (seen["done"] - seen["from"])
            words.append(f"about {rough_seconds(each * max(0, seen['total'] - seen['done']))} left")
        return ", ".join(words)

    ended = threading.Event()

    def write() -> None:
        while not ended.wait(LINE_EVERY):
            note(line())

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield advance
    finally:
        ended.set()
        writer.join()


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=_cell(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(_cell(column), overflow="fold")
    return table


def _cell(text: str) -> str:
    """A text for a table, in which brackets and control characters have no effect."""
    return escape(visible(text))
