"""The sections of the studies page: the headline, the list, and one study with verdicts, pictures, tables and steps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.analysis import readable_table
from skillviz.analysis.method_points import every_point, scored_metric
from skillviz.analysis.readable_table import heading, kind, scales, title
from skillviz.analysis.tables import TABLES, label, task_metric
from skillviz.core import formats
from skillviz.core.methods import METHODS
from skillviz.core.metrics import panels
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED
from skillviz.errors import StoreError
from skillviz.plots.theme import localizer_style
from skillviz.runs.artifact import LOCALIZE
from skillviz.runs.tables import Column
from skillviz.serving import sign_in
from skillviz.show import federated, table_words, text
from skillviz.show import studies as exhibits
from skillviz.show.checkpoints import panels as panels_of
from skillviz.studies.paper.claims import Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.store import StudyFolder
from skillviz.tasks.project import with_a_checkout
from skillviz.tasks.readable_names import readable
from skillviz.ui import address, cache, controls, exports, page, paper_words, show_code, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.sparsity import figures as checkpoint_figures
from skillviz.ui.pages.studies import start
from skillviz.ui.row_click import rows_that_open, selected
from skillviz.ui.run_bar import width_of

VIEW, LIST, ONE, NEW = "view", "list", "study", "new"
VIEWS = {LIST: "All studies", ONE: "Open study", NEW: "Start a study"}
LISTING = "studies.list"
BOX = 330  # pixels, the maximum width of a box: two of them are beside the views
COLUMNS = {
    "data": st.column_config.TextColumn("data", width=228),
    "experiment": st.column_config.TextColumn("experiment", width=344),
    "result": st.column_config.TextColumn(
        "result",
        width=200,
        help="The study's verdicts on the paper's claims. Claims not counted here are inconclusive or not measured.",
    ),
    "runs": st.column_config.NumberColumn(
        "runs", width=50, help="Localizations that the study's tables were made from. Some may not be stored here."
    ),
    "computing, min": st.column_config.NumberColumn(
        "minutes",
        format="%.0f",
        width=64,
        help="The minutes that its steps took, one after the other; steps that another study made count too.",
    ),
}
FIRST = (
    "mode", "stage", "stage_task", "id_task", "task", "region", "row", "column", "of", "purified", "path", "alpha",
    "source", "state", "low_edge", "high_edge", "method", "a", "b", "localizer", "lr", "steps", "bias", "layer", "kind",
    "is_bias", "relation", "gain_share", "reached", "reached_on", "share", "metric", "mean", "value", "value_ft",
    "gain", "ece", "ece_ft", "ece_ft_scaled", "iou",
    "debiased", "low", "high", "chance", "chance_low", "chance_high", "selected", "total", "count", "correct",
    "seeds", "n",
)  # fmt: skip
IN_PERCENT = ("metric", "share", "points")
SHORT = ("share", "chance", "chance_low", "chance_high")  # shares with two digits
LONG = ("gain_share", "iou", "low_edge", "high_edge")  # with three digits


def summary(studies: Sequence[StudyFolder], shown: str, study: StudyFolder | None) -> str:
    """The headline of the view, in Markdown: the number of studies, or one study's verdicts on the paper's claims."""
    if not studies:
        words = "No study is stored yet. A study runs fine-tunings and localizations that belong together."
        return words + with_a_checkout()
    if shown == NEW:
        return "Choose an experiment of the paper, or a file of your own."
    if shown == ONE and study is not None:
        return _verdicts(study)
    whole = [one for one in studies if one.tables()]
    of_the_paper = {name for name, row in EXPERIMENTS.items() if row.claims}
    experiments = {one.record.experiment for one in whole} & of_the_paper
    left = len(studies) - len(whole)
    unfinished = f", {left} without tables yet" if left else ""
    return (
        f"**{formats.counted(len(studies), 'study')}**{unfinished}: {len(experiments)} of the paper's "
        f"{len(of_the_paper)} experiments. Select a row to open one (keyboard: Shift+Space)."
    )


def choose(studies: Sequence[StudyFolder]) -> tuple[str, StudyFolder | None, DeltaGenerator]:
    """The chosen view, the study if the view shows one, and the container of their controls."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        shown = _choose_view(LIST if studies else NEW)
        if shown != ONE or not studies:
            return shown, None, row
        with page.explained():
            # studies with tables first, then in the paper's order
            studies = sorted(studies, key=lambda study: (not study.tables(), paper_words.place_of(study)))
            return shown, study_choice.choose(studies, widest=BOX), row


