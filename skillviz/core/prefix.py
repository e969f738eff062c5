"""Class scores of several models that differ in their upper layers alone: the layers below are computed once. Ours.

A graft that leaves the lower layers unchanged leaves their activations unchanged. These blocks are skipped by passing
on the stored output of the last of them, so every score equals the one of a full pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from skillviz.core.architectures import family_of
from skillviz.core.objective import Objective
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region

KEPT_TOKENS = 65_536
"""Padded tokens whose activations at one layer are kept at a time: 100 MB at width 384 in float32."""


@dataclass(frozen=True)
class Change:
    """One changed model: the current model with other values [k] at these entries [k] of the d (int64).

    The values are computed only when they are put in place, so many changes take the memory of one.
    """

    entries: Tensor
    values: Callable[[], Tensor]


def lowest_layer(region: Region, table: ParameterTable) -> int:
    """Return the lowest layer in which a region has an entry; the number of layers if it is empty."""
    return _lowest(table, [number for number, name in enumerate(table.names) if name in region.indices])


def _lowest(table: ParameterTable, numbers: Iterable[int]) -> int:
    """Return the lowest layer of these parameters."""
    layers = [table.parameters[number].layer for number in numbers]
    return min((0 if layer is None else layer for layer in layers), default=table.layers)


def _first_changed(table: ParameterTable, change: Change) -> int:
    """Return the lowest layer that a change touches."""
    entries = change.entries.cpu().numpy()
    return _lowest(table, np.unique(np.searchsorted(table.offsets, entries, side="right") - 1))


def blocks_of(model: nn.Module, table: ParameterTable) -> list[nn.Module]:
    """Return the module of each layer, lowest first; empty if lower ones cannot be skipped."""
    if not family_of(table.model_type).sequential or table.stacks or table.repeats > 1:
        return []
    blocks = []
    for layer in range(table.layers):
        names = [p.name.split(".") for p in table.parameters if p.layer == layer]
        *stack, number = os.path.commonprefix(names) or [""]
        if number != str(layer):
            return []
        blocks.append(model.get_submodule(".".join([*stack, number])))
    return blocks


def logits_of(objective: Objective, changes: Sequence[Change]) -> Iterator[np.ndarray]:
    """Yield class scores float32 [n, label] of each changed model, equal bit for bit to `objective.logits`.

    The model is unchanged afterwards, and between two of them. If no block can be skipped, every pass is a full one,
    run on demand.
    """
    flat, batches = objective.flat, objective.batches
    # every token of a generated text is a pass of its own
    blocks = [] if objective.generates else blocks_of(flat.model, flat.table)
    firsts = [_first_changed(flat.table, change) if blocks else 0 for change in changes]
    if not any(firsts):
        for change in changes:
            with _changed(flat.theta, change):
                logits = objective.logits()
            yield logits
        return
    ends = {first - 1 for first in firsts if first}
    scores = [np.empty((objective.n, objective.n_labels), dtype=np.float32) for _ in changes]
    for part in _parts(batches.plan(np.arange(objective.n)), batches.lengths, len(ends)):
        kept: list[dict[int, Any]] = [{} for _ in part]
        for change, first, out in zip(changes, firsts, scores, strict=True):
            with _changed(flat.theta, change):
                for rows, outputs in zip(part, kept, strict=True):
                    with _left_out(blocks[:first], outputs, ends):
                        out[rows] = objective.answers(rows)
    for out in scores:
        yield objective.finished(out, np.arange(objective.n))


def _parts(plan: Sequence[np.ndarray], lengths: np.ndarray, layers: int) -> Iterator[list[np.ndarray]]:
    """Yield the micro-batches in groups whose activations at this many layers are kept together."""
    part: list[np.ndarray] = []
    tokens = 0
    for rows in plan:
        new = layers * len(rows) * int(lengths[rows].max())
        if part and tokens + new > KEPT_TOKENS:
            yield part
            part, tokens = [], 0
        part.append(rows)
        tokens += new
    if part:
        yield part


@contextmanager
def _changed(theta: Tensor, change: Change) -> Iterator[None]:
    """Apply a change to the model, and undo it on exit."""
    before = theta[change.entries]
    try:
        theta[change.entries] = change.values()
        yield
    finally:
        theta[change.entries] = before


@contextmanager
def _left_out(same: Sequence[nn.Module], outputs: dict[int, Any], ends: set[int]) -> Iterator[None]:
    """Skip unchanged blocks: up to the last stored output they return that output, the others store theirs.

    `outputs` is by number of the block; only the outputs at `ends`, the last unchanged blocks, are stored.
    """
    stored = max((number for number in outputs if number < len(same)), default=-1)
    try:
        for number, block in enumerate(same):
            if number <= stored:
                block.forward = _giving(outputs[stored])
            elif number in ends:
                block.forward = _storing(block.forward, outputs, number)
        yield
    finally:
        for block in same:
            block.__dict__.pop("forward", None)


def _giving(output: Any) -> Callable[..., Any]:
    return lambda *_, **__: output


def _storing(forward: Callable[..., Any], outputs: dict[int, Any], number: int) -> Callable[..., Any]:
    def run(*args: Any, **named: Any) -> Any:
        outputs[number] = forward(*args, **named)
        return outputs[number]

    return run
