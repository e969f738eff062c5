"""Which task: of the demo world, known by name, a file, or uploaded; and how class scores are read off the models."""

from __future__ import annotations

import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.models.heads import READOUTS
from skillviz.models.tokenizer import words_problem
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.tasks import registry, uploaded
from skillviz.tasks.task import Hub, Task
from skillviz.ui import cache, controls, form
from skillviz.ui.pages.launch import upload
from skillviz.ui.pages.launch import words as launch_words
from skillviz.ui.pages.launch.choices import Choices

TASKS = "tasks"  # a folder of the user's store
SOURCES = {"demo": "demo world", "known": "known task", "file": "task file", "upload": "upload data"}


def task(choices: Choices) -> None:
    """The task, and how class scores are read off the models."""
    with st.container(border=True):
        st.markdown("### 2 · A task", help="The examples on which the skill is shown, and how the model is asked.")
        sources = [name for name in SOURCES if name != "demo" or choices.world is not None]
        first = "demo" if choices.demo else "known"
        upload.said()
        source = controls.segments(
            "new.source", "Task from", sources, first, shown=SOURCES.__getitem__,
            help="The demo world's tasks and the paper's (known), a task file of your own, or CSV or JSONL files that "
            "you upload here.",
        )  # fmt: skip
        name = _NAMED[source](choices)
        choices.values["task"] = name or "-"
        if not name:
            choices.still("Choose a task." if source != "upload" else "Upload data, and keep them as a task.")
            return
        try:
            choices.task = registry.task(name)
        except SkillvizError as error:
            choices.refuse(str(error.args[0]))
            return
        _readout(choices, choices.task)
        _described(choices.task, choices.readout)


def _demo_task(choices: Choices) -> str:
    assert choices.world is not None
    by_name = {entry.name: entry for entry in choices.world.tasks}
    own = choices.demo.task if choices.demo else next(iter(by_name))
    name = controls.select(
        "new.demo-task", "Task", list(by_name), own, shown=lambda n: f"{by_name[n].title or n}",
        help="The pair's own task, or another: a task with other labels does not fit a pair with a head.",
    )  # fmt: skip
    return by_name[name].file


def _known_task(choices: Choices) -> str:
    titles = {name: task.title or name for name, task in registry.TASKS.items()}
    name = controls.select(
        "new.known", "Task", list(titles), "sst2", shown=titles.__getitem__,
        help="The tasks of the paper. Their data come from the Hugging Face hub, or from its local cache.",
    )  # fmt: skip
    data = registry.TASKS[name].data
    if isinstance(data, Hub):
        st.caption(f"Data: {text.plain(data.title)} on the hub; the job fetches what is not in the local cache.")
    return name


def _task_file(choices: Choices) -> str:
    files = [str(path) for path in uploaded.saved(cache.own_store().root / TASKS)]
    return form.box(
        "new.file", "Task file", files, files[0] if files else "",
        shown=lambda path: path if path not in files else text.last_part(path.removesuffix(f"/{uploaded.FILE}")),
        help="A YAML file beside your data (docs/add-a-task.md): one of those you uploaded, or type its path.",
    )  # fmt: skip


def _upload(choices: Choices) -> str:
    upload.form(cache.own_store().root / TASKS)
    return ""


_NAMED = {"demo": _demo_task, "known": _known_task, "file": _task_file, "upload": _upload}


def _readout(choices: Choices, task: Task) -> None:
    """The readout, among those that the pair allows, and what it or the task's labels do not fit."""
    found = choices.found
    if found is None or not found.fits:
        return
    members = (choices.values["base"], choices.values["finetuned"])
    why = {name: next(iter(cache.preflight(*members, readout=name).problems), "") for name in READOUTS}
    allowed = ["auto", *(name for name in READOUTS if not why[name])]
    chosen = controls.segments(
        "new.readout", "How class scores are read", allowed, "auto", help=about("readout"),
        shown={"auto": f"automatic: {launch_words.READOUTS[found.readout]}", **launch_words.READOUTS}.__getitem__,
    )  # fmt: skip
    choices.values["readout"] = None if chosen == "auto" else chosen
    choices.readout = found.readout if chosen == "auto" else chosen
    fits = cache.preflight(*members, task=choices.values["task"], readout=choices.values["readout"])
    for problem in (*fits.problems, words_problem(task, choices.readout, found.tokenizer_folder)):
        if problem:
            choices.refuse(problem)
    refused = {launch_words.READOUTS[name]: text.plain(reason) for name, reason in why.items() if reason}
    if refused:
        reasons = "\n\n".join(f"**{title}**: {reason}" for title, reason in refused.items())
        st.caption(f"Not possible with this pair: {formats.listed(list(refused), 3)}.", help=reasons)


def _described(task: Task, readout: str) -> None:
    """The task in a line: its classes, and how the model is asked."""
    kind = {"prompt": "masked", "causal": "causal"}.get(readout, "")
    template, words = (getattr(part, kind, None) for part in (task.template, task.label_words))
    classes = formats.listed([text.plain(name) for name in task.labels], 14)
    asked = f" Asked as “{text.plain(template)}”" if template else ""
    answers = ", ".join(f"{a} for {b}" for a, b in zip(words or (), task.labels, strict=False))
    st.caption(f"Classes: {classes}.{asked}{f', answered by {text.plain(answers)}.' if asked and answers else ''}")
