"""The sections of a run's report, with the same questions, exhibits and sentences as the pages of the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from skillviz.analysis.part_effects import part_effects
from skillviz.analysis.subskills import region_subskills
from skillviz.core import formats
from skillviz.core.calibration_error import BINS
from skillviz.core.confusion import class_results, confusion
from skillviz.core.localizers.table import has_null
from skillviz.core.metrics import likelihood_metric, metric_row, panels, right_metric
from skillviz.errors import SkillvizError
from skillviz.plots.region import cells
from skillviz.plots.theme import state_style
from skillviz.runs.part_scores import PartScores
from skillviz.runs.record import RunRecord, Scores
from skillviz.runs.run import Run
from skillviz.runs.texts import example_columns
from skillviz.show import beyond, example_table, gain, measures, sentences, text
from skillviz.show import calibration as calibration_exhibits
from skillviz.show import examples as example_exhibits
from skillviz.show import interpolation as interpolation_exhibits
from skillviz.show import out_of_scope as scope_exhibits
from skillviz.show import overview as overview_exhibits
from skillviz.show import part_effects as part_exhibits
from skillviz.show import region as region_exhibits
from skillviz.show import slices as slice_exhibits
from skillviz.show import sparsity as sparsity_exhibits
from skillviz.show import subskills as subskill_exhibits
from skillviz.show import transfer as transfer_exhibits
from skillviz.show.briefs import brief_of, headline_split
from skillviz.show.example_table import answer_words
from skillviz.show.exhibit import Exhibit
from skillviz.show.interpolation_grid import of_run, scores_of
from skillviz.show.overview import sources
from skillviz.tasks.readable_names import readable

NOTHING = "This run stored no {0}, so there is nothing to show here."
Make = Callable[[str], Exhibit]
"""Makes an exhibit in the theme of this name; a report holds each figure in both themes."""


def overview(run: Run) -> Section:
    """The answer in one sentence, the models' scores, and the progress of the search."""
    record, split = run.record, headline_split(run.record)
    scores = record.metrics.get(split)
    steps = measures.history_of(run.history(), record.size)
    parts: list[Part] = [Words(NOTHING.format(f"scores on a {split} set"))]
    makes: list[Make] = []
    if scores is not None:
        basis = sentences.basis(scores, record, split)
        agreed = () if scores.agreement is None else ("agreement",)
        if scores.agreement is not None:
            agreement = sentences.metric_estimate("agreement", scores.agreement)
            basis = f"{basis} Graft and fine-tuned model agree on {agreement} of the examples."
        parts = [
            Words(sentences.overview(record, scores), ("graft", "region", "recovered", "paired")),
            Rows("Scores with their 95% intervals", scores_table(record, scores)),
            Words(basis, tuple(name for name in (*agreed, *panels(record.metric)) if name != record.metric)),
        ]
        makes = [partial(overview_exhibits.states, record, scores, split)]
        parts += [*_beyond_null(record, split), *_gain(record, split)]
    if len(steps) < 2:
        parts.append(Words(sentences.one_step(record, measures.last_loss(steps))))
    else:
        makes.append(partial(overview_exhibits.history, steps))
    return Section("overview", "How much of the skill is in this region?", (*parts, Charts(tuple(makes))))


def _beyond_null(record: RunRecord, split: str) -> list[Part]:
    """The scores of the same search on null movements; the command that measures them if they are missing; empty if
    the localizer has no null."""
    if not has_null(record.spec.localizer):
        return []
    table = beyond.table(record, split)
    told = Words(beyond.line(record, split), ("null",))
    shown = Code("To measure it", beyond.command(record)) if table.empty else Rows("Scores of the nulls", table)
    return [Heading(beyond.TITLE), told, shown]


def _gain(record: RunRecord, split: str) -> list[Part]:
    """The gains of the compared grafts; empty if all are 1."""
    if not record.gains:
        return []
    table = gain.table(record, split)
    kinds = gain.kinds(record)
    by_kind = [Rows(gain.kinds_caption(record), kinds)] if len(kinds) else []
    words = Words(gain.sentence(record, split), ("scale",))
    return [Heading(gain.TITLE), words, Rows(gain.caption(record), table), *by_kind]


def scores_table(record: RunRecord, scores: Scores) -> pd.DataFrame:
    """One row per model: the metrics of `panels`, each with its interval, as texts."""
    metrics = panels(record.metric)
    rows = []
    for state, estimates in scores.states.items():
        name = state_style(measures.TEMPERATURE if state == measures.SCALED else state).title
        values = {metric_row(m).heading: sentences.metric_estimate(m, estimates.get(m)) for m in metrics}
        rows.append({"model": name, **values})
    return pd.DataFrame(rows)


