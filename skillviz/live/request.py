"""The subject of a request: a pair by its run or by its models, a region by its expression, examples by split.

The worker keeps a few loaded pairs, the least recently used dropped first, and the values computed with each.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import psutil

from skillviz import __version__
from skillviz.core.comparison import Comparison
from skillviz.core.draws import stratified
from skillviz.core.encoded import Encoded
from skillviz.core.localizers.table import is_rescaled, rest_of
from skillviz.core.region import Region
from skillviz.core.region_expression import checked_expression, region_of
from skillviz.errors import BadData, PairMismatch
from skillviz.layout import LAYOUT
from skillviz.models.pair import ModelPair
from skillviz.runs.disk_cache import DiskCache, cache_key
from skillviz.runs.plan import in_full, stored_in
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.runs.store import ANSWERS, library
from skillviz.tasks import registry
from skillviz.tasks.definition import UNCOMPARED, compared, definition
from skillviz.tasks.project import expanded
from skillviz.tasks.task import Task
from skillviz.tasks.user_file import file_stamp, task_stamp

MOST_PAIRS = 2
MOST_VALUES = 20  # encoded sets of examples, logits, ... of each pair
SHARE_OF_MEMORY = 0.5

T = TypeVar("T")


@dataclass
class LoadedPair:
    """One loaded pair with its task's data, and the last computed values; a spec selects the examples."""

    session: Session = field(default_factory=Session)
    values: dict[Hashable, Any] = field(default_factory=dict)

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of this key, computed if it is not among the MOST_VALUES most recently used ones."""
        value: T = self.values.pop(key) if key in self.values else compute()
        self.values[key] = value
        for oldest in list(self.values)[:-MOST_VALUES]:
            del self.values[oldest]
        return value

    def examples(self, spec: RunSpec, split: str, sample: int | None = None) -> Encoded:
        """The examples of a split as token ids; with `sample`, that many of them, drawn by class and the data seed."""

        def encode_split() -> Encoded:
            frame = getattr(self.session.splits(spec), split)
            if sample is not None:
                frame = frame.iloc[stratified(frame["label"], sample, spec.data_seed)].reset_index(drop=True)
            return self.session.pair(spec).encode(self.session.task(spec), frame)

        sampling = spec.data_seed, spec.k_shot, spec.max_train, spec.max_validation, spec.max_test
        return self.remember(("examples", *sampling, split, sample), encode_split)

    def bytes(self, spec: RunSpec) -> int:
        """Return the bytes of the pair's weights: the model, and the graftable vector at both ends."""
        pair = self.session.pair(spec)
        outside = [tensor for ends in pair.outside.values() for tensor in ends]
        tensors = [*pair.model.parameters(), pair.base, pair.finetuned, *outside]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class PairCache:
    """A cache of at most `most` pairs, and of at most `most_bytes` of weights unless it has only one pair."""

    def __init__(self, most: int = MOST_PAIRS, most_bytes: int | None = None) -> None:
        self.most = most
        self.most_bytes = most_bytes or int(SHARE_OF_MEMORY * psutil.virtual_memory().total)
        self._pairs: dict[Hashable, tuple[RunSpec, LoadedPair]] = {}

    def get(self, spec: RunSpec) -> LoadedPair:
        """Return the spec's pair, loaded if it is not in memory or its files have changed since."""
        models = spec.base, spec.finetuned, spec.task, spec.readout, spec.device, spec.dtype
        key = (*models, rest_of(spec.localizer), is_rescaled(spec.localizer), *_stamps(spec))
        if key in self._pairs:
            loaded = self._pairs.pop(key)[1]
        else:
            self._let_go(self.most - 1)
            loaded = LoadedPair()
            loaded.session.pair(spec)
        self._pairs[key] = spec, loaded
        self._let_go(self.most)
        return loaded

    def _let_go(self, most: int) -> None:
        sizes = {key: loaded.bytes(spec) for key, (spec, loaded) in self._pairs.items()}
        while len(self._pairs) > most or (len(self._pairs) > 1 and sum(sizes.values()) > self.most_bytes):
            oldest = next(iter(self._pairs))
            del self._pairs[oldest], sizes[oldest]
            gc.collect()  # a model's modules refer to one another


def _stamps(spec: RunSpec) -> Iterator[Any]:
    """Yield size and time of a local model's weights and configuration, and of the task's files, to detect changes."""
    for source in (spec.base, spec.finetuned):
        folder = Path(expanded(source, "model"))
        if folder.is_dir():
            yield tuple(
                tuple(file_stamp(path)) for path in sorted([*folder.glob("*.safetensors"), *folder.glob("config.json")])
            )
    yield tuple(map(tuple, task_stamp(registry.defined(spec.task, "task"))))


FORM = "words of explanations"
"""The latest addition to the format of answers: stored answers without it are not used."""
DRAWN = "stratified on every task"
"""The way samples are drawn: stored answers about samples drawn in another way are not used."""


class Worker:
    """The resources of one worker: the runs of a store, the pairs in memory, the answers stored on disk."""

    def __init__(self, store: Path | str) -> None:
        self.library, self.pairs, self.results = library(store), PairCache(), DiskCache(Path(store) / ANSWERS)


