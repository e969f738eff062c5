"""LoRA for training: low-rank changes added to a model's query and value matrices, and merged into them at the end."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from skillviz.core.architectures import CROSS_QUERY, CROSS_VALUE, QUERY, VALUE
from skillviz.core.parameters import ParameterTable
from skillviz.errors import BadInput, BadModel

LORA_ALPHA = 8
"""The changes are multiplied by alpha / rank (Hu et al. 2022, RoBERTa-base)."""

# The adapted matrices, value before query, because value alone did better (Hu et al. 2022, Table 5). A fused tensor is
# adapted as a whole, so that in GPT-2 the key changes too.
ADAPTED = ((VALUE, CROSS_VALUE), (QUERY, CROSS_QUERY))


def adapted(model: nn.Module, table: ParameterTable, matrices: int | None = None) -> list[str]:
    """Return the names of the modules that get a low-rank pair: all query and value matrices, or the first `matrices`.

    They are taken from the last layer backward, in each layer value before query. Raises BadModel if none of the
    model's linear layers is known as query or value, BadInput if there are fewer than `matrices`.
    """
    linear = {name for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D))}
    found = [
        (-(parameter.layer or 0), order, module)
        for parameter in table.parameters
        for module, _, last in [parameter.name.rpartition(".")]
        if last == "weight" and module in linear
        for order in [next((i for i, kinds in enumerate(ADAPTED) if {*kinds} & {*parameter.kinds}), None)]
        if order is not None
    ]
    if not found:
        raise BadModel(
            f"no linear layer of this '{table.model_type}' model is known as query or value, so the recipe lora has "
            "nothing to train; choose another recipe. docs/architectures.md lists the modules of each family."
        )
    if matrices is not None and matrices > len(found):
        raise BadInput(
            f"matrices is {matrices:,}, but the model has {len(found):,} query and value matrices; choose at most "
            "that, or a larger rank."
        )
    return [module for *_, module in sorted(found, key=lambda place: place[:2])[:matrices]]


class Adapter:
    """The low-rank pairs in a model: `parameters` are trained; `merge` adds them to the matrices and removes them.

    With `matrices`, only that many query and value matrices get a pair, chosen by `adapted`.
    """

    def __init__(self, model: Any, table: ParameterTable, rank: int, seed: int, matrices: int | None = None) -> None:
        # takes seconds to import, and only this recipe needs it
        from peft import LoraConfig  # imports torch
        from peft.tuners.lora import LoraModel

        targets = adapted(model, table, matrices)
        settings = LoraConfig(
            r=rank,
            lora_alpha=LORA_ALPHA,
            lora_dropout=0.0,
            target_modules=targets,
            fan_in_fan_out=isinstance(model.get_submodule(targets[0]), Conv1D),
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # peft 0.21 reads a property that transformers 5 has renamed
            warnings.simplefilter("ignore", FutureWarning)
            torch.manual_seed(seed)
            self.tuner = LoraModel(model, {"default": settings}, "default")
        self.parameters = {n: p for n, p in model.named_parameters() if ".lora_" in n}

    @property
    def size(self) -> int:
        """The number of entries of the low-rank pairs."""
        return sum(p.numel() for p in self.parameters.values())

    def merge(self) -> Any:
        """Return the model with ordinary matrices, to which the changes are added."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return self.tuner.merge_and_unload()
