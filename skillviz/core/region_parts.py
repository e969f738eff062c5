"""A region's parts: cells of its map of layers and modules, heads, experts, rows of matrices, and their controls.

A control has as many entries as the part. From `other_entries` they are in the same tensors, as many in each, but
outside the region, which tests these entries against others of the same place. From `rest_of_region` they are other
entries of the region, anywhere, which tests whether the part matters more than its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from skillviz.core.architectures import (
    ATTENTION_OUTPUT,
    CROSS_KEY,
    CROSS_OUTPUT,
    CROSS_QUERY,
    CROSS_VALUE,
    EXPERT_GATE,
    EXPERT_OUT,
    EXPERT_UP,
    GATE,
    KEY,
    KEY_AND_VALUE,
    LAYER_NORM,
    MLP_IN,
    MLP_OUT,
    OTHER,
    POSITION,
    QUERY,
    ROUTER,
    UP,
    VALUE,
)
from skillviz.core.parameters import BIAS, ENTRY_KINDS, Parameter, ParameterTable, head_numbers, heads_of_kind
from skillviz.core.region import Region
from skillviz.errors import BadInput

CELLS, HEADS, EXPERTS, ROWS = "cells", "heads", "experts", "rows"
MOST_ROWS = 50
"""The densest rows of matrices are parts; all rows would be thousands."""
EXPERT_KINDS = (EXPERT_GATE, EXPERT_UP, EXPERT_OUT)
EXPERT = "expert"
"""The kind of a part that is one expert of a layer."""
ATTENTION = (QUERY, KEY, VALUE, ATTENTION_OUTPUT)
ALONE, WITHOUT = "alone", "without"

Place = tuple[int | None, str, int | None]


@dataclass(frozen=True)
class RegionPart:
    """Some entries of a region: all in one layer (None outside the blocks) and module kind, head or expert.

    `kind` is one of KINDS or BIAS, empty for a head, EXPERT for an expert; `head` is the head, expert or row, counted
    from 0, None for a cell. `entries` are global flat indices, sorted, int64.
    """

    layer: int | None
    kind: str
    head: int | None
    entries: np.ndarray = field(compare=False)

    @property
    def place(self) -> Place:
        """The layer, kind and head."""
        return self.layer, self.kind, self.head

    @property
    def grouping(self) -> str:
        """The grouping to which the part belongs."""
        if self.head is None:
            return CELLS
        return {EXPERT: EXPERTS, "": HEADS}.get(self.kind, ROWS)

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.entries)


def parts_of(region: Region, table: ParameterTable, grouping: str) -> list[RegionPart]:
    """Return the parts of a grouping that have entries, by layer.

    CELLS partition the region: every entry is in one of them. HEADS have a head's rows of query, key and value with
    their biases, and its columns of the attention output; entries without a head and cross-attention are in none of
    them. With grouped queries, a key and value head belongs to every head that uses it. EXPERTS have a routed expert's
    own matrices and biases; shared experts and the router are in none of them. ROWS are the MOST_ROWS rows of matrices
    with the largest share of chosen entries, the first ones among equals; matrices of one layer and kind have their
    rows in common. Raises BadInput if the model's heads are
    unknown, or it has no experts.
    """
    if grouping not in GROUPINGS:
        raise BadInput(f"'{grouping}' is not a way to divide a region; known: {', '.join(GROUPINGS)}.")
    if dict(region.shapes) != table.shapes:
        raise BadInput("the region was made for another architecture: its parameters are not this model's.")
    places_of = GROUPINGS[grouping]
    entries: dict[Place, list[np.ndarray]] = defaultdict(list)
    lengths: dict[Place, int] = defaultdict(int)
    for parameter, offset in zip(table.parameters, table.offsets[:-1], strict=True):
        flat = region.indices.get(parameter.name)
        if flat is not None:
            for place, is_there in places_of(table, parameter, flat):
                entries[place].append(flat[is_there] + offset)
                lengths[place] += parameter.cols
    parts = [RegionPart(*place, np.concatenate(pieces)) for place, pieces in entries.items()]
    parts = [part for part in parts if part.size]
    if grouping == ROWS:
        parts = sorted(parts, key=lambda part: -part.size / lengths[part.place])[:MOST_ROWS]
    return sorted(parts, key=_order)


def other_entries(
    region: Region, table: ParameterTable, part: RegionPart, generator: np.random.Generator
) -> np.ndarray | None:
    """Draw random entries at the part's place but outside the region, as many in each tensor as the part has.

    Global flat indices, sorted; None if a tensor has too few entries outside the region.
    """
    places_of, drawn = GROUPINGS[part.grouping], []
    for number, parameter in enumerate(table.parameters):
        first, last = table.offsets[number], table.offsets[number + 1]
        count = int(np.searchsorted(part.entries, last) - np.searchsorted(part.entries, first))
        if not count:
            continue
        every = np.arange(parameter.size)
        inside = next(there for place, there in places_of(table, parameter, every) if place == part.place)
        free = np.setdiff1d(every[inside], region.indices[parameter.name], assume_unique=True)
        if len(free) < count:
            return None
        drawn.append(generator.choice(free, count, replace=False, shuffle=False) + first)
    return np.sort(np.concatenate(drawn))


def rest_of_region(region: Region, part: RegionPart, generator: np.random.Generator) -> np.ndarray | None:
    """Draw as many random entries of the region that are not in the part, as global flat indices, sorted.

    None if the part is more than half of the region.
    """
    rest = np.setdiff1d(region.flat(), part.entries, assume_unique=True)
    if len(rest) < part.size:
        return None
    return np.sort(generator.choice(rest, part.size, replace=False, shuffle=False))


def grafts_of(
    region: Region, table: ParameterTable, part: RegionPart, draws: int, seed: int
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the grafts that measure the effect of a part: condition, draw and global flat indices, sorted.

    ALONE is the part and nothing else of the region, WITHOUT the region and nothing of the part. Draw 0 is the part
    itself; 1 to `draws` replace it by a random control: from `other_entries` alone, from `rest_of_region` without. A
    control that cannot be drawn is left out. The draws depend on seed and place alone.
    """
    region = region.like(table.shapes)
    whole = region.flat()
    yield ALONE, 0, part.entries
    yield WITHOUT, 0, np.setdiff1d(whole, part.entries, assume_unique=True)
    layer, _, head = part.place
    place = [-1 if number is None else number for number in (layer, head)]
    for draw in range(1, draws + 1):
        key = [seed, place[0] + 1, _SEED_NUMBERS.index(part.kind), place[1] + 1, draw]
        generator = np.random.default_rng(key)
        elsewhere, rest = other_entries(region, table, part, generator), rest_of_region(region, part, generator)
        if elsewhere is not None:
            yield ALONE, draw, elsewhere
        if rest is not None:
            yield WITHOUT, draw, np.setdiff1d(whole, rest, assume_unique=True)


