"""The task of a new run (an example, known, a file, or uploaded), and the readout of class scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.models.heads import READOUTS
from skillviz.models.tokenizer import words_problem
from skillviz.serving import sign_in, visitor
from skillviz.show import text
from skillviz.show.entries import READOUT_TITLES
from skillviz.show.glossary import about
from skillviz.tasks import registry, uploaded
from skillviz.tasks.task import GENERATION, Hub, Task
from skillviz.ui import cache, controls, form
from skillviz.ui.action import action
from skillviz.ui.other_tasks import reference
from skillviz.ui.pages.launch import upload
from skillviz.ui.pages.launch.models import Choices

TASKS = "tasks"  # a folder in the user's store
SOURCES = {"example": "example task", "known": "known task", "file": "task file", "upload": "upload data"}


def task(choices: Choices) -> None:
    """Draws the choice of the task and of the readout."""
    with st.container(border=True):
        st.markdown("## 2 · Task", help="The examples that show the skill, and how the model reads them.")
        sources = [name for name in SOURCES if name != "example" or cache.example_tasks()]
        first = "example" if choices.example else "known" if choices.known else "file"
        if sentence := st.session_state.pop(upload.SAVED, ""):
            st.success(text.plain(sentence), icon=":material/task_alt:")
        source = controls.segments(
            "new.source", "Task from", sources, first, shown=SOURCES.__getitem__, follows=True,
            help="The examples' tasks, the paper's (known), a task file of your own, or CSV or JSONL files that "
            "you upload here.",
        )  # fmt: skip
        name = _TASK_FIELDS[source](choices)
        choices.values["task"] = name or "-"
        if not name:
            choices.still("Choose a task." if source != "upload" else "Upload data and save them as a task.")
            return
        try:
            choices.task = visitor.task(name)
            choices.task.refuse_without_training()
        except SkillvizError as error:
            choices.refuse(sign_in.sentence_of(error))
            return
        _readout(choices, choices.task)
        _show_task(choices.task, choices.readout)


def _example_task(choices: Choices) -> str:
    titles = {reference(task): task.title for task in cache.example_tasks() if task.has_training}
    return _own_or_none(
        "new.example-task", titles, choices.example.task if choices.example else "",
        help="The pair's own task, or another one. A pair with a classification head needs a task with the same "
            "labels.",
    )  # fmt: skip


def _known_task(choices: Choices) -> str:
    titles = {name: task.title or name for name, task in registry.TASKS.items()}
    name = _own_or_none(
        "new.known", titles, choices.known,
        help="The tasks of the paper. Their data come from the Hugging Face hub, or from its local cache.",
    )  # fmt: skip
    if not name:
        return ""
    data = registry.TASKS[name].data
    if isinstance(data, Hub):
        st.caption(f"Data: {text.plain(data.title)} on the hub; the job downloads what is not in the local cache.")
    return name


def _own_or_none(name: str, titles: Mapping[str, str], own: str, help: str) -> str:
    """The chosen task, by default the pair's `own`; empty if the pair has none and the user has chosen none."""
    offered = list(titles) if own else [form.NONE, *titles]
    first = own or form.NONE
    chosen = controls.select(
        name, "Task", offered, first, shown=lambda n: titles.get(n, "choose a task"), help=help, follows=True
    )
    return "" if chosen == form.NONE else chosen


def _task_file(choices: Choices) -> str:
    files = [str(path) for path in uploaded.saved(cache.user_store().root / TASKS)]
    chosen = form.box(
        "new.file", "Task file", files, "",
        shown=lambda path: path if path not in files else text.last_part(path.removesuffix(f"/{uploaded.FILE}")),
        help="A YAML file beside your data (docs/add-a-task.md): one of those you uploaded, or type its path.",
        names_files=True,
    )  # fmt: skip
    upload.show_problem()
    if chosen in files and action("Delete this task", key="task.delete", icon=":material/delete:", type="tertiary"):
        _confirm_delete(chosen)
    return chosen


