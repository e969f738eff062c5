"""Measurements, one record per model state, task and seed: the input of all tables of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skillviz.analysis.answers import Answers, answers_by_state, answers_of_state, graft_answers
from skillviz.analysis.variants import Fields, label_variants, search_label
from skillviz.core.intervals import Interval, metric_interval
from skillviz.core.localizers.table import LOCALIZERS, has_outcome_size, rest_of
from skillviz.core.metrics import COMPARED, metric_names, metric_row
from skillviz.models.finetune.recipes import RECIPES
from skillviz.runs import tables
from skillviz.runs.metrics import SCALED, positive
from skillviz.runs.record import Estimate, Scores, TaskNote, TransferNote
from skillviz.runs.run import Run

TEST = "test"
PAIR_RECIPE = "given"
"""The recipe name of a run whose fine-tuned model was given as a folder."""


@dataclass(frozen=True)
class TunedModel:
    """A fine-tuned model: its recipe, the number of entries that training touched (None: all), and its requested
    settings by field, without seeds."""

    recipe: str = PAIR_RECIPE
    touched: float | None = None
    fields: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """One state of one model on one split of one task.

    `model` distinguishes fine-tuned models, and `seed` searches on one of them. `requested_size` is the size as
    requested; it groups regions whose size is an outcome. `model_fields` are the model's requested settings without its
    seeds, `search_fields` the settings of the search; `variant` and `search_variant` describe in words how they differ
    among models of one recipe, and searches of one localizer. `shown_readout` is the readout if models of one base have
    several. `answers` are missing if predictions are not stored.
    """

    base: str
    recipe: str
    setting: str
    id_task: str
    task: str
    split: str
    method: str
    localizer: str
    size: float
    share: float
    touched: float
    model: str
    seed: int
    n: int
    note: TaskNote
    readout: str = ""
    shown_readout: str = ""
    variant: str = ""
    search_variant: str = ""
    requested_size: str = ""
    model_fields: Fields = field(default_factory=dict)
    search_fields: Fields = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    debiased: Mapping[str, float] = field(default_factory=dict)
    answers: Answers | None = field(default=None, repr=False)
    sentences: tuple[str, ...] = ()

    @property
    def positive(self) -> int:
        """The positive class of F1."""
        return positive(self.note)

    @property
    def metrics(self) -> list[str]:
        """The metrics in tables: the task's own first, and F1 only if it is the task's own."""
        first, *others = metric_names(self.note.metric, (*COMPARED, "agreement", "recovered"))
        return [first, *(name for name in others if name in self.values)]

    def interval(self, metric: str) -> Interval:
        """The metric with its stored interval over examples; NaN for missing values.

        For a calibration error stored with another kind of interval, the interval is computed from the answers; without
        answers there is none.
        """
        value, debiased = self.values.get(metric, np.nan), self.debiased.get(metric, np.nan)
        if metric_row(metric).interval == "calibration" and np.isnan(debiased):
            return self._calibration(metric)
        return Interval(value, *self.ends.get(metric, (np.nan, np.nan)), debiased)

    def _calibration(self, metric: str) -> Interval:
        value = self.values.get(metric, np.nan)
        if self.answers is None or np.isnan(value):
            return Interval(value, np.nan, np.nan)
        answered = metric_interval(self.answers.logits, self.answers.labels, metric)
        return answered._replace(value=value)

    @property
    def unit(self) -> tuple[str, int]:
        """The model and seed, which distinguish this observation from the others of its row."""
        return self.model, self.seed

    @property
    def search(self) -> tuple[str, str]:
        """The localizer and its variant."""
        return self.localizer, self.search_variant

    @property
    def training(self) -> tuple[str, str]:
        """The recipe and its variant."""
        return self.recipe, self.variant

    @property
    def is_graft(self) -> bool:
        """True if it belongs to a graft of some region."""
        return self.method.startswith("graft") and self.method != "graft_retrain"


KEYS = (
    "base", "recipe", "variant", "setting", "shown_readout", "id_task", "task", "split", "method", "localizer",
    "search_variant", "requested_size",
)  # fmt: skip
"""Fields that are equal in observations that differ only in their seeds."""


def sides(observations: Iterable[Observation]) -> list[list[Observation]]:
    """Groups of observations that differ only in their seeds."""
    groups: dict[tuple[str, ...], list[Observation]] = {}
    for one in observations:
        groups.setdefault(tuple(getattr(one, key) for key in KEYS), []).append(one)
    return list(groups.values())


def once(observations: Iterable[Observation]) -> list[Observation]:
    """Each observation once: the base and fine-tuned model of a pair are scored in every run on it. Models and
    localizers with different settings get the differences as their variants."""
    distinct: dict[tuple[Any, ...], Observation] = {}
    for one in with_variants(list(observations)):
        names = [name for name in KEYS if name not in ("recipe", "variant")]  # the model already identifies these
        key = (*(getattr(one, name) for name in names), one.readout, *one.unit)
        if key not in distinct or (distinct[key].answers is None and one.answers is not None):
            distinct[key] = one
    return list(distinct.values())


def with_variants(observations: Sequence[Observation]) -> list[Observation]:
    """The observations with the differences of their models as `variant`, and of their searches as `search_variant`."""
    models = label_variants([(_models(one), one.model_fields) for one in observations])
    searches = label_variants(
        [((one.id_task, one.method, one.localizer), one.search_fields) for one in observations], search_label
    )
    return [
        replace(one, variant=model, search_variant=search if one.localizer else "")
        for one, model, search in zip(observations, models, searches, strict=True)
    ]


def _models(one: Observation) -> tuple[Any, ...]:
    """The group of models among which differences are described; models of one sequence are grouped by mode."""
    return one.base, one.recipe, one.setting, one.readout, one.id_task, one.model_fields.get("mode")


def with_readouts(observations: Sequence[Observation]) -> list[Observation]:
    """The observations, with their readout shown if models of one base have several."""
    readouts: dict[str, set[str]] = {}
    for one in observations:
        readouts.setdefault(one.base, set()).add(one.readout)
    return [replace(one, shown_readout=one.readout) if len(readouts[one.base]) > 1 else one for one in observations]


def of_run(run: Run, model: TunedModel | None = None) -> Iterator[Observation]:
    """The states of a run on its own task's splits and on other tasks' test sets, and its other sizes."""
    record, spec, model = run.record, run.spec, model or TunedModel()
    assert record.task is not None
    d = float(record.d or 0)
    is_control = rest_of(spec.localizer) == "zero"  # its region is not a graft and has no complement
    common: dict[str, Any] = {
        "base": spec.base, "recipe": model.recipe, "setting": setting(spec.k_shot), "id_task": record.task.name,
        "readout": record.readout or "", "model": spec.finetuned, "model_fields": model.fields,
        "search_fields": spec.search_fields() | ({} if spec.gain == 1 else {"gain": spec.gain}), "note": record.task,
    }  # fmt: skip
    sets: list[tuple[str, str, Scores, tuple[str, ...]]] = [
        (record.task.name, split, scores, ()) for split, scores in record.metrics.items()
    ]
    sets += [(t.name, TEST, t.scores, leak_sentences(t, record.task.name)) for t in record.transfers]
    for task, split, scores, sentences in sets:
        answers = answers_by_state(run.predictions(task), split, run.labels, record.temperature)
        for state, method, size in _states(run, model, d):
            if state not in scores.states or (is_control and state != "grafted"):
                continue
            yield Observation(
                **common, **size, task=task, split=split, method=method, n=scores.n, sentences=sentences,
                answers=answers.get(state), **numbers_of(scores, state),
            )  # fmt: skip
    yield from _other_sizes(run, common)


def setting(k_shot: int | None) -> str:
    """The training data in words: all, or 64-shot."""
    return f"{k_shot}-shot" if k_shot else "all"


def sentences(observations: Sequence[Observation]) -> list[str]:
    """The remarks that a study must show: on seeds, and on test examples that were left out."""
    remarks = list(dict.fromkeys(sentence for one in observations for sentence in one.sentences))
    models: dict[tuple[str, str, str], set[str]] = {}
    for one in observations:
        models.setdefault((*one.training, one.id_task), set()).add(one.model)
    if models and max(map(len, models.values())) == 1:
        remarks.append("One fine-tuned model a task and recipe: intervals over seeds are over mask seeds alone.")
    return remarks or ["Nothing was left out."]


def leak_sentences(transfer: TransferNote, trained_on: str) -> tuple[str, ...]:
    """The sentence on test examples that are in the training data, or were not checked; empty if there are none."""
    if transfer.dropped is None:
        return (f"{transfer.name}: not checked whether its test examples are in the training data of {trained_on}.",)
    if not transfer.dropped:
        return ()
    return (
        f"{transfer.name}: {transfer.dropped:,} of {transfer.rows:,} test examples are also in the training data of "
        f"{trained_on} and are left out.",
    )


def ends_of(model: TunedModel, d: float) -> list[tuple[str, str, dict[str, Any]]]:
    """The states without a region: name in the record, method, and columns."""
    touched = d if model.touched is None else model.touched
    whole = {"localizer": "", "size": np.nan, "share": np.nan, "seed": 0, "touched": touched}
    return [
        ("pretrained", "pretrained", {**whole, "touched": 0.0}),
        ("finetuned", RECIPES[model.recipe].method if model.recipe in RECIPES else "ft", whole),
        (SCALED, "ft_scaled", whole),
    ]


def _states(run: Run, model: TunedModel, d: float) -> list[tuple[str, str, dict[str, Any]]]:
    size = float(run.record.size or 0)
    region = {
        "localizer": run.spec.localizer, "size": size, "share": size / d if d else np.nan, "seed": run.spec.seed,
        "requested_size": "" if has_outcome_size(run.spec.localizer) else run.spec.sizes[0],
    }  # fmt: skip
    return [
        *ends_of(model, d),
        ("grafted", method_of(run), {**region, "touched": size}),
        ("complement", "complement", {**region, "touched": d - size}),
    ]


def method_of(run: Run) -> str:
    """The method name of a run's graft; a search within the biases has its own."""
    if run.spec.options.get("within") == "biases":
        return "graft_biases"
    return LOCALIZERS[run.spec.localizer].method


