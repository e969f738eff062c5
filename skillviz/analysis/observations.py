"""What was measured, one record a model state, task and seed: the common ground of all tables of a study."""

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
"""Stands as the recipe of a run whose fine-tuned model came as a folder."""


@dataclass(frozen=True)
class TunedModel:
    """What is known of a fine-tuned model: its recipe, the entries that training touched (None: all), and what it was
    asked to be but for its seeds, by field."""

    recipe: str = PAIR_RECIPE
    touched: float | None = None
    fields: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """One state of one model on one split of one task.

    `model` tells fine-tuned models apart and `seed` searches on one of them. `requested_size` is the size as it was
    asked for: what groups regions whose size is an outcome. `model_fields` are what the model was asked to be but for
    its seeds, `search_fields` what the search was; `variant` and `search_variant` say in words what differs in them
    among models of one recipe, and searches of one localizer. `shown_readout` is the readout where models of one base
    are read in several ways. `answers` are missing where predictions are not stored.
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
        """The metrics that tables give of it: the task's own first, F1 only where it is that."""
        first, *others = metric_names(self.note.metric, (*COMPARED, "agreement", "recovered"))
        return [first, *(name for name in others if name in self.values)]

    def interval(self, metric: str) -> Interval:
        """The metric with its interval over examples, as it is stored; NaN for what is missing.

        A calibration error that was stored with another kind of interval has that of the answers, or none.
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
        """What tells this observation from the others of its row."""
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
        """Whether it is of a graft of some region."""
        return self.method.startswith("graft") and self.method != "graft_retrain"


KEYS = (
    "base", "recipe", "variant", "setting", "shown_readout", "id_task", "task", "split", "method", "localizer",
    "search_variant", "requested_size",
)  # fmt: skip
"""What observations that differ in their seeds alone have in common."""


def sides(observations: Iterable[Observation]) -> list[list[Observation]]:
    """Observations that differ in their seeds alone, together."""
    groups: dict[tuple[str, ...], list[Observation]] = {}
    for one in observations:
        groups.setdefault(tuple(getattr(one, key) for key in KEYS), []).append(one)
    return list(groups.values())


def once(observations: Iterable[Observation]) -> list[Observation]:
    """Each observation once: the ends of a pair are scored in every run on it. Models and localizers asked for in two
    ways have what differs as their variants."""
    distinct: dict[tuple[Any, ...], Observation] = {}
    for one in with_variants(list(observations)):
        names = [name for name in KEYS if name not in ("recipe", "variant")]  # the model says as much
        key = (*(getattr(one, name) for name in names), one.readout, *one.unit)
        if key not in distinct or (distinct[key].answers is None and one.answers is not None):
            distinct[key] = one
    return list(distinct.values())


def with_variants(observations: Sequence[Observation]) -> list[Observation]:
    """The observations with what differs among their models as `variant`, among their searches as `search_variant`."""
    models = label_variants([(_models(one), one.model_fields) for one in observations])
    searches = label_variants(
        [((one.id_task, one.method, one.localizer), one.search_fields) for one in observations], search_label
    )
    return [
        replace(one, variant=model, search_variant=search if one.localizer else "")
        for one, model, search in zip(observations, models, searches, strict=True)
    ]


def _models(one: Observation) -> tuple[Any, ...]:
    """The models among which differences are told: of one sequence those of its mode."""
    return one.base, one.recipe, one.setting, one.readout, one.id_task, one.model_fields.get("mode")


def with_readouts(observations: Sequence[Observation]) -> list[Observation]:
    """The observations with their readout shown, where models of one base have several."""
    readouts: dict[str, set[str]] = {}
    for one in observations:
        readouts.setdefault(one.base, set()).add(one.readout)
    return [replace(one, shown_readout=one.readout) if len(readouts[one.base]) > 1 else one for one in observations]


def of_run(run: Run, model: TunedModel | None = None) -> Iterator[Observation]:
    """The states of a run on its own task's splits and on other tasks' test sets, and its other sizes."""
    record, spec, model = run.record, run.spec, model or TunedModel()
    assert record.task is not None
    d = float(record.d or 0)
    is_control = rest_of(spec.localizer) == "zero"  # its region is no graft, and has no complement
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
    """What a study must say about itself: seeds, and test examples that were left out."""
    remarks = list(dict.fromkeys(sentence for one in observations for sentence in one.sentences))
    models: dict[tuple[str, str, str], set[str]] = {}
    for one in observations:
        models.setdefault((*one.training, one.id_task), set()).add(one.model)
    if models and max(map(len, models.values())) == 1:
        remarks.append("One fine-tuned model a task and recipe: intervals over seeds are over mask seeds alone.")
    return remarks or ["Nothing was left out."]


def leak_sentences(transfer: TransferNote, trained_on: str) -> tuple[str, ...]:
    """The sentence on test examples that stand in the training data, or that this was not checked; none where there
    are no such."""
    if transfer.dropped is None:
        return (f"{transfer.name}: not checked whether its test examples are in the training data of {trained_on}.",)
    if not transfer.dropped:
        return ()
    return (
        f"{transfer.name}: {transfer.dropped:,} of {transfer.rows:,} test examples are also in the training data of "
        f"{trained_on} too and are left out.",
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
    """The method that a run's graft is; a search within the biases is one of biases."""
    if run.spec.options.get("within") == "biases":
        return "graft_biases"
    return LOCALIZERS[run.spec.localizer].method


def numbers_of(scores: Scores, state: str) -> dict[str, Any]:
    """`values`, `ends` and `debiased` of a state by metric, as they are stored."""
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
    """The graft at the run's other sizes: numbers of its curve, and its answers where they are stored."""
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
