"""The one table of metrics: the title, format, computation and interval of each.

All other modules read this table: runs score every row that has a kernel, studies compare the rows of rank `headline`
and `compared`, pages, figures, commands and reports take titles, units and digits from here. To add one:
docs/CONTRIBUTING.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.core import formats
from skillviz.core.calibration_error import BINS, bin_numbers, checked_bins, equal_mass_edges, equal_width_edges
from skillviz.core.generation import Perplexity
from skillviz.core.scores import (
    Floats,
    Integers,
    checked_logits,
    confidence,
    correct,
    f1_of,
    losses,
    outcomes,
    probabilities,
    squared_errors,
)
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, DifferenceVerdict
from skillviz.errors import BadInput

Statistic = Callable[[Floats], Floats]
"""The metric of every resample [resample] from weights [resample, n]: the number of times each draws each example."""


class Kernel(Protocol):
    """The computation of a metric from the logits [n, label] and labels [n] of one model."""

    def value(self, logits: Floats, labels: Integers, positive: int, bins: int) -> float:
        """The metric on all examples."""

    def statistic(self, logits: Floats, labels: Integers, positive: int, bins: int) -> Statistic:
        """Return the metric as a function of weights; values of single examples are computed once, outside."""


@dataclass(frozen=True)
class Mean:
    """The mean over examples of one number each, [n]."""

    each: Callable[[Floats, Integers], NDArray[np.float64] | NDArray[np.bool_]]

    def value(self, logits: Floats, labels: Integers, positive: int, bins: int) -> float:
        """The mean."""
        return float(self.each(logits, labels).mean())

    def statistic(self, logits: Floats, labels: Integers, positive: int, bins: int) -> Statistic:
        """The mean as a function of weights."""
        values = self.each(logits, labels).astype(np.float64)
        return lambda weights: weights @ values / len(values)


class F1:
    """F1 of the positive class; NaN if all examples or none are positive, because F1 is then uninformative."""

    def value(self, logits: Floats, labels: Integers, positive: int, bins: int) -> float:
        """F1 of the counts."""
        return float(self.statistic(logits, labels, positive, bins)(np.ones((1, len(labels))))[0])

    def statistic(self, logits: Floats, labels: Integers, positive: int, bins: int) -> Statistic:
        """F1 of the weighted counts."""
        table = outcomes(logits, labels, positive)
        if len(np.unique(labels == positive)) < 2:
            return lambda weights: np.full(len(weights), np.nan)
        return lambda weights: f1_of(weights @ table)


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error, with bins of equal width or of equal mass."""

    equal_mass: bool = False

    def value(self, logits: Floats, labels: Integers, positive: int, bins: int) -> float:
        """The error on all examples."""
        return ece(logits, labels, bins, self.equal_mass)

    def statistic(self, logits: Floats, labels: Integers, positive: int, bins: int) -> Statistic:
        """The error as a function of weights."""
        if self.equal_mass:  # every resample has its own bins
            return lambda weights: np.array([_of_resample(row.astype(int), logits, labels, bins) for row in weights])
        sure = confidence(probabilities(logits))
        return _equal_width(sure, sure - correct(logits, labels), checked_bins(bins))


def ece(logits: ArrayLike, labels: ArrayLike, bins: int = BINS, equal_mass: bool = False) -> float:
    """Expected calibration error (Eq. 6): mean over examples of |confidence - accuracy| of their bin; 0 to 1."""
    z, y = checked_logits(logits, labels)
    sure = confidence(probabilities(z))
    edges = equal_mass_edges(sure, bins) if equal_mass else equal_width_edges(bins)
    gaps = np.bincount(bin_numbers(sure, edges), weights=sure - correct(z, y), minlength=checked_bins(bins))
    return float(np.abs(gaps).sum() / len(y))


def _equal_width(sure: Floats, gaps: Floats, bins: int) -> Statistic:
    """Bins are fixed, so a resample's gap in a bin is a weighted sum of its examples' gaps."""
    used, column = np.unique(bin_numbers(sure, equal_width_edges(bins)), return_inverse=True)
    table = np.zeros((len(sure), len(used)))
    table[np.arange(len(sure)), column] = gaps
    return lambda weights: np.abs(weights @ table).sum(axis=1) / len(sure)


