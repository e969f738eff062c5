"""Tests that class scores equal the plain model's, and of micro-batches: every row once, and no effect of padding; of
generated texts: greedy decoding in any batch, perplexity, exact match, and the loss; and of own options.

In examples with their own options, absent ones have probability 0 and do not count.
"""

import math
import string
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.batches import Batches
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
from skillviz.core.readout import CausalReadout, columns, make_readout
from skillviz.core.scores import correct, predictions
from skillviz.core.temperature import COLDEST, HOTTEST, scaled, temperature_fit
from skillviz.models.heads import READOUTS
from tests.core.by_hand import by_hand, near
from tests.core.problems import LABEL_IDS, PAD, examples, finish, model_of, problem_and_twin, problem_of
from tests.reference.generation import slow_greedy, slow_likelihood, slow_perplexity
from tests.tiny import tiny_model

CPU = torch.device("cpu")
DECODERS = ("gpt2", "opt", "gpt_neox", "llama")


def scores(model: torch.nn.Module, encoded: Encoded, readout: object, limit: int = 60) -> np.ndarray:
    out = np.empty((len(encoded), encoded.n_labels), dtype=np.float32)
    with torch.no_grad():
        for batch in Batches(encoded, CPU, limit).micro(np.arange(len(encoded))):
            out[batch.rows] = readout.logits(model, batch).numpy()  # type: ignore[attr-defined]
    return out


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("labels", [2, 4])
@torch.no_grad()
def test_prompt_is_the_full_logits_at_the_mask(family: str, labels: int) -> None:
    encoded, model = examples("prompt", n=9, labels=labels), model_of(family, "prompt")
    found = scores(model, encoded, make_readout("prompt", encoded))
    for i, (ids, place) in enumerate(zip(encoded.input_ids, encoded.positions, strict=True)):  # type: ignore[arg-type]
        full = model(input_ids=torch.from_numpy(ids)[None]).logits[0, :, list(LABEL_IDS[:labels])].numpy()
        # Padding and batching change the order of float32 sums: 1e-5 on scores of size 1.
        np.testing.assert_allclose(found[i], full[place], rtol=1e-5, atol=1e-5)
        assert np.abs(found[i] - full[(place + 1) % len(ids)]).max() > 1e-3, "a position off by one would pass"


def likelihoods(model: torch.nn.Module, encoded: Encoded, dropped: int = 0) -> np.ndarray:
    """Return the slow twin's log-likelihoods [n, label] of the answers, without so many last tokens."""
    return np.array(
        [
            [slow_likelihood(model, ids, answer[: len(answer) - dropped]) for answer in answers]
            for ids, answers in zip(encoded.input_ids, encoded.answers, strict=True)  # type: ignore[arg-type]
        ]
    )


@pytest.mark.parametrize("family", [*DECODERS, "opt with projections"])
def test_causal_is_the_token_by_token_likelihood(family: str) -> None:
    encoded = examples("causal", n=5, labels=3)
    model = model_of(family, "causal") if family in DECODERS else tiny_model("opt", "causal", word_embed_proj_dim=8)
    assert family in DECODERS or model.model.decoder.project_out is not None
    lengths = np.array([[len(a) for a in row] for row in encoded.answers])  # type: ignore[union-attr]
    assert np.unique(lengths).size > 1, "answers of several lengths are wanted"
    found, wanted = scores(model, encoded, make_readout("causal", encoded)), likelihoods(model, encoded)
    by_length = scores(model, encoded, CausalReadout(by_length=True))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-5)  # sums of up to three float32 log p
    np.testing.assert_allclose(by_length, wanted / lengths, rtol=1e-5, atol=2e-5)
    assert np.abs(found - likelihoods(model, encoded, 1)).min() > 1e-3, "a dropped last token would pass"


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", *DECODERS])
@torch.no_grad()
def test_head_is_the_models_own(family: str) -> None:
    encoded, model = examples("head", n=7, labels=3), model_of(family, "head", labels=3)
    wanted = torch.cat([model(input_ids=torch.from_numpy(ids)[None]).logits for ids in encoded.input_ids])
    # float32 sums in another order
    np.testing.assert_allclose(scores(model, encoded, make_readout("head", encoded)), wanted, rtol=1e-5, atol=1e-5)


