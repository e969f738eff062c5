"""The gains of a run (core/gain.py): fitted on one half of the validation examples, compared with 1 on the other half.

The test set is only used for the scores. All grafts that are compared get the same fit: the run's at each size, those
of its nulls, and the fine-tuned model, whose gain extends the path from the base beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from skillviz.core.draws import stratified
from skillviz.core.encoded import Encoded
from skillviz.core.gain import GAINS, GainFit, gain_fit
from skillviz.core.region import Region
from skillviz.core.scores import losses
from skillviz.core.temperature import scaled, temperature_fit
from skillviz.models.pair import ModelPair
from skillviz.runs.metrics import Metrics, metrics
from skillviz.runs.part_scores import CHOSEN, ONE
from skillviz.runs.passes import Passes, digest, identity
from skillviz.runs.record import GainNote, TaskNote
from skillviz.runs.spec import FIT
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

    `fit` is None if the gain was given. A temperature is None if the examples do not determine it.
    """

    gain: float
    one: Logits
    chosen: Logits
    fit: GainFit | None = None
    temperatures: Mapping[str, float | None] = field(default_factory=dict)

    def numbers(self) -> np.ndarray:
        """Return the numbers stored beside the logits, float64 [1, 6]."""
        fit = self.fit or (np.nan,) * 3
        found = [np.nan if (t := self.temperatures.get(at)) is None else t for at in (ONE, CHOSEN)]
        return np.array([[self.gain, *fit, *found]])

    @classmethod
    def from_numbers(cls, numbers: np.ndarray, one: Logits, chosen: Logits) -> Gained:
        """Return the object rebuilt from `numbers`."""
        gain, *fit, first, second = map(float, numbers[0])
        temperatures = {at: None if np.isnan(t) else t for at, t in ((ONE, first), (CHOSEN, second))}
        return cls(gain, one, chosen, None if np.isnan(fit[0]) else GainFit(*fit), temperatures)

    def note(
        self, of: Literal["grafted", "finetuned", "null"], labels: Mapping[str, np.ndarray], task: TaskNote,
        size: int | None = None, kind: str = "", draw: int | None = None,
    ) -> GainNote:  # fmt: skip
        """Return its note for run.json."""
        fit = self.fit
        return GainNote(
            of=of, kind=kind, draw=draw, size=size, gain=self.gain, fitted=fit and fit.value, low=fit and fit.low,
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

    `base` are the logits of the base, which is the graft of gain 0, on the validation examples.
    """
    one = _scores(pair, region, data, 1.0, passes)
    if wanted != FIT:
        gain, fit = float(wanted), None
        chosen = _scores(pair, region, data, gain, passes)
    else:
        encoded = data.splits["validation"].take(data.fits)
        place = "gain", digest(encoded), *identity(region)
        grid = passes.kept(len(GAINS) - 1, *place)
        if grid is not None:
            passes.heard(len(grid) * len(encoded), len(grid) * int(encoded.lengths.sum()), FITTING, False)
        else:
            grid = _on_the_way(pair, region, encoded, list(map(float, GAINS[1:])), passes)
            passes.keep(grid, *place)
        fit = gain_fit(np.concatenate([base[None, data.fits], grid]), encoded.labels)
        chosen = _scores(pair, region, data, fit.value, passes)
        is_better = _loss(chosen, data) < _loss(one, data)
        gain, chosen = (fit.value, chosen) if is_better else (1.0, one)
    temperatures = {} if fit is None else {at: temperature_of(z, data) for at, z in ((ONE, one), (CHOSEN, chosen))}
    return Gained(gain, one, chosen, fit, temperatures)


def _on_the_way(
    pair: ModelPair, region: Region | None, encoded: Encoded, gains: Sequence[float], passes: Passes
) -> np.ndarray:
    """Return logits [gain, n, label] on the path from the base to the graft or the fine-tuned model, and beyond."""
    objective, path = pair.objective(encoded), FINETUNED_PATH if region is None else GRAFT_PATH
    objective.heard = lambda examples, tokens: passes.heard(examples, tokens, FITTING, True)
    with closing(path_logits(pair, objective, path, region, gains)) as points:
        return np.stack(list(points))


def _scores(pair: ModelPair, region: Region | None, data: GainData, gain: float, passes: Passes) -> Logits:
    """Return the logits [n, label] of each evaluated split at a gain."""
    scored = {}
    for split, encoded in data.splits.items():
        if region is not None or gain == 1:
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
