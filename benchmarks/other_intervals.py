"""Measure how often all other shown intervals contain the truth, on stored predictions and pools of seeds.

A simulation draws one sample from a population and computes the intervals of pages and tables, by the same functions.
One row of results/coverage_other.csv is one quantity on one population at one sample size.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks import mask_seeds
from benchmarks.frame import Rows, measure
from benchmarks.populations import stored_logits, stored_runs
from benchmarks.seed_pools import Pool, Shape, of_masks, of_spread
from skillviz.analysis.necessity import HALF, MOST, gain_size
from skillviz.analysis.overlaps import overlap
from skillviz.analysis.part_effects import excess
from skillviz.analysis.seeds import SeedsEstimate, apart
from skillviz.analysis.slices import LEAST
from skillviz.core import intervals
from skillviz.core.agreement import agreement, agreement_interval
from skillviz.core.calibration import smooth_error, smooth_reliability
from skillviz.core.calibration_error import calibration_difference, calibration_error
from skillviz.core.confusion import class_results
from skillviz.core.formats import markdown_table
from skillviz.core.generation import LOG_LIKELIHOOD, MINUS_TOKENS, REFERENCE, generated_scores
from skillviz.core.intervals import (
    bootstrap,
    metric_difference,
    metric_interval,
    paired_differences,
    recovered_gain,
    relative_gain,
    tango,
    whole_and_resampled,
    wilson,
)
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.core.many_comparisons import simultaneous
from skillviz.core.metrics import ece, score, statistic
from skillviz.core.region import Region
from skillviz.core.scores import correct, losses
from skillviz.core.seeds_interval import mean_of_intervals, seeds_and_examples
from skillviz.core.selective import RiskCoverage, aurc_difference, risk_coverage
from skillviz.core.separation import auroc, auroc_difference
from skillviz.core.stability import pairwise_iou, stability
from skillviz.core.temperature import scaled, temperature_fit
from skillviz.studies.task_unions import TaskScores, mean_relative_gain

SIZES = (300, 600, 1821)
SST2, MNLI, NEWS, TREC = (
    f"{task}-minilm-l6-stagewise-10646-s0" for task in ("sst2-sentences", "mnli", "ag-news", "trec")
)
COMPARED = ("accuracy", "f1", "nll", "brier")
DRAWS = intervals.draws
SPREADS = (0.5, 1.8, 4.0)
"""Standard deviations over seeds, in points of accuracy."""
CHECKED: tuple[tuple[str, str, float, Shape], ...] = (
    ("ag-news", NEWS, 1.2, "skewed"), ("trec", TREC, 2.6, "even"), ("mnli", MNLI, 5.0, "normal"),
    ("sst2-sentences", SST2, 3.0, "skewed"),
)  # fmt: skip
"""Pools of seeds that were not used while the interval was developed, at CHECKED_SIZES: run, spread, and shape."""
CHECKED_SIZES = (450, 1000, 3000)
SLICES = (20, 60, 150)
"""Numbers of examples of a slice; a metric has an interval from `analysis.slices.LEAST` examples."""
TOKEN_SPREADS = (0.3, 1.0)
"""Standard deviation over references of the log of their nats per token: 1 has a few very unlikely references."""
SCOPES = {
    f"confidences {'with ties' if spread > 1 else 'without ties'}, shifted by {shift:g}": (shift, spread)
    for shift in (0.3, 1.0, 1.8, 2.7) for spread in (1.0, 1.5)
}  # fmt: skip
"""Synthetic confidences of two models on a test set and on texts that fit no class: the distance of the two kinds in
standard deviations, and the ratio of the latter's spread."""
DIFFERENCE, APART, CHANGE = ", difference", ", difference, not paired", ", change of a difference"
"""The comparisons of two methods, appended to the name of a metric."""
COVERAGES = (0.05, 0.2, 0.5, 0.8)
"""The shares of examples that are answered."""
REAL, MIXED = "real masks of MR", "real masks of MR, two localizers"
"""The pools of real searches; the seeds of the second differ in a setting, too."""
CONTROLS = 3
"""The number of random controls of a part of a region."""

Answer = tuple[float, float, float]
"""Both ends of an interval, and the truth."""
Once = Callable[[np.random.Generator], dict[str, Answer]]