def test_an_index_that_scoring_made_first_can_be_trained_with() -> None:
    columns.cache_clear()
    with torch.inference_mode():
        index = columns((2, 0), CPU)
    logits = torch.ones(3, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(logits[:, index].sum(), logits)
    assert not index.is_inference() and slope.sum() == 6


@pytest.mark.parametrize(("readout", "family"), [("prompt", "bert"), *(("causal", family) for family in DECODERS)])
def test_an_architecture_without_a_row_is_asked_for_all_positions(readout: str, family: str) -> None:
    encoded, model = examples(readout, n=4), model_of(family, readout)
    quick = scores(model, encoded, make_readout(readout, encoded))
    model.config.model_type = "some-new-type"
    np.testing.assert_allclose(
        scores(model, encoded, make_readout(readout, encoded)), quick, rtol=1e-5, atol=2e-5
    )  # float32 sums


def of_lengths(lengths: list[int]) -> Encoded:
    rows = [np.arange(10, 10 + k) for k in lengths]
    return Encoded([str(k) for k in lengths], rows, np.zeros(len(rows), dtype=np.int64), 2, PAD)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 100))
def test_every_row_once_and_no_batch_above_the_limit(lengths: list[int], limit: int) -> None:
    parts = Batches(of_lengths(lengths), CPU, limit).plan(np.arange(len(lengths)))
    widths = [max(lengths[i] for i in part) for part in parts]
    too_wide = [p for p, w in zip(parts, widths, strict=True) if len(p) > 1 and len(p) * w > limit]
    assert (sorted(np.concatenate(parts)), too_wide, widths) == ([*range(len(lengths))], [], sorted(widths))
    not_full = [part for part, following in pairwise(parts) if (len(part) + 1) * lengths[following[0]] <= limit]
    assert not_full == [], "a batch was closed before it was full"


def test_a_batch_is_its_rows_and_padding() -> None:
    encoded, rows = examples("prompt", n=6), [4, 1, 3]
    types = [np.arange(len(row)) % 2 for row in encoded.input_ids]
    batch = Batches(replace(encoded, token_type_ids=types), CPU).batch(np.array(rows))
    assert (batch.labels.tolist(), batch.positions.tolist()) == (
        encoded.labels[rows].tolist(),
        encoded.positions[rows].tolist(),
    )
    columns = {
        "input_ids": (encoded.input_ids, PAD),
        "attention_mask": ([np.ones_like(row) for row in types], 0),
        "token_type_ids": (types, 0),
    }
    width = max(len(encoded.input_ids[row]) for row in rows)
    assert {name: tensor.tolist() for name, tensor in batch.inputs.items()} == {
        name: [[*values[row], *[filler] * (width - len(values[row]))] for row in rows]
        for name, (values, filler) in columns.items()
    }


def test_causal_sequences_are_prompt_then_answer_and_the_limit_counts_all_labels() -> None:
    encoded = examples("causal", n=4, labels=3)
    for batch in Batches(encoded, CPU, 70).micro(np.arange(4)):
        n, labels, length = batch.answers.shape  # type: ignore[union-attr]
        assert n == 1 or n * labels * length <= 70
        sequences = zip(*(batch.inputs[name].tolist() for name in ("input_ids", "attention_mask")),
                        batch.answers.flatten(0, 1).tolist(), strict=True)  # type: ignore[union-attr]  # fmt: skip
        for (row, label), (ids, mask, answered) in zip(product(batch.rows, range(labels)), sequences, strict=True):
            prompt, answer = encoded.input_ids[row], encoded.answers[row][label]  # type: ignore[index]
            rest = length - len(prompt) - len(answer)
            assert ids == [*prompt, *answer, *[PAD] * rest] and sum(mask) == length - rest
            assert answered == [False] * len(prompt) + [True] * len(answer) + [False] * rest


MOST = 6


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
    assert [greedy(model, prompts, generation((), ends), CPU, micro_tokens) for micro_tokens in (1, 40, 10_000)] == [
        wanted
    ] * 3
    assert [slow_greedy(model, np.array([PAD, PAD, *prompt]), MOST, ends) for prompt in prompts] != wanted, (
        "the result of wrong padding"
    )


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
    assert (found.texts, back.texts) == (tuple(texts), (texts[5], texts[1]))
    np.testing.assert_allclose(found[:, 2], nats, rtol=1e-5)  # sums of float32 log p
    assert np.flatnonzero(correct(found, encoded.labels)).tolist() == rights
    assert (-found[:, 3]).tolist() == list(map(len, answers))
    np.testing.assert_allclose(back, found[[5, 1]], rtol=1e-6)
    each = np.divide(nats, -found[:, 3]) if by_length else np.array(nats)
    assert problem.train.loss() == pytest.approx(-each.mean(), rel=1e-5) and problem.train.accuracy() == 2 / 8


