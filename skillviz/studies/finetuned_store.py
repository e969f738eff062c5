"""Store a study's fine-tuned models by the hash of their spec, atomically; a changed source makes them again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from skillviz.atomic import folder_lock, whole_folder, write_text
from skillviz.core.comparison import Comparison
from skillviz.errors import BadInput, BadModel, RunNotFound, StoreError
from skillviz.layout import KEY, LAYOUT, refuse_another
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.finetune.recipes import MULTI_TASK
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
    uncompared,
)
from skillviz.runs.folder import now
from skillviz.runs.library import Library, library
from skillviz.runs.progress import Progress
from skillviz.runs.provenance import commit, versions
from skillviz.runs.record import content_of
from skillviz.runs.store import Store, Unreadable, written
from skillviz.studies.finetuned_model import FineTunedSpec, folder_of, task_name
from skillviz.tasks import registry
from skillviz.tasks.common_metric import common_metric
from skillviz.tasks.definition import compared, definition
from skillviz.tasks.project import finetuned_root
from skillviz.tasks.splits import load
from skillviz.tasks.task import Files
from skillviz.tasks.user_file import data_files, file_stamp

if TYPE_CHECKING:
    from skillviz.models.finetune.training import OnStep, TrainStep
    from skillviz.runs.session import Session

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
        rank = f", rank {spec.rank}" if spec.rank else ""
        few = f", {spec.matrices} of the matrices" if spec.matrices else ""
        how = f"{spec.recipe}{mode}{rank}{few}{sample_words(spec)}, seed {spec.seed}"
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
        """Check the tasks, that one model can learn them, and that the base can be fine-tuned with the readout."""
        spec = self.spec
        names = [task_name(task) for task in spec.tasks]
        if len(set(names)) < len(names):
            raise BadInput(f"two of the tasks {', '.join(spec.tasks)} have the same name; each needs one of its own.")
        for task in spec.tasks:
            checker.pair(spec.base, None, task, spec.readout)
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
