"""The transfer page: which other tasks are shown, one more asked of the models, and how each was asked."""

from __future__ import annotations

from typing import Any

import streamlit as st

from skillviz.core.metrics import metric_heading
from skillviz.errors import SkillvizError
from skillviz.runs.record import Scores, TransferNote
from skillviz.runs.run import Run
from skillviz.show import text, transfer
from skillviz.show.glossary import about
from skillviz.ui import controls, form, live, visitor
from skillviz.ui.other_tasks import Offered, as_offered, offered, offered_task
from skillviz.ui.pages.interpolation.view import metrics

LEFT_OUT = "left out"


def metric_of(run: Run) -> str:
    """The metric that the charts show."""
    options = metrics(run)
    return controls.segments("metric", "Charts show", options, options[0], shown=metric_heading, help=about(*options))


def notes_of(run: Run) -> tuple[TransferNote, ...]:
    """The stored transfers, and the one that the reader asks the models for."""
    stored = run.record.transfers
    rows = [row for row in offered(run) if row.name not in run.datasets]
    titles = {row.named: f"{row.shown}{'' if row.fits else ', other labels'}" for row in rows}
    named = form.box(
        "also",
        "Another task, asked of the models",
        list(titles),
        "",
        shown=lambda name: titles.get(name, name),
        names_files=True,
        help="Tasks with as many texts as this run's own; those with the same labels first. A name of the registry "
        "or the path of your own YAML file can be typed.",
    )
    task = _task(run, named, rows) if named else None
    note = None if task is None else _live_scores(run, task)
    if note is None:
        return stored
    if any(other.name == note.name for other in stored):
        note = note.model_copy(update={"name": f"{note.name}, asked now"})
    return (*stored, note)


def scores_by_task(run: Run, scores: Scores, notes: tuple[TransferNote, ...]) -> dict[str, Scores]:
    """Scores by task, the run's own first."""
    return {run.datasets[0]: scores, **{note.name: note.scores for note in notes}}


def details(run: Run, notes: tuple[TransferNote, ...]) -> None:
    """For each other task: what was counted, label mapping, words; then the command that stores it all."""
    for start in range(0, len(notes), 2):
        row = notes[start : start + 2]
        for place, note in zip(st.columns(min(2, len(notes))), row, strict=False):
            with place.container(border=True, height="stretch"):
                _detail(run, note)
    with st.expander("The command that stores other tasks with the run"):
        st.markdown("`--also` takes any task with the same labels, by name or file, and may be repeated.")
        named = [note.named or note.name for note in notes if all(note.mapping.values())]
        st.code(transfer.missing(run.record, named), language="bash", wrap_lines=True)


def _detail(run: Run, note: TransferNote) -> None:
    st.markdown(f"## {text.plain(note.name)}", help=about("mapping", "dropped"))
    st.markdown(transfer.counted(note, run.datasets[0]))
    st.table(text.plain_cells(transfer.mapping(note, run.labels)), border="horizontal", hide_index=True)
    if note.template:
        st.caption("Asked as")
        st.code(note.template, language=None, wrap_lines=True)
    for remark in note.notes:
        st.caption(text.plain(remark))


def _task(run: Run, named: str, rows: list[Offered]) -> Offered | None:
    """The task of the box; says what is wrong with it where it is none."""
    row = offered_task(named, rows)
    if row is not None:
        return row
    try:
        return as_offered(visitor.task(named), run)
    except SkillvizError as error:
        st.warning(text.plain(str(error.args[0])), icon=":material/error:")
        return None


def _live_scores(run: Run, other: Offered) -> TransferNote | None:
    """The worker's answer about the task, once its labels are known to stand for the run's."""
    arguments: dict[str, Any] = {} if other.fits else {"mapping": _mapping(run, other)}
    if arguments and not any(arguments["mapping"].values()):
        st.info("Its labels have other names: say above which label of this run each one stands for.")
        return None
    answer = live.ask(run, "transfer", topic="transfer", task=other.named, **arguments)
    return None if answer is None else TransferNote(**answer["note"])


def _mapping(run: Run, other: Offered) -> dict[str, str | None]:
    """The labels of the other task, each with the run's label that the reader chose for it."""
    known = {label.lower(): label for label in run.labels}
    with st.container(border=True):
        st.markdown(f"**Labels of {text.plain(other.name)}** stand for", help=about("mapping"))
        chosen = {}
        with st.container(horizontal=True):
            for label in other.labels:
                default = known.get(label.lower(), LEFT_OUT)
                options = [*run.labels, LEFT_OUT]
                chosen[label] = controls.select(f"map.{other.name}.{label}", label, options, default, width=200)
    return {theirs: None if label == LEFT_OUT else label for theirs, label in chosen.items()}
