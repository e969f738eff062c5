"""The command that asks another experiment of what a stored study is about. No widgets here."""

from __future__ import annotations

import shlex

from skillviz.studies.paper.scales import Scale
from skillviz.studies.subject import Subject, place
from skillviz.ui.study_words import OURS

OTHER_DATA, OTHER = "table3", "OTHER.yaml"


def on_other_data(scale: Scale, about: Subject, base: str, task: str) -> tuple[str, bool]:
    """The command that asks Table 3 of a task, and whether the scale has other data for it.

    Where it has none, `OTHER` stands for a task with its labels, which the user has to name.
    """
    file = about.tasks.get(task, task)
    is_of_scale = file == place(scale.file(task))
    is_near = is_of_scale and task in scale.near
    options = [*_models(scale, about, base), *_given(scale, about, task)]
    if options or not is_near or task not in scale.some("transfer"):
        options += ["--tasks", task if is_of_scale else file]
    options += [] if is_near else ["--also", OTHER]
    return shlex.join([*OURS, "reproduce", OTHER_DATA, "--scale", scale.name, *options]), is_near


def _models(scale: Scale, about: Subject, base: str) -> list[str]:
    """Base and readout where they are not the scale's own."""
    named = [] if place(base) == place(scale.base) else ["--base", base]
    return named + ([] if scale.readout in about.readouts else ["--readout", *sorted(about.readouts)[:1]])


def _given(scale: Scale, about: Subject, task: str) -> list[str]:
    """A fine-tuned model of the user's own."""
    models = [model for model in about.models.get(task, ()) if not model.startswith("{")]
    shipped = place(f"{scale.stored}/{task}")
    return [word for model in models[:1] if model != shipped for word in ("--finetuned", model)]
