"""A study's fine-tuned models: each has a frozen spec, whose hash names its folder; a changed source makes it again."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from skillviz.atomic import folder_lock, whole_folder, write_text
from skillviz.core.comparison import Comparison
from skillviz.core.draws import LARGEST_SEED
from skillviz.errors import BadInput, BadModel, RunNotFound, StoreError, UnknownTask
from skillviz.layout import KEY, LAYOUT, refuse_another
from skillviz.models.adapters import placement_of, trained
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.finetune.recipes import MULTI_TASK, RECIPES, SGD, recipe_row
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig, split_settings
from skillviz.models.heads import Readout
from skillviz.runs.artifact import (
    DATA,
    FINETUNE,
    REGIONS,
    Change,
    Checker,
    Stored,
    Workshop,
    change_of_definitions,
    differs,
    sample_words,
    size_words,
    uncompared,
)
from skillviz.runs.folder import now
from skillviz.runs.process import Progress
from skillviz.runs.provenance import commit, versions
from skillviz.runs.record import content_of
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Library, Store, Unreadable, library, written
from skillviz.tasks import registry
from skillviz.tasks.definition import compared, definition
from skillviz.tasks.paper import TASKS
from skillviz.tasks.project import FINETUNED_VARIABLE, finetuned_root, located
from skillviz.tasks.refusals import validated
from skillviz.tasks.splits import load
from skillviz.tasks.task import Files, common_metric
from skillviz.tasks.user_file import data_files, file_stamp
from skillviz.tasks.yaml_files import read_yaml

if TYPE_CHECKING:
    from skillviz.models.finetune.training import OnStep, TrainStep
    from skillviz.runs.session import Session


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
    width: int | None = Field(default=None, ge=1)
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


def is_by_sgd(source: str) -> bool:
    """True unless a path made by `FineTunedSpec.path` names another recipe."""
    return recipe_in(source) in ("", SGD)


PLAIN = "task"  # the file stem of a task that has its own folder


def read_finetuned(values: dict[str, Any]) -> FineTunedSpec:
    """Return the spec of these values; raises BadInput with one sentence if a field is wrong or unknown."""
    unlisted = ("tasks", "regions")
    return validated(FineTunedSpec, values, "the fine-tuned model", "a field of a fine-tuned model", unlisted)


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


RECORD = "finetuned_model.json"
SAMPLE = ("k_shot", "data_seed", "max_train", "max_validation")


class Sources(NamedTuple):
    """The sources of a model: fingerprints of base and data, and hashes of each run's region and task's definition."""

    base: str
    data: dict[str, str]
    regions: dict[str, str]
    definitions: dict[str, str]


@dataclass(frozen=True)
class FineTunedModel:
    """A finished fine-tuned model, described by finetuned_model.json in its folder."""

    path: Path
    record: Mapping[str, Any]

    @property
    def stamp(self) -> str:
        """The time when it was made."""
        return str(self.record.get("created"))

    @property
    def device(self) -> str | None:
        """The device on which it was made."""
        return self.record.get("device")

    @property
    def seconds(self) -> float | None:
        """The seconds that it took to make."""
        value = self.record.get("seconds")
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True)
class FineTunedArtifact:
    """A fine-tuned model, in a folder named by its key and shared by all stores."""

    spec: FineTunedSpec
    kind: ClassVar[str] = FINETUNE
    pair: ClassVar[None] = None

    @property
    def regions(self) -> Sequence[str]:
        """The keys of the runs whose regions are trained."""
        return [region.key() for region in self.spec.regions]

    def title(self, labels: Mapping[str, Any]) -> str:
        """Return a title such as `fine-tune sst2 (lora, rank 8, 16-shot, seed 1)`."""
        spec = self.spec
        mode = f", {labels['mode']}" if "mode" in labels else ""
        sizes = size_words({"rank": spec.rank, "width": spec.width})
        few = f", {spec.matrices} of the matrices" if spec.matrices else ""
        how = f"{spec.recipe}{mode}{sizes}{few}{sample_words(spec)}, seed {spec.seed}"
        return f"fine-tune {labels['task_name']} ({how})"

    def device(self, default: str) -> str:
        """Return the default device."""
        return default

    @classmethod
    def all_finished(cls, artifacts: Sequence[Self], store: Store) -> Mapping[str, FineTunedModel]:
        """Return the finished models by key."""
        models = {artifact.spec.key(): artifact.finished(store) for artifact in artifacts}
        return {key: model for key, model in models.items() if model is not None}

    def check(self, checker: Checker) -> None:
        """Check the tasks, that one model can learn them, and that the base can be fine-tuned by recipe and readout."""
        spec = self.spec
        names = [task_name(task) for task in spec.tasks]
        if len(set(names)) < len(names):
            raise BadInput(f"two of the tasks {', '.join(spec.tasks)} have the same name; each needs one of its own.")
        for task in spec.tasks:
            checker.pair(spec.base, None, task, spec.readout)
        if placement := placement_of(spec.recipe):
            trained(read_info(resolve(spec.base)), placement, spec.width or 1)
        if spec.recipe == MULTI_TASK:
            common_metric([checker.task(task) for task in spec.tasks])

    def finished(self, store: Store, stored: Stored | None = None) -> FineTunedModel | None:
        """Return the model if its folder holds it."""
        folder = folder_of(self.spec)
        record = finetuned_record(folder)
        return FineTunedModel(folder, record) if record and record.get("key") == self.spec.key() else None

    def changes(self, finished: FineTunedModel, store: Store, session: Session | None = None) -> Change:
        """Compare the base, data, definitions of tasks and regions with those the model was made from."""
        try:
            sources = sources_of(self.spec, library(store.root))
        except (BadModel, BadInput, RunNotFound) as error:
            return uncompared(error)
        record = finished.record
        if record.get("base") != sources.base:
            return differs("the base model has changed")
        before = record.get("data", {})
        if other := next((task for task, data in sources.data.items() if before.get(task) != data), None):
            return differs(DATA.format(task_name(other)))
        if record.get("regions", {}) != sources.regions:
            return differs(REGIONS)
        before = record.get("definitions", {})
        return change_of_definitions({task_name(t): compared(before.get(t), n) for t, n in sources.definitions.items()})

    def current(self, store: Store) -> FineTunedModel | None:
        """Return the finished model, or None if its sources have changed since."""
        model = self.finished(store)
        is_changed = model is not None and self.changes(model, store).comparison is Comparison.DIFFERENT
        return None if is_changed else model

    def make(self, workshop: Workshop, device: str, stored: Stored | None = None) -> None:
        """Train the model."""

        def report(step: TrainStep) -> None:
            text = f"loss {step.loss:.3f}"
            workshop.report(Progress("finetune", step.step, step.steps, text, loss=step.loss))

        workshop.session.values.clear()  # it may hold the previous version of this model, and memory is needed
        make(self.spec, workshop.store, device=device, progress=report, command=workshop.command)


def make(
    spec: FineTunedSpec,
    store: Store,
    *,
    device: str = "auto",
    progress: OnStep | None = None,
    command: str | None = None,
) -> FineTunedModel:
    """Return the model, trained first if it is missing or not current; `store` has the runs of its regions.

    A second process that requests the same model waits for the first. Raises the errors of fine-tuning; the next call
    resumes an interrupted training.
    """
    folder = folder_of(spec)
    with ExitStack() as stack:
        with written(folder.parent):
            stack.enter_context(folder_lock(folder))
        artifact = FineTunedArtifact(spec)
        if (model := artifact.current(store)) is not None:
            return model
        with whole_folder(folder, replace=True) as draft:
            _train(spec, draft, folder, store, device, progress, command)
        model = artifact.finished(store)
    assert model is not None
    return model


def sources_of(spec: FineTunedSpec, runs: Library) -> Sources:
    """Return the model's current sources; raises if a model, data or a run is missing."""
    base = read_info(resolve(spec.base)).fingerprint
    sample = {name: getattr(spec, name) for name in SAMPLE}
    data = {task: data_fingerprint(task, **sample) for task in spec.tasks}
    regions = {run.key(): runs.newest(run.key()).region().sha256() for run in spec.regions}
    return Sources(base, data, regions, {task: definition(registry.task(task), spec.readout) for task in spec.tasks})


