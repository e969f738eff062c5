"""List a study's differences from the paper as rows of aspect, paper and here, made from the study's scale.

Every phrase is made from values that the experiment also reads, so it is also true for a user's own models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from skillviz.core.formats import counted, listed
from skillviz.core.methods import METHODS
from skillviz.models.finetune.recipes import RECIPES, RecipeRow
from skillviz.studies.paper.scales import Scale, size_text
from skillviz.studies.step import name_of

MODEL, READOUT, DATA, TUNING, SEARCH, SIZES = (
    "Model", "Readout", "Data", "Fine-tuning", "Localizer", "Region size",
)  # fmt: skip
PAPERS = {"causal": ("gpt2", "GPT-2")}
"""The paper's base by readout: its name on the hub, and its title."""
ENCODER = ("roberta-base", "RoBERTa-base")
READOUTS = {
    "prompt": "prompt",
    "head": "classification head; the pre-trained model is read with the fine-tuned head too",
    "causal": "the words after a prompt",
}


class SettingRow(NamedTuple):
    """One aspect of the setting: the paper's value, and this study's."""

    aspect: str
    paper: str
    here: str


def setting(scale: Scale) -> list[SettingRow]:
    """The settings that every experiment of a scale shares, model first; rows may be the same here as in the paper."""
    name, title = PAPERS.get(scale.readout, ENCODER)
    is_paper_s = PurePath(scale.base).name.lower() == name
    model = title if is_paper_s else f"{title} (85 million graftable parameters)"
    return [
        SettingRow(MODEL, model, model if is_paper_s else scale.about_base or scale.base),
        # the paper reads its GPT-2 by the words after a prompt
        SettingRow(
            READOUT,
            "prompt (GPT-2: the words after it)" if scale.readout == "causal" else "prompt",
            READOUTS[scale.readout],
        ),
        SettingRow(DATA, "64 or 4,096 examples per label, five samples", _data(scale) + _tested(scale)),
        tuning_row(scale, _pairs(scale)),
        search_row(scale, len(scale.mask_seeds)),
        sizes_row(scale, scale.sizes),
    ]


def tuning_row(scale: Scale, here: str) -> SettingRow:
    """Return the row about fine-tuning: its recipe, and the number of seeds."""
    return SettingRow(TUNING, "plain SGD, a grid of nine points", f"{here}; {counted(scale.seeds, 'seed')}")


def trained(scale: Scale, how: str = "plain SGD", steps: int | None = None) -> str:
    """The training of a model at this scale in words: recipe, steps, batch and rate; `steps` replaces the scale's."""
    values = scale.training
    if values.get("grid") == "paper" and not steps:
        return f"{how}, a grid of nine points" + (f", {values['steps']:,} steps" if values.get("steps") else "")
    parts = [f"{count:,} steps"] if (count := steps or values.get("steps")) else []
    parts += [f"of {values['batch_size']} examples"] if "batch_size" in values else []
    parts += [f"at the rate {values['lr']:g}"] if "lr" in values else []
    return f"{how}, {' '.join(parts)}" if parts else how


def few_row(scale: Scale, task: str, recipes: Sequence[str] = ("graft-retrain", "bitfit", "lora")) -> SettingRow:
    """Return the rates and steps of recipes that train few parameters."""
    tuned = {recipe: scale.finetuned_model(task, recipe)["finetune"] for recipe in recipes}
    rates = [f"{_name(RECIPES[recipe])} at {values['lr']:g}" for recipe, values in tuned.items() if "lr" in values]
    steps = {values["steps"] for values in tuned.values() if "steps" in values}
    parts = [listed(rates, 9)] if rates else []
    parts += [*(f"{count:,} steps" for count in steps), *filter(None, [scale.about_rates])]
    return SettingRow("Training of few parameters", "rates not stated", "; ".join(parts))


def _name(recipe: RecipeRow) -> str:
    size = f" ({recipe.capacity[0]} {recipe.capacity[1]})" if recipe.capacity else ""
    return f"{METHODS[recipe.method].title}{size}"


def search_row(scale: Scale, mask_seeds: int) -> SettingRow:
    """Return the row about the search: the default localizer, with this number of seeds."""
    fields = scale.options.get("stagewise", {})
    units = {"steps": "steps", "batch_size": "examples a step"}
    how = [f"{fields[name]} {unit}" for name, unit in units.items() if name in fields]
    return SettingRow(SEARCH, "learned mask", "; ".join(["stagewise (ours)", *how, counted(mask_seeds, "mask seed")]))


def sizes_row(scale: Scale, here: Sequence[float], paper: str = "") -> SettingRow:
    """Return the sizes of regions, from the smallest share to the largest."""
    ends = " to ".join(dict.fromkeys(map(size_text, (min(here), max(here)))))
    return SettingRow(SIZES, paper or ("0.05% (GPT-2)" if scale.readout == "causal" else "0.01%"), ends)


def tasks_row(scale: Scale, paper: str, here: Iterable[str]) -> SettingRow:
    """Return the row of tasks, for an experiment whose tasks differ from the paper's."""
    return SettingRow("Tasks", paper, listed([task_name(scale, task) for task in here], 99))


def shifts_row(scale: Scale, paper: str, here: Iterable[str]) -> SettingRow:
    """Return the other data on which the models of each task are scored; tasks without such data are left out."""
    pairs = [(task, [task_name(scale, other) for other in scale.shifts.get(task, ())]) for task in here]
    parts = [f"{task_name(scale, task)} to {listed(others, 99)}" for task, others in pairs if others]
    return SettingRow("Shifts", paper, "; ".join(parts))


def task_name(scale: Scale, task: str) -> str:
    """Return the task's name; if its file cannot be read, the file's name, or the folder's for a `task.yaml`."""
    name, path = name_of(scale.file(task)), Path(task)
    return path.parent.name if name == "task" and path.parent.name else name


def _data(scale: Scale) -> str:
    """Return the scale's data in words, or a user's task files."""
    if scale.about_data:
        return scale.about_data
    shots = scale.caps.get("k_shot")
    examples = f"{shots:,} examples per label" if shots else "all training examples"
    if samples := scale.caps.get("data_seed"):
        examples += f", {len(samples)} samples"
    if not scale.chosen:
        return f"the scale's data, {examples}"
    return f"{listed([task_name(scale, task) for task in scale.chosen], 99)}, {examples}"


def _tested(scale: Scale) -> str:
    """Return the largest number of test examples in words, if the user gave one."""
    most = scale.caps.get("max_test")
    return f", at most {counted(most, 'test example')}" if most else ""


def _pairs(scale: Scale) -> str:
    """Return the source of the fine-tuned models: the user's, the stored ones, or training."""
    if scale.finetuned:
        return f"{scale.finetuned} as given"
    stored = [task for task in scale.chosen or scale.tasks if scale.pair(task)]
    if not stored:
        return trained(scale)
    if len(stored) == len(scale.chosen or scale.tasks):
        return "the stored pair of each task"
    names = listed([task_name(scale, task) for task in stored], 99)
    return f"the stored pair of {names}, else {trained(scale)}"
