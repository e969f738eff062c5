"""Tests of a graft on its base as an ordinary folder: dtypes, heads, and errors."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from skillviz.core.graft import Graft
from skillviz.errors import BadInput, CorruptFile, DiskFull, RandomHead, WrongBase
from skillviz.models.applied import applied, save_applied
from skillviz.models.pair import ModelPair, load_pair
from tests.models.folders import differing, drop_tokenizer
from tests.tiny import tiny_pair


@pytest.mark.parametrize(
    ("options", "wider"),
    [
        ({"base_dtype": torch.float32, "dtype": torch.float32}, torch.float32),
        ({"base_dtype": torch.float16, "dtype": torch.float32}, torch.float32),
        ({"base_dtype": torch.float16, "dtype": torch.float16}, torch.float16),
        ({"base_dtype": torch.bfloat16, "dtype": torch.bfloat16}, torch.bfloat16),
        ({"base_dtype": torch.bfloat16, "dtype": torch.float16}, torch.float32),
    ],
)
def test_the_result_has_the_wider_dtype_and_loses_nothing(
    pair: ModelPair, base: Path, graft: Graft, options: dict[str, torch.dtype], wider: torch.dtype
) -> None:
    values, head = ({n: t.to(options["dtype"]) for n, t in part.items()} for part in (graft.values, graft.head))
    model = applied(base, dataclasses.replace(graft, values=values, head=head)).model
    assert {p.dtype for p in model.parameters()} == {wider}
    ours = {name: model.get_parameter(name).float() for name in (*pair.table.names, *head)}
    with pair.at("grafted", graft.region):
        assert not differing(ours, {name: pair.model.get_parameter(name) for name in ours})


@pytest.mark.parametrize(("family", "readout"), [("gpt2", "head"), ("llama", "head"), ("opt", "causal")])
def test_it_opens_as_a_pair_with_the_same_padding(pair: ModelPair, base: Path, graft: Graft, tmp_path: Path) -> None:
    save_applied(applied(base, graft), tmp_path / "out")
    again = load_pair(base, tmp_path / "out", device="cpu")
    assert again.model.config.pad_token_id == pair.model.config.pad_token_id
    assert int((again.base != again.finetuned).sum()) <= 200


def test_another_base_is_refused_unless_forced(graft: Graft, tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "b", seed=9)
    with pytest.raises(WrongBase, match="--force"):
        applied(other, graft)
    assert applied(other, graft, force=True).notes[0].startswith("Forced")


@pytest.mark.parametrize(
    ("part", "name", "kind", "words"),
    [("head", "classifier.weight", RandomHead, "classifier"), ("header", "readout", CorruptFile, "readout")],
)
def test_a_graft_without_its_head_or_readout_is_refused(
    base: Path, graft: Graft, part: str, name: str, kind: type[Exception], words: str
) -> None:
    rest = {key: value for key, value in getattr(graft, part).items() if key != name and part == "header"}
    with pytest.raises(kind, match=words):
        applied(base, dataclasses.replace(graft, **{part: rest}))


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize(
    "strange",
    [
        {"config": {"pad_token_id": -7}}, {"vocabulary": {"rows": 9, "tokens": [{"id": 2**40, "content": "a"}]}},
        {"base": "x"}, {"base": []}, {"base": {"id": 3}}, {"base": {"fingerprint": 2**70}}, {"readout": "tail"},
        {"readout": {}}, {"config": [1]}, {"config": {"architecture": 1}}, {"config": {"architecture": [1]}},
        {"config": {"id2label": 3}}, {"config": {"id2label": {"a": "b"}}}, {"config": {"pad_token_id": "x"}},
        {"vocabulary": {"rows": 9.0}}, *({"config": {"pad_token_id": number}} for number in (10**12, True, 3.0)),
    ],
)  # fmt: skip
def test_a_header_of_another_kind_is_refused(base: Path, graft: Graft, strange: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match="of the graft's header cannot be read: it is "):
        applied(base, dataclasses.replace(graft, header={**graft.header, **strange}))


def test_a_base_without_tokenizer_is_said(base: Path, graft: Graft, tmp_path: Path) -> None:
    drop_tokenizer(base)
    result = applied(base, graft)
    assert result.tokenizer is None and "tokenizer" in result.notes[-1]
    save_applied(result, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_full_disk_leaves_the_old_folder(
    base: Path, graft: Graft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, out = applied(base, graft), tmp_path / "out"
    out.mkdir()
    (out / "kept").write_text("kept")
    with pytest.raises(BadInput, match="not empty"):
        save_applied(result, out)
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(result.model, "save_pretrained", full)
    with pytest.raises(DiskFull):
        save_applied(result, out, overwrite=True)
    assert (out / "kept").read_text() == "kept"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
