"""The artifacts of a study, made once and stored under the hash of their spec: fine-tuned models, runs and scores.

One protocol covers all kinds, so that code that plans, makes and counts artifacts need not distinguish them.
Runs are defined here, scores in runs/score.py, fine-tuned models in studies/finetuned_model.py. All of this works
without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from skillviz.core.comparison import Comparison
from skillviz.core.localizers.table import EXPRESSION, LOCALIZERS
from skillviz.errors import BadInput, BadModel, RunNotFound, StoreError, WrongCheckpoint
from skillviz.runs.folder import RunFolder
from skillviz.runs.plan import checked_spec, key_of_region, keys_in
from skillviz.runs.process import Report, silent
from skillviz.runs.record import ModelNote, TaskNote, TransferNote
from skillviz.runs.run import REGION, Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library
from skillviz.tasks.definition import compared, definition
from skillviz.tasks.task import Task

if TYPE_CHECKING:
    from skillviz.models.preflight import Preflight
    from skillviz.runs.session import Session

FINETUNE, LOCALIZE, SCORE = "finetune", "localize", "score"
DEFINITION = "the definition of the task '{}' (template, label words, metric or lengths) has changed"
UNSTATED = "the definition of the task '{}' is not stored"
DATA = "the data of the task '{}' have changed"
REGIONS = "the regions that it is made of have changed"


class Change(NamedTuple):
    """The comparison of a finished artifact's sources with the present ones, and the reason in words ('' for SAME)."""

    comparison: Comparison
    why: str = ""


CURRENT = Change(Comparison.SAME)


class Finished(Protocol):
    """A finished artifact, read from its folder: a Run, a Score or a FineTunedModel."""

    path: Path

    @property
    def stamp(self) -> str:
        """A text that changes whenever the artifact is made again."""

    @property
    def device(self) -> str | None:
        """The device on which it was made."""

    @property
    def seconds(self) -> float | None:
        """The seconds that making it took."""


class Checker(Protocol):
    """Reads each pair and task file once, from headers, and shares the result."""

    def pair(self, base: str, finetuned: str | None, task: str, readout: str | None) -> Preflight:
        """Return the headers of a pair, or of the base alone if the fine-tuned model is still to be made."""

    def task(self, name: str) -> Task:
        """Return a task whose files exist."""


@dataclass(frozen=True)
class Stored:
    """The names of the folders in which a store holds an artifact: the finished and the interrupted one."""

    finished: str | None = None
    interrupted: str | None = None


@dataclass
class Workshop:
    """The setting in which artifacts are made, one after the other in one process."""

    store: Store
    session: Session
    command: str | None = None
    report: Report = field(default=silent)


class Artifact(Protocol):
    """One artifact, made or not. `spec` defines it and gives the key under which it is stored."""

    kind: ClassVar[str]

    @property
    def spec(self) -> Any:
        """The frozen record of everything that determines the artifact."""

    @property
    def regions(self) -> Sequence[str]:
        """The keys of the runs whose regions it needs."""

    @property
    def pair(self) -> tuple[Any, ...] | None:
        """The pair and task that a session holds while the artifact is made; None if it needs no session."""

    def title(self, labels: Mapping[str, Any]) -> str:
        """Return a title for the work of making it; `labels` are its step's."""

    def device(self, default: str) -> str:
        """Return the device on which it is to be made."""

    @classmethod
    def all_finished(cls, artifacts: Sequence[Self], store: Store) -> Mapping[str, Finished]:
        """Return the finished ones of these artifacts by key, reading the store once."""

    def check(self, checker: Checker) -> None:
        """Raise the errors that can be found before computing anything."""

    def finished(self, store: Store, stored: Stored | None = None) -> Finished | None:
        """Return the finished artifact, if there is one; `changes` tells if it is still current."""

    def changes(self, finished: Any, store: Store, session: Session) -> Change:
        """Return the comparison of its sources with the present ones: UNKNOWN if a source is gone or unreadable."""

    def make(self, workshop: Workshop, device: str, stored: Stored | None = None) -> None:
        """Make it, completely or not at all. A finished artifact is replaced, an interrupted one is resumed."""


