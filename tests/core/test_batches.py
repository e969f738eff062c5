"""Tests of micro-batches: every row once, within the limit, and no effect of padding on the result."""

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
from tests.core.problems import PAD, examples

CPU = torch.device("cpu")


def of_lengths(lengths: list[int]) -> Encoded:
    rows = [np.arange(10, 10 + k) for k in lengths]
    return Encoded([str(k) for k in lengths], rows, np.zeros(len(rows), dtype=np.int64), 2, PAD)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 100))
def test_every_row_once_and_no_batch_above_the_limit(lengths: list[int], limit: int) -> None:
    parts = Batches(of_lengths(lengths), CPU, limit).plan(np.arange(len(lengths)))
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    widths = [max(lengths[i] for i in part) for part in parts]
    assert all(len(p) == 1 or len(p) * w <= limit for p, w in zip(parts, widths, strict=True))
    assert widths == sorted(widths)
    full = [(len(part) + 1) * lengths[following[0]] > limit for part, following in pairwise(parts)]
    assert all(full), "a batch was closed before it was full"


def test_the_plan_is_by_length_and_repeats_are_kept() -> None:
    batches, rows = Batches(of_lengths([5, 2, 9, 2]), CPU, 1000), np.array([2, 0, 3, 0, 1])
    assert batches.plan(rows)[0].tolist() == rows[batches.by_length(rows)].tolist() == [3, 1, 0, 0, 2]
    assert batches.plan(np.array([], dtype=np.int64)) == []


def test_a_batch_is_its_rows_and_padding() -> None:
    plain, rows = examples("prompt", n=6), [4, 1, 3]
    types = [np.arange(len(row)) % 2 for row in plain.input_ids]
    encoded = replace(plain, token_type_ids=types)
    batch = Batches(encoded, CPU).batch(np.array(rows))
    assert batch.positions is not None and encoded.positions is not None
    assert batch.labels.tolist() == encoded.labels[rows].tolist()
    assert batch.positions.tolist() == encoded.positions[rows].tolist()
    width = max(len(encoded.input_ids[row]) for row in rows)
    for name, values, filler in (
        ("input_ids", encoded.input_ids, PAD),
        ("attention_mask", [np.ones_like(row) for row in types], 0),
        ("token_type_ids", types, 0),
    ):
        padded = [[*values[row], *[filler] * (width - len(values[row]))] for row in rows]
        assert batch.inputs[name].tolist() == padded, name


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


@pytest.mark.parametrize("readout", ["head", "causal"])
def test_the_default_limit_is_the_devices(readout: str) -> None:
    assert Batches(examples(readout), CPU).micro_tokens == 512
