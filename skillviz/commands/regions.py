"""`regions`: other regions for a stored run, searched and scored once and stored next to the run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from skillviz.analysis.other_regions import other_regions
from skillviz.analysis.rivals import rivals as table_of
from skillviz.commands import options
from skillviz.commands.output import print_stored, progress_bar, say, writable, write_table
from skillviz.commands.parts import SAMPLE
from skillviz.commands.runs import RunName
from skillviz.core.draws import LARGEST_SEED
from skillviz.runs.part_scores import ADVERSARIAL, DISJOINT, MINIMAL, REGIONS, store_of, stored_parts
from skillviz.runs.store import library, open_run
from skillviz.serving import read_only
from skillviz.show import other_regions as shown
from skillviz.show import rivals as at_equal_bytes
from skillviz.show.briefs import headline_split


class Kind(StrEnum):
    """The ways to find another region."""

    disjoint = DISJOINT
    minimal = MINIMAL
    adversarial = ADVERSARIAL


def regions(
    run: RunName,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--find",
            help="disjoint: the same search kept out of the region. minimal: the part that suffices. adversarial: what "
            "outside hurts most. Without it, what is stored is printed.",
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, max=100, metavar="K", help="Disjoint regions, one after the other.")
    ] = 1,
    draws: Annotated[
        int, typer.Option("--draws", min=1, max=100, metavar="K", help="Controls of each: nulls, or random sets.")
    ] = 1,
    sample: Annotated[
        int, typer.Option("--sample", min=2, metavar="N", help="Score on at most N test examples, drawn by class.")
    ] = SAMPLE,
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of sample and controls.")] = 0,
    runs_dir: options.RunsDir = None,
    out: options.CsvFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Find other regions for a run: disjoint ones, the part that suffices, and the outside part that hurts the graft
    most.

    They are stored next to the run, which does not change; the page Region shows them. Each is stored when it is
    scored, so an interrupted command resumes with the next. Another sample or seed starts over. How to read it:
    docs/research/one-region-among-many.md.

    [bold]Example[/bold]

      python -m skillviz regions sst2-roberta --find disjoint --count 5 --draws 3
    """
    writable(out)
    stored = open_run(run, runs_dir)
    if kind is not None:
        read_only.refuse()
        from skillviz.runs.other_regions import OtherRegions  # imports torch

        split = headline_split(stored.record)
        with progress_bar("regions", is_whole=False) as advance:
            told = OtherRegions(
                stored, store_of(stored, runs_dir), split, sample, seed, lambda text: advance(0, None, text)
            )
            told.find(kind.value, count if kind is Kind.disjoint else 1, draws)
    scores = stored_parts(library(runs_dir), stored, REGIONS)
    if scores is None:
        say(f"No other region is stored. Find some: python -m skillviz regions {stored.id} --find disjoint")
        return
    found = other_regions(stored, scores)
    finding = shown.finding(found, stored.record, scores.record.facts)
    if out is not None:
        write_table(found, out)
    print_stored("Other regions", shown.table(found), finding, scores, found, "regions" if as_json else "")


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
    table, finding = at_equal_bytes.table(found, metric), at_equal_bytes.finding(found, metric)
    print_stored(at_equal_bytes.TITLE, table, finding, scores, found, "rivals" if as_json else "")
