"""`parts`: the effect of each part of a stored run's region, scored once and stored next to the run."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from skillviz.analysis.part_effects import part_effects
from skillviz.analysis.subskills import (
    RegionSubskills,
    expression_of,
    region_subskills,
    subskill_numbers,
    with_subskills,
)
from skillviz.commands import options
from skillviz.commands.output import print_json, print_rows, progress_bar, say, stored_json, writable, write_table
from skillviz.commands.runs import RunName
from skillviz.core.draws import LARGEST_SEED
from skillviz.core.formats import rough_seconds
from skillviz.core.metrics import Metric, likelihood_metric, metric_names, metric_row
from skillviz.core.region_expression import canonical
from skillviz.core.region_parts import ALONE, CELLS, EXPERTS, HEADS, ROWS, WITHOUT
from skillviz.live.part_scores import PartScoring
from skillviz.runs.part_scores import DRAWS, ENDS, PartScores, store_of, stored_parts
from skillviz.runs.run import Run
from skillviz.runs.store import library, open_run
from skillviz.serving import read_only
from skillviz.show import part_effects as shown
from skillviz.show import subskills as subskill_exhibits
from skillviz.show.briefs import headline_split

SAMPLE = 500


class Grouping(StrEnum):
    """The ways to divide the region."""

    cells = CELLS
    heads = HEADS
    experts = EXPERTS
    rows = ROWS


def parts(
    run: RunName,
    by: Annotated[
        Grouping,
        typer.Option("--by", help="Divide the region by layer and module, head, expert, or row (the densest 50)."),
    ] = Grouping.cells,
    sample: Annotated[
        int, typer.Option("--sample", min=1, metavar="N", help="Score on at most N test examples, drawn by class.")
    ] = SAMPLE,
    draws: Annotated[
        int, typer.Option("--draws", min=0, max=100, metavar="K", help="Random controls of each part.")
    ] = DRAWS,
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of the random controls.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Score again what is already stored.")] = False,
    runs_dir: options.RunsDir = None,
    out: options.CsvFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Score each part of a run's region alone and left out, compared with random controls of equal size.

    The last table groups parts that help the same examples into sub-skills, compared with random ones.

    The scores are stored next to the run, which does not change; the page Region shows them. The number of forward
    passes and the time are printed first. An interrupted command resumes where it stopped. How to read it:
    docs/research/parts-and-slices.md.

    [bold]Example[/bold]

      python -m skillviz parts sst2-roberta --by heads --sample 200
    """
    writable(out)
    stored = open_run(run, runs_dir)
    grouping, asked = by.value, {"n": sample, "draws": draws, "seed": seed}
    known = None if again else stored_parts(library(runs_dir), stored, grouping)
    scores = known if known is not None and _answers(known, asked, stored) else None
    if scores is None:
        scores = scored(stored, grouping, runs_dir, sample, draws, seed)
    report(stored, scores)
    predictions, task = scores.predictions(), stored.record.task
    found = region_subskills(predictions, task) if task is not None and task.has_classes else None
    if stored.record.has_classes:
        report_subskills(stored, scores, found)
    if task is None or not (out or as_json):
        return
    groups = None if found is None else subskill_numbers(found)
    if out is not None:
        metrics = metric_names(stored.record.metric, (likelihood_metric(stored.record.metric),))
        frames = [part_effects(predictions, task, metric).assign(metric=metric) for metric in metrics]
        if found is not None and groups is not None:
            frames = [*(with_subskills(frame, found) for frame in frames), groups]
        write_table(pd.concat(frames, ignore_index=True), out)
        say(f"{out}: every part, condition and metric{'' if groups is None else ', and the sub-skills'}.")
    if as_json:
        frame = part_effects(predictions, task, stored.record.metric)
        if found is not None:
            frame = with_subskills(frame, found)
        print_json(stored_json(scores, effects=frame, subskills=groups))


