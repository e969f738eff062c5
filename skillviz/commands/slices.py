"""`slices`: the examples on which a run's graft is better or worse than the fine-tuned model. Does not import torch."""

from __future__ import annotations

from typing import Annotated

import typer

from skillviz.analysis.slices import LEAST, metrics_of, sliceable
from skillviz.commands import options
from skillviz.commands.output import note, print_json, print_rows, say, writable, write_table
from skillviz.commands.runs import RunName
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.errors import BadData, BadInput, SkillvizError
from skillviz.runs.example_sets import example_sets
from skillviz.runs.store import library, open_run
from skillviz.runs.texts import CLASS, example_columns
from skillviz.show import sentences
from skillviz.show import slices as shown
from skillviz.show.briefs import headline_split


def slices(
    run: RunName,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="class, words (length), or a column of the task's data; may be repeated. Default: all.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="|".join(LEAST),
            help="The metric to compare the models by. Default: accuracy; of references exact_match, or "
            "perplexity where nothing is generated.",
            show_default=False,
        ),
    ] = None,
    runs_dir: options.RunsDir = None,
    out: options.CsvFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare graft and fine-tuned model by class, length and any column of the data, losses first.

    Predictions are the run's own; no model is loaded. Length and columns need the task's data on this machine.
    How to read it: docs/research/parts-and-slices.md.

    [bold]Example[/bold]

      python -m skillviz slices sst2-roberta --by class --by words
    """
    writable(out)
    stored = open_run(run, runs_dir)
    if CLASS in (by or ()) and not stored.record.has_classes:
        raise BadInput(sentences.no_classes(stored.record))
    split, offered = headline_split(stored.record), metrics_of(stored.record.metric)
    metric = metric or offered[0]
    if metric not in offered:
        raise BadInput(f"'{metric}' is not a metric of slices; known: {', '.join(offered)}.")
    graft, tuned = shown.pair_answers(stored.predictions(), stored.record, split)
    if not len(graft.labels) or not len(tuned.labels):
        raise BadData(f"run {stored.id} stored no predictions of graft and fine-tuned model on a {split} set.")
    others = None
    if by is None or set(by) - {CLASS}:
        try:
            others = example_columns(stored, split)
        except SkillvizError as error:
            if by is not None or not stored.record.has_classes:
                raise
            note(f"By class only: {error.args[0]}")
    sets = example_sets(library(runs_dir).stores[0], stored.record.task.name if stored.record.task else "")
    columns = shown.with_sets(shown.columns_of(graft, stored.record.classes, others), sets.values(), graft.examples)
    known = sliceable(columns)
    if unknown := [name for name in by or () if name not in known]:
        raise BadInput(f"'{unknown[0]}' is not a column with slices; known: {', '.join(known)}.")
    table = shown.differences(graft, tuned, columns[list(by or known)], metric)
    words = metric_row(metric)
    rows = [
        [
            shown.title(row["column"]), row["name"], f"{row['n']:,}", words.number(row["graft"]),
            words.number(row["finetuned"]), words.cell(row["value"], row["low"], row["high"]),
            row["verdict"].replace(NO_DIFFERENCE, ""), "yes" if row["holds"] else "",
        ]
        for row in table.to_dict("records")
    ]  # fmt: skip
    difference = words.difference_axis(shown.DIFFERENCE)
    headings = ["column", "slice", "n", "graft", "fine-tuned", difference, "graft is", "holds at FDR 5%"]
    print_rows(f"{words.title}, {split} set (95% intervals, paired)", headings, rows)
    say(shown.finding(table, metric).replace("**", ""))
    if out is not None:
        write_table(table.assign(metric=metric), out)
        say(f"{out}: every slice.")
    if as_json:
        plain = table.astype(object).where(table.notna(), None).to_dict("records")
        print_json({"run_id": stored.id, "split": split, "metric": metric, "slices": plain})