def _of_resample(times: Integers, logits: Floats, labels: Integers, bins: int) -> float:
    """The equal-mass error of a resample that draws each example so many times."""
    return ece(np.repeat(logits, times, axis=0), np.repeat(labels, times), bins, equal_mass=True)


@dataclass(frozen=True)
class Metric:
    """A row of the table. Values are stored in their own unit, shares as 0..1, and shown times `scale` in `unit`.

    `kernel` computes it from one model's logits; a metric of several models (`agreement`, `recovered`), of single
    classes, of regions or of a paper alone has none. `rank` says where it is shown beside a task's own metric:
    `headline` in every comparison, `compared` wherever two models are compared, `scored` only in the list of a run's
    scores. With `of_predictions` it is the same at every temperature. With `of_text` it is about references, whose
    scores are from `core.generation`; all others are about classes or options. `classes` is the number of classes that
    it needs. A gain `in_logs` is a difference of logarithms (see `merit`). `own` ranks the metrics that can be a task's
    own: the first one in its runs is its own; 0 if it cannot be one.
    """

    name: str
    title: str
    unit: Literal["%", "nats", ""] = "%"
    digits: int = 1
    lowest: float = 0.0
    highest: float = 1.0
    better: Literal["higher", "lower", ""] = "higher"
    interval: Literal["wilson", "bootstrap", "calibration", "none"] = "bootstrap"
    kernel: Kernel | None = None
    rank: Literal["headline", "compared", "scored"] = "scored"
    of_predictions: bool = False
    of_text: bool = False
    in_logs: bool = False
    classes: int | None = None
    own: int = 0
    help: str = ""

    @property
    def sign(self) -> float:
        """-1 if lower is better, else 1: a change times this factor is larger if it is better."""
        return -1.0 if self.better == "lower" else 1.0

    def merit(self, values: ArrayLike) -> Any:
        """Return one or more values on the scale of gains: larger is better, and a difference is a gain.

        Perplexity's merit is minus its logarithm, the mean log-likelihood per token in nats: a change from 256 to 16 is
        then as large as one from 16 to 1, like for the loss.
        """
        of = np.asarray(values, dtype=np.float64)
        return self.sign * (np.log(of) if self.in_logs else of)

    def mean(self, values: ArrayLike) -> float:
        """Return the mean of values whose gain equals the mean of their gains: geometric for a metric `in_logs`."""
        of = np.asarray(values, dtype=np.float64)
        return float(np.exp(np.log(of).mean()) if self.in_logs else of.mean())

    @property
    def scale(self) -> float:
        """The factor from the stored value to its display unit."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def axis(self) -> str:
        """The heading with unit: `accuracy, %`."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def difference_unit(self) -> str:
        """The unit of a difference of two values; empty if the metric has none."""
        return "points" if self.unit == "%" else self.unit

    @property
    def plug_in(self) -> Metric:
        """The metric with the title of a value that is not debiased: `ECE, plug-in`; unchanged without debiasing."""
        return replace(self, title=f"{self.title}, plug-in") if self.interval == "calibration" else self

    def difference_axis(self, subject: str) -> str:
        """A heading of differences with their unit: `graft − fine-tuned, points`."""
        return f"{subject}, {self.difference_unit}" if self.difference_unit else subject

    @property
    def heading(self) -> str:
        """The title with a first capital: `Accuracy`, `ECE`."""
        return self.title[:1].upper() + self.title[1:]

    def number(self, value: formats.Number) -> str:
        """The stored value in a sentence: `80.1%`, `0.430`; `n/a` if it is missing."""
        return formats.percent(value, self.digits) if self.unit == "%" else formats.number(value, self.digits)

    def text(self, value: formats.Number) -> str:
        """The stored value with its unit, for use without an axis: `80.1%`, `0.430 nats`."""
        number = self.number(value)
        return f"{number} {self.unit}" if self.unit == "nats" and number != formats.MISSING else number

    def ends(self, low: formats.Number, high: formats.Number) -> str:
        """The interval beside a value: `77.4–82.6`."""
        return formats.interval(low, high, self.digits, self.scale)

    def interval_text(self, low: float, high: float, over: str = "") -> str:
        """A 95% interval on its own, with the words of `over`; `no interval` if there is none."""
        if formats.missing(low) or formats.missing(high):
            return formats.NO_INTERVAL
        return f"95%{' over ' if over else ''}{over}: {self.ends(low, high)}"

    def hover(self, row: Mapping[Any, Any], where: str = "", over: str = "") -> str:
        """Return the hover text of a row with value, low, high and, for a calibration error, debiased, which is first.

        `7.9% ECE<br>95%: 6.1–9.6; plug-in 8.3%`.
        """
        center, plug_in = formats.read_first(row["value"], row.get("debiased"))
        behind = "" if plug_in is None else f"; plug-in {self.text(plug_in)}"
        return f"{self.text(center)} {self.title}{where}<br>{self.interval_text(row['low'], row['high'], over)}{behind}"

    def precise(self, low: formats.Number, high: formats.Number) -> Metric:
        """Return the metric with the digits that keep this interval of a difference from showing an excluded zero."""
        if low is None or high is None or formats.missing(low) or formats.missing(high):
            return self
        return replace(self, digits=formats.digits_apart(self.scale * low, self.scale * high, self.digits))

    def cell(
        self, value: formats.Number, low: formats.Number, high: formats.Number, debiased: formats.Number = None
    ) -> str:
        """A table's cell, its unit in the heading: `80.1 (77.4–82.6)`; `3.9 (2.6–5.2), plug-in 4.3`."""
        return formats.estimate(value, low, high, self.digits, self.scale, debiased)

    def change(self, value: formats.Number) -> str:
        """A difference of two values: `−2.9 points`, `+0.166 nats`."""
        if self.unit == "%" or value is None or formats.missing(value):
            return formats.points(value, self.digits)
        return f"{formats.signed(value, self.digits)} {self.unit}".rstrip()

    def amount(self, value: float) -> str:
        """The size of a difference, without its sign: `2.9 points`."""
        number = formats.number(abs(self.scale * value), self.digits)
        return f"{number} {self.difference_unit}" if self.unit == "%" else number

    def difference(
        self,
        value: formats.Number,
        low: formats.Number,
        high: formats.Number,
        debiased: formats.Number = None,
        level: str = "95%: ",
    ) -> str:
        """A difference of two values in a sentence: `−2.9 points (95%: −5.1 to −0.8)`.

        Calibration errors show the difference of the debiased ones. `level` precedes the interval, if there is one.
        """
        ends = self.ends(low, high)
        if ends == formats.NO_INTERVAL or value is None:
            return f"{self.change(value)} ({ends})"
        center, _ = formats.read_first(value, debiased)
        return f"{self.change(center)} ({level}{ends})"

    def verdict(self, low: formats.Number, high: formats.Number) -> DifferenceVerdict:
        """Return the verdict on a from the interval of a difference a - b: decided only if it excludes zero.

        Without an interval it is not measured. An interval of zero width at a value other than 0 comes from too few
        examples to resample, and counts as none.
        """
        if low is None or high is None or formats.missing(low) or formats.missing(high) or low == high != 0:
            return NOT_MEASURED
        if low <= 0 <= high:
            return NO_DIFFERENCE
        return "better" if (high < 0) == (self.better == "lower") else "worse"