class PairRequest:
    """The pair of a request; nothing is loaded before it is used."""

    def __init__(self, worker: Worker, pair: Mapping[str, Any]) -> None:
        self.worker = worker
        self.run: Run | None = worker.library.open(pair["run"]) if "run" in pair else None
        # a run from a machine with a GPU may be shown on one without, and the other way round
        self.spec: RunSpec = (
            read_spec(dict(pair))
            if self.run is None
            else self.run.spec.model_copy(update={"device": "auto", "lean": False})
        )

    @cached_property
    def loaded(self) -> LoadedPair:
        """The loaded pair; raises PairMismatch if its weights are not the run's."""
        loaded = self.worker.pairs.get(self.spec)
        if self.run is not None:
            pair, record = loaded.session.pair(self.spec), self.run.record
            for source, note, info in (
                (self.spec.base, record.base, pair.base_info),
                (self.spec.finetuned, record.finetuned, pair.finetuned_info),
            ):
                if note is not None and note.fingerprint and note.fingerprint != info.fingerprint:
                    raise PairMismatch(
                        f"the weights of '{source}' are not those that run {self.run.id} was made with, so its region "
                        "would be put on another model; restore the old weights, or localize again."
                    )
        return loaded

    @property
    def pair(self) -> ModelPair:
        """The loaded pair of models."""
        return self.loaded.session.pair(self.spec)

    @cached_property
    def task(self) -> Task:
        """The pair's task; a typed text needs none of its data."""
        return registry.defined(self.spec.task, "task")

    @cached_property
    def definition_is(self) -> Comparison:
        """The comparison of the definition of the run's task with the present one; SAME if no run is named."""
        if self.run is None:
            return Comparison.SAME
        note = self.run.record.task
        return compared(note.definition if note else None, definition(self.task, self.run.record.readout))

    @property
    def uncompared(self) -> str:
        """The sentence for an answer if that comparison is UNKNOWN; else empty."""
        return UNCOMPARED.format(self.task.name) if self.definition_is is Comparison.UNKNOWN else ""

    def region(self, expression: Mapping[str, Any] | None) -> Region:
        """Return the region of an expression; for None, the run's main one.

        The pair's grafts have the gain of the run at a region of its own, and gain 1 at any other.
        """
        run = self.run
        if expression is None:
            assert run is not None, "a pair without a run has no main region"
            self.pair.gain = run.record.gain
            return run.region()
        region = region_of(expression, self.pair.table, stored_in(self.worker.library))
        self.pair.gain = run.record.gain_of(expression, region.size) if run is not None else 1.0
        return region

    def examples(self, split: str, sample: int | None) -> Encoded:
        """Return the examples of a split; raises BadData if they are no longer the run's."""
        splits = self.loaded.session.splits(self.spec)
        fingerprint = self.run.record.task.fingerprint if self.run and self.run.record.task else ""
        if self.run and fingerprint and splits.fingerprint != fingerprint:
            raise BadData(
                f"the examples of the task '{self.task.name}' are not those that run {self.run.id} was made with; its "
                "data files have changed."
            )
        self._refuse_another_definition()
        if not len(getattr(splits, split)):
            raise BadData(f"the task '{self.task.name}' has no examples in its {split} split.")
        return self.loaded.examples(self.spec, split, sample)

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """Encode other examples in the words of the pair's task; raises BadData if it is no longer the run's."""
        self._refuse_another_definition()
        return self.pair.encode(self.task, frame)

    def _refuse_another_definition(self) -> None:
        """Raise BadData if the run's task now has other words or another scoring."""
        if self.run is None or self.run.record.task is None:
            return
        note = self.run.record.task
        if self.definition_is is Comparison.DIFFERENT:
            raise BadData(
                f"the definition of the task '{note.name}' (template, label words, metric or lengths) is not the one "
                f"that run {self.run.id} was made with; restore the old one, or localize again."
            )
        if note.max_length not in (None, now := self.pair.limit(self.task)):
            raise BadData(
                f"texts of the task '{note.name}' would be shortened to {now:,} tokens, and run {self.run.id} was made "
                f"with {note.max_length:,}; write 'max_length: {note.max_length}' into the task file, or localize "
                "again."
            )

    def key(self, operation: str, arguments: Mapping[str, Any]) -> str | None:
        """Return a key that is equal only for requests with the same answer; None if nothing is stored."""
        if self.run is None:
            return None
        full = dict(arguments)
        if full.get("region") is not None:
            full["region"] = in_full(checked_expression(full["region"]), self.worker.library)
        stamps = [task_stamp(self.task)]
        if isinstance(full.get("task"), str):
            stamps.append(task_stamp(registry.task(full["task"], "task")))
        record = self.run.record
        models = [note.fingerprint for note in (record.base, record.finetuned) if note]
        run = {"run": self.run.id, "spec": record.key, "models": models, "version": __version__, "layout": LAYOUT}
        run["form"] = FORM
        drawn = {"drawn": DRAWN} if full.get("sample") is not None else {}
        return cache_key({"operation": operation, "arguments": full, "stamps": stamps, **run, **drawn})
