"""Test of configurations that transformers cannot load: the error is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadModel
from skillviz.models import load
from skillviz.models.load import load_model
from tests.tiny import tiny_pair


@pytest.mark.parametrize(
    "change",
    [{"hidden_size": "x"}, {"intermediate_size": []}, {"tie_word_embeddings": 3}, {"pad_token_id": 2**31},
     {"layer_norm_eps": {}}, {"hidden_dropout_prob": "high"}],
    ids=str,
)  # fmt: skip
def test_a_strange_configuration_is_a_sentence(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = Path(tiny_pair(tmp_path)[1])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(BadModel, match="cannot be opened for the head readout") as caught:
        load_model(folder, "head")
    assert "\n" not in str(caught.value)


def test_memory_that_runs_out_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError("all of it")

    folder = Path(tiny_pair(tmp_path)[1])
    monkeypatch.setattr(load, "auto_class", full)
    with pytest.raises(MemoryError):
        load_model(folder, "head")
