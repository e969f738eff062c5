"""Sentences on how a setting differs from the paper's: a scale's own, and those on what a study asks for instead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from skillviz.models.finetune.recipes import RECIPES

if TYPE_CHECKING:
    from skillviz.studies.paper.setting import Setting

OF_SCALES = ("base", "readout", "data", "tuning", "search", "sizes")
"""What a scale has a sentence on, in their order."""
ASPECTS = (*OF_SCALES, "tasks", "shifts", "rates")
"""Fields of a Setting that may be the user's own."""

SENTENCES = {
    "demo": {
        "base": "Model: a RoBERTa of 0.97 million parameters, pre-trained on the texts of a grammar, instead of "
        "RoBERTa-base.",
        "readout": "Readout: prompt, as in the paper.",
        "data": "Data: tasks of the demo world, 1,600 or 5,000 training examples and 600 test examples; six labels in "
        "a hundred are wrong on purpose. Not k-shot.",
        "tuning": "Fine-tuning: the stored pair, one fine-tuning seed; the paper has five samples of the data.",
        "search": "Localizer: stagewise (ours, 50 steps of 64 examples) where the paper has its learned mask; three "
        "mask seeds.",
        "sizes": "Sizes: percents of the graftable entries instead of a hundredth of a percent: the model is a hundred "
        "times smaller.",
    },
    "small": {
        "base": "Model: MiniLM-L6 (10.6 million graftable entries) instead of RoBERTa-base (85 million).",
        "readout": "Readout: a linear classification head on the first token instead of a prompt; the head is the "
        "fine-tuned model's in every state, also in the pre-trained one.",
        "data": "Data: at most 12,000 training and 2,000 test examples of each task, as public copies have them; not "
        "k-shot.",
        "tuning": "Fine-tuning: plain SGD at one learning rate for all tasks instead of the paper's grid of nine "
        "points.",
        "search": "Localizer: stagewise (ours) where the paper has its learned mask; three mask seeds on each "
        "fine-tuned model.",
        "sizes": "Sizes: 0.01 % to 10 % of the graftable entries; the paper's main size is 0.01 %.",
    },
}
"""By scale, what every experiment there does differently from the paper while nothing of it is replaced."""

NUMBERS = ("no", "one", "two", "three", "four", "five")
CAUSAL = "causal"
READOUTS = {"prompt": "prompt", "head": "a classification head", CAUSAL: "the words after a prompt"}
PAPERS = "roberta-base"


def base(asked: Setting) -> str:
    """On the base models."""
    if [PurePath(name).name.lower() for name in asked.base] == [PAPERS]:
        return f"Model: {asked.base[0]}, as in the paper."
    return f"Model: {_all(asked.base)} instead of RoBERTa-base."


def readout(asked: Setting) -> str:
    """On how answers are read."""
    kinds = tuple(dict.fromkeys(kind for kind, _ in asked.readout))
    named = _all([READOUTS.get(kind, kind) for kind in kinds])
    if kinds == ("prompt",):
        return "Readout: prompt, as in the paper."
    if "head" not in kinds:
        return f"Readout: {named}, as in the paper's Table 9; elsewhere it has a word in place of a mask."
    own = " (linear, on the first token)" if ("head", "linear") in asked.readout else ""
    told = "; the head is the fine-tuned model's in every state, also in the pre-trained one."
    return f"Readout: {named}{own}{'' if 'prompt' in kinds else ' instead of a prompt'}{told}"


def data(asked: Setting) -> str:
    """On the tasks and how much of their data is taken."""
    caps = [json.loads(told) for _, told in asked.data]
    asked_for = {shot for cap in caps for shot in _list(cap.get("k_shot")) or [None]}  # None: all examples
    shots = sorted({int(shot) for shot in asked_for if shot is not None})
    most = [int(cap["max_train"]) for cap in caps if "max_train" in cap]
    taken = f"at most {max(most):,} training examples each" if most else "all training examples"
    if shots:
        few = f"{_all([f'{shot:,}' for shot in shots])} examples of each label"
        return f"Data: {_all(asked.tasks)}, {few}{f', and {taken}' if None in asked_for else ''}."
    return f"Data: {_all(asked.tasks)}, {taken}; not k-shot."


