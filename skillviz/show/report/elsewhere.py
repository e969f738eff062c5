"""The report's sections on other tasks: what lies between the models, and how the skill carries over."""

from __future__ import annotations

from functools import partial

from skillviz.runs.run import Run
from skillviz.show import interpolation as between
from skillviz.show import measures, text
from skillviz.show import transfer as carried
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
    said = between.best(grid, judged, metric, run.record.d, outside is not None)
    makes: list[Make] = [partial(between.along, points, list(run.datasets), metric, levels)]
    if outside is not None:
        makes.insert(0, partial(between.trade, points, inside, outside, metric, levels))
    makes.append(partial(between.histogram, bins, list(run.datasets)))
    parts: list[Part] = [Words(said, ("wise", "ood", "paired")), Charts(tuple(makes))]
    if not run.spec.interpolation:
        parts.append(Code("This command stores the points between the models", between.missing(run.record)))
    parts += [Heading("Deviations from the paper"), Points(tuple(between.deviations(run.record)))]
    return [Section("interpolation", "What lies between the models?", tuple(parts))]


def transfer(run: Run) -> list[Section]:
    """The states on other tasks; nothing for a run that was scored on its own alone."""
    notes, scores = run.record.transfers, scores_of(run.record)
    if not notes or "test" not in run.record.metrics:
        return []
    metric = run.record.metric
    guesses = measures.guesses(run.record, "test", metric)
    levels = carried.levels(run.labels, guesses, notes, run.datasets[0]) if guesses else {}
    parts: list[Part] = [
        Words(carried.summary(notes, metric), ("ood", "graft", "paired")),
        Charts((partial(carried.states, scores, levels, metric), partial(carried.differences, scores, metric))),
    ]
    for note in notes:
        parts += [
            Heading(text.plain(note.name)),
            Words(carried.counted(note, run.datasets[0]), ("mapping", "dropped")),
            Rows(f"Labels of {note.name}", carried.mapping(note, run.labels)),
        ]
    return [Section("transfer", "Does the skill carry over to other tasks?", tuple(parts))]
