"""The child process of `convert`: reads pickled weights as tensors only, within limits, and writes them as safetensors.

python -m skillviz.models.unpickle FOLDER MEMORY SECONDS FILE_BYTES FILE [FILE ...]
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

MOST_LETTERS = 120  # of torch's error message
WRAPPED = ("state_dict", "model_state_dict", "model", "module")  # the keys under which trainers store the tensors


class NotTensors(Exception):
    """The file holds something other than tensors by name."""


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a pickled file by name, each in memory of its own. Raises NotTensors."""
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # its text may suggest weights_only=False, which would run code in the file
        raise NotTensors(f"{path.name} {_reason(path, error)}") from error
    while isinstance(loaded, dict) and (
        inside := next((loaded[k] for k in WRAPPED if isinstance(loaded.get(k), dict)), None)
    ):
        loaded = inside
    if not isinstance(loaded, dict) or not loaded:
        raise NotTensors(f"{path.name} holds no tensors by name")
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise NotTensors(
                f"{path.name} holds {type(value).__name__} under {str(name)[:60]!r}, which is no dense tensor"
            )
    if any(value.is_meta for value in loaded.values()):
        raise NotTensors(f"{path.name} holds tensors without values (on the device meta)")
    if any(value.is_quantized for value in loaded.values()):
        raise NotTensors(f"{path.name} holds quantized tensors, which safetensors does not store")
    return {name: value.detach().clone().contiguous() for name, value in loaded.items()}


def _reason(path: Path, error: Exception) -> str:
    """Return a short reason why torch could not read a file."""
    with suppress(Exception):  # a broken archive is treated like any other file
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as old:
                if old.next() is not None:  # a file of zeros counts as a tar file too
                    return "is a tar file, as PyTorch wrote long ago"
        with zipfile.ZipFile(path) as file:
            if any(name.endswith("/constants.pkl") for name in file.namelist()):
                return "is a TorchScript archive, which holds a program beside its tensors"
    if isinstance(error, pickle.UnpicklingError):
        return "holds more than tensors, or is no pickle"
    first = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return f"cannot be read ({first[:MOST_LETTERS].rstrip('.')})"


def _store(tensors: dict[str, torch.Tensor], path: Path, source: Path) -> None:
    """Write the safetensors file of a pickled one. Raises NotTensors for unsupported tensors."""
    try:
        save_file(tensors, path, {"format": "pt"})
    except KeyError as error:  # a dtype that safetensors does not support
        raise NotTensors(f"{source.name} holds tensors of {error.args[0]}, which safetensors does not store") from error


def write(folder: Path, sources: Sequence[Path]) -> None:
    """Write one safetensors file for each pickled one, and an index for several. Raises NotTensors."""
    if len(sources) == 1:
        kind = "adapter_model" if sources[0].name.startswith("adapter") else "model"
        _store(tensors_of(sources[0]), folder / f"{kind}.safetensors", sources[0])
        return
    weight_map: dict[str, str] = {}
    total = 0
    for number, source in enumerate(sources, start=1):
        name = f"model-{number:05}-of-{len(sources):05}.safetensors"
        tensors = tensors_of(source)
        _store(tensors, folder / name, source)
        weight_map |= dict.fromkeys(tensors, name)
        total += sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")


def main(folder: str, memory: str, seconds: str, file_bytes: str, *sources: str) -> None:
    """Limit this process and convert; the reason of a refusal goes to standard output, with exit code 1."""
    limits = {resource.RLIMIT_DATA: memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: file_bytes}
    for limit, most in limits.items():
        resource.setrlimit(limit, (int(most), int(most)))
    try:
        write(Path(folder), [Path(source) for source in sources])
    except NotTensors as error:
        print(error)
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
