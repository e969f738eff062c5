"""Tests of members stored without the tensors equal to their base's: exact to the bit, and only for that base."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from skillviz.errors import BadInput, BadModel, CorruptFile, ModelNotFound, PairMismatch, WrongBase
from skillviz.models import checkpoint
from skillviz.models.checkpoint import read_info
from skillviz.models.frozen_tensors import FROZEN, fill, filled, left_out, note, strip
from skillviz.models.lean_pair import load_lean
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.preflight import preflight
from tests.models.examples import change_config, change_json, change_weights, differing, flip, unlike, weights
from tests.refused import refuses
from tests.tiny import tiny_pair

preflight_module = importlib.import_module("skillviz.models.preflight")
CASES = [("roberta", "prompt"), ("bert", "head"), ("gpt2", "causal"), ("distilbert", "head"), ("llama", "causal")]


@pytest.mark.parametrize("options", [{"dtype": torch.float32}, {"dtype": torch.float16}], ids=["float32", "float16"])
@pytest.mark.parametrize(("family", "readout"), CASES)
def test_strip_and_fill_are_exact(base: Path, tuned: Path, tmp_path: Path) -> None:
    before, files = weights(tuned), sorted(p.name for p in tuned.iterdir())
    config, fingerprint = json.loads((tuned / "config.json").read_text()), read_info(tuned).fingerprint
    stripped = strip(tuned, base)
    assert stripped.names and not set(stripped.names) & set(read_info(tuned).tensors)
    assert (tuned / "model.safetensors").stat().st_size < sum(t.nbytes for t in before.values())
    assert filled(read_info(tuned), read_info(base)).fingerprint == fingerprint
    fill(tuned, base)
    assert not differing(weights(tuned), before)
    assert (json.loads((tuned / "config.json").read_text()), sorted(p.name for p in tuned.iterdir())) == (config, files)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(("family", "readout"), CASES)
def test_a_stripped_member_opens_as_the_whole_one(pair: ModelPair, base: Path, tuned: Path, readout: str) -> None:
    wanted = read_info(tuned).fingerprint
    strip(tuned, base)
    found = load_pair(base, tuned, readout=readout)
    assert not unlike(found, pair) and not differing(found.model.state_dict(), pair.model.state_dict())
    assert found.finetuned_info.fingerprint == wanted
    assert [any("stored without" in note for note in one.notes) for one in (found, pair)] == [True, False]


@pytest.mark.parametrize(("family", "readout"), [("roberta", "prompt")])
def test_another_base_and_a_tampered_one_are_refused(base: Path, tuned: Path, tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "other", "roberta", "prompt", seed=7)
    strip(tuned, base)
    assert [type(error) for error in preflight(other, tuned).errors] == [WrongBase]
    for use in (partial(load_pair, other, tuned), partial(fill, tuned, other)):
        refuses(WrongBase, "fingerprint", use)
    assert FROZEN in read_info(tuned).config
    flip(base / "model.safetensors", -3)
    refuses((WrongBase, PairMismatch), None, load_pair, base, tuned)


@pytest.mark.parametrize("left", [{"tensors": {"a": "a"}}, {"rows": {"b": "b"}}, {}])
def test_the_note_names_only_what_is_left_out(left: dict[str, dict[str, str]]) -> None:
    said = note(SimpleNamespace(config={FROZEN: left}), SimpleNamespace(id="base")) or ""
    facts = "1 tensor equal" in said, "changed rows of 'b'" in said, "0 tensors" in said
    assert facts == ("tensors" in left, "rows" in left, False)


@pytest.mark.parametrize(("family", "readout", "options"), [("roberta", "prompt", {"move_embeddings": True})])
def test_only_equal_bytes_are_left_out(base: Path, tuned: Path) -> None:
    """-0.0 equals 0.0 as a number but not as bytes; a tensor with a moved entry is kept."""
    strip(tuned, base)
    moved = {name for name in weights(base) if "embedding" in name and "Norm" not in name}
    assert moved and not moved & set(left_out(read_info(tuned)))


def move_rows(tuned: Path, numbers: Any) -> str:
    """Change these rows of the token embeddings; return the matrix's name."""
    tensors = weights(tuned)
    matrices = [name for name, tensor in tensors.items() if "emb" in name and tensor.dim() == 2]
    name = max(matrices, key=lambda one: tensors[one].numel())
    tensors[name][list(numbers)] += 0.25
    change_weights(tuned, lambda _: tensors)
    return name


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("dtype", [None, "float16"])
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("llama", "causal")])
@pytest.mark.parametrize("chunk", [checkpoint.CHUNK, 100])
def test_of_embeddings_the_changed_rows_are_stored(
    base: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readout: str, dtype: str, chunk: int
) -> None:
    monkeypatch.setattr(checkpoint, "CHUNK", chunk)
    name = move_rows(tuned, [0, 5, 6])
    folder, whole, before = tmp_path / "stripped", load_pair(base, tuned, readout=readout), weights(tuned)
    assert strip(shutil.copytree(tuned, folder), base, dtype).rows == {name: 3}
    stored = weights(folder)
    assert name not in stored and stored[f"{name}.rows"].tolist() == [0, 5, 6] and len(stored[f"{name}.values"]) == 3
    pair, lean = load_pair(base, folder, readout=readout), load_lean(base, folder, readout=readout)
    assert lean.notes == pair.notes and f"only the changed rows of '{name}'" in pair.notes[0]
    assert pair.outside.keys() == dict(lean.outside).keys() == {name}
    assert not differing(*(dict(zip(("base", "tuned"), one.outside[name], strict=True)) for one in (pair, lean)))
    assert torch.equal(lean.finetuned[:], pair.finetuned.to(lean.finetuned.dtype))
    if dtype is None:
        assert not unlike(pair, whole) and pair.finetuned_info.fingerprint == whole.finetuned_info.fingerprint
    fill(folder, base)
    assert not differing(weights(folder), {n: t if dtype is None else t.half() for n, t in before.items()})


