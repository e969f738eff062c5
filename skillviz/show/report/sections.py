"""The sections of a run's report, each asking what the page of its name asks, from the same exhibits and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from skillviz.core import formats
from skillviz.core.bins import BINS
from skillviz.core.metrics import metric_row, panels
from skillviz.plots.region import cells
from skillviz.plots.theme import state_style
from skillviz.runs.record import RunRecord, Scores
from skillviz.runs.run import Run
from skillviz.show import calibration as calibration_exhibits
from skillviz.show import measures, sentences, text
from skillviz.show import overview as overview_exhibits
from skillviz.show import region as region_exhibits
from skillviz.show import sparsity as sparsity_exhibits
from skillviz.show.entries import entry_of, headline_split
from skillviz.show.overview import sources
from skillviz.show.report.by_example import by_example
from skillviz.show.report.elsewhere import interpolation, transfer
from skillviz.show.report.parts import Charts, Code, Heading, Make, Part, Points, Rows, Section, Words

NOTHING = "This run stored no {0}, so there is nothing to show here."


def overview(run: Run) -> Section:
    """The answer in one sentence, the models' scores, and how the region was found."""
    record, split = run.record, headline_split(run.record)
    scores = record.metrics.get(split)
    steps = measures.history_of(run.history(), record.size)
    parts: list[Part] = [Words(NOTHING.format(f"scores on a {split} set"))]
    makes: list[Make] = []
    if scores is not None:
        parts = [
            Words(sentences.overview(record, scores), ("graft", "region", "recovered", "paired")),
            Rows("Scores with their 95 % intervals", scores_table(record, scores)),
            Words(f"{sentences.basis(scores, record, split)} {_agreement(scores)}", ("agreement", "ece", "nll")),
        ]
        makes = [partial(overview_exhibits.states, record, scores, split)]
    if len(steps) < 2:
        parts.append(Words(sentences.one_step(record, measures.last_loss(steps))))
    else:
        makes.append(partial(overview_exhibits.history, steps))
    return Section("overview", "How much of the skill fits into this region?", (*parts, Charts(tuple(makes))))


def scores_table(record: RunRecord, scores: Scores) -> pd.DataFrame:
    """One row a model: the task's metric, ECE and NLL, each with its interval, as texts."""
    metrics = panels(record.metric)
    rows = []
    for state, estimates in scores.states.items():
        name = state_style(measures.TEMPERATURE if state == measures.SCALED else state).title
        values = {metric_row(m).heading: sentences.metric_estimate(m, estimates.get(m)) for m in metrics}
        rows.append({"model": name, **values})
    return pd.DataFrame(rows)


def _agreement(scores: Scores) -> str:
    if scores.agreement is None:
        return ""
    agreement = sentences.metric_estimate("agreement", scores.agreement)
    return f"Graft and fine-tuned model agree on {agreement} of the examples."


def region(run: Run) -> Section:
    """Where the region lies, and its fullest cell's fullest tensor from near."""
    title, layers = "Where does the skill lie?", run.layers()
    if layers.empty:
        return Section("region", title, (Words(NOTHING.format("layers")),))
    table = cells(layers)
    cell = region_exhibits.fullest_cells(table)[0]
    sentence = sentences.region(measures.by_kind(table), measures.by_layer(table))
    unknown = sentences.unknown_architecture(run.record)
    return Section(
        "region",
        title,
        (
            Words(sentence, ("region", "enrichment", "graftable")),
            *([Words(unknown)] if unknown else []),
            Charts((partial(region_exhibits.density, layers, cell),)),
            Charts(
                (partial(region_exhibits.by_layer, layers, "region"), partial(region_exhibits.by_layer, layers, "kind"))
            ),
            Charts((partial(region_exhibits.by_kind, layers), partial(region_exhibits.movement, layers))),
            *_close_up(run, layers, table, cell),
        ),
    )


def _close_up(run: Run, layers: pd.DataFrame, table: pd.DataFrame, cell: region_exhibits.Cell) -> list[Part]:
    row = region_exhibits.cell_tensors(layers, cell).iloc[0]
    part = region_exhibits.part(run.region(), run.record, row["parameter"], row["kind"])
    lines = [partial(region_exhibits.lines, part, by) for by in region_exhibits.line_kinds(part)]
    return [
        Heading(f"From near: {region_exhibits.cell_title(cell, table)}"),
        Words(f"{text.plain(row['parameter'])}: {sentences.tensor(row, part.rows, part.cols)}"),
        Charts((partial(region_exhibits.tensor, part), *lines)),
    ]


