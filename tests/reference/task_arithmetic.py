"""A slow twin of mergekit: the result of a task_arithmetic recipe by mergekit's documentation, tensor by tensor.

"Computes task vectors for each model by subtracting a base_model. These are then combined as a weighted [sum] and
added
back to the base_model"; `normalize` false does not divide by the weights, `lambda` scales the sum.
"""

from pathlib import Path

import torch
import yaml
from safetensors.torch import load_file


def merged(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors that result from the recipe mergekit.yml in this folder."""
    recipe = yaml.safe_load((folder / "mergekit.yml").read_text())
    assert recipe["merge_method"] == "task_arithmetic" and recipe["parameters"]["normalize"] is False
    weights = {one["model"]: one["parameters"]["weight"] for one in recipe["models"]}
    tensors = {model: load_file(folder / model / "model.safetensors") for model in [recipe["base_model"], *weights]}
    result = {}
    for name, stored in tensors[recipe["base_model"]].items():
        start = stored.to(getattr(torch, recipe["dtype"]))
        moved = sum(weight * (tensors[model][name].to(start.dtype) - start) for model, weight in weights.items())
        result[name] = start + recipe["parameters"]["lambda"] * moved
    return result