def _of_confidence(logits: Floats, labels: Integers) -> Floats:
    return confidence(probabilities(logits))


_ROWS = (
    Metric(
        "accuracy", "accuracy", kernel=Mean(correct), interval="wilson", rank="headline", of_predictions=True, own=3,
        help="The share of examples whose predicted class is right. The interval is over examples.",
    ),
    Metric(
        "f1", "F1", kernel=F1(), of_predictions=True, classes=2, own=1,
        help="The harmonic mean of precision and recall of the positive class. Not measured where all examples are of "
        "one class.",
    ),
    Metric(
        "ece", "ECE", better="lower", interval="calibration", kernel=CalibrationError(), rank="headline",
        help="Expected calibration error: the mean distance between confidence and accuracy over bins of confidence "
        "(15 of equal width unless said otherwise). 0% is perfect. It says nothing about accuracy. "
        "Shown is the debiased error, which the 95% interval is about. The plug-in value, which papers report, is too "
        "high on few examples and may lie outside the interval; tables have it. docs/statistics.md explains both.",
    ),
    Metric(
        "ece_equal_mass", "equal-mass ECE", better="lower", interval="none",
        kernel=CalibrationError(equal_mass=True),
        help="Expected calibration error with bins that hold about as many examples each. It is the plug-in value, "
        "without an interval.",
    ),
    Metric(
        "nll", "NLL", "nats", 3, highest=math.inf, better="lower", kernel=Mean(losses), rank="headline",
        help="Negative log-likelihood of the true class, in nats: low when the model is right and justifiably "
            "confident.",
    ),
    Metric(
        "brier", "Brier score", "", 3, highest=2.0, better="lower", kernel=Mean(squared_errors), rank="compared",
        help="The squared distance of the probabilities from the true class, summed over classes: 0 is best, 2 worst.",
    ),
    Metric(
        "confidence", "mean confidence", better="", kernel=Mean(_of_confidence), interval="none",
        help="The probability that the model gives to the class it predicts.",
    ),
    Metric(
        "exact_match", "exact match", kernel=Mean(correct), interval="wilson", of_predictions=True, of_text=True, own=2,
        help="The share of examples whose generated text equals the reference. Text is generated greedily; white space "
        "does not count. The interval is over examples.",
    ),
    Metric(
        "perplexity", "perplexity", "", 2, lowest=1.0, highest=math.inf, better="lower", kernel=Perplexity(),
        of_text=True, in_logs=True, own=4,
        help="exp of the mean negative log-likelihood per token of the references. 1 means certain; guessing among all "
        "tokens gives the size of the vocabulary. The token that ends a reference counts too. The interval is over "
        "examples. Gain recovered is measured in its logarithm.",
    ),
    Metric(
        "agreement", "agreement", interval="wilson", of_predictions=True,
        help="The share of examples on which graft and fine-tuned model predict the same class, right or wrong. Of "
        "generated texts, the share on which both or neither match the reference.",
    ),
    Metric(
        "recovered", "gain recovered", lowest=-math.inf, highest=math.inf,
        help="(graft − pre-trained) / (fine-tuned − pre-trained) in the task's metric, of perplexity in its logarithm: "
        "100% means that the graft does as well as the fine-tuned model. Its interval comes from resampling the "
        "examples, all three models on the same ones.",
    ),
    Metric(
        "auroc", "AUROC", interval="none",
        help="Area under the ROC curve: the probability that the model is surer of a random test example than of a "
        "random text that fits no class. 50% is guessing, 100% tells all of them apart.",
    ),
    Metric(
        "aurc", "AURC", better="lower", interval="none",
        help="Area under the risk–coverage curve: the mean risk over all coverages. It is low if the model is often "
        "right and is less confident where it is wrong. Temperature scaling of two classes does not change it.",
    ),
    Metric(
        "smece", "smECE", better="lower", interval="none",
        help="Smooth calibration error (Blasiok and Nakkiran 2023): like ECE, with confidence and accuracy averaged "
        "under a Gaussian kernel instead of in bins. Its bandwidth is the one that equals the error, so there are no "
        "bins to choose. Like the plug-in ECE, it is too high on few examples; the interval allows for that.",
    ),
    Metric(
        "precision", "precision", interval="wilson", of_predictions=True,
        help="Of the examples that the model puts into the class, the share that belong there.",
    ),
    Metric(
        "recall", "recall", interval="wilson", of_predictions=True,
        help="Of the examples that belong to the class, the share that the model puts there.",
    ),
    Metric(
        "iou", "IoU", better="", interval="none",
        help="Intersection over union: the entries that two regions share, over all entries that either has. 100% "
        "for equal regions, 0% for regions apart; two large random regions share some by chance.",
    ),
    Metric(
        "overlap", "overlap", better="", interval="none",
        help="Of one region's entries, the share that the other region has too. It is not the same both ways: a small "
        "region can lie wholly inside a large one.",
    ),
    Metric("overlap_iou", "IoU with the FISH mask", better="", interval="none"),
    Metric("accuracy or F1", "accuracy or F1", of_predictions=True),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _ROWS}
