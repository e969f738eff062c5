"""Tests of tied models stored with only the output matrix: base, fine-tuned model, or both."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from skillviz.core.architectures import FAMILIES
from skillviz.errors import PairMismatch
from skillviz.models.heads import TOKEN_EMBEDDING
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from tests.models.folders import change_config
from tests.tiers import first
from tests.tiny import tiny_pair
from tests.tiny_families import family_model, family_pair

EMBEDDINGS = {
    "gpt2": ("transformer.wte.weight", "lm_head.weight"),
    "opt": ("model.decoder.embed_tokens.weight", "lm_head.weight"),
    "bert": ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    "roberta": ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    "distilbert": ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
}
"""The names of the embedding and of the output matrix in a language model's file."""


def stored_by_output(folder: Path, embedding: str, output: str) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors[output] = tensors.pop(embedding)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize("which", [("base",), ("finetuned",), ("base", "finetuned")], ids="+".join)
@pytest.mark.parametrize("family", EMBEDDINGS)
def test_a_language_model_opens(tmp_path: Path, family: str, which: tuple[str, ...]) -> None:
    readout = "causal" if family in ("gpt2", "opt") else "prompt"
    folders = base, tuned = tiny_pair(tmp_path, family, readout, move_embeddings=True)
    wanted = load_pair(base, tuned, device="cpu")
    for folder in folders:
        if folder.name in which:
            stored_by_output(folder, *EMBEDDINGS[family])
    assert preflight(base, tuned).problems == []
    pair, lean = load_pair(base, tuned, device="cpu"), load_lean(base, tuned, device="cpu", dtype="float32")
    assert torch.equal(pair.base, wanted.base) and torch.equal(pair.finetuned, wanted.finetuned)
    for state in ("pretrained", "finetuned"):
        with wanted.at(state), pair.at(state), lean.at(state):
            matrices = [one.model.get_output_embeddings().weight for one in (wanted, pair, lean)]
            assert torch.equal(matrices[0], matrices[1]) and torch.equal(matrices[0], matrices[2])


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["gpt2", "t5", "bert"])
def test_the_base_of_a_classifier_opens(tmp_path: Path, family: str) -> None:
    """A classifier's class has no output matrix, so the embedding must be read from it by name."""
    base, tuned = family_pair(tmp_path, family)
    before = load_pair(base, tuned, device="cpu")
    path = base / "model.safetensors"
    tensors = load_file(path)
    (name,) = (n for n in tensors if TOKEN_EMBEDDING.search(n) and "encoder" not in n and "decoder" not in n)
    stored_by_output(base, name, FAMILIES[family].output[0])
    pair = load_pair(base, tuned, device="cpu")
    assert torch.equal(pair.base, before.base) and set(pair.outside) == set(before.outside)
    with pair.at("pretrained"), before.at("pretrained"):
        one, other = (p.model.get_input_embeddings().weight for p in (pair, before))
        assert torch.equal(one, other)


def test_an_untied_model_without_its_embedding_is_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    stored_by_output(base, *EMBEDDINGS["gpt2"])
    for folder in (base, tuned):
        change_config(folder, tie_word_embeddings=False)
    with pytest.raises(PairMismatch, match=r"the base has no 'wte.weight'"):
        load_pair(base, tuned, device="cpu")


# CANINE has no vocabulary, and the two stacks of T5Gemma have separate embeddings.
ONE_EMBEDDING = [family for family in FAMILIES if family not in ("canine", "t5gemma")]


@pytest.mark.cases(10, 30)
@pytest.mark.parametrize("family", first(ONE_EMBEDDING, EMBEDDINGS.__contains__))
def test_the_embedding_of_every_family_is_known_by_its_name(family: str) -> None:
    model = family_model(family)
    weight = model.get_input_embeddings().weight
    names = [name for name, parameter in model.named_parameters() if parameter is weight]
    assert names and all(TOKEN_EMBEDDING.search(name) for name in names)
    others = [n for n, p in model.named_parameters() if TOKEN_EMBEDDING.search(n) and p is not weight]
    assert not any(len(model.get_parameter(name)) == len(weight) for name in others)
