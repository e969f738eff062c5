"""Bottlenecks as modules: insert them into a model, store them, and open a stored model beside its base."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from skillviz.core.parameters import ParameterTable, graftable
from skillviz.layout import KEY, LAYOUT
from skillviz.models import adapters
from skillviz.models.checkpoint import ModelInfo
from skillviz.models.heads import is_linear
from skillviz.models.lora import load_for_adapter

TASK_TYPES = {"head": "SEQ_CLS", "causal": "CAUSAL_LM", "prompt": "MASKED_LM"}
ACTIVATIONS = {"houlsby": nn.GELU, "pfeiffer": nn.ReLU}


class Bottleneck(nn.Module):
    """x + up(f(down(x))): `down` maps size to width and `up` back; x and the result are [..., size].

    `up` is zero at first, so a new one returns x exactly (near-identity in Houlsby et al. 2019, section 2.1).
    """

    def __init__(self, size: int, width: int, placement: str) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(size, width), nn.Linear(width, size)
        self.activation = ACTIVATIONS[placement]()
        for tensor in (self.up.weight, self.up.bias, self.down.bias):
            nn.init.zeros_(tensor)

    def forward(self, x: Tensor) -> Tensor:
        """Return the corrected output of a projection."""
        corrected: Tensor = x + self.up(self.activation(self.down(x)))
        return corrected


def _through(bottleneck: nn.Module, module: nn.Module, inputs: Any, output: Tensor) -> Any:
    return bottleneck(output)


def insert(model: Any, table: ParameterTable, placement: str, width: int, seed: int = 0) -> nn.ModuleDict:
    """Add new adapters to a model as `model.adapters`, drawn with the seed, and return them.

    No other parameter gets another name. Raises BadModel if a layer has no linear projection to put one after.
    """
    made = nn.ModuleDict()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, target in adapters.places(table, placement).items():
            module = model.get_submodule(target)
            if not isinstance(module, (nn.Linear, Conv1D)):
                raise adapters.unfit(table.model_type, placement)
            size = module.out_features if isinstance(module, nn.Linear) else module.nf
            layer, part = name.split(".")
            bottleneck = Bottleneck(size, width, placement).to(module.weight)
            made[layer] = made[layer] if layer in made else nn.ModuleDict()
            made[layer].add_module(part, bottleneck)
            module.register_forward_hook(partial(_through, bottleneck))
    model.add_module(adapters.PREFIX.rstrip("."), made)
    return made


def save(
    folder: Path, model: Any, head: Iterable[str], base: Mapping[str, Any], readout: str, placement: str, width: int
) -> None:
    """Write config.json, adapter_config.json and adapter_model.safetensors: the adapters, and the head of these names.

    `base` is the base's identity.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    kept = {*head, *(name for name, _ in model.named_parameters() if name.startswith(adapters.PREFIX))}
    tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters() if name in kept}
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    config = {
        "base_model_name_or_path": base["id"],
        "task_type": "TOKEN_CLS" if is_linear(model.config.architectures) else TASK_TYPES[readout],
        adapters.FIELD: {KEY: LAYOUT, "placement": placement, "width": width, "fingerprint": base["fingerprint"]},
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def load(base: ModelInfo, info: ModelInfo, readout: str, dtype: torch.dtype) -> Any:
    """Return the base with stored adapters and their head, as `dtype`; `adapters.check` has compared them."""
    model = load_for_adapter(base, info, readout)
    named = {name: tuple(p.shape) for name, p in model.named_parameters()}
    placement, width, _ = adapters.read(info)
    insert(model, graftable(base.model_type, named, model.config.to_dict()), placement, width)
    model.load_state_dict(load_file(info.folder / "adapter_model.safetensors"), strict=False)
    return model.to(dtype).eval()