def _choose_view(default: str) -> str:
    """Draws the choice of view; an address with a study or a form field but no view selects the matching view."""
    if VIEW not in st.query_params:
        linked = [name for name in st.query_params if address.linked(name) is not None]
        if study_choice.STUDY in linked:
            controls.assign(VIEW, ONE)
        elif any(name.startswith(start.PREFIXES) for name in linked):
            controls.assign(VIEW, NEW)
    return controls.segments(VIEW, "Show", list(VIEWS), default, shown=VIEWS.get)


def listing(studies: Sequence[StudyFolder], states: Mapping[str, str]) -> None:
    """Draws all studies as a table whose rows open them; nothing if there are none."""
    for broken in cache.broken_studies():
        st.warning(text.plain(sign_in.without_places(broken.reason)), icon=":material/warning:")
    if not studies:
        return
    studies = sorted(studies, key=paper_words.place_of)
    table = list_table(studies, states)
    is_alike = table.duplicated(["experiment", "data"], keep=False)
    named = table["data"].where(~is_alike, table["data"] + " · " + table["study"])  # the name only where needed
    rows_that_open(
        table.assign(data=named).drop(columns="study"), key=LISTING, column_config=COLUMNS, placeholder="",
        height="content", on_select=lambda: _open(studies), alt="The stored studies; select a row to open it",
    )  # fmt: skip
    exports.table_menu(table, file="studies", key="studies", caption="Stored studies")


def _open(studies: Sequence[StudyFolder]) -> None:
    """Opens the study of the selected row; called when the selection changes."""
    row = selected(LISTING)
    if row is not None:
        controls.assign(study_choice.STUDY, studies[row].name)
        controls.assign(VIEW, ONE)


def list_table(studies: Sequence[StudyFolder], states: Mapping[str, str]) -> pd.DataFrame:
    """One row per study, for display; `states` is the result of `running.states`.

    The data are the first column: a phone shows only it and the beginning of the experiment, and these distinguish the
    rows.
    """
    rows = []
    for study in studies:
        record = study.record
        steps = list(record.steps.values())
        rows.append(
            {
                "data": study_words.data(study),
                "experiment": _title(study),
                "result": _result(study, states.get(str(study.path.resolve())) or states.get(study.path.name)),
                "runs": sum(step.kind == LOCALIZE for step in steps) or None,
                "computing, min": sum(step.seconds or 0.0 for step in steps) / 60 or None,
                "ended": formats.day(record.finished).split(",")[0] if record.finished else "",
                "study": study.name,
            }
        )
    return pd.DataFrame(rows)


def _result(study: StudyFolder, state: str | None) -> str:
    """`2 of 3 confirmed, 1 contradicted`; the state of a study that is not finished or has no claim."""
    if state not in (None, "finished"):
        return str(state)
    verdicts: Sequence[Verdict] = ()
    with suppress(StoreError):  # the study's own view explains a table that cannot be read
        verdicts = cache.study_verdicts(study) if study.record.status == "finished" else ()
    counts = {word: sum(verdict.outcome == word for verdict in verdicts) for word in (CONFIRMED, CONTRADICTED)}
    against = f", {counts[CONTRADICTED]} {CONTRADICTED}" if counts[CONTRADICTED] else ""
    return f"{counts[CONFIRMED]} of {len(verdicts)} {CONFIRMED}{against}" if verdicts else study_words.state(study)


def _title(study: StudyFolder) -> str:
    experiment = study.record.experiment
    if experiment in EXPERIMENTS:
        return EXPERIMENTS[experiment].title
    return study_words.experiment_title(experiment) if experiment else study.name


def details(study: StudyFolder | None, row: DeltaGenerator) -> None:
    """Draws everything about one study; the box of its tasks is drawn in `row`."""
    if study is None:
        st.info("There is no study to open yet.")
        st.code("python -m skillviz reproduce table2 --scale small", language=None)
        return
    start.begun_anew(study)
    _problems(study)
    if not study.tables():
        st.info("It has no tables yet: they are made when its other steps have ended.", icon=":material/table:")
    with page.explained():
        tables = {name: cache.study_table(study, name) for name in study.tables()}
    _pictures(study, tables, row)
    show_code.show_list("study", study=study.name)
    study_choice.links(study, "studies")
    _tables(study, tables)
    _steps(study)
    study_choice.notes((study,))