SCORED = tuple(metric.name for metric in _ROWS if metric.kernel is not None)
"""The metrics that are computed from one model's logits."""
WITHOUT_INTERVAL = tuple(name for name in SCORED if METRICS[name].interval == "none")
HEADLINE = tuple(metric.name for metric in _ROWS if metric.rank == "headline")
OF_TEXT = tuple(metric.name for metric in _ROWS if metric.of_text)
"""The metrics of references."""
OWN = tuple(sorted((row for row in _ROWS if row.own), key=lambda row: row.own))
"""The rows that can be a task's own metric, in the order in which it is chosen."""
FOREMOST = ("f1", *HEADLINE, *OF_TEXT)
"""The metrics that can be a task's main one: its own, and the ones beside it."""
COMPARED = tuple(metric.name for metric in _ROWS if metric.rank in ("headline", "compared"))


def metric_row(name: str) -> Metric:
    """Return the metric's row; for an unknown name, one with that title, without unit, range or direction."""
    return METRICS.get(name) or Metric(name, name, "", 3, -math.inf, math.inf, "", "none")


def metric_heading(name: str) -> str:
    """The metric as a heading, for a choice on a page: `Accuracy`, `ECE`."""
    return metric_row(name).heading


def has_predictions(metric: str) -> bool:
    """True if a task with this metric has predictions that are right or wrong.

    False for the perplexity of references alone, if no text is generated.
    """
    row = metric_row(metric)
    return row.of_predictions or not row.of_text


