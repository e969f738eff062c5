"""Define the scales of the experiments: models, tasks, sizes and steps, and the entries made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, refuse
from skillviz.models.finetune.recipes import FEW, RECIPES, SGD
from skillviz.tasks.project import located

Entry = dict[str, Any]
WHOLE = 10**12  # the number of parameters for parsing a share: finer than any region's
MOST_SHIFTED = 4  # sizes of grafts that are scored on other data
EVERY = "all"
"""The word for every task, and the role of all tasks if a scale has more than it uses by default."""


def is_file(task: str) -> bool:
    """True if a task is given as a file, not by its name in a scale."""
    return task.endswith((".yaml", ".yml")) or "/" in task


def size_text(share: float) -> str:
    """Return the size of a region in a study file's form, such as `3%`."""
    return f"{100 * share:g}%"


def share_of(text: str) -> float:
    """The share for `0.01%` or `0.0001`; raises BadInput for a number of parameters, or for text that is no size."""
    size = parse_size(text, WHOLE)
    if re.fullmatch(r"\s*\+?\d+\s*", text, re.ASCII):
        raise BadInput(
            f"'{text.strip()}' is a number of parameters; the sizes of an experiment are shares: give 0.01% or 0.0001."
        )
    return size / WHOLE


@dataclass(frozen=True)
class Scale:
    """The models, tasks and settings from which the experiments are built.

    `tasks` are names of files in `folder`, names in the registry if `folder` is empty, or YAML files. `roles` name the
    tasks of experiments that use only a few, `shifts` the tasks on which a task's models are scored too. `sizes` are
    region sizes as shares of the graftable entries, the main one first. `stored` is the folder of ready pairs,
    `<task>-sgd`; a task without one there is fine-tuned, with the values in `training`.
    """

    name: str
    title: str
    base: str
    readout: str
    folder: str
    tasks: tuple[str, ...]
    sizes: tuple[float, ...]
    training: Mapping[str, Any]
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shifts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stored: str = ""
    head: str | None = None
    device: str = "auto"
    mask_seeds: tuple[int, ...] = (0, 1, 2)
    seeds: int = 1
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields of a run by localizer: fewer or smaller steps than the defaults."""
    caps: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every run: `k_shot`, limits on the numbers of examples, and `data_seed` for several samples."""
    steps: int | None = None
    """The steps of each search, if the user gave a number."""
    large: tuple[float, ...] = ()
    """The sizes of regions that are searched on large data."""
    large_steps: int | None = None
    """The steps of a search on large data; the paper's are ten times its usual ones."""
    large_data: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every run on large data that replace those in `caps`."""
    causal: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the scale that differ for a causal language model; see `of_causal_model`."""
    ladder: tuple[float, ...] = ()
    """Three sizes, small to large, each with runs of its own."""
    curve: tuple[float, ...] = ()
    """The sizes of a curve; `ladder` is among them."""
    bias_sizes: tuple[float, ...] = ()
    """Sizes of a search among the biases."""
    few: Mapping[str, Any] = field(default_factory=dict)
    """Fields of models by recipes that train few entries; separate because an experiment has many such models."""
    adamw: Mapping[str, Any] = field(default_factory=dict)
    """Fields of models that are fine-tuned with AdamW."""
    bitfit_rate: float = 5.0
    """BitFit's learning rate as a multiple of plain SGD's; 5 as in models/finetune/recipes.py."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Learning rates of recipes that add parameters, where they differ from models/finetune/recipes.py."""
    about_base: str = ""
    """The base in words, if it is the scale's own; the same holds for `about_data` and `about_rates`."""
    about_data: str = ""
    about_rates: str = ""
    chosen: tuple[str, ...] = ()
    """The user's tasks, which replace all roles."""
    finetuned: str = ""
    """The user's own fine-tuned model, for the one chosen task."""

    def main_first(self, sizes: Sequence[float]) -> tuple[float, ...]:
        """Return the sizes with the scale's main one first, for one run of several sizes."""
        return (self.sizes[0], *(size for size in sizes if size != self.sizes[0]))

    def of_causal_model(self) -> Scale:
        """Return the scale with a causal base that is read by the words after a prompt; unchanged if it has none."""
        return replace(self, **{**self.causal, "causal": {}})

    def of_large_data(self) -> Scale:
        """Return the scale with more training data, larger regions and longer searches."""
        steps = {"steps": self.large_steps} if self.large_steps else {}
        options = (
            {**self.options, "stagewise": {**self.options.get("stagewise", {}), **steps}} if steps else self.options
        )
        return replace(
            self, caps={**self.caps, **self.large_data}, options=options, sizes=self.large or self.sizes, large=(),
            large_data={}, large_steps=None,
            about_data="all training examples, up to 50,000 per label" if self.large_data else self.about_data,
        )  # fmt: skip

    def file(self, task: str) -> str:
        """The task's name in a run: a file of the scale's folder; a YAML file or a registry name is unchanged."""
        return task if is_file(task) or not self.folder else f"{self.folder}/{task}.yaml"

    def every(self) -> tuple[str, ...]:
        """Return all tasks of the scale, independent of the user's choice."""
        usual = SCALES.get(self.name, self)
        return usual.roles.get(EVERY, usual.tasks)

    def pair(self, task: str) -> str:
        """Return a task's existing fine-tuned model: the user's, or the scale's stored one; empty if there is none."""
        if self.finetuned or not self.stored or is_file(task):
            return self.finetuned
        stored = f"{self.stored}/{task.replace('_', '-')}-sgd"
        return stored if located(stored).is_dir() else ""

    def some(self, role: str) -> tuple[str, ...]:
        """Return the tasks of a role; the user's own if given, and all tasks of the scale if it has no such role."""
        return self.chosen or self.roles.get(role) or self.tasks

    def others(self, task: str) -> list[str]:
        """Return files of the tasks with the same labels on which this task's models are scored too."""
        return [self.file(name) for name in self.shifts.get(task, ())]

    def fields(self, task: str) -> Entry:
        """Return the fields that every entry of a task has: base, task, readout, device, caps."""
        return {"base": self.base, "task": self.file(task), "readout": self.readout, "device": self.device, **self.caps}

    def finetuned_model(self, task: str, recipe: str = SGD, **training: Any) -> Entry:
        """Return the fields of a run on a fine-tuned model of one task: the stored pair, or the fine-tuning's settings.

        `training` are fields of its fine-tuning that differ from the scale's; `readout` may be one of them.
        """
        fields = self.fields(task) | ({"readout": training["readout"]} if "readout" in training else {})
        if (given := self.pair(task)) and recipe == SGD and not training:
            return {**fields, "finetuned": given}
        few = self.few if recipe in FEW else {}
        values: dict[str, Any] = {"seed": list(range(self.seeds)), **self.training, **few, **training}
        if recipe == "bitfit" and "lr" not in training and values.get("lr"):
            values["lr"] = round(self.bitfit_rate * values["lr"], 6)
        if RECIPES[recipe].adds_parameters and "lr" not in training and "grid" not in values:
            values["lr"] = self.rates.get(recipe, RECIPES[recipe].rates[fields["readout"]])
        if fields["readout"] == "head" and self.head:
            values.setdefault("head", self.head)
        values.pop("readout", None)
        return {**fields, "recipe": recipe, "finetune": values}

    def first(self, task: str, recipe: str = SGD, **training: Any) -> Entry:
        """Return the same as `finetuned_model`, with the first fine-tuning seed alone."""
        is_stored = recipe == SGD and not training and self._is_stored(task)
        if is_stored:
            return self.finetuned_model(task)
        return self.finetuned_model(task, recipe, **{"seed": 0, **training})

    def each_seed(self, task: str) -> Entry:
        """Return the same as `first`, with every fine-tuning seed if the user asked for several."""
        return self.first(task) if self.seeds == 1 else self.finetuned_model(task)

    def refuse_seeds(self, models: str) -> None:
        """Raise BadInput for several fine-tuning seeds or samples in an experiment with one; `models` are the
        experiment's models in words."""
        samples = len(self.caps.get("data_seed", ()))
        for option, count, one in (("seeds", self.seeds, "fine-tuning seed"), ("samples", samples, "training set")):
            if count > 1:
                raise BadInput(
                    f"this experiment has {models}, with one {one}, and its tables cover no more: leave "
                    f"--{option} {count} out; to see what it changes, run `python -m skillviz reproduce table2 "
                    f"--{option} {count}`."
                )

    def search(self, model: Entry, localizer: str, sizes: Sequence[float] | None = None, **changes: Any) -> Entry:
        """Return an entry of runs on a model: this localizer at these sizes, or at the scale's sizes.

        Localizers that depend on the seed run with every mask seed, others with the first; `changes` are further fields
        of the run.
        """
        seeds = list(self.mask_seeds) if LOCALIZERS[localizer].seeded else [0]
        run = {"localizer": localizer, "sizes": [size_text(size) for size in sizes or self.sizes], "seed": seeds}
        return {**model, **self.options.get(localizer, {}), **run, **changes}

    def each(self, model: Entry, localizer: str, sizes: Sequence[float], **changes: Any) -> Entry:
        """Return the same with a run of its own for every size, so that all of them have predictions to pair."""
        entry = self.search(model, localizer, sizes, **changes)
        sizes_of_runs = entry.pop("sizes")
        return {**entry, "size": sizes_of_runs}

    def grafts(self, task: str, **training: Any) -> Entry:
        """Return the scale's default search on a task's SGD model, scored on other data too; experiments share it."""
        return self.search(self.finetuned_model(task, **training), "stagewise", others=self.others(task))

    def shifted(self, task: str) -> list[Entry]:
        """Return searches of each of the first sizes on a task's SGD model, scored on other data too.

        The one of the main size has the paths between the models.
        """
        model, others = self.finetuned_model(task), self.others(task)
        main, *rest = self.sizes[:MOST_SHIFTED]
        return [
            self.search(model, "stagewise", [main], others=others, interpolation=True),
            self.each(model, "stagewise", rest, others=others),
        ]

    def retrained(self, task: str, also: Sequence[str] = ()) -> Entry:
        """Return an entry that trains the regions of `grafts`, one per mask seed, from the base, and scores the models.

        It has one fine-tuning seed, the first, because only the region varies.
        """
        graft = self.grafts(task, **({} if self._is_stored(task) else {"seed": 0}))
        region = {name: value for name, value in graft.items() if name not in (*self.fields(task), "seed")}
        entry = self.finetuned_model(task, "graft-retrain", seed=0)
        return {**self.scored(entry, also), "seed": list(self.mask_seeds), "region": region}

    def several_tasks(self, recipe: str, tasks: Sequence[str], training: Mapping[str, Any]) -> Entry:
        """Return the fields of an entry about one model of these tasks, with these values as its `finetune`.

        Raises BadInput for fewer than two tasks, and for several fine-tuning seeds.
        """
        self.refuse_seeds("one model of several tasks")
        if len(tasks) < 2:
            raise BadInput("a model of several tasks needs two or more: name them with --tasks.")
        fields = {name: value for name, value in self.fields(tasks[0]).items() if name != "task"}
        head = {"head": self.head} if fields["readout"] == "head" and self.head else {}
        files = [self.file(task) for task in tasks]
        return {**fields, "recipe": recipe, "tasks": files, "finetune": {**training, **head}}

    def _is_stored(self, task: str) -> bool:
        return "finetuned" in self.finetuned_model(task)

    def scored(self, model: Entry, also: Sequence[str] = ()) -> Entry:
        """An entry that fine-tunes a model and scores it, on its own task and on these files, without a region."""
        return {**model, "localizer": "none", **({"also": list(also)} if also else {})}

    def with_choices(
        self,
        base: str | None = None,
        tasks: Sequence[str] = (),
        seeds: int | None = None,
        readout: str | None = None,
        finetuned: str | None = None,
        *,
        steps: int | None = None,
        train_steps: int | None = None,
        sizes: Sequence[str] = (),
        max_test: int | None = None,
        k_shot: int | None = None,
        samples: int | None = None,
    ) -> Scale:
        """Return the scale with the user's values in place of its own; another base or readout has no stored pairs.

        Another base may be large, so it uses any available device, even if the scale's own is small enough for the CPU.
        Fine-tuning with other steps, or on other examples, has no stored pairs either.
        """
        counts = {
            "steps": steps, "train-steps": train_steps, "max-test": max_test, "k-shot": k_shot, "samples": samples,
        }  # fmt: skip
        for option, count in counts.items():
            if count is not None and count < 1:
                raise BadInput(f"--{option} is {count}; give 1 or more.")
        refuse(
            (
                finetuned and len(tasks) != 1,
                "a fine-tuned model belongs to one task: name that task with --tasks.",
            ),
            (
                seeds is not None and seeds < 1,
                f"the number of fine-tuning seeds is {seeds}; give 1 or more.",
            ),
            (
                (seeds or 1) > 1 and finetuned,
                "an existing fine-tuned model has one seed: give --finetuned or --seeds, not both.",
            ),
        )
        changed = replace(self, finetuned=finetuned or self.finetuned)
        if finetuned or samples == 1:  # such a model has one training set
            changed = replace(changed, caps={name: n for name, n in self.caps.items() if name != "data_seed"})
        if base and located(base).absolute() != located(self.base).absolute():
            changed = replace(changed, base=base, stored="", device="auto", about_base="", about_rates="", causal={})
        if readout:
            changed = replace(changed, readout=readout, stored=changed.stored if readout == self.readout else "")
        if seeds is not None:
            changed = replace(changed, seeds=seeds, stored="" if seeds > 1 else changed.stored)
        if tasks:
            changed = replace(changed, tasks=tuple(tasks), chosen=tuple(tasks))
        if any(map(is_file, tasks)):
            changed = replace(changed, about_data="")
        changed = changed._resized(steps, train_steps, tuple(map(share_of, sizes)), max_test, k_shot)
        return changed if samples is None or samples == 1 else changed._sampled(samples)

    def _sampled(self, samples: int) -> Scale:
        """Return the scale with this number of samples of the training data, each with models of its own."""
        refuse(
            (
                "k_shot" not in self.caps,
                f"--samples {samples} draws training examples, and here all of them are used: give --k-shot too, such "
                "as --k-shot 64.",
            ),
            (self.finetuned, "a fine-tuned model that is there has one training set: give --finetuned or --samples."),
        )
        return replace(self, caps={**self.caps, "data_seed": list(range(samples))}, stored="")

    def _resized(
        self,
        steps: int | None,
        train_steps: int | None,
        sizes: tuple[float, ...],
        max_test: int | None,
        k_shot: int | None,
    ) -> Scale:
        """Return the scale with the given numbers in place of its own."""
        changed = self
        if steps is not None:
            searches = [row for row in LOCALIZERS.values() if any(one.name == "steps" for one in row.shown_options)]
            own = {row.name: {**self.options.get(row.name, {}), "steps": steps} for row in searches}
            changed = replace(changed, options={**self.options, **own}, steps=steps)
        if train_steps is not None:
            at = {"steps": train_steps}
            changed = replace(
                changed, training={**self.training, **at}, few={**self.few, **at}, adamw={**self.adamw, **at}, stored=""
            )
        if sizes:
            rising = tuple(sorted(set(sizes)))
            changed = replace(
                changed, sizes=tuple(dict.fromkeys(sizes)), ladder=rising, curve=rising,
                bias_sizes=rising[:1],  # biases are only a few entries in a thousand
            )  # fmt: skip
        caps = {"max_test": max_test, "k_shot": k_shot}
        changed = replace(changed, caps={**self.caps, **{name: n for name, n in caps.items() if n is not None}})
        if k_shot is not None:
            changed = replace(changed, stored="", about_data="")
        return changed


