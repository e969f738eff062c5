"""A federation as a step of a study: its spec, its record with the rows of every round, and the table `federated`."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from skillviz.analysis.tables import check
from skillviz.atomic import folder_lock, write_text
from skillviz.core.comparison import Comparison
from skillviz.core.draws import LARGEST_SEED
from skillviz.core.seeds_interval import mean_of_intervals
from skillviz.errors import BadInput, BadModel, StoreError
from skillviz.layout import KEY, LAYOUT
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.finetune.recipes import FULL, Send
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.heads import Readout
from skillviz.runs.artifact import Change, Checker, Stored, Workshop, differs, uncompared
from skillviz.runs.folder import now
from skillviz.runs.process import Progress
from skillviz.runs.provenance import commit, versions
from skillviz.runs.record import Frozen, read_as
from skillviz.runs.score import Recorded
from skillviz.runs.store import FEDERATIONS, Store, written
from skillviz.studies.finetuned_model import data_fingerprint, task_name
from skillviz.tasks import registry
from skillviz.tasks.refusals import validated

if TYPE_CHECKING:
    from skillviz.runs.session import Session
    from skillviz.studies.results import Results

FEDERATED = "federated"


class FederatedSpec(BaseModel):
    """A federation: its base, its clients and their rounds.

    With one task, `clients` share its training rows; with several, each client has one task. In each round a client
    makes `steps` steps of plain SGD and sends all values, those of its `region`, or as many of `random` entries; the
    latter two are a `share` of the graftable entries.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    readout: Readout = "head"
    head: Literal["own", "linear"] = "own"
    clients: int = Field(default=4, ge=1, le=100)
    rounds: int = Field(default=5, ge=1)
    steps: int = Field(default=50, ge=1)
    send: Send = FULL
    share: float = Field(default=0.01, gt=0, le=1)
    batch_size: int = Field(default=16, ge=1)
    lr: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    k_shot: int | None = Field(default=None, ge=1)
    data_seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    max_train: int | None = Field(default=None, ge=1)
    max_validation: int | None = Field(default=None, ge=1)
    max_test: int | None = Field(default=None, ge=1)

    def key(self) -> str:
        """Return the sha256 of everything that determines the federation."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    @property
    def parties(self) -> int:
        """The number of clients."""
        return len(self.tasks) if len(self.tasks) > 1 else self.clients

    def size_of(self, d: int) -> int:
        """Return the number of a body's d entries that a client sends."""
        return d if self.send == FULL else max(1, round(self.share * d))

    def data_settings(self) -> DataSettings:
        """Return the settings of the examples."""
        caps = {name: getattr(self, name) for name in ("max_train", "max_validation", "max_test")}
        return DataSettings(self.k_shot, self.data_seed, **caps)


def read_federated(values: dict[str, Any]) -> FederatedSpec:
    """Return the spec of these values; raises BadInput with one sentence if a field is wrong or unknown."""
    return validated(FederatedSpec, values, "the federation", "a field of a federation", ("tasks",))


class FederatedRecord(Frozen):
    """The JSON file of a federation. `rows` are those of every round, `sources` the fingerprints of base and data."""

    layout: int = LAYOUT
    key: str
    spec: FederatedSpec
    sources: dict[str, str]
    d: int
    rows: list[dict[str, Any]]
    created: str
    device: str | None = None
    seconds: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None


@dataclass(frozen=True)
class Federated(Recorded):
    """A finished federation."""

    record: FederatedRecord


