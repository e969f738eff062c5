"""Scores of a fine-tuned model without grafts: the spec, the stored record, and the computation."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from skillviz.atomic import folder_lock, sha256, write_file, write_text
from skillviz.errors import CorruptRun, StoreError
from skillviz.layout import LAYOUT
from skillviz.models.heads import Readout
from skillviz.regular_file import has_size, regular
from skillviz.runs import tables
from skillviz.runs.artifact import (
    SCORE,
    Change,
    Checker,
    Stored,
    Workshop,
    changes_of,
    pair_words,
)
from skillviz.runs.folder import now
from skillviz.runs.metrics import split_scores
from skillviz.runs.process import Progress, Report, silent
from skillviz.runs.provenance import architecture_note, commit, model_note, task_note, versions
from skillviz.runs.record import (
    Architecture,
    FileNote,
    Frozen,
    ModelNote,
    Scores,
    TaskNote,
    TransferNote,
    read_as,
)
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, written
from skillviz.runs.transfer import refuse_unfit
from skillviz.tasks.refusals import validated

if TYPE_CHECKING:
    from skillviz.runs.session import Session

FOLDER = "scores"
SHORT = 12  # letters of the key in a file's name


class ScoreSpec(BaseModel):
    """A fine-tuned model to score on validation and test of its `task`, or (`on`) on another task's test set.

    The other task has the same labels. In both cases the temperature is fitted on the own task's validation examples,
    if possible. `k_shot`, `data_seed` and the caps choose those examples, as in a RunSpec.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = Field(min_length=1)
    finetuned: str = Field(min_length=1)
    task: str = Field(min_length=1)
    on: str | None = None
    readout: Readout | None = None
    k_shot: int | None = Field(default=None, ge=1)
    data_seed: int = Field(default=0, ge=0)
    max_train: int | None = Field(default=None, ge=1)
    max_validation: int | None = Field(default=None, ge=1)
    max_test: int | None = Field(default=None, ge=1)

    def json_text(self) -> str:
        """Return canonical JSON without unset fields."""
        fields = {name: value for name, value in self.model_dump(mode="json").items() if value not in (None, 0)}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """Return the sha256 of everything that determines the scores."""
        return hashlib.sha256(self.json_text().encode()).hexdigest()

    def run_spec(self, device: str = "auto") -> RunSpec:
        """Return the spec of a run whose session provides the pair, the examples and the predictions of both models."""
        fields = self.model_dump(exclude={"on"})
        return RunSpec(**fields, device=device, localizer="movement", others=(self.on,) if self.on else ())


def read_score_spec(values: dict[str, Any]) -> ScoreSpec:
    """Return the spec of these values; raises BadInput with one sentence if a field is invalid."""
    return validated(ScoreSpec, values, "the scores", "a field of scores")


class ScoreRecord(Frozen):
    """The JSON file of scores. `splits` are the metrics: validation and test of the own task, or test of the other."""

    layout: int = LAYOUT
    key: str
    spec: ScoreSpec
    created: str
    base: ModelNote
    finetuned: ModelNote
    task: TaskNote
    architecture: Architecture
    readout: str
    device: str | None = None
    temperature: float | None = None
    unfitted: str = ""
    splits: dict[str, Scores]
    transfer: TransferNote | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    seconds: float = 0.0
    files: dict[str, FileNote] = Field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """A finished artifact, read without torch from `path`, a JSON file."""

    path: Path
    record: Any

    @property
    def stamp(self) -> str:
        """The time when it was made."""
        return str(self.record.created)

    @property
    def device(self) -> str | None:
        """The device on which it was made."""
        return self.record.device

    @property
    def seconds(self) -> float:
        """The seconds that it took."""
        return float(self.record.seconds)


@dataclass(frozen=True)
class Score(Recorded):
    """Finished scores of one fine-tuned model; the table is beside the JSON file."""

    record: ScoreRecord

    @property
    def spec(self) -> ScoreSpec:
        """The settings of the scores."""
        return self.record.spec

    @property
    def metrics(self) -> dict[str, dict[str, float | None]]:
        """State (pretrained, finetuned, finetuned_scaled) to metric to value, on the test set."""
        return self.of("test")

    @property
    def intervals(self) -> dict[str, dict[str, tuple[float | None, float | None]]]:
        """State to metric to the 95% interval, on the test set."""
        states = self.record.splits["test"].states if "test" in self.record.splits else {}
        return {s: {m: (e.low, e.high) for m, e in row.items()} for s, row in states.items()}

    @property
    def dataset(self) -> str:
        """The name of the task whose examples were scored."""
        return self.record.transfer.name if self.record.transfer else self.record.task.name

    def of(self, split: str) -> dict[str, dict[str, float | None]]:
        """Return the same as `metrics`, for validation or test; empty if that split was not scored."""
        states = self.record.splits[split].states if split in self.record.splits else {}
        return {state: {metric: e.value for metric, e in row.items()} for state, row in states.items()}

    def predictions(self) -> pd.DataFrame:
        """Return the logits of the states pretrained and finetuned, as in a run's predictions.parquet."""
        table = _table(self.path)
        try:
            if sha256(regular(table)) == self.record.files[table.name].sha256:
                return pd.read_parquet(table)
            raise ValueError("its sha256 is not the stored one")
        except (OSError, ValueError) as error:
            raise CorruptRun(
                f"{table.name}, the predictions of scores, cannot be read ({error}); make the scores again."
            ) from error


def score_path(root: Path, spec: ScoreSpec) -> Path:
    """Return the JSON file for the scores under a store's root, which may not exist yet."""
    return root / FOLDER / f"{spec.key()[:SHORT]}.json"