SMALL = Scale(
    "small", "Real text, small encoder", "examples/models/minilm-l6", "head", "examples/tasks",
    tasks=("mr", "subj", "clinc_domains", "snli"),
    sizes=(0.001, 0.0001, 0.01, 0.03),
    training={"steps": 5000, "batch_size": 16, "lr": 0.04},
    roles={
        EVERY: ("mr", "cr", "subj", "clinc_domains", "snli"),
        "updates": ("mr",),
        "few": ("mr",),
        "one": ("mr",),
        "histogram": ("mr",),
        "transfer": ("mr",),
        "shift": ("mr",),
        "large_shift": ("mr",),
        "sequence": ("snli", "clinc_domains", "mr"),
        "multi": ("mr", "cr", "clinc_domains", "snli"),
        "large": ("sentiment", "clinc_domains", "snli"),
    },
    shifts={
        "mr": ("cr", "uci_yelp", "uci_amazon", "uci_imdb"),
        "cr": ("mr", "uci_yelp", "uci_amazon", "uci_imdb"),
    },
    stored="examples/pairs",
    head="linear",
    options={"learned": {"batch_size": 128}},
    caps={"max_validation": 1000, "max_test": 2000},
    ladder=(0.0001, 0.001, 0.01),
    curve=(0.00003, 0.0001, 0.0003, 0.001, 0.01),
    bias_sizes=(0.0003, 0.0001),
    large=(0.003, 0.006, 0.012),
    large_steps=100,
    causal={
        "base": "examples/models/stories260k", "readout": "causal", "stored": "", "head": None, "tasks": ("mr", "subj"),
        "sizes": (0.01, 0.05, 0.1), "roles": {EVERY: ("mr", "cr", "subj", "clinc_domains", "snli"), "few": ("subj",)},
        "training": {"steps": 1000, "batch_size": 16, "lr": 0.05}, "options": {},
        "caps": {"k_shot": 1024, "data_seed": [0, 1, 2, 3, 4], "max_validation": 1000, "max_test": 2000},
        "about_base": "stories260k, a causal language model (0.26 million parameters)",
        "about_data": "1,024 examples per label, five samples",
    },
    few={"steps": 3000},
    adamw={"steps": 3000, "batch_size": 16, "lr": 1e-4},
    # Houlsby et al.'s largest: width 16, 500 steps, 500 validation sentences of MR: 82.4% right, and 80.4% at 1e-3
    rates={"lora": 1e-3, "adapter-houlsby": 3e-3, "adapter-pfeiffer": 3e-3},
    about_base="MiniLM-L6 (10.6 million graftable parameters)",
    about_data="the tasks in examples/: at most 12,000 training examples per task",
    about_rates="no grid",
)  # fmt: skip


