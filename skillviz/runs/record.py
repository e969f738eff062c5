"""The types of run.json, which holds everything about a run except its tables; and the reading of stored records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillviz import json_text
from skillviz.core.metrics import has_predictions
from skillviz.core.nulls import SHUFFLED
from skillviz.errors import CorruptRun, OtherVersion
from skillviz.layout import LAYOUT, refuse_another
from skillviz.regular_file import reading
from skillviz.runs.packed import file_of
from skillviz.runs.spec import RunSpec
from skillviz.tasks.task import CLASSIFICATION, GENERATION

Status = Literal["queued", "running", "finished", "failed", "cancelled", "unknown"]
"""`unknown` is shown for an open run whose process cannot be seen from here; it is never stored."""
SPLITS = ("validation", "test")
MOST_LETTERS = 100  # of a field's name in an error message


class Frozen(BaseModel):
    """An immutable record that refuses undeclared fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


T = TypeVar("T", bound=Frozen)


def content_of(path: Path) -> dict[str, Any]:
    """Return the object in a stored JSON file; raises CorruptRun if there is none, and NotReadable."""
    name = f"{path.name} in {path.parent}"
    try:
        with reading(name, CorruptRun):
            file = file_of(path.parent, path.name)
            content = json_text.loads(file) if isinstance(file, bytes) else json_text.read(file)
    except ValueError as error:
        raise CorruptRun(f"{name} cannot be read ({error}).") from error
    if not isinstance(content, dict):
        raise CorruptRun(f"{name} is not a record.")
    return content


def record_of(kind: type[T], content: Mapping[str, Any], path: Path) -> T:
    """Return the record in the content of a file.

    Raises OtherVersion if it has another layout or an undeclared field, and CorruptRun if a value is invalid.
    """
    name = f"{path.name} in {path.parent}"
    refuse_another(content, name)
    try:
        return kind(**content)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
    first = min(wrong, key=lambda each: each["type"] == "extra_forbidden")
    place = " ".join(".".join(str(part) for part in first["loc"]).split())
    if first["type"] != "extra_forbidden":
        raise CorruptRun(f"{name}: '{place}': {first['msg']}.")
    raise OtherVersion(
        f"{name} was made by another version of skillviz (it has the field '{place[:MOST_LETTERS]}', which this "
        "version does not know); make it again, or open it with that version."
    )


def read_as(kind: type[T], path: Path) -> T:
    """Return the record in a JSON file; raises the errors of `content_of` and `record_of`."""
    return record_of(kind, content_of(path), path)


class Estimate(Frozen):
    """A value with its 95% interval; None if it is not defined (never a made-up number).

    The interval of a calibration error is about `debiased`, which no other metric has; the plug-in `value` may lie
    outside it. In a difference a - b of shares, `gained` and `lost` are the examples that only a and only b gets right;
    where they are missing, as in the shipped runs, its p-value is that of the interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    debiased: float | None = Field(default=None, exclude_if=lambda value: value is None)
    gained: int | None = Field(default=None, exclude_if=lambda value: value is None)
    lost: int | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def read(self) -> float | None:
        """The value to show first: for a calibration error, the debiased one."""
        return self.value if self.debiased is None else self.debiased

    def columns(self) -> dict[str, float | None]:
        """Return the estimate as the columns of a table: value, debiased, low, high."""
        return {"value": self.value, "debiased": self.debiased, "low": self.low, "high": self.high}


class Failure(Frozen):
    """The reason of a failed run: the error's class, its sentence, and advice."""

    kind: str
    message: str
    hint: str


class Check(Frozen):
    """One self-check of a run."""

    name: str
    passed: bool
    detail: str = ""


class ModelNote(Frozen):
    """The identification of one model of the pair; `steps` are its fine-tuning steps, if skillviz trained it."""

    source: str
    revision: str | None = None
    model_type: str = ""
    dtype: str = ""
    fingerprint: str = ""
    steps: int | None = Field(default=None, exclude_if=lambda value: value is None)


