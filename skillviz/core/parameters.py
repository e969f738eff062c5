"""Which parameters a region may choose from, and what each of them is.

Graftable are the parameters of the transformer's blocks: all but embeddings, pooler, the final norm
after the last block, and output or classification heads (paper, section 2, and its appendix).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from skillviz.core.architectures import FAMILIES, KINDS, OTHER, UNKNOWN, Family
from skillviz.errors import BadModel

__all__ = ["KINDS", "Fused", "Parameter", "ParameterTable", "graftable", "readout_names"]

FUSED_KINDS = ("query", "key", "value")


@dataclass(frozen=True)
class Fused:
    """How query, key and value share one tensor: thirds along `axis`, repeated in each of `groups`."""

    axis: int
    groups: int

    def kind_numbers(self, shape: tuple[int, ...]) -> np.ndarray:
        """0, 1 or 2 (query, key, value) for every position along the axis, int64."""
        length = shape[self.axis]
        return np.arange(length) // (length // (3 * self.groups)) % 3


@dataclass(frozen=True)
class Parameter:
    """One graftable tensor. `layer` counts from 0; `kind` is one of KINDS, or `query+key+value`."""

    name: str
    shape: tuple[int, ...]
    layer: int | None
    kind: str
    is_bias: bool
    fused: Fused | None = None

    @property
    def size(self) -> int:
        """Entries of the tensor."""
        return prod(self.shape)

    @property
    def rows(self) -> int:
        """First dimension (a vector counts as one row)."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def cols(self) -> int:
        """Entries of a row."""
        return self.size // self.rows if self.rows else 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its entries: one, or three where they are fused."""
        return FUSED_KINDS if self.fused else (self.kind,)

    def kind_numbers(self, flat: np.ndarray) -> np.ndarray:
        """Place in `kinds` of each entry, for flat indices into the tensor."""
        if self.fused is None:
            return np.zeros(len(flat), dtype=np.int64)
        along = np.unravel_index(flat, self.shape)[self.fused.axis]
        return self.fused.kind_numbers(self.shape)[along]


@dataclass(frozen=True)
class ParameterTable:
    """The graftable parameters in the model's own order; `d` entries in all."""

    parameters: tuple[Parameter, ...]
    model_type: str
    known: bool
    heads: int | None = None

    @cached_property
    def d(self) -> int:
        """Number of graftable entries."""
        return int(self.offsets[-1])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in parameter order."""
        return tuple(p.name for p in self.parameters)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name to shape, in parameter order."""
        return {p.name: p.shape for p in self.parameters}

    @cached_property
    def offsets(self) -> np.ndarray:
        """Global flat index of each parameter's first entry, and d last: int64 [len + 1]."""
        return np.concatenate([[0], np.cumsum([p.size for p in self.parameters])]).astype(np.int64)

    @property
    def layers(self) -> int:
        """Number of blocks."""
        return 1 + max((p.layer for p in self.parameters if p.layer is not None), default=-1)

    @property
    def note(self) -> str | None:
        """A sentence for the reader where the architecture is not in the table of families."""
        if self.known:
            return None
        return (
            f"The architecture '{self.model_type}' is not in skillviz's table, so its tensors are shown under "
            "their own names with kind 'other'; every tensor inside a numbered block is graftable."
        )


def graftable(
    model_type: str, shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any] | None = None
) -> ParameterTable:
    """The table of graftable parameters among `shapes` (name to shape, in the model's order).

    `config` is the model's configuration, read for the number of attention heads. Raises BadModel
    where no parameter stands in a numbered block. A tied tensor must appear once in `shapes`.
    """
    config = config or {}
    family = FAMILIES.get(model_type, UNKNOWN)
    stated = config.get(family.heads_key, config.get("num_attention_heads"))
    heads = stated if isinstance(stated, int) and stated > 0 else None
    read = [_parameter(family, name, tuple(shape), heads) for name, shape in shapes.items()]
    parameters = tuple(p for p in read if p is not None)
    if not parameters:
        raise BadModel(
            f"no numbered transformer block is among the {len(shapes)} tensors of this "
            f"'{model_type}' model, so nothing can be grafted; known families: {', '.join(FAMILIES)}."
        )
    return ParameterTable(parameters, model_type, model_type in FAMILIES, heads)


def readout_names(model_type: str, names: Iterable[str]) -> list[str]:
    """The names that belong to a pooler or classification head: trained, never graftable."""
    patterns = FAMILIES.get(model_type, UNKNOWN).head
    return [name for name in names if any(re.search(p, name) for p in patterns)]


def _parameter(family: Family, name: str, shape: tuple[int, ...], heads: int | None) -> Parameter | None:
    block = re.search(family.block, name)
    if block is None or any(re.search(p, name) for p in family.head):
        return None
    rest = name[block.end() :]
    if family.buffers and re.search(family.buffers, rest):
        return None
    is_bias = name.endswith("bias") or name.endswith("_b")
    if family.fused and re.search(family.fused, rest):
        groups = int(heads or 1) if family.fused_by_head else 1
        fused = Fused(axis=0 if len(shape) == 1 else family.fused_axis, groups=groups)
        return Parameter(name, shape, int(block.group(1)), "+".join(FUSED_KINDS), is_bias, fused)
    kind = next((kind for pattern, kind in family.kinds if re.search(pattern, rest)), OTHER)
    return Parameter(name, shape, int(block.group(1)), kind, is_bias)
