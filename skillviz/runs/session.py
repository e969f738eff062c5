"""What runs of one pair and task share, kept between them: the pair, the encoded data, the ends' scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.core.localizers.table import is_rescaled, rest_of
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import ModelPair, load_pair, rehearse
from skillviz.models.predict import predict
from skillviz.models.preflight import Preflight, preflight
from skillviz.models.tokenizer import load_tokenizer
from skillviz.runs.layers import movement_summary
from skillviz.runs.metrics import Metrics, metrics, temperature_of, with_scaled
from skillviz.runs.provenance import overlap_note
from skillviz.runs.record import TaskNote
from skillviz.runs.selfcheck import fingerprint_of
from skillviz.runs.spec import RunSpec
from skillviz.runs.transfer import Other, other_examples, refuse_unfit, training_texts
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.project import expanded
from skillviz.tasks.sample import sampled
from skillviz.tasks.splits import Splits, load
from skillviz.tasks.task import Task

ENDS = ("pretrained", "finetuned")
EVALUATED = ("validation", "test")
OF_DATA = ("task", "splits", "overlap", "preflight", "others")  # what does not go with the pair


@dataclass(frozen=True)
class OtherEnds:
    """Another task's examples as token ids, and logits and metrics of the pre-trained and fine-tuned model on them."""

    encoded: Encoded
    logits: dict[str, np.ndarray]
    metrics: dict[str, Metrics]


