"""Changes to a saved model's folder, and the tensors by which two models differ."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, uint8


def change_json(path: Path, **changes: Any) -> None:
    """Set keys of a file's JSON object."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_config(folder: Path, **changes: Any) -> None:
    """Set keys of config.json; None removes a key."""
    config = {**json.loads((folder / "config.json").read_text()), **changes}
    (folder / "config.json").write_text(json.dumps({key: config[key] for key in config if config[key] is not None}))


def weights(folder: Path | str, name: str = "model.safetensors") -> dict[str, Tensor]:
    """Return the tensors of a file."""
    return load_file(Path(folder) / name)


def change_weights(
    folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], name: str = "model.safetensors"
) -> None:
    """Replace the tensors of a file."""
    save_file(
        {n: t.clone().contiguous() for n, t in change(weights(folder, name)).items()}, folder / name, {"format": "pt"}
    )


def drop(folder: Path, *parts: str) -> None:
    """Remove every tensor whose name contains one of these parts."""
    change_weights(folder, lambda tensors: {n: t for n, t in tensors.items() if not any(p in n for p in parts)})


def drop_tokenizer(folder: Path) -> None:
    """Remove the tokenizer's files."""
    for path in folder.glob("*token*.json"):
        path.unlink()


def flip(file: Path, place: int = -1) -> None:
    """Change one bit of a file."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def differing(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> set[str]:
    """Return the names that only one side has, and those whose tensors differ in dtype, shape or a bit."""
    return (one.keys() ^ other.keys()) | {
        name for name in one.keys() & other.keys() if _bits(one[name]) != _bits(other[name])
    }


def _bits(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.detach().cpu().contiguous().view(-1).view(uint8).numpy().tobytes()
