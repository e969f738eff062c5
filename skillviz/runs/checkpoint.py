"""The checkpoint of an interrupted search: the regions found so far and the state to resume from, in one file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from skillviz.core.comparison import Comparison
from skillviz.core.localizers.record import State
from skillviz.errors import WrongCheckpoint
from skillviz.layout import KEY, LAYOUT
from skillviz.models.state_file import UNREADABLE, Pause, read_state, write_state
from skillviz.runs.folder import CHECKPOINT as CHECKPOINT
from skillviz.runs.search import Searched
from skillviz.tasks.definition import compared

KIND = "checkpoint"
DEFINITION = "definition"
STAMPED = {
    "spec": "settings of the run", "base": "base model", "finetuned": "fine-tuned model", "data": "data",
    "region": "region file", DEFINITION: "definition of the task",
}  # fmt: skip
"""The parts of a checkpoint's stamp, in words."""


@dataclass(frozen=True)
class Checkpoint:
    """The stored state of a search.

    `stamp` identifies the run, `computed_on` the device and software that computed it, and `seconds` is the search time
    so far. `searched` holds the finished searches and the history of the current one; `state` is the current one's
    state.
    """

    stamp: Mapping[str, str]
    computed_on: Mapping[str, str]
    seconds: float
    searched: Searched
    state: State | None = None

    def write(self, path: Path) -> None:
        """Write the checkpoint atomically in place of the previous one."""
        header = {
            KEY: LAYOUT, "stamp": dict(self.stamp), "made_on": dict(self.computed_on), "seconds": self.seconds,
            "sizes": list(self.searched.orders), "history": self.searched.history, "notes": self.searched.notes,
            "under_way": self.state is not None,
        }  # fmt: skip
        tensors = {f"order.{size}": torch.from_numpy(order.copy()) for size, order in self.searched.orders.items()}
        tensors |= {f"state.{name}": value.detach().cpu().contiguous() for name, value in (self.state or {}).items()}
        write_state(path, KIND, header, tensors)

    @classmethod
    def read(cls, path: Path) -> Checkpoint | None:
        """Return the stored checkpoint, or None if there is none.

        Raises WrongCheckpoint if it cannot be read, and OtherVersion.
        """
        if not path.is_file():
            return None
        try:
            header, tensors = read_state(path, KIND, f"the checkpoint {path}")
            orders: dict[int, np.ndarray] = {size: tensors[f"order.{size}"].numpy() for size in header["sizes"]}
            searched = Searched(orders=orders, history=header["history"], notes=header["notes"])
        except UNREADABLE as error:
            raise WrongCheckpoint(f"the checkpoint {path} cannot be read ({error}); {_anew(path)}") from error
        state = {name.removeprefix("state."): t for name, t in tensors.items() if name.startswith("state.")}
        under_way = state if header["under_way"] else None
        return cls(header["stamp"], header["made_on"], header["seconds"], searched, under_way)

    def refuse_another(self, stamp: Mapping[str, str], path: Path) -> None:
        """Raise WrongCheckpoint if it belongs to another spec, other weights or data, or another start region."""
        other = [
            words
            for name, words in STAMPED.items()
            if name in stamp and not _is_same(name, self.stamp.get(name), stamp[name])
        ]
        if other:
            raise WrongCheckpoint(
                f"the checkpoint {path} does not match the present {' and '.join(other)}, "
                f"so the search cannot resume from it; {_anew(path)}"
            )


@dataclass
class Checkpoints:
    """Stores one run's checkpoint every few seconds, and when the run ends early between two steps."""

    path: Path
    stamp: Mapping[str, str]
    computed_on: Mapping[str, str]
    before: float = 0.0
    begun: float = field(default_factory=time.monotonic)
    pause: Pause = field(default_factory=Pause)

    def restored(self) -> Checkpoint | None:
        """Return the checkpoint to resume from, or None if there is none; raises WrongCheckpoint."""
        checkpoint = Checkpoint.read(self.path)
        if checkpoint is None:
            return None
        checkpoint.refuse_another(self.stamp, self.path)
        self.before = checkpoint.seconds
        if dict(checkpoint.computed_on) != dict(self.computed_on):
            was, now = (", ".join(place.values()) for place in (checkpoint.computed_on, self.computed_on))
            checkpoint.searched.notes.append(
                f"Started on {was}, resumed on {now}: equal to an uninterrupted run up to rounding."
            )
        return checkpoint

    def saving(self, searched: Searched, state: State | None = None) -> AbstractContextManager[None]:
        """Store the checkpoint now if the last one is old; otherwise store it only if the body ends early."""

        def write() -> None:
            seconds = round(self.before + time.monotonic() - self.begun, 3)
            Checkpoint(self.stamp, self.computed_on, seconds, searched, state).write(self.path)

        # there is nothing to store before the first step
        return self.pause.saving(write) if searched.orders or state is not None else nullcontext()


def _is_same(name: str, stored: str | None, now: str | None) -> bool:
    return compared(stored, now) is Comparison.SAME if name == DEFINITION else stored == now


def _anew(path: Path) -> str:
    return f"delete {path.name} there to search from the beginning."
