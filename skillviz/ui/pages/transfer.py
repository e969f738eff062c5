"""The sections of the transfer page: the shown tasks, another task scored live, and how each was scored."""

from __future__ import annotations

from typing import Any

import streamlit as st

from skillviz.core.metrics import metric_heading
from skillviz.errors import SkillvizError
from skillviz.runs.record import TransferNote
from skillviz.runs.run import Run
from skillviz.serving import sign_in, visitor
from skillviz.show import sentences, text, transfer
from skillviz.show.glossary import about
from skillviz.tasks.readable_names import readable
from skillviz.ui import cache, controls, exports, form, live
from skillviz.ui.chip import chip_text
from skillviz.ui.other_tasks import Offered, as_offered, offered, offered_task
from skillviz.ui.page import missing
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.interpolation import metrics

SAMPLE = 200
"""The number of examples on which another task is first scored, drawn by class: all of them can take minutes."""
LEFT_OUT, SKIPPED = "left out", "skipped"  # in the address, and on the page
NOTHING = (
    "This run was scored on its own task alone. Choose another task with the same labels to score all three models on "
    "it, without training."
)


def refuse_options(run: Run) -> None:
    """Shows an explanation and stops if the task has no classes, as tasks are matched by the names of their classes."""
    if not run.record.has_classes:
        sentence = f"{sentences.no_classes(run.record)} Other tasks are scored by labels of the same name."
        with missing("Other tasks cannot be scored", sentence, "block"):
            st.page_link(PAGES["examples"].link(), label="See which examples change")
        st.stop()


def finding(run: Run, notes: tuple[TransferNote, ...]) -> str:
    """Draws one line with a chip for each of the first tasks; returns the metric of the lines and the charts."""
    (lines, control), options = st.columns([5, 1]), metrics(run)
    with control:
        metric = controls.select("metric", "Metric", options, options[0], shown=metric_heading, help=about(*options))
    findings = [f"{chip_text(decided)} {words}" for decided, words in transfer.findings(notes, metric)]
    with lines:
        st.markdown("  \n".join([*findings, *transfer.rest(notes, metric)]), help=about("ood", "graft", "paired"))
        if several := transfer.comparisons(notes, metric):
            st.caption(several, help=about("discovery"))
    return metric


def notes_of(run: Run) -> tuple[TransferNote, ...]:
    """The stored transfers, and the one that the user requests live, in a card that explains missing models."""
    stored = run.record.transfers
    rows = [row for row in offered(run) if row.name not in run.datasets]
    titles = {row.named: f"{row.shown}{'' if row.fits else ', other labels'}" for row in rows}
    card = st.container(border=True) if stored else missing("No other task scored yet", NOTHING, "move_up")
    with card:
        named = form.box(
            "also",
            "Score another task now",
            list(titles),
            "",
            shown=lambda name: titles.get(name, name),
            names_files=True,
            help="Tasks with as many texts as this run's own, those with the same labels first. Or type the name of a "
            "task, or the path of your own YAML file.",
        )
        if not named and not stored:
            live.say_absent(run, "transfer")
        task = _task(run, named, rows) if named else None
        note = None if task is None else _live_scores(run, task)
        if note is not None:
            st.caption(f"Computed live on {text.tasks(note.name)}, zero-shot; not stored with the run.")
    if note is None:
        return stored
    if any(other.name == note.name for other in stored):
        note = note.model_copy(update={"name": f"{note.name}, computed live"})
    return (*stored, note)


def details(run: Run, notes: tuple[TransferNote, ...]) -> None:
    """Draws the counts, label mapping and prompt of each other task, and the command that stores them."""
    for start in range(0, len(notes), 2):
        row = notes[start : start + 2]
        for place, note in zip(st.columns(min(2, len(notes))), row, strict=False):
            with place.container(border=True, height="stretch"):
                _detail(run, note)
    with st.expander("Store other tasks with the run", expanded=not notes):
        st.markdown("`--also` takes any task with the same labels, by name or file. Repeat it for several.")
        named = [note.named or note.name for note in notes if all(note.mapping.values())]
        st.code(transfer.missing(run.record, named), language=None, wrap_lines=True)


def _detail(run: Run, note: TransferNote) -> None:
    st.markdown(f"### {text.tasks(note.name)}", help=about("mapping", "dropped"))
    st.markdown(transfer.counted(note))
    with st.expander("Labels and prompt" if note.template else "Labels"):
        table = transfer.mapping(note, run.labels)
        st.table(text.plain_cells(table), border="horizontal", hide_index=True)
        file, caption = exports.file_name(run.id, note.name, "labels"), f"Labels of {readable(note.name)}"
        exports.table_menu(table, file=file, key=f"labels.{note.name}", caption=caption)
        if note.template:
            st.code(note.template, language=None, wrap_lines=True)
    for remark in note.notes:
        st.caption(text.plain(remark))


def _task(run: Run, named: str, rows: list[Offered]) -> Offered | None:
    """The task in the box; None, with the problem shown, if it is not valid."""
    row = offered_task(named, rows)
    if row is not None:
        return row
    try:
        return as_offered(visitor.task(named), run)
    except SkillvizError as error:
        st.warning(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return None


def _live_scores(run: Run, other: Offered) -> TransferNote | None:
    """The worker's scores on the task; None until its labels are mapped to the run's and the user requests scores."""
    arguments: dict[str, Any] = {} if other.fits else {"mapping": _mapping(run, other)}
    if arguments and not any(arguments["mapping"].values()):
        st.info("Its labels have other names. Choose above which label of this run each one stands for.")
        return None
    rows, asked_about = cache.scored_rows(other.named), f"{run.id} {other.named} {arguments}"
    is_small = rows is not None and rows <= SAMPLE
    every = f"{rows:,}" if rows is not None else "of them"
    examples = f"its {every} test examples" if is_small else f"{SAMPLE} of its test examples first"
    costs = f"Scores the base, the graft, its complement and the fine-tuned model on {examples}."
    if not live.wanted(run, "transfer", "Score this task", costs, of=f"{other.named} {arguments}", needs_data=False):
        return None
    if not is_small and not controls.press(
        "transfer_all", f"Score all {every}", of=asked_about, icon=":material/done_all:"
    ):
        arguments["sample"] = SAMPLE
    answer = live.ask(run, "transfer", topic="transfer", task=other.named, **arguments)
    return None if answer is None else TransferNote(**answer["note"])


def _mapping(run: Run, other: Offered) -> dict[str, str | None]:
    """The labels of the other task, each with the run's label that the user chose for it."""
    known = {label.lower(): label for label in run.labels}
    with st.container(border=True):
        st.markdown(f"**Labels of {text.tasks(other.name)}** stand for", help=about("mapping"))
        chosen = {}
        with st.container(horizontal=True):
            for label in other.labels:
                default = known.get(label.lower(), LEFT_OUT)
                options = [*run.labels, LEFT_OUT]
                chosen[label] = controls.select(
                    f"map.{other.name}.{label}", label, options, default, width=200,
                    shown=lambda name: SKIPPED if name == LEFT_OUT else name,
                )  # fmt: skip
    return {theirs: None if label == LEFT_OUT else label for theirs, label in chosen.items()}
