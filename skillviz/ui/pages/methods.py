"""The sections of the methods page: the choice of task, training data, localizer and size, and the figures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import cache as cache_once

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.analysis import method_points
from skillviz.analysis.method_points import GRAFT, OTHERS, Selection
from skillviz.analysis.observations import TEST
from skillviz.analysis.rivals import rivals as table_of
from skillviz.analysis.tables import label
from skillviz.core import formats
from skillviz.core.localizers.table import RIVALS
from skillviz.core.methods import METHODS
from skillviz.core.metrics import metric_heading, metric_row, panels
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.figure import centers
from skillviz.plots.known_truth import SERIES
from skillviz.plots.theme import localizer_style
from skillviz.runs.part_scores import RIVALS as SCORED_RIVALS
from skillviz.runs.part_scores import runs_with, stored_parts
from skillviz.runs.record import RunRecord
from skillviz.show import beyond, known_truth, text
from skillviz.show import methods as exhibits
from skillviz.show import rivals as at_equal_bytes
from skillviz.show.briefs import run_labels
from skillviz.show.comparisons import counted_rows, holding, legend
from skillviz.show.glossary import about
from skillviz.show.text import last_part
from skillviz.studies.paper.claims import main_share
from skillviz.studies.paper.scales import SCALES, Scale
from skillviz.studies.store import StudyFolder
from skillviz.studies.subject import Subject, bases_of, place, rows_of_base
from skillviz.tasks.readable_names import readable
from skillviz.ui import address, cache, controls, exports, page, show_code, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import lead_of, lead_words, verdict_line
from skillviz.ui.page_table import PAGES

OTHER_DATA, OTHER = "table3", "OTHER.yaml"
TALL = 360  # pixels of the two figures on other data
GRAFTS = RIVALS  # other regions, which are not other methods
NOTHING_ELSE = (
    "No stored study of this base and readout compares the graft with re-training, BitFit, LoRA, adapters or full "
    "fine-tuning. The experiments Table 1 and Table 6 do: start one on the page Studies."
)


@dataclass(frozen=True)
class MethodRows:
    """The rows of the chosen study and of its companions on the same subject, with the user's choices."""

    studies: tuple[StudyFolder, ...]
    base: str
    scores: pd.DataFrame
    differences: pd.DataFrame
    selection: Selection
    share: float | None
    """The size of the graft in the comparisons; None if there are none."""
    further: bool
    """True if other optimizers and other regions are shown too."""
    metric: str
    """The task's own metric."""


def choose(study: StudyFolder) -> MethodRows:
    """Draws the controls above the figures; shows an explanation and stops if no study has scores of a method."""
    with page.explained():
        bases = bases_of(cache.study_table(study, "scores"))
    if not bases:
        st.info("This study has no scores yet: no scored step has finished.")
        st.stop()
    row = st.container(horizontal=True, vertical_alignment="center")
    of_task, of_size = row.container(width=260), row.container(width=190)
    more = cache_once(lambda: row.popover("Settings"))
    base = bases[0]
    if len(bases) > 1:
        with more():
            base = study_choice.choose_base(bases)
    with page.explained():
        studies = study_choice.beside(study, PAGES["methods"].experiments, base)
        scores, differences = cache.computed(("rows", base), studies, lambda: rows_of(studies, base))
    selection = _select(scores, of_task, more)
    share, key = None, (base, *astuple(selection))
    sizes = cache.computed(("sizes", *key), studies, lambda: method_points.sizes(differences, selection))
    if sizes:
        first = cache.computed(
            ("main size", *key), studies,
            lambda: method_points.main_size(differences, selection, main_share(study.record.scale)),
        )  # fmt: skip
        with of_size:
            share = controls.select(
                "size", "Region size", sizes, first, shown=lambda one: f"Region: {formats.share(one)}",
                shows_label=False,
            )  # fmt: skip
    further = False
    if cache.computed(("further", *key), studies, lambda: method_points.has_further(scores, selection)):
        with more():
            further = controls.switch(
                "further", "Other optimizers and regions", study.record.experiment not in ("table1", "table3"),
                help="Models fine-tuned with AdamW (and with L1 on the movement), their grafts, and other regions: "
                "top movement, random, other masks.",
            )  # fmt: skip
    metric = cache.computed(("metric", *key), studies, lambda: method_points.scored_metric(scores, selection.task))
    return MethodRows(studies, base, scores, differences, selection, share, further, metric)


