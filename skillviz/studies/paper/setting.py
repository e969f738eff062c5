"""Where a study differs from the paper, as rows of aspect, paper and here: told from the scale that it is built of.

Every phrase is made of what the experiment reads too, so that it is as true of a user's own models as of the scale's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from skillviz.core.formats import counted, listed
from skillviz.core.methods import METHODS
from skillviz.models.finetune.recipes import FEW, RECIPES, RecipeRow
from skillviz.studies.paper.scales import Scale, size_text
from skillviz.studies.step import name_of

MODEL, READOUT, DATA, TUNING, SEARCH, SIZES = (
    "Model", "Readout", "Data", "Fine-tuning", "Localizer", "Region size",
)  # fmt: skip
PAPERS = "roberta-base"
READOUTS = {
    "prompt": "prompt",
    "head": "classification head; the pre-trained model is read with the fine-tuned head too",
    "causal": "the words after a prompt",
}


class SettingRow(NamedTuple):
    """One aspect of the setting: what the paper has, and what this study has."""

    aspect: str
    paper: str
    here: str


def setting(scale: Scale) -> list[SettingRow]:
    """What every experiment of a scale has in common, model first; rows may be the same here as in the paper."""
    is_paper_s = PurePath(scale.base).name.lower() == PAPERS
    model = "RoBERTa-base" if is_paper_s else "RoBERTa-base (85 million graftable parameters)"
    return [
        SettingRow(MODEL, model, model if is_paper_s else scale.about_base or scale.base),
        readout_row(scale.readout),
        SettingRow(DATA, "64 or 4,096 examples per label, five samples", _data(scale) + _tested(scale)),
        tuning_row(scale, _pairs(scale)),
        search_row(scale, len(scale.mask_seeds)),
        sizes_row(scale, scale.sizes),
    ]


def readout_row(here: str) -> SettingRow:
    """How class scores are read; the paper reads its GPT-2 by the words after a prompt."""
    return SettingRow(READOUT, "prompt" if here != "causal" else "prompt (GPT-2: the words after it)", READOUTS[here])


def tuning_row(scale: Scale, here: str) -> SettingRow:
    """How the fine-tuned models come about, with how many seeds."""
    return SettingRow(TUNING, "plain SGD, a grid of nine points", f"{here}; {counted(scale.seeds, 'seed')}")


def trained(scale: Scale, how: str = "plain SGD", steps: int | None = None) -> str:
    """How a model is trained at this scale: by what, steps, batch and rate; `steps` in place of the scale's."""
    values = scale.training
    if values.get("grid") == "paper" and not steps:
        return f"{how}, a grid of nine points" + (f", {values['steps']:,} steps" if values.get("steps") else "")
    parts = [f"{count:,} steps"] if (count := steps or values.get("steps")) else []
    parts += [f"of {values['batch_size']} examples"] if "batch_size" in values else []
    parts += [f"at the rate {values['lr']:g}"] if "lr" in values else []
    return f"{how}, {' '.join(parts)}" if parts else how


def few_row(scale: Scale, task: str) -> SettingRow:
    """The rates and steps of what trains few parameters."""
    tuned = {recipe: scale.finetuned_model(task, recipe)["finetune"] for recipe in FEW}
    rates = [f"{_name(RECIPES[recipe])} at {values['lr']:g}" for recipe, values in tuned.items() if "lr" in values]
    steps = {values["steps"] for values in tuned.values() if "steps" in values}
    parts = [listed(rates, 9)] if rates else []
    parts += [*(f"{count:,} steps" for count in steps), *filter(None, [scale.about_rates])]
    return SettingRow("Training of few parameters", "rates not stated", "; ".join(parts))


def _name(recipe: RecipeRow) -> str:
    rank = f" (rank {recipe.rank})" if recipe.rank else ""
    return f"{METHODS[recipe.method].title}{rank}"


def search_row(scale: Scale, mask_seeds: int) -> SettingRow:
    """How regions are found: by the default search, with so many seeds."""
    fields = scale.options.get("stagewise", {})
    units = {"steps": "steps", "batch_size": "examples a step"}
    how = [f"{fields[name]} {unit}" for name, unit in units.items() if name in fields]
    return SettingRow(SEARCH, "learned mask", "; ".join(["stagewise (ours)", *how, counted(mask_seeds, "mask seed")]))


def sizes_row(scale: Scale, here: Sequence[float], paper: str = "") -> SettingRow:
    """The sizes of regions, from the smallest share to the largest."""
    ends = " to ".join(dict.fromkeys(map(size_text, (min(here), max(here)))))
    return SettingRow(SIZES, paper or ("0.05% (GPT-2)" if scale.readout == "causal" else "0.01%"), ends)


def tasks_row(scale: Scale, paper: str, here: Iterable[str]) -> SettingRow:
    """The tasks, where the experiment takes others than the paper."""
    return SettingRow("Tasks", paper, listed([task_name(scale, task) for task in here], 99))


def shifts_row(scale: Scale, paper: str, here: Iterable[str]) -> SettingRow:
    """The other data that the models of each task are scored on; of tasks that have such data."""
    pairs = [(task, [task_name(scale, other) for other in scale.shifts.get(task, ())]) for task in here]
    parts = [f"{task_name(scale, task)} to {listed(others, 99)}" for task, others in pairs if others]
    return SettingRow("Shifts", paper, "; ".join(parts))


def task_name(scale: Scale, task: str) -> str:
    """The task's name; where its file cannot be read that of the file, or of the folder of a `task.yaml`."""
    name, path = name_of(scale.file(task)), Path(task)
    return path.parent.name if name == "task" and path.parent.name else name


def _data(scale: Scale) -> str:
    """The scale's data in words, or a user's task files."""
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
    """How many test examples there are at most, where a user said so."""
    most = scale.caps.get("max_test")
    return f", at most {counted(most, 'test example')}" if most else ""


def _pairs(scale: Scale) -> str:
    """Where the fine-tuned models are from: a user's, the stored ones, or training."""
    if scale.finetuned:
        return f"{scale.finetuned} as given"
    stored = [task for task in scale.chosen or scale.tasks if scale.pair(task)]
    if not stored:
        return trained(scale)
    if len(stored) == len(scale.chosen or scale.tasks):
        return "the stored pair of each task"
    names = listed([task_name(scale, task) for task in stored], 99)
    return f"the stored pair of {names}, else {trained(scale)}"
