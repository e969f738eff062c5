"""Tests of members stored without the tensors equal to their base's: exact to the bit, and only for that base."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from skillviz.errors import BadInput, BadModel, CorruptFile, ModelNotFound, PairMismatch, WrongBase
from skillviz.models import checkpoint
from skillviz.models.checkpoint import read_info
from skillviz.models.frozen_tensors import FROZEN, fill, filled, left_out, note, strip
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from tests.tiny import tiny_pair

preflight_module = importlib.import_module("skillviz.models.preflight")
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


@pytest.mark.cases(2, 2)
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
    assert FROZEN in read_info(tuned).config


@pytest.mark.parametrize("left", [{"tensors": {"a": "a"}}, {"rows": {"b": "b"}}, {}])
def test_the_note_names_only_what_is_left_out(left: dict[str, dict[str, str]]) -> None:
    info: Any = SimpleNamespace(config={FROZEN: left})
    said = note(info, SimpleNamespace(id="base")) or ""  # type: ignore[arg-type]
    assert ("1 tensor equal" in said, "changed rows of 'b'" in said) == ("tensors" in left, "rows" in left)
    assert "0 tensors" not in said


def test_only_equal_bytes_are_left_out(tmp_path: Path) -> None:
    """-0.0 equals 0.0 as a number but not as bytes; a tensor with a moved entry is kept."""
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt", move_embeddings=True)
    strip(tuned, base)
    names = set(left_out(read_info(tuned)))
    moved = {name for name in load_file(base / "model.safetensors") if "embedding" in name and "Norm" not in name}
    assert moved and not moved & names


def moved_rows(folder: Path, family: str, readout: str, numbers: list[int]) -> tuple[Path, Path, str]:
    """Return a pair whose fine-tuned token embeddings differ in these rows, and the matrix's name."""
    base, tuned = tiny_pair(folder, family, readout)
    tensors = load_file(tuned / "model.safetensors")
    matrices = [name for name, tensor in tensors.items() if "emb" in name and tensor.dim() == 2]
    name = max(matrices, key=lambda one: tensors[one].numel())
    tensors[name][numbers] += 0.25
    save_file(tensors, tuned / "model.safetensors", metadata={"format": "pt"})
    return base, tuned, name


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("dtype", [None, "float16"])
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("llama", "causal")])
@pytest.mark.parametrize("chunk", [checkpoint.CHUNK, 100])
def test_of_embeddings_the_changed_rows_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, readout: str, dtype: str | None, chunk: int
) -> None:
    monkeypatch.setattr(checkpoint, "CHUNK", chunk)
    base, tuned, name = moved_rows(tmp_path, family, readout, [0, 5, 6])
    before = load_file(tuned / "model.safetensors")
    folder = Path(shutil.copytree(tuned, tmp_path / "stripped"))
    assert strip(folder, base, dtype).rows == {name: 3}
    stored = load_file(folder / "model.safetensors")
    assert name not in stored and stored[f"{name}.rows"].tolist() == [0, 5, 6] and len(stored[f"{name}.values"]) == 3
    pair, lean = load_pair(base, folder, readout=readout), load_lean(base, folder, readout=readout)
    assert lean.notes == pair.notes and f"only the changed rows of '{name}'" in pair.notes[0]
    assert pair.outside.keys() == dict(lean.outside).keys() == {name}
    assert all(torch.equal(one, other) for one, other in zip(pair.outside[name], lean.outside[name], strict=True))
    assert torch.equal(lean.finetuned[:], pair.finetuned.to(lean.finetuned.dtype))
    if dtype is None:
        whole = load_pair(base, tuned, readout=readout)
        assert torch.equal(pair.finetuned, whole.finetuned)
        assert torch.equal(pair.outside[name][1], whole.outside[name][1])
        assert pair.finetuned_info.fingerprint == whole.finetuned_info.fingerprint
    fill(folder, base)
    after = load_file(folder / "model.safetensors")
    kind = before[name].dtype if dtype is None else torch.float16
    assert after.keys() == before.keys() and all(torch.equal(after[n], before[n].to(kind)) for n in before)


@pytest.mark.parametrize("numbers", [[0, 6, 5], [0, 5, 10_000], [-1, 5, 6], [0, 5]])
def test_changed_rows_that_do_not_fit_are_refused(tmp_path: Path, numbers: list[int]) -> None:
    base, tuned, name = moved_rows(tmp_path, "bert", "head", [0, 5, 6])
    strip(tuned, base)
    tensors = load_file(tuned / "model.safetensors")
    tensors[f"{name}.rows"] = torch.tensor(numbers, dtype=torch.int32)
    save_file(tensors, tuned / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CorruptFile, match="do not fit its base"):
        load_pair(base, tuned)


