"""What is asked of a fine-tuned model apart from grafts: its scores on its own task, or on another one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillviz.errors import BadInput, CorruptRun
from skillviz.runs.record import Architecture, FileNote, Frozen, ModelNote, Scores, TaskNote, TransferNote
from skillviz.runs.spec import Readout, RunSpec
from skillviz.tasks.refusals import refused

FOLDER = "scores"
RECORD, PREDICTIONS = "score.json", "predictions.parquet"
SHORT = 12  # letters of the key in a folder's name
SCORE_VERSION = 1


class ScoreSpec(BaseModel):
    """A fine-tuned model scored on validation and test of its `task`, or (`on`) on the test set of another task with
    the same labels; the temperature is fitted on its own task's validation examples in both cases.

    `k_shot`, `data_seed` and the caps say which examples those are, as in a RunSpec.
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
        """Canonical JSON without what is not asked for."""
        said = {name: value for name, value in self.model_dump(mode="json").items() if value not in (None, 0)}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """sha256 of all that determines the scores."""
        return hashlib.sha256(self.json_text().encode()).hexdigest()

    def run_spec(self, device: str = "auto") -> RunSpec:
        """The run whose session has what is needed: the pair, the examples, the ends' predictions."""
        fields = self.model_dump(exclude={"on"})
        return RunSpec(**fields, device=device, localizer="movement", others=(self.on,) if self.on else ())


def read_score_spec(values: dict[str, Any]) -> ScoreSpec:
    """The spec of these values; raises BadInput with one sentence where a field is wrong."""
    try:
        return ScoreSpec(**values)
    except ValidationError as error:
        field, said = refused(error)
        raise BadInput(f"'{field}' of the scores cannot be used: {said}.") from error


class ScoreRecord(Frozen):
    """score.json. `splits` are the metrics by split: validation and test of the own task, or test of the other one."""

    schema_version: int = SCORE_VERSION
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
    splits: dict[str, Scores]
    transfer: TransferNote | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    seconds: float = 0.0
    files: dict[str, FileNote] = Field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """Finished scores of one fine-tuned model, read from their folder without torch."""

    path: Path
    record: ScoreRecord

    @property
    def spec(self) -> ScoreSpec:
        """What was asked for."""
        return self.record.spec

    @property
    def metrics(self) -> dict[str, dict[str, float | None]]:
        """State (pretrained, finetuned, finetuned_scaled) to metric to value, on the test set."""
        return self.of("test")

    @property
    def intervals(self) -> dict[str, dict[str, tuple[float | None, float | None]]]:
        """State to metric to the 95 % interval, on the test set."""
        states = self.record.splits["test"].states if "test" in self.record.splits else {}
        return {s: {m: (e.low, e.high) for m, e in row.items()} for s, row in states.items()}

    @property
    def dataset(self) -> str:
        """The name of the task whose examples were scored."""
        return self.record.transfer.name if self.record.transfer else self.record.task.name

    def of(self, split: str) -> dict[str, dict[str, float | None]]:
        """As `metrics`, of validation or test; empty where there are none."""
        states = self.record.splits[split].states if split in self.record.splits else {}
        return {state: {metric: e.value for metric, e in row.items()} for state, row in states.items()}

    def predictions(self) -> pd.DataFrame:
        """Logits of the states pretrained and finetuned, as in a run's predictions.parquet."""
        try:
            return pd.read_parquet(self.path / PREDICTIONS)
        except (OSError, ValueError) as error:
            raise CorruptRun(f"{PREDICTIONS} of the scores {self.path.name} cannot be read ({error}).") from error


def score_path(root: Path, spec: ScoreSpec) -> Path:
    """The folder that the scores have, or will have, under a store's root."""
    return root / FOLDER / spec.key()[:SHORT]


def read_score(path: Path) -> Score | None:
    """The scores in a folder; None where there are none that are whole."""
    try:
        content: dict[str, Any] = json.loads((path / RECORD).read_text(encoding="utf-8"))
        record = ScoreRecord(**content)
    except (OSError, ValueError, TypeError):
        return None
    whole = all((path / n).is_file() and (path / n).stat().st_size == note.size for n, note in record.files.items())
    return Score(path, record) if whole else None
