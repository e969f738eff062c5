"""Lean mode: one copy of the model in memory, and only the current part of gradients, movements and scores.

The base's and the fine-tuned values are read tensor by tensor from storage. The movement is computed in float32 from
the stored values, so a movement too small for the model's dtype still counts. A tensor's gradient is used as soon as it
is complete, and freed. Regions equal those of the ordinary mode, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from skillviz.core.draws import uniform
from skillviz.core.flat import FlatModel, split
from skillviz.core.localizers.table import GROUP_SHARE
from skillviz.core.parameters import ParameterTable
from skillviz.core.problem import Problem, soft
from skillviz.core.ranking import Best, moved_first, top_of_parts
from skillviz.errors import BadInput, BadModel

PART = 2**18
"""Entries that are read at a time: computing on them takes some 5 MB."""


class Vector(Protocol):
    """The values [d] of one model of a pair, in table order, read on demand."""

    def __len__(self) -> int:
        """The number of graftable entries."""

    def part(self, number: int, start: int, end: int) -> Tensor:
        """Return entries start to end of the table's tensor of that number, as they are stored, on the CPU."""

    def __getitem__(self, at: Any) -> Tensor:
        """Return the values at global flat indices, or in a slice."""


class LeanModel(FlatModel):
    """A model whose graftable parameters stay in place: `theta` does not exist.

    The gradient is kept at the entries or tensors given to the last `watch` or `watch_tensors`; all other parameters
    are frozen. Parameters may be on several devices; the kept gradient is on `device`.
    """

    def __init__(self, model: nn.Module, table: ParameterTable) -> None:
        model.eval().requires_grad_(False)
        self.model, self.table = model, table
        self.parameters = [model.get_parameter(name) for name in table.names]
        if len(dtypes := {p.dtype for p in self.parameters}) > 1:
            raise BadModel(f"the graftable parameters have several dtypes ({dtypes}); load the model in one dtype.")
        self._kept = torch.empty(0, device=self.device)
        self._take: dict[int, Callable[[Tensor], None]] = {}
        for number, parameter in enumerate(self.parameters):
            parameter.requires_grad_(True).register_post_accumulate_grad_hook(partial(self._consume, number))
            parameter.requires_grad_(False)

    @property
    def theta(self) -> Tensor:  # type: ignore[override]
        """Raises BadInput: there is no such vector in lean mode."""
        raise BadInput("in lean mode the parameters are no vector; use the ordinary mode.")

    @property
    def device(self) -> torch.device:
        """The device of the embeddings, which also has inputs, scores and the kept gradient."""
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The parameters' dtype."""
        return self.parameters[0].dtype

    @property
    def grad(self) -> Tensor:
        """The kept part of the gradient of the last `zero_grad` ... `backward`, float32 [watched]."""
        return self._kept

    def zero_grad(self) -> None:
        """Set the kept gradient to zero."""
        self._kept.zero_()

    def watch(self, index: Tensor) -> None:
        """From now on keep the gradient at these entries, ascending global flat indices."""
        self._kept = torch.zeros(len(index), device=self.device)
        self._take = {
            number: partial(_add_at, self._kept[a:b], local) for number, local, a, b in split(index, self.table)
        }
        self._thaw()

    def watch_tensors(self, numbers: Iterable[int]) -> None:
        """From now on keep the gradient of these tensors, flat, one after the other."""
        sizes = {number: self.table.parameters[number].size for number in numbers}
        self._kept, self._take = torch.zeros(0), {}  # free the previous gradient first
        self._kept = torch.zeros(sum(sizes.values()), device=self.device)
        views = self._kept.split(list(sizes.values()))
        self._take = {number: partial(_add_all, view) for number, view in zip(sizes, views, strict=True)}
        self._thaw()

    def put(self, index: Tensor, values: Tensor) -> None:
        """Copy values to these entries, ascending global flat indices, each rounded to the parameters' dtype."""
        for number, local, a, b in split(index, self.table):
            parameter = self.parameters[number].data
            parameter.put_(local.to(parameter.device), values[a:b].to(parameter))

    def take(self, index: Tensor) -> Tensor:
        """Return the values at these entries, ascending, in the parameters' dtype."""
        taken = torch.empty(len(index), dtype=self.dtype, device=self.device)
        for number, local, a, b in split(index, self.table):
            parameter = self.parameters[number].data
            taken[a:b] = parameter.take(local.to(parameter.device))
        return taken

    def copy_from(self, values: Vector) -> None:
        """Copy all graftable entries from a vector, part by part."""
        for number, start, end in parts_of(self.table):
            self.parameters[number].data.view(-1)[start:end].copy_(values.part(number, start, end))

    def has_bits_of(self, values: Vector) -> bool:
        """True if each graftable entry has the bits of the vector's value in the parameters' dtype."""
        kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[self.parameters[0].element_size()]
        for number, start, end in parts_of(self.table):
            own = self.parameters[number].data.view(-1)[start:end]
            if not torch.equal(own.view(kind), values.part(number, start, end).to(own).view(kind)):
                return False
        return True

    def _consume(self, number: int, parameter: Tensor) -> None:
        take, gradient = self._take.get(number), parameter.grad
        parameter.grad = None
        if take is not None and gradient is not None:
            take(gradient.reshape(-1))

    def _thaw(self) -> None:
        for number, parameter in enumerate(self.parameters):
            parameter.requires_grad_(number in self._take)


def _add_at(kept: Tensor, local: Tensor, gradient: Tensor) -> None:
    kept.add_(gradient.take(local.to(gradient.device)).to(kept.device))


def _add_all(kept: Tensor, gradient: Tensor) -> None:
    kept.add_(gradient.to(kept.device))


