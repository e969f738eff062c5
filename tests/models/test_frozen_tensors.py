"""A member stored without the tensors that equal its base's: exact to the bit, and for that base only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from skillviz.errors import BadInput, PairMismatch, WrongBase
from skillviz.models.checkpoint import read_info
from skillviz.models.frozen_tensors import KEY, fill, filled, left_out, strip
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from tests.tiny import tiny_pair

CASES = [("roberta", "prompt"), ("bert", "head"), ("gpt2", "causal"), ("distilbert", "head"), ("llama", "causal")]


@pytest.mark.parametrize(("family", "readout"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_strip_and_fill_are_exact(tmp_path: Path, family: str, readout: str, dtype: torch.dtype) -> None:
    base, tuned = tiny_pair(tmp_path, family, readout, dtype)
    before, files = load_file(tuned / "model.safetensors"), sorted(p.name for p in tuned.iterdir())
    config, fingerprint = json.loads((tuned / "config.json").read_text()), read_info(tuned).fingerprint
    stripped = strip(tuned, base)
    assert stripped.names and not set(stripped.names) & set(read_info(tuned).tensors)
    assert (tuned / "model.safetensors").stat().st_size < sum(t.nbytes for t in before.values())
    assert filled(read_info(tuned), read_info(base)).fingerprint == fingerprint
    fill(tuned, base)
    after = load_file(tuned / "model.safetensors")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name].view(torch.uint8), before[name].view(torch.uint8)) for name in before)
    assert json.loads((tuned / "config.json").read_text()) == config
    assert sorted(p.name for p in tuned.iterdir()) == files
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(("family", "readout"), CASES)
def test_a_stripped_member_opens_as_the_whole_one(tmp_path: Path, family: str, readout: str) -> None:
    base, tuned = tiny_pair(tmp_path, family, readout)
    whole = load_pair(base, tuned, readout=readout)
    fingerprint = whole.finetuned_info.fingerprint
    strip(tuned, base)
    pair = load_pair(base, tuned, readout=readout)
    assert torch.equal(pair.base, whole.base) and torch.equal(pair.finetuned, whole.finetuned)
    named = dict(whole.model.named_parameters())
    assert all(torch.equal(value, named[name]) for name, value in pair.model.named_parameters())
    assert pair.finetuned_info.fingerprint == fingerprint
    assert [note for note in pair.notes if "stored without" in note]
    assert not [note for note in whole.notes if "stored without" in note]


def test_another_base_is_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt")
    other, _ = tiny_pair(tmp_path / "other", "roberta", "prompt", seed=7)
    strip(tuned, base)
    check = preflight(other, tuned)
    assert [type(error) for error in check.errors] == [WrongBase]
    with pytest.raises(WrongBase, match="fingerprint"):
        load_pair(other, tuned)
    with pytest.raises(WrongBase):
        fill(tuned, other)
    assert KEY in read_info(tuned).config


def test_only_equal_bytes_are_left_out(tmp_path: Path) -> None:
    """-0.0 equals 0.0 as a number and not as bytes; an entry that moved keeps its tensor."""
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt", move_embeddings=True)
    strip(tuned, base)
    names = set(left_out(read_info(tuned)))
    moved = {name for name in load_file(base / "model.safetensors") if "embedding" in name and "Norm" not in name}
    assert moved and not moved & names


def test_nothing_to_leave_out_and_twice_are_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt")
    strip(tuned, base)
    with pytest.raises(BadInput, match="already"):
        strip(tuned, base)
    other, moved = tiny_pair(tmp_path / "half", "roberta", "prompt", torch.float16, base_dtype=torch.float32)
    with pytest.raises(BadInput, match="nothing to leave out"):
        strip(moved, other)


def test_a_tampered_base_is_not_the_same_base(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt")
    strip(tuned, base)
    file = base / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises((WrongBase, PairMismatch)):
        load_pair(base, tuned)


def test_headers_of_a_stripped_member_need_no_torch(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt")
    strip(tuned, base)
    code = (
        "import sys; from skillviz.models.preflight import preflight; "
        f"c = preflight({str(base)!r}, {str(tuned)!r}); assert c.fits and c.d, c.problems; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
