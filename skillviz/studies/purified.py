"""Purified unions of a multi-task member's regions, kept beside the runs under what they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillviz.core.region import Region
from skillviz.runs.spec import RunSpec
from skillviz.studies.several import cached, digest, members_of

if TYPE_CHECKING:
    from skillviz.core.problem import Problem
    from skillviz.runs.session import Session

BATCH = 64


@dataclass
class Joint:
    """The tasks of one member, each with its own head and training examples; all stay loaded, as all give gradients.

    `specs` are by task.
    """

    specs: Mapping[str, RunSpec]
    store: Path
    held: dict[str, Session] = field(default_factory=dict)

    def purified(self, tasks: Sequence[str], union: Region, seed: int) -> Region:
        """The union of these tasks' regions after a few mask steps on the sum of their losses (core.purify)."""
        from skillviz.core.purify import PurifyOptions, purify  # imports torch

        options = PurifyOptions(batch_size=BATCH)
        which = {
            "purified": asdict(options), "seed": seed, "union": digest(union),
            "tasks": [members_of(self._session(task), self.specs[task]) for task in tasks],
        }  # fmt: skip

        def make() -> np.ndarray:
            return purify([self._problem(task) for task in tasks], union, seed=seed, options=options).region.flat()

        return Region.from_flat(cached(self.store, which, make, "int64"), union.shapes)

    def _problem(self, task: str) -> Problem:
        session, spec = self._session(task), self.specs[task]
        return session.pair(spec).problem(session.encoded(spec)["train"])

    def _session(self, task: str) -> Session:
        from skillviz.runs.session import Session  # imports torch

        return self.held.setdefault(task, Session())
