"""Asking an experiment of one's own models: base, tasks, fine-tuned model, readout, seeds; folded until one is set."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from skillviz.errors import ModelNotFound
from skillviz.models.heads import READOUTS
from skillviz.show.glossary import about
from skillviz.studies.paper.scales import SCALES, Scale
from skillviz.studies.spec import ExperimentRequest
from skillviz.ui import address, controls, form
from skillviz.ui.pages.launch import models
from skillviz.ui.pages.launch import words as launch_words
from skillviz.ui.pages.studies import study_file

BASE, TASKS, ALSO, FINETUNED = "own.base", "own.tasks", "own.also", "own.finetuned"
READOUT, SEEDS = "own.readout", "own.seeds"
FIELDS = (BASE, TASKS, ALSO, FINETUNED, READOUT, SEEDS)
UNSET = (None, "", form.NONE)
SCALES_OWN = "scale"  # as readout: the one that the scale has
MOST_SEEDS = 20
TITLE = "Ask it of your own models or tasks"
TASKS_HELP = (
    "Tasks of the scale, or paths of task files of your own (YAML, docs/add-a-task.md); several may be given. Left "
    "empty, they are those that the experiment takes at this scale."
)
ALSO_HELP = (
    "Tasks with the same labels on whose examples the models are scored too, without training: how well the skill "
    "transfers. Named as the tasks are; your own tasks that share their labels are scored on each other anyway."
)


def request(name: str, scale: str) -> ExperimentRequest:
    """The experiment with what is set in the fields; raises BadInput for other variables than the project's.

    ModelNotFound where a model has to be fetched from the hub first, for which there is a button.
    """
    usual = SCALES[scale]
    with st.expander(TITLE, expanded=_is_set()):
        left, right = st.columns(2)
        with left:
            base = models.base_box(BASE, "Base model", placeholder=f"{usual.base}, or choose or type")
            tasks = form.several(TASKS, "Tasks", usual.every(), (), help=TASKS_HELP,
                                 placeholder="the experiment's, or choose or type")  # fmt: skip
            also = form.several(ALSO, "Scored on too", _others(usual), (), help=ALSO_HELP)
        with right:
            readout = _readout(usual)
            finetuned = models.finetuned_box(FINETUNED, "Fine-tuned model, of one task", base, help=_FINETUNED_HELP,
                                              placeholder="the experiment's own")  # fmt: skip
            seeds = form.number(SEEDS, "Fine-tuning seeds", None, high=MOST_SEEDS, placeholder="1", help=_SEEDS_HELP)
        for text in (base, finetuned, *tasks, *also):
            study_file.refuse_variables(text)
        _refuse_absent([source for source in (base, finetuned) if source])
    count = int(seeds) if seeds else None
    return ExperimentRequest(name, scale, base or None, None, tasks, count, readout, finetuned or None, also)


_FINETUNED_HELP = (
    "The base after fine-tuning for the one task that is named beside it. Left empty, models are fine-tuned first, "
    "which takes most of the time."
)
_SEEDS_HELP = (
    "How many times each model that is grafted is fine-tuned, with other seeds; a stored model, or one that is named "
    "here, is one. Table 4, Figure 8 and the constants of the searches have one."
)


def _is_set() -> bool:
    """Whether the address, or this session before, sets one of the fields."""
    return any(address.current(name) not in (*UNSET, SCALES_OWN) for name in FIELDS)


def _others(own: Scale) -> list[str]:
    """The scale's tasks that models are scored on without being trained on them."""
    return list(dict.fromkeys(other for near in own.near.values() for other in near))


def _readout(own: Scale) -> str | None:
    titles = {SCALES_OWN: f"as at this scale: {launch_words.READOUTS[own.readout]}", **launch_words.READOUTS}
    names = [SCALES_OWN, *READOUTS]
    chosen = controls.select(
        READOUT, "How class scores are read", names, SCALES_OWN, shown=titles.__getitem__, help=about("readout")
    )
    return None if chosen == SCALES_OWN else chosen


def _refuse_absent(sources: Sequence[str]) -> None:
    """A model of the hub is fetched only when asked for."""
    for source in sources:
        if why := models.absent_models(source):
            models.fetch_button(source)
            raise ModelNotFound(why)