def tuning(asked: Setting) -> str:
    """On how the fine-tuned models come about, and with how many seeds."""
    made = [fields for told in asked.tuning if "given" not in (fields := json.loads(told))]
    count = max((int(fields["seeds"]) for fields in made), default=1)
    seeds = f"{_number(count)} fine-tuning seed{'s' if count > 1 else ''}"
    shown = _all(asked.given) if len(asked.given) < 3 else f"{len(asked.given)} models"
    parts = ([f"{shown} as given"] if asked.given else []) + [_made(fields) for fields in made]
    told = "; ".join(dict.fromkeys(parts))
    grid = "a grid of nine points and " if made else ""
    return f"Fine-tuning: {told}; {seeds}; the paper has {grid}five samples of the data."


def search(asked: Setting) -> str:
    """On the search for regions."""
    seeds = mask_seeds(asked)
    if not seeds:
        return "Localizer: another one than the paper's learned mask."
    fields = [json.loads(told) for told in asked.search]
    steps = {name: one[name] for one in fields for name in ("steps", "batch_size") if name in one}
    how = "".join(f", {steps[name]} {word}" for name, word in _SEARCHED if name in steps)
    told = f"{_number(seeds)} mask seed{'s' if seeds > 1 else ''}"
    return f"Localizer: stagewise (ours{how}) where the paper has its learned mask; {told}."


def mask_seeds(asked: Setting) -> int:
    """With how many seeds a region is looked for; 0 where there is no default search."""
    return max((int(json.loads(told)["seeds"]) for told in asked.search), default=0)


_SEARCHED = (("steps", "steps"), ("batch_size", "examples a step"))


def sizes(asked: Setting) -> str:
    """On the sizes of regions."""
    percents = [_percent(size) for size in asked.sizes]
    shares = [one for one in percents if one is not None]
    counts = [size for size, one in zip(asked.sizes, percents, strict=True) if one is None]
    told = []
    if counts or not shares:
        told.append(f"{_all(counts)} graftable entries")
    if shares:
        ends = dict.fromkeys(f"{share:g} %" for share in (min(shares), max(shares)))
        told.append(f"{' to '.join(ends)} of the graftable entries")
    kinds = {kind for kind, _ in asked.readout}
    main = "0.05 %, of GPT-2" if kinds == {CAUSAL} else "0.01 %" + (" (0.05 % of GPT-2)" if CAUSAL in kinds else "")
    return f"Sizes: {_all(told)}; the paper's main size is {main}."


def is_causal(asked: Setting) -> bool:
    """Whether answers are read as the words after a prompt, for which the paper has another main size."""
    return any(kind == CAUSAL for kind, _ in asked.readout)


def _percent(size: str) -> float | None:
    """The percentage that a size is, typed as one or as a share (with a point or an exponent); None for a count."""
    typed = size.strip()
    with suppress(ValueError):
        if typed.endswith("%"):
            return float(typed[:-1])
        if set(typed) & set(".eE"):
            return 100 * float(typed)
    return None


def tasks(asked: Setting) -> str:
    """On the tasks, where the data are the scale's."""
    return f"Tasks: {_all(asked.tasks)}."


def shifts(asked: Setting) -> str:
    """On the other data that models are scored on."""
    found: dict[str, list[str]] = {}
    for task, other in asked.shifts:
        found.setdefault(task, []).append(other)
    return f"Shifts: {'; '.join(f'{task} to {_all(others)}' for task, others in found.items())}."


def published(asked: Setting) -> str:
    """On the published search, where it is run on some of the tasks."""
    return f"The published search is run on {_all(asked.published)} alone, as it costs most."


def rates(asked: Setting) -> str:
    """On the learning rates of BitFit and LoRA."""
    told = [
        f"{RECIPES[recipe].title}{f' (rank {rank})' if rank else ''} at {rate:g}" for recipe, rank, rate in asked.rates
    ]
    return f"Rates: {_all(told)}, as the scale has them; no other rate was tried on this model."


def _made(fields: dict[str, Any]) -> str:
    """How a model is fine-tuned: recipe, steps, batch, rate."""
    said = [_all([RECIPES[recipe].phrase if recipe in RECIPES else recipe for recipe in fields["recipe"]])]
    said += [f"{fields['steps']:,} steps"] if isinstance(fields.get("steps"), int) else []
    said += [f"of {fields['batch_size']} examples"] if fields.get("batch_size") is not None else []
    said += [f"at the rate {fields['lr']:g}"] if isinstance(fields.get("lr"), float) else []
    return " ".join([said[0] + ("," if len(said) > 1 else ""), *said[1:]])


def _all(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else f"{count:,}"