def _problems(study: StudyFolder) -> None:
    """Draws the failed steps, in words, and the button that resumes the study."""
    lines = failures(study)
    if not lines:
        start.resume_button(study.name)
        return
    lost = not_reached(study)
    more = f" {formats.counted(lost, 'step')} could not be reached." if lost else ""
    st.error(f"{formats.counted(len(lines), 'step')} failed.{more}", icon=":material/error:")
    st.markdown("\n".join(f"- {line}" for line in lines))
    start.resume_button(study.name)


def _verdicts(study: StudyFolder) -> str:
    """A study's verdicts on the paper's claims, or a description if it has none."""
    title = study_words.experiment_title(study.record.experiment)
    if not study.tables():
        return f"{title}, {study_words.data(study)}: **{study_words.state(study)}**."
    with page.explained():
        outcomes = cache.study_verdicts(study)
    said = paper_words.verdict_counts(outcomes) if outcomes else formats.counted(len(study.tables()), "table")
    return f"{title}, {study_words.data(study)}: {said}."


def _pictures(study: StudyFolder, tables: Mapping[str, pd.DataFrame], row: DeltaGenerator) -> None:
    """Draws the pictures of its tables that exist in any experiment; the box of the first is drawn in `row`."""
    drawn = [name for name in PICTURES if len(tables.get(name, ()))]
    for name in drawn:
        PICTURES[name](study, tables[name], row if name == drawn[0] else st.container(horizontal=True))


def _code(study: StudyFolder, function: str, *arguments: Any, table: str) -> None:
    """Draws the code for a study's picture, which a function makes of a table and arguments; only of the first one."""
    show_code.show("studies", study=study.name, function=function, arguments=arguments, table=table)


def _shared(study: StudyFolder, table: pd.DataFrame, _: DeltaGenerator) -> None:
    """Draws the entries shared by regions, as a share of one region and of both."""
    kinds = [one for one in ("overlap", "iou") if (table["kind"] == one).any()]
    _code(study, "studies.shared", kinds[0], table="study.table('overlap')")
    for place, one in zip(st.columns(len(kinds)), kinds, strict=True):
        with place:
            show(exhibits.shared(table, one, theme()), study.name)


def _histogram(study: StudyFolder, table: pd.DataFrame, row: DeltaGenerator) -> None:
    """Draws the confidence of the models on one task."""
    task = _one_of("sure-of", "Confidence on", table["task"], row)
    show(exhibits.histogram(table, task, theme()), study.name)
    _code(study, "studies.histogram", task, table="study.table('histogram')")


def _one_of(name: str, title: str, tasks: pd.Series, row: DeltaGenerator) -> str:
    """One of the tasks; draws a box in the row if there are several."""
    known = list(dict.fromkeys(tasks))
    with row:
        return controls.select(name, title, known, known[0], shown=readable, width=260) if len(known) > 1 else known[0]


def _checkpoints(study: StudyFolder, table: pd.DataFrame, row: DeltaGenerator) -> None:
    """Draws the checkpoints of one task along fine-tuning, two figures per row."""
    task = _one_of("trained-on", "Fine-tuned on", table["id_task"], row)
    checkpoint_figures(table, task, study.name)
    _code(study, "checkpoints.panel", task, panels_of(table, task)[0], table="study.table('checkpoints')")


def _federated(study: StudyFolder, table: pd.DataFrame, row: DeltaGenerator) -> None:
    """Draws the finding of a federation on one task, and its rounds."""
    table = table[table["setting"] == _one_of("federation", "Setting", table["setting"], row)]
    task = _one_of("federated-on", "Federated on", table["task"], row)
    st.markdown(federated.finding(table, task))
    for place, what in zip(st.columns(2), federated.TITLES, strict=True):
        with place:
            show(federated.rounds(table, task, what, theme()), study.name)


def _settings(study: StudyFolder, table: pd.DataFrame, row: DeltaGenerator) -> None:
    """Draws the reached size and the score by the searches' settings."""
    task = _one_of("tried-on", "Task", table["task"], row)
    metric = task_metric(table.loc[table["task"] == task, "metric"])
    _code(study, "studies.settings", task, "size", table="study.table('sensitivity')")
    for place, shown in zip(st.columns(2), ("size", metric), strict=True):
        with place:
            show(exhibits.settings(table, task, shown, theme()), study.name)


