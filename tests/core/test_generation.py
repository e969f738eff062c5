"""Tests of generated texts: greedy decoding in any batch, perplexity, exact match, and the loss."""

from __future__ import annotations

import math
from dataclasses import replace

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
from tests.core.problems import PAD, examples, model_of, problem_of
from tests.reference.generation import slow_greedy, slow_perplexity
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
    assert padded != wanted  # the result of wrong padding


def test_a_model_that_keeps_nothing_generates_the_same() -> None:
    model, prompts = model_of("gpt2", "causal"), written().input_ids
    wanted = greedy(model, prompts, generation(()), CPU, 100)
    whole = model.base_model.forward

    def forgets(*args: object, **named: object) -> object:
        found = whole(*args, **named)
        found.past_key_values = None
        return found

    model.base_model.forward = forgets
    assert greedy(model, prompts, generation(()), CPU, 100) == wanted


@pytest.mark.parametrize("by_length", [False, True])
def test_the_scores_are_those_of_single_texts_in_their_order(by_length: bool) -> None:
    encoded, model = written(by_length=by_length), model_of("gpt2", "causal")
    assert encoded.answers is not None and encoded.generation is not None
    texts = [slow_greedy(model, prompt, MOST, ()) for prompt in encoded.input_ids]
    rights = (1, 4)
    references = tuple(words(text) if i in rights else "no" for i, text in enumerate(texts))
    encoded = replace(encoded, generation=generation(references))
    problem = problem_of(model, encoded, "causal", micro_tokens=30)
    found = problem.train.logits()
    nats = [slow_likelihood(model, p, a) for p, (a,) in zip(encoded.input_ids, encoded.answers, strict=True)]
    tokens = [len(answer) for (answer,) in encoded.answers]
    assert isinstance(found, Generated) and found.texts == tuple(map(words, texts))
    assert np.flatnonzero(correct(found, encoded.labels)).tolist() == list(rights)
    np.testing.assert_allclose(found[:, 2], nats, rtol=1e-5)  # sums of float32 log p
    assert (-found[:, 3]).tolist() == tokens
    back = problem.train.logits(np.array([5, 1]))
    np.testing.assert_allclose(back, found[[5, 1]], rtol=1e-6)
    assert back.texts == (found.texts[5], found.texts[1])  # type: ignore[attr-defined]
    each = np.divide(nats, tokens) if by_length else np.array(nats)
    assert problem.train.loss() == pytest.approx(-each.mean(), rel=1e-5)
    assert problem.train.accuracy() == 2 / 8


def test_the_gradient_is_that_of_the_references_log_likelihood() -> None:
    encoded = written()
    assert encoded.answers is not None
    problem = problem_of(model_of("gpt2", "causal"), encoded, "causal")
    loss = problem.train.backward()
    model, slow = model_of("gpt2", "causal"), torch.zeros(())
    for prompt, (answer,) in zip(encoded.input_ids, encoded.answers, strict=True):
        ids = torch.tensor(np.concatenate([prompt, answer]))[None]
        log_p = model(input_ids=ids).logits[0].log_softmax(-1)
        for place in range(len(prompt), ids.shape[1]):
            slow = slow - log_p[place - 1, ids[0, place]] / len(encoded)
    slow.backward()
    wanted = torch.cat([model.get_parameter(name).grad.reshape(-1) for name in problem.table.names])
    assert loss == pytest.approx(float(slow.detach()), rel=1e-5)
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-4, atol=1e-5)  # float32 sums in another order
    assert float(wanted.abs().max()) > 1e-2


@pytest.mark.parametrize("name", ["stagewise", "stagewise-judged", "first-order", "learned-ranked"])
def test_a_localizer_of_each_kind_takes_them(name: str) -> None:
    problem, row = problem_of(model_of("gpt2", "causal"), written(), "causal"), localizer(name)
    steps = row.search(problem, 20, seed=0, options=row.make_options({} if name == "first-order" else {"steps": 2}))
    while True:
        try:
            assert np.isfinite(next(steps).loss)
        except StopIteration as end:
            assert len(set(end.value.order[:20].tolist())) == 20
            break