def rows_of(studies: Sequence[StudyFolder], base: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The scores of this base and the differences of all these studies; rows of the first study win.

    Differences do not name their base, so a study with several bases contributes none.
    """
    tables = [cache.study_table(one, "scores") for one in studies]
    scores = method_points.joined([rows_of_base(table, base) for table in tables], method_points.KEYS)
    single = [one for one, table in zip(studies, tables, strict=True) if len(bases_of(table)) <= 1]
    differences = method_points.joined(
        [cache.study_table(one, "differences") for one in single], method_points.DIFFERENCE_KEYS
    )
    return scores, differences


def summary(shown: MethodRows) -> str:
    """The page's headline."""
    if shown.share is None:
        several = len(bases_of(cache.study_table(shown.studies[0], "scores"))) > 1
        return no_rival(shown.selection.task, several)
    rows = _less_graft(shown, shown.selection.task)
    return comparison(lead_of(rows, shown.metric, "method", OTHERS), shown.selection, shown.share)


def terms(shown: MethodRows) -> str:
    """The help of the headline: its terms, and the titles of the tasks that models were tuned on."""
    titles = study_words.task_titles(shown.scores["id_task"])
    terms = about("graft", "size", "retrain", "bitfit", "lora", "adapters", "paired")
    return "\n\n".join(filter(None, (terms, titles)))


def on_own_task(shown: MethodRows) -> None:
    """Draws the metric and ECE or perplexity of every method minus the graft, and by the parameters touched."""
    task, metrics = shown.selection.task, panels(shown.metric)[:2]
    if len(_less_graft(shown, task)):  # otherwise the headline says that nothing was compared
        has_all = all("differences" in study.tables() for study in shown.studies)
        if has_all and len(bases_of(cache.study_table(shown.studies[0], "scores"))) == 1:
            show_code.show(
                "methods", studies=[one.name for one in shown.studies], selection=shown.selection, share=shown.share,
                metric=metrics[0], rows="rows" if shown.further else "method_points.main_ones(rows)",
            )  # fmt: skip
        for column, metric in zip(st.columns(2), metrics, strict=True):
            with column:
                _rivals(shown, task, metric)
        _verdicts(shown)
    for column, metric in zip(st.columns(2), metrics, strict=True):
        with column:
            _by_touched(shown, task, metric)


def _verdicts(shown: MethodRows) -> None:
    """Draws the verdicts that are not in the headline, and the number of comparisons that hold."""
    metrics = panels(shown.metric)[:2]
    words = cache.computed(
        ("verdicts", shown.base, *astuple(shown.selection), str(shown.share), *metrics), shown.studies,
        lambda: further_words(_less_graft(shown, shown.selection.task), metrics),
    )  # fmt: skip
    if words:
        st.markdown(words, help=about(*(("ece", "debiased") if "ece" in metrics else ()), "discovery"))


def on_other_data(shown: MethodRows) -> None:
    """Draws the same on a task that no model was trained on; if there is none, the command that makes one."""
    st.markdown("## On other data (zero-shot)", help=about("ood"))
    tasks = method_points.other_tasks(shown.scores, shown.selection)
    if not tasks:
        study = shown.studies[0]
        about_study = cache.study_subject(study)
        scale = SCALES.get(study.record.scale or "") or next((s for s in SCALES.values() if s.base == shown.base), None)
        command, is_whole = study_words.commands((OTHER_DATA,)), True
        if about_study is not None and scale is not None:
            command, is_whole = transfer_command(scale, about_study, shown.base, shown.selection.task)
        st.info(no_transfer(shown.selection.task, is_whole))
        st.code(command, language=None, wrap_lines=True)
        return
    task = controls.select(
        "other", "Scored on", tasks, tasks[0], shown=readable, width=260, help=study_words.task_titles(tasks) or None
    )
    left, right = st.columns(2)
    with left:
        _rivals(shown, task, shown.metric, "other_rivals", TALL)
    with right:
        _by_touched(shown, task, shown.metric, "other", TALL)


def notes(shown: MethodRows) -> None:
    """Draws the names of the studies behind the rows, and the studies' notes."""
    st.caption(sources(shown.studies))
    study_choice.notes(shown.studies)


def on_nulls(shown: MethodRows) -> None:
    """Draws the nulls of stored runs from a base of the same name, the same task first; studies make no nulls."""
    st.markdown(f"## {beyond.TITLE}", help=about("null", "paired"))

    def order(run: RunRecord) -> tuple[object, ...]:
        spec = run.spec
        return run.task_name != shown.selection.task, spec.finetuned, spec.localizer, -(run.size or 0), spec.seed

    runs = [run for run in cache.records() if text.last_part(run.spec.base) == text.last_part(shown.base)]
    table = beyond.by_run(sorted(runs, key=order), TEST)
    if table.empty:
        st.markdown(f"{formats.capital(NOT_MEASURED)}: studies make no nulls; `localize` does.")
        return
    st.markdown("Runs of `localize` from this base, as studies make no nulls: the same search on shuffled movements.")
    st.dataframe(table, hide_index=True, alt="The nulls of runs from this base")
    exports.table_menu(table, file="nulls", key="nulls", caption="The nulls of runs from this base")


def _select(scores: pd.DataFrame, place: DeltaGenerator, more: Callable[[], DeltaGenerator]) -> Selection:
    tasks = list(dict.fromkeys(scores["id_task"]))
    with place:
        task = controls.select("task", "Task", tasks, tasks[0], shown=readable, shows_label=False)
    of_task = scores[scores["id_task"] == task]
    settings = {label(*pair): pair for pair in zip(of_task["setting"], of_task["readout"], strict=True)}
    setting = next(iter(settings))
    if len(settings) > 1:
        with more():
            setting = controls.select("setting", "Training data", list(settings), setting)
    grafts = of_task[of_task["method"] == GRAFT]
    searches = {label(*pair): pair for pair in zip(grafts["localizer"], grafts["search_variant"], strict=True)}
    searches = searches or {"": ("", "")}
    titles = {name: label(localizer_style(first).title, rest) for name, (first, rest) in searches.items()}
    search = next(iter(searches))
    if len(searches) > 1:
        with more():
            search = controls.select(
                "localizer", "Localizer", list(searches), search, shown=titles.get, help=about("localizer")
            )
    (data, readout), (localizer, variant) = settings[setting], searches[search]
    return Selection(task, data, localizer, readout, variant)


def _less_graft(shown: MethodRows, task: str) -> pd.DataFrame:
    """Every shown method minus the graft, judged together; empty if nothing was compared."""
    differences = shown.differences if shown.share is not None else shown.differences.iloc[:0]
    key = ("less graft", shown.base, task, repr(shown.selection), repr(shown.share), str(shown.further))
    rows = cache.computed(
        key, shown.studies,
        lambda: _of_those_shown(
            shown,
            method_points.against_graft(differences, shown.selection, task, shown.share or 0.0, shown.scores),
        ),
    )  # fmt: skip
    return judged(rows, panels(shown.metric)[:2])


def _of_those_shown(shown: MethodRows, rows: pd.DataFrame) -> pd.DataFrame:
    return rows if shown.further else method_points.main_ones(rows)


def _by_touched(shown: MethodRows, task: str, metric: str, name: str = "touched", height: int | None = None) -> None:
    points = cache.computed(
        ("points", shown.base, task, repr(shown.selection), str(shown.further)), shown.studies,
        lambda: _of_those_shown(shown, method_points.points(shown.scores, shown.selection, task)),
    )  # fmt: skip
    before = centers(points[(points["method"] == "pretrained") & (points["metric"] == metric)], 1.0)
    levels = {"pretrained": float(before[0])} if len(before) else {}
    show(exhibits.by_touched(points, metric, task, levels, theme(), name, height), shown.studies[0].name)


def _rivals(shown: MethodRows, task: str, metric: str, name: str = "rivals", height: int | None = None) -> None:
    share, rows = shown.share, _less_graft(shown, task)
    if rows.empty:
        if share is not None:  # otherwise the headline says so
            st.info("No method was compared with a graft on these examples.")
        return
    show(exhibits.against_graft(rows, metric, task, float(share or 0), theme(), name, height), shown.studies[0].name)


def comparison(lead: pd.DataFrame, selection: Selection, share: float) -> str:
    """The verdict on the headline's method against the graft of this size, in Markdown."""
    name, graft = text.tasks(selection.task), f"a graft of **{formats.share(share)}**"
    if lead.empty:
        return f"**{name}**: nothing was compared with {graft}. Each method's scores are below."
    (row,) = _named(lead).to_dict("records")
    return f"**{name}**: {metric_row(row['metric']).title} of {lead_words(row)} vs {graft}."


def judged(differences: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The rows with `holds`: True if a method's verdict in these metrics holds jointly; missing in other rows."""
    together = differences[differences["method"].isin(OTHERS) & differences["metric"].isin(metrics)]
    return differences.assign(holds=holding(together).reindex(differences.index).astype("boolean"))


def further_words(differences: pd.DataFrame, metrics: Sequence[str]) -> str:
    """The verdicts except the headline's, the number that hold, and a note if only other regions are compared."""
    rest = _named(differences.drop(lead_of(differences, metrics[0], "method", OTHERS).index))
    compared = differences[differences["method"].isin(OTHERS)]
    compared = compared[compared["metric"].isin(metrics)]
    several = f"{counted_rows(compared)} {legend(compared)}".strip()
    note = NOTHING_ELSE if set(compared["method"]) <= set(GRAFTS) else ""
    return "  \n".join(filter(None, (*(verdict_line(rest, metric) for metric in metrics), several, note)))


def _named(differences: pd.DataFrame) -> pd.DataFrame:
    """The other methods' rows with their titles, in the columns that `verdict_line` needs."""
    rows = differences[differences["method"].isin(OTHERS)]
    return rows.assign(name=rows["method"].map(lambda method: METHODS[method].short_title))


def no_rival(task: str, several_bases: bool = False) -> str:
    """The headline if no graft was compared with anything."""
    why = (
        "the study has several bases, and its paired differences do not tell them apart"
        if several_bases
        else "no stored study of this base and readout compares a method with a graft on the same examples"
    )
    return f"**{text.tasks(task)}**: no paired comparison, because {why}. Each method's scores are below."


def sources(studies: Sequence[StudyFolder]) -> str:
    """The studies behind the page's rows, in words."""
    if len(studies) == 1:
        return f"Data: the study `{studies[0].name}`."
    names = formats.listed([f"`{study.name}`" for study in studies], 8)
    return f"Data: {len(studies)} studies of one scale, base and readout: {names}."


def no_transfer(task: str, is_whole: bool) -> str:
    """The note that nothing was scored on other data; `is_whole` if the command needs no change by the user."""
    name = text.tasks(task)
    why = f"No stored study of this base and readout scores models of {name} on other data."
    if is_whole:
        return f"{why} To make one:"
    return f"{why} Put a task with the same labels in place of `{OTHER}` to make one:"


def transfer_command(scale: Scale, about: Subject, base: str, task: str) -> tuple[str, bool]:
    """The command that runs Table 3 for a task, and True if the scale has other data for it.

    If it has none, the user has to replace `OTHER` by a task with the same labels.
    """
    file = about.tasks.get(task, task)
    is_of_scale = file == place(scale.file(task))
    has_other_data = is_of_scale and task in scale.shifts
    options = [] if place(base) == place(scale.base) else ["--base", base]
    options += [] if scale.readout in about.readouts else ["--readout", *sorted(about.readouts)[:1]]
    models = [model for model in about.models.get(task, ()) if not model.startswith("{")]
    shipped = place(scale.pair(task))
    options += [word for model in models[:1] if model != shipped for word in ("--finetuned", model)]
    if options or not has_other_data or task not in scale.some("transfer"):
        options += ["--tasks", task if is_of_scale else file]
    options += [] if has_other_data else ["--also", OTHER]
    return shlex.join([*study_words.OURS, "reproduce", OTHER_DATA, "--scale", scale.name, *options]), has_other_data


def hidden_skills() -> None:
    """Draws the choices of distractor and size, then sentence, figure and table."""
    st.markdown(f"## {known_truth.TITLE}", help=about("localizer"))
    found, models = cache.known_truth()
    names = known_truth.distractors(found)
    if not names:
        st.markdown(f"{NOT_MEASURED.capitalize()}: `python -m benchmarks planted` plants skills and searches for them.")
        return
    with st.container(horizontal=True):
        around = controls.select("around", "What else moved", names, names[min(1, len(names) - 1)],
                                 shown=known_truth.AROUND.get, width=400)  # fmt: skip
        sizes = known_truth.sizes(found, around)
        factor = controls.select("factor", "Region size / true size", sizes, sizes[0],
                                 shown=lambda one: f"{one:g}×", width=200)  # fmt: skip
    rows, levels = known_truth.rows_of(found, around, factor), known_truth.levels(models, around)
    st.markdown(known_truth.finding(rows, levels))
    show(known_truth.exhibit(rows, levels, tuple(SERIES), theme()))
    table = known_truth.table(rows)
    st.dataframe(table, hide_index=True, alt="Localizers on hidden skills")
    exports.table_menu(table, file="hidden-skills", key="hidden_skills", caption="Localizers on hidden skills")
    st.caption(f"A small encoder. {known_truth.failed(models)} How the skills were planted: {known_truth.GUIDE}.")


def rivals(base: str, task: str) -> None:
    """Draws the choice of a run from this base, and its rivals; the command that scores some if there are none."""
    st.markdown(f"## {at_equal_bytes.TITLE}", help=about("graft", "scale", "paired"))
    wanted = address.current(address.RUN)
    with page.explained():
        library, briefs = cache.library(), [one for one in cache.briefs() if last_part(one.base) == last_part(base)]
        briefs.sort(key=lambda brief: (brief.id != wanted, brief.task != task))
        known = runs_with(library, SCORED_RIVALS)
        found = ((one.id, stored_parts(library, cache.run(one.id), SCORED_RIVALS)) for one in briefs if one.id in known)
        stored = {name: scores for name, scores in found if scores is not None}
    if not stored:
        st.markdown("What else fits into the bytes of a graft? No run from this base has been compared yet:")
        st.code(f"python -m skillviz rivals {briefs[0].id if briefs else 'RUN'}", language="sh")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        name = controls.select(
            "rivals_of", "Run", list(stored), next(iter(stored)),
            shown=run_labels([brief for brief in briefs if brief.id in stored]).get, width=420, shows_label=False,
        )  # fmt: skip
        run, scores = cache.run(name), stored[name]
        metrics = panels(run.record.metric)
        metric = controls.segments("rivals_by", "Score", metrics, metrics[0], shown=metric_heading, shows_label=False)
    with page.explained():
        table = cache.computed(
            (SCORED_RIVALS, str(scores.path), scores.record.created), [run], lambda: table_of(run, scores)
        )
    st.markdown("\n".join(f"- {line}" for line in at_equal_bytes.finding(table, metric)))
    show(at_equal_bytes.by_bytes(table, metric, run.record.metric, theme()), run.id)
    st.caption(f"{scores.record.n:,} examples of the {scores.record.split} set.")
