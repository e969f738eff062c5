"""Tests of a graft on its base as an ordinary folder: dtypes, heads, and errors."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, DiskFull, RandomHead, WrongBase
from skillviz.models.applied import applied, save_applied
from skillviz.models.pair import ModelPair, load_pair
from tests.tiny import tiny_pair


def opened(folder: Path, family: str = "bert", readout: str = "head", **kind: object) -> tuple[Path, ModelPair]:
    base, tuned = tiny_pair(folder, family, readout, **kind)
    return base, load_pair(base, tuned, device="cpu")


def some(pair: ModelPair, size: int = 200) -> Region:
    flat = np.random.default_rng(0).permutation(pair.d)[:size]
    return Region.from_flat(flat, pair.table.shapes)


@pytest.mark.parametrize(
    ("base", "graft", "wider"),
    [
        (torch.float32, torch.float32, torch.float32),
        (torch.float16, torch.float32, torch.float32),
        (torch.float16, torch.float16, torch.float16),
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
        (torch.bfloat16, torch.float16, torch.float32),
    ],
)
def test_the_result_has_the_wider_dtype_and_loses_nothing(tmp_path, base, graft, wider):
    folder, pair = opened(tmp_path, base_dtype=base, dtype=graft)
    region = some(pair)
    whole = pair.graft(region)
    narrow = dataclasses.replace(
        whole,
        values={n: t.to(graft) for n, t in whole.values.items()},
        head={n: t.to(graft) for n, t in whole.head.items()},
    )
    result = applied(folder, narrow)
    assert {p.dtype for p in result.model.parameters()} == {wider}
    with pair.at("grafted", region):
        for name in (*pair.table.names, *whole.head):
            assert torch.equal(result.model.get_parameter(name).float(), pair.model.get_parameter(name)), name


@pytest.mark.parametrize(("family", "readout"), [("gpt2", "head"), ("llama", "head"), ("opt", "causal")])
def test_it_opens_as_a_pair_with_the_same_padding(tmp_path, family, readout):
    folder, pair = opened(tmp_path, family, readout)
    save_applied(applied(folder, pair.graft(some(pair))), tmp_path / "out")
    again = load_pair(folder, tmp_path / "out", device="cpu")
    assert again.model.config.pad_token_id == pair.model.config.pad_token_id
    assert int((again.base != again.finetuned).sum()) <= 200


def test_another_base_is_refused_unless_forced(tmp_path):
    _, pair = opened(tmp_path / "a")
    other, _ = tiny_pair(tmp_path / "b", seed=9)
    with pytest.raises(WrongBase, match="--force"):
        applied(other, pair.graft(some(pair)))
    assert applied(other, pair.graft(some(pair)), force=True).notes[0].startswith("Forced")


def test_a_graft_without_its_head_is_refused(tmp_path):
    folder, pair = opened(tmp_path)
    headless = dataclasses.replace(pair.graft(some(pair)), head={})
    with pytest.raises(RandomHead, match="classifier"):
        applied(folder, headless)


def test_a_graft_that_does_not_say_its_readout_is_refused(tmp_path):
    folder, pair = opened(tmp_path)
    graft = pair.graft(some(pair))
    silent = dataclasses.replace(graft, header={k: v for k, v in graft.header.items() if k != "readout"})
    with pytest.raises(CorruptFile, match="readout"):
        applied(folder, silent)


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
def test_a_header_of_another_kind_is_refused(tmp_path, strange):
    base, pair = opened(tmp_path)
    graft = pair.graft(some(pair))
    changed = dataclasses.replace(graft, header={**graft.header, **strange})
    with pytest.raises(CorruptFile, match="of the graft's header cannot be read: it is "):
        applied(base, changed)


def test_a_base_without_tokenizer_is_said(tmp_path):
    folder, pair = opened(tmp_path)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    result = applied(folder, pair.graft(some(pair)))
    assert result.tokenizer is None and "tokenizer" in result.notes[-1]
    save_applied(result, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_full_disk_leaves_the_old_folder(tmp_path, monkeypatch):
    folder, pair = opened(tmp_path)
    result, out = applied(folder, pair.graft(some(pair))), tmp_path / "out"
    out.mkdir()
    (out / "kept").write_text("kept")
    with pytest.raises(BadInput, match="not empty"):
        save_applied(result, out)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(result.model, "save_pretrained", full)
    with pytest.raises(DiskFull):
        save_applied(result, out, overwrite=True)
    assert (out / "kept").read_text() == "kept"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
