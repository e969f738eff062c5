"""The gains of a run (core/gain.py): fitted on one half of the validation examples, compared with 1 on the other half.

The test set is only used for the scores. All grafts that are compared get the same fit: the run's at each size, those
of its nulls, and the fine-tuned model, whose gain extends the path from the base beyond it. The fine-tuned model always
has a single gain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from skillviz.core.draws import stratified
from skillviz.core.encoded import Encoded
from skillviz.core.gain import GAINS, SWEEPS, Gain, GainFit, gain_fit, gain_fits
from skillviz.core.parameters import ENTRY_KINDS
from skillviz.core.region import Region
from skillviz.core.scores import losses
from skillviz.core.temperature import scaled, temperature_fit
from skillviz.models.pair import ModelPair
from skillviz.models.predict import predict
from skillviz.runs.metrics import Metrics, metrics
from skillviz.runs.part_scores import CHOSEN, ONE
from skillviz.runs.passes import Passes, digest, identity
from skillviz.runs.record import GainNote, KindGain, TaskNote
from skillviz.runs.spec import KINDS
from skillviz.runs.wise import FINETUNED_PATH, GRAFT_PATH, path_logits

FITTING = "fitting the gain"
MEASURES = ("accuracy", "nll", "ece")

Logits = Mapping[str, np.ndarray]


class GainData(NamedTuple):
    """The data for a gain: the evaluated splits, and the validation rows for fitting and for choosing a gain."""

    splits: Mapping[str, Encoded]
    fits: np.ndarray
    chooses: np.ndarray

    @classmethod
    def of(cls, splits: Mapping[str, Encoded], seed: int) -> GainData:
        """Return the data with the validation examples in two halves with equal classes; both empty without any."""
        labels = splits["validation"].labels if "validation" in splits else np.empty(0, dtype=np.int64)
        fits = stratified(labels, len(labels) // 2, seed)
        return cls(splits, fits, np.setdiff1d(np.arange(len(labels)), fits))


@dataclass(frozen=True)
class Gained:
    """A graft with its gain: logits [n, label] by split at gain 1 and at the chosen gain.

    `fit` is None if the gain was given. `by_kind` has the fitted gain of each module kind and its entries in the
    region, if these were requested. A temperature is None if the examples do not determine it.
    """

    gain: Gain
    one: Logits
    chosen: Logits
    fit: GainFit | None = None
    temperatures: Mapping[str, float | None] = field(default_factory=dict)
    by_kind: Mapping[str, tuple[GainFit, int]] = field(default_factory=dict)

    def numbers(self) -> np.ndarray:
        """Return the numbers stored beside the logits, float64 [1, k]; the gain is NaN if it is one by kind."""
        gain = np.nan if isinstance(self.gain, Mapping) else self.gain
        fit = self.fit or (np.nan,) * 3
        found = [np.nan if (t := self.temperatures.get(at)) is None else t for at in (ONE, CHOSEN)]
        kinds = [(ENTRY_KINDS.index(kind), *own, size) for kind, (own, size) in self.by_kind.items()]
        return np.array([[gain, *fit, *found, *itertools.chain.from_iterable(kinds)]])

    @classmethod
    def from_numbers(cls, numbers: np.ndarray, one: Logits, chosen: Logits) -> Gained:
        """Return the object rebuilt from `numbers`."""
        gain, *fit, first, second = map(float, numbers[0, :6])
        temperatures = {at: None if np.isnan(t) else t for at, t in ((ONE, first), (CHOSEN, second))}
        kinds = numbers[0, 6:].reshape(-1, 5).tolist()
        by_kind = {ENTRY_KINDS[int(kind)]: (GainFit(*own), int(size)) for kind, *own, size in kinds}
        used = {kind: own.value for kind, (own, _) in by_kind.items()} if np.isnan(gain) else gain
        return cls(used, one, chosen, None if np.isnan(fit[0]) else GainFit(*fit), temperatures, by_kind)

    def note(
        self, of: Literal["grafted", "finetuned", "null"], labels: Mapping[str, np.ndarray], task: TaskNote,
        size: int | None = None, kind: str = "", draw: int | None = None,
    ) -> GainNote:  # fmt: skip
        """Return its note for run.json."""
        fit = self.fit
        kinds = tuple(
            KindGain(kind=name, size=entries, fitted=own.value, low=own.low, high=own.high if own.is_bounded else None)
            for name, (own, entries) in self.by_kind.items()
        )
        gain = dict(self.gain) if isinstance(self.gain, Mapping) else self.gain
        return GainNote(
            of=of, kind=kind, draw=draw, size=size, gain=gain, by_kind=kinds,
            fitted=fit and fit.value, low=fit and fit.low,
            high=fit.high if fit and fit.is_bounded else None, is_bounded=fit is None or fit.is_bounded,
            temperature=self.temperatures.get(CHOSEN), temperature_at_one=self.temperatures.get(ONE),
            states=self._scored(self.chosen, CHOSEN, labels, task), at_one=self._scored(self.one, ONE, labels, task),
        )  # fmt: skip

    def _scored(self, logits: Logits, at: str, labels: Mapping[str, np.ndarray], task: TaskNote) -> dict[str, Metrics]:
        temperature = self.temperatures.get(at)
        of_split = {split: z if temperature is None else scaled(z, temperature) for split, z in logits.items()}
        return {split: metrics(z, labels[split], task, MEASURES) for split, z in of_split.items()}


def gained(
    pair: ModelPair, region: Region | None, data: GainData, base: np.ndarray, wanted: float | str, passes: Passes
) -> Gained:
    """Return a region's graft at the wanted gain, or the fine-tuned model's if there is no region.

    `base` are the logits of the base, which is the graft of gain 0, on the validation examples. Among gains of equal
    NLL on the choosing half, the simplest is chosen.
    """
    one = scores_at(pair, region, data, 1.0, passes)
    if not isinstance(wanted, str):
        return Gained(wanted, one, scores_at(pair, region, data, wanted, passes))
    encoded = data.splits["validation"].take(data.fits)
    grid = _kept(
        passes, encoded, len(GAINS) - 1, identity(region),
        lambda: _on_the_way(pair, region, encoded, list(map(float, GAINS[1:])), passes),
    )  # fmt: skip
    fit = gain_fit(np.concatenate([base[None, data.fits], grid]), encoded.labels)
    tried: list[tuple[Gain, Logits]] = [(1.0, one), (fit.value, scores_at(pair, region, data, fit.value, passes))]
    by_kind = dict[str, tuple[GainFit, int]]()
    if wanted == KINDS and region is not None:
        by_kind = _by_kind(pair, region, encoded, fit.value, passes)
        gains = {kind: own.value for kind, (own, _) in by_kind.items()}
        tried.append((gains, scores_at(pair, region, data, gains, passes)))
    used, chosen = min(tried, key=lambda one: _loss(one[1], data))
    temperatures = {at: temperature_of(z, data) for at, z in ((ONE, one), (CHOSEN, chosen))}
    return Gained(used, one, chosen, fit, temperatures, by_kind)


def _by_kind(
    pair: ModelPair, region: Region, encoded: Encoded, start: float, passes: Passes
) -> dict[str, tuple[GainFit, int]]:
    """Return the gain of each module kind in the region, fitted on these examples, and the kind's entries."""
    sizes = {kind: len(places) for kind, places in pair.table.by_kind(region.like(pair.table.shapes).flat()).items()}

    def logits_of(kind: str, gains: Mapping[str, float]) -> np.ndarray:
        def computed() -> np.ndarray:
            scored = []
            for gain in map(float, GAINS):
                with pair.with_gain({**gains, kind: gain}):
                    scored.append(predict(pair, encoded, "grafted", region, heard=heard))
            return np.stack(scored)

        return _kept(passes, encoded, len(GAINS), (*identity(region, gains), kind), computed)

    heard = partial(_heard, passes)
    fits = gain_fits(logits_of, sizes, start, encoded.labels)
    left = SWEEPS * len(GAINS) * (len(pair.table.kinds) - len(sizes))  # the pace counts every kind of the model
    passes.heard(left * len(encoded), left * int(encoded.lengths.sum()), FITTING, False)
    return {kind: (fit, sizes[kind]) for kind, fit in fits.items()}


