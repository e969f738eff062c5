"""The report's sections on other tasks: what lies between the models, and how the skill carries over."""

from __future__ import annotations

from functools import partial

from skillviz.runs.run import Run
from skillviz.show import interpolation as interpolation_exhibits
from skillviz.show import measures, text
from skillviz.show import transfer as transfer_exhibits
from skillviz.show.interpolation_grid import of_run, scores_of
from skillviz.show.report.parts import Charts, Code, Heading, Make, Part, Points, Rows, Section, Words


def interpolation(run: Run) -> list[Section]:
    """Both ways between the models, with the best point marked; nothing where the run has no scores on its test set."""
    if "test" not in run.record.metrics:
        return []
    grid = of_run(run, run.interpolation(), run.interpolation_bins(), run.predictions)
    inside, outside = run.datasets[0], next(iter(run.datasets[1:]), None)
    metric, judged = run.record.metric, outside or inside
    top = grid.best(judged, metric)
    size, alpha = (run.record.size or 1, 1.0) if top is None else (top[1] or run.record.size or 1, top[2])
    points, bins = grid.marked(run.datasets, size, alpha)
    levels = {"chance": 1 / len(run.labels)} if metric == "accuracy" and run.labels else {}
    sentence = interpolation_exhibits.best(grid, judged, metric, run.record.d, outside is not None)
    makes: list[Make] = [partial(interpolation_exhibits.along, points, list(run.datasets), metric, levels)]
    if outside is not None:
        makes.insert(0, partial(interpolation_exhibits.trade, points, inside, outside, metric, levels))
    makes.append(partial(interpolation_exhibits.histogram, bins, list(run.datasets)))
    parts: list[Part] = [Words(sentence, ("wise", "ood", "paired")), Charts(tuple(makes))]
    if not run.spec.interpolation:
        parts.append(
            Code("This command stores the points between the models", interpolation_exhibits.missing(run.record))
        )
    parts += [Heading("Deviations from the paper"), Points(tuple(interpolation_exhibits.deviations(run.record)))]
    return [Section("interpolation", "What lies between the models?", tuple(parts))]


def transfer(run: Run) -> list[Section]:
    """The states on other tasks; nothing for a run that was scored on its own alone."""
    notes, scores = run.record.transfers, scores_of(run.record)
    if not notes or "test" not in run.record.metrics:
        return []
    metric = run.record.metric
    guesses = measures.guesses(run.record, "test", metric)
    levels = transfer_exhibits.levels(run.labels, guesses, notes, run.datasets[0]) if guesses else {}
    parts: list[Part] = [
        Words(transfer_exhibits.summary(notes, metric), ("ood", "graft", "paired")),
        Charts(
            (
                partial(transfer_exhibits.states, scores, levels, metric),
                partial(transfer_exhibits.differences, scores, metric),
            )
        ),
    ]
    for note in notes:
        parts += [
            Heading(text.plain(note.name)),
            Words(transfer_exhibits.counted(note, run.datasets[0]), ("mapping", "dropped")),
            Rows(f"Labels of {note.name}", transfer_exhibits.mapping(note, run.labels)),
        ]
    return [Section("transfer", "Does the skill carry over to other tasks?", tuple(parts))]