def region(run: Run, parts: Sequence[PartScores] = ()) -> Section:
    """The location of the region, a close-up of its fullest cell's fullest tensor, and the effects of its parts."""
    title, layers = "Where is the skill?", run.layers()
    if layers.empty:
        return Section("region", title, (Words(NOTHING.format("layers")),))
    table = cells(layers)
    cell = region_exhibits.fullest_cells(table)[0]
    sentence = sentences.region(measures.by_kind(table), measures.by_layer(table))
    architecture = sentences.architecture(run.record)
    return Section(
        "region",
        title,
        (
            Words(sentence, ("region", "density", "graftable")),
            *([Words(architecture)] if architecture else []),
            *(
                Charts((partial(region_exhibits.region_map, layers, view, cell),))
                for view in region_exhibits.views_of(layers)
            ),
            *_close_up(run, layers, table, cell),
            *(part for scores in parts for part in _effects(run, scores)),
        ),
    )


def _close_up(run: Run, layers: pd.DataFrame, table: pd.DataFrame, cell: region_exhibits.Cell) -> list[Part]:
    row = region_exhibits.cell_tensors(layers, cell).iloc[0]
    part = region_exhibits.part(run.region(), run.record, row["parameter"], row["kind"])
    lines = [
        partial(region_exhibits.close_up, run.region(), run.record, part, cell.layer, by)
        for by in region_exhibits.line_kinds(part)
    ]
    return [
        Heading(f"Closer: {region_exhibits.cell_title(cell, table)}"),
        Words(f"{text.plain(row['parameter'])}: {sentences.tensor(row, part.rows, part.cols)}"),
        Charts((partial(region_exhibits.tensor, part), *lines)),
    ]


def _effects(run: Run, scores: PartScores) -> list[Part]:
    """The effect of each part of one grouping, alone and left out, in a likelihood, which changes without new
    predictions."""
    task, grouping = run.record.task, scores.record.grouping
    if task is None:
        return []
    beside = likelihood_metric(task.metric)
    effects = part_effects(scores.predictions(), task, beside)
    parts: list[Part] = [
        Heading(f"What each {part_exhibits.NOUNS[grouping]} of the region does"),
        Words(
            f"{formats.counted(scores.record.n, 'example')} of the {scores.record.split} set, "
            f"{formats.counted(scores.record.draws, 'random control')} a part.",
            ("parts", "paired", beside),
        ),
    ]
    for condition in part_exhibits.CONDITIONS:
        shown = (effects, condition, beside, grouping)
        parts += [
            Words(part_exhibits.finding(*shown)),
            Charts(
                (
                    *([partial(part_exhibits.part_map, *shown)] if grouping in part_exhibits.MAPPED else []),
                    partial(part_exhibits.strongest_parts, *shown),
                )
            ),
        ]
    return [*parts, *_subskills(run, scores)]


def _subskills(run: Run, scores: PartScores) -> list[Part]:
    """The sub-skills of the parts of one grouping, beside their random controls'."""
    if run.record.task is None or not run.record.has_classes:
        return []
    found = region_subskills(scores.predictions(), run.record.task)
    heading = Heading(f"Sub-skills, by {part_exhibits.NOUNS[scores.record.grouping]}")
    if found is None:
        return [heading, Words(subskill_exhibits.NOT_COMPARED)]
    return [
        heading,
        Words(f"{subskill_exhibits.finding(found)} {subskill_exhibits.clipped(found)}", ("subskills",)),
        Charts((
            partial(subskill_exhibits.stability_figure, subskill_exhibits.stability(found)),
            partial(subskill_exhibits.loadings_figure, subskill_exhibits.loadings(found)),
        )),
        Rows("Sub-skills", subskill_exhibits.table(found, run.labels)),
    ]  # fmt: skip


def sparsity(run: Run, others: Sequence[Run]) -> Section:
    """The metrics of `panels` by region size, over this run and all runs of its pair among `others`."""
    title, split = "How small can the region be?", headline_split(run.record)
    known = {other.id: other for other in others} | {run.id: run}
    briefs = [brief_of(one, is_of_user=True) for one in known.values()]
    pair = next(brief.pair for brief in briefs if brief.id == run.id)
    briefs = [brief for brief in briefs if brief.pair == pair]
    curve = measures.curve_of_runs(briefs, [known[brief.id] for brief in briefs], split, Run.curve)
    if curve.empty:
        return Section("sparsity", title, (Words(NOTHING.format("curve")),))
    settings = dict(zip((brief.id for brief in briefs), measures.nondefault_settings(briefs), strict=True))
    main_line = (run.spec.localizer, settings[run.id])
    metrics = measures.drawn(curve, run.record)
    makes = [partial(sparsity_exhibits.sizes, curve, run.record, split, metric, main_line) for metric in metrics]
    stands = f"{formats.counted(len(briefs), 'run')} of this pair and task stand behind the figures."
    return Section(
        "sparsity",
        title,
        (Words(f"{makes[0]('light').finding} {stands}", ("localizer", "size", "seed")), Charts(tuple(makes))),
    )


