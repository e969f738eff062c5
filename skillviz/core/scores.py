"""Probabilities and scores of a set of predictions, from logits (PAPER.md, section 6).

Logits are [n, classes] over the label words or classes only; labels are class numbers [n]. All computation is in
float64, independent of the logits' own type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillviz.errors import BadData, BadInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def checked_logits(logits: ArrayLike, labels: ArrayLike | None = None, name: str = "logits") -> tuple[Floats, Integers]:
    """Return logits as float64 [n, classes] and labels as int64 [n] (all zero if not given); errors use `name`.

    Labels are class numbers of any type: 1, 1.0 and True are the second class. Raises BadData for no examples, a value
    that is not finite, or a label that is not a class; BadInput if the shapes do not match.
    """
    z = numbers(logits, name)
    if z.ndim != 2 or z.shape[1] < 1:
        raise BadInput(f"{name} must be [examples, classes]; got the shape {z.shape}.")
    if not len(z):
        raise BadData("there are no predictions to score; at least one example is needed.")
    if not np.isfinite(z).all():
        row = int(np.flatnonzero(~np.isfinite(z).all(axis=1))[0])
        is_masked = not (np.isnan(z[row]) | (z[row] == np.inf)).any()
        why = "-inf masks a class; use a low finite logit instead" if is_masked else "the model's numbers overflowed"
        raise BadData(f"{name} of example {row} are not finite; {why}.")
    return z, np.zeros(len(z), dtype=np.int64) if labels is None else _checked_labels(labels, *z.shape)


def numbers(values: ArrayLike, name: str) -> Floats:
    """Return the values as float64.

    Raises BadInput for rows of different lengths, for values that are not real numbers or are masked, and for tensors
    that NumPy cannot read.
    """
    array = _array(values, name)
    if array.dtype.kind == "c":
        raise BadInput(f"{name} must be real numbers; got {array.dtype}.")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, RuntimeError) as error:  # for lists that contain tensors or words
        raise BadInput(f"{name} must be an array of numbers: {str(error).rstrip('.')}.") from error


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    if np.ma.is_masked(values):
        raise BadInput(f"{name} is an array with masked entries; leave those rows out, or give them numbers.")
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError) as error:  # torch's: a tensor with a gradient, or of a type unknown to NumPy
        reason, how = str(error).rstrip("."), "x.detach().float().cpu().numpy()"
        raise BadInput(f"{name} cannot be read by NumPy ({reason}); of a tensor x give {how}.") from error
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise BadInput(f"{name} must be an array of numbers whose rows have one length: {reason}.") from error


def _checked_labels(labels: ArrayLike, n: int, classes: int) -> Integers:
    y = _array(labels, "labels")
    if y.shape != (n,):
        raise BadInput(f"there must be one label for each of the {n:,} predictions; got the shape {y.shape}.")
    if y.dtype.kind not in "iubf":
        raise BadInput(f"labels must be whole class numbers; got {y.dtype}.")
    whole = np.isfinite(y) & (y == np.floor(y)) if y.dtype.kind == "f" else np.ones(n, dtype=bool)
    if not whole.all():
        raise BadInput(f"labels must be whole class numbers; got {y[~whole][0]}.")
    y = y.astype(np.int64)
    outside = y[(y < 0) | (y >= classes)]
    if len(outside):
        raise BadData(f"the label {outside[0]} is not a class; with {classes} logits it must be 0..{classes - 1}.")
    return y


def log_probabilities(logits: ArrayLike) -> Floats:
    """Log softmax over the classes, [n, classes], in nats."""
    z, _ = checked_logits(logits)
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def probabilities(logits: ArrayLike) -> Floats:
    """Softmax over the classes, [n, classes]; rows sum to one.

    Summed in sorted order, so the same logits in another order of classes give the same confidence to the last bit:
    ties, and their bins, do not depend on rounding.
    """
    z, _ = checked_logits(logits)
    weights = np.exp(z - z.max(axis=1, keepdims=True))
    return weights / np.sort(weights, axis=1).sum(axis=1, keepdims=True)


def confidence(probs: ArrayLike) -> Floats:
    """The probability of the predicted class, [n], between 1/classes and 1."""
    p, _ = checked_logits(probs)
    return p.max(axis=1)


def predictions(logits: ArrayLike) -> Integers:
    """The number of the largest logit, [n]; the first of several equal ones."""
    z, _ = checked_logits(logits)
    return z.argmax(axis=1).astype(np.int64)


def correct(logits: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
    """True where the predicted class is the label, [n]."""
    z, y = checked_logits(logits, labels)
    return z.argmax(axis=1) == y


def losses(logits: ArrayLike, labels: ArrayLike) -> Floats:
    """Negative log-likelihood of each example's label, [n], in nats."""
    z, y = checked_logits(logits, labels)
    return -log_probabilities(z)[np.arange(len(y)), y]


def squared_errors(logits: ArrayLike, labels: ArrayLike) -> Floats:
    """Squared distance of each example's probabilities from its label, summed over classes, [n]; 0 to 2."""
    z, y = checked_logits(logits, labels)
    p = probabilities(z)
    p[np.arange(len(y)), y] -= 1.0
    return (p**2).sum(axis=1)


def accuracy(logits: ArrayLike, labels: ArrayLike) -> float:
    """The share of examples whose largest logit is the label's."""
    return float(correct(logits, labels).mean())


def nll(logits: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-likelihood of the labels, in nats."""
    return float(losses(logits, labels).mean())


def outcomes(logits: ArrayLike, labels: ArrayLike, positive: int = 1) -> Floats:
    """One column each for true positives, false positives and false negatives, 0 or 1, [n, 3]."""
    z, y = checked_logits(logits, labels)
    if not 0 <= positive < z.shape[1]:
        raise BadInput(f"the positive class must be 0..{z.shape[1] - 1}; got {positive}.")
    predicted, true = z.argmax(axis=1) == positive, y == positive
    return np.stack([predicted & true, predicted & ~true, ~predicted & true], axis=1).astype(np.float64)


def f1_of(outcome_counts: Floats) -> Floats:
    """F1 of counts [..., 3] (true positives, false positives, false negatives); NaN if all are zero."""
    hits, misses = outcome_counts[..., 0], outcome_counts[..., 1:].sum(axis=-1)
    whole = 2 * hits + misses
    return np.divide(2 * hits, whole, out=np.full_like(whole, np.nan), where=whole > 0)


def f1(logits: ArrayLike, labels: ArrayLike, positive: int = 1) -> float:
    """F1 of the positive class: harmonic mean of precision and recall; NaN if it neither occurs nor is predicted."""
    return float(f1_of(outcomes(logits, labels, positive).sum(axis=0)))
