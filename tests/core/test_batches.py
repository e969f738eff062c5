"""Tests of micro-batches: every row once, within the limit, and no effect of padding on the result."""

from __future__ import annotations

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
    return Encoded([str(i) for i in range(len(rows))], rows, np.zeros(len(rows), dtype=np.int64), 2, PAD)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 100))
def test_every_row_once_and_no_batch_above_the_limit(lengths: list[int], limit: int) -> None:
    batches = Batches(of_lengths(lengths), CPU, limit)
    parts = batches.plan(np.arange(len(lengths)))
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    widths = [max(lengths[i] for i in part) for part in parts]
    assert all(len(p) == 1 or len(p) * w <= limit for p, w in zip(parts, widths, strict=True))
    assert widths == sorted(widths)
    for part, following in zip(parts, parts[1:], strict=False):
        assert (len(part) + 1) * lengths[following[0]] > limit, "a batch was closed before it was full"


def test_the_plan_is_by_length_and_repeats_are_kept() -> None:
    batches = Batches(of_lengths([5, 2, 9, 2]), CPU, 1000)
    rows = np.array([2, 0, 3, 0, 1])
    assert batches.plan(rows)[0].tolist() == [3, 1, 0, 0, 2]
    assert rows[batches.by_length(rows)].tolist() == [3, 1, 0, 0, 2]
    assert batches.plan(np.array([], dtype=np.int64)) == []


def test_a_batch_is_its_rows_and_padding() -> None:
    encoded = examples(n=6)
    batch = Batches(encoded, CPU).batch(np.array([4, 1]))
    for row, ids, mask in zip((4, 1), batch.inputs["input_ids"], batch.inputs["attention_mask"], strict=True):
        length = len(encoded.input_ids[row])
        assert ids[:length].tolist() == encoded.input_ids[row].tolist()
        assert (ids[length:] == PAD).all()
        assert mask.tolist() == [1] * length + [0] * (len(mask) - length)
    assert batch.inputs["input_ids"].shape[1] == max(len(encoded.input_ids[i]) for i in (4, 1))
    assert batch.labels.tolist() == [encoded.labels[4], encoded.labels[1]]


def test_types_and_positions_follow_their_rows() -> None:
    encoded = examples("prompt", n=5)
    types = [np.arange(len(row)) % 2 for row in encoded.input_ids]
    encoded = Encoded(**{**vars(encoded), "token_type_ids": types})
    batch = Batches(encoded, CPU).batch(np.array([3, 0, 2]))
    assert batch.positions is not None
    for place, row in enumerate((3, 0, 2)):
        assert batch.inputs["token_type_ids"][place, : len(types[row])].tolist() == types[row].tolist()
        assert int(batch.positions[place]) == encoded.positions[row]  # type: ignore[index]


def test_causal_sequences_are_prompt_then_answer_and_the_limit_counts_all_labels() -> None:
    encoded = examples("causal", n=4, labels=3)
    batches = Batches(encoded, CPU, 70)
    for batch in batches.micro(np.arange(4)):
        n, labels, length = batch.answers.shape  # type: ignore[union-attr]
        assert n == 1 or n * labels * length <= 70
        ids = batch.inputs["input_ids"].view(n, labels, length)
        mask = batch.inputs["attention_mask"].view(n, labels, length)
        for place, row in enumerate(batch.rows):
            for label in range(labels):
                prompt, answer = encoded.input_ids[row], encoded.answers[row][label]  # type: ignore[index]
                whole = [*prompt, *answer]
                assert ids[place, label].tolist() == whole + [PAD] * (length - len(whole))
                assert int(mask[place, label].sum()) == len(whole)
                where = batch.answers[place, label].nonzero().squeeze(1).tolist()  # type: ignore[index]
                assert where == list(range(len(prompt), len(whole)))


def test_take_keeps_everything_of_a_row_together() -> None:
    for readout in ("head", "prompt", "causal"):
        encoded = examples(readout, n=7, labels=2)
        few = encoded.take([5, 0, 5])
        assert few.ids == ["train-5", "train-0", "train-5"] and len(few) == 3
        assert few.lengths.tolist() == encoded.lengths[[5, 0, 5]].tolist()
        assert few.labels.tolist() == encoded.labels[[5, 0, 5]].tolist()
        if readout == "causal":
            longest = [max(len(a) for a in row) for row in encoded.answers]  # type: ignore[union-attr]
            own = [len(ids) for ids in encoded.input_ids]
            assert encoded.lengths.tolist() == [a + b for a, b in zip(own, longest, strict=True)]


@pytest.mark.parametrize("readout", ["head", "causal"])
def test_the_default_limit_is_the_devices(readout: str) -> None:
    assert Batches(examples(readout), CPU).micro_tokens == 512