PAPER = Scale(
    "paper",
    "RoBERTa-base, as in the paper",
    "roberta-base",
    "prompt",
    "",
    tasks=("sst2", "cr", "mr", "mpqa", "ag_news", "subj", "qnli", "snli", "mnli", "rte", "mrpc", "qqp"),
    sizes=(0.0001, 0.001, 0.01),
    training={"grid": "paper"},
    roles={
        EVERY: ("sst2", "cr", "mr", "mpqa", "trec", "ag_news", "subj", "qnli", "snli", "mnli", "rte", "mrpc", "qqp"),
        "updates": ("sst2", "ag_news", "qnli", "qqp"),
        "curves": ("sst2", "qnli"),
        "few": ("sst2", "qnli"),
        "one": ("sst2",),
        "histogram": ("qnli",),
        "transfer": ("sst2", "qnli"),
        "shift": ("sst2", "mnli", "mpqa", "qnli"),
        "large_shift": ("mpqa", "qnli"),
        "sequence": ("qnli", "ag_news", "sst2"),
        "multi": ("sst2", "cr", "snli", "mnli", "qnli", "qqp", "mrpc", "ag_news"),
        "large": ("examples/tasks/sentiment.yaml", "ag_news", "qnli", "snli"),
    },
    shifts={
        "sst2": ("imdb", "yelp"),
        "mnli": ("snli",),
        "mpqa": ("sst2", "yelp"),
        "qnli": ("mnli_01", "snli_01"),
    },
    head="linear",
    caps={"k_shot": 4096},
    ladder=(0.0001, 0.001, 0.01),
    curve=(0.00001, 0.0001, 0.001, 0.01),
    bias_sizes=(0.0003, 0.0001),
    adamw={"grid": "paper"},
    large=(0.0003, 0.0006, 0.0012),
    large_steps=500,
    large_data={"k_shot": 50000},
    causal={
        "base": "gpt2",
        "readout": "causal",
        "head": None,
        "sizes": (0.0005, 0.005, 0.05),
        "about_base": "GPT-2",
        "caps": {"k_shot": 4096, "data_seed": [0, 1, 2, 3, 4]},
        "about_data": "4,096 examples per label (all that there are of smaller classes), five samples",
    },
    about_base="RoBERTa-base",
    about_data="4,096 examples per label (all that there are of smaller classes), one sample",
    about_rates="the best of each recipe's grid on validation data",
)
"""The models, tasks and sizes of the paper, with data from the hub; its 4,096-shot tables have no TREC."""

SCALES = {scale.name: scale for scale in (SMALL, PAPER)}


def scale(name: str) -> Scale:
    """Return the scale of that name; raises BadInput with the known names."""
    if name not in SCALES:
        raise BadInput(f"'{name}' is not a scale; known: {', '.join(SCALES)}.")
    return SCALES[name]