def test_the_gradient_is_that_of_the_references_log_likelihood() -> None:
    problem, twin = problem_and_twin(model_of("gpt2", "causal"), written(), "causal")
    at = problem.base.double().requires_grad_()
    slow = -twin.logits_at(at, range(problem.train.n)).mean()
    wanted = torch.autograd.grad(slow, at)[0].float()
    assert problem.train.backward() == pytest.approx(slow.item(), rel=1e-5)
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-4, atol=1e-5)  # float32 sums in another order
    assert float(wanted.abs().max()) > 1e-2


@pytest.mark.parametrize(
    ("encoded", "name", "options"),
    [
        *((written, name, {"steps": 2}) for name in ("stagewise", "stagewise-judged", "learned-ranked")),
        (written, "first-order", {}), *((ragged, name, {}) for name in ("linearized", "fisher", "stagewise")),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)  # fmt: skip
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


def references_alone(n: int = 60, nats: float = 1.0, seed: int = 0) -> Generated:
    """Return scores of references with `nats` per token on average and no generated text."""
    tokens, factors = np.arange(n) % 7 + 1, np.random.default_rng(seed).uniform(0.8, 1.2, n)
    return generated_scores(None, -tokens * nats * factors, tokens)


LINES = Generation(
    ("ab",), 4, (25,), True, lambda ids: "".join((string.ascii_lowercase + "\n")[i] for i in ids), normalised
)


SEVEN, TAKEN = {name: examples(name, n=7, labels=2) for name in ("head", "prompt", "causal")}, [5, 0, 5]
BY_LENGTH, REPEATED, TEXTS = Batches(of_lengths([5, 2, 9, 2]), CPU, 1000), np.array([2, 0, 3, 0, 1]), drawn()
test_by_hand = by_hand(
    *((f"rows of {readout} taken", ([f"train-{row}" for row in TAKEN], 3, whole.lengths[TAKEN].tolist(),
                                    whole.labels[TAKEN].tolist()),
       lambda few: (few.ids, len(few), few.lengths.tolist(), few.labels.tolist()), whole.take(TAKEN))
      for readout, whole in SEVEN.items()),
    *((f"lengths of {readout}", [
        len(ids) + max(map(len, row)) for ids, row in zip(whole.input_ids, whole.answers or [[()]] * 7, strict=True)],
       whole.lengths.tolist) for readout, whole in SEVEN.items() if readout != "prompt"),
    ("metrics are exact match and perplexity alone",
     near({"exact_match": float(TEXTS[:, 1].mean()), "perplexity": perplexity_of(TEXTS)}, rel=1e-7),
     score, TEXTS, ONES, "exact_match"),
    ("predictions of texts", {0, 1}, lambda: set(predictions(TEXTS))),
    ("perplexity is not the mean of the examples' own", False, lambda: perplexity_of(TEXTS) == near(
        float(np.mean(np.exp(np.asarray(TEXTS[:, 2] / TEXTS[:, 3], dtype=np.float64)))), abs=0.01)),
    ("classes have neither", set(), lambda: {"exact_match", "perplexity"} & set(score(np.eye(2)[ONES], ONES))),
    ("nor has F1", False, lambda: "perplexity" in metric_names("f1")),
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
    *((f"scores of {ids}", ([[0.0, 1.0, -1.0, -3.0]], ("ab",)), lambda scores: (scores.tolist(), scores.texts),
       LINES.scored([ids], np.array([-1.0]), np.array([3]))) for ids in ([0, 1, 26], [0, 1, 25])),
    ("white space", "The cat, here", normalised, "  The  cat,\nhere "),
    ("case", "the cat!", lambda: normalised("The  cat!", ignore_case=True)),
    ("punctuation", "The cat", lambda: normalised("The «cat»!", ignore_punctuation=True)),
    *((f"name of {name}", name, lambda name=name: make_readout(name, examples(name)).name) for name in READOUTS),
    *((f"the device's limit, {readout}", 512, lambda readout=readout: Batches(examples(readout), CPU).micro_tokens)
      for readout in ("head", "causal")),
    ("rows by length, with repeats", [[3, 1, 0, 0, 2]] * 2,
     lambda: [BY_LENGTH.plan(REPEATED)[0].tolist(), REPEATED[BY_LENGTH.by_length(REPEATED)].tolist()]),
    ("no rows", [], lambda: Batches(of_lengths([5, 2]), CPU, 1000).plan(np.array([], dtype=np.int64))),
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
    np.testing.assert_allclose(
        (low, high),
        np.quantile([perplexity_of(z, rng.integers(0, 60, 60)) for _ in range(2000)], [0.025, 0.975]),
        rtol=0.02,
    )  # different draws
    assert low < value < high and metric_difference(z, other, ONES, "perplexity").value == pytest.approx(
        value - metric_interval(other, ONES, "perplexity").value
    )


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