@dataclass(frozen=True)
class RunArtifact:
    """A run. Each run has its own id in the store; if several have the same spec, the newest counts."""

    spec: RunSpec
    kind: ClassVar[str] = LOCALIZE

    @property
    def regions(self) -> Sequence[str]:
        """The keys of the runs named by a region expression or by an option of the localizer."""
        return _region_keys(self.spec)

    @property
    def pair(self) -> tuple[Any, ...]:
        """The pair, the task and the readout."""
        return self.spec.base, self.spec.finetuned, self.spec.task, self.spec.readout

    def title(self, labels: Mapping[str, Any]) -> str:
        """Return a title such as `movement 1%, seed 0: sst2 (sgd, seed 1)`."""
        spec = self.spec
        return f"{spec.localizer} {', '.join(spec.sizes)}, seed {spec.seed}: {pair_words(spec, labels)}"

    def device(self, default: str) -> str:
        """Return the device of the spec."""
        return self.spec.device

    @classmethod
    def all_finished(cls, artifacts: Sequence[Self], store: Store) -> Mapping[str, Run]:
        """Return the newest finished run of each key."""
        return newest_runs((artifact.spec for artifact in artifacts), store)

    def check(self, checker: Checker) -> None:
        """Check the pair, the tasks, the localizer, its options and the sizes."""
        spec = self.spec
        pair = checker.pair(spec.base, spec.finetuned, spec.task, spec.readout)
        checked_spec(spec, checker.task(spec.task), {name: checker.task(name) for name in spec.others}, pair, None)

    def finished(self, store: Store, stored: Stored | None = None) -> Run | None:
        """Return the run in the named folder."""
        try:
            return store.open(stored.finished) if stored and stored.finished else None
        except (RunNotFound, StoreError):
            return None

    def changes(self, finished: Run, store: Store, session: Session) -> Change:
        """Compare models, data, definitions of tasks, and the regions from which it was made."""
        record = finished.record
        change = changes_of(record.spec, record.base, record.finetuned, record.task, record.transfers, session)
        return change if change.comparison is not Comparison.SAME else _change_of_regions(finished, store)

    def make(self, workshop: Workshop, device: str, stored: Stored | None = None) -> None:
        """Resume the interrupted run from its checkpoint; make a new run if no checkpoint fits."""
        from skillviz.runs.produce import carry_on, produce  # torch

        folder = _reopened(workshop.store.root / stored.interrupted) if stored and stored.interrupted else None
        if folder is not None:
            folder.forget_keep_request()
            with suppress(WrongCheckpoint):  # the checkpoint is of other data or weights
                _refuse_stopped(carry_on(folder, workshop.report, workshop.session))
                return
        _refuse_stopped(produce(self.spec, workshop.store, workshop.report, workshop.session))


def _refuse_stopped(run: Run) -> None:
    """Raise StoreError for a run whose search a user ended: a study needs the whole search."""
    if run.record.stopped:
        raise StoreError(f"a user ended the search of run {run.id}; start the study again to make the whole search.")


def newest_runs(specs: Iterable[RunSpec], store: Store) -> dict[str, Run]:
    """Return the newest finished run of each spec that has one, by key."""
    keys = {spec.key() for spec in specs}
    return {run.record.key: run for run in reversed(store.list()) if run.record.key in keys}