def numbers_of(scores: Scores, state: str) -> dict[str, Any]:
    """`values`, `ends` and `debiased` of a state by metric, as stored."""
    estimates: dict[str, Estimate] = dict(scores.states[state])
    if state == "grafted":
        extra = {"agreement": scores.agreement, "recovered": scores.recovered}
        estimates |= {name: value for name, value in extra.items() if value is not None}
    return {
        "values": {name: _number(e.value) for name, e in estimates.items()},
        "ends": {name: (_number(e.low), _number(e.high)) for name, e in estimates.items()},
        "debiased": {name: float(e.debiased) for name, e in estimates.items() if e.debiased is not None},
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _other_sizes(run: Run, common: Mapping[str, Any]) -> Iterator[Observation]:
    """The graft at the run's other sizes: the numbers in its curve, and its answers if they are stored."""
    record, spec = run.record, run.spec
    assert record.task is not None
    if len(record.sizes) < 2:
        return
    curve = run.curve()
    tuned: dict[Any, Answers] = {}
    if tables.SIZES.file in run.files:
        predictions, splits = run.predictions(), curve["split"].unique()
        tuned = {split: answers_of_state(predictions, split, run.labels, "finetuned") for split in splits}
    for requested, size in zip(spec.sizes[1:], record.sizes[1:], strict=False):
        rows = curve[curve["size"] == size]
        for split, part in rows.groupby("split", sort=False):
            scores = record.metrics.get(str(split))
            values = dict(zip(part["metric"], part["value"], strict=True))
            ends = {m: (low, high) for m, low, high in zip(part["metric"], part["low"], part["high"], strict=True)}
            debiased = dict(zip(part["metric"], part["debiased"], strict=True)) if "debiased" in part else {}
            yield Observation(
                **common, task=record.task.name, split=str(split), method=method_of(run), localizer=spec.localizer,
                size=float(size), share=size / record.d if record.d else np.nan, touched=float(size), seed=spec.seed,
                n=scores.n if scores else 0, requested_size=requested, values=values, ends=ends, debiased=debiased,
                answers=graft_answers(run, str(split), size, tuned[split]) if split in tuned else None,
            )  # fmt: skip