def metric_names(metric: str, names: Iterable[str] = HEADLINE) -> list[str]:
    """Return the task's own metric first, then the others; F1 is included only if it is the task's own.

    If the own metric is about references, the metrics of references replace the metrics of classes; if nothing is
    predicted, metrics of predictions are left out.
    """
    if metric_row(metric).of_text:
        names = (*OF_TEXT, *(name for name in names if metric_row(name).kernel is None))
    if not has_predictions(metric):
        names = [name for name in names if not metric_row(name).of_predictions]
    return list(dict.fromkeys((metric, *names)))


def likelihood_metric(metric: str) -> str:
    """Return the metric that shows a change even if no prediction changes: NLL, or perplexity."""
    return "perplexity" if metric_row(metric).of_text else "nll"


def right_metric(metric: str) -> str:
    """Return the metric that is the share of correct examples, defined for any task: accuracy, or exact match.

    Perplexity if nothing is predicted.
    """
    if not has_predictions(metric):
        return metric
    return "exact_match" if metric_row(metric).of_text else "accuracy"


def panels(metric: str) -> list[str]:
    """The metrics side by side on a page: the task's own, ECE and NLL, or all metrics of generated texts."""
    return metric_names(metric, (name for name in HEADLINE if not METRICS[name].of_predictions))


def statistic(metric: str, logits: ArrayLike, labels: ArrayLike, positive: int = 1, bins: int = BINS) -> Statistic:
    """Return the metric as a function of weights; raises BadInput for a name that is not in SCORED."""
    return _kernel(metric).statistic(*checked_logits(logits, labels), positive, bins)


def score(
    logits: ArrayLike,
    labels: ArrayLike,
    metric: str = "accuracy",
    positive: int = 1,
    names: Collection[str] = SCORED,
) -> dict[str, float]:
    """Return the metrics of SCORED by name (or only those in `names`), without those that need other classes.

    `metric` is the task's own; raises BadInput if it is not in SCORED or needs other classes.
    """
    z, y = checked_logits(logits, labels)
    _kernel(metric)
    needed = METRICS[metric].classes
    if needed not in (None, z.shape[1]):
        raise BadInput(f"{metric} needs two classes; these predictions have {z.shape[1]}. Choose accuracy.")
    of_task = metric_names(metric, SCORED) if METRICS[metric].of_text else [n for n in SCORED if n not in OF_TEXT]
    rows = [METRICS[n] for n in SCORED if n in names and n in of_task]
    wanted = [row.name for row in rows if row.classes in (None, z.shape[1])]
    return {name: _kernel(name).value(z, y, positive, BINS) for name in wanted}


def _kernel(metric: str) -> Kernel:
    kernel = METRICS[metric].kernel if metric in METRICS else None
    if kernel is None:
        raise BadInput(f"'{metric}' is not a metric; known: {', '.join(SCORED)}.")
    return kernel
