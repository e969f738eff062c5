"""Tests of generated texts: greedy decoding in any batch, perplexity, exact match, and the loss; and of own options.

In examples with their own options, absent ones have probability 0 and do not count.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz.core.decoding import greedy
from skillviz.core.encoded import NO_OPTION, Encoded
from skillviz.core.generation import (
    LABELS,
    Generated,
    Generation,
    generated_scores,
    has_matches,
    is_generated,
    normalised,
)
from skillviz.core.intervals import metric_difference, metric_interval, recovered_gain
from skillviz.core.localizers.table import localizer
from skillviz.core.metrics import METRICS, SCORED, has_predictions, metric_names, panels, right_metric, score
from skillviz.core.prefix import Change, logits_of
from skillviz.core.problem import Problem
from skillviz.core.scores import correct, predictions
from skillviz.core.temperature import COLDEST, HOTTEST, scaled, temperature_fit
from tests.core.by_hand import by_hand
from tests.core.problems import PAD, examples, finish, model_of, problem_of, table_of
from tests.reference.generation import slow_greedy, slow_likelihood, slow_perplexity
from tests.reference.gradient import PlainModel

MOST, CPU = 6, torch.device("cpu")


def words(ids: list[int]) -> str:
    return " ".join(map(str, ids))


def generation(references: tuple[str, ...], ends: tuple[int, ...] = ()) -> Generation:
    return Generation(references, MOST, ends, False, words, normalised)


def causal(encoded: Encoded, micro_tokens: int | None = None) -> Problem:
    return problem_of(model_of("gpt2", "causal"), encoded, "causal", micro_tokens=micro_tokens)


def written(n: int = 8, by_length: bool = False) -> Encoded:
    """Return n prompts of 4 to 11 tokens, each with a reference of 1 to 3 tokens."""
    whole = examples("causal", n=n, labels=1)
    references = tuple(words(answer.tolist()) for (answer,) in whole.answers or ())
    return replace(whole, labels=np.ones(n, dtype=np.int64), generation=generation(references), by_length=by_length)


COUNTS = (4, 2, 3, 2, 4, 3)


def ragged(by_length: bool = False) -> Encoded:
    """Return six examples with 2 to 4 options each; the last one is right."""
    whole, empty = examples("causal", n=len(COUNTS), labels=4), np.empty(0, dtype=np.int64)
    answers = [row[:k] + [empty] * (4 - k) for row, k in zip(whole.answers or (), COUNTS, strict=True)]
    return replace(whole, answers=answers, labels=np.array(COUNTS) - 1, by_length=by_length)


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "gpt_neox"])
def test_a_text_is_the_same_whatever_shares_its_batch(family: str) -> None:
    model, prompts = model_of(family, "causal"), written().input_ids
    free = [slow_greedy(model, prompt, MOST, ()) for prompt in prompts]
    ends = (free[0][2], free[3][1])
    wanted = [slow_greedy(model, prompt, MOST, ends) for prompt in prompts]
    assert {len(text) for text in wanted} - {MOST} and len({len(prompt) for prompt in prompts}) > 2
    found = [greedy(model, prompts, generation((), ends), CPU, micro_tokens) for micro_tokens in (1, 40, 10_000)]
    assert found == [wanted] * 3
    padded = [slow_greedy(model, np.array([PAD, PAD, *prompt]), MOST, ends) for prompt in prompts]
    assert padded != wanted, "the result of wrong padding"


def test_a_model_that_keeps_nothing_generates_the_same() -> None:
    model, prompts = model_of("gpt2", "causal"), written().input_ids
    wanted, whole = greedy(model, prompts, generation(()), CPU, 100), model.base_model.forward
    model.base_model.forward = lambda *args, **named: replace(whole(*args, **named), past_key_values=None)
    assert greedy(model, prompts, generation(()), CPU, 100) == wanted


@pytest.mark.parametrize("by_length", [False, True])
def test_the_scores_are_those_of_single_texts_in_their_order(by_length: bool) -> None:
    encoded, model, rights = written(by_length=by_length), model_of("gpt2", "causal"), [1, 4]
    texts = [words(slow_greedy(model, prompt, MOST, ())) for prompt in encoded.input_ids]
    references = tuple(text if i in rights else "no" for i, text in enumerate(texts))
    problem = problem_of(model, replace(encoded, generation=generation(references)), "causal", micro_tokens=30)
    found, back = problem.train.logits(), problem.train.logits(np.array([5, 1]))
    answers = [answer for (answer,) in encoded.answers or ()]
    nats = [slow_likelihood(model, p, a) for p, a in zip(encoded.input_ids, answers, strict=True)]
    assert found.texts == tuple(texts) and back.texts == (texts[5], texts[1])
    assert np.flatnonzero(correct(found, encoded.labels)).tolist() == rights
    np.testing.assert_allclose(found[:, 2], nats, rtol=1e-5)  # sums of float32 log p
    assert (-found[:, 3]).tolist() == [len(answer) for answer in answers]
    np.testing.assert_allclose(back, found[[5, 1]], rtol=1e-6)
    each = np.divide(nats, -found[:, 3]) if by_length else np.array(nats)
    assert problem.train.loss() == pytest.approx(-each.mean(), rel=1e-5) and problem.train.accuracy() == 2 / 8


def test_the_gradient_is_that_of_the_references_log_likelihood() -> None:
    encoded, model = written(), model_of("gpt2", "causal")
    twin = PlainModel(model, table_of(model).names, encoded, "causal")
    problem = problem_of(model, encoded, "causal")
    at = problem.base.double().requires_grad_()
    slow = -twin.logits_at(at, range(len(encoded))).mean()
    wanted = torch.autograd.grad(slow, at)[0].float()
    assert problem.train.backward() == pytest.approx(slow.item(), rel=1e-5)
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-4, atol=1e-5)  # float32 sums in another order
    assert float(wanted.abs().max()) > 1e-2


CAUSAL = [
    *((written, name, {"steps": 2}) for name in ("stagewise", "stagewise-judged", "learned-ranked")),
    (written, "first-order", {}), *((ragged, name, {}) for name in ("linearized", "fisher", "stagewise")),
]  # fmt: skip


@pytest.mark.parametrize(("encoded", "name", "options"), CAUSAL, ids=lambda one: getattr(one, "__name__", None))
def test_a_localizer_of_each_kind_takes_them(encoded: Callable[[], Encoded], name: str, options: dict) -> None:
    problem, row = problem_of(model_of("gpt2", "causal"), encoded(), "causal"), localizer(name)
    steps, found = finish(row.search(problem, 20, seed=0, options=row.make_options(options)))
    assert np.isfinite([step.loss for step in steps]).all() and len(set(found.order[:20].tolist())) == 20


@pytest.mark.parametrize("has_texts", [True, False])
def test_grafts_that_share_their_lower_layers_are_scored_as_each_is_alone(has_texts: bool) -> None:
    """Blocks cannot be skipped while a text grows: every graft is passed whole."""
    problem = causal(written() if has_texts else replace(written(), generation=None))
    upper = torch.arange(problem.d - 400, problem.d)
    (found,) = logits_of(problem.train, [Change(upper, lambda: problem.finetuned[upper])])
    problem.set_region(upper)
    wanted = problem.train.logits()
    assert found.texts == wanted.texts and np.array_equal(found, wanted) and has_matches(found) == has_texts


ONES, NAMES = np.ones(60, dtype=np.int64), (*SCORED, "agreement", "recovered")


def drawn(n: int = 60, seed: int = 0) -> Generated:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 9, n)
    return generated_scores(rng.random(n) < 0.4, -tokens * rng.gamma(2, 0.3, n), tokens)


def perplexity_of(z: Generated, rows: Any = slice(None)) -> float:
    return slow_perplexity(z[rows, 2].tolist(), (-z[rows, 3]).tolist())


def test_metrics_are_exact_match_and_perplexity_alone() -> None:
    z = drawn()
    wanted = {"exact_match": float(z[:, 1].mean()), "perplexity": perplexity_of(z)}
    assert score(z, ONES, "exact_match") == pytest.approx(wanted, rel=1e-7) and set(predictions(z)) == {0, 1}
    by_example = float(np.mean(np.exp(np.asarray(z[:, 2] / z[:, 3], dtype=np.float64))))
    assert abs(by_example - wanted["perplexity"]) > 0.01, "the mean of the examples' perplexities is different"
    assert not set(wanted) & set(score(np.eye(2)[ONES], ONES)) and "perplexity" not in metric_names("f1")


def references_alone(n: int = 60, nats: float = 1.0, seed: int = 0) -> Generated:
    """Return scores of references with `nats` per token on average and no generated text."""
    tokens, factors = np.arange(n) % 7 + 1, np.random.default_rng(seed).uniform(0.8, 1.2, n)
    return generated_scores(None, -tokens * nats * factors, tokens)


LETTERS = string.ascii_lowercase + "\n"
LINES = Generation(("ab",), 4, (25,), True, lambda ids: "".join(LETTERS[i] for i in ids), normalised)


def scored_lines(ids: list[int]) -> tuple[list[list[float]], tuple[str, ...]]:
    scores = LINES.scored([ids], np.array([-1.0]), np.array([3]))
    return scores.tolist(), scores.texts


test_by_hand = by_hand(
    ("panels of texts", ["exact_match", "perplexity"], panels, "exact_match"),
    ("metrics of texts", ["exact_match", "perplexity", "agreement", "recovered"], metric_names, "exact_match", NAMES),
    ("panels of references", ["perplexity"], panels, "perplexity"),
    ("metrics of references", ["perplexity", "recovered"], metric_names, "perplexity", NAMES),
    ("scores of references", ["perplexity"], lambda: list(score(references_alone(), ONES, "perplexity"))),
    ("references have no predictions", False, has_predictions, "perplexity"),
    ("references have no matches", False, has_matches, references_alone()),
    ("texts have matches", True, has_matches, drawn()),
    ("texts have scores of their own", True, is_generated, drawn(), LABELS),
    ("other labels", False, is_generated, np.zeros((3, 4)), ("a", "b", "c", "d")),
    ("too few columns", False, is_generated, np.zeros((3, 2)), LABELS),
    ("a part has no texts", ((), ()), lambda: (drawn()[:3].texts, drawn().texts)),
    *((f"right is judged by {right}", right, right_metric, name) for name, right in
      (("perplexity", "perplexity"), ("exact_match", "exact_match"), ("f1", "accuracy"))),
    ("a text ends before a line break", "ab", LINES.text, [0, 1, 26, 2]),
    *((f"{ids} ends: {ends}", ends, LINES.has_ended, ids) for ids, ends in
      (([0, 26], True), ([25], True), ([0, 1], False))),
    ("not at a line break", False, replace(LINES, at_line_break=False).has_ended, [0, 26]),
    *((f"scores of {ids}", ([[0.0, 1.0, -1.0, -3.0]], ("ab",)), scored_lines, ids) for ids in ([0, 1, 26], [0, 1, 25])),
    ("white space", "The cat, here", normalised, "  The  cat,\nhere "),
    ("case", "the cat!", lambda: normalised("The  cat!", ignore_case=True)),
    ("punctuation", "The cat", lambda: normalised("The «cat»!", ignore_punctuation=True)),
)  # fmt: skip


def test_a_gain_in_perplexity_is_one_in_nats_per_token() -> None:
    base, graft, tuned = (references_alone(nats=nats, seed=nats > 1) for nats in (5.0, 2.0, 0.5))
    gain = recovered_gain(graft, base, tuned, ONES, "perplexity")
    start, middle, end = (-math.log(perplexity_of(z)) for z in (base, graft, tuned))
    assert gain.value == pytest.approx((middle - start) / (end - start), rel=1e-9)
    assert 0.6 < gain.low < gain.value < gain.high < 0.75
    linear = [math.exp(-one) for one in (start, middle, end)]
    assert (linear[0] - linear[1]) / (linear[0] - linear[2]) > 0.9  # the perplexity itself would give this
    assert math.isnan(recovered_gain(graft, tuned, base, ONES, "perplexity").value)  # worse than the base: no gain
    less = metric_difference(graft, tuned, ONES, "perplexity")
    assert less.value > 0 and METRICS["perplexity"].verdict(less.low, less.high) == "worse"


def test_models_are_scored_by_their_references_without_a_text() -> None:
    alone, nats = causal(replace(written(), generation=None), 30).train, causal(written()).train.logits()
    np.testing.assert_allclose(alone.logits()[:, 2:], nats[:, 2:], rtol=1e-6)
    assert alone.accuracy() == pytest.approx(float(np.exp(nats[:, 2] / -nats[:, 3]).mean()), rel=1e-5)


def test_the_learned_mask_keeps_the_step_whose_references_are_likeliest() -> None:
    problem, row = causal(replace(written(), generation=None)), localizer("learned")
    options = row.make_options({"steps": 3, "lr": 1e7, "selection": "train+validation", "score_every": 1})
    assert "kept, from step" in finish(row.search(problem, 20, seed=0, options=options))[1].notes[0]


def test_the_interval_of_perplexity_is_over_examples() -> None:
    z, other, rng = drawn(), drawn(seed=1), np.random.default_rng(1)
    value, low, high = metric_interval(z, ONES, "perplexity")[:3]
    draws = [perplexity_of(z, rng.integers(0, 60, 60)) for _ in range(2000)]
    np.testing.assert_allclose((low, high), np.quantile(draws, [0.025, 0.975]), rtol=0.02)  # different draws
    less = metric_difference(z, other, ONES, "perplexity").value
    assert low < value < high and less == pytest.approx(value - metric_interval(other, ONES, "perplexity").value)


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
    problem = causal(ragged())
    problem.train.backward()
    wanted = torch.zeros_like(problem.flat.grad)
    for row, k in enumerate(COUNTS):
        alone = ragged().take([row])
        part = causal(replace(alone, n_labels=k, answers=[alone.answers[0][:k]]))
        part.train.backward()
        wanted += part.flat.grad / len(COUNTS)
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-4, atol=1e-6)  # float32 sums in another order
    assert float(wanted.abs().max()) > 1e-3


def test_metrics_are_those_of_the_options_there_are() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=2 + i % 3) * 2 - 5 for i in range(60)]
    labels = np.array([int(rng.integers(len(row))) for row in rows])
    padded = np.stack([np.pad(row, (0, 4 - len(row)), constant_values=NO_OPTION) for row in rows])
    for temperature in (1.0, COLDEST, HOTTEST):
        pairs, found = zip(rows, labels, strict=True), score(scaled(padded, temperature), labels)
        each = pd.DataFrame([score(scaled(row[None], temperature), np.array([y])) for row, y in pairs])
        means = each[["accuracy", "nll", "brier", "confidence"]].mean().to_dict()
        assert {name: found[name] for name in means} == pytest.approx(means, rel=1e-12, abs=1e-12)
        assert np.isfinite([*found.values()]).all()
    fit = temperature_fit(padded, labels)
    best, *nearby = [score(scaled(padded, fit.value * factor), labels)["nll"] for factor in (1, 0.97, 1.03)]
    assert np.isfinite(fit.value) and best < min(nearby)
