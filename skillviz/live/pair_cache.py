"""The pairs that the worker holds, the one used longest ago let go first, and what was made of each."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from skillviz.core.encoded import Encoded
from skillviz.core.localizers.table import rest_of
from skillviz.models.pair import ModelPair
from skillviz.runs.session import Session, expanded
from skillviz.runs.spec import RunSpec
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.sample import sampled
from skillviz.tasks.splits import Splits
from skillviz.tasks.stamp import file_stamp, task_stamp
from skillviz.tasks.task import Task

MOST_PAIRS = 2
SHARE_OF_MEMORY = 0.5
KEPT = 8  # encoded sets of examples a pair


@dataclass
class Held:
    """One loaded pair with its task's data; `spec` tells which examples are meant."""

    session: Session = field(default_factory=Session)
    encoded: dict[tuple[Any, ...], Encoded] = field(default_factory=dict)

    def pair(self, spec: RunSpec) -> ModelPair:
        """The pair itself."""
        return self.session.pair(spec)

    def task(self, spec: RunSpec) -> Task:
        """The spec's task."""
        return self.session.task(spec)

    def splits(self, spec: RunSpec) -> Splits:
        """The task's examples under the spec's sampling."""
        return self.session.splits(spec)

    def examples(self, spec: RunSpec, split: str, sample: int | None = None) -> Encoded:
        """The examples of a split as token ids; with `sample`, so many of them, drawn by the spec's data seed."""
        key = (spec.data_seed, spec.k_shot, spec.max_train, spec.max_validation, spec.max_test, split, sample)
        if key not in self.encoded:
            frame = sampled(getattr(self.splits(spec), split), sample, spec.data_seed)
            self.encoded[key] = self.encode(spec, frame)
            for old in list(self.encoded)[:-KEPT]:
                del self.encoded[old]
        return self.encoded[key]

    def encode(self, spec: RunSpec, frame: pd.DataFrame) -> Encoded:
        """Any examples as token ids, asked about as the spec's task is."""
        pair = self.pair(spec)
        return encode(self.task(spec), frame, pair.tokenizer, pair.readout_name)

    def bytes(self, spec: RunSpec) -> int:
        """Memory of the pair's weights: the model, and the graftable vector at both ends."""
        pair = self.pair(spec)
        outside = [tensor for ends in pair.outside.values() for tensor in ends]
        tensors = [*pair.model.parameters(), pair.base, pair.finetuned, *outside]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Pairs:
    """At most `most` pairs, and no more than `most_bytes` of weights as long as there are two or more."""

    def __init__(self, most: int = MOST_PAIRS, most_bytes: int | None = None) -> None:
        self.most = most
        self.most_bytes = most_bytes or int(SHARE_OF_MEMORY * psutil.virtual_memory().total)
        self._held: dict[tuple[Any, ...], tuple[RunSpec, Held]] = {}

    def get(self, spec: RunSpec) -> Held:
        """The spec's pair, loaded where it is not held or its files have changed since."""
        members = spec.base, spec.finetuned, spec.task, spec.readout, spec.device, spec.dtype
        key = (*members, rest_of(spec.localizer), *_stamps(spec))
        if key in self._held:
            held = self._held.pop(key)[1]
        else:
            self._let_go(self.most - 1, self.most_bytes)
            held = Held()
            held.pair(spec)
        self._held[key] = spec, held
        self._let_go(self.most, self.most_bytes)
        return held

    def names(self) -> list[list[str]]:
        """Base, fine-tuned model and task of each pair, the one used last at the end."""
        return [[spec.base, spec.finetuned, spec.task] for spec, _ in self._held.values()]

    def _let_go(self, most: int, most_bytes: int) -> None:
        sizes = {key: held.bytes(spec) for key, (spec, held) in self._held.items()}
        while len(self._held) > most or (len(self._held) > 1 and sum(sizes.values()) > most_bytes):
            oldest = next(iter(self._held))
            del self._held[oldest], sizes[oldest]
            gc.collect()  # a model's modules refer to one another


def _stamps(spec: RunSpec) -> Iterator[Any]:
    """What tells that a local model was saved anew, or the task's files."""
    for text in (spec.base, spec.finetuned):
        folder = Path(expanded(text, "model"))
        if folder.is_dir():
            yield tuple(tuple(file_stamp(path)) for path in sorted(folder.glob("*.safetensors")))
    yield tuple(map(tuple, task_stamp(registry.task(expanded(spec.task, "task")))))
