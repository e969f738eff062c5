"""The Python that makes a page's figure from stored results, at the choices of the page."""

from __future__ import annotations

import pprint
from typing import Any

RUN = "\nrun = skillviz.open_run({run!r}{where})\n"
RUNS = "\nruns = [skillviz.open_run(one{where}) for one in\n        {runs}]\n"
STUDY = "\nstudy = skillviz.open_study({study!r}{where})\n"
PAGES = {
    "home": "from skillviz.show import home\n" + RUN + "home.where(run.layers(), {theme!r}).figure.show()",
    "overview": "from skillviz.show import overview\n" + RUN
    + "overview.states(run.record, run.record.metrics[{split!r}], {split!r}, {theme!r}).figure.show()",
    "region": "from skillviz.show import region\n" + RUN
    + "cell = region.Cell({layer!r}, {kind!r})  # the framed cell\n"
    "region.region_map(run.layers(), {view!r}, cell, {theme!r}).figure.show()",
    "region of several": "import itertools\nfrom skillviz.show import region\n" + RUNS
    + "pairs = list(itertools.combinations([run.region() for run in runs], 2))\n"
    "layers = region.shared_layers(runs[0].layers(), pairs, runs[0].record)\n"
    "cell = region.Cell({layer!r}, {kind!r})  # the framed cell\n"
    "region.region_map(layers, {view!r}, cell, {theme!r}, {names!r}).figure.show()",
    "sparsity": RUN + "run.plot.sparsity({name!r}, {theme!r}).show()",
    "calibration": "from skillviz.show import calibration, measures\n" + RUN
    + "states = {states!r}\n"
    "logits, labels = measures.state_logits(run.predictions(), run.record, {split!r}, states)\n"
    "bins = measures.reliability_bins(logits, labels, {bins}, False)  # of equal width\n"
    "calibration.confidence(bins, {theme!r}).figure.show()",
    "interpolation": "from skillviz.show import interpolation, measures\n"
    "from skillviz.show.interpolation_grid import of_run\n" + RUN
    + "grid = of_run(run, run.interpolation(), run.interpolation_bins(), run.predictions)\n"
    "points, _ = grid.marked({datasets!r}, {size}, {alpha})\n"
    "levels = measures.chance(run.record, 'test', {metric!r})\n"
    "interpolation.paths(points, {datasets!r}, {metric!r}, levels, {theme!r}, interpolation.HEIGHT).figure.show()",
    "transfer": "from skillviz.show import measures, transfer\n" + RUN
    + "others = run.record.transfers\n"
    "scores = {{run.datasets[0]: run.record.metrics['test'], **{{note.name: note.scores for note in others}}}}\n"
    "guesses = measures.guesses(run.record, 'test', {metric!r})\n"
    "levels = transfer.levels(run.labels, guesses, others, run.datasets[0]) if guesses else {{}}\n"
    "transfer.states(scores, levels, {metric!r}, {theme!r}).figure.show()",
    "examples": "from skillviz.runs.texts import example_texts\n"
    "from skillviz.show import example_table, examples\n" + RUN
    + "table = example_table.scored(run.predictions(), run.record, {split!r})\n"
    "table = example_table.with_texts(table, example_texts(run, {split!r}))\n"
    "answers = example_table.answer_words(run.record)\n"
    "words = example_table.hovers(table, answers.right)\n"
    "points = example_table.points(table, table['case'].notna(), {measure!r}, words)\n"
    "examples.scatter(points, answers, {measure!r}, {chosen!r}, {theme!r}).figure.show()",
    "compare": "from skillviz.analysis.answers import answers_of_state\n"
    "from skillviz.analysis.differences import less_baseline\nfrom skillviz.plots.compare import run_styles\n"
    "from skillviz.show import compare\n\n"
    "runs = {{name: skillviz.open_run(one{where}) for name, one in\n        {runs}}}\n"
    "answers = {{name: answers_of_state(run.predictions(), {split!r}, run.labels, {state!r})\n"
    "           for name, run in runs.items()}}\n"
    "table = less_baseline(answers, {baseline!r}, [{metric!r}], {of_f1})\n"
    "marks = run_styles([(name, run.spec.localizer) for name, run in runs.items()])\n"
    "compare.differences(table, marks, {baseline!r}, {metric!r}, {theme!r}).figure.show()",
    "methods": "from skillviz.analysis import method_points\n"
    "from skillviz.analysis.method_points import DIFFERENCE_KEYS, KEYS, Selection\n"
    "from skillviz.show import methods\n\n"
    "studies = [skillviz.open_study(one{where}) for one in {studies!r}]\n"
    "scores = method_points.joined([study.table('scores') for study in studies], KEYS)\n"
    "every = method_points.joined([study.table('differences') for study in studies], DIFFERENCE_KEYS)\n"
    "selection = {selection!r}\n"
    "rows = method_points.against_graft(every, selection, selection.task, {share!r}, scores)\n"
    "rows = {rows}\n"
    "methods.against_graft(rows, {metric!r}, selection.task, {share!r}, {theme!r}, 'rivals').figure.show()",
    "paper": "from skillviz.show import paper\nfrom skillviz.studies.paper.experiments import EXPERIMENTS\n" + STUDY
    + "tables = {{name: study.table(name) for name in study.tables()}}\n"
    "here, published = EXPERIMENTS[{item!r}].verdicts(tables, study.record.scale), EXPERIMENTS[{item!r}].in_paper()\n"
    "paper.claim(here[{number}], published[{number}], {theme!r}).figure.show()",
    "tasks": "from skillviz.show import tasks\n" + STUDY
    + "tasks.overlap(study.table('overlap'), {kind!r}, {order!r}, {theme!r}).figure.show()",
    "continual": "from skillviz.show import continual\n" + STUDY
    + "start = {start!r}  # the pre-trained model\n"
    "continual.stages(study.table('stages'), {metric!r}, start, {theme!r}).figure.show()",
}  # fmt: skip
"""A template for each page: imports after `import skillviz`, lines, and an expression whose figure is shown."""


def code(page: str, runs_dir: str = "", **choices: Any) -> str:
    """Return the Python for a page at these choices, of at most ten lines after the imports.

    `runs_dir` is the folder of the user's runs if Python does not find it by itself; `runs` are ids of several runs.
    """
    choices["where"] = f", runs_dir={runs_dir!r}" if runs_dir else ""
    if "runs" in choices:
        choices["runs"] = pprint.pformat(tuple(choices["runs"]), width=80, compact=True).replace("\n", "\n        ")
    return f"import skillviz\n{PAGES[page].format(**choices)}"