Places = Iterator[tuple[Place, np.ndarray]]


def _cells(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> Places:
    """Yield the cells of these entries of a tensor, each with the mask of its entries."""
    if parameter.is_bias:
        yield (parameter.layer, BIAS, None), np.ones(len(flat), dtype=bool)
        return
    numbers = parameter.kind_numbers(flat)
    for number, kind in enumerate(parameter.kinds):
        yield (parameter.layer, kind, None), numbers == number


def _heads(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> Places:
    """Yield the heads of these entries of a tensor, each with the mask of its entries."""
    if not table.head_axes:
        why = "cannot be told apart in its tensors" if table.heads else "are not known"
        raise BadInput(
            f"the attention heads of this '{table.model_type}' model {why}; divide the region by {CELLS} instead."
        )
    own = {kind: heads_of_kind(table, parameter, kind) for kind in parameter.kinds if kind in ATTENTION}
    own = {kind: count for kind, count in own.items() if count}
    if not own:
        return
    parts, numbers = parameter.kind_numbers(flat), head_numbers(table, parameter, flat)
    for head in range(table.heads or 0):
        there = np.zeros(len(flat), dtype=bool)
        for kind, count in own.items():  # fewer than the model's heads with grouped queries
            there |= (parts == parameter.kinds.index(kind)) & (numbers == head * count // (table.heads or 1))
        yield (parameter.layer, "", head), there


def expert_count(parameter: Parameter) -> int:
    """Return the number of experts in a tensor, along its first axis; 0 for a shared expert's, or without experts."""
    is_stacked = len(parameter.shape) > (1 if parameter.is_bias else 2)
    return parameter.shape[0] if is_stacked and set(parameter.kinds) <= set(EXPERT_KINDS) else 0


def _experts(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> Places:
    """Yield the experts of these entries of a tensor, each with the mask of its entries."""
    if not any(map(expert_count, table.parameters)):
        raise BadInput(f"this '{table.model_type}' model has no experts; divide the region by {CELLS} instead.")
    if count := expert_count(parameter):
        numbers = flat // (parameter.size // count)
        for expert in range(count):
            yield (parameter.layer, EXPERT, expert), numbers == expert


def _rows(table: ParameterTable, parameter: Parameter, flat: np.ndarray) -> Places:
    """Yield the rows of these entries (sorted) of a matrix, by kind, each with the mask of its entries."""
    if len(parameter.shape) != 2:
        return
    kinds, rows = parameter.kind_numbers(flat), flat // parameter.cols
    for row in np.unique(rows):
        there = slice(*np.searchsorted(rows, (row, row + 1)))
        for number in np.unique(kinds[there]):
            mask = np.zeros(len(flat), dtype=bool)
            mask[there] = kinds[there] == number
            yield (parameter.layer, parameter.kinds[number], int(row)), mask


GROUPINGS: dict[str, Callable[[ParameterTable, Parameter, np.ndarray], Places]] = {
    CELLS: _cells, HEADS: _heads, EXPERTS: _experts, ROWS: _rows,
}  # fmt: skip


_KIND_ORDER = (*ENTRY_KINDS, "", EXPERT)
# A kind's number in the key of the random draws never changes, so stored draws can be repeated: new ones go last.
_SEED_NUMBERS = (
    QUERY, KEY, VALUE, ATTENTION_OUTPUT, MLP_IN, MLP_OUT, LAYER_NORM, OTHER, BIAS, "", GATE, UP, KEY_AND_VALUE,
    CROSS_QUERY, CROSS_KEY, CROSS_VALUE, CROSS_OUTPUT, ROUTER, EXPERT_GATE, EXPERT_UP, EXPERT_OUT, POSITION, EXPERT,
)  # fmt: skip


def _order(part: RegionPart) -> tuple[float, int, int]:
    layer, kind, head = part.place
    return float("inf") if layer is None else layer, _KIND_ORDER.index(kind), -1 if head is None else head