@st.dialog("Delete for good?")
def _confirm_delete(file: str) -> None:
    """Asks for confirmation before an uploaded task is deleted for good."""
    name = text.plain(text.last_part(file.removesuffix(f"/{uploaded.FILE}")))
    st.markdown(
        f"This removes the task **{name}** and the data that you uploaded for it. Runs on it stay, without their texts."
    )
    with st.container(horizontal=True):
        gone = action("Delete for good", type="primary", on_click=_delete, args=(file,))
        if st.button("Keep") or gone:
            st.rerun()


def _delete(file: str) -> None:
    try:
        uploaded.delete(Path(file), cache.user_store().root / TASKS)
    except SkillvizError as error:
        st.session_state[upload.PROBLEM] = sign_in.sentence_of(error)
    form.assign("new.file", "")


def _upload(choices: Choices) -> str:
    pair = choices.preflight
    upload.new_task(cache.user_store().root / TASKS, pair.tokenizer_folder if pair is not None and pair.fits else None)
    return ""


_TASK_FIELDS = {"example": _example_task, "known": _known_task, "file": _task_file, "upload": _upload}


def _readout(choices: Choices, task: Task) -> None:
    """Draws the choice of a readout that the pair allows, and shows why it does not fit the pair or the task."""
    headers = choices.preflight
    if headers is None or not headers.fits:
        return
    pair = (choices.values["base"], choices.values["finetuned"])
    why = {name: next(iter(cache.preflight(*pair, readout=name).problems), "") for name in READOUTS}
    allowed = ["auto", *(name for name in READOUTS if not why[name])]
    if task.has_classes:
        chosen = controls.segments(
            "new.readout", "How class scores are read", allowed, "auto", help=about("readout"),
            shown={"auto": f"automatic: {READOUT_TITLES[headers.readout]}", **READOUT_TITLES}.__getitem__,
        )  # fmt: skip
    else:  # no choice: only the causal readout can score it
        chosen = "causal" if headers.readout != "causal" and "causal" in allowed else "auto"
    choices.values["readout"] = None if chosen == "auto" else chosen
    choices.readout = headers.readout if chosen == "auto" else chosen
    fits = cache.preflight(*pair, task=choices.values["task"], readout=choices.values["readout"])
    for problem in (*fits.problems, words_problem(task, choices.readout, headers.tokenizer_folder)):
        if problem:
            choices.refuse(problem)
    refused = {READOUT_TITLES[name]: text.plain(reason) for name, reason in why.items() if reason}
    if refused and task.has_classes:
        reasons = "\n\n".join(f"**{title}**: {reason}" for title, reason in refused.items())
        st.caption(f"Unavailable for this pair: {formats.listed(list(refused), 3)}.", help=reasons)


def _show_task(task: Task, readout: str) -> None:
    """Draws the task's classes and its prompt with the answers; or a note that examples have their own options."""
    kind = {"prompt": "masked", "causal": "causal"}.get(readout, "")
    template, words = (getattr(part, kind, None) for part in (task.template, task.label_words))
    classes = formats.listed([text.plain(name) for name in task.labels], 14)
    prompt = f" Prompt: “{text.plain(template)}”" if template else ""
    answers = ", ".join(f"{a} for {b}" for a, b in zip(words or (), task.labels, strict=False))
    if task.kind == GENERATION:
        generated = f"The answer is generated, up to {task.max_new_tokens} tokens, and compared with a reference."
        scored = "Nothing is generated: the task is scored by the perplexity of its references."
        st.caption(f"{generated if task.generates else scored}{prompt}")
        return
    if not task.has_classes:
        st.caption(f"Each example has its own options, up to {len(task.labels)}.{prompt}")
        return
    st.caption(f"Classes: {classes}.{prompt}{f', answers: {text.plain(answers)}.' if prompt and answers else ''}")
