"""Tests of headers against the safetensors library; of truncated, corrupt and sharded files; and of fingerprints."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from skillviz.errors import CorruptFile, ModelNotFound
from skillviz.models import checkpoint
from skillviz.models.checkpoint import ModelInfo, read_header, read_info
from tests.models.folders import change_config, flip, weights
from tests.refused import refuses
from tests.tiny import tiny_model

INDEX = "model.safetensors.index.json"


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


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """Return the same model in one file."""
    tiny_model("bert", "head").save_pretrained(tmp_path / "one")
    return tmp_path / "one"


def test_a_folder_is_read_as_by_the_library_and_named_without_its_path(tuned: Path, file: Path) -> None:
    info, wanted, identity = read_info(tuned), weights(tuned), read_info(tuned).identity()
    with safe_open(file, framework="pt") as opened:
        kinds = {name: opened.get_slice(name).get_dtype() for name in wanted}
    assert {name: (info.shapes[name], stored.dtype) for name, stored in info.tensors.items()} == {
        name: (tuple(tensor.shape), kinds[name]) for name, tensor in wanted.items()
    }
    where = {name: stored.file.read_bytes()[stored.start : stored.end] for name, stored in info.tensors.items()}
    assert where == {name: tensor.numpy().tobytes() for name, tensor in wanted.items()}
    rows = info.shapes["bert.embeddings.word_embeddings.weight"][0]
    assert (info.model_type, info.architectures, info.vocab_size, info.id, info.revision, info.adapter) == (
        "bert", ("BertForSequenceClassification",), rows, "finetuned", None, None,
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
    tensors = {"a": torch.ones(2, dtype=torch.float16), "b": torch.ones(2, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "model.safetensors")
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
        *(({"model.safetensors": None, INDEX: json.dumps(content).encode()}, CorruptFile, words)
          for content, words in INDICES),
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


def test_fingerprint_is_of_the_weights_alone_in_one_file_or_several(
    single: Path, sharded: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(single, tmp_path / "another name"))
    change_config(moved, hidden_act="relu")
    one, *others = (read_info(folder) for folder in (single, moved, sharded))
    wanted = (one.shapes, one.fingerprint)
    assert [(info.shapes, info.fingerprint) for info in others] == [wanted] * 2 and len(one.fingerprint) == 64


def test_fingerprint_sees_a_renamed_tensor_and_no_order(tmp_path: Path) -> None:
    files = {tmp_path / f"{number}.safetensors": name for number, name in enumerate("abba")}
    for path, name in files.items():
        save_file({name: torch.ones(3)}, path)
    a, b, again_b, again_a = (read_header(path) for path in files)
    assert checkpoint.fingerprint(a) != checkpoint.fingerprint(b)
    assert checkpoint.fingerprint({**a, **b}) == checkpoint.fingerprint({**again_b, **again_a})


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
