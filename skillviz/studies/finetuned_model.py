"""The spec of a study's fine-tuned model: a frozen record, whose hash names the model's folder."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from skillviz.core.draws import LARGEST_SEED
from skillviz.errors import BadInput, UnknownTask
from skillviz.models.finetune.recipes import RECIPES, SGD, recipe_row
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig, split_settings
from skillviz.models.heads import Readout
from skillviz.runs.spec import RunSpec
from skillviz.tasks.paper import TASKS
from skillviz.tasks.project import FINETUNED_VARIABLE, finetuned_root, located
from skillviz.tasks.refusals import refused
from skillviz.tasks.user_file import file_stamp
from skillviz.tasks.yaml_files import read_yaml

SHORT = 10  # letters of the key in a folder's name


class FineTunedSpec(BaseModel):
    """A fine-tuned model: base, task or tasks, recipe, and its training data. None means "the default".

    `seed` is the training's seed, `data_seed` the k-shot sample's. `optimizer` applies to recipes that train several
    tasks or a region. `regions` are the runs whose main region is trained: one for graft-retrain, one per task, in
    their order, for continual grafting, none for the naive sequence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    recipe: str = SGD
    readout: Readout = "head"
    head: Literal["own", "linear"] = "own"
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    data_seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    k_shot: int | None = Field(default=None, ge=1)
    max_train: int | None = Field(default=None, ge=1)
    max_validation: int | None = Field(default=None, ge=1)
    steps: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    lr: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    grid: str | None = None
    rank: int | None = Field(default=None, ge=1)
    matrices: int | None = Field(default=None, ge=1)
    optimizer: str | None = None
    regions: tuple[RunSpec, ...] = ()

    @field_validator("tasks", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        """Accept one task without a list."""
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits(self) -> FineTunedSpec:
        """Refuse tasks and settings that cannot be trained together."""
        if len(set(self.tasks)) < len(self.tasks):
            twice = next(task for task in self.tasks if self.tasks.count(task) > 1)
            raise ValueError(f"the task '{twice}' is given twice; each task is named once")
        try:
            config, _ = self.settings()
            config.check(len(self.tasks), len(self.regions))
            config.settings()
        except BadInput as error:
            raise ValueError(str(error.args[0]).removesuffix(".")) from error
        return self

    def settings(self) -> tuple[TrainingConfig, DataSettings]:
        """Return the settings of the training and of its data."""
        return split_settings(self.model_dump(exclude={"base", "tasks", "regions"}))

    def json_text(self) -> str:
        """Return canonical JSON without default values, so that keys stay the same when fields are added."""
        fields = type(self).model_fields
        fields_set = {
            name: value
            for name, value in self.model_dump(mode="json", exclude={"regions"}).items()
            if value != fields[name].get_default()
        }
        if self.regions:
            fields_set["regions"] = [region.key() for region in self.regions]
        return json.dumps(fields_set, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """Return the sha256 of everything that determines the model; its folder is not part of a spec."""
        return hashlib.sha256(self.json_text().encode()).hexdigest()

    def name(self) -> str:
        """Return the name of the model's folder, such as sst2-sgd-0123456789 or qnli+sst2-continual-0123456789."""
        tasks = "+".join(slug(_short_name(task)) for task in self.tasks)
        return f"{tasks[:60].rstrip('-+')}-{self.recipe}-{self.key()[:SHORT]}"

    def path(self, task: str | None = None, stage: int | None = None) -> str:
        """Return the path for RunSpec.finetuned: `${SKILLVIZ_FINETUNED}/<name>`, followed by the stage (from 1) and the
        task's name if there are several. Raises UnknownTask if a task's file cannot be read."""
        parts = [f"${{{FINETUNED_VARIABLE}}}", self.name()]
        row = recipe_row(self.recipe)
        if row.several_tasks:
            parts += [str(stage or len(self.tasks))] if row.tasks == "in turn" else []
            parts += [task_name(task or self.tasks[-1])]
        return "/".join(parts)


OF_RECIPE = re.compile(
    rf"\$\{{{FINETUNED_VARIABLE}\}}/[^/]*-({'|'.join(map(re.escape, RECIPES))})-[0-9a-f]{{{SHORT}}}(/|$)"
)


def recipe_in(source: str) -> str:
    """Return the recipe from a path made by `FineTunedSpec.path`; empty for any other source."""
    match = OF_RECIPE.match(source)
    return match[1] if match else ""


PLAIN = "task"  # the file stem of a task that has its own folder


def read_finetuned(values: dict[str, Any]) -> FineTunedSpec:
    """Return the spec of these values; raises BadInput with one sentence if a field is wrong or unknown."""
    try:
        return FineTunedSpec(**values)
    except ValidationError as error:
        field, sentence = refused(error)
        if error.errors()[0]["type"] == "extra_forbidden":
            known = ", ".join(name for name in FineTunedSpec.model_fields if name not in ("tasks", "regions"))
            raise BadInput(f"'{field}' is not a field of a fine-tuned model; known: {known}.") from error
        raise BadInput(
            f"'{field}' of the fine-tuned model cannot be used: {sentence}." if field else f"{sentence}."
        ) from error


def folder_of(spec: FineTunedSpec) -> Path:
    """Return the folder of the fine-tuned model, which may not exist yet."""
    return finetuned_root() / spec.name()


def task_name(task: str) -> str:
    """Return a task's name, read from its file if it is a path; raises UnknownTask if the file cannot be read."""
    if not _is_file(task):
        name = task.strip().lower().replace("-", "_").replace(" ", "_")
        return TASKS[name].name if name in TASKS else task
    try:
        return _name_in(*file_stamp(located(task)))
    except (OSError, BadInput, KeyError, TypeError) as error:
        raise UnknownTask(f"there is no task file {task} with a name; how to write one: docs/add-a-task.md.") from error


@lru_cache(maxsize=1024)
def _name_in(path: str, size: int, changed: int) -> str:
    """Return the name in a task file of this size and time, cached because a plan needs it at each of its steps."""
    return str(read_yaml(Path(path), f"the task file {path}")["name"])


def slug(text: str) -> str:
    """Return the text in a form that fits into a folder's name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-._")


def _short_name(task: str) -> str:
    """Return a task's name for a folder's name: its file's stem, or its folder's name if the stem is `task`."""
    path = Path(task)
    if not _is_file(task):
        return task
    return path.parent.name if path.stem == PLAIN and path.parent.name else path.stem


def _is_file(task: str) -> bool:
    return task.lower().endswith((".yaml", ".yml"))
