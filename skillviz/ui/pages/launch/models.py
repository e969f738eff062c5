"""The choices for a new localization, and the first of them: the two models, with the problems of the pair."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from skillviz.core import formats
from skillviz.errors import BadInput, OtherVersion, SkillvizError
from skillviz.models import fetch
from skillviz.models.examples import ExamplePair
from skillviz.models.local_models import LocalModel, roots
from skillviz.models.preflight import Preflight
from skillviz.models.public_pairs import convert_command, public_pairs
from skillviz.runs.held_out import training_record
from skillviz.serving import sign_in, visitor
from skillviz.serving.settings import MODELS_VARIABLE
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.tasks import registry
from skillviz.tasks.task import Task
from skillviz.ui import cache, controls, fetching, form

WHERE = {"example": "an example", "public": "a public pair", "own": "this machine or the hub"}
BASE_HELP = (
    "The model before fine-tuning: a folder found here, or type a folder, a hub id such as `org/name`, or "
    "`org/name@revision`. Only safetensors weights are read."
)
FINETUNED_HELP = "The same model after fine-tuning. A LoRA adapter is merged when it is loaded."


@dataclass
class Choices:
    """The choices so far: fields of a RunSpec, and the problems that prevent a start."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seeds: tuple[int, ...] = (0,)
    preflight: Preflight | None = None
    task: Task | None = None
    readout: str = ""
    example: ExamplePair | None = None
    known: str = ""  # the pair's task in the registry
    is_trial: bool = False
    trial_note: Any = None  # the container in which the trial reports its data
    cluster: str | None = None

    def refuse(self, sentence: str, place: Any = st) -> None:
        """Shows a problem once, in `place`, and prevents a start."""
        if sentence not in self.problems:
            self.problems.append(sentence)
            place.error(text.plain(sentence), icon=":material/error:")

    def still(self, sentence: str) -> None:
        """Shows that a choice is missing, which prevents a start but is not an error."""
        self.problems.append(sentence)
        st.caption(sentence)


def pair(choices: Choices) -> None:
    """Draws the choice of base and fine-tuned model, and whether they fit."""
    with st.container(border=True):
        st.markdown("## 1 · Pair", help=about("pretrained", "graftable"))
        examples = cache.examples()
        there = [key for key in WHERE if key != "example" or examples]
        where = controls.segments(
            "new.from", "Models from", there, "example" if examples else "own", shown=WHERE.__getitem__,
            help="Examples ship with skillviz and need no network. Public pairs are well-known models on the Hugging "
            "Face Hub; both halves are downloaded. Or name your own.",
        )  # fmt: skip
        if where == "example":
            _example_pair(choices, examples)
        elif where == "public":
            _public_pair(choices)
        else:
            base = base_box("new.base", "Pre-trained model")
            choices.values |= {"base": base, "finetuned": finetuned_box("new.finetuned", "Fine-tuned model", base)}
            st.caption(models_folders_caption())
        if choices.values["base"] and choices.values["finetuned"]:
            _fit(choices)
        else:
            choices.still("Choose a pre-trained and a fine-tuned model.")


def _example_pair(choices: Choices, pairs: Sequence[ExamplePair]) -> None:
    by_name = {pair.name: pair for pair in pairs}
    name = controls.select(
        "new.example", "Pair", list(by_name), pairs[0].name, shown=lambda n: by_name[n].title,
        help="A model before and after it was fine-tuned. Its task is chosen with it.",
    )  # fmt: skip
    chosen = choices.example = by_name[name]
    choices.values |= {"base": chosen.base, "finetuned": chosen.finetuned}
    st.caption(chosen.about)


