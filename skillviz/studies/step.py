"""One step of a study: a model to fine-tune, a region to find, a model to score, or the tables to make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from skillviz.errors import BadInput
from skillviz.runs.spec import RunSpec
from skillviz.studies.finetuned_model import FineTunedSpec, task_name
from skillviz.studies.score import ScoreSpec

Kind = Literal["finetune", "localize", "score", "table"]
FINETUNE, LOCALIZE, SCORE, TABLE = KINDS = ("finetune", "localize", "score", "table")
Spec = FineTunedSpec | RunSpec | ScoreSpec | str


@dataclass(frozen=True)
class Step:
    """What is to be done, and the keys of the steps that must be done before.

    `key` is that of the spec (of the tables: "table"). `entry` are its labels, by which results are found again:
    entry (its number), label, base, task, task_name, tasks, recipe, mode, stage, member_seed, data_seed, k_shot,
    localizer, sizes, size, seed, on, on_name, role (run, region or score), device; those that do not apply are absent.
    """

    key: str
    kind: str
    title: str
    spec: Spec
    needs: tuple[str, ...] = ()
    entry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pair(self) -> tuple[Any, ...] | None:
        """What a session holds for this step: pair and task; None where it needs none."""
        spec = self.spec
        if isinstance(spec, RunSpec):
            return spec.base, spec.finetuned, spec.task, spec.readout
        return (spec.base, spec.finetuned, spec.task, spec.readout) if isinstance(spec, ScoreSpec) else None

    @property
    def device(self) -> str:
        """The device that it was asked to take: auto, cpu, cuda, cuda:<n>."""
        return self.spec.device if isinstance(self.spec, RunSpec) else str(self.entry.get("device", "auto"))


def title_of(spec: FineTunedSpec | RunSpec | ScoreSpec, labels: Mapping[str, Any]) -> str:
    """What a step does, for a person."""
    if isinstance(spec, FineTunedSpec):
        more = f", rank {spec.rank}" if spec.rank else ""
        mode = f", {labels['mode']}" if "mode" in labels else ""
        names = "+".join(name_of(task) for task in spec.tasks)
        return f"fine-tune {names} ({spec.recipe}{mode}{more}{_sample(spec)}, seed {spec.seed})"
    model = str(labels.get("recipe") or Path(spec.finetuned).name)
    model += f", rank {labels['rank']}" if "rank" in labels else ""
    seed = f", seed {labels['member_seed']}" if "member_seed" in labels else ""
    pair = f"{name_of(spec.task)} ({model}{_sample(spec)}{seed})"
    if isinstance(spec, RunSpec):
        return f"{spec.localizer} {', '.join(spec.sizes)}, seed {spec.seed}: {pair}"
    stage = f" after stage {labels['stage']} ({labels['mode']})" if "stage" in labels else ""
    return f"score {pair}{stage}" + (f" on {name_of(spec.on)}" if spec.on else "")


def _sample(spec: FineTunedSpec | RunSpec | ScoreSpec) -> str:
    """`, 16-shot` or `, 16-shot of data seed 2`: which training examples there are; empty where all are."""
    which = f" of data seed {spec.data_seed}" if spec.data_seed else ""
    return f", {spec.k_shot}-shot{which}" if spec.k_shot else ""


def name_of(task: str | None) -> str:
    """The name of a task; as it was written where it cannot be read: that is said when the study is checked."""
    try:
        return task_name(task or "")
    except BadInput:
        return Path(task or "").stem
