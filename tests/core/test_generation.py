"""Tests of generated texts: greedy decoding in any batch, perplexity, exact match, and the loss."""

from __future__ import annotations

import math
import string
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.decoding import greedy
from skillviz.core.encoded import Encoded
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
from skillviz.core.scores import correct, predictions
from tests.core.problems import PAD, examples, finish, model_of, problem_of, table_of
from tests.reference.generation import slow_greedy, slow_perplexity
from tests.reference.gradient import PlainModel
from tests.reference.likelihood import slow_likelihood

MOST, CPU = 6, torch.device("cpu")


def words(ids: list[int]) -> str:
    return " ".join(map(str, ids))


def generation(references: tuple[str, ...], ends: tuple[int, ...] = ()) -> Generation:
    return Generation(references, MOST, ends, False, words, normalised)


def written(n: int = 8, by_length: bool = False) -> Encoded:
    """Return n prompts of 4 to 11 tokens, each with a reference of 1 to 3 tokens."""
    whole = examples("causal", n=n, labels=1)
    assert whole.answers is not None
    references = tuple(words(answer.tolist()) for (answer,) in whole.answers)
    return replace(whole, labels=np.ones(n, dtype=np.int64), generation=generation(references), by_length=by_length)


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "gpt_neox"])
def test_a_text_is_the_same_whatever_shares_its_batch(family: str) -> None:
    model, prompts = model_of(family, "causal"), written().input_ids
    free = [slow_greedy(model, prompt, MOST, ()) for prompt in prompts]
    ends = (free[0][2], free[3][1])
    wanted = [slow_greedy(model, prompt, MOST, ends) for prompt in prompts]
    assert {len(text) for text in wanted} - {MOST} and len({len(prompt) for prompt in prompts}) > 2
    for micro_tokens in (1, 40, 10_000):
        assert greedy(model, prompts, generation((), ends), CPU, micro_tokens) == wanted
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
    assert isinstance(found, Generated) and isinstance(back, Generated)
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
    assert problem.train.backward() == pytest.approx(float(slow.detach()), rel=1e-5)
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-4, atol=1e-5)  # float32 sums in another order
    assert float(wanted.abs().max()) > 1e-2


@pytest.mark.parametrize("name", ["stagewise", "stagewise-judged", "first-order", "learned-ranked"])
def test_a_localizer_of_each_kind_takes_them(name: str) -> None:
    problem, row = problem_of(model_of("gpt2", "causal"), written(), "causal"), localizer(name)
    options = row.make_options({} if name == "first-order" else {"steps": 2})
    steps, found = finish(row.search(problem, 20, seed=0, options=options))
    assert np.isfinite([step.loss for step in steps]).all() and len(set(found.order[:20].tolist())) == 20


@pytest.mark.parametrize("has_texts", [True, False])
def test_grafts_that_share_their_lower_layers_are_scored_as_each_is_alone(has_texts: bool) -> None:
    """Blocks cannot be skipped while a text grows: every graft is passed whole."""
    encoded = written() if has_texts else replace(written(), generation=None)
    problem = problem_of(model_of("gpt2", "causal"), encoded, "causal")
    upper = torch.arange(problem.d - 400, problem.d)
    (found,) = logits_of(problem.train, [Change(upper, lambda: problem.finetuned[upper])])
    problem.set_region(upper)
    wanted = problem.train.logits()
    assert isinstance(wanted, Generated) and isinstance(found, Generated) and has_matches(found) == has_texts
    assert found.texts == wanted.texts and np.array_equal(found, wanted)


ONES = np.ones(60, dtype=np.int64)


def drawn(n: int = 60, seed: int = 0) -> Generated:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 9, n)
    return generated_scores(rng.random(n) < 0.4, -tokens * rng.gamma(2, 0.3, n), tokens)


def perplexity_of(z: Generated, rows: Any = slice(None)) -> float:
    """Return the slow twin's perplexity of some rows."""
    return slow_perplexity(z[rows, 2].tolist(), (-z[rows, 3]).tolist())