@dataclass(frozen=True)
class FederatedArtifact:
    """A federation, stored in a JSON file named by its key; an interrupted one resumes after its last whole round."""

    spec: FederatedSpec
    kind: ClassVar[str] = FEDERATED
    regions: ClassVar[Sequence[str]] = ()
    pair: ClassVar[None] = None

    def title(self, labels: Mapping[str, Any]) -> str:
        """Return a title such as `federate mr (4 clients send region, seed 0)`."""
        names = "+".join(task_name(task) for task in self.spec.tasks)
        return f"federate {names} ({self.spec.parties} clients send {self.spec.send}, seed {self.spec.seed})"

    def device(self, default: str) -> str:
        """Return the default device."""
        return default

    @classmethod
    def all_finished(cls, artifacts: Sequence[Self], store: Store) -> Mapping[str, Federated]:
        """Return the finished ones by key."""
        found = {artifact.spec.key(): artifact.finished(store) for artifact in artifacts}
        return {key: one for key, one in found.items() if one is not None}

    def check(self, checker: Checker) -> None:
        """Check the tasks, and that the base can be fine-tuned with the readout."""
        for task in self.spec.tasks:
            checker.pair(self.spec.base, None, task, self.spec.readout)
            if not checker.task(task).has_classes:
                raise BadInput(
                    f"'{task}' is answered by text; a federation needs tasks with labels: take another task."
                )

    def finished(self, store: Store, stored: Stored | None = None) -> Federated | None:
        """Return the stored federation, or None."""
        path = self.path(store)
        try:
            record = read_as(FederatedRecord, path)
        except StoreError:
            return None
        return Federated(path, record) if record.spec == self.spec else None

    def changes(self, finished: Federated, store: Store, session: Session | None = None) -> Change:
        """Compare the base and the data."""
        try:
            same = self.sources() == finished.record.sources
        except (BadModel, BadInput) as error:
            return uncompared(error)
        return Change(Comparison.SAME) if same else differs("the base or the data have changed")

    def sources(self) -> dict[str, str]:
        """Return the fingerprints of the base and of each task's examples."""
        sample = {name: getattr(self.spec, name) for name in ("k_shot", "data_seed", "max_train", "max_validation")}
        data = {task: data_fingerprint(task, max_test=self.spec.max_test, **sample) for task in self.spec.tasks}
        return {"base": read_info(resolve(self.spec.base)).fingerprint, **data}

    def path(self, store: Store) -> Path:
        """Return the JSON file, which may not exist yet."""
        return store.root / FEDERATIONS / f"{self.spec.key()[:12]}.json"

    def make(self, workshop: Workshop, device: str, stored: Stored | None = None) -> None:
        """Do the rounds that are not in the state of an interrupted federation, and write the record."""
        # these import torch
        from skillviz.models.device import describe, pick
        from skillviz.models.finetune import federated
        from skillviz.models.finetune.training import training_data
        from skillviz.models.state_file import UNREADABLE, read_state, write_state

        spec, begun, path = self.spec, time.perf_counter(), self.path(workshop.store)
        sources, rows, before, place = self.sources(), list[Any](), 0.0, path.with_suffix(".round.safetensors")
        config = TrainingConfig(
            readout=spec.readout, head=spec.head, steps=spec.steps, batch_size=spec.batch_size, lr=spec.lr,
            seed=spec.seed, keep="last",
        )  # fmt: skip
        data = training_data([registry.task(task) for task in spec.tasks], spec.data_settings(), spec.readout)
        clients = federated.Clients(
            spec.base, data, config.settings(), spec.clients, spec.send, spec.share, pick(device)
        )  # fmt: skip
        state = clients.start()
        with written(workshop.store.root), folder_lock(path):
            try:
                header, tensors = read_state(place, FEDERATED, f"the state of an interrupted federation in {place}")
                if header["sources"] == sources:
                    rows, before = header["rows"], header["seconds"]
                    state = federated.state_of(tensors, header["round"])
            except UNREADABLE:  # there is none, or it is damaged: start over
                pass

            def report(number: int, client: int, loss: float) -> None:
                text = f"round {number}, client {client + 1} of {spec.parties}"
                workshop.report(Progress("federate", number, spec.rounds, text, loss=loss))

            for after, new in federated.rounds(clients, spec.rounds, state, report):
                rows = [*rows, *({n: None if v != v else v for n, v in row._asdict().items()} for row in new)]
                if not after.round:
                    continue
                seconds = round(before + time.perf_counter() - begun, 3)
                header = {KEY: LAYOUT, "sources": sources, "rows": rows, "round": after.round, "seconds": seconds}
                write_state(place, FEDERATED, header, federated.tensors_of(after))
            record = FederatedRecord(
                key=spec.key(), spec=spec, sources=sources, d=state.body.numel(), rows=rows, created=now(),
                device=describe(pick(device)), versions=versions(), commit=commit(),
                seconds=round(before + time.perf_counter() - begun, 3),
            )  # fmt: skip
            write_text(path, json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n")
            place.unlink(missing_ok=True)


def federated_table(results: Results) -> dict[str, pd.DataFrame]:
    """Return the table `federated` of a study's federations; nothing if it has none.

    Bytes are summed over the clients of a round. Membership is the mean over clients and seeds, scores over seeds. Each
    `setting`, the fields in which the study's federations differ, has rows of its own.
    """
    records = [one.record for one in results.federations()]
    fields = [record.spec.model_dump(mode="json", exclude={"tasks", "send", "seed"}) for record in records]
    differing = [name for name in (fields[0] if fields else ()) if len({str(one[name]) for one in fields}) > 1]
    frames = [
        pd.DataFrame([{**row, "tasks": tuple(map(task_name, record.spec.tasks))} for row in record.rows]).assign(
            send=record.spec.send, clients=record.spec.parties, seed=record.spec.seed,
            size=float(record.spec.size_of(record.d)), share=record.spec.size_of(record.d) / record.d,
            setting=", ".join(f"{name} {own[name]}" for name in differing),
        )
        for record, own in zip(records, fields, strict=True)
    ]  # fmt: skip
    if not frames:
        return {}
    rows = []
    by = ["tasks", "setting", "clients", "send", "size", "share", "round", "task", "what"]
    for place, group in pd.concat(frames, ignore_index=True).groupby(by, sort=False):
        common = {**dict(zip(by, place, strict=True)), "n": int(group["n"].max()), "seeds": group["seed"].nunique()}
        if common["what"] == "bytes":
            total = float(group.groupby("seed")["value"].sum().mean())
            rows.append({**common, "value": total, "low": float("nan"), "high": float("nan")})
        elif group["low"].isna().any():  # too few examples for an interval, or an F1 without a predicted positive
            rows.append({**common, "value": float(group["value"].mean()), "low": float("nan"), "high": float("nan")})
        else:
            value, low, high, *_ = mean_of_intervals(group["value"], group["low"], group["high"])
            rows.append({**common, "value": value, "low": low, "high": high})
    return {"federated": check(pd.DataFrame(rows), "federated")}
