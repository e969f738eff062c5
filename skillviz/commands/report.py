"""`report`: a stored run as one HTML file, without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.atomic import write_file
from skillviz.commands import options
from skillviz.commands.output import print_json, say, writable
from skillviz.commands.runs import RunName, report_of
from skillviz.runs.store import library, open_run


def report(
    run: RunName,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    runs_dir: options.RunsDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", "--force", help="Replace an existing file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a run as one HTML file that opens without a network: every figure and table, every word explained.

    It follows the reader's light or dark setting and can be printed. The comparisons of sizes and localizers include
    other runs of the same pair and task, and the scores that `parts` stored are part of the report.

    [bold]Example[/bold]

      python -m skillviz report sst2-roberta -o sst2.html
    """
    stored = open_run(run, runs_dir)
    writable(out, overwrite)
    content = report_of(stored, library(runs_dir))
    write_file(out, lambda part: part.write_bytes(content))
    say(f"{out}: run {stored.id}, {len(content):,} bytes.")
    if as_json:
        print_json({"path": str(out), "run_id": stored.id, "bytes": len(content)})
