"""Tests that class scores equal the plain model's: logits at the mask, a head's own, token-by-token likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded
from skillviz.core.readout import CausalReadout, PromptReadout, columns, make_readout
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
def test_prompt_is_the_full_logits_at_the_mask(family: str, labels: int) -> None:
    encoded, model = examples("prompt", n=9, labels=labels), model_of(family, "prompt")
    found = scores(model, encoded, make_readout("prompt", encoded))
    for i, (ids, place) in enumerate(zip(encoded.input_ids, encoded.positions, strict=True)):  # type: ignore[arg-type]
        with torch.no_grad():
            full = model(input_ids=torch.from_numpy(ids)[None]).logits[0]
        wanted = full[place, list(LABEL_IDS[:labels])].numpy()
        # Padding and batching change the order of float32 sums: 1e-5 on scores of size 1.
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-5)
        beside = full[(place + 1) % len(ids), list(LABEL_IDS[:labels])].numpy()
        assert np.abs(found[i] - beside).max() > 1e-3, "a position off by one would pass"


def test_an_architecture_without_a_row_is_asked_for_all_positions() -> None:
    encoded, model = examples("prompt", n=4), model_of("bert", "prompt")
    batch = next(Batches(encoded, CPU).micro(np.arange(4)))
    readout = PromptReadout(LABEL_IDS[:2])
    with torch.no_grad():
        quick = readout.logits(model, batch)
        model.config.model_type = "some-new-type"
        torch.testing.assert_close(readout.logits(model, batch), quick, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", DECODERS)
def test_causal_is_the_token_by_token_likelihood(family: str) -> None:
    encoded, model = examples("causal", n=5, labels=3), model_of(family, "causal")
    lengths = {len(a) for row in encoded.answers for a in row}  # type: ignore[union-attr]
    assert len(lengths) > 1, "answers of several lengths are wanted"
    found = scores(model, encoded, make_readout("causal", encoded))
    by_length = scores(model, encoded, CausalReadout(by_length=True))
    for i, (prompt, answers) in enumerate(zip(encoded.input_ids, encoded.answers, strict=True)):  # type: ignore[arg-type]
        wanted = np.array([slow_likelihood(model, prompt, answer) for answer in answers])
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=2e-5)  # sums of up to three float32 log p
        np.testing.assert_allclose(by_length[i], wanted / [len(a) for a in answers], rtol=1e-5, atol=2e-5)
        dropped = np.array([slow_likelihood(model, prompt, answer[:-1]) for answer in answers])
        assert np.abs(found[i] - dropped).min() > 1e-3, "a dropped last token would pass"


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_without_a_row_is_asked_for_all_positions(family: str) -> None:
    encoded, model = examples("causal", n=4), model_of(family, "causal")
    readout = make_readout("causal", encoded)
    quick = scores(model, encoded, readout)
    model.config.model_type = "some-new-type"
    np.testing.assert_allclose(scores(model, encoded, readout), quick, rtol=1e-5, atol=2e-5)  # float32 sums


def test_opt_with_projections_is_read_alike() -> None:
    encoded = examples("causal", n=3)
    model = tiny_model("opt", "causal", word_embed_proj_dim=8)
    assert model.model.decoder.project_out is not None
    found = scores(model, encoded, make_readout("causal", encoded))
    for i, (prompt, answers) in enumerate(zip(encoded.input_ids, encoded.answers, strict=True)):  # type: ignore[arg-type]
        wanted = [slow_likelihood(model, prompt, answer) for answer in answers]
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("family", DECODERS)
def test_causal_does_not_see_its_padding(family: str) -> None:
    encoded, model = examples("causal", n=6, labels=2), model_of(family, "causal")
    readout = make_readout("causal", encoded)
    together, apart = scores(model, encoded, readout, limit=10_000), scores(model, encoded, readout, limit=1)
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=2e-5)  # float32 sums in another order


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", *DECODERS])
def test_head_is_the_models_own(family: str) -> None:
    encoded, model = examples("head", n=7, labels=3), model_of(family, "head", labels=3)
    found = scores(model, encoded, make_readout("head", encoded))
    for i, ids in enumerate(encoded.input_ids):
        with torch.no_grad():
            wanted = model(input_ids=torch.from_numpy(ids)[None]).logits[0].numpy()
        np.testing.assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-5)  # float32 sums in another order


def test_the_names() -> None:
    for name in READOUTS:
        assert make_readout(name, examples(name)).name == name


def test_an_index_that_scoring_made_first_can_be_trained_with() -> None:
    columns.cache_clear()
    with torch.inference_mode():
        index = columns((2, 0), torch.device("cpu"))
    logits = torch.ones(3, 4, requires_grad=True)
    logits[:, index].sum().backward()
    assert not index.is_inference() and logits.grad is not None and logits.grad.sum() == 6