def read_score(path: Path) -> Score | None:
    """Return the scores in a JSON file; None unless they are complete and of this version."""
    try:
        record = read_as(ScoreRecord, path)
    except StoreError:
        return None
    note = record.files.get(_table(path).name)
    return Score(path, record) if note is not None and has_size(_table(path), note.size) else None


def _table(path: Path) -> Path:
    return path.with_suffix(".parquet")


@dataclass(frozen=True)
class ScoreArtifact:
    """Scores, stored in two files named by their key."""

    spec: ScoreSpec
    kind: ClassVar[str] = SCORE
    regions: ClassVar[Sequence[str]] = ()

    @property
    def pair(self) -> tuple[Any, ...]:
        """The pair, the task and the readout."""
        return self.spec.base, self.spec.finetuned, self.spec.task, self.spec.readout

    def title(self, labels: Mapping[str, Any]) -> str:
        """Return a title such as `score sst2 (sgd, seed 1) on cr`."""
        stage = f" after stage {labels['stage']} ({labels['mode']})" if "stage" in labels else ""
        return f"score {pair_words(self.spec, labels)}{stage}" + (f" on {labels['on_name']}" if self.spec.on else "")

    def device(self, default: str) -> str:
        """Return the default device."""
        return default

    @classmethod
    def all_finished(cls, artifacts: Sequence[Self], store: Store) -> Mapping[str, Score]:
        """Return the stored scores of these artifacts, by key."""
        scores = {artifact.spec.key(): artifact.finished(store) for artifact in artifacts}
        return {key: score for key, score in scores.items() if score is not None}

    def check(self, checker: Checker) -> None:
        """Check the pair and the other task."""
        spec = self.spec
        checker.pair(spec.base, spec.finetuned, spec.task, spec.readout)
        if spec.on:
            refuse_unfit(checker.task(spec.task), {spec.on: checker.task(spec.on)})

    def finished(self, store: Store, stored: Stored | None = None) -> Score | None:
        """Return the stored scores, or None."""
        score = read_score(score_path(store.root, self.spec))
        return score if score is not None and score.spec == self.spec else None

    def changes(self, finished: Score, store: Store, session: Session) -> Change:
        """Compare models, data and definitions of tasks."""
        record = finished.record
        others = (record.transfer,) if record.transfer else ()
        spec = finished.spec.run_spec()
        return changes_of(spec, record.base, record.finetuned, record.task, others, session)

    def make(self, workshop: Workshop, device: str, stored: Stored | None = None) -> None:
        """Compute the scores with the session's pair."""
        make_score(self.spec, workshop.store, workshop.session, device=device, progress=workshop.report)


def make_score(
    spec: ScoreSpec, store: Store, session: Session, *, device: str = "auto", progress: Report | None = None
) -> Score:
    """Compute the scores with the session's pair, store them in place of earlier ones, and return them."""
    report, started = progress or silent, time.perf_counter()
    report(Progress("load", text="loading both models and the data"))
    run_spec = spec.run_spec(device)
    refuse_unfit(session.task(run_spec), session.other_tasks(run_spec))
    fields, frame = _computed(spec, run_spec, session, report)
    target = score_path(store.root, spec)
    path, checked = _table(target), tables.check(frame, "predictions")
    with written(store.root), folder_lock(target):
        write_file(path, lambda draft: checked.to_parquet(draft, index=False, **tables.encoding(checked)))
        files = {path.name: FileNote(sha256=sha256(path), size=path.stat().st_size)}
        seconds = round(time.perf_counter() - started, 3)
        record = ScoreRecord(key=spec.key(), spec=spec, created=now(), seconds=seconds, files=files, **fields)
        write_text(target, json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n")
        scores = read_score(target)
    assert scores is not None
    return scores


def _computed(spec: ScoreSpec, run_spec: Any, session: Session, report: Report) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the fields of the record, and the predictions."""
    from skillviz.models.device import describe  # imports torch
    from skillviz.runs.scoring import prediction_rows  # imports torch

    pair, encoded = session.pair(run_spec), session.encoded(run_spec)
    task: TaskNote = task_note(session.task(run_spec), session.splits(run_spec))
    task = task.model_copy(update={"max_length": pair.limit(session.task(run_spec))})
    report(Progress("predict", text="scoring the pre-trained and the fine-tuned model"))
    ends = session.ends(run_spec)
    report(Progress("evaluate", text="intervals"))
    (temperature, unfitted), known = session.end_metrics(run_spec, task)
    transfer = None
    if spec.on is None:
        splits = {s: split_scores(z, encoded[s].labels, task, temperature, known[s]) for s, z in ends.items()}
        frames = [
            prediction_rows(z, encoded[s].ids, encoded[s].labels, task.name, s, task.labels) for s, z in ends.items()
        ]
    else:
        (other,) = session.others(run_spec)
        other_ends = session.other_ends(run_spec, task)[other.task.name]
        labels = other_ends.encoded.labels
        splits = {"test": split_scores(other_ends.logits, labels, task, temperature, other_ends.metrics)}
        transfer = other.note(pair.readout_name, other_ends.encoded, splits["test"])
        frames = [
            prediction_rows(other_ends.logits, other_ends.encoded.ids, labels, other.task.name, "test", task.labels)
        ]
    fields = {
        "base": model_note(spec.base, pair.base_info), "finetuned": model_note(spec.finetuned, pair.finetuned_info),
        "task": task, "architecture": architecture_note(pair.table), "readout": pair.readout_name,
        "device": describe(pair.device), "temperature": temperature, "unfitted": unfitted, "splits": splits,
        "transfer": transfer, "versions": versions(), "commit": commit(),
    }  # fmt: skip
    return fields, pd.concat(frames, ignore_index=True)