def _kept(
    passes: Passes, encoded: Encoded, gains: int, of: tuple[object, ...], computed: Callable[[], np.ndarray]
) -> np.ndarray:
    """Return logits [gain, n, label] of the examples at many gains: stored ones, or computed and then stored."""
    place = "gain", digest(encoded), *of
    grid = passes.kept(gains, *place)
    if grid is not None:
        passes.heard(gains * len(encoded), gains * int(encoded.lengths.sum()), FITTING, False)
        return grid
    passes.keep(grid := computed(), *place)
    return grid


def _heard(passes: Passes, examples: int, tokens: int) -> None:
    """Report examples that a fit has scored."""
    passes.heard(examples, tokens, FITTING, True)


def _on_the_way(
    pair: ModelPair, region: Region | None, encoded: Encoded, gains: Sequence[float], passes: Passes
) -> np.ndarray:
    """Return logits [gain, n, label] on the path from the base to the graft or the fine-tuned model, and beyond."""
    objective, path = pair.objective(encoded), FINETUNED_PATH if region is None else GRAFT_PATH
    objective.heard = partial(_heard, passes)
    with closing(path_logits(pair, objective, path, region, gains)) as points:
        return np.stack(list(points))


def scores_at(pair: ModelPair, region: Region | None, data: GainData, gain: Gain, passes: Passes) -> Logits:
    """Return the logits [n, label] of each evaluated split at a gain."""
    scored = {}
    for split, encoded in data.splits.items():
        if region is not None or isinstance(gain, Mapping) or gain == 1:
            with pair.with_gain(gain):
                scored[split] = passes.predict(pair, encoded, split, "grafted" if region else "finetuned", region)
            continue
        (scored[split],) = _on_the_way(pair, None, encoded, [gain], passes)
    return scored


def _loss(logits: Logits, data: GainData) -> float:
    """Return the mean NLL on the choosing half, after temperature scaling fitted on the other half."""
    z, labels, temperature = logits["validation"], data.splits["validation"].labels, temperature_of(logits, data)
    z = z if temperature is None else scaled(z, temperature)
    return float(losses(z[data.chooses], labels[data.chooses]).mean())


def temperature_of(logits: Logits, data: GainData) -> float | None:
    """Return the temperature of least NLL on the fitting half; None without validation examples or at a bound."""
    if "validation" not in logits or not len(data.fits):
        return None
    fit = temperature_fit(logits["validation"][data.fits], data.splits["validation"].labels[data.fits])
    return None if fit.at_bound else fit.value