def test_grafts_that_share_their_lower_layers_generate_what_each_does_alone() -> None:
    """Blocks cannot be skipped while a text grows: every graft is passed whole."""
    problem = problem_of(model_of("gpt2", "causal"), written(), "causal")
    upper = torch.arange(problem.d - 400, problem.d)
    (found,) = logits_of(problem.train, [Change(upper, lambda: problem.finetuned[upper])])
    problem.set_region(upper)
    wanted = problem.train.logits()
    assert isinstance(wanted, Generated) and isinstance(found, Generated)
    assert found.texts == wanted.texts and np.array_equal(found, wanted)


def drawn(n: int = 60, seed: int = 0) -> Generated:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 9, n)
    return generated_scores(rng.random(n) < 0.4, -tokens * rng.gamma(2, 0.3, n), tokens)


def test_metrics_are_exact_match_and_perplexity_alone() -> None:
    z, y = drawn(), np.ones(60, dtype=np.int64)
    found = score(z, y, "exact_match")
    assert set(found) == {"exact_match", "perplexity"} and set(predictions(z)) == {0, 1}
    assert found["exact_match"] == pytest.approx(z[:, 1].mean())
    wanted = slow_perplexity(z[:, 2].tolist(), (-z[:, 3]).astype(int).tolist())
    assert found["perplexity"] == pytest.approx(wanted, rel=1e-9)
    by_example = float(np.mean(np.exp(np.asarray(z[:, 2] / z[:, 3], dtype=np.float64))))
    assert abs(by_example - wanted) > 0.01  # the mean of the examples' perplexities is different
    assert panels("exact_match") == ["exact_match", "perplexity"]
    assert metric_names("exact_match", (*SCORED, "agreement")) == ["exact_match", "perplexity", "agreement"]
    assert not {"exact_match", "perplexity"} & set(score(np.eye(2)[y], y)) and "perplexity" not in metric_names("f1")


def references_alone(n: int = 60, nats: float = 1.0, seed: int = 0) -> Generated:
    """Return scores of references with `nats` per token on average and no generated text."""
    tokens = np.arange(n) % 7 + 1
    each = nats * np.random.default_rng(seed).uniform(0.8, 1.2, n)
    return generated_scores(None, -tokens * each, tokens)


def test_references_alone_have_no_predictions() -> None:
    z, y = references_alone(), np.ones(60, dtype=np.int64)
    assert not has_matches(z) and has_matches(drawn()) and not has_predictions("perplexity")
    assert set(score(z, y, "perplexity")) == {"perplexity"} and panels("perplexity") == ["perplexity"]
    assert metric_names("perplexity", (*SCORED, "agreement", "recovered")) == ["perplexity", "recovered"]
    assert (right_metric("perplexity"), right_metric("exact_match"), right_metric("f1")) == (
        "perplexity", "exact_match", "accuracy",
    )  # fmt: skip


def test_a_gain_in_perplexity_is_one_in_nats_per_token() -> None:
    y = np.ones(60, dtype=np.int64)
    base, graft, tuned = (references_alone(nats=nats, seed=nats > 1) for nats in (5.0, 2.0, 0.5))
    gain = recovered_gain(graft, base, tuned, y, "perplexity")
    nats = [-math.log(slow_perplexity(z[:, 2].tolist(), (-z[:, 3]).tolist())) for z in (base, graft, tuned)]
    assert gain.value == pytest.approx((nats[1] - nats[0]) / (nats[2] - nats[0]), rel=1e-9)
    assert 0.6 < gain.low < gain.value < gain.high < 0.75
    linear = [math.exp(-one) for one in nats]
    assert (linear[0] - linear[1]) / (linear[0] - linear[2]) > 0.9  # the perplexity itself would give this
    assert math.isnan(recovered_gain(graft, tuned, base, y, "perplexity").value)  # worse than the base: no gain
    less = metric_difference(graft, tuned, y, "perplexity")
    assert less.value > 0 and METRICS["perplexity"].verdict(less.low, less.high) == "worse"


