"""Tests of the head of a pair with an unknown architecture, and of members that do not differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    ModernBertModel,
)

from skillviz.errors import PairMismatch
from skillviz.models.pair import load_pair
from tests.tiny import tiny_pair, tiny_tokenizer


def test_a_bare_base_of_an_architecture_without_a_row_gets_the_whole_fine_tuned_head(tmp_path: Path) -> None:
    """ModernBERT's head has a dense layer and a norm before its classifier, and the base's file has none of them."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    special = {f"{name}_token_id": 0 for name in ("bos", "eos", "cls", "sep", "pad")}
    config = ModernBertConfig(vocab_size=len(tiny_tokenizer("bert")), **sizes, **special)
    base, tuned = tmp_path / "base", tmp_path / "tuned"
    ModernBertModel(config).save_pretrained(base)
    ModernBertForSequenceClassification(config).save_pretrained(tuned)
    for folder in (base, tuned):
        tiny_tokenizer("bert").save_pretrained(folder)
    pair = load_pair(base, tuned)
    assert {name.split(".")[0] for name in pair.head()} == {"head", "classifier"}
    own = load_file(tuned / "model.safetensors")
    assert all(torch.equal(value, own[name]) for name, value in pair.head().items())


def test_equal_members_are_a_pair_only_where_that_is_asked_for(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path)
    shutil.copytree(base, tmp_path / "same")
    make_head(tmp_path / "same")
    with pytest.raises(PairMismatch, match="identical in every graftable parameter"):
        load_pair(base, tmp_path / "same")
    pair = load_pair(base, tmp_path / "same", is_graft=True)
    assert torch.equal(pair.base, pair.finetuned)


def make_head(folder: Path) -> None:
    """Turn the folder's bare body into a classifier with a head."""
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(folder)