class Cell(NamedTuple):
    """One simulation: its function returns the answers of one sample, by quantity.

    `samples` is the number drawn for one repetition: below 1 if a sample takes long.
    """

    population: str
    detail: str
    n: int
    once: Once
    samples: float = 1.0


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    runs = {run: run for run in (SST2, MNLI, NEWS, TREC)}
    of_models: tuple[tuple[str, Callable[..., dict[str, Answer]], float], ...] = (
        ("shares", shares, 2.0), ("scores", scores, 1.0), ("classes", classes, 1.0),
        ("paired accuracy", paired_accuracy, 2.0), ("pairs", pairs, 1.0), ("scaled", less_scaled, 0.3),
    )  # fmt: skip
    for n, run, (detail, once, samples) in itertools.product(SIZES, runs, of_models):
        yield Cell(run, detail, n, partial(once, run, n), samples)
    yield from _cells(runs, "slice", on_a_slice, SLICES)
    yield from _cells({f"references, nats per token {s}": s for s in TOKEN_SPREADS}, "perplexity", perplexities)
    yield from _cells(SCOPES, "out of scope", separations, samples=2.0)
    yield from _cells(runs, "selective", selective, SIZES[:2], samples=0.5)
    controls = {f"like sst2-sentences, controls {one} points": partial(of_spread, SST2, one) for one in SPREADS}
    yield from _cells(controls, "part less controls", less_controls)
    yield from _cells(runs, "sizes", gain_sizes, samples=0.3)
    yield from _cells({SST2: SST2}, "path", best_of_path)
    shares_of = {f"61 independent points, {share:.0%} differ": share for share in (0.01, 0.05, 0.2)}
    yield from _cells(shares_of, "independent points", best_of_independent)
    for n, differ in ((600, 1), (600, 3), (600, 5), (600, 12), (300, 2), (1821, 2), (1821, 8)):
        about = {f"about {differ} predictions differ": differ}
        yield from _cells(about, "nearly alike", nearly_alike, (n,), 0.5 if n > 600 else 1.0)
    for (name, regions), count in itertools.product(REGIONS.items(), (3, 5, 10)):
        if count < 10 or name != ALIKE:  # too few for two sets of ten
            yield Cell(name, f"{count} regions", 0, partial(shared_by, regions, count))
    unseen = {
        f"unseen: {name}, {shape} seeds {spread} points": partial(of_spread, run, spread, shape)
        for name, run, spread, shape in CHECKED
    }
    for sizes, of, counts, end, once, samples in (
        (SIZES, POOLS, (2, 3, 5), "", over_seeds, 2.0), (CHECKED_SIZES, unseen, (3, 4, 5), "", over_seeds, 2.0),
        (SIZES[::2], POOLS, (2, 3, 5), ", ECE", errors_over_seeds, 0.2),
    ):  # fmt: skip
        for n, (name, pool), seeds in itertools.product(sizes, of.items(), counts):
            yield Cell(name, f"{seeds} seeds{end}", n, partial(once, pool, n, seeds), samples)
    spreads = {f"like sst2-sentences, seeds {spread} points": spread for spread in SPREADS}
    yield from _cells(spreads, "union of 3 seeds", union_gain)


def _cells(
    populations: Mapping[str, Any], detail: str, once: Callable[..., dict[str, Answer]],
    sizes: Sequence[int] = SIZES, samples: float = 1.0,
) -> Iterator[Cell]:  # fmt: skip
    """Yield a cell for each sample size and population; `once` takes the population's value, n and the draws."""
    for n, (name, population) in itertools.product(sizes, populations.items()):
        yield Cell(name, detail, n, partial(once, population, n), samples)


POOLS: dict[str, Callable[[], Pool]] = {
    **{f"like sst2-sentences, seeds {spread} points": partial(of_spread, SST2, spread) for spread in SPREADS},
    "like mnli, seeds 1.8 points": partial(of_spread, MNLI, 1.8), REAL: of_masks,
    MIXED: partial(of_masks, mixed=True),
}  # fmt: skip
"""Pools of seeds; each is made when it is used."""


