"""Tests of the scores of a pair's states against the plain models, one example at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from skillviz.api import ModelPair, Region
from skillviz.core.encoded import Encoded
from skillviz.models.predict import predict, predict_grafts
from tests.models.examples import FITTING, examples


@pytest.fixture
def encoded(pair: ModelPair, tmp_path: Path) -> Encoded:
    return examples(tmp_path, pair)


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("options", [{"move_embeddings": True}], ids=["embeddings"])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "opt", "gpt_neox", "llama"])
def test_finetuned_scores_are_the_models_own(pair: ModelPair, encoded: Encoded, tuned: Path) -> None:
    alone = AutoModelForSequenceClassification.from_pretrained(tuned, dtype=torch.float32).eval()
    alone.config.pad_token_id = pair.tokenizer.pad_token_id
    inputs = {"input_ids": encoded.input_ids, "token_type_ids": encoded.token_type_ids}
    with torch.no_grad():
        wanted = np.stack([
            alone(**{name: torch.tensor(rows[i])[None] for name, rows in inputs.items() if rows is not None}).logits[0]
            for i in range(len(encoded))
        ])  # fmt: skip
    scores = predict(pair, encoded, "finetuned")
    assert scores.dtype == np.float32 and scores.shape == (len(encoded), 2)
    # Padded batches and single rows add in another order.
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5)
    assert np.abs(predict(pair, encoded, "pretrained") - wanted).max() > 1e-2


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_the_ends_predict_alike_and_change_nothing(pair: ModelPair, encoded: Encoded) -> None:
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    scores = {state: predict(pair, encoded, state) for state in ("pretrained", "finetuned")}
    for state, region, end in (
        ("grafted", empty, "pretrained"),
        ("grafted", full, "finetuned"),
        ("complement", full, "pretrained"),
        ("pretrained", None, "pretrained"),
    ):
        assert np.array_equal(predict(pair, encoded, state, region), scores[end]), (state, end)
    assert not np.array_equal(scores["pretrained"], scores["finetuned"]) and torch.equal(pair.flat.theta, pair.base)


def test_the_order_of_examples_does_not_matter(pair: ModelPair, encoded: Encoded, region: Region) -> None:
    order = np.random.default_rng(0).permutation(len(encoded))
    scores = predict(pair, encoded, "grafted", region)[order]
    np.testing.assert_allclose(predict(pair, encoded.take(order), "grafted", region), scores, rtol=1e-4, atol=1e-5)


def test_autocast_touches_activations_only(pair: ModelPair, encoded: Encoded) -> None:
    exact, rounded = (predict(pair, encoded, "finetuned", autocast=kind) for kind in (None, torch.bfloat16))
    assert (rounded.dtype, pair.flat.theta.dtype) == (np.float32, torch.float32)
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, atol=0.2)


@pytest.mark.nightly
@pytest.mark.parametrize(("labels", "options"), [(labels, {"steps": 40, "labels": labels}) for labels in (2, 4)])
def test_a_trained_tiny_pair_has_a_skill(pair: ModelPair, tmp_path: Path, labels: int) -> None:
    encoded = examples(tmp_path, pair, labels=labels, rows=32)
    right = {s: (predict(pair, encoded, s).argmax(1) == encoded.labels).mean() for s in ("pretrained", "finetuned")}
    assert right["finetuned"] > 0.8 and right["pretrained"] < right["finetuned"] - 0.2


@pytest.mark.parametrize("around", [False, True], ids=["base", "graft"])
def test_many_grafts_at_once_score_as_each_alone(
    pair: ModelPair, encoded: Encoded, region: Region, around: bool
) -> None:
    upper = [p.name for p in pair.table.parameters if p.layer == 1]
    part = Region({name: region.indices[name] for name in upper if name in region.indices}, region.shapes)
    regions = [part, region - part, Region.empty(region.shapes), region]
    found = predict_grafts(pair, encoded, regions, region if around else None)
    np.testing.assert_array_equal(found, [predict(pair, encoded, "grafted", one) for one in regions])
    assert part.size and not np.array_equal(found[0], found[2]) and torch.equal(pair.flat.theta, pair.base)