def report(run: Run, scores: PartScores) -> None:
    """Prints the effect of each part, in the task's metric and in NLL, the strongest first."""
    record = scores.record
    assert run.record.task is not None
    predictions = scores.predictions()
    for metric in metric_names(run.record.metric, (likelihood_metric(run.record.metric),)):
        words, effects = metric_row(metric), part_effects(predictions, run.record.task, metric)
        for condition, title in shown.CONDITIONS.items():
            rows = [
                [
                    row["name"], f"{row['size']:,}", _exact(words, row["value"], row["low"], row["high"]),
                    words.cell(row["control"], None, None),
                    _exact(words, row["excess"], row["excess_low"], row["excess_high"]), "yes" if row["holds"] else "",
                ]
                for row in shown.strongest(effects, condition, metric).to_dict("records")
            ]  # fmt: skip
            change = f"{words.title}, {shown.DIFFERENCES[condition]}"
            columns = ["part", "entries", words.difference_axis(change), "control", "part − control", "holds at FDR 5%"]
            print_rows(f"{title}, n = {record.n:,} (95% intervals)", columns, rows)
            say(shown.finding(effects, condition, metric, record.grouping).replace("**", ""))
    say(
        f"Control: as many random entries as the part has, mean of {record.draws} draws. Alone: "
        f"{shown.CONTROLS[ALONE]}. Left out: {shown.CONTROLS[WITHOUT]}. Stored in {scores.path}"
    )


def report_subskills(run: Run, scores: PartScores, found: RegionSubskills | None) -> None:
    """Prints the sub-skills of the parts, beside random controls, and the options that graft each alone."""
    if found is None:
        say(subskill_exhibits.NOT_COMPARED)
        return
    table = subskill_exhibits.table(found, run.labels)
    print_rows(f"Sub-skills, n = {scores.record.n:,} (95% intervals)", list(table.columns), table.values.tolist())
    say(subskill_exhibits.finding(found).replace("**", ""))
    say(subskill_exhibits.clipped(found))
    if scores.record.grouping != CELLS:
        return
    layers = sorted(int(layer) for layer in run.layers()["layer"].dropna().unique())
    say("To graft one sub-skill alone, open it in Surgery on the page Region, or give `localize` these options:")
    for number, cells in found.parts.groupby("subskill"):
        expression = canonical(expression_of(run.id, cells, layers))
        say(f"  {int(str(number)) + 1}: --method expression --option 'expression={expression}'")


def _exact(words: Metric, value: float, low: float, high: float) -> str:
    return words.precise(low, high).cell(value, low, high)


def _answers(scores: PartScores, asked: dict[str, int], run: Run) -> bool:
    """True if the stored scores were made with the requested settings."""
    total = run.record.task.counts.get(scores.record.split, 0) if run.record.task else 0
    same = asked["draws"], asked["seed"]
    return (scores.record.draws, scores.record.seed) == same and scores.record.n == min(asked["n"], total)


def scored(
    run: Run, grouping: str, runs_dir: Path | None, sample: int = SAMPLE, draws: int = DRAWS, seed: int = 0
) -> PartScores:
    """Scores the parts of a run's region in this process, after printing the cost, and stores the scores."""
    read_only.refuse()
    plan = PartScoring(run, run.region(), grouping, headline_split(run.record), sample, draws, seed)
    store = store_of(run, runs_dir)
    say(
        f"{plan.passes:,} forward passes over at most {plan.sample:,} examples: {len(plan.parts)} {plan.grouping}, "
        f"each alone and left out, with {plan.draws} random controls."
    )
    from skillviz.live.operations import answer  # imports torch
    from skillviz.live.request import Worker

    worker, begun = Worker(store.root), [0.0]

    def ask(operation: str, **arguments: Any) -> dict[str, Any]:
        return answer(worker, operation, {"pair": {"run": plan.run.id}, **arguments})

    ask("open")
    begun[0] = time.monotonic()
    with progress_bar("scoring parts", plan.passes) as advance:

        def heard(done: int) -> None:
            if done == len(ENDS):
                each = (time.monotonic() - begun[0]) / done
                say(f"At most about {rough_seconds(each * (plan.passes - done))}: parts of upper layers take less.")
            left = (time.monotonic() - begun[0]) / done * (plan.passes - done)
            advance(done, plan.passes, left=left if done > len(ENDS) else None)

        return plan.stored(ask, store, heard)
