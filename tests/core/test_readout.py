"""Tests that class scores equal the plain model's: logits at the mask, a head's own, token-by-token likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded
from skillviz.core.readout import CausalReadout, columns, make_readout
from skillviz.models.heads import READOUTS
from tests.core.problems import LABEL_IDS, examples, model_of
from tests.reference.likelihood import slow_likelihood
from tests.tiny import tiny_model

CPU = torch.device("cpu")
DECODERS = ("gpt2", "opt", "gpt_neox", "llama")


def scores(model: torch.nn.Module, encoded: Encoded, readout: object, limit: int = 60) -> np.ndarray:
    """Return class scores of all examples, in order, computed in micro-batches."""
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
        beside = full[(place + 1) % len(ids)]
        assert np.abs(found[i] - beside).max() > 1e-3, "a position off by one would pass"


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


@pytest.mark.parametrize("name", READOUTS)
def test_the_names(name: str) -> None:
    assert make_readout(name, examples(name)).name == name


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
