"""The checkpoint of an interrupted search: the regions found so far and the state to resume from, in one file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from skillviz import json_text
from skillviz.atomic import write_file
from skillviz.core.comparison import Comparison
from skillviz.core.localizers.record import State
from skillviz.errors import DiskFull, WrongCheckpoint
from skillviz.layout import KEY, LAYOUT, refuse_another
from skillviz.models.content_hash import content_sha256
from skillviz.runs.folder import CHECKPOINT as CHECKPOINT
from skillviz.runs.search import Searched
from skillviz.tasks.definition import compared

EVERY = 5.0  # seconds between two checkpoints
SPARED = 20  # the pause is at least this many times the last writing time: at most 5% of the time goes into checkpoints
ENVIRONMENT = "SKILLVIZ_CHECKPOINT_SECONDS"
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
        text = json.dumps(header, allow_nan=False)
        metadata = {"checkpoint": text, "sha256": content_sha256(text, tensors)}
        write_file(path, lambda part: save_file(tensors, part, metadata=metadata))

    @classmethod
    def read(cls, path: Path) -> Checkpoint | None:
        """Return the stored checkpoint, or None if there is none.

        Raises WrongCheckpoint if it cannot be read, and OtherVersion.
        """
        if not path.is_file():
            return None
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = json_text.loads(metadata["checkpoint"])
            if metadata.get("sha256", "") not in ("", content_sha256(metadata["checkpoint"], tensors)):
                raise ValueError("its content has changed since it was written")
            refuse_another(header, f"the checkpoint {path}")
            if "sha256" not in metadata:
                raise ValueError("it has no sha256")
            orders: dict[int, np.ndarray] = {size: tensors[f"order.{size}"].numpy() for size in header["sizes"]}
            searched = Searched(orders=orders, history=header["history"], notes=header["notes"])
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
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
    written: float = field(default_factory=time.monotonic)
    pause: float = field(default_factory=lambda: float(os.environ.get(ENVIRONMENT, EVERY)))

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

    @contextmanager
    def saving(self, searched: Searched, state: State | None = None) -> Iterator[None]:
        """Store the checkpoint now if the last one is old; otherwise store it only if the body ends early."""
        saved = time.monotonic() - self.written > self.pause and self.save(searched, state)
        try:
            yield
        except BaseException:
            if not saved:
                self.save(searched, state)
            raise

    def save(self, searched: Searched, state: State | None = None) -> bool:
        """Store a checkpoint and return True; return False if there is nothing to store yet.

        A full disk is ignored, because it is no reason to end the run.
        """
        if not searched.orders and state is None:
            return False
        begun = time.monotonic()
        with suppress(DiskFull):
            seconds = round(self.before + begun - self.begun, 3)
            Checkpoint(self.stamp, self.computed_on, seconds, searched, state).write(self.path)
        self.written = time.monotonic()
        self.pause = max(self.pause, SPARED * (self.written - begun))
        return True


def _is_same(name: str, stored: str | None, now: str | None) -> bool:
    return compared(stored, now) is Comparison.SAME if name == DEFINITION else stored == now


def _anew(path: Path) -> str:
    return f"delete {path.name} there to search from the beginning."