def _composition(study: StudyFolder, table: pd.DataFrame, row: DeltaGenerator) -> None:
    """Draws the layers and the modules of one task's regions."""
    regions = dict.fromkeys(zip(table["task"], table["localizer"], table["variant"], strict=True))
    names = {label(region[0], localizer_style(region[1]).title, region[2]): region for region in regions}
    with row:
        chosen = controls.select(
            "made-of", "Regions of", list(names), next(iter(names)), shown=readable,
            width=min(BOX, width_of([*map(readable, names)])),
        )  # fmt: skip
    region = names[chosen]
    _code(study, "studies.composition_by_layer", *region, table="study.table('composition')")
    left, right = st.columns(2)
    with left:
        show(exhibits.composition_by_layer(table, *region, theme()), study.name)
    with right:
        show(exhibits.composition_by_kind(table, *region, theme()), study.name)


def _scores(study: StudyFolder, scores: pd.DataFrame, row: DeltaGenerator) -> None:
    pairs = list(dict.fromkeys(zip(scores["id_task"], scores["task"], strict=True)))
    names = {f"{a} to {b}" if a != b else a: (a, b) for a, b in pairs}
    titles = {name: readable(f"{a}, scored on {b}" if a != b else a) for name, (a, b) in names.items()}
    explained = study_words.task_titles(task for pair in pairs for task in pair)
    with row:
        name = controls.select(
            "pair", "Task", list(names), next(iter(names)), shown=titles.get,
            width=min(BOX, width_of(["Task", *titles.values()])), help=explained or None,
        )  # fmt: skip
        scores = _of_one_checkpoint(study, scores)
    id_task, task = names[name]
    points, metrics = every_point(scores, id_task, task), panels(scored_metric(scores, task))[:2]
    table = f"every_point(study.table('scores'), {id_task!r}, {task!r})"
    _code(study, "studies.scores_by_method", id_task, task, metrics[0], table=table)
    for column, metric in zip(st.columns(2), metrics, strict=True):
        with column:
            show(exhibits.scores_by_method(points, id_task, task, metric, theme()), study.name)