def data_fingerprint(task: str, **sample: Any) -> str:
    """Return the fingerprint of a task's sampled examples; they are read again only if a file has changed."""
    known = registry.task(task)
    files = [known.path] if known.path else []
    files += data_files(known).values() if isinstance(known.data, Files) else []
    return _fingerprint(task, tuple(tuple(file_stamp(path)) for path in files), tuple(sorted(sample.items())))


@lru_cache(maxsize=256)
def _fingerprint(task: str, state: tuple[Any, ...], sample: tuple[tuple[str, Any], ...]) -> str:
    settings = dict(sample)
    seed = settings.pop("data_seed")
    return load(registry.task(task), seed=seed, **settings).fingerprint


def finetuned_record(folder: Path) -> dict[str, Any] | None:
    """Return finetuned_model.json, or None if the folder has no finished model of this version, which is then made."""
    try:
        record = content_of(folder / RECORD)
        refuse_another(record, str(folder))
    except StoreError:
        return None
    return record


def unreadable_models() -> Sequence[Unreadable]:
    """Return the folders of studies' fine-tuned models that another version made or whose record is damaged."""
    broken = []
    for path in sorted(finetuned_root().glob(f"*/{RECORD}")):
        try:
            refuse_another(content_of(path), f"the fine-tuned model in {path.parent}")
        except StoreError as error:
            broken.append(Unreadable(path.parent, error))
    return broken


def _train(
    spec: FineTunedSpec,
    draft: Path,
    folder: Path,
    store: Store,
    device: str,
    progress: OnStep | None,
    command: str | None,
) -> None:
    """Train the model into `draft`, which is to become `folder`, and record its sources there."""
    # these import torch
    from skillviz.models.device import describe, pick  # imports torch
    from skillviz.models.finetune.region_lock import TrainedRegion
    from skillviz.models.finetune.run import finetune, journal_of  # imports torch

    started, stored = time.perf_counter(), library(store.root)
    sources = sources_of(spec, stored)
    runs = [stored.newest(run.key()) for run in spec.regions]
    config, data = spec.settings()
    model = draft / "model"
    finetune(
        spec.base, [registry.task(task) for task in spec.tasks], config, data, out=model, device=device,
        regions=[TrainedRegion(run.region(), run.id) for run in runs], command=command, on_step=progress,
        journal=journal_of(folder),
    )  # fmt: skip
    for path in model.iterdir():
        path.rename(draft / path.name)
    model.rmdir()
    record = {
        KEY: LAYOUT, "key": spec.key(), "spec": spec.model_dump(mode="json"), **sources._asdict(),
        "created": now(), "device": describe(pick(device)), "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(), "commit": commit(),
    }  # fmt: skip
    write_text(draft / RECORD, json.dumps(record, indent=1) + "\n")
