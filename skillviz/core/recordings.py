"""Passes of a model as CUDA graphs: recorded once for each shape of a batch, then launched as one. Ours.

A pass of a small model is a thousand short kernels, which the processor launches one by one while the GPU waits. A
recording launches them all at once. It reads and writes fixed addresses, so every shape needs its own. Batches are
therefore padded to few shapes, which changes sums in their last bits, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.batches import Batch, Batches, rounded_up
from skillviz.core.flat import FlatModel
from skillviz.errors import BadModel

WARM_UP = 2
"""Passes before a recording: the first one chooses kernels and allocates memory, which a recording must not."""


@dataclass(frozen=True)
class Recording:
    """A pass at fixed addresses: `start` computes `result` from the current content of `batch`."""

    batch: Batch
    start: Callable[[], None]
    result: Tensor

    def of(self, batch: Batch) -> Tensor:
        """Return the result for another batch of the same shape."""
        for own, given in zip(_tensors(self.batch), _tensors(batch), strict=True):
            own.copy_(given)
        self.start()
        return self.result.clone()


class Recordings:
    """The recordings of passes over some batches; they share the memory of their activations."""

    def __init__(self, flat: FlatModel, batches: Batches) -> None:
        self.flat, self.batches = flat, batches
        self.kept: dict[tuple[Any, ...], Recording] = {}

    def each(self, work: Callable[[Batch], Tensor], parts: Sequence[np.ndarray], *name: Any) -> Iterator[Tensor]:
        """Yield the result of `work`, identified by `name`, for the padded micro-batch of each part.

        It may add to the gradient; its result excludes the labels and rows added by padding, or has them last.
        """
        for part in parts:
            batch = self.batches.padded(part, self.rows_of(part, parts))
            key = (*name, *batch.inputs["input_ids"].shape)
            if key not in self.kept:
                self.kept[key] = self._record(work, batch)
            yield self.kept[key].of(batch)

    def rows_of(self, part: np.ndarray, parts: Sequence[np.ndarray]) -> int:
        """The rows of a part after padding: a whole batch gets none, because its size is the same at every step."""
        return len(part) if len(parts) == 1 else rounded_up(len(part))

    def _record(self, work: Callable[[Batch], Tensor], batch: Batch) -> Recording:
        before = self.flat.grad.clone() if torch.is_grad_enabled() else None
        start, result = self.captured(partial(work, batch))
        if before is not None:
            self.flat.grad.copy_(before)  # passes before the recording added to it
        return Recording(batch, start, result)

    def captured(self, run: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Record `run`; return a function that launches its kernels, and the tensor that then has its result."""
        with torch.cuda.device(self.flat.device):
            now, beside = torch.cuda.current_stream(), torch.cuda.Stream()
            beside.wait_stream(now)
            with torch.cuda.stream(beside):
                for _ in range(WARM_UP):
                    run()
            now.wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, pool=self._pool):
                    result = run()
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                raise BadModel(
                    "the passes of this model cannot be recorded as CUDA graphs, as it waits for the GPU in between; "
                    "leave CUDA graphs out."
                ) from error
        return graph.replay, result

    @cached_property
    def _pool(self) -> Any:
        return torch.cuda.graph_pool_handle()


def _tensors(batch: Batch) -> list[Tensor]:
    tensors = (*batch.inputs.values(), batch.labels, batch.positions, batch.answers)
    return [tensor for tensor in tensors if tensor is not None]