def changes_of(
    spec: RunSpec,
    base: ModelNote | None,
    finetuned: ModelNote | None,
    task: TaskNote | None,
    others: Sequence[TransferNote],
    session: Session,
) -> Change:
    """Return the comparison of these notes with the present models, data and tasks, decided by the first difference.

    A spec names folders and files, whose content may have changed.
    """
    try:
        check, data, tasks_now = session.preflight(spec), session.splits(spec).fingerprint, session.others(spec)
    except (BadModel, BadInput) as error:
        return uncompared(error)
    for word, model, now in (("base", base, check.base), ("fine-tuned", finetuned, check.finetuned)):
        if model is None or model.fingerprint != now.fingerprint:
            return differs(f"the {word} model has changed")
    if task is None or task.fingerprint != data:
        return differs(DATA.format(session.task(spec).name))
    definitions = {task.name: compared(task.definition, definition(session.task(spec), check.readout))}
    if len(others) != len(tasks_now):
        return differs("the tasks that it is scored on have changed")
    for note, other in zip(others, tasks_now, strict=True):
        if note.fingerprint != other.fingerprint:
            return differs(DATA.format(note.name))
        definitions[note.name] = compared(note.definition, definition(other.task, check.readout))
    return change_of_definitions(definitions)


def change_of_definitions(definitions: Mapping[str, Comparison]) -> Change:
    """Return the change of a result whose other sources are the same, by its tasks' definitions."""
    for comparison, why in ((Comparison.DIFFERENT, DEFINITION), (Comparison.UNKNOWN, UNSTATED)):
        if name := next((name for name, one in definitions.items() if one is comparison), None):
            return Change(comparison, why.format(name))
    return CURRENT


def differs(why: str) -> Change:
    """Return a change with this reason."""
    return Change(Comparison.DIFFERENT, why)


def uncompared(error: Exception) -> Change:
    """Return the change for a source that cannot be read, with the reason."""
    return Change(Comparison.UNKNOWN, str(error.args[0]).rstrip(".") if error.args else type(error).__name__)


def pair_words(spec: Any, labels: Mapping[str, Any]) -> str:
    """Return `sst2 (lora, 16-shot, rank 8, seed 1)`: the task, and the labels of the fine-tuned model."""
    model = str(labels.get("recipe") or Path(spec.finetuned).name)
    seed = f", seed {labels['finetune_seed']}" if "finetune_seed" in labels else ""
    few = f", {labels['matrices']} of the matrices" if "matrices" in labels else ""
    return f"{labels['task_name']} ({model}{size_words(labels)}{few}{sample_words(spec)}{seed})"


def size_words(labels: Mapping[str, Any]) -> str:
    """Return `, rank 8` for LoRA or `, width 16` for adapters, if that was given; else an empty text."""
    return "".join(f", {name} {labels[name]}" for name in ("rank", "width") if labels.get(name))


def sample_words(spec: Any) -> str:
    """Return `, 16-shot` or `, 16-shot of data seed 2` for a sample of the training examples; empty if all are used."""
    which = f" of data seed {spec.data_seed}" if spec.data_seed else ""
    return f", {spec.k_shot}-shot{which}" if spec.k_shot else ""


def _reopened(path: Path) -> RunFolder | None:
    """Return the folder of an interrupted run, queued again; None if a process works on it or it is unreadable."""
    try:
        folder = RunFolder(path)
        folder.reopen()
    except StoreError:
        return None
    return folder


def _region_keys(spec: RunSpec) -> Sequence[str]:
    if spec.localizer == EXPRESSION:
        return keys_in(spec.options.get(EXPRESSION))
    row = LOCALIZERS.get(spec.localizer)
    key = key_of_region(spec, row) if row is not None else None
    return () if key is None else (key,)


def _change_of_regions(run: Run, store: Store) -> Change:
    """Compare the present regions of the runs that a run names by key with the regions from which it was made."""
    keys = _region_keys(run.spec)
    if not keys:
        return CURRENT
    runs = library(store.root)
    try:
        before = {source.get("region_sha256") for source in run.region_header().get("made_of", ())}
        now = {runs.newest(key).record.files[REGION].sha256 for key in keys}
    except (RunNotFound, StoreError, BadInput, BadModel) as error:
        return uncompared(error)
    except KeyError:
        return Change(Comparison.UNKNOWN, "a run that it names by key has no stored region")
    return CURRENT if now <= before else differs(REGIONS)
