"""The parameters that a region may choose from, with the layer and kind of each.

Graftable are the parameters of the transformer's blocks: all except embeddings, pooler, the final norm after the last
block, and output or classification heads (paper, section 2, and its appendix).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Any

import numpy as np

from skillviz.core.architectures import (
    ALTERNATING,
    ATTENTION_OUTPUT,
    BY_GROUP,
    CROSS_OUTPUT,
    FAMILIES,
    HEADS_KEYS,
    KINDS,
    LATENT,
    OTHER,
    QKV,
    QUARTERS,
    QUERY,
    QUERY_FIRST,
    ROW,
    UNCOMPRESSED,
    Family,
    Split,
    family_of,
)
from skillviz.errors import BadModel

__all__ = ["BIAS", "ENTRY_KINDS", "KINDS", "Fused", "Parameter", "ParameterTable", "graftable", "readout_names"]

BIAS = "bias"
"""The kind of the biases of all modules, where they are told apart from the weights."""
ENTRY_KINDS = (*KINDS, BIAS)
"""The kinds of entries in the order of tables: those of the modules' weights, then BIAS."""


@dataclass(frozen=True)
class Fused:
    """Several kinds in one tensor: parts in the ratio of `sizes` along `axis`, repeated in each of `groups`."""

    axis: int
    groups: int
    sizes: tuple[int, ...] = (1, 1, 1)
    kinds: tuple[str, ...] = QKV

    def kind_numbers(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the index into `kinds` for every position along the axis, int64."""
        unit = shape[self.axis] // (self.groups * sum(self.sizes))
        parts = np.repeat(np.arange(len(self.sizes), dtype=np.int64), np.array(self.sizes) * unit)
        return np.tile(parts, self.groups)

    def part_shape(self, shape: tuple[int, ...], number: int) -> tuple[int, ...]:
        """Return the shape of one kind's part over all groups."""
        length = shape[self.axis] * self.sizes[number] // sum(self.sizes)
        return tuple(length if i == self.axis else k for i, k in enumerate(shape))


@dataclass(frozen=True)
class Parameter:
    """One graftable tensor. `layer` counts from 0, through the encoder and then the decoder if there are two stacks.

    `kind` is one of KINDS, or several joined by + if they are fused.
    """

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
        """The first dimension (a vector counts as one row)."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def cols(self) -> int:
        """Entries of a row."""
        return self.size // self.rows if self.rows else 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its entries: one, or several if they are fused."""
        return self.fused.kinds if self.fused else (self.kind,)

    def part_shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of its part of the kind at this index in `kinds`."""
        return self.fused.part_shape(self.shape, number) if self.fused else self.shape

    def kind_numbers(self, flat: np.ndarray) -> np.ndarray:
        """Return the index into `kinds` of each entry, for flat indices into the tensor."""
        if self.fused is None:
            return np.zeros(len(flat), dtype=np.int64)
        along = np.unravel_index(flat, self.shape)[self.fused.axis]
        return self.fused.kind_numbers(self.shape)[along]


@dataclass(frozen=True)
class Stack:
    """Layers `first` to `last`, inclusive, of a model with several stacks: `encoder`, `decoder`."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class ParameterTable:
    """The graftable parameters in the model's own order; `d` entries in total.

    `heads` is the number of attention heads, None if it is unknown. `stacks` is empty if the model has one. Each of the
    table's layers is used `repeats` times: more than once if layers share their parameters.
    """

    parameters: tuple[Parameter, ...]
    model_type: str
    known: bool
    heads: int | None = None
    stacks: tuple[Stack, ...] = ()
    repeats: int = 1

    def __repr__(self) -> str:
        return f"ParameterTable({self.model_type}, {self.d:,} entries in {len(self.parameters)} tensors)"

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

    @cached_property
    def head_axes(self) -> Mapping[str, str]:
        """`row` or `column` for each kind of weight that is divided into attention heads; empty if none can be."""
        return family_of(self.model_type).head_axes if self.heads else {}

    @cached_property
    def head_width(self) -> int:
        """The entries of a query head; 0 if the number is unknown."""
        for parameter in self.parameters:
            if QUERY in parameter.kinds and not parameter.is_bias and QUERY in self.head_axes:
                shape = parameter.part_shape(parameter.kinds.index(QUERY))
                is_row = self.head_axes[QUERY] == ROW
                return (shape[0] if is_row else prod(shape[1:])) // (self.heads or 1)
        return 0

    @property
    def kinds(self) -> set[str]:
        """The module kinds of the entries, and BIAS if there are biases."""
        return {kind for p in self.parameters for kind in ((BIAS,) if p.is_bias else p.kinds)}

    def by_kind(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Return the positions in `flat` (global flat indices, sorted) of each module kind or BIAS with entries."""
        found = defaultdict[str, list[np.ndarray]](list)
        ends = np.searchsorted(flat, self.offsets)
        for number in np.flatnonzero(np.diff(ends)):
            parameter, start = self.parameters[number], ends[number]
            kinds = parameter.kind_numbers(flat[start : ends[number + 1]] - self.offsets[number])
            for index in np.unique(kinds):
                kind = BIAS if parameter.is_bias else parameter.kinds[index]
                found[kind].append(start + np.flatnonzero(kinds == index))
        return {kind: np.concatenate(found[kind]) for kind in ENTRY_KINDS if kind in found}

    @property
    def note(self) -> str | None:
        """A sentence for the reader if the architecture is unknown, or its layers are in stacks or shared."""
        if not self.known:
            return (
                f"The architecture '{self.model_type}' is not in skillviz's table, so its tensors are shown under "
                "their own names with kind 'other'; every tensor inside a numbered block is graftable."
            )
        return layers_note(self.layers, self.stacks, self.repeats)


def layers_note(layers: int, stacks: Iterable[Stack], repeats: int) -> str | None:
    """Return a sentence if the layers belong to several stacks, or each is used several times; else None."""
    if parts := [f"{stack.first}–{stack.last} are the {stack.name}'s" for stack in stacks]:
        return f"Layers {', '.join(parts)}."
    if repeats > 1:
        which = "one set of parameters, shown as layer 0" if layers == 1 else f"{layers} sets of parameters"
        return f"The model's {layers * repeats} layers share {which}: a graft changes all layers that share it."
    return None


def graftable(
    model_type: str, shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any] | None = None
) -> ParameterTable:
    """Return the table of graftable parameters among `shapes` (name to shape, in the model's order).

    `config` is the model's configuration, read for the number of attention heads and of uses of shared layers. Raises
    BadModel if no parameter is in a numbered block. A tied tensor must appear once in `shapes`.
    """
    config = config or {}
    family = family_of(model_type)
    heads = _heads(config)
    places = {name: place for name in shapes if (place := _place(family, name)) is not None}
    if not places:
        raise BadModel(
            f"no numbered transformer block is among the {len(shapes)} tensors of this '{model_type}' model, so "
            "nothing can be grafted; docs/architectures.md lists the known families."
        )
    layers, stacks = _layers(family, places)
    inside: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for name, place in places.items():
        inside.setdefault(place.prefix, []).append((place.rest, tuple(shapes[name])))
    parameters = tuple(
        _parameter(
            family, name, tuple(shapes[name]), layers[name], place.rest, _Block(family, inside[place.prefix], heads)
        )
        for name, place in places.items()
    )
    table = ParameterTable(parameters, model_type, model_type in FAMILIES, heads, stacks)
    uses = config.get("num_hidden_layers")
    if family.shared and isinstance(uses, int) and uses > table.layers:
        return replace(table, repeats=uses // table.layers)
    return table


def readout_names(model_type: str, names: Iterable[str]) -> list[str]:
    """Return the names that belong to a pooler or classification head: trained, never graftable."""
    patterns = family_of(model_type).head
    return [name for name in names if any(re.search(p, name) for p in patterns)]


def _heads(config: Mapping[str, Any]) -> int | None:
    """Return the number of attention heads, None if the configuration has none or two different ones."""
    stated = set()
    for key in HEADS_KEYS:
        value: Any = config
        for word in key.split("."):
            value = value.get(word) if isinstance(value, Mapping) else None
        stated |= {value} if isinstance(value, int) and value > 0 else set()
    return stated.pop() if len(stated) == 1 else None


@dataclass(frozen=True)
class _Place:
    """The parts of a parameter's name: its stack, the numbers of its block, and the name inside the block."""

    stack: str
    numbers: tuple[int, ...]
    prefix: str
    rest: str


def _place(family: Family, name: str) -> _Place | None:
    match = re.search(family.block, name)
    if match is None or any(re.search(pattern, name) for pattern in family.head):
        return None
    rest = name[match.end() :]
    if family.buffers and re.search(family.buffers, rest):
        return None
    stack = match["stack"] if family.stacks else ""
    numbers = tuple(int(group) for group in match.groups() if group is not None and group != stack)
    return _Place(stack, numbers, name[: match.end()], rest)


def _layers(family: Family, places: Mapping[str, _Place]) -> tuple[dict[str, int], tuple[Stack, ...]]:
    """Return the layer of each name, and the stacks: a stack's layers follow the layers of the stack before it.

    A block with one number has this number as its layer in the stack; blocks with two numbers are counted in order.
    """
    layers: dict[str, int] = {}
    stacks: list[Stack] = []
    first = 0
    for stack in family.stacks or ("",):
        numbered = {name: place.numbers for name, place in places.items() if place.stack == stack}
        if not numbered:
            continue
        order = sorted(set(numbered.values()))
        single = all(len(numbers) == 1 for numbers in order)
        layers |= {n: first + (numbers[0] if single else order.index(numbers)) for n, numbers in numbered.items()}
        last = max(layers[name] for name in numbered)
        stacks.append(Stack(stack.replace("_", " "), first, last))
        first = last + 1
    return layers, tuple(stacks) if len(stacks) > 1 else ()


@dataclass(frozen=True)
class _Block:
    """The tensors of one block, by their names inside it: they give lengths that a fused tensor's shape does not."""

    family: Family
    tensors: list[tuple[str, tuple[int, ...]]]
    heads: int | None

    @property
    def output_width(self) -> int | None:
        """The width of all heads' outputs together, which is the input width of the attention output."""
        patterns = [pattern for pattern, kind in self.family.kinds if kind == ATTENTION_OUTPUT]
        return self._width(patterns, 0 if self.family.head_axes.get(ATTENTION_OUTPUT) == ROW else 1)

    @property
    def latent_width(self) -> int | None:
        """The width of the compressed vector, which is the input width of the next layer."""
        return self._width([split.pattern for split in self.family.splits if split.layout == UNCOMPRESSED], 1)

    def _width(self, patterns: list[str], axis: int) -> int | None:
        for name, shape in self.tensors:
            if len(shape) == 2 and any(re.search(pattern, name) for pattern in patterns):
                return shape[axis]
        return None


def _parameter(family: Family, name: str, shape: tuple[int, ...], layer: int, rest: str, block: _Block) -> Parameter:
    is_bias = name.endswith("bias") or name.endswith("_b")
    for split in family.splits:
        if re.search(split.pattern, rest):
            fused = _fused(split, shape, is_bias, block)
            if fused is not None:
                return Parameter(name, shape, layer, "+".join(split.kinds), is_bias, fused)
            return Parameter(name, shape, layer, OTHER, is_bias)
    kind = next((kind for pattern, kind in family.kinds if re.search(pattern, rest)), OTHER)
    return Parameter(name, shape, layer, kind, is_bias)


def _fused(split: Split, shape: tuple[int, ...], is_bias: bool, block: _Block) -> Fused | None:
    """Return the layout of the parts in a tensor of this shape; None if its length does not divide into them."""
    axis = len(shape) - 1 if split.transposed or is_bias or len(shape) == 1 else len(shape) - 2
    length, heads = shape[axis], block.heads or 1
    groups, parts = 1, (1,) * len(split.kinds)
    if split.layout == QUARTERS:
        groups = 4
    elif split.layout == ALTERNATING:
        groups = length // len(parts)
    elif split.layout == LATENT:
        latent = block.latent_width or 0
        parts = (latent, length - latent)
    elif split.layout == UNCOMPRESSED:
        groups = heads
        value = (block.output_width or 0) // heads
        parts = (length // heads - value, value)
    elif split.layout in (QUERY_FIRST, BY_GROUP):
        query = block.output_width or length // 3
        shared = (length - query) // 2  # entries of all keys, and of all values
        if split.layout == BY_GROUP:
            groups = heads * shared // query if query else 0  # of heads that share a key and value
        parts = (query, shared, shared)
    unit = gcd(*parts)
    if not unit or min(parts) <= 0 or not groups or length % (groups * sum(parts) // unit):
        return None
    return Fused(axis, groups, tuple(part // unit for part in parts), split.kinds)


def head_count(table: ParameterTable, length: int) -> int:
    """The number of heads along an axis: with grouped queries, key and value have fewer than the query.

    0 if the table does not say, or the heads do not divide the axis.
    """
    if not table.head_axes:
        return 0
    width = table.head_width or length // (table.heads or 1)
    return length // width if width and length % width == 0 else 0


def heads_of_kind(table: ParameterTable, parameter: Parameter, kind: str) -> int:
    """Return how many heads the parameter's part of this kind holds; 0 if it is not divided into heads."""
    axis = table.head_axes.get(kind)
    if axis is None or (parameter.is_bias and kind in (ATTENTION_OUTPUT, CROSS_OUTPUT)):  # heads share its bias
        return 0
    count = head_count(table, _length(parameter, kind, axis))
    # The output reads every head; if the counts differ, its columns belong to a group of a convolution.
    return 0 if kind in (ATTENTION_OUTPUT, CROSS_OUTPUT) and count != table.heads else count


def head_numbers(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> np.ndarray:
    """The head of each entry, from 0, for flat indices into the tensor: int64 [n]; -1 for an entry without a head.

    Key and value heads have their own numbers: with grouped queries several query heads share one.
    """
    numbers = np.full(len(flat), -1, dtype=np.int64)
    parts = parameter.kind_numbers(flat)
    for part, kind in enumerate(parameter.kinds):
        if heads := heads_of_kind(table, parameter, kind):
            inside = parts == part
            length = _length(parameter, kind, table.head_axes[kind])
            numbers[inside] = _along(table, parameter, flat[inside], part) // (length // heads)
    return numbers


def _length(parameter: Parameter, kind: str, axis: str) -> int:
    """Return the length of the kind's part along the axis of its heads."""
    shape = parameter.part_shape(parameter.kinds.index(kind))
    rows = shape[0] if len(shape) > 1 else 1
    is_row = axis == ROW and not parameter.is_bias
    return rows if is_row else int(np.prod(shape)) // rows


def _along(table: ParameterTable, parameter: Parameter, flat: np.ndarray, part: int) -> np.ndarray:
    """Return the position of each entry of a part along the axis of its heads, counted inside the part."""
    if parameter.fused is not None:
        kinds = parameter.fused.kind_numbers(parameter.shape)
        return (np.cumsum(kinds == part) - 1)[np.unravel_index(flat, parameter.shape)[parameter.fused.axis]]
    is_row = table.head_axes[parameter.kinds[part]] == ROW and not parameter.is_bias
    return flat // parameter.cols if is_row else flat % max(parameter.cols, 1)
