"""Test that a text has the same scores alone and in a batch, with any other texts and end tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded
from skillviz.core.readout import HeadReadout
from tests.cases.build import evaluated, own_accuracy, task_file
from tests.tiny import tiny_rows, tiny_tokenizer
from tests.tiny_families import family_model, family_pair

TEXTS = ["good", "the film was bad and dull", "a </s> b", "</s>", "it was </s></s> a funny story with </s>", "a story"]


@pytest.mark.parametrize(
    "family", ["roberta", "gpt2", "llama", "opt", "xlnet", "bart", "mbart", "plbart", "mvp", "t5", "umt5"]
)
def test_a_text_has_its_own_scores(family: str) -> None:
    model, tokenizer = family_model(family), tiny_tokenizer("roberta")
    ids = [np.array(tokenizer(text)["input_ids"]) for text in TEXTS]
    encoded = Encoded(
        ids=TEXTS, labels=np.zeros(len(TEXTS), dtype=np.int64), n_labels=2, pad_id=tokenizer.pad_token_id, input_ids=ids
    )
    with torch.no_grad():
        alone = torch.cat([model(input_ids=torch.from_numpy(row)[None]).logits for row in ids])
        batch = Batches(encoded, torch.device("cpu")).batch(np.arange(len(TEXTS)))
        together = HeadReadout().logits(model, batch)
    assert alone.std(0).max() > 1e-2, "texts of equal scores would show nothing"
    # padding and batching change the order of float32 sums
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_group_of_texts() -> None:
    model, tokenizer = family_model("t5"), tiny_tokenizer("roberta")
    ids = [np.array(tokenizer(text)["input_ids"]) for text in TEXTS]
    labels = np.array([0, 1, 0, 1, 0, 1])
    encoded = Encoded(ids=TEXTS, labels=labels, n_labels=2, pad_id=tokenizer.pad_token_id, input_ids=ids)
    batch = Batches(encoded, torch.device("cpu")).batch(np.arange(len(TEXTS)))
    weight = model.classification_head.out_proj.weight
    loss = torch.nn.functional.cross_entropy(HeadReadout().logits(model, batch), batch.labels, reduction="sum")
    (together,) = torch.autograd.grad(loss, weight)
    alone = torch.zeros_like(weight)
    for row, label in zip(ids, labels, strict=True):
        logits = model(input_ids=torch.from_numpy(row)[None]).logits
        alone += torch.autograd.grad(torch.nn.functional.cross_entropy(logits, torch.tensor([label])), weight)[0]
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["xlnet", "t5"])
def test_evaluate_has_the_models_own_accuracy(tmp_path: Path, family: str) -> None:
    base, tuned = family_pair(tmp_path, family)
    rows = [{**row, "text": row["text"] + " </s> a" * (i % 3)} for i, row in enumerate(tiny_rows(48))]
    model = AutoModelForSequenceClassification.from_pretrained(tuned).eval()
    own = own_accuracy(model, tiny_tokenizer("roberta"), rows)
    assert evaluated(base, tuned, task_file(tmp_path / "task", rows, rows), readout="head")[0] == own
