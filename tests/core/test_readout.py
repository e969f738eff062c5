"""Tests that class scores equal the plain model's, and of micro-batches: every row once, and no effect of padding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded
from skillviz.core.readout import CausalReadout, columns, make_readout
from skillviz.models.heads import READOUTS
from tests.core.by_hand import by_hand
from tests.core.problems import LABEL_IDS, PAD, examples, model_of
from tests.reference.generation import slow_likelihood
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
    pairs = zip(encoded.input_ids, encoded.answers, strict=True)  # type: ignore[arg-type]
    return np.array([[slow_likelihood(model, ids, a[: len(a) - dropped]) for a in answers] for ids, answers in pairs])


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
    found = scores(model, encoded, make_readout("head", encoded))
    wanted = torch.cat([model(input_ids=torch.from_numpy(ids)[None]).logits for ids in encoded.input_ids])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)  # float32 sums in another order


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
    found = scores(model, encoded, make_readout(readout, encoded))
    np.testing.assert_allclose(found, quick, rtol=1e-5, atol=2e-5)  # float32 sums


def of_lengths(lengths: list[int]) -> Encoded:
    rows = [np.arange(10, 10 + k) for k in lengths]
    return Encoded([str(k) for k in lengths], rows, np.zeros(len(rows), dtype=np.int64), 2, PAD)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 100))
def test_every_row_once_and_no_batch_above_the_limit(lengths: list[int], limit: int) -> None:
    parts = Batches(of_lengths(lengths), CPU, limit).plan(np.arange(len(lengths)))
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    widths = [max(lengths[i] for i in part) for part in parts]
    assert [p for p, w in zip(parts, widths, strict=True) if len(p) > 1 and len(p) * w > limit] == []
    assert widths == sorted(widths)
    not_full = [part for part, following in pairwise(parts) if (len(part) + 1) * lengths[following[0]] <= limit]
    assert not_full == [], "a batch was closed before it was full"


def test_the_plan_is_by_length_and_repeats_are_kept() -> None:
    batches, rows = Batches(of_lengths([5, 2, 9, 2]), CPU, 1000), np.array([2, 0, 3, 0, 1])
    assert batches.plan(rows)[0].tolist() == rows[batches.by_length(rows)].tolist() == [3, 1, 0, 0, 2]


def test_a_batch_is_its_rows_and_padding() -> None:
    encoded, rows = examples("prompt", n=6), [4, 1, 3]
    types = [np.arange(len(row)) % 2 for row in encoded.input_ids]
    batch = Batches(replace(encoded, token_type_ids=types), CPU).batch(np.array(rows))
    assert batch.labels.tolist() == encoded.labels[rows].tolist()
    assert batch.positions.tolist() == encoded.positions[rows].tolist()
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


@pytest.mark.parametrize("readout", ["head", "prompt", "causal"])
def test_take_keeps_everything_of_a_row_together(readout: str) -> None:
    encoded, rows = examples(readout, n=7, labels=2), [5, 0, 5]
    few = encoded.take(rows)
    assert few.ids == [f"train-{row}" for row in rows] and len(few) == 3
    assert few.lengths.tolist() == encoded.lengths[rows].tolist()
    assert few.labels.tolist() == encoded.labels[rows].tolist()
    longest = [max(map(len, row)) for row in encoded.answers or [[()]] * 7]
    if readout != "prompt":
        assert encoded.lengths.tolist() == np.add([len(ids) for ids in encoded.input_ids], longest).tolist()


test_by_hand = by_hand(
    *((f"name of {name}", name, lambda name=name: make_readout(name, examples(name)).name) for name in READOUTS),
    *((f"the device's limit, {readout}", 512, lambda readout=readout: Batches(examples(readout), CPU).micro_tokens)
      for readout in ("head", "causal")),
    ("no rows", [], lambda: Batches(of_lengths([5, 2]), CPU, 1000).plan(np.array([], dtype=np.int64))),
)  # fmt: skip