def test_a_matrix_with_many_changed_rows_is_stored_whole(tmp_path: Path) -> None:
    base, tuned, name = moved_rows(tmp_path, "bert", "head", [])
    rows = len(load_file(tuned / "model.safetensors")[name])
    for folder, count in (("half", rows // 2), ("more", rows // 2 + 1)):
        base, tuned, name = moved_rows(tmp_path / folder, "bert", "head", list(range(count)))
        assert strip(tuned, base).rows == ({name: count} if folder == "half" else {})


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


@pytest.mark.nightly
def test_headers_of_a_stripped_member_need_no_torch(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta", "prompt")
    strip(tuned, base)
    code = (
        "import sys; from skillviz.models.preflight import preflight; "
        f"c = preflight({str(base)!r}, {str(tuned)!r}); assert c.fits and c.d, c.problems; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def in_dtype(folder: Path, copy: Path, dtype: torch.dtype) -> Path:
    """Copy a model's folder with its floats in another dtype, and with the positions that old checkpoints store."""
    shutil.copytree(folder, copy)
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    tensors["embeddings.position_ids"] = torch.arange(8)[None]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "readout"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_difference_in_float16_is_one_model_beside_its_base_in_any_dtype(
    tmp_path: Path, family: str, readout: str, dtype: str
) -> None:
    base, tuned = tiny_pair(tmp_path, family, readout)
    whole = load_pair(base, tuned, readout=readout)
    single, half = tuned / "model.safetensors", in_dtype(base, tmp_path / "half", torch.float16)
    double = in_dtype(base, tmp_path / "double", torch.float64)
    stripped = strip(tuned, base, dtype="float16")
    assert stripped.names and {t.dtype for t in load_file(single).values()} == {torch.float16}
    pairs = [load_pair(folder, tuned, readout=readout, dtype=dtype) for folder in (base, half, double)]
    for pair in pairs:
        assert torch.equal(pair.base, whole.base.half().to(pair.base.dtype))
        assert torch.equal(pair.finetuned, whole.finetuned.half().to(pair.base.dtype))
        assert not pair.outside
        assert all(torch.equal(a, b) for a, b in zip(pair.model.parameters(), pairs[0].model.parameters(), strict=True))
    for infos in ([pair.base_info for pair in pairs], [pair.finetuned_info for pair in pairs]):
        assert len({info.fingerprint for info in infos}) == 1
        assert {info.dtype for info in infos} == {"float16"}
    other, _ = tiny_pair(tmp_path / "other", family, readout, seed=7)
    with pytest.raises(WrongBase, match="fingerprint"):
        load_pair(other, tuned, readout=readout)


def test_fill_writes_the_rounded_model(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    before = load_file(tuned / "model.safetensors")
    strip(tuned, base, dtype="float16")
    fill(tuned, base)
    after = load_file(tuned / "model.safetensors")
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name].half()) for name in before)


def test_values_beyond_float16_are_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    file = tuned / "model.safetensors"
    tensors = load_file(file)
    tensors[max(tensors)].view(-1)[0] = 1e6
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(BadInput, match="beyond float16"):
        strip(tuned, base, dtype="float16")
    with pytest.raises(BadInput, match="allowed: float16"):
        strip(tuned, base, dtype="int8")
    assert load_file(file)[max(tensors)].view(-1)[0] == 1e6


def test_a_base_that_numpy_cannot_read_is_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    other = in_dtype(base, tmp_path / "brain", torch.bfloat16)
    strip(tuned, base, dtype="float16")
    with pytest.raises(BadModel, match="BF16"):
        preflight(other, tuned)


def test_where_the_base_is_not_here_the_published_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    strip(tuned, base, dtype="float16", hub="some/encoder")
    whole = load_pair(base, tuned)
    with pytest.raises(ModelNotFound, match="gone"):
        preflight(tmp_path / "gone", tuned)
    monkeypatch.setattr(preflight_module, "is_local", {"some/encoder": True}.__getitem__)
    found = {"some/encoder": in_dtype(base, tmp_path / "cached", torch.float32)}
    resolve = preflight_module.resolve
    monkeypatch.setattr(preflight_module, "resolve", lambda source: found.get(source) or resolve(source))
    pair = load_pair(tmp_path / "gone", tuned)
    assert torch.equal(pair.base, whole.base) and pair.base_info.fingerprint == whole.base_info.fingerprint


def test_a_record_that_names_a_stored_tensor_or_nothing_is_read(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    whole = read_info(tuned).fingerprint
    strip(tuned, base)
    path = tuned / "config.json"
    config = json.loads(path.read_text())
    config[FROZEN]["tensors"][next(iter(read_info(tuned).tensors))] = next(iter(read_info(base).tensors))
    path.write_text(json.dumps(config))
    fill(tuned, base)
    assert read_info(tuned).fingerprint == whole
    path.write_text(json.dumps({**config, FROZEN: None}))
    assert preflight(base, tuned).fits
