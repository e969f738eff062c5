"""Values shared by the runs of one pair and task: the pair, the encoded data, the scores of both models.

Needs no torch until the pair is loaded or rehearsed, or texts are encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.core.localizers.table import is_rescaled, rest_of
from skillviz.models.preflight import Preflight, preflight
from skillviz.models.tokenizer import encoded_for
from skillviz.runs.held_out import FEW, FEWEST, ONE_CLASS, Fit, against_fitting, fitted
from skillviz.runs.metrics import Metrics, metrics, with_scaled
from skillviz.runs.pace import Pace
from skillviz.runs.provenance import overlap_note
from skillviz.runs.record import TaskNote
from skillviz.runs.spec import RunSpec
from skillviz.runs.transfer import Other, OtherTexts, other_examples, other_texts, seen_texts
from skillviz.tasks import registry
from skillviz.tasks.leaks import training_texts
from skillviz.tasks.project import expanded
from skillviz.tasks.source import OUT_OF_SCOPE, out_of_scope
from skillviz.tasks.splits import Splits, load, sampled
from skillviz.tasks.task import Task

if TYPE_CHECKING:
    from skillviz.models.pair import ModelPair
    from skillviz.runs.passes import Passes

ENDS = ("pretrained", "finetuned")
EVALUATED = ("validation", "test")
OF_DATA = (
    "task", "splits", "overlap", "preflight", "others", "other_texts", "rehearsed", "encoded", "out_of_scope",
    "encoded_out_of_scope",
)  # fmt: skip
"""The values that are kept when the pair changes."""


@dataclass(frozen=True)
class OtherEnds:
    """Another task's examples as token ids, with logits and metrics of the pre-trained and fine-tuned model on them."""

    encoded: Encoded
    logits: dict[str, np.ndarray]
    metrics: dict[str, Metrics]