class TaskNote(Frozen):
    """The facts about the task that pages need without loading its data.

    `kind` is `choice` if every example has its own options, whose positions `labels` name, and `generation` if it has a
    reference. A generated text is the reference or another text, as `labels` say. `counts` are rows by split; `chance`
    is the expected accuracy of guessing by split (empty for classes, where it is one in the number of labels);
    `majority` is the share of the most frequent label by split (empty for options). `definition` has the hashes of the
    prompts and the scoring, one per readout (tasks.definition); `words` is the number of words of a training example;
    `max_length` is the longest input in tokens. A record may lack these three, and a missing definition equals no
    other.
    """

    name: str
    kind: Literal["classification", "choice", "generation"] = CLASSIFICATION
    labels: tuple[str, ...]
    metric: Literal["accuracy", "f1", "exact_match", "perplexity"] = "accuracy"
    positive: int | None = None
    fingerprint: str = ""
    counts: dict[str, int] = Field(default_factory=dict)
    majority: dict[str, float] = Field(default_factory=dict)
    chance: dict[str, float] = Field(default_factory=dict, exclude_if=lambda value: not value)
    definition: str = Field(default="", exclude_if=lambda value: not value)
    words: float = Field(default=0.0, exclude_if=lambda value: not value)
    max_length: int | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def has_classes(self) -> bool:
        """True if a label means the same in every example."""
        return self.kind == CLASSIFICATION

    @property
    def has_reference(self) -> bool:
        """True if every example has a reference, which is generated or scored by its likelihood."""
        return self.kind == GENERATION

    @property
    def generates(self) -> bool:
        """True if the model generates a text that is compared with the reference."""
        return self.has_reference and has_predictions(self.metric)

    def guessing(self, split: str) -> float:
        """Return the expected accuracy of guessing."""
        return self.chance.get(split, 1 / len(self.labels))


class Architecture(Frozen):
    """The numbers of the graftable parameters; `known` is False if the model family is not in the table.

    `stacks` are the name, first and last layer of an encoder and a decoder; each layer is used `repeats` times.
    """

    model_type: str
    known: bool
    d: int
    layers: int
    heads: int | None = None
    stacks: tuple[tuple[str, int, int], ...] = Field(default=(), exclude_if=lambda value: not value)
    repeats: int = Field(default=1, exclude_if=lambda value: value == 1)


class FileNote(Frozen):
    """The sha256 and the bytes of one file, by which run.json detects changes."""

    sha256: str
    size: int


class Scores(Frozen):
    """The metrics of one split.

    `states` maps a state to metric -> estimate. Besides the four states there is `finetuned_scaled`, the fine-tuned
    model at the temperature fitted on validation. `differences` are grafted - finetuned and `scaled_differences`
    grafted - finetuned_scaled, both paired. `recovered` is the share of the gain from pretrained to finetuned that the
    graft keeps, in the task's metric.
    """

    n: int
    states: dict[str, dict[str, Estimate]]
    differences: dict[str, Estimate] = Field(default_factory=dict)
    scaled_differences: dict[str, Estimate] = Field(default_factory=dict)
    agreement: Estimate | None = None
    recovered: Estimate | None = None

    def by_state(self) -> dict[str, dict[str, Any]]:
        """Return `metrics` by state and name, their 95% `intervals` [low, high], and `debiased` values.

        The intervals of calibration errors (l1) are for the debiased values.
        """
        states = self.states.items()
        return {
            "metrics": {s: {m: e.value for m, e in row.items()} for s, row in states},
            "intervals": {s: {m: [e.low, e.high] for m, e in row.items()} for s, row in states},
            "debiased": {s: {m: e.debiased for m, e in row.items() if e.debiased is not None} for s, row in states},
        }


class NullNote(Frozen):
    """The run's own search on null movements of one kind (core.nulls), `draws` times; `sizes` are the regions' sizes.

    `states` maps a split to the mean score of the nulls' grafts by metric, including `recovered` and `agreement`. Its
    interval is over draws and examples; for a single draw, over examples alone. `beyond` maps a split to the run's
    graft minus its nulls, in accuracy and in nats (`nll`, with its sign changed so that more is better). `true_signs`
    is the share of entries in the nulls' regions with the fine-tuned sign, if signs are drawn or learned. `gain` is the
    factor on the movement in the nulls' grafts, averaged if each null has its own; None if one has a gain by kind.
    """

    kind: str
    draws: int
    sizes: tuple[int, ...]
    states: dict[str, dict[str, Estimate]]
    beyond: dict[str, dict[str, Estimate]]
    true_signs: float | None = None
    gain: float | None = 1.0


class KindGain(Frozen):
    """The fitted gain of one module kind, with the others fixed, and its interval; `size` entries of the region have
    the kind. `high` is None if the examples do not rule out larger gains."""

    kind: str
    size: int
    fitted: float
    low: float
    high: float | None


class GainNote(Frozen):
    """The gain of a size's graft, a null's graft, or the fine-tuned model (runs.gain): a factor on its movement.

    `fitted` is the gain of least NLL on one half of the validation examples, with its interval. `high` is None if
    `is_bounded` is false, and all three are None if the gain was given. `gain` is the fitted one unless 1 does better
    on the other half. `by_kind` are the gains by module kind, if requested; `gain` has them by name if these do best
    there. `states` maps a split to accuracy, NLL and ECE at `gain` and `temperature`, which is also fitted
    on the first half; `at_one` maps it to the same at gain 1 and its own temperature. A temperature is None if those
    examples do not determine it; the scores then use the unscaled logits.
    """

    of: Literal["grafted", "finetuned", "null"]
    kind: str = ""
    draw: int | None = None
    size: int | None = None
    gain: float | dict[str, float]
    by_kind: tuple[KindGain, ...] = Field(default=(), exclude_if=lambda value: not value)
    fitted: float | None = None
    low: float | None = None
    high: float | None = None
    is_bounded: bool = True
    temperature: float | None = None
    temperature_at_one: float | None = None
    states: dict[str, dict[str, Estimate]]
    at_one: dict[str, dict[str, Estimate]]


