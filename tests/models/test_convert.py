"""Tests of pickled weights: refused; with `--convert`, read as tensors only, in a separate process, into the cache."""

from __future__ import annotations

import json
import os
import pickle
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from skillviz.atomic import sha256
from skillviz.errors import ReadOnly, UnsafeWeights
from skillviz.models import convert, unpickle
from skillviz.models.fetch import hub_name, resolve
from skillviz.tasks.project import CACHE_VARIABLE
from tests.models.folders import differing, weights
from tests.programs import program
from tests.refused import refuses
from tests.tiers import first

TENSORS = {"a": torch.arange(6.0).reshape(2, 3).t(), "b": torch.ones(3, dtype=torch.bfloat16)}
TENSORS["tied"] = TENSORS["b"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Set `--convert`, and record the messages to the user."""
    lines: list[str] = []
    before = convert.wanted.set(lines.append)
    yield lines
    convert.wanted.reset(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pickled(tmp_path / "model")


def pickled(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    for name, content in (files or {"pytorch_model.bin": TENSORS}).items():
        torch.save(content, folder / name)
    return folder


@pytest.mark.slow
def test_weights_come_through_to_the_bit_with_the_hashes_of_both(folder: Path, told: list[str]) -> None:
    made = resolve(folder)
    assert made.name == "model" and not differing(weights(made), TENSORS)
    assert (made / "config.json").read_text() == '{"model_type": "bert"}'
    hashes = {"from": {"pytorch_model.bin": sha256(folder / "pytorch_model.bin")},
              "to": {"model.safetensors": sha256(made / "model.safetensors")}}  # fmt: skip
    assert json.loads((made / convert.RECORD).read_text()) == hashes
    assert {f"sha256 {digest}  {name}" for of in hashes.values() for name, digest in of.items()} <= set(told)


def test_without_the_option_nothing_is_converted(folder: Path, cache: Path) -> None:
    refuses(UnsafeWeights, "--convert", resolve, folder)
    assert not cache.exists()


@pytest.mark.nightly
def test_what_was_converted_is_found_later_and_what_changed_is_not(folder: Path, told: list[str]) -> None:
    made, lines = resolve(folder), list(told)
    assert resolve(folder) == made and told == lines, "once is enough"
    convert.wanted.set(None)
    assert resolve(folder) == made, "a page or a resumed job reads the safetensors"
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")
    refuses(UnsafeWeights, None, resolve, folder)


@pytest.mark.nightly
def test_shards_an_adapter_and_a_trainers_state(tmp_path: Path, told: list[str]) -> None:
    names = [f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
    shards = pickled(tmp_path / "shards", **{names[0]: {"a": TENSORS["a"]}, names[1]: {"b": TENSORS["b"]}})
    index = {"metadata": {}, "weight_map": {"a": names[0], "b": names[1]}}
    (shards / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    made = resolve(shards)
    weight_map = json.loads((made / "model.safetensors.index.json").read_text())["weight_map"]
    joined = {name: weights(made, file)[name] for name, file in weight_map.items()}
    assert not differing(joined, {name: TENSORS[name] for name in "ab"})
    adapter = resolve(pickled(tmp_path / "adapter", **{"adapter_model.bin": {"a": TENSORS["a"]}}))
    assert not differing(weights(adapter, "adapter_model.safetensors"), {"a": TENSORS["a"]})
    for key in ("state_dict", "model_state_dict", "model", "module"):
        wrapped = resolve(pickled(tmp_path / key, **{"pytorch_model.bin": {key: TENSORS, "epoch": 3}}))
        assert not differing(weights(wrapped), TENSORS), key


@pytest.mark.slow
def test_a_snapshot_of_the_hub_keeps_its_name(tmp_path: Path, told: list[str]) -> None:
    folder = pickled(tmp_path / "models--org--name" / "snapshots" / "abc")
    assert hub_name(resolve(folder)) == ("org/name", "abc")


@dataclass
class Evil:
    """An object that creates a file if it is unpickled without care."""

    path: Path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.cases(0, 1)
@pytest.mark.slow
@pytest.mark.parametrize("content", first(["code", "number", "list", "bytes", "shard"], "code".__eq__))
def test_what_is_more_than_tensors_is_refused_in_a_sentence(
    content: str, tmp_path: Path, told: list[str], cache: Path
) -> None:
    saved = {"number": {"a": torch.zeros(1), "steps": 3}, "list": [torch.zeros(1)]}.get(content, {"a": torch.zeros(1)})
    name = "pytorch_model-00001-of-00002.bin" if content == "shard" else "pytorch_model.bin"
    folder, ran = pickled(tmp_path / "model", **{name: saved}), tmp_path / "ran"
    if content == "shard":
        weight_map = {"weight_map": {"a": name, "b": "../../elsewhere.bin"}}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(weight_map))
    elif content in ("code", "bytes"):
        (folder / name).write_bytes(pickle.dumps({"a": Evil(ran)}) if content == "code" else b"no pickle at all")
    with pytest.raises(UnsafeWeights, match=r"\A(?!.*weights_only).*\Z"):  # one line
        resolve(folder)
    assert not ran.exists() and not list(cache.rglob("*"))


REASONS = (
    "is a TorchScript archive", "is a tar file, as PyTorch wrote long ago", "without values",
    "torch.complex128, which safetensors does not store", "holds quantized tensors",
)  # fmt: skip


def test_reasons_of_torch_are_said_in_a_few_words(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.bin" for name in ("script", "tar", "meta", "complex", "quantized")}
    torch.jit.ScriptModule().save(str(paths["script"]))
    with tarfile.open(paths["tar"], "w") as file:
        for name in ("storages", "tensors", "pickle"):
            file.addfile(tarfile.TarInfo(name))
    torch.save({"a": torch.zeros(2, device="meta")}, paths["meta"])
    torch.save({"a": torch.zeros(2, dtype=torch.complex128)}, paths["complex"])
    with warnings.catch_warnings(action="ignore"):
        torch.save({"a": torch.quantize_per_tensor(torch.zeros(4), 0.1, 0, torch.qint8)}, paths["quantized"])
    for path, words in zip(paths.values(), REASONS, strict=True):
        with pytest.raises(unpickle.NotTensors, match=words), warnings.catch_warnings(action="ignore"):
            unpickle.write(tmp_path, [path])
    assert len(unpickle._reason(tmp_path, RuntimeError("x" * 500))) < 150


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "names no parts"),
        (["a" * 5000 + ".bin"], "names the part 'a{60}…', which is not in the folder"),
        (["../model/pytorch_model-1.bin"], "names the part '../model/pytorch_model-1.bin', which is not"),
        (["absent.bin"], "names the part 'absent.bin', which is not"),
        ([1, "a.bin"], "is not an index"),
    ],
)
def test_an_index_of_no_parts_or_strange_ones_is_refused(names: list[object], words: str, tmp_path: Path) -> None:
    folder = pickled(tmp_path / "model", **{"pytorch_model-1.bin": TENSORS})
    weight_map = {str(number): name for number, name in enumerate(names)}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    refuses(UnsafeWeights, f"pytorch_model.bin.index.json' {words}", resolve, folder)


def test_a_read_only_skillviz_leaves_nothing_in_the_cache(
    folder: Path, told: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLVIZ_READONLY", "1")
    refuses(ReadOnly, None, resolve, folder)
    assert not cache.exists() and not told


@pytest.mark.slow
def test_the_child_has_its_limits(folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MEMORY", 2**20)
    refuses(UnsafeWeights, "limits on memory, time or file size", resolve, folder)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("OSError: the disk is gone.", "OSError: the disk is gone[.] Take a revision"),
        ("SafetensorError: I/O error: File too large (os error 27)", "limits on memory, time or file size"),
        ("RuntimeError: DefaultCPUAllocator: can not allocate memory", "limits on memory, time or file size"),
    ],
)
def test_a_child_that_fails_by_itself_says_why(
    words: str, why: str, folder: Path, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", f"echo '{words}' >&2\nexit 3")))
    refuses(UnsafeWeights, f"cannot be converted: .*{why}", resolve, folder)
