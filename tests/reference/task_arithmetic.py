"""A slow twin of mergekit: the result of a task_arithmetic recipe by mergekit's documentation, tensor by tensor.

"Computes task vectors for each model by subtracting a base_model. These are then combined as a weighted [sum] and
added
back to the base_model"; `normalize` false does not divide by the weights, `lambda` scales the sum.
"""

from __future__ import annotations

from pathlib import Path

import torch
import yaml
from safetensors.torch import load_file


def merged(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors that result from the recipe mergekit.yml in this folder."""
    recipe = yaml.safe_load((folder / "mergekit.yml").read_text())
    assert recipe["merge_method"] == "task_arithmetic" and recipe["parameters"]["normalize"] is False
    dtype = getattr(torch, recipe["dtype"])
    base = _tensors(folder, recipe["base_model"])
    result = {}
    for name, start in base.items():
        total = torch.zeros_like(start, dtype=dtype)
        for entry in recipe["models"]:
            other = _tensors(folder, entry["model"])[name]
            total = total + entry["parameters"]["weight"] * (other.to(dtype) - start.to(dtype))
        result[name] = start.to(dtype) + recipe["parameters"]["lambda"] * total
    return result


def _tensors(folder: Path, model: str) -> dict[str, torch.Tensor]:
    return load_file(folder / model / "model.safetensors")
