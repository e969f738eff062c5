"""Test of configurations that transformers cannot load: the error is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from skillviz.errors import BadModel
from skillviz.models import load
from skillviz.models.load import load_model
from tests.models.folders import change_config


@pytest.mark.parametrize(
    "change",
    [{"hidden_size": "x"}, {"intermediate_size": []}, {"tie_word_embeddings": 3}, {"pad_token_id": 2**31},
     {"layer_norm_eps": {}}, {"hidden_dropout_prob": "high"}, {"model_type": "albatross"}, {"hidden_act": "nothing"},
     {"num_attention_heads": 5}],
    ids=str,
)  # fmt: skip
def test_a_strange_configuration_is_a_sentence(tuned: Path, change: dict[str, Any]) -> None:
    change_config(tuned, **change)
    with pytest.raises(BadModel, match=r"\A.*cannot be opened for the head readout.*\Z"):  # one line
        load_model(tuned, "head")


def test_memory_that_runs_out_stays_what_it_is(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "auto_class", Mock(side_effect=MemoryError("all of it")))
    with pytest.raises(MemoryError):
        load_model(tuned, "head")
