"""LoRA for training: low-rank changes put into a model's query and value matrices, and merged away when it is done."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from skillviz.core.parameters import ParameterTable
from skillviz.errors import BadInput, BadModel

LORA_ALPHA = 8
"""The changes are multiplied by alpha / rank (Hu et al. 2022, RoBERTa-base)."""

# Modules with query and value, by architecture. GPT-2 and GPT-NeoX have one tensor for query, key and value,
# so that there the key changes too. Sources: the modelling files of the transformers library.
_BERT, _LLAMA = ("query", "value"), ("q_proj", "v_proj")
TARGETS: dict[str, tuple[str, ...]] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "electra": _BERT,
    "distilbert": ("q_lin", "v_lin"),
    "gpt2": ("c_attn",),
    "opt": _LLAMA,
    "gpt_neox": ("query_key_value",),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
}


def adapted(table: ParameterTable, matrices: int | None = None) -> list[str]:
    """The names of the modules that get a low-rank pair: all query and value matrices, or the first `matrices` of them.

    They are taken from the last layer back, in each layer value before query, which alone did better than query alone
    (Hu et al. 2022, Table 5). Raises BadModel for an unknown architecture, BadInput where there are not so many.
    """
    if table.model_type not in TARGETS:
        raise BadModel(
            f"which modules of a '{table.model_type}' model are its query and value is not in the table, so the "
            f"recipe lora cannot train it; known: {', '.join(TARGETS)}."
        )
    order = TARGETS[table.model_type][::-1]  # value first
    modules = [
        (-(parameter.layer or 0), order.index(leaf), module)
        for parameter in table.parameters
        for module, _, last in [parameter.name.rpartition(".")]
        if last == "weight" and (leaf := module.rpartition(".")[2]) in order
    ]
    if matrices is not None and matrices > len(modules):
        raise BadInput(
            f"matrices is {matrices:,}, but the model has {len(modules):,} query and value matrices; choose at most "
            "that, or a larger rank."
        )
    return [module for *_, module in sorted(modules)[:matrices]]


class Adapter:
    """The low-rank pairs in a model: `parameters` are trained, `merge` adds them to the matrices and takes them out.

    With `matrices` only so many query and value matrices get a pair: those of `adapted`.
    """

    def __init__(self, model: Any, table: ParameterTable, rank: int, seed: int, matrices: int | None = None) -> None:
        # seconds to import, and only this recipe needs it
        from peft import LoraConfig  # imports torch
        from peft.tuners.lora import LoraModel

        settings = LoraConfig(
            r=rank,
            lora_alpha=LORA_ALPHA,
            lora_dropout=0.0,
            target_modules=adapted(table, matrices),
            fan_in_fan_out=table.model_type == "gpt2",
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # peft 0.21 reads a property that transformers 5 has renamed
            warnings.simplefilter("ignore", FutureWarning)
            torch.manual_seed(seed)
            self.tuner = LoraModel(model, {"default": settings}, "default")
        self.parameters = {n: p for n, p in model.named_parameters() if ".lora_" in n}

    @property
    def size(self) -> int:
        """Entries of the low-rank pairs."""
        return sum(p.numel() for p in self.parameters.values())

    def merge(self) -> Any:
        """The model with ordinary matrices again, the changes added to them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return self.tuner.merge_and_unload()