def _public_pair(choices: Choices) -> None:
    by_name = {pair.finetuned: pair for pair in public_pairs()}
    name = controls.select(
        "new.public", "Pair", list(by_name), next(iter(by_name)), shown=lambda n: f"{by_name[n].task}: {n}",
        help="The fine-tuned model and its task. Its base follows from it. `python -m skillviz pairs` prints the list.",
    )  # fmt: skip
    chosen = by_name[name]
    choices.values |= {"base": chosen.base, "finetuned": chosen.finetuned}
    choices.known = chosen.task
    st.caption(
        f"Base: `{chosen.base}`. Fine-tuned: `{chosen.finetuned}`, {formats.millions(chosen.parameters)} parameters, "
        f"license {chosen.license}. These facts are from the models' pages; skillviz has not run this pair."
    )


def _fit(choices: Choices) -> None:
    """Shows from their headers whether the two models make a pair; a hub model is downloaded only on request."""
    base, finetuned = choices.values["base"], choices.values["finetuned"]
    try:
        absent = {source: why for source in (base, finetuned) if (why := absent_models(visitor.checked_text(source)))}
    except BadInput as error:
        choices.refuse(sign_in.sentence_of(error))
        return
    for source, why in absent.items():
        choices.refuse(why)
        if command := convert_command(source):
            st.markdown("Its weights are pickled (`.bin`), and a page never reads those. Convert them in a terminal:")
            st.code(command, language=None, wrap_lines=True)
        else:
            fetching.button(source)
    if absent:
        return
    try:
        headers = choices.preflight = cache.preflight(base, finetuned)
    except SkillvizError as error:
        choices.refuse(sign_in.sentence_of(error))
        return
    for problem in headers.problems:
        choices.refuse(problem)
    if headers.fits:
        st.caption(f":material/check: The two fit: {headers.d or 0:,} graftable parameters in {headers.layers} layers.")
        choices.known = choices.known or _trained_for(headers.finetuned.folder)


def _trained_for(folder: Path) -> str:
    """The registry task that skillviz fine-tuned a model for, according to its folder; empty for any other model."""
    task = None
    with suppress(OtherVersion):  # the run itself reports it
        task = training_record(folder).get("task")
    return task if isinstance(task, str) and task in registry.TASKS else ""


def base_box(name: str, label: str, help: str = BASE_HELP, placeholder: str = "choose, or type") -> str:
    """Draws the box of base models and returns the chosen one; empty if there is none."""
    whole = [model.source for model in cache.local_models().models if not model.is_adapter]
    return form.box(name, label, whole, "", shown=_shown, help=help, placeholder=placeholder, names_files=True)


def finetuned_box(
    name: str, label: str, base: str, help: str = FINETUNED_HELP, placeholder: str = "choose, or type"
) -> str:
    """Draws the box of fine-tuned models, with the base's family first, and returns the chosen one; empty if none."""
    models = {model.source: model for model in cache.local_models().models}
    kind = models[base].model_type if base in models else ""
    kin = sorted((s for s in models if s != base), key=lambda s: models[s].model_type not in (kind, ""))
    return form.box(name, label, kin, "", shown=_shown, help=help, placeholder=placeholder, names_files=True)


def models_folders_caption() -> str:
    """The number of models that were found, and the searched folders."""
    local = cache.local_models()
    places = ", ".join(f"`{place}`" for place in roots())
    more = " Only some are listed; type the folder of any other." if local.is_cut else ""
    counted = formats.counted(len(local.models), "model")
    return f"{counted} found under {places}. Set `{MODELS_VARIABLE}` to look elsewhere.{more}"


def absent_models(source: str) -> str:
    """The reason why a model's headers cannot be read before a download from the hub; empty if they can."""
    if fetch.is_local(source):
        return ""
    return f"'{source}' is neither a folder here nor in the hub's local cache."


def _shown(source: str) -> str:
    local = next((model for model in cache.local_models().models if model.source == source), None)
    return source if local is None else model_label(local)


def model_label(local: LocalModel) -> str:
    """The label of a local model in a box: `minilm-l6 (bert, 87 MiB)`."""
    kind = "adapter" if local.is_adapter else local.model_type or "unknown family"
    return f"{local.name} ({kind}, {formats.byte_size(local.bytes)})"