def _of_one_checkpoint(study: StudyFolder, scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of one checkpoint in a series, by default the last; in other studies, all rows."""
    variants = sorted(set(scores["variant"]), key=lambda words: [int(n) for n in re.findall(r"\d+", words)])
    if "checkpoints" not in study.tables() or len(variants) < 2:
        return scores
    chosen = controls.select("checkpoint", "Checkpoint", variants, variants[-1], width=160)
    return scores[scores["variant"] == chosen].assign(variant="")


PICTURES = {
    "federated": _federated, "checkpoints": _checkpoints, "scores": _scores, "overlap": _shared,
    "histogram": _histogram, "sensitivity": _settings, "composition": _composition,
}  # fmt: skip
"""The functions that draw a table's pictures, in the order of the page."""


def _tables(study: StudyFolder, tables: Mapping[str, pd.DataFrame]) -> None:
    """Draws one of its tables at a time, with an explanation of its columns and a download."""
    known = [name for name in TABLES if name in tables and name != "note"]
    if not known:
        return
    with st.expander("Tables"):
        name = controls.segments("table", "Table", known, known[0], shown=table_words.title)
        table = tables[name]
        st.dataframe(
            shown(table), hide_index=True, column_order=columns(table),
            column_config=config(name), placeholder="", alt=f"Of the study: {table_words.title(name)}",
        )  # fmt: skip
        with st.container(horizontal=True, vertical_alignment="center"):
            exports.table_buttons(
                table,
                file=exports.file_name(study.name, name),
                key="study",
                caption=f"{study.name}: {table_words.title(name)}",
                words=lambda rows: readable_table.readable(table_words.with_task_names(rows), table=name),
            )
            st.caption(f"{formats.counted(len(table), 'row')}.{readable_table.not_in_percent(table)}")
        with st.popover("What the columns mean"):
            st.markdown("\n".join([*columns_in_words(name), *methods(table)]))


def _steps(study: StudyFolder) -> None:
    """Draws the study's origin, its command, and every step with its seconds; folded if the study has tables."""
    with st.expander("Reproduce" if study.record.status == "finished" else "Resume", expanded=not study.tables()):
        st.caption(study_words.caption(study))
        st.code(study_words.command(study), language=None, wrap_lines=True)
        table = steps_table(study)
        if len(table):
            st.dataframe(table, hide_index=True, placeholder="", alt="The steps of the study")
            file, caption = exports.file_name(study.name, "steps"), f"Steps of {study.name}"
            exports.table_menu(table, file=file, key="steps", caption=caption)


def failures(study: StudyFolder) -> list[str]:
    """One sentence per failed step: its title and the reason."""
    return [
        f"**{text.tasks(step.title)}**: {text.plain(step.error.message if step.error else 'no reason was stored.')}"
        for step in study.record.steps.values()
        if step.state == "failed"
    ]


def not_reached(study: StudyFolder) -> int:
    """The number of steps that were not run, because a required step failed or the study was interrupted."""
    return sum(step.state not in ("finished", "failed") for step in study.record.steps.values())


def steps_table(study: StudyFolder) -> pd.DataFrame:
    """The table of steps with state and seconds."""
    rows = [
        {
            "kind": study_words.STEP_KINDS.get(s.kind, s.kind),
            "step": readable(s.title),
            "state": "not reached" if s.state == "missing" else s.state,
            "seconds": s.seconds,
        }
        for s in study.record.steps.values()
    ]
    return pd.DataFrame(rows, columns=["kind", "step", "state", "seconds"])


def columns(table: pd.DataFrame) -> list[str]:
    """The table's columns in display order: the most important first, empty and duplicate ones last."""
    names = [c for c in FIRST if c in table] + [str(c) for c in table if c not in FIRST]
    is_twice = {"id_task", "task"} <= set(table) and table["id_task"].equals(table["task"])
    empty = [c for c in names if table[c].isna().all() or (c == "id_task" and is_twice)]
    return [c for c in names if c not in empty] + empty


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table for display: words for names, shares in percent; other metrics are unchanged."""
    words = table_words.worded(table)
    for column in map(str, table):
        if kind(column) in IN_PERCENT:
            words[column] = table[column] * scales(column, table)
        elif kind(column) in ("entries", "examples"):
            words[column] = table[column].round()  # fractional because they are means over seeds
        if column in SHORT:
            words[column] = words[column].map(_two_figures)
    return words


def config(name: str) -> dict[str, Any]:
    """The headings and number formats of the columns of table `name`; a column's help is its meaning."""
    return {column.name: _config(name, column) for column in TABLES[name].columns}


def columns_in_words(name: str) -> list[str]:
    """One line per column of table `name`: its heading, its name in the CSV and its meaning, in Markdown."""
    return [
        f"- **{text.plain(_heading(name, column))}** (`{column.name}`): {text.plain(table_words.meaning(column))}"
        for column in TABLES[name].columns
    ]


def methods(table: pd.DataFrame) -> list[str]:
    """One line per method in the table: its displayed name and its meaning, in Markdown."""
    names = {name for column in ("method", "a", "b") if column in table for name in table[column]}
    lines = [f"  - **{row.title}**: {text.plain(row.phrase)}" for row in METHODS.values() if row.name in names]
    return ["- the methods:", *lines] if lines else []


def _two_figures(percent: float) -> float:
    """The percentage rounded as `formats.share` rounds: two digits below 10%, one decimal above."""
    if pd.isna(percent) or percent == 0:
        return percent
    return round(percent, max(1, 1 - math.floor(math.log10(abs(percent)))))


def _heading(name: str, column: Column) -> str:
    is_number = column.dtype.lower().startswith(("float", "int"))
    return heading(column.name, name, is_difference=name == "differences") if is_number else title(column.name, name)


def _config(name: str, column: Column) -> Any:
    words, help = _heading(name, column), table_words.meaning(column)
    if column.dtype == "bool":
        return st.column_config.CheckboxColumn(words, help=help)
    if not column.dtype.lower().startswith(("float", "int")):
        return st.column_config.Column(words, help=help)
    form = "localized" if column.unit in ("entries", "examples") or column.name == "lr" else "%.4g"
    if kind(column.name) in IN_PERCENT:
        form = "%.2f" if kind(column.name) == "metric" else "%.3g" if column.name in (*SHORT, *LONG) else "%.1f"
    return st.column_config.NumberColumn(words, help=help, format=form)
