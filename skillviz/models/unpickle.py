"""The child of `convert`: reads pickled weights as tensors alone, within limits, and writes them as safetensors.

python -m skillviz.models.unpickle FOLDER MEMORY SECONDS FILE_BYTES FILE [FILE ...]
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

WRAPPED = "state_dict"  # what trainers put the tensors under


class NotTensors(Exception):
    """The file holds something else than tensors by name."""


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a pickled file by name, each in memory of its own. Raises NotTensors."""
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # its text names weights_only=False, which would run what is in the file
        raise NotTensors(f"{path.name} holds more than tensors, or is no pickle") from error
    except Exception as error:  # what else torch raises for files that it cannot read
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise NotTensors(f"{path.name} cannot be read ({first.rstrip('.')})") from error
    if isinstance(loaded, dict) and isinstance(loaded.get(WRAPPED), dict):
        loaded = loaded[WRAPPED]
    if not isinstance(loaded, dict) or not loaded:
        raise NotTensors(f"{path.name} holds no tensors by name")
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise NotTensors(f"{path.name} holds {type(value).__name__} under {str(name)[:60]!r}, which is no tensor")
    return {name: value.detach().clone().contiguous() for name, value in loaded.items()}


def write(folder: Path, sources: Sequence[Path]) -> None:
    """Writes one safetensors file for each pickled one, and the index of several. Raises NotTensors."""
    if len(sources) == 1:
        kind = "adapter_model" if sources[0].name.startswith("adapter") else "model"
        save_file(tensors_of(sources[0]), folder / f"{kind}.safetensors", {"format": "pt"})
        return
    weight_map: dict[str, str] = {}
    total = 0
    for number, source in enumerate(sources, start=1):
        name = f"model-{number:05}-of-{len(sources):05}.safetensors"
        tensors = tensors_of(source)
        save_file(tensors, folder / name, {"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        total += sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")


def main(folder: str, memory: str, seconds: str, file_bytes: str, *sources: str) -> None:
    """Limits this process, and does it; the reason of a refusal goes to standard output, with exit code 1."""
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
