"""Tests of the scores of a pair's states against the plain models, one example at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from skillviz.core.region import Region
from skillviz.models.predict import predict, predict_grafts
from tests.models.examples import FITTING, examples, open_pair, some_region


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "opt", "gpt_neox", "llama"])
def test_finetuned_scores_are_the_models_own(tmp_path: Path, family: str) -> None:
    pair = open_pair(tmp_path, family, move_embeddings=True)
    encoded = examples(tmp_path, pair)
    alone = AutoModelForSequenceClassification.from_pretrained(tmp_path / "finetuned", dtype=torch.float32).eval()
    alone.config.pad_token_id = pair.tokenizer.pad_token_id
    wanted = []
    for i, ids in enumerate(encoded.input_ids):
        inputs = {"input_ids": torch.tensor(ids)[None]}
        if encoded.token_type_ids is not None:
            inputs["token_type_ids"] = torch.tensor(encoded.token_type_ids[i])[None]
        with torch.no_grad():
            wanted.append(alone(**inputs).logits[0].numpy())
    scores = predict(pair, encoded, "finetuned")
    assert scores.dtype == np.float32 and scores.shape == (len(encoded), 2)
    # Padded batches and single rows add in another order.
    np.testing.assert_allclose(scores, np.stack(wanted), rtol=1e-4, atol=1e-5)
    assert np.abs(predict(pair, encoded, "pretrained") - np.stack(wanted)).max() > 1e-2


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_the_ends_predict_alike(tmp_path: Path, family: str, readout: str) -> None:
    pair = open_pair(tmp_path, family, readout)
    encoded = examples(tmp_path, pair)
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    scores = {state: predict(pair, encoded, state) for state in ("pretrained", "finetuned")}
    assert np.array_equal(predict(pair, encoded, "grafted", empty), scores["pretrained"])
    assert np.array_equal(predict(pair, encoded, "grafted", full), scores["finetuned"])
    assert np.array_equal(predict(pair, encoded, "complement", full), scores["pretrained"])
    assert not np.array_equal(scores["pretrained"], scores["finetuned"])


def test_the_order_of_examples_does_not_matter(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    encoded, region = examples(tmp_path, pair), some_region(pair)
    order = np.random.default_rng(0).permutation(len(encoded))
    scores = predict(pair, encoded, "grafted", region)
    np.testing.assert_allclose(
        predict(pair, encoded.take(order), "grafted", region), scores[order], rtol=1e-4, atol=1e-5
    )


def test_predicting_changes_nothing(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    encoded = examples(tmp_path, pair)
    first = predict(pair, encoded, "pretrained")
    predict(pair, encoded, "finetuned")
    assert torch.equal(pair.flat.theta, pair.base)
    assert np.array_equal(predict(pair, encoded, "pretrained"), first)


def test_autocast_touches_activations_only(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    encoded = examples(tmp_path, pair)
    exact = predict(pair, encoded, "finetuned")
    rounded = predict(pair, encoded, "finetuned", autocast=torch.bfloat16)
    assert rounded.dtype == np.float32 and not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, atol=0.2)
    assert pair.flat.theta.dtype == torch.float32


@pytest.mark.nightly
@pytest.mark.parametrize("labels", [2, 4])
def test_a_trained_tiny_pair_has_a_skill(tmp_path: Path, labels: int) -> None:
    pair = open_pair(tmp_path, steps=40, labels=labels)
    encoded = examples(tmp_path, pair, labels=labels, rows=32)
    right = {s: (predict(pair, encoded, s).argmax(1) == encoded.labels).mean() for s in ("pretrained", "finetuned")}
    assert right["finetuned"] > 0.8 and right["pretrained"] < right["finetuned"] - 0.2


@pytest.mark.parametrize("around", [False, True], ids=["base", "graft"])
def test_many_grafts_at_once_score_as_each_alone(tmp_path: Path, around: bool) -> None:
    pair = open_pair(tmp_path)
    encoded, whole = examples(tmp_path, pair), some_region(pair)
    upper = [p.name for p in pair.table.parameters if p.layer == 1]
    part = Region({name: whole.indices[name] for name in upper if name in whole.indices}, whole.shapes)
    regions = [part, whole - part, Region.empty(whole.shapes), whole]
    found = predict_grafts(pair, encoded, regions, whole if around else None)
    wanted = [predict(pair, encoded, "grafted", region) for region in regions]
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
    assert part.size and not np.array_equal(found[0], found[2]) and torch.equal(pair.flat.theta, pair.base)
