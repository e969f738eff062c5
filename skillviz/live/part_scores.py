"""Score the parts of a run's region one request at a time, for a page and a command alike. Does not import torch.

Each request is small and its answer is stored beside the runs, so interrupted scoring resumes where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skillviz.core.region import Region
from skillviz.core.region_parts import RegionPart, parts_of
from skillviz.errors import BadData, BadInput
from skillviz.runs.part_scores import DRAWS, ENDS, PartScores, end_rows, part_rows, passes, store_parts
from skillviz.runs.run import Run, parameter_table
from skillviz.runs.store import Store
from skillviz.serving import quota

Ask = Callable[..., dict[str, Any]]
"""A function from an operation and its arguments to the worker's answer about the run's pair."""
MOST_DRAWS = 100


@dataclass
class PartScoring:
    """One run's region divided into `parts`, to be scored on `sample` examples of a split (None: all of them)."""

    run: Run
    region: Region
    grouping: str
    split: str = "test"
    sample: int | None = None
    draws: int = DRAWS
    seed: int = 0
    parts: list[RegionPart] = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.draws <= MOST_DRAWS:
            raise BadInput(f"the number of random controls must be 0..{MOST_DRAWS}; got {self.draws}.")
        self.parts = parts_of(self.region, parameter_table(self.run.record, self.region), self.grouping)
        if not self.parts:
            raise BadInput(f"no entry of the region is in any of its {self.grouping}, so there is nothing to score.")

    @property
    def passes(self) -> int:
        """The number of forward passes over the sample."""
        return passes(len(self.parts), self.draws)

    def steps(self, ask: Ask) -> Iterator[tuple[int, pd.DataFrame]]:
        """Score the ends, then part after part; yield the forward passes done so far, and the rows of the last step."""
        asked = {"split": self.split, "sample": self.sample}
        ends = ask("evaluate_region", states=list(ENDS), **asked)
        examples, done = (ends["example_ids"], ends["labels"], self.run.labels), len(ENDS)
        yield done, end_rows(ends["logits"], self.region.size, *examples)
        each = passes(1, self.draws) - len(ENDS)
        for part in self.parts:
            layer, kind, head = part.place
            answer = ask(
                "region_part", grouping=self.grouping, layer=layer, kind=kind, head=head, draws=self.draws,
                seed=self.seed, **asked,
            )  # fmt: skip
            if list(answer["example_ids"]) != list(ends["example_ids"]):
                raise BadData("the examples changed while the parts were scored; score them again.")
            done += each
            conditions = list(zip(answer["conditions"], answer["draws"], strict=True))
            yield done, part_rows(part, conditions, answer["logits"], *examples)

    def stored(self, ask: Ask, store: Store, advance: Callable[[int], object]) -> PartScores:
        """Score all parts and store them; `advance` is called with the forward passes done so far.

        Raises OverQuota, before anything is scored, if the store is full.
        """
        quota.refuse(store.root)
        begun, frames = time.monotonic(), []
        for done, rows in self.steps(ask):
            frames.append(rows)
            advance(done)
        return store_parts(
            store, self.run, pd.concat(frames, ignore_index=True), grouping=self.grouping, split=self.split,
            draws=self.draws, seed=self.seed, seconds=time.monotonic() - begun,
        )  # fmt: skip
