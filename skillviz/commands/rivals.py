"""`rivals`: signs, low ranks and bytes of the whole movement, beside a stored run's graft at equal bytes."""

from __future__ import annotations

from typing import Annotated

import typer

from skillviz.analysis.rivals import rivals as table_of
from skillviz.commands import options
from skillviz.commands.output import print_json, print_rows, progress_bar, say
from skillviz.commands.runs import RunName
from skillviz.runs.part_scores import store_of
from skillviz.runs.store import open_run
from skillviz.serving import read_only
from skillviz.show import rivals as shown


def rivals(
    run: RunName,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=2, metavar="N", help="Score on at most N test examples, drawn by class."),
    ] = None,
    runs_dir: options.RunsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a run's graft at equal bytes with signs, low ranks and single bytes of the whole movement.

    Each is scored at gain 1 and at its own gain, fitted on validation. The scores are stored next to the run, which
    does not change; the page Methods shows them. Each is stored when it is scored, so an interrupted command resumes
    with the next. Another sample starts over. How to read it: docs/research/rivals.md.

    [bold]Example[/bold]

      python -m skillviz rivals sst2-roberta --sample 500
    """
    read_only.refuse()
    stored = open_run(run, runs_dir)
    from skillviz.runs.rivals import score_rivals  # imports torch

    with progress_bar("rivals", is_whole=False) as advance:
        store = store_of(stored, runs_dir)
        scores = score_rivals(stored, store, sample, lambda name, *heard: advance(0, None, f"{name}: {heard[2]}"))
    found, metric = table_of(stored, scores), stored.record.metric
    table = shown.table(found, metric)
    print_rows(f"{shown.TITLE}, n = {scores.record.n:,} (95% intervals)", list(table.columns), table.values.tolist())
    for line in shown.finding(found, metric):
        say(line.replace("**", ""))
    say(f"Stored in {scores.path}")
    if as_json:
        rows = found.astype(object).where(found.notna(), None).to_dict("records")
        print_json({**scores.record.model_dump(exclude={"files"}), "path": str(scores.path), "rivals": rows})
