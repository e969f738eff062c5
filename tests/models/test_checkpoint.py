"""Tests of headers against the safetensors library; of truncated, corrupt and sharded files; of fingerprints; and of
members stored without the tensors equal to their base's: exact to the bit, and only for that base."""

import importlib
import json
import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from skillviz.errors import BadInput, BadModel, CorruptFile, ModelNotFound, PairMismatch, WrongBase
from skillviz.models import checkpoint
from skillviz.models.checkpoint import ModelInfo, read_header, read_info
from skillviz.models.frozen_tensors import FROZEN, fill, filled, left_out, note, strip
from tests.models.examples import (
    ModelPair,
    change_config,
    change_json,
    change_weights,
    differing,
    flip,
    load_lean,
    load_pair,
    preflight,
    refuses,
    tiny_model,
    tiny_pair,
    unlike,
    weights,
)


@pytest.fixture
def file(tuned: Path) -> Path:
    return tuned / "model.safetensors"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Return the fine-tuned model of the seed 0 in several files."""
    folder = tmp_path / "many"
    tiny_model("bert", "head").save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    return folder


def test_a_folder_is_read_as_by_the_library_and_named_without_its_path(tuned: Path, file: Path) -> None:
    info, identity = read_info(tuned), read_info(tuned).identity()
    with safe_open(file, framework="pt") as opened:
        wanted = {
            name: (tuple(tensor.shape), opened.get_slice(name).get_dtype(), tensor.numpy().tobytes())
            for name, tensor in weights(tuned).items()
        }
    assert wanted == {
        name: (info.shapes[name], stored.dtype, stored.file.read_bytes()[stored.start : stored.end])
        for name, stored in info.tensors.items()
    }
    assert (info.model_type, info.architectures, info.vocab_size, info.id, info.revision, info.adapter) == (
        "bert", ("BertForSequenceClassification",), info.shapes["bert.embeddings.word_embeddings.weight"][0],
        "finetuned", None, None,
    )  # fmt: skip
    assert set(identity) == {"id", "revision", "fingerprint"} and str(tuned.parent) not in json.dumps(identity)


@pytest.mark.parametrize(
    ("family", "options", "dtype"),
    [("gpt2", {"dtype": getattr(torch, dtype)}, dtype) for dtype in ("float32", "float16", "bfloat16")],
    ids=["float32", "float16", "bfloat16"],
)
def test_dtype_is_the_files_own(base: Path, dtype: str) -> None:
    assert read_info(base).dtype == dtype


def test_mixed_dtypes_give_one_that_holds_both(tmp_path: Path) -> None:
    mixed = {"a": torch.ones(2, dtype=torch.float16), "b": torch.ones(2, dtype=torch.bfloat16)}
    save_file(mixed, tmp_path / "model.safetensors")
    assert ModelInfo(tmp_path, {}, read_header(tmp_path / "model.safetensors")).dtype == "float32"


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 0.5, 0.999, -1])
def test_a_cut_file_is_corrupt(tuned: Path, file: Path, keep: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content)) if 0 < keep < 1 else int(keep)])
    refuses(CorruptFile, "not a complete safetensors file", read_info, tuned)


def garbled(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


GARBAGE = [
    b"\xff" * 64,
    b"<!doctype html><title>not found</title>",
    garbled(b"not json"),
    garbled([1, 2]),
    garbled({"a": 3}),
    garbled({"a": {"dtype": "F32", "shape": [2]}}),
    garbled({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
    garbled({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345"),
    garbled({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, b""),
    garbled(b'{"a": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 4]}}', b"1234"),
    garbled({n: {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]} for n in "ab"}, b"12"),
]
INDICES = [
    ({"weight_map": {"a": "../../elsewhere.safetensors"}}, "which is not there"),  # it cannot lead out of its folder
    *(({"weight_map": wrong}, "no weight_map") for wrong in (3, {"a": 3}, {"a": None}, {"a": "x" * 5000})),
    ({}, "no weight_map of file names"),
]


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        *(({"model.safetensors": content}, CorruptFile, "fetch or save it again") for content in GARBAGE),
        *(({"config.json": content}, CorruptFile, r"config\.json") for content in (b"{", b"[]", b"")),
        ({"config.json": None}, ModelNotFound, r"config\.json"),
        *(({"model.safetensors": None, "model.safetensors.index.json": json.dumps(content).encode()}, CorruptFile,
           words) for content, words in INDICES),
    ],
    ids=range(len(GARBAGE) + 4 + len(INDICES)),
)  # fmt: skip
def test_a_folder_of_broken_files_or_without_them_is_refused(
    tuned: Path, tmp_path: Path, files: dict[str, bytes | None], kind: type[Exception], words: str
) -> None:
    shutil.copy(tuned / "model.safetensors", tmp_path / "elsewhere.safetensors")
    for name, content in files.items():
        (tuned / name).unlink() if content is None else (tuned / name).write_bytes(content)
    refuses(kind, words, read_info, tuned)


def test_a_file_without_tensors_is_whole(tmp_path: Path) -> None:
    save_file({}, tmp_path / "empty.safetensors")
    assert read_header(tmp_path / "empty.safetensors") == {}


def test_a_missing_shard(sharded: Path) -> None:
    sorted(sharded.glob("model-*.safetensors"))[1].unlink()
    refuses(CorruptFile, "which is not there", read_info, sharded)


def test_fingerprint_is_of_the_weights_alone_in_one_file_or_several(sharded: Path, tmp_path: Path) -> None:
    single = tmp_path / "one"
    tiny_model("bert", "head").save_pretrained(single)
    moved = Path(shutil.copytree(single, tmp_path / "another name"))
    change_config(moved, hidden_act="relu")
    one, *others = ((info.shapes, info.fingerprint) for info in map(read_info, (single, moved, sharded)))
    assert others == [one] * 2 and len(one[1]) == 64


def test_fingerprint_sees_a_renamed_tensor_and_no_order(tmp_path: Path) -> None:
    files = {tmp_path / f"{number}.safetensors": name for number, name in enumerate("abba")}
    for path, name in files.items():
        save_file({name: torch.ones(3)}, path)
    a, b, again_b, again_a = map(read_header, files)
    one, other, both, turned = map(checkpoint.fingerprint, (a, b, {**a, **b}, {**again_b, **again_a}))
    assert one != other and both == turned


def test_fingerprint_is_hashed_once_and_sees_one_bit(tuned: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = Mock(side_effect=checkpoint._hash)
    monkeypatch.setattr(checkpoint, "_hash", hashed)
    first, again = (read_info(tuned).fingerprint for _ in range(2))
    assert first == again and hashed.call_count == 1
    flip(file)
    assert read_info(tuned).fingerprint != first


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("architectures", 1, "must be a list"),
        ("architectures", [1], "must be a text"),
        ("vocab_size", "many", "must be a whole number"),
        ("vocab_size", 0, "must be 1 or more"),
        ("id2label", 3, "must be a mapping"),
        ("id2label", {"a": "b"}, "must be a whole number"),
        ("model_type", 7, "must be a text"),
        ("skillviz_frozen", [], "must be a mapping"),
        ("skillviz_frozen", {"tensors": ["a"]}, "must be a mapping"),
        ("skillviz_frozen", {"tensors": {"a": 1}}, "must be a text"),
        ("skillviz_frozen", {"fingerprint": 1}, "must be a text"),
        ("skillviz_frozen", {"hub": ["org/name"]}, "must be a text"),
    ],
)
def test_a_configuration_of_another_kind_is_refused(tuned: Path, field: str, value: object, why: str) -> None:
    change_config(tuned, **{field: value})
    refuses(CorruptFile, f"'{field}[^']*' of .*config.json cannot be read: .*{why}", read_info, tuned)


preflight_module = importlib.import_module("skillviz.models.preflight")
CASES = [("roberta", "prompt"), ("bert", "head"), ("gpt2", "causal"), ("distilbert", "head"), ("llama", "causal")]


@pytest.mark.parametrize("options", [{"dtype": torch.float32}, {"dtype": torch.float16}], ids=["float32", "float16"])
@pytest.mark.parametrize(("family", "readout"), CASES)
def test_strip_and_fill_are_exact(base: Path, tuned: Path, tmp_path: Path) -> None:
    before, files, whole = weights(tuned), sorted(tuned.iterdir()), read_info(tuned)
    fingerprint, stripped = whole.fingerprint, strip(tuned, base)
    assert stripped.names and not set(stripped.names) & set(read_info(tuned).tensors)
    assert (tuned / "model.safetensors").stat().st_size < sum(t.nbytes for t in before.values())
    assert filled(read_info(tuned), read_info(base)).fingerprint == fingerprint
    fill(tuned, base)
    hidden = [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]
    assert not differing(weights(tuned), before)
    assert (read_info(tuned).config, sorted(tuned.iterdir()), hidden) == (whole.config, files, [])


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(("family", "readout"), CASES)
def test_a_stripped_member_opens_as_the_whole_one(pair: ModelPair, base: Path, tuned: Path, readout: str) -> None:
    wanted = read_info(tuned).fingerprint
    strip(tuned, base)
    found = load_pair(base, tuned, readout=readout)
    assert not unlike(found, pair) and not differing(found.model.state_dict(), pair.model.state_dict())
    told = ["stored without" in "".join(one.notes) for one in (found, pair)]
    assert (found.finetuned_info.fingerprint, told) == (wanted, [True, False])


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
    told = {key: words in said for key, words in (("tensors", "1 tensor equal"), ("rows", "changed rows of 'b'"))}
    assert "0 tensors" not in said and told == {key: key in left for key in told}


@pytest.mark.parametrize(("family", "readout", "options"), [("roberta", "prompt", {"move_embeddings": True})])
def test_only_equal_bytes_are_left_out(base: Path, tuned: Path) -> None:
    """-0.0 equals 0.0 as a number but not as bytes; a tensor with a moved entry is kept."""
    strip(tuned, base)
    moved = {name for name in weights(base) if "embedding" in name and "Norm" not in name}
    assert moved and not moved & set(left_out(read_info(tuned)))


def move_rows(tuned: Path, numbers: Any) -> str:
    """Change these rows of the token embeddings; return the matrix's name."""
    tensors = weights(tuned)
    _, name = max((tensor.numel(), name) for name, tensor in tensors.items() if "emb" in name and tensor.dim() == 2)
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
    tensors = {**record["tensors"], next(iter(info.tensors)): next(iter(read_info(base).tensors))}
    change_config(tuned, **{FROZEN: {**record, "tensors": tensors}})
    fill(tuned, base)
    assert read_info(tuned).fingerprint == whole
    change_json(tuned / "config.json", **{FROZEN: None})
    assert preflight(base, tuned).fits