@dataclass
class Session:
    """Values by name, each with the key that determines it; only one pair is held, because models are large."""

    values: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)  # tokens through the model

    def task(self, spec: RunSpec) -> Task:
        """Return the spec's task. `splits` reports if its data are missing."""
        return self._remember("task", spec.task, lambda: registry.defined(spec.task, "task"))

    def splits(self, spec: RunSpec) -> Splits:
        """Return the task's examples under the spec's sampling."""
        caps = {"max_train": spec.max_train, "max_validation": spec.max_validation, "max_test": spec.max_test}
        task = self.task(spec)
        return self._remember(
            "splits", _data_key(spec), lambda: load(task, k_shot=spec.k_shot, seed=spec.data_seed, **caps)
        )

    def overlap(self, spec: RunSpec) -> tuple[str, ...]:
        """Return a note if test examples are training examples; texts are read once for all runs on the data."""
        return self._remember("overlap", _data_key(spec), lambda: overlap_note(self.splits(spec), self._training(spec)))

    def _training(self, spec: RunSpec) -> frozenset[bytes]:
        """Return digests of the training texts: the whole split even if a part is searched, as fine-tuning used all."""
        return seen_texts(self.task(spec), self.splits(spec), spec.max_train)

    def other_tasks(self, spec: RunSpec) -> dict[str, Task]:
        """Return the spec's other tasks by the names in it; `refuse_unfit` tells if they can be scored."""
        return {name: registry.task(name, "others") for name in spec.others}

    def others(self, spec: RunSpec) -> tuple[Other, ...]:
        """Return all test examples of the spec's other tasks; `encoded_others` samples them."""
        readout = self.preflight(spec).readout

        def make() -> tuple[Other, ...]:
            source = self.task(spec)
            training = training_texts(source) if spec.others else frozenset()
            tasks = self.other_tasks(spec).items()
            return tuple(other_examples(source, other, readout, training, named=name) for name, other in tasks)

        return self._remember("others", (spec.task, readout, spec.others), make)

    def other_texts(self, spec: RunSpec, named: str) -> OtherTexts:
        """Return the training texts of a task that a search may use instead of the spec's own."""
        splits, source = self.splits(spec), self.task(spec)
        return self._remember(
            "other_texts",
            (_data_key(spec), named),
            lambda: other_texts(source, registry.task(named, "texts"), splits, spec.max_train, spec.data_seed),
        )

    def encoded_texts(self, spec: RunSpec, texts: OtherTexts) -> Encoded:
        """Return these texts as token ids, read as the run's own."""
        return self._encode(spec, self.task(spec), texts.frame)

    def preflight(self, spec: RunSpec) -> Preflight:
        """Return the checked pair without its weights; raises the first problem."""
        base, finetuned = _models(spec)
        check = self._remember(
            "preflight", _pair_key(spec), lambda: preflight(base, finetuned, self.task(spec), spec.readout)
        )
        check.raise_first()
        return check

    def rehearsed(self, spec: RunSpec) -> tuple[Preflight, Any]:
        """Return the checked pair, with its tokenizers compared as loaded, and the tokenizer. Reads no weights."""
        from skillviz.models.pair import rehearse  # imports torch

        return self._remember("rehearsed", _pair_key(spec), lambda: rehearse(self.preflight(spec)))

    def pair(self, spec: RunSpec) -> ModelPair:
        """Return the loaded pair; another one is released first. A plan has refused models with adapters."""
        if self.values.get("pair", (None,))[0] != _pair_key(spec):
            self.values = {name: entry for name, entry in self.values.items() if name in OF_DATA}
        from skillviz.models.lean_pair import load_lean  # imports torch
        from skillviz.models.pair import load_pair  # imports torch

        base, finetuned = _models(spec)
        load: Callable[..., ModelPair] = load_lean
        if not spec.lean:
            load = partial(
                load_pair, is_scored=True, rest=rest_of(spec.localizer), rescaled=is_rescaled(spec.localizer)
            )
        make = partial(load, base, finetuned, readout=spec.readout, device=spec.device, dtype=spec.dtype)
        return self._remember("pair", _pair_key(spec), lambda: make(task=self.task(spec)))

    def weights(self, spec: RunSpec) -> str:
        """Return the sha256 of the model's weights as they were when the pair was loaded."""
        from skillviz.runs.selfcheck import fingerprint_of  # imports torch

        pair = self.pair(spec)
        return self._remember("weights", _pair_key(spec), lambda: fingerprint_of(pair))

    def tokenizer(self, spec: RunSpec) -> Any:
        """Return the pair's tokenizer, which has the maximum number of tokens for the model."""
        is_loaded = self.values.get("pair", (None,))[0] == _pair_key(spec)
        return self.pair(spec).tokenizer if is_loaded else self.rehearsed(spec)[1]

    def encoded(self, spec: RunSpec) -> dict[str, Encoded]:
        """Return the examples of each non-empty split as token ids."""
        splits, task, most = self.splits(spec), self.task(spec), self.tokenizer(spec).model_max_length
        frames = {"train": splits.train, "validation": splits.validation, "test": splits.test}
        return self._remember(
            "encoded",
            (_pair_key(spec), _data_key(spec), most),
            lambda: {split: self._encode(spec, task, frame) for split, frame in frames.items() if len(frame)},
        )

    def _encode(self, spec: RunSpec, task: Task, frame: pd.DataFrame) -> Encoded:
        """Return a task's examples for the pair's tokenizer and readout, truncated to the model's maximum length."""
        check = self.preflight(spec)
        return encoded_for(check.finetuned, task, frame, self.tokenizer(spec), check.readout)

    def ends(self, spec: RunSpec, passes: Passes | None = None) -> dict[str, dict[str, np.ndarray]]:
        """Return the logits [n, label] by split, then state, of the pre-trained and the fine-tuned model."""
        from skillviz.runs.passes import UNKEPT  # imports torch

        pair, encoded, predict = self.pair(spec), self.encoded(spec), (passes or UNKEPT).predict

        def make() -> dict[str, dict[str, np.ndarray]]:
            return {s: {e: predict(pair, encoded[s], s, e) for e in ENDS} for s in EVALUATED if s in encoded}

        return self._remember("ends", (_pair_key(spec), _data_key(spec)), make)

    def has_ends(self, spec: RunSpec) -> bool:
        """Return whether the scores of `ends` are known."""
        return self.values.get("ends", (None,))[0] == (_pair_key(spec), _data_key(spec))

    def against_fitting(self, spec: RunSpec) -> str:
        """Return the reason of `held_out.WHY` against a temperature on these validation examples.

        It is empty if no reason is known before the model is loaded.
        """
        folder, task, splits = self.preflight(spec).finetuned.folder, self.task(spec), self.splits(spec)
        return self._remember(
            "against_fitting",
            (spec.finetuned, _data_key(spec)),
            lambda: against_fitting(folder, task, splits, training=self._training(spec), is_own=True),
        )

    def against_gain(self, spec: RunSpec) -> str:
        """Return the reason against a gain, which one half of the validation examples fits and the other chooses."""
        labels = self.splits(spec).validation["label"]
        few = FEW if len(labels) < 2 * FEWEST else ""
        return self.against_fitting(spec) or few or (ONE_CLASS if labels.nunique() < 2 else "")

    def end_metrics(self, spec: RunSpec, task: TaskNote) -> tuple[Fit, dict[str, dict[str, Metrics]]]:
        """Return the fine-tuned model's temperature, and the metrics of both models by split and state."""
        ends, encoded = self.ends(spec), self.encoded(spec)

        def make() -> tuple[Fit, dict[str, dict[str, Metrics]]]:
            fit = Fit(None)
            if "validation" in ends:
                labels = encoded["validation"].labels
                fit = fitted(ends["validation"], labels, task.has_classes, self.against_fitting(spec))
            return fit, {
                split: {s: metrics(z, encoded[split].labels, task) for s, z in with_scaled(logits, fit.value).items()}
                for split, logits in ends.items()
            }

        return self._remember("end_metrics", (_pair_key(spec), _data_key(spec)), make)

    def encoded_others(self, spec: RunSpec) -> dict[str, Encoded]:
        """Return the other tasks' examples by name, as token ids; at most the spec's `max_test` per task."""

        def make() -> dict[str, Encoded]:
            sample = partial(sampled, most=spec.max_test, seed=spec.data_seed)
            return {o.task.name: self._encode(spec, o.task, sample(o.frame)) for o in self.others(spec)}

        most = self.tokenizer(spec).model_max_length
        return self._remember("encoded_others", (_pair_key(spec), _data_key(spec), spec.others, most), make)

    def other_ends(self, spec: RunSpec, task: TaskNote, passes: Passes | None = None) -> dict[str, OtherEnds]:
        """Return the results of both models on the other tasks by name, at the temperature of the run's own task."""
        from skillviz.runs.passes import UNKEPT  # imports torch

        pair, predict = self.pair(spec), (passes or UNKEPT).predict
        temperature = self.end_metrics(spec, task)[0].value

        def one(name: str, encoded: Encoded) -> OtherEnds:
            logits = {state: predict(pair, encoded, name, state) for state in ENDS}
            states = with_scaled(logits, temperature)
            return OtherEnds(encoded, logits, {s: metrics(z, encoded.labels, task) for s, z in states.items()})

        return self._remember(
            "other_ends",
            (_pair_key(spec), _data_key(spec), spec.others),
            lambda: {name: one(name, encoded) for name, encoded in self.encoded_others(spec).items()},
        )

    def out_of_scope(self, spec: RunSpec) -> pd.DataFrame | None:
        """Return the texts that fit no class, at most as many as test examples; None if the task has none."""

        def make() -> pd.DataFrame | None:
            frame = out_of_scope(self.task(spec))
            return None if frame is None else sampled(frame, most=spec.max_test, seed=spec.data_seed)

        return self._remember("out_of_scope", _data_key(spec), make)

    def encoded_out_of_scope(self, spec: RunSpec) -> Encoded | None:
        """Return the texts that fit no class as token ids."""
        frame = self.out_of_scope(spec)
        if frame is None:
            return None
        key = _pair_key(spec), _data_key(spec), self.tokenizer(spec).model_max_length
        return self._remember("encoded_out_of_scope", key, lambda: self._encode(spec, self.task(spec), frame))

    def texts(self, spec: RunSpec) -> dict[str, Encoded]:
        """Return all texts of the task as token ids, by split, and under OUT_OF_SCOPE the texts that fit no class."""
        outside = self.encoded_out_of_scope(spec)
        return {**self.encoded(spec), **({} if outside is None else {OUT_OF_SCOPE: outside})}

    def out_of_scope_ends(self, spec: RunSpec, passes: Passes) -> dict[str, np.ndarray]:
        """Return the logits [n, label] of both models on the texts that fit no class; empty if there are none."""

        def make() -> dict[str, np.ndarray]:
            pair, encoded = self.pair(spec), self.encoded_out_of_scope(spec)
            return {} if encoded is None else {e: passes.predict(pair, encoded, OUT_OF_SCOPE, e) for e in ENDS}

        return self._remember("out_of_scope_ends", (_pair_key(spec), _data_key(spec)), make)

    def movement(self, spec: RunSpec) -> pd.DataFrame:
        """Return the movement of each part of each tensor."""
        from skillviz.runs.layers import movement_summary  # imports torch

        pair = self.pair(spec)
        return self._remember("movement", _pair_key(spec), lambda: movement_summary(pair.movement))

    def _remember(self, name: str, key: Any, make: Any) -> Any:
        """Return the value made for `key`; the previous value is dropped."""
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