def parts_of(table: ParameterTable, entries: int = PART) -> Iterator[tuple[int, int, int]]:
    """Yield every tensor in parts of at most `entries`: the tensor's number, and the part's first entry and its end."""
    for number, parameter in enumerate(table.parameters):
        for start in range(0, parameter.size, entries):
            yield number, start, min(start + entries, parameter.size)


@dataclass(repr=False)
class LeanProblem(Problem):
    """A problem whose `base` and `finetuned` are vectors read on demand; `flat` is a LeanModel, at base between uses.

    `changed` are the entries that are not at base now, with their base values.
    """

    changed: tuple[Tensor, Tensor] | None = None
    watched: Tensor | None = None
    tuned: Tensor = field(default_factory=lambda: torch.empty(0))

    flat: LeanModel

    @property
    def tau(self) -> Tensor:
        """Raises BadInput: the whole movement is never in memory in lean mode."""
        raise BadInput("in lean mode the movement is never in memory as a whole; use the ordinary mode.")

    def movements(self) -> Iterator[Tensor]:
        """Yield the movement in consecutive parts, float32, on the problem's device."""
        for number, start, end in parts_of(self.table):
            yield self._movement(number, start, end)

    def movement_at(self, index: Tensor) -> Tensor:
        """Return the movement of these entries, ascending, float32."""
        change = torch.empty(len(index))
        for number, local, a, b in split(index.cpu(), self.table):
            entries = local + int(self.table.offsets[number])
            change[a:b] = self.movement.of(number, self.base[entries], self.finetuned[entries])
        return change.to(self.device)

    def largest_movers(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the `count` entries that moved most, ascending, int64 [count], and their movement, float32."""
        index, _ = top_of_parts(lambda: (part.abs() for part in self.movements()), self.d, count)
        return index, self.movement_at(index)

    def watch(self, index: Tensor) -> None:
        """From now on keep the gradient and the fine-tuned values of these entries alone, ascending."""
        self.reset()
        self.flat.watch(index)
        self.watched = index
        self.tuned = self.finetuned[index].to(self.device, self.flat.dtype)

    def gradient_at(self, index: Tensor) -> Tensor:
        """Return the last gradient at the watched entries, float32."""
        if index is not self.watched:
            raise ValueError("gradients are kept for the watched entries alone")
        return self.flat.grad.clone()

    def first_order(self, rows: np.ndarray, size: int) -> tuple[float, Tensor]:
        """Return the mean loss at the base on these rows, and the `size` entries with the largest -g * tau, best first.

        The gradients of all tensors are never in memory together: the pass is repeated for each group of tensors.
        """
        self.reset()
        best, loss = Best(size, self.device), float("nan")
        for group in self.groups():
            self.flat.watch_tensors(group)
            loss, first = self.train.backward(rows), 0
            for number in group:
                entries = self.table.parameters[number].size
                for start in range(0, entries, PART):
                    end = min(start + PART, entries)
                    slope = self.flat.grad[first + start : first + end]
                    tau = self._movement(number, start, end)
                    best.add(moved_first(-(slope * tau), tau), int(self.table.offsets[number]) + start)
                first += entries
        self.flat.watch_tensors(())
        return loss, best.order()

    def groups(self) -> list[list[int]]:
        """Group tensors, by number; a group's float32 gradients take at most GROUP_SHARE of the model's bytes.

        A larger tensor is a group of its own.
        """
        model = sum(p.numel() * p.element_size() for p in self.flat.model.parameters())
        groups, entries = list[list[int]](), 0
        for number, parameter in enumerate(self.table.parameters):
            if not groups or 4 * (entries + parameter.size) > GROUP_SHARE * model:
                groups.append([])
                entries = 0
            groups[-1].append(number)
            entries += parameter.size
        return groups

    def drawn(self, size: int, seed: int) -> np.ndarray:
        """Draw `size` entries from all, in the order drawn; the whole order is in a file, not in memory."""
        return uniform(self.d, size, seed, in_file=True)

    def reset(self) -> None:
        """Put the model back to base, bit for bit."""
        if self.changed is not None:
            self.flat.put(*self.changed)
            self.changed = None

    def set_region(self, indices: Tensor) -> None:
        """Graft these entries, ascending: base everywhere else."""
        self.reset()
        if self.watched is not None and len(self.watched):
            places = torch.searchsorted(self.watched, indices).clamp_(max=len(self.watched) - 1)
            if bool((self.watched[places] == indices).all()):
                self._change(indices, self.tuned[places])
                return
        self._change(indices, self.finetuned[indices].to(self.device))

    def set_soft(self, gamma: Tensor) -> None:
        """Raises BadInput: a mask with a score for every entry is not available in lean mode."""
        raise BadInput("in lean mode no mask has a score for every entry; use the ordinary mode.")

    def set_soft_at(self, index: Tensor, gamma: Tensor, tau: Tensor) -> None:
        """Put the watched entries `index` [c] at base + gamma * movement, and all others at base."""
        base = self.flat.take(index) if self.changed is None else self.changed[1]
        if self.changed is not None and self.changed[0] is not index:
            self.reset()
            base = self.flat.take(index)
        self.flat.put(index, soft(base, gamma, tau))
        self.changed = (index, base)

    def _change(self, index: Tensor, values: Tensor) -> None:
        self.changed = (index, self.flat.take(index))
        self.flat.put(index, values)

    def _movement(self, number: int, start: int, end: int) -> Tensor:
        tuned, base = (vector.part(number, start, end) for vector in (self.finetuned, self.base))  # type: ignore[attr-defined]
        return self.movement.of(number, base.to(self.device), tuned.to(self.device))