def calibration(run: Run) -> Section:
    """Confidence and reliability of graft, fine-tuned and temperature-scaled model, in bins of both kinds."""
    title, split = "Is the model's confidence justified?", headline_split(run.record)
    predictions = run.predictions()
    if reason := sentences.no_confidence(run.record):
        return Section("calibration", title, (Words(reason, ("perplexity",)),))
    if predictions.empty:
        return Section("calibration", title, (Words(NOTHING.format("predictions")),))
    states = ("grafted", "finetuned", measures.TEMPERATURE)
    logits, labels = measures.state_logits(predictions, run.record, split, states)
    parts: list[Part] = [Words(sentences.temperature(run.record), ("temperature",))]
    if scaled := gain.scaled_errors(run.record, split):
        parts.append(Words(f"The numbers below are before temperature scaling of the graft. {scaled}", ("scale",)))
    for equal_mass in (False, True):
        bins = measures.reliability_bins(logits, labels, BINS, equal_mass)
        verdicts = calibration_exhibits.verdicts(logits, labels, BINS, equal_mass)
        errors, p_values = measures.calibration_of(logits, labels, BINS, equal_mass)
        makes = [partial(calibration_exhibits.reliability, bins, errors=errors, p_values=p_values)]
        if not equal_mass:  # with equal mass, all bins of the histogram are equally full
            makes.append(partial(calibration_exhibits.confidence, bins))
            curves, smooth = measures.smooth_reliability(logits, labels)
            smoothed = partial(calibration_exhibits.smooth_reliability, curves, smooth)
            makes.append(partial(smoothed, errors=errors, p_values=p_values))
        parts += [
            Heading(f"Bins of equal {'mass' if equal_mass else 'width'}"),
            Words(sentences.ece_basis(BINS, equal_mass, len(labels)), ("ece", "paired", "equal_mass")),
            Points(tuple(f"**{formats.capital(verdict)}**: {words}" for verdict, words in verdicts)),
            Charts(tuple(makes)),
        ]
    risks = measures.risk_coverage(logits, labels)
    judged = (
        f"**{formats.capital(verdict)}**: {words}" for verdict, words in calibration_exhibits.risk_verdicts(risks)
    )
    parts += [
        Heading(calibration_exhibits.RISK_TITLE),
        Points(tuple(judged)),
        Charts((partial(calibration_exhibits.risk_coverage, risks),)),
    ]
    if sure := scope_exhibits.of_run(run):
        judged = (f"**{formats.capital(verdict)}**: {words}" for verdict, words in scope_exhibits.findings(sure))
        parts += [
            Heading(scope_exhibits.TITLE),
            Words(scope_exhibits.confidence_words(sure), scope_exhibits.WORDS),
            Points(tuple(judged)),
            Charts((partial(scope_exhibits.histogram, sure),)),
        ]
    return Section("calibration", title, tuple(parts))


def by_example(run: Run) -> list[Section]:
    """Every example by both models' scores of its true class, confusions and classes; empty without predictions."""
    split, predictions = headline_split(run.record), run.predictions()
    if predictions.empty or run.record.task is None:
        return []
    table = example_table.scored(predictions, run.record, split)
    answers = answer_words(run.record)
    measure = next(iter(answers.measures))
    points = example_table.points(table, table["case"].notna(), measure, example_table.hovers(table, answers.right))
    logits, labels = measures.state_logits(predictions, run.record, split, example_table.STATES)
    parts = (
        Words(
            example_exhibits.disagreement(
                logits["grafted"], logits["finetuned"], labels, split, right_metric(run.record.metric)
            ),
            example_exhibits.basis(run.record.metric),
        ),
        Charts((partial(example_exhibits.scatter, points, answers, measure, None),)),
        Heading("Class by class"),
        *_classes(run.record, logits, labels),
    )
    return [Section("examples", "Which examples change?", (*parts, *_slices(run, split)))]


def _classes(record: RunRecord, logits: Mapping[str, np.ndarray], labels: np.ndarray) -> list[Part]:
    """Confusions, and precision, recall and F1 of every class; a sentence if the task has no classes."""
    if not record.has_classes:
        return [Words(sentences.no_classes(record))]
    classes, resamples = record.classes, example_exhibits.resamples(len(labels))
    results = class_results(logits, labels, resamples)
    confusions: list[Make] = [
        partial(example_exhibits.confusion, confusion(z, labels), classes, state) for state, z in logits.items()
    ]
    by_class: list[Make] = [
        partial(example_exhibits.by_class, results, classes, m, resamples) for m in example_exhibits.RESULTS
    ]
    words = Words(example_exhibits.worst_classes(results, classes), ("f1", "confusion"))
    return [words, Charts(tuple(confusions)), Charts(tuple(by_class))]