def test_metrics_are_exact_match_and_perplexity_alone() -> None:
    z = drawn()
    found, wanted = (
        score(z, ONES, "exact_match"),
        {"exact_match": float(z[:, 1].mean()), "perplexity": perplexity_of(z)},
    )
    assert found == pytest.approx(wanted, rel=1e-7) and set(predictions(z)) == {0, 1}
    by_example = float(np.mean(np.exp(np.asarray(z[:, 2] / z[:, 3], dtype=np.float64))))
    assert abs(by_example - wanted["perplexity"]) > 0.01, "the mean of the examples' perplexities is different"
    assert panels("exact_match") == ["exact_match", "perplexity"]
    assert metric_names("exact_match", (*SCORED, "agreement")) == ["exact_match", "perplexity", "agreement"]
    assert not set(wanted) & set(score(np.eye(2)[ONES], ONES)) and "perplexity" not in metric_names("f1")


def references_alone(n: int = 60, nats: float = 1.0, seed: int = 0) -> Generated:
    """Return scores of references with `nats` per token on average and no generated text."""
    tokens, factors = np.arange(n) % 7 + 1, np.random.default_rng(seed).uniform(0.8, 1.2, n)
    return generated_scores(None, -tokens * nats * factors, tokens)


def test_references_alone_have_no_predictions() -> None:
    z = references_alone()
    assert not has_matches(z) and has_matches(drawn()) and not has_predictions("perplexity")
    assert set(score(z, ONES, "perplexity")) == {"perplexity"} and panels("perplexity") == ["perplexity"]
    assert metric_names("perplexity", (*SCORED, "agreement", "recovered")) == ["perplexity", "recovered"]
    names = ("perplexity", "exact_match", "f1")
    assert [right_metric(name) for name in names] == ["perplexity", "exact_match", "accuracy"]


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
    alone, whole = (
        problem_of(model_of("gpt2", "causal"), encoded, "causal", micro_tokens=micro_tokens).train
        for encoded, micro_tokens in ((replace(written(), generation=None), 30), (written(), None))
    )
    nats = whole.logits()
    np.testing.assert_allclose(alone.logits()[:, 2:], nats[:, 2:], rtol=1e-6)
    assert alone.accuracy() == pytest.approx(float(np.exp(nats[:, 2] / -nats[:, 3]).mean()), rel=1e-5)


def test_the_learned_mask_keeps_the_step_whose_references_are_likeliest() -> None:
    problem = problem_of(model_of("gpt2", "causal"), replace(written(), generation=None), "causal")
    row = localizer("learned")
    options = row.make_options({"steps": 3, "lr": 1e7, "selection": "train+validation", "score_every": 1})
    (note,) = finish(row.search(problem, 20, seed=0, options=options))[1].notes
    assert "kept, from step" in note


def test_the_interval_of_perplexity_is_over_examples() -> None:
    z, other, rng = drawn(), drawn(seed=1), np.random.default_rng(1)
    value, low, high = metric_interval(z, ONES, "perplexity")[:3]
    draws = [perplexity_of(z, rng.integers(0, 60, 60)) for _ in range(2000)]
    np.testing.assert_allclose((low, high), np.quantile(draws, [0.025, 0.975]), rtol=0.02)  # different draws
    less = metric_difference(z, other, ONES, "perplexity").value
    assert low < value < high and less == pytest.approx(value - metric_interval(other, ONES, "perplexity").value)


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("  The  cat,\nhere ", {}, "The cat, here"),
        ("The  cat!", {"ignore_case": True}, "the cat!"),
        ("The «cat»!", {"ignore_punctuation": True}, "The cat"),
    ],
)
def test_a_match_leaves_out_white_space_and_what_it_is_told_to(
    text: str, options: dict[str, bool], wanted: str
) -> None:
    assert normalised(text, **options) == wanted


def test_a_text_ends_before_a_line_break_where_that_ends_it() -> None:
    letters = string.ascii_lowercase + "\n"
    lines = Generation(("ab",), 4, (25,), True, lambda ids: "".join(letters[i] for i in ids), normalised)
    assert lines.text([0, 1, 26, 2]) == "ab"
    assert [lines.has_ended(ids) for ids in ([0, 26], [25], [0, 1])] == [True, True, False]
    assert not replace(lines, at_line_break=False).has_ended([0, 26])
    for ids in ([0, 1, 26], [0, 1, 25]):
        scores = lines.scored([ids], np.array([-1.0]), np.array([3]))
        assert scores.tolist() == [[0.0, 1.0, -1.0, -3.0]] and scores.texts == ("ab",)


def test_only_scores_of_generated_texts_are_taken_for_such() -> None:
    assert is_generated(drawn(), LABELS) and not is_generated(np.zeros((3, 4)), ("a", "b", "c", "d"))
    assert not is_generated(np.zeros((3, 2)), LABELS)
    assert drawn()[:3].texts == () and drawn().texts == ()