def shares(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return Wilson intervals of accuracy and agreement."""
    graft, tuned, labels = _sample(run, n, random, ("grafted", "finetuned"))
    same, right, truth = agreement_interval(graft, tuned), correct(graft, labels), _truth(run)
    return {
        "accuracy": (*wilson(float(right.sum()), n), truth["accuracy"]),
        "agreement": (same.low, same.high, truth["agreement"]),
    }


def scores(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return bootstrap intervals of F1, NLL and the Brier score of one model."""
    graft, labels = _sample(run, n, random, ("grafted",))
    found = {metric: bootstrap(graft, labels, metric) for metric in _compared(run) if metric != "accuracy"}
    return {metric: (of.low, of.high, _truth(run)[metric]) for metric, of in found.items()}


def classes(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return precision, recall and F1 of the rarest and of the most frequent class of the graft."""
    graft, labels = _sample(run, n, random, ("grafted",))
    found = class_results({"graft": graft}, labels).set_index(["class", "metric"])
    return {
        f"{metric} of the {which} class": (*found.loc[(c, metric), ["low", "high"]], true)
        for (which, c, metric), true in _class_truth(run).items()
    }


@cache
def _class_truth(run: str) -> dict[tuple[str, int, str], float]:
    """Precision, recall and F1 on the whole population, by name of the class (rarest or largest), number and metric."""
    logits, labels = stored_logits(run, "grafted")
    values = class_results({"graft": logits}, labels, resamples=1).set_index(["class", "metric"])["value"]
    examples = np.bincount(labels)
    which = {"rarest": int(examples.argmin()), "largest": int(examples.argmax())}
    return {
        (name, c, metric): float(values[c, metric])
        for name, c in which.items()
        for metric in ("precision", "recall", "f1")
    }


def on_a_slice(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return paired differences to the fine-tuned model on few examples."""
    sample = _sample(run, n, random, ("grafted", "finetuned"))
    found = {m: metric_difference(*sample, m) for m in ("accuracy", "nll") if n >= LEAST[m]}
    truth = _truth(run)
    return {f"{m}, difference on a slice": (of.low, of.high, truth[f"{m}, difference"]) for m, of in found.items()}


def perplexities(spread: float, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the perplexity of one model, and the difference of two, on references of 2 to about 60 tokens."""
    both, truth = _references(spread)
    drawn = random.integers(0, both.shape[1], n)
    one, other, labels = *both[:, drawn], np.full(n, REFERENCE)
    single, less = metric_interval(one, labels, "perplexity"), metric_difference(one, other, labels, "perplexity")
    return {
        "perplexity": (single.low, single.high, truth[0]),
        "perplexity, difference": (less.low, less.high, truth[0] - truth[1]),
    }


def separations(of: tuple[float, float], n: int, random: np.random.Generator) -> dict[str, Answer]:
    """The AUROC of one model and the difference of two, on n test examples and half as many texts that fit no class."""
    inside, outside, truth = _confidences(*of)
    x, y = inside[:, random.integers(0, inside.shape[1], n)], outside[:, random.integers(0, outside.shape[1], n // 2)]
    single, less = auroc(x[0], y[0]), auroc_difference(x[0], y[0], x[1], y[1])
    return {
        "AUROC": (single.low, single.high, truth[0]),
        "AUROC, difference": (less.low, less.high, truth[0] - truth[1]),
    }


def selective(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return risks and AURC of one model, the AURC of two, and smECE with the accuracy under its kernel."""
    graft, tuned, labels = _sample(run, n, random, ("grafted", "finetuned"))
    (one, other), true = (risk_coverage(z, labels) for z in (graft, tuned)), _selective_truth(run)
    less, smooth, (logits, right) = (
        aurc_difference(one, other),
        smooth_error(graft, labels),
        stored_logits(run, "grafted"),
    )
    risks = {f"risk at {share:.0%} coverage": (_at(one, share), _at(true[0], share)) for share in COVERAGES}
    curve, wanted = smooth_reliability(graft, labels, smooth.value), smooth_reliability(logits, right, smooth.value)
    places = {"most": curve["n"].idxmax(), "few": (curve["n"] - 20).abs().idxmin()}
    return {
        "AURC": (one.aurc.low, one.aurc.high, true[0].aurc.value),
        "AURC, difference": (less.low, less.high, true[0].aurc.value - true[1].aurc.value),
        "smECE": (smooth.low, smooth.high, smooth_error(logits, right).value),
        **{name: (found["low"], found["high"], truth["risk"]) for name, (found, truth) in risks.items()},
        **{
            f"accuracy under a kernel of {name} examples": (
                *curve.loc[place, ["low", "high"]],
                float(np.interp(curve.loc[place, "confidence"], wanted["confidence"], wanted["accuracy"])),
            )
            for name, place in places.items()
        },
    }


@cache
def _selective_truth(run: str) -> tuple[RiskCoverage, ...]:
    """The curves of graft and fine-tuned model on the whole population."""
    return tuple(risk_coverage(*stored_logits(run, state), resamples=1) for state in ("grafted", "finetuned"))


def _at(of: RiskCoverage, share: float) -> pd.Series:
    """The row of a curve at a coverage."""
    return of.curve.loc[(of.curve["coverage"] - share).abs().idxmin()]


@cache
def _confidences(shift: float, spread: float, count: int = 4000) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Confidences [model, example] of both kinds, and each model's AUROC, which is lower for the second model."""
    random = np.random.default_rng(1)
    both = []
    for center, scale in ((shift, 1.0), (0.0, spread)):
        shared = random.standard_normal(count)
        scores = np.stack([part * center + scale * (0.9 * shared + 0.44 * random.standard_normal(count))
                           for part in (1.0, 0.85)])  # fmt: skip
        sure = 1 / (1 + np.exp(-1 - scores))
        both.append(sure.round(2) if spread > 1 else sure)
    return both[0], both[1], [auroc(x, y).value for x, y in zip(*both, strict=True)]


@cache
def _references(spread: float, count: int = 4000) -> tuple[np.ndarray, list[float]]:
    """Return scores [model, reference, 4] of two models that find the same references hard, and both perplexities."""
    random = np.random.default_rng(0)
    tokens = 2 + random.negative_binomial(2, 0.15, count)
    hard = 1.2 * np.exp(spread * random.standard_normal(count) - spread**2 / 2)
    nats = [tokens * hard * factor * np.exp(0.15 * random.standard_normal(count)) for factor in (1.0, 0.9)]
    scores = np.stack([np.asarray(generated_scores(None, -one, tokens), dtype=np.float64) for one in nats])
    return scores, [float(np.exp(-one[:, LOG_LIKELIHOOD].sum() / -one[:, MINUS_TOKENS].sum())) for one in scores]


def less_controls(make: Callable[[], Pool], n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the accuracy of a part of a region less the mean of a few random controls, a sample of all controls."""
    pool = make()
    drawn, chosen = random.integers(0, len(pool.labels), n), random.integers(0, pool.logits.shape[1], CONTROLS)
    models = [pool.logits[0, 0, drawn], *pool.logits[1, chosen][:, drawn]]
    (value, resampled), *controls = whole_and_resampled(
        [statistic("accuracy", z, pool.labels[drawn]) for z in models], n
    )
    found = excess(value, resampled, controls)
    right = _known(pool).each["accuracy"]
    true = float(right[0, 0].mean() - right[1].mean())
    return {"part less controls": (found["excess_low"], found["excess_high"], true)}


def paired_accuracy(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the paired difference of accuracy to the fine-tuned model: Tango."""
    less = metric_difference(*_sample(run, n, random, ("grafted", "finetuned")), "accuracy")
    return {"accuracy, difference": (less.low, less.high, _truth(run)["accuracy, difference"])}


def pairs(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return paired differences to the fine-tuned model in other metrics, and the recovered share of its gain."""
    graft, tuned, base, labels = _sample(run, n, random, ("grafted", "finetuned", "pretrained"))
    (found,) = paired_differences(tuned, [graft], labels, [m for m in _compared(run) if m != "accuracy"])
    truth = _truth(run)
    answers = {f"{m}, difference": (of.low, of.high, truth[f"{m}, difference"]) for m, of in found.items()}
    share = recovered_gain(graft, base, tuned, labels)
    return answers | {"share of the gain": (share.low, share.high, truth["share of the gain"])}


def gain_sizes(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """The sizes at which half, and nearly all, of the gain is recovered, as powers of ten of the share of parameters.

    The size at which half is lost is computed from the complement's scores in the same way.
    """
    labels, (grafts, truths) = stored_logits(run, "finetuned")[1], _grafts_by_size(run)
    drawn = random.integers(0, len(labels), n)
    base, tuned = (stored_logits(run, state)[0][drawn] for state in ("pretrained", "finetuned"))
    gains = [recovered_gain(logits[drawn], base, tuned, labels[drawn])._asdict() for logits in grafts.values()]
    answers = {}
    for level, truth in truths.items():
        size = gain_size(pd.DataFrame(gains).assign(state="grafted", share=list(grafts)), "grafted", level)
        assert size is not None
        with np.errstate(divide="ignore"):
            ends = float(np.log10(size.low)), float(np.log10(size.high))
        answers[f"size at which {level:.0%} of the gain is back"] = *ends, truth
    return answers


@cache
def _grafts_by_size(run: str) -> tuple[Mapping[float, np.ndarray], Mapping[float, float]]:
    """Return a graft's logits by its share of the parameters, and the true size by level of the gain.

    Few sizes of a run have stored predictions. The grafts here are therefore synthetic: on a growing, nested set of
    examples they answer like the fine-tuned model, and on the others like the base.
    """
    parts = {0.0001: 0.05, 0.0003: 0.2, 0.001: 0.45, 0.003: 0.7, 0.01: 0.9, 0.03: 0.98}
    (base, labels), (tuned, _) = (stored_logits(run, state) for state in ("pretrained", "finetuned"))
    turn = np.random.default_rng(len(labels)).permutation(len(labels)) / len(labels)
    grafts = {share: np.where((turn < part)[:, None], tuned, base) for share, part in parts.items()}
    base_right, tuned_right = (correct(z, labels).mean() for z in (base, tuned))
    gains = [float(relative_gain(correct(z, labels).mean(), base_right, tuned_right)) for z in grafts.values()]
    curve = pd.DataFrame({"state": "grafted", "share": list(grafts), "value": gains, "low": gains, "high": gains})
    found = {level: gain_size(curve, "grafted", level) for level in (HALF, MOST)}
    return grafts, {level: float(np.log10(size.share)) for level, size in found.items() if size is not None}


def _compared(run: str) -> tuple[str, ...]:
    """Return the compared metrics, with F1 only for two classes."""
    return tuple(m for m in COMPARED if m != "f1" or stored_logits(run, "grafted")[0].shape[1] == 2)


def nearly_alike(differ: int, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Compare two models that differ on about `differ` of n examples; the first is right on 7 of 10 of them.

    Half of the examples are positive, so the true differences of F1 and of accuracy are equal; the share is of a gain
    of 20 points.
    """
    only_first, only_second, right = 0.7 * differ / n, 0.3 * differ / n, 0.85
    luck, labels = random.random(n), random.integers(0, 2, n)
    gains, loses = luck < only_first, (only_first <= luck) & (luck < only_first + only_second)
    hits = random.random(n) < right
    first, second = (hits | gains) & ~loses, (hits | loses) & ~gains
    base = random.random(n) < right - 0.2
    models = [np.eye(2)[np.where(hit, labels, 1 - labels)] + 0.1 * random.random((n, 1)) for hit in (first, second)]
    true = only_first - only_second
    found = {metric: metric_difference(*models, labels, metric) for metric in ("accuracy", "f1")}
    answers = {f"{metric}, difference of nearly equal models": (of.low, of.high, true) for metric, of in found.items()}
    share = recovered_gain(models[0], np.eye(2)[np.where(base, labels, 1 - labels)], models[1], labels)
    gain = right * (1 - only_first - only_second) + only_second - (right - 0.2)
    return answers | {"share of the gain of nearly equal models": (share.low, share.high, 1 + true / gain)}


@cache
def _truth(run: str) -> dict[str, float]:
    """Return every quantity of one run on its whole population."""
    (graft, labels), (tuned, _), (base, _) = (stored_logits(run, s) for s in ("grafted", "finetuned", "pretrained"))
    metrics = _compared(run)
    ours, theirs = (score(z, labels, names=metrics) for z in (graft, tuned))
    truth = {metric: float(ours[metric]) for metric in metrics} | {"agreement": agreement(graft, tuned)}
    truth |= {f"{metric}, difference": float(ours[metric] - theirs[metric]) for metric in metrics}
    right = [correct(z, labels).mean() for z in (graft, base, tuned)]
    return truth | {"share of the gain": float(relative_gain(*right))}


def _sample(run: str, n: int, random: np.random.Generator, states: tuple[str, ...]) -> list[np.ndarray]:
    """Return logits [n, class] of each state, and the labels [n], on the same examples drawn with replacement."""
    answers = [stored_logits(run, state) for state in states]
    drawn = random.integers(0, len(answers[0][1]), n)
    return [*(logits[drawn] for logits, _ in answers), answers[0][1][drawn]]


def less_scaled(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the graft's ECE less the temperature-scaled fine-tuned model's.

    The first answer uses the temperature of all validation examples. The others use a temperature fitted to a
    validation sample of the same size. For the second, the truth is the difference to the model at this fitted
    temperature; for the third, the difference at the temperature of all validation examples.
    """
    (graft, labels), (tuned, _) = (stored_logits(run, state) for state in ("grafted", "finetuned"))
    held, held_labels = stored_logits(run, "finetuned", "validation")
    drawn, on = random.integers(0, len(labels), n), random.integers(0, len(held), len(held))
    fixed, fitted = _temperature(run), temperature_fit(held[on], held_labels[on]).value
    ours = ece(graft, labels)
    truths = [ours - ece(scaled(tuned, temperature), labels) for temperature in (fixed, fitted)]
    sample = graft[drawn], tuned[drawn], labels[drawn]
    less = [calibration_difference(sample[0], scaled(sample[1], t), sample[2]) for t in (fixed, fitted)]
    return {
        "ECE less scaled, temperature known": (less[0].low, less[0].high, truths[0]),
        "ECE less scaled, the fitted temperature": (less[1].low, less[1].high, truths[1]),
        "ECE less scaled, the best temperature": (less[1].low, less[1].high, truths[0]),
    }


@cache
def _temperature(run: str) -> float:
    return temperature_fit(*stored_logits(run, "finetuned", "validation")).value


def over_seeds(make: Callable[[], Pool], n: int, seeds: int, random: np.random.Generator) -> dict[str, Answer]:
    """Means over seeds with examples, for accuracy and NLL: one method, and differences of two, paired and joined.

    The joined difference uses the intervals of both methods. A fourth quantity is the change of one's lead over a
    single model to the other's over another, as along fine-tuning. The standard deviation of a mean over resampled
    examples is known without resampling.
    """
    pool = make()
    known = _known(pool)
    chosen, drawn = random.integers(0, pool.logits.shape[1], seeds), random.integers(0, len(pool.labels), n)
    answers: dict[str, Answer] = {}
    for metric, each in known.each.items():
        values = each[:, chosen[:, None], drawn]
        less = values[0] - values[1]
        found = {
            name: seeds_and_examples(one.mean(1), float(one.mean(0).std()) / np.sqrt(n))
            for name, one in (
                ("", values[0]), ("the other", values[1]), (DIFFERENCE, less),
                (CHANGE, less - (each[0, 0] - each[1, 0])[drawn]),
            )
        }  # fmt: skip
        both = [SeedsEstimate(*found.pop(name)) for name in ("", "the other")]
        for name, of in {"": both[0], **found, APART: apart(*both)}.items():
            answers[f"{metric}{name}"] = of.low, of.high, known.truth[f"{metric}{name}"]
    return answers


def errors_over_seeds(make: Callable[[], Pool], n: int, seeds: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the mean calibration error of several seeds, and its difference to another method's."""
    pool = make()
    truth = _known(pool).truth
    chosen, drawn = random.integers(0, pool.logits.shape[1], seeds), random.integers(0, len(pool.labels), n)
    labels, (one, other) = pool.labels[drawn], pool.logits[:, chosen][:, :, drawn]
    errors = {
        "ECE": [calibration_error(z, labels) for z in one],
        "ECE, difference": [calibration_difference(a, b, labels) for a, b in zip(one, other, strict=True)],
    }
    found = {
        name: mean_of_intervals(*([getattr(each, end) for each in of] for end in ("debiased", "low", "high")))
        for name, of in errors.items()
    }
    return {name: (of.low, of.high, truth[name]) for name, of in found.items()}


class Known(NamedTuple):
    """The value of each answer of a pool by metric, [method, seed, example], and the means, which are the truth."""

    each: dict[str, np.ndarray]
    truth: dict[str, float]


@cache
def _known(pool: Pool) -> Known:
    each = {
        "accuracy": (pool.logits.argmax(-1) == pool.labels).astype(np.float64),
        "nll": np.array([[losses(z, pool.labels) for z in method] for method in pool.logits]),
    }
    means = {metric: values.mean((1, 2)) for metric, values in each.items()}
    means["ECE"] = np.array([np.mean([ece(z, pool.labels) for z in method]) for method in pool.logits])
    truth = {metric: float(one) for metric, (one, _) in means.items()}
    for kind in (DIFFERENCE, APART):
        truth |= {f"{metric}{kind}": float(one - other) for metric, (one, other) in means.items()}
    for metric, of in each.items():
        truth[f"{metric}{CHANGE}"] = truth[f"{metric}{DIFFERENCE}"] - float((of[0, 0] - of[1, 0]).mean())
    return Known(each, truth)


def union_gain(spread: float, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the mean share of the gain that the grafts of three seeds recover, as in tables of unions."""
    pool, note = of_spread(SST2, spread), stored_runs(SST2)[0].record.task
    assert note is not None
    every, examples = pool.logits.shape[1:3]
    repeats = examples // len(stored_logits(SST2, "finetuned")[1])
    base, tuned = (np.tile(stored_logits(SST2, state)[0], (repeats, 1)) for state in ("pretrained", "finetuned"))
    right = [float(correct(z, pool.labels).mean()) for z in (base, tuned)]
    true = float(relative_gain(pool.accuracies()[0].mean(), *right))
    chosen, drawn = random.integers(0, every, 3), random.integers(0, examples, n)
    scored = TaskScores(note, pool.labels[drawn], base[drawn], tuned[drawn])
    found = mean_relative_gain(scored, list(pool.logits[0, chosen][:, drawn]))
    return {"union's gain": (found.low, found.high, true)}


def shared_by(make: Callable[[], list[Region]], count: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the mean IoU of some regions, and the overlap of two tasks with as many regions each: jackknife."""
    regions = make()
    drawn = random.choice(len(regions), 2 * count, replace=2 * count > len(regions))
    first, second = ([regions[i] for i in half] for half in (drawn[:count], drawn[count:]))
    same = stability(first)
    table = overlap({"a": dict(enumerate(first)), "b": dict(enumerate(second))})
    row = table[(table["row_task"] == "a") & (table["column_task"] == "b") & (table["kind"] == "overlap")].iloc[0]
    iou, share = _shared(make)
    return {"mean IoU": (same.low, same.high, iou), "overlap": (float(row["low"]), float(row["high"]), share)}


@cache
def _shared(make: Callable[[], list[Region]]) -> tuple[float, float]:
    """Return mean IoU and overlap of all pairs; regions are of one size, so an overlap is 2 IoU / (1 + IoU)."""
    iou = pairwise_iou(make())
    return float(iou.mean()), float((2 * iou / (1 + iou)).mean())


@cache
def drawn_regions(count: int = 200, size: int = 300, d: int = 20_000) -> list[Region]:
    """Return regions that share a core to a varying degree."""
    random = np.random.default_rng(0)
    core = random.exponential(size=d) ** 2
    quality = np.clip(1 + 0.4 * random.standard_normal(count), 0.1, None)
    ranked = [np.argsort(-(q * core + 4 * random.gumbel(size=d)))[:size] for q in quality]
    return [Region.from_flat(np.sort(flat), {"weight": (d,)}) for flat in ranked]


@cache
def real_regions(*localizers: str) -> list[Region]:
    """Return the regions of real searches of one pair and size by these localizers, each with many seeds."""
    rows = mask_seeds.stored()
    found = [np.frombuffer(row, np.int32) for row in rows.loc[rows["localizer"].isin(localizers), "region"]]
    shapes = {"all": (1 + max(int(flat[-1]) for flat in found),)}
    return [Region.from_flat(flat, shapes) for flat in found]


ALIKE = "real regions of one localizer"
REGIONS = {
    "drawn regions": drawn_regions,
    "real regions of two localizers": partial(real_regions, *mask_seeds.METHODS),
    ALIKE: partial(real_regions, DEFAULT_LOCALIZER),
}


def best_of_path(run: str, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """Return the best of 61 points between the models less the fine-tuned one, picked on test or on validation."""
    ends, (labels, held_labels) = _path(run), (stored_logits(run, "finetuned", s)[1] for s in ("test", "validation"))
    test, held = ends["test"], ends["validation"]
    drawn, on = random.integers(0, len(labels), n), random.integers(0, len(held_labels), len(held_labels))
    right, held_right = test.argmax(-1) == labels, held.argmax(-1) == held_labels
    truth = right.mean(1) - right[10].mean()
    answers = {}
    for how, point in (("test", right[:, drawn].mean(1).argmax()), ("validation", held_right[:, on].mean(1).argmax())):
        (less,) = paired_differences(test[10][drawn], [test[point][drawn]], labels[drawn], ["accuracy"])
        found = less["accuracy"]
        answers[f"best of 61, picked on {how}"] = found.low, found.high, float(truth[point])
        if how == "test":
            wide = simultaneous(found.low, found.high, found.value, len(test), examples=n)
            answers["best of 61, interval for all 61"] = *wide, float(truth[point])
    return answers


def best_of_independent(share: float, n: int, random: np.random.Generator) -> dict[str, Answer]:
    """The best of 61 models as good as the first, each independently different from it on this share of examples."""
    right = random.random(n) < 0.85
    flipped = random.random((60, n)) < np.where(right, 0.5 / 0.85, 0.5 / 0.15) * share
    models = np.where(flipped, ~right, right)
    best = models[models.sum(1).argmax()]
    less = tango(int((best & ~right).sum()), int((right & ~best).sum()), n)
    value = float(best.mean() - right.mean())
    return {
        "best of 61 independent, picked on test": (*less, 0.0),
        "best of 61 independent, interval for all 61": (*simultaneous(*less, value, 61, examples=n), 0.0),
    }


@cache
def _path(run: str) -> dict[str, np.ndarray]:
    """Return logits [point, example, class] by split; mixtures of stored logits replace the logits of mixed models.

    The first eleven are between the base and the fine-tuned model, the others between the base and five grafts.
    """
    family = run.removesuffix("-10646-s0")
    grafts = [f"{family}-{size}-s{seed}" for size, seed in ((1064, 0), (10646, 0), (10646, 1), (10646, 2), (106467, 0))]
    found = {}
    for split in ("test", "validation"):
        base, tuned = (stored_logits(run, state, split)[0] for state in ("pretrained", "finetuned"))
        ends = [tuned, *(stored_logits(graft, "grafted", split)[0] for graft in grafts)]
        parts = [(end, alpha / 10) for i, end in enumerate(ends) for alpha in range(1 if i else 0, 11)]
        found[split] = np.stack([(1 - alpha) * base + alpha * end for end, alpha in parts])
    return found


def measured(cell: Cell, repetitions: int) -> list[dict[str, object]]:
    """Return the rows of a cell, one per quantity that has an interval; the draws depend on the cell's name alone."""
    random = np.random.default_rng(zlib.crc32(repr(cell[:3]).encode()))
    count = max(2, round(cell.samples * repetitions))
    with mock.patch.object(intervals, "draws", _same_draws):
        answers = [cell.once(random) for _ in range(count)]
    rows: list[dict[str, object]] = []
    for quantity in answers[0]:
        low, high, true = np.array([answer[quantity] for answer in answers]).T
        shown = ~np.isnan(low)  # without an interval there is no claim, for example for a class that is never predicted
        if not shown.any():
            continue
        holds = ((low <= true + 1e-12) & (true <= high + 1e-12))[shown]
        rows.append({
            "quantity": quantity, "population": cell.population, "detail": cell.detail, "n": cell.n,
            "repetitions": count, "true": round(float(true.mean()), 5), "coverage": round(float(holds.mean()), 5),
            "above": round(float((low > true + 1e-12).mean()), 5),
            "width": round(float(np.median((high - low)[shown])), 5), "undefined": round(float((~shown).mean()), 5),
        })  # fmt: skip
    return rows


def _same_draws(n: int, resamples: int, seed: int, cells: int = 0) -> Iterator[np.ndarray]:
    """Return the same as `intervals.draws`, cached because it depends on these numbers alone."""
    return iter(_remembered(n, resamples, seed))


@lru_cache(maxsize=2)
def _remembered(n: int, resamples: int, seed: int) -> list[np.ndarray]:
    return list(DRAWS(n, resamples, seed))


def run(repetitions: int, out: Path, again: Collection[str] = ()) -> pd.DataFrame:
    """Measure the cells that have no rows in `out`, and again those with a quantity in `again`."""
    rows = Rows(out, ["population", "detail", "n"])
    changed = {rows.key_of(row) for row in rows.rows if row["quantity"] in again}
    rows.rows = [row for row in rows.rows if rows.key_of(row) not in changed]
    rows.keys -= changed
    keys = ((dict(zip(rows.key, cell[:3], strict=True)), cell) for cell in cells())
    return measure(rows, ((key, partial(measured, cell, repetitions)) for key, cell in keys))


KINDS = {
    "accuracy, difference": "Tango", "f1, difference": "bootstrap and Tango",
    "share of the gain of nearly": "bootstrap and Tango", "share of the gain": "paired bootstrap",
    "size at which": "where the curve's ends cross", "union's gain": "examples and seeds",
    "part less controls": "examples and seeds", "AUROC, difference": "DeLong, paired", "AUROC": "DeLong, on the logit",
    "mean IoU": "jackknife", "overlap": "jackknife", "ECE": "test inversion, paired", "precision": "Wilson",
    "recall": "Wilson", "accuracy": "Wilson", "agreement": "Wilson",
    "best of 61, interval": "Tango, Bonferroni", "best of 61 independent, interval": "Tango, Bonferroni",
    "best of": "Tango", "nll, difference": "paired bootstrap", "brier, difference": "paired bootstrap",
    "perplexity, difference": "paired bootstrap", "AURC, difference": "paired bootstrap",
    "risk at": "Wilson and bootstrap", "smECE": "norm of the noise",
}  # fmt: skip
"""The method of a quantity's interval, by the beginning of its name, the longer first; the others are bootstraps."""


def _kind(quantity: str) -> str:
    return next((kind for beginning, kind in KINDS.items() if quantity.startswith(beginning)), "bootstrap")


def table(rows: pd.DataFrame) -> list[str]:
    """Return one line per quantity of one model, of two, or of regions.

    Widths are in points, for NLL and perplexity in hundredths (of a nat for NLL), for a size in hundredths of a power
    of ten.
    """
    head = ("quantity", "interval", "cells", "under 93%", "lowest coverage", "where", "median",
            "median width, n = 300", "n = 1,821")  # fmt: skip
    lines = []
    for quantity, found in rows[~rows["detail"].str.match(r"\d seeds")].groupby("quantity", sort=False):
        worst = found.loc[found["coverage"].idxmin()]
        name = str(worst["population"]).removesuffix("-minilm-l6-stagewise-10646-s0")
        where = f"{name}, n = {worst['n']:,}" if worst["n"] else f"{name}, {worst['detail']}"
        widths = (100 * found.loc[found["n"] == n, "width"].median() for n in (SIZES[0], SIZES[-1]))
        lines.append((
            str(quantity), _kind(str(quantity)), *_coverage(found["coverage"], where),
            *("" if np.isnan(width) else f"{width:.1f}" for width in widths),
        ))  # fmt: skip
    return markdown_table(head, lines)


def _coverage(coverage: pd.Series, *where: str) -> tuple[str, ...]:
    """Return the number of cells, those under 93%, the lowest coverage (and the place), and the median, as texts."""
    low, middle = (f"{100 * share:.1f}%" for share in (coverage.min(), coverage.median()))
    return str(len(coverage)), str((coverage < 0.93).sum()), low, *where, middle


def seeds_table(rows: pd.DataFrame) -> list[str]:
    """Means over seeds, a line per quantity and number of seeds: coverage in synthetic pools and in the real one."""
    head = ("mean over seeds", "seeds", "cells of made pools", "under 93%", "lowest coverage", "median",
            "real masks: lowest", "of two localizers: lowest", "width, spread 1.8 points, n = 1,821")  # fmt: skip
    lines = []
    means = rows[rows["detail"].str.match(r"\d seeds") & ~rows["population"].str.startswith("unseen")]
    for (quantity, detail), found in means.groupby(["quantity", "detail"], sort=False):
        made = found.loc[found["population"].str.startswith("like"), "coverage"]
        real, mixed = (found.loc[found["population"] == of, "coverage"].min() for of in (REAL, MIXED))
        usual = found[(found["population"] == "like sst2-sentences, seeds 1.8 points") & (found["n"] == SIZES[-1])]
        width = f"{100 * usual['width'].median():.1f}"
        lines.append((quantity, detail[0], *_coverage(made), *(f"{100 * low:.1f}%" for low in (real, mixed)), width))
    return markdown_table(head, lines)


def unseen_seeds_table(rows: pd.DataFrame) -> list[str]:
    """Return the same table for the pools that were not used during development."""
    head, lines = ("mean over seeds", "seeds", "cells", "under 93%", "lowest coverage", "where", "median"), []
    means = rows[rows["population"].str.startswith("unseen")]
    for (quantity, detail), found in means.groupby(["quantity", "detail"], sort=False):
        worst = found.loc[found["coverage"].idxmin()]
        where = f"{str(worst['population']).removeprefix('unseen: ')}, n = {worst['n']:,}"
        lines.append((quantity, detail[0], *_coverage(found["coverage"], where)))
    return markdown_table(head, lines)