@pytest.mark.parametrize("numbers", [[0, 6, 5], [0, 5, 10_000], [-1, 5, 6], [0, 5]])
def test_changed_rows_that_do_not_fit_are_refused(base: Path, tuned: Path, numbers: list[int]) -> None:
    name = move_rows(tuned, [0, 5, 6])
    strip(tuned, base)
    change_weights(tuned, lambda tensors: {**tensors, f"{name}.rows": torch.tensor(numbers, dtype=torch.int32)})
    refuses(CorruptFile, "do not fit its base", load_pair, base, tuned)


@pytest.mark.parametrize("more", [0, 1])
def test_a_matrix_with_more_than_half_of_its_rows_changed_is_stored_whole(base: Path, tuned: Path, more: int) -> None:
    half = len(weights(tuned)[move_rows(tuned, [])]) // 2
    name = move_rows(tuned, range(half + more))
    assert strip(tuned, base).rows == ({} if more else {name: half})


@pytest.mark.parametrize(("family", "readout"), [("roberta", "prompt")])
def test_nothing_to_leave_out_and_twice_are_refused(base: Path, tuned: Path, tmp_path: Path) -> None:
    other, moved = tiny_pair(tmp_path / "half", "roberta", "prompt", torch.float16, base_dtype=torch.float32)
    strip(tuned, base)
    for folder, of, words in ((tuned, base, "already"), (moved, other, "nothing to leave out")):
        refuses(BadInput, words, strip, folder, of)


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "readout"), [("roberta", "prompt")])
def test_headers_of_a_stripped_member_need_no_torch(base: Path, tuned: Path) -> None:
    strip(tuned, base)
    code = (
        "import sys; from skillviz.models.preflight import preflight; "
        f"c = preflight({str(base)!r}, {str(tuned)!r}); assert c.fits and c.d, c.problems; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def in_dtype(folder: Path, copy: Path, dtype: torch.dtype) -> Path:
    """Copy a model's folder with its floats in another dtype, and with the positions that old checkpoints store."""
    positions = {"embeddings.position_ids": torch.arange(8)[None]}
    change_weights(shutil.copytree(folder, copy), lambda t: {n: v.to(dtype) for n, v in t.items()} | positions)
    return copy


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "readout"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_difference_in_float16_is_one_model_beside_its_base_in_any_dtype(
    pair: ModelPair, base: Path, tuned: Path, tmp_path: Path, family: str, readout: str, dtype: str
) -> None:
    copies = [in_dtype(base, tmp_path / str(kind), kind) for kind in (torch.float16, torch.float64)]
    assert strip(tuned, base, dtype="float16").names and {t.dtype for t in weights(tuned).values()} == {torch.float16}
    first, *_ = pairs = [load_pair(folder, tuned, readout=readout, dtype=dtype) for folder in (base, *copies)]
    for found in pairs:
        wanted = {name: getattr(pair, name).half().to(found.base.dtype) for name in ("base", "finetuned")}
        assert not differing({"base": found.base, "finetuned": found.finetuned}, wanted) and not found.outside
        assert not differing(found.model.state_dict(), first.model.state_dict())
        for info, own in ((found.base_info, first.base_info), (found.finetuned_info, first.finetuned_info)):
            assert (info.fingerprint, info.dtype) == (own.fingerprint, "float16")
    other, _ = tiny_pair(tmp_path / "other", family, readout, seed=7)
    refuses(WrongBase, "fingerprint", load_pair, other, tuned, readout=readout)


def test_fill_writes_the_rounded_model(base: Path, tuned: Path) -> None:
    before = {name: tensor.half() for name, tensor in weights(tuned).items()}
    strip(tuned, base, dtype="float16")
    fill(tuned, base)
    assert not differing(weights(tuned), before)


def test_values_beyond_float16_are_refused(base: Path, tuned: Path) -> None:
    large = weights(tuned)
    large[max(large)].view(-1)[0] = 1e6
    change_weights(tuned, lambda _: large)
    for dtype, words in (("float16", "beyond float16"), ("int8", "allowed: float16")):
        refuses(BadInput, words, strip, tuned, base, dtype=dtype)
    assert not differing(weights(tuned), large)


def test_a_base_that_numpy_cannot_read_is_refused(base: Path, tuned: Path, tmp_path: Path) -> None:
    other = in_dtype(base, tmp_path / "brain", torch.bfloat16)
    strip(tuned, base, dtype="float16")
    refuses(BadModel, "BF16", preflight, other, tuned)


def test_where_the_base_is_not_here_the_published_one_is_taken(
    base: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip(tuned, base, dtype="float16", hub="some/encoder")
    whole, gone = load_pair(base, tuned), tmp_path / "gone"
    refuses(ModelNotFound, "gone", preflight, gone, tuned)
    monkeypatch.setattr(preflight_module, "is_local", {"some/encoder": True}.__getitem__)
    found, resolve = {"some/encoder": in_dtype(base, tmp_path / "cached", torch.float32)}, preflight_module.resolve
    monkeypatch.setattr(preflight_module, "resolve", lambda source: found.get(source) or resolve(source))
    pair = load_pair(gone, tuned)
    assert torch.equal(pair.base, whole.base) and pair.base_info.fingerprint == whole.base_info.fingerprint


def test_a_record_that_names_a_stored_tensor_or_nothing_is_read(base: Path, tuned: Path) -> None:
    whole = read_info(tuned).fingerprint
    strip(tuned, base)
    info = read_info(tuned)
    record = info.config[FROZEN]
    named = {next(iter(info.tensors)): next(iter(read_info(base).tensors))}
    change_config(tuned, **{FROZEN: {**record, "tensors": {**record["tensors"], **named}}})
    fill(tuned, base)
    assert read_info(tuned).fingerprint == whole
    change_json(tuned / "config.json", **{FROZEN: None})
    assert preflight(base, tuned).fits
