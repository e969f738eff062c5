"""Define a step of a study: a model to fine-tune, a region to find, a model to score, or the tables to make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput
from skillviz.runs.artifact import Artifact, RunArtifact
from skillviz.runs.score import ScoreArtifact
from skillviz.studies.finetuned_model import task_name
from skillviz.studies.finetuned_store import FineTunedArtifact

TABLE = "table"
ARTIFACTS: dict[str, Any] = {each.kind: each for each in (FineTunedArtifact, RunArtifact, ScoreArtifact)}
KINDS = (*ARTIFACTS, TABLE)


@dataclass(frozen=True)
class StudyStep:
    """A piece of work, and the keys of the steps that must be done before it.

    `key` is the key of the spec (for the tables: "table"). `entry` are its labels, by which results are found: entry
    (its number), label, base, task, task_name, tasks, recipe, mode, stage, finetune_seed, data_seed, k_shot, localizer,
    sizes, size, seed, on, on_name, role (run, region or score), device; labels that do not apply are absent.
    """

    key: str
    kind: str
    title: str
    spec: Any
    needs: tuple[str, ...] = ()
    entry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def artifact(self) -> Artifact:
        """The artifact that the step makes; invalid for the tables."""
        artifact: Artifact = ARTIFACTS[self.kind](self.spec)
        return artifact

    @property
    def pair(self) -> tuple[Any, ...] | None:
        """The pair and task that a session loads for this step; None if it needs none."""
        return None if self.kind == TABLE else self.artifact.pair

    @property
    def device(self) -> str:
        """The device to use: auto, cpu, cuda, cuda:<n>."""
        device = str(self.entry.get("device", "auto"))
        return device if self.kind == TABLE else self.artifact.device(device)


def name_of(task: str | None) -> str:
    """The name of a task; if its file cannot be read, the file's stem, and the study's check reports the error."""
    try:
        return task_name(task or "")
    except BadInput:
        return Path(task or "").stem