def sparsity(run: Run, others: Sequence[Run]) -> Section:
    """The task's metric, ECE and NLL by region size, over all runs of the pair among `others` and this one."""
    title, split = "How small can the region be?", headline_split(run.record)
    known = {other.id: other for other in others} | {run.id: run}
    entries = [entry_of(one, is_own=True) for one in known.values()]
    pair = next(entry.pair for entry in entries if entry.id == run.id)
    entries = [entry for entry in entries if entry.pair == pair]
    curve = measures.pair_curve(entries, [known[entry.id].curve() for entry in entries], split)
    if curve.empty:
        return Section("sparsity", title, (Words(NOTHING.format("curve")),))
    offered = measures.offered(curve, run.record)
    metrics = [metric for metric in panels(offered[0]) if metric in offered]
    makes = [partial(sparsity_exhibits.sizes, curve, run.record, split, metric) for metric in metrics]
    sentence = sparsity_exhibits.sentence(makes[0]("light"), run.record, split, metrics[0])
    stands = f"{formats.counted(len(entries), 'run')} of this pair and task stand behind the figures."
    return Section(
        "sparsity", title, (Words(f"{sentence} {stands}", ("localizer", "size", "seed")), Charts(tuple(makes)))
    )


def calibration(run: Run) -> Section:
    """Confidence and reliability of graft, fine-tuned and temperature-scaled model, in bins of both kinds."""
    title, split = "How sure is the model, and is it right to be?", headline_split(run.record)
    predictions = run.predictions()
    if predictions.empty:
        return Section("calibration", title, (Words(NOTHING.format("predictions")),))
    states = ("grafted", "finetuned") + ((measures.TEMPERATURE,) if run.record.temperature is not None else ())
    logits, labels = measures.state_logits(predictions, run.record, split, states)
    parts: list[Part] = []
    # with equal mass the other two would show that every bin holds as much
    for equal_mass, others in ((False, (calibration_exhibits.confidence, calibration_exhibits.counts)), (True, ())):
        bins = measures.reliability_bins(logits, labels, BINS, equal_mass)
        values = {name: measures.ece_of(z, labels, BINS, equal_mass) for name, z in logits.items()}
        differences = {
            rival: measures.ece_difference(logits["grafted"], logits[rival], labels, BINS, equal_mass)
            for rival in sentences.RIVALS
            if rival in logits
        }
        parts += [
            Heading(f"Bins of equal {'mass' if equal_mass else 'width'}"),
            Words(sentences.eces(values, BINS, equal_mass, len(labels)), ("ece", "paired", "equal_mass")),
            Points(tuple(sentences.ece_verdict(rival, logits) for rival, logits in differences.items())),
            Charts(tuple(partial(make, bins) for make in (calibration_exhibits.reliability, *others))),
        ]
    return Section("calibration", title, tuple(parts))


def origin(run: Run) -> Section:
    """Self-checks, notes, sources, and what makes the run again."""
    record = run.record
    checks = [
        f"{'passed' if check.passed else '**failed**'}: **{text.plain(check.name)}** {text.plain(check.detail)}"
        for check in sorted(record.checks, key=lambda check: check.passed)
    ]
    return Section(
        "origin",
        "Where do these numbers come from?",
        (
            Heading("Self-checks"),
            Points(tuple(checks) or ("This run stored no self-checks.",)),
            Heading("Notes and deviations from the paper"),
            Points(tuple(map(text.plain, record.notes)) or ("This run has nothing unusual to report.",)),
            Rows("Models, data, software and machine", sources(record)),
            Code("This command makes the run again", run.spec.command()),
            Code("The same in Python", run.spec.python().strip()),
        ),
    )


def sections(run: Run, others: Sequence[Run]) -> list[Section]:
    """All sections of the run's report, in reading order."""
    own = [overview(run), region(run), sparsity(run, others), calibration(run)]
    return [*own, *by_example(run), *interpolation(run), *transfer(run), origin(run)]