def _slices(run: Run, split: str) -> list[Part]:
    """Graft compared with the fine-tuned model by class, and by length and the data's own columns if available."""
    graft, tuned = slice_exhibits.pair_answers(run.predictions(), run.record, split)
    if not len(graft.labels) or not len(tuned.labels):
        return []
    try:
        others = example_columns(run, split)
    except SkillvizError:  # the data are not on this machine
        others = None
    metric, columns = right_metric(run.record.metric), slice_exhibits.columns_of(graft, run.record.classes, others)
    table = slice_exhibits.differences(graft, tuned, columns, metric)
    return [
        Heading("Slice by slice"),
        Words(slice_exhibits.finding(table, metric, text.plain), ("slices", "paired")),
        *([Charts((partial(slice_exhibits.by_slice, table, metric),))] if len(table) else []),
    ]


def interpolation(run: Run) -> list[Section]:
    """Both paths between the models, with the best point marked; empty if the run has no scores on its test set."""
    if "test" not in run.record.metrics:
        return []
    grid = of_run(run, run.interpolation(), run.interpolation_bins(), run.predictions)
    inside, outside = run.datasets[0], next(iter(run.datasets[1:]), None)
    metric, dataset = run.record.metric, outside or inside
    top = grid.best(dataset, metric)
    size, alpha = (run.record.size or 1, 1.0) if top is None else (top[1] or run.record.size or 1, top[2])
    points, bins = grid.marked(run.datasets, size, alpha)
    levels = measures.chance(run.record, "test", metric)
    sentence = interpolation_exhibits.best(grid, dataset, metric, run.record.d)
    makes: list[Make] = [partial(interpolation_exhibits.paths, points, list(run.datasets), metric, levels)]
    if outside is not None:
        makes.insert(0, partial(interpolation_exhibits.trade, points, inside, outside, metric, levels))
    for name, where in ((inside, "in"), (outside or "", "out of")):
        if interpolation_exhibits.has_plane(points, name):
            makes.append(partial(interpolation_exhibits.plane, points, name, where))
    if not sentences.no_confidence(run.record):
        makes.append(partial(interpolation_exhibits.histogram, bins, list(run.datasets)))
    parts: list[Part] = [Words(sentence, ("wise", "ood", "paired")), Charts(tuple(makes))]
    if not run.spec.interpolation:
        parts.append(
            Code("This command stores the points between the models", interpolation_exhibits.missing(run.record))
        )
    parts += [Heading("Deviations from the paper"), Points(tuple(interpolation_exhibits.deviations(run.record)))]
    return [Section("interpolation", "Between the base and the fine-tuned model", tuple(parts))]


def transfer(run: Run) -> list[Section]:
    """The states on other tasks; empty for a run that was scored only on its own."""
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
            Heading(text.tasks(note.name)),
            Words(transfer_exhibits.counted(note), ("mapping", "dropped")),
            Rows(f"Labels of {readable(note.name)}", transfer_exhibits.mapping(note, run.labels)),
        ]
    return [Section("transfer", "Does the skill transfer?", tuple(parts))]


def origin(run: Run) -> Section:
    """Self-checks, notes, sources, and the command that makes the run again."""
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


def sections(run: Run, others: Sequence[Run], parts: Sequence[PartScores] = ()) -> list[Section]:
    """All sections of the run's report, in reading order."""
    first = [overview(run), region(run, parts), sparsity(run, others), calibration(run)]
    return [*first, *by_example(run), *interpolation(run), *transfer(run), origin(run)]


@dataclass(frozen=True)
class Words:
    """A paragraph in Markdown; `about` names the glossary's entries that it needs."""

    markdown: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Heading:
    """A heading inside a section, as plain text."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short remarks in Markdown."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Charts:
    """Exhibits that belong together: side by side if the page is wide."""

    makes: tuple[Make, ...]


@dataclass(frozen=True)
class Rows:
    """A table; its first column names the rows."""

    title: str
    table: pd.DataFrame


@dataclass(frozen=True)
class Code:
    """Text to copy, such as a command."""

    title: str
    text: str


Part = Words | Heading | Points | Charts | Rows | Code


@dataclass(frozen=True)
class Section:
    """One question with its answer and evidence; `name` is its anchor."""

    name: str
    title: str
    parts: tuple[Part, ...]
