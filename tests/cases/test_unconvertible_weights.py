"""Tests of weights in other formats: the error names the file's format and the fix, and never repeats `--convert`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skillviz.errors import BadModel, ModelNotFound, UnsafeWeights
from skillviz.models import convert
from skillviz.models.fetch import resolve

EXPORTED, JOINED = "call save_pretrained", "Join them with"
FILES = {
    "tf_model.h5": ("TensorFlow", "from_tf=True"),
    "bert_model.ckpt.index": ("TensorFlow", "from_tf=True"),
    "saved_model/saved_model.pb": ("TensorFlow", "from_tf=True"),
    "flax_model.msgpack": ("Flax", "from_flax=True"),
    "openvino_model.bin": ("OpenVINO", "made from"),
    "onnx/model.onnx": ("ONNX", "made from"),
    "model-q4_0.gguf": ("llama.cpp", "gguf_file"),
    "weights.npz": ("NumPy", EXPORTED),
    "epoch=3-step=500.ckpt": ("Lightning", EXPORTED),
    "model.pt": ("pickled", EXPORTED),
    "best_model.pth": ("pickled", EXPORTED),
    "consolidated.00.pth": ("original release", "for transformers"),
    "pytorch_model_fsdp.bin": ("FSDP", EXPORTED),
    "pytorch_model_fsdp_0/__0_0.distcp": ("FSDP", JOINED),
    "global_step500/mp_rank_00_model_states.pt": ("DeepSpeed", JOINED),
    "pytorch_model-00001-of-00002.bin": ("without pytorch_model.bin.index.json", "Download"),
    "model-00001-of-00002.safetensors": ("without model.safetensors.index.json", "Download"),
    "pytorch_model.safetensors": ("another name", "model.safetensors"),
}


def folder_with(folder: Path, *names: str) -> Path:
    for name in ("config.json", "tokenizer.json", "training_args.bin", "optimizer.pt", *names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 64)
    return folder


@pytest.fixture(params=[False, True], ids=["plain", "--convert"])
def asked_to_convert(request: pytest.FixtureRequest) -> Iterator[None]:
    before = convert.wanted.set((lambda words: None) if request.param else None)
    yield
    convert.wanted.reset(before)


@pytest.mark.usefixtures("asked_to_convert")
@pytest.mark.parametrize("name", FILES)
def test_what_cannot_be_converted_says_what_it_is_and_what_to_do(tmp_path: Path, name: str) -> None:
    what, way = FILES[name]
    with pytest.raises(UnsafeWeights) as refused:
        resolve(folder_with(tmp_path / "model", name))
    sentence = str(refused.value.args[0])
    assert name in sentence and what in sentence and way in sentence
    assert "--convert" not in sentence and "only pytorch_model.bin can be converted" in sentence


@pytest.mark.usefixtures("asked_to_convert")
def test_nothing_at_all_is_no_loop_either(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound) as refused:
        resolve(folder_with(tmp_path / "model"))
    assert ("--convert" in str(refused.value)) is (convert.wanted.get() is None)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "adapter_model.bin"])
def test_only_what_can_be_converted_is_advised_to_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadModel, match=f"only as {name}.*--convert"):
        resolve(folder_with(tmp_path / "model", name, "tf_model.h5", "model.onnx"))
