"""Changes to a saved model's folder, for tests of preflight."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor


def change_config(folder: Path, **changes: Any) -> None:
    """Set keys of config.json; None removes a key."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Replace the tensors of model.safetensors."""
    path = folder / "model.safetensors"
    save_file({n: t.clone().contiguous() for n, t in change(load_file(path)).items()}, path, {"format": "pt"})


def drop(folder: Path, *parts: str) -> None:
    """Remove every tensor whose name contains one of these parts."""
    change_weights(folder, lambda tensors: {n: t for n, t in tensors.items() if not any(p in n for p in parts)})


def drop_tokenizer(folder: Path) -> None:
    """Remove the tokenizer's files."""
    for path in folder.glob("*token*.json"):
        path.unlink()
