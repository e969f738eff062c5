"""The states from which an interrupted fine-tuning resumes: one file per finished or current training."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skillviz.layout import KEY, LAYOUT
from skillviz.models.state_file import UNREADABLE, Pause, read_state, write_state

BEST, NOW, OPTIMIZER = "best.", "now.", "optimizer."


@dataclass(frozen=True)
class TrainingState:
    """A training between two steps, or after its last step, when `values` and `optimizer` are empty.

    `history` has the fields of each step so far. `best` and `values` are the trained parameters of the best check and
    of the last step, in the model's order; `optimizer` is its state by the parameter's number. `computed_on` lists the
    devices and torch versions that computed it, the latest last, because the rounding of numbers depends on them.
    """

    history: Sequence[Mapping[str, Any]]
    best_metric: float | None
    best: Sequence[Tensor]
    values: Sequence[Tensor] = ()
    optimizer: Mapping[int, Mapping[str, Tensor]] = field(default_factory=dict)
    computed_on: Sequence[str] = ()

    @property
    def is_done(self) -> bool:
        """True if the training has ended."""
        return not self.values

    def write(self, path: Path, stamp: str) -> None:
        """Write the state atomically in place of the previous one."""
        header = {
            KEY: LAYOUT, "stamp": stamp, "history": list(self.history), "best_metric": self.best_metric,
            "computed_on": list(self.computed_on),
        }  # fmt: skip
        tensors = {f"{BEST}{number}": value for number, value in enumerate(self.best)}
        tensors |= {f"{NOW}{number}": value for number, value in enumerate(self.values)}
        for number, values in self.optimizer.items():
            tensors |= {f"{OPTIMIZER}{number}.{name}": value for name, value in values.items()}
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        write_state(path, "training", header, tensors)

    @classmethod
    def read(cls, path: Path, stamp: str) -> TrainingState | None:
        """Return the stored state; None if there is none with this stamp or it is damaged.

        Training then starts over. Raises OtherVersion.
        """
        if not path.is_file():
            return None
        try:
            name = f"the state of an interrupted training in {path}"
            header, tensors = read_state(path, "training", name)
            if header["stamp"] != stamp:
                return None
            optimizer: dict[int, dict[str, Tensor]] = {}
            for name, value in tensors.items():
                if name.startswith(OPTIMIZER):
                    number, _, key = name.removeprefix(OPTIMIZER).partition(".")
                    optimizer.setdefault(int(number), {})[key] = value
            numbers = [range(sum(name.startswith(kind) for name in tensors)) for kind in (BEST, NOW)]
            best, values = (
                [tensors[f"{kind}{number}"] for number in of_kind]
                for kind, of_kind in zip((BEST, NOW), numbers, strict=True)
            )
            return cls(header["history"], header["best_metric"], best, values, optimizer, header["computed_on"])
        except UNREADABLE:
            return None


@dataclass
class Journal:
    """The states of one request, in the order in which its trainings begin: points of a grid, tasks of a sequence.

    They are in `folder`, which `clear` removes. A state belongs to the request's stamp; states with another stamp are
    ignored and overwritten. Everything outside a state is computed again from the request. So a resumed training gives
    the same weights, bit for bit, if it resumes on the same device and torch (`computed_on`); otherwise a note says so.
    """

    folder: Path
    stamp: str = ""
    computed_on: str = ""
    places: list[str] = field(default_factory=list)
    trainings: int = 0
    pause: Pause = field(default_factory=Pause)

    def belongs_to(self, *facts: Any) -> None:
        """Set the stamp of the states from these facts, which must be JSON values."""
        self.stamp = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if trainings resumed on another device or torch than they began on."""
        if len(self.places) < 2:
            return ()
        first, *others = self.places
        return (
            f"Started on {first}, resumed on {', then '.join(others)}: equal to an uninterrupted training up to "
            "rounding.",
        )

    def begin(self) -> JournalEntry:
        """Return the entry of the next training."""
        self.trainings += 1
        return JournalEntry(self, self.folder / f"{self.trainings}.safetensors")

    def clear(self) -> None:
        """Remove all states."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class JournalEntry:
    """The place of one training in a journal."""

    journal: Journal
    path: Path

    def restored(self) -> TrainingState | None:
        """Return the state to resume from, or None if training starts from the beginning."""
        state = TrainingState.read(self.path, self.journal.stamp)
        if state is not None:
            self.journal.places = list(dict.fromkeys((*state.computed_on, self.journal.computed_on)))
        return state

    def saving(self, state: Callable[[], TrainingState]) -> AbstractContextManager[None]:
        """Store `state()` now if the last one is old; otherwise store it only if the body ends early."""
        return self.journal.pause.saving(lambda: self._write(state()))

    @property
    def is_due(self) -> bool:
        """True if the last state is old."""
        return self.journal.pause.is_over

    def save(self, state: TrainingState) -> None:
        """Store a state now."""
        self.journal.pause.write(lambda: self._write(state))

    def _write(self, state: TrainingState) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        places = self.journal.places or [self.journal.computed_on]
        replace(state, computed_on=places).write(self.path, self.journal.stamp)


def states_of(optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    """Return the optimizer's state by parameter number; values that plain SGD does not keep are omitted."""
    stored = optimizer.state_dict()["state"]
    return {number: {n: v for n, v in state.items() if isinstance(v, Tensor)} for number, state in stored.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, states: Mapping[int, Mapping[str, Tensor]]) -> None:
    """Load states returned by `states_of`."""
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {n: dict(state) for n, state in states.items()}})
