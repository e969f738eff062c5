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
    "runs": "from skillviz.runs.store import library\nfrom skillviz.show import briefs, run_fields\n\n"
    "stores = library({folder}).stores\n"
    "runs = [briefs.brief_of(run, is_of_user=store is stores[0]) for store in stores for run in store.list()]\n"
    "runs = {offered}\n"
    "points = run_fields.run_points([one for one in runs if {passes}], {x!r}, {y!r})\n"
    "run_fields.scatter(points, {x!r}, {y!r}, {theme!r}).figure.show()",
    "studies": "from skillviz.analysis.method_points import every_point\n"
    "from skillviz.show import checkpoints, studies\n"
    + STUDY
    + "table = {table}\n"
    "{function}(table, *{arguments!r}, {theme!r}).figure.show()",
    "tour sentence": "from skillviz.show import measures, surgery, tour\n" + RUN
    + "rows, states = run.predictions(), {states!r}\n"
    "rows = rows[rows['example_id'] == {example!r}]\n"
    "logits, labels = measures.state_logits(rows, run.record, {split!r}, states)\n"
    "table = surgery.typed_probabilities(logits, states)\n"
    "tour.sentence_answers(table, run.labels, int(labels[0]), {theme!r}).figure.show()",
    "tour place": "from skillviz.show import surgery\n" + RUN
    + "surgery.layout(run.layers(), {theme!r}, {height}, sides=False).figure.show()",
    "tour confidence": "from skillviz.show import measures, tour\n" + RUN
    + "logits, labels = measures.state_logits(run.predictions(), run.record, {split!r}, {states!r})\n"
    "bins = measures.reliability_bins(logits, labels, {bins}, False)  # of equal width\n"
    "bins[{hidden!r}] = float('nan')  # what the answer reveals\n"
    "tour.sureness(bins, {least}, {theme!r}, {height}).figure.show()",
    "tour hidden": "from skillviz.analysis import known_truth\nfrom skillviz.show import known_truth as shown\n\n"
    "models = known_truth.models()\n"
    "board = known_truth.board(known_truth.searches(), models)\n"
    "rows, levels = shown.rows_of(board, {around!r}, {times}), shown.levels(models, {around!r})\n"
    "shown.exhibit(rows, levels, {series!r}, {theme!r}, {height}).figure.show()",
}  # fmt: skip
"""A template for each page: imports after `import skillviz`, lines, and an expression whose figure is shown."""
LISTS = {
    "jobs": "from skillviz import jobs\nfrom skillviz.runs.store import library\n\n"
    "for job in jobs.list(library({folder}).stores[0], finished=True):\n"
    "    print(job.status, job.kind, job.name)",
    "studies": "from skillviz.runs.store import library\nfrom skillviz.studies.store import list_studies\n\n"
    "for study in list_studies(library({folder})):\n"
    "    print(study.name, study.record.status, *study.tables())",
    "paper": "from skillviz.runs.store import library\n"
    "from skillviz.studies.paper.experiments import EXPERIMENTS\nfrom skillviz.studies.store import list_studies\n\n"
    "for study in list_studies(library({folder})):\n"
    "    if study.tables() and study.record.experiment in EXPERIMENTS:\n"
    "        tables = {{name: study.table(name) for name in study.tables()}}\n"
    "        for one in EXPERIMENTS[study.record.experiment].verdicts(tables, study.record.scale):\n"
    "            print(study.name, one.outcome, one.claim, sep=' | ')",
    "study": STUDY + "for name in study.tables():\n    print(study.table(name))",
}
"""A template for each page, or view of one, that lists or tabulates without a figure."""


def code(page: str, runs_dir: str = "", is_list: bool = False, **choices: Any) -> str:
    """Return the Python for a page at these choices, of at most ten lines after the imports.

    `runs_dir` is the folder of the user's runs if Python does not find it by itself; `runs` are ids of several runs.
    With `is_list` the page's template is in LISTS.
    """
    choices["where"] = f", runs_dir={runs_dir!r}" if runs_dir else ""
    choices["folder"] = repr(runs_dir) if runs_dir else ""
    if "runs" in choices:
        choices["runs"] = pprint.pformat(tuple(choices["runs"]), width=80, compact=True).replace("\n", "\n        ")
    lines = (LISTS if is_list else PAGES)[page].format(**choices)
    return f"import skillviz\n{lines}" if "skillviz.open_" in lines else lines
