"""Tests of examples with their own options: absent ones have probability 0 and do not count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz.core.encoded import NO_OPTION, Encoded
from skillviz.core.localizers.table import localizer
from skillviz.core.metrics import SCORED, score
from skillviz.core.temperature import COLDEST, HOTTEST, scaled, temperature_fit
from tests.core.problems import examples, finish, model_of, problem_of
from tests.reference.likelihood import slow_likelihood

COUNTS = (4, 2, 3, 2, 4, 3)


def ragged(by_length: bool = False) -> Encoded:
    """Return six examples with 2 to 4 options each; the last one is right."""
    whole, empty = examples("causal", n=len(COUNTS), labels=4), np.empty(0, dtype=np.int64)
    pairs = zip(whole.answers or (), COUNTS, strict=True)
    answers = [row[:k] + [empty] * (4 - k) for row, k in pairs]
    return replace(whole, answers=answers, labels=np.array(COUNTS) - 1, by_length=by_length)


@pytest.mark.parametrize("by_length", [False, True])
def test_each_option_is_scored_and_an_absent_one_is_none(by_length: bool) -> None:
    encoded, model, total = ragged(by_length), model_of("gpt2", "causal"), 0.0
    problem = problem_of(model, encoded, "causal", micro_tokens=60)
    for found, ids, row, k in zip(problem.train.logits(), encoded.input_ids, encoded.answers, COUNTS, strict=True):  # type: ignore[arg-type]
        lengths = np.array([len(option) for option in row[:k]]) if by_length else 1
        wanted = np.array([slow_likelihood(model, ids, option) for option in row[:k]]) / lengths
        np.testing.assert_allclose(found[:k], wanted, rtol=1e-5, atol=2e-5)  # sums of float32 log p
        assert (found[k:] == NO_OPTION).all()
        total -= wanted[k - 1] - np.logaddexp.reduce(wanted)
    assert problem.train.loss() == pytest.approx(total / len(COUNTS), rel=1e-5)


def test_the_gradient_is_that_of_the_options_there_are() -> None:
    encoded = ragged()
    problem = problem_of(model_of("gpt2", "causal"), encoded, "causal")
    problem.train.backward()
    wanted = torch.zeros_like(problem.flat.grad)
    for row, k in enumerate(COUNTS):
        alone = encoded.take([row])
        fewer = replace(alone, n_labels=k, answers=[alone.answers[0][:k]])  # type: ignore[index]
        part = problem_of(model_of("gpt2", "causal"), fewer, "causal")
        part.train.backward()
        wanted += part.flat.grad / len(COUNTS)
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-4, atol=1e-6)  # float32 sums in another order
    assert float(wanted.abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["linearized", "fisher", "stagewise"])
def test_a_localizer_of_each_kind_takes_them(name: str) -> None:
    problem, row = problem_of(model_of("gpt2", "causal"), ragged(), "causal"), localizer(name)
    steps, found = finish(row.search(problem, 20, seed=0, options=row.options()))
    assert np.isfinite([step.loss for step in steps]).all() and len(set(found.order[:20].tolist())) == 20


def test_metrics_are_those_of_the_options_there_are() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=2 + i % 3) * 2 - 5 for i in range(60)]
    labels = np.array([int(rng.integers(len(row))) for row in rows])
    padded = np.stack([np.pad(row, (0, 4 - len(row)), constant_values=NO_OPTION) for row in rows])
    for temperature in (1.0, COLDEST, HOTTEST):
        pairs, found = zip(rows, labels, strict=True), score(scaled(padded, temperature), labels)
        each = pd.DataFrame([score(scaled(row[None], temperature), np.array([y])) for row, y in pairs])
        names = ["accuracy", "nll", "brier", "confidence"]
        assert [found[name] for name in names] == pytest.approx(each[names].mean().tolist(), rel=1e-12, abs=1e-12)
        assert all(np.isfinite(found[name]) for name in SCORED if name in found)
    fit = temperature_fit(padded, labels)
    best, *nearby = [score(scaled(padded, fit.value * factor), labels)["nll"] for factor in (1, 0.97, 1.03)]
    assert np.isfinite(fit.value) and best < min(nearby)