@dataclass
class Session:
    """Values by name, each with what determines it. One pair is held at a time: models are large."""

    values: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    pace: float | None = None  # seconds that an example took through the model when the ends were scored

    def task(self, spec: RunSpec) -> Task:
        """The spec's task; whether its data are here shows in `splits`."""
        return self._remember("task", spec.task, lambda: registry.defined(spec.task, "task"))

    def splits(self, spec: RunSpec) -> Splits:
        """The task's examples under the spec's sampling."""
        caps = {"max_train": spec.max_train, "max_validation": spec.max_validation, "max_test": spec.max_test}
        task = self.task(spec)
        return self._remember(
            "splits", _data_key(spec), lambda: load(task, k_shot=spec.k_shot, seed=spec.data_seed, **caps)
        )

    def overlap(self, spec: RunSpec) -> tuple[str, ...]:
        """A note where test examples are training examples; the texts are read once for all runs on them."""
        return self._remember("overlap", _data_key(spec), lambda: overlap_note(self.splits(spec)))

    def refuse_unfit(self, spec: RunSpec) -> None:
        """Raises BadInput where one of the spec's other tasks cannot be scored; no data are read."""
        if spec.others:
            others = {name: registry.task(name, "others") for name in spec.others}
            refuse_unfit(self.task(spec), others)

    def others(self, spec: RunSpec) -> tuple[Other, ...]:
        """The test examples of the spec's other tasks, as many of each as of its own at the most."""
        readout = self.preflight(spec).readout

        def make() -> tuple[Other, ...]:
            source = self.task(spec)
            training = training_texts(source) if spec.others else frozenset()
            return tuple(
                other_examples(source, registry.task(name, "others"), readout, training, named=name)
                for name in spec.others
            )

        return self._remember("others", (spec.task, readout, spec.others), make)

    def preflight(self, spec: RunSpec) -> Preflight:
        """The checked pair without its weights; raises the first thing that does not fit."""
        base, finetuned = _models(spec)
        check = self._remember(
            "preflight", _pair_key(spec), lambda: preflight(base, finetuned, self.task(spec), spec.readout)
        )
        check.raise_first()
        return check

    def rehearse(self, spec: RunSpec) -> None:
        """Raises what loading the pair, or asking it the task, would raise; no weights are read."""
        if self.values.get("pair", (None,))[0] == _pair_key(spec):
            return
        check = self.preflight(spec)
        rehearse(check)
        encode(self.task(spec), self.splits(spec).train.head(1), load_tokenizer(check.tokenizer_folder), check.readout)

    def pair(self, spec: RunSpec) -> ModelPair:
        """The loaded pair; another one is let go first."""
        if self.values.get("pair", (None,))[0] != _pair_key(spec):
            self.values = {name: entry for name, entry in self.values.items() if name in OF_DATA}
        base, finetuned = _models(spec)
        load: Callable[..., ModelPair] = load_lean
        if not spec.lean:
            load = partial(load_pair, rest=rest_of(spec.localizer), rescaled=is_rescaled(spec.localizer))
        make = partial(load, base, finetuned, readout=spec.readout, device=spec.device, dtype=spec.dtype)
        return self._remember("pair", _pair_key(spec), lambda: make(task=self.task(spec)))

    def weights(self, spec: RunSpec) -> str:
        """sha256 of the model's weights as they were when the pair was loaded."""
        pair = self.pair(spec)
        return self._remember("weights", _pair_key(spec), lambda: fingerprint_of(pair))

    def encoded(self, spec: RunSpec) -> dict[str, Encoded]:
        """The examples of each split that has any, as token ids."""
        pair, splits, task = self.pair(spec), self.splits(spec), self.task(spec)
        frames = {"train": splits.train, "validation": splits.validation, "test": splits.test}
        return self._remember(
            "encoded",
            (_pair_key(spec), _data_key(spec)),
            lambda: {s: pair.encode(task, f) for s, f in frames.items() if len(f)},
        )

    def ends(self, spec: RunSpec) -> dict[str, dict[str, np.ndarray]]:
        """Logits [n, label] by split, then state, of the pre-trained and the fine-tuned model."""
        pair, encoded = self.pair(spec), self.encoded(spec)

        def make() -> dict[str, dict[str, np.ndarray]]:
            begun = time.perf_counter()
            logits_of = {s: {e: predict(pair, encoded[s], e) for e in ENDS} for s in EVALUATED if s in encoded}
            examples = sum(len(logits) for states in logits_of.values() for logits in states.values())
            self.pace = (time.perf_counter() - begun) / examples if examples else None
            return logits_of

        return self._remember("ends", (_pair_key(spec), _data_key(spec)), make)

    def end_metrics(self, spec: RunSpec, task: TaskNote) -> tuple[float | None, dict[str, dict[str, Metrics]]]:
        """The fine-tuned model's temperature, and the ends' metrics by split and state."""
        ends, encoded = self.ends(spec), self.encoded(spec)

        def make() -> tuple[float | None, dict[str, dict[str, Metrics]]]:
            fitted = temperature_of(ends["validation"], encoded["validation"].labels) if "validation" in ends else None
            return fitted, {
                split: {s: metrics(z, encoded[split].labels, task) for s, z in with_scaled(logits, fitted).items()}
                for split, logits in ends.items()
            }

        return self._remember("end_metrics", (_pair_key(spec), _data_key(spec)), make)

    def other_ends(self, spec: RunSpec, task: TaskNote) -> dict[str, OtherEnds]:
        """What the two ends do on the other tasks, by name; scored at the temperature of the run's own task."""
        pair, others = self.pair(spec), self.others(spec)
        temperature, _ = self.end_metrics(spec, task)

        def one(other: Other) -> OtherEnds:
            frame = sampled(other.frame, spec.max_test, spec.data_seed)
            encoded = pair.encode(other.task, frame)
            logits = {state: predict(pair, encoded, state) for state in ENDS}
            states = with_scaled(logits, temperature)
            return OtherEnds(encoded, logits, {s: metrics(z, encoded.labels, task) for s, z in states.items()})

        return self._remember(
            "other_ends", (_pair_key(spec), _data_key(spec), spec.others), lambda: {o.task.name: one(o) for o in others}
        )

    def movement(self, spec: RunSpec) -> pd.DataFrame:
        """How far each part of each tensor moved."""
        pair = self.pair(spec)
        return self._remember("movement", _pair_key(spec), lambda: movement_summary(pair.movement))

    def _remember(self, name: str, key: Any, make: Any) -> Any:
        """The value made for `key`; the one before it is dropped."""
        if self.values.get(name, (None,))[0] != key:
            self.values.pop(name, None)
            self.values[name] = (key, make())
        return self.values[name][1]


def _models(spec: RunSpec) -> tuple[str, str]:
    return expanded(spec.base, "base"), expanded(spec.finetuned, "finetuned")


def _pair_key(spec: RunSpec) -> tuple[Any, ...]:
    control = rest_of(spec.localizer), is_rescaled(spec.localizer)
    return spec.base, spec.finetuned, spec.task, spec.readout, spec.device, spec.dtype, spec.lean, control


def _data_key(spec: RunSpec) -> tuple[Any, ...]:
    return spec.task, spec.k_shot, spec.data_seed, spec.max_train, spec.max_validation, spec.max_test
