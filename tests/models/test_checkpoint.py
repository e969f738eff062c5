"""Tests of headers against the safetensors library; of truncated, corrupt and sharded files; and of fingerprints."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from skillviz.errors import CorruptFile, ModelNotFound
from skillviz.models import checkpoint
from skillviz.models.checkpoint import ModelInfo, read_header, read_info
from tests.tiny import tiny_model, tiny_pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_pair(tmp_path / "pair", "bert")[1]


def sharded(family: str, folder: Path) -> Path:
    tiny_model(family, "head").save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    return folder


def test_header_equals_the_library(folder: Path) -> None:
    info = read_info(folder)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert info.shapes == {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        assert {n: s.dtype for n, s in info.tensors.items()} == {n: file.get_slice(n).get_dtype() for n in file.keys()}  # noqa: SIM118


def test_the_bytes_are_where_the_header_says(folder: Path) -> None:
    stored = read_info(folder).tensors["classifier.weight"]
    content = stored.file.read_bytes()[stored.start : stored.end]
    wanted = load_file(stored.file)["classifier.weight"]
    assert torch.equal(torch.frombuffer(bytearray(content), dtype=torch.float32).view(wanted.shape), wanted)


def test_configuration_is_read(folder: Path) -> None:
    info = read_info(folder)
    assert (info.model_type, info.architectures) == ("bert", ("BertForSequenceClassification",))
    assert info.vocab_size == info.shapes["bert.embeddings.word_embeddings.weight"][0]
    assert (info.id, info.revision, info.adapter) == ("finetuned", None, None)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtype_is_the_files_own(tmp_path: Path, dtype: str) -> None:
    base, _ = tiny_pair(tmp_path, "gpt2", dtype=getattr(torch, dtype))
    assert read_info(base).dtype == dtype


def test_mixed_dtypes_give_one_that_holds_both(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(2, dtype=torch.float16), "b": torch.ones(2, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "model.safetensors")
    info = ModelInfo(tmp_path, {}, read_header(tmp_path / "model.safetensors"))
    assert info.dtype == "float32"


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 0.5, 0.999, -1])
def test_a_cut_file_is_corrupt(folder: Path, keep: float) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if 0 < keep < 1 else int(keep)])
    with pytest.raises(CorruptFile, match="not a complete safetensors file"):
        read_info(folder)


def garbled(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
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
    ],
)
def test_garbage_is_corrupt(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CorruptFile, match="fetch or save it again"):
        read_info(folder)


def test_a_file_without_tensors_is_whole(tmp_path: Path) -> None:
    save_file({}, tmp_path / "empty.safetensors")
    assert read_header(tmp_path / "empty.safetensors") == {}


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_broken_configuration(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(CorruptFile, match=r"config\.json"):
        read_info(folder)


def test_a_folder_without_configuration(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"config\.json"):
        read_info(folder)


def test_shards_are_one_model(tmp_path: Path) -> None:
    one = tmp_path / "one"
    tiny_model("bert", "head").save_pretrained(one)
    assert read_info(sharded("bert", tmp_path / "many")).shapes == read_info(one).shapes


def test_a_missing_shard(tmp_path: Path) -> None:
    folder = sharded("bert", tmp_path / "many")
    sorted(folder.glob("model-*.safetensors"))[1].unlink()
    with pytest.raises(CorruptFile, match="which is not there"):
        read_info(folder)


def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path, folder: Path) -> None:
    shutil.move(folder / "model.safetensors", tmp_path / "elsewhere.safetensors")
    index = {"weight_map": {"a": "../../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CorruptFile, match="which is not there"):
        read_info(folder)


def test_fingerprint_is_of_the_weights_alone(tmp_path: Path) -> None:
    one = tmp_path / "one"
    tiny_model("bert", "head").save_pretrained(one)
    moved = shutil.copytree(one, tmp_path / "another name")
    (moved / "config.json").write_text((moved / "config.json").read_text().replace("gelu", "relu"))
    wanted = read_info(one).fingerprint
    assert len(wanted) == 64
    assert read_info(moved).fingerprint == wanted
    assert read_info(sharded("bert", tmp_path / "many")).fingerprint == wanted


def test_fingerprint_sees_one_bit(tmp_path: Path, folder: Path) -> None:
    before = read_info(folder).fingerprint
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert read_info(folder).fingerprint != before


def test_fingerprint_sees_a_renamed_tensor(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        save_file({name: torch.ones(3)}, tmp_path / f"{name}.safetensors")
        found.append(checkpoint.fingerprint(read_header(tmp_path / f"{name}.safetensors")))
    assert found[0] != found[1]


def test_fingerprint_is_hashed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_info(folder).fingerprint
    monkeypatch.setattr(checkpoint, "_hash", lambda tensors: pytest.fail("hashed again"))
    assert read_info(folder).fingerprint == first


def test_identity_names_no_path(folder: Path) -> None:
    identity = read_info(folder).identity()
    assert set(identity) == {"id", "revision", "fingerprint"}
    assert str(folder.parent) not in json.dumps(identity)


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
def test_a_configuration_of_another_kind_is_refused(folder: Path, field: str, value: object, why: str) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(CorruptFile, match=f"'{field}[^']*' of .*config.json cannot be read: .*{why}"):
        read_info(folder)


@pytest.mark.parametrize(
    "content",
    [{"weight_map": 3}, {"weight_map": {"a": 3}}, {"weight_map": {"a": None}}, {"weight_map": {"a": "x" * 5000}}, {}],
)
def test_an_index_without_names_of_files_is_refused(folder: Path, content: object) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    with pytest.raises(CorruptFile, match="no weight_map of file names"):
        read_info(folder)
