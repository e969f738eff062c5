"""What a request is about: a pair by its run or by name, a region by its recipe, examples by split and sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz import __version__
from skillviz.core.encoded import Encoded
from skillviz.core.region import Region
from skillviz.core.region_expression import checked, region_of
from skillviz.errors import BadData, BadInput, PairMismatch
from skillviz.live.pair_cache import Held, Pairs
from skillviz.live.results import Results, request_key
from skillviz.models.checkpoint import ModelInfo
from skillviz.models.pair import ModelPair
from skillviz.runs.library import library
from skillviz.runs.record import ModelNote
from skillviz.runs.region_expression import in_full, stored_in
from skillviz.runs.run import Run
from skillviz.runs.session import expanded
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.tasks import registry
from skillviz.tasks.definition import definition, same_definition
from skillviz.tasks.stamp import task_stamp
from skillviz.tasks.task import SPLITS, Task

REMEMBERED = 12

Answer = dict[str, Any]


class Worker:
    """What one worker has: the runs that can be seen from a store, the pairs that it holds, the answers it keeps."""

    def __init__(self, store: Path | str) -> None:
        self.library, self.pairs, self.results = library(store), Pairs(), Results(store)
        self._once: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made for this key, which is remembered for a few of them."""
        if key not in self._once:
            self._once = {**dict(list(self._once.items())[1 - REMEMBERED :]), key: make()}
        return self._once[key]

    def kept(self, asked: Asked, key: str | None) -> Answer | None:
        """The answer to the same request, made before."""
        return self.results.get(asked.run.id, key) if asked.run and key else None

    def keep(self, asked: Asked, key: str | None, answer: Answer) -> None:
        """Keeps an answer about a run for later."""
        if asked.run and key:
            self.results.put(asked.run.id, key, answer)


class Asked:
    """The pair that a request is about; nothing is loaded before it is used."""

    def __init__(self, worker: Worker, pair: Any) -> None:
        if not isinstance(pair, Mapping):
            raise BadInput("say which pair is meant: {'run': <run id>}, or {'base', 'finetuned', 'task'}.")
        self.worker = worker
        self.run: Run | None = None
        if "run" in pair:
            if len(pair) > 1:
                raise BadInput("a pair is named by its run or by its models, not by both.")
            self.run = worker.library.open(str(pair["run"]))
        # a run of a machine with a GPU is looked at on one without, and the other way round
        self.spec: RunSpec = (
            read_spec(dict(pair)) if self.run is None else self.run.spec.model_copy(update={"device": "auto"})
        )

    @cached_property
    def held(self) -> Held:
        """The loaded pair; raises PairMismatch where its weights are not those that the run was made with."""
        held = self.worker.pairs.get(self.spec)
        if self.run is not None:
            pair, record = held.pair(self.spec), self.run.record
            _check_member(self.run, record.base, pair.base_info, self.spec.base)
            _check_member(self.run, record.finetuned, pair.finetuned_info, self.spec.finetuned)
        return held

    @property
    def pair(self) -> ModelPair:
        """The pair itself."""
        return self.held.pair(self.spec)

    @cached_property
    def task(self) -> Task:
        """The pair's task."""
        return registry.task(expanded(self.spec.task, "task"))

    def region(self, recipe: Mapping[str, Any] | None) -> Region:
        """The region of a recipe; of None, the run's main one."""
        if recipe is None:
            if self.run is None:
                raise BadInput("say which region is meant: a recipe such as {'layers': [0]}, or the pair by its run.")
            return self.run.region()
        return region_of(recipe, self.pair.table, stored_in(self.worker.library))

    def examples(self, split: str, sample: int | None) -> Encoded:
        """The examples of a split; raises BadData where they are no longer those of the run."""
        if split not in SPLITS:
            raise BadInput(f"'{split}' is not a split; known: {', '.join(SPLITS)}.")
        if sample is not None and sample < 1:
            raise BadInput(f"a sample has 1 or more examples; got {sample}.")
        told = self.run.record.task.fingerprint if self.run and self.run.record.task else ""
        if told and self.held.splits(self.spec).fingerprint != told:
            raise BadData(
                f"the examples of the task '{self.task.name}' are not those that run {self.run.id if self.run else ''} "
                "was made with; its data files have changed."
            )
        self._refuse_another_definition()
        if not len(getattr(self.held.splits(self.spec), split)):
            raise BadData(f"the task '{self.task.name}' has no examples in its {split} split.")
        return self.held.examples(self.spec, split, sample)

    def _refuse_another_definition(self) -> None:
        """Raises BadData where the run's task now asks in other words, or is scored otherwise."""
        told, readout = (self.run.record.task, self.run.record.readout) if self.run else (None, None)
        if told is not None and not same_definition(told.definition, definition(self.task, readout)):
            raise BadData(
                f"the definition of the task '{told.name}' (template, label words, metric or lengths) is not the one "
                f"that run {self.run.id if self.run else ''} was made with; bring the old one back, or localize again."
            )

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """Other examples, asked about as the pair's task is; raises BadData where it is no longer the run's."""
        self._refuse_another_definition()
        return self.held.encode(self.spec, frame)

    def key(self, operation: str, arguments: Mapping[str, Any]) -> str | None:
        """What tells this request from any other that could have another answer; None where nothing is kept."""
        if self.run is None:
            return None
        given = dict(arguments)
        if given.get("region") is not None:
            given["region"] = in_full(checked(given["region"]), self.worker.library)
        stamps = [task_stamp(self.task)]
        if isinstance(given.get("task"), str):
            stamps.append(task_stamp(registry.task(expanded(given["task"], "task"))))
        record = self.run.record
        members = [note.fingerprint for note in (record.base, record.finetuned) if note]
        own = {"run": self.run.id, "spec": record.key, "members": members, "version": __version__}
        return request_key({"operation": operation, "arguments": given, "stamps": stamps, **own})


def _check_member(run: Run, told: ModelNote | None, info: ModelInfo, source: str) -> None:
    if told is not None and told.fingerprint and told.fingerprint != info.fingerprint:
        raise PairMismatch(
            f"the weights of '{source}' are not those that run {run.id} was made with, so its region would be put "
            "on another model; bring the old weights back, or localize again."
        )