def test_models_are_scored_by_their_references_without_a_text() -> None:
    encoded, model = replace(written(), generation=None), model_of("gpt2", "causal")
    problem = problem_of(model, encoded, "causal", micro_tokens=30)
    found, nats = problem.train.logits(), problem_of(model, written(), "causal").train.logits()
    assert isinstance(found, Generated) and not has_matches(found)
    np.testing.assert_allclose(found[:, 2:], nats[:, 2:], rtol=1e-6)
    assert problem.train.accuracy() == pytest.approx(float(np.exp(nats[:, 2] / -nats[:, 3]).mean()), rel=1e-5)
    upper = torch.arange(problem.d - 400, problem.d)
    (graft,) = logits_of(problem.train, [Change(upper, lambda: problem.finetuned[upper])])
    problem.set_region(upper)
    assert isinstance(graft, Generated) and np.array_equal(graft, problem.train.logits())


def test_the_learned_mask_keeps_the_step_whose_references_are_likeliest() -> None:
    problem = problem_of(model_of("gpt2", "causal"), replace(written(), generation=None), "causal")
    row = localizer("learned")
    options = row.make_options({"steps": 3, "lr": 1e7, "selection": "train+validation", "score_every": 1})
    steps = row.search(problem, 20, seed=0, options=options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            (note,) = end.value.notes
            assert "kept, from step" in note
            break


def test_the_interval_of_perplexity_is_over_examples() -> None:
    z, y = drawn(), np.ones(60, dtype=np.int64)
    value, low, high = metric_interval(z, y, "perplexity")[:3]
    rng, draws = np.random.default_rng(1), []
    for _ in range(2000):
        rows = rng.integers(0, 60, 60)
        draws.append(slow_perplexity(z[rows, 2].tolist(), (-z[rows, 3]).tolist()))
    np.testing.assert_allclose((low, high), np.quantile(draws, [0.025, 0.975]), rtol=0.02)  # different draws
    assert low < value < high
    less = metric_difference(z, drawn(seed=1), y, "perplexity")
    assert less.value == pytest.approx(value - metric_interval(drawn(seed=1), y, "perplexity").value)


def test_a_match_leaves_out_white_space_and_what_it_is_told_to() -> None:
    assert normalised("  The  cat,\nhere ") == "The cat, here"
    assert normalised("The  cat!", ignore_case=True) == "the cat!"
    assert normalised("The «cat»!", ignore_punctuation=True) == "The cat"


def test_a_text_ends_before_a_line_break_where_that_ends_it() -> None:
    letters = "".join(chr(97 + i) for i in range(26)) + "\n"

    def decode(ids: list[int]) -> str:
        return "".join(letters[i] for i in ids)

    lines = Generation(("ab",), 4, (25,), True, decode, normalised)
    assert lines.text([0, 1, 26, 2]) == "ab" and lines.has_ended([0, 26]) and lines.has_ended([25])
    assert not lines.has_ended([0, 1]) and not replace(lines, at_line_break=False).has_ended([0, 26])
    scores = lines.scored([[0, 1, 26]], np.array([-1.0]), np.array([3]))
    assert scores.tolist() == [[0.0, 1.0, -1.0, -3.0]] and scores.texts == ("ab",)
    assert lines.scored([[0, 1, 25]], np.array([-1.0]), np.array([3])).texts == ("ab",)


def test_only_scores_of_generated_texts_are_taken_for_such() -> None:
    assert is_generated(drawn(), LABELS) and not is_generated(np.zeros((3, 4)), ("a", "b", "c", "d"))
    assert not is_generated(np.zeros((3, 2)), LABELS)
    assert drawn()[:3].texts == () and drawn().texts == ()