class TransferNote(Frozen):
    """The states on another task's test set, with that task's own prompt; `scores` are as for the run's own task.

    `named` is the task's name in the spec. Among its `rows`, `dropped` occur in the training data of the run's task
    (None if these were not available), and `unmapped` have a label that `mapping` maps to none. The other rows were
    scored, `scores.n` of them. `template` and `words` (one per label of the run's task) are empty for the head readout.
    `definition` is as in a TaskNote.
    """

    name: str
    named: str = ""
    mapping: dict[str, str | None]
    rows: int
    dropped: int | None = 0
    unmapped: int = 0
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    template: str = ""
    words: tuple[str, ...] = ()
    majority: float | None = None
    definition: str = Field(default="", exclude_if=lambda value: not value)
    scores: Scores


class RunRecord(Frozen):
    """run.json. Most fields are empty until the run is finished."""

    layout: int = LAYOUT
    run_id: str
    spec: RunSpec
    key: str
    status: Status
    created: str
    started: str | None = None
    finished: str | None = None
    error: Failure | None = None
    seeds: dict[str, int] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    device: str | None = None
    readout: str | None = None
    base: ModelNote | None = None
    finetuned: ModelNote | None = None
    task: TaskNote | None = None
    architecture: Architecture | None = None
    size: int | None = None
    share: float | None = None
    sizes: tuple[int, ...] = ()
    gain: float | dict[str, float] = 1.0
    """The factor on the movement in the graft of the main size: its values are base + gain x movement. It may be one
    factor by module kind."""
    metrics: dict[str, Scores] = Field(default_factory=dict)
    transfers: tuple[TransferNote, ...] = ()
    nulls: tuple[NullNote, ...] = Field(default=(), exclude_if=lambda value: not value)
    gains: tuple[GainNote, ...] = Field(default=(), exclude_if=lambda value: not value)
    temperature: float | None = None
    stopped: str = Field(default="", exclude_if=lambda value: not value)
    """The step after which a user ended the search, as "12 of 100"; such a run's `key` is that of no spec."""
    unfitted: str = Field(default="", exclude_if=lambda value: not value)
    """The reason, a key of `held_out.WHY`, why there is no temperature."""
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)
    files: dict[str, FileNote] = Field(default_factory=dict)

    @property
    def task_name(self) -> str:
        """The task's name, or its name in the spec if the run ended before the task was read."""
        return self.task.name if self.task else self.spec.task

    @property
    def has_classes(self) -> bool:
        """True if a label means the same in every example, or if the run ended before this was known."""
        return self.task is None or self.task.has_classes

    @property
    def has_reference(self) -> bool:
        """True if every example of the task has a reference."""
        return self.task is not None and self.task.has_reference

    @property
    def generates(self) -> bool:
        """True if the model generates a text that is compared with the reference."""
        return self.task is not None and self.task.generates

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty if examples have their own options or a reference."""
        return self.task.labels if self.task and self.task.has_classes else ()

    @property
    def metric(self) -> str:
        """The task's own metric; accuracy if the run ended before the task was read."""
        return self.task.metric if self.task else "accuracy"

    def gain_at(self, size: int) -> float | dict[str, float]:
        """Return the gain of the graft at a size; 1 if that size has no gain of its own."""
        return next((note.gain for note in self.gains if note.of == "grafted" and note.size == size), 1.0)

    def gain_of(self, expression: Mapping[str, Any], size: int) -> float | dict[str, float]:
        """Return the gain of the graft of an expression's region (`core.region_expression`).

        It is the run's gain for a size from its own ranking, and 1 for any other region.
        """
        is_of_run = dict(expression) in ({"run": self.run_id}, {"run": self.run_id, "size": size})
        return self.gain_at(size) if is_of_run else 1.0

    def null(self, split: str, kind: str = SHUFFLED) -> NullNote | None:
        """Return the null of a kind that was scored on a split; None if there is none."""
        return next((note for note in self.nulls if note.kind == kind and split in note.states), None)

    @property
    def d(self) -> int | None:
        """The number of graftable entries."""
        return self.architecture.d if self.architecture else None

    def headline(self) -> dict[str, Any]:
        """Return the values on the test set (else validation) with their intervals; see Scores.by_state."""
        scores = self.metrics.get("test") or self.metrics.get("validation") or Scores(n=0, states={})
        return {
            "run_id": self.run_id,
            "size": self.size,
            "d": self.d,
            "share": self.share,
            "seconds": round(sum(self.seconds.values()), 3),
            **scores.by_state(),
            "agreement": scores.agreement.value if scores.agreement else None,
        }
