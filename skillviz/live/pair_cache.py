"""The worker's memory: a few loaded pairs, the least recently used dropped first, and the values computed with each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from skillviz.core.draws import stratified
from skillviz.core.encoded import Encoded
from skillviz.core.localizers.table import is_rescaled, rest_of
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.tasks import registry
from skillviz.tasks.project import expanded
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
