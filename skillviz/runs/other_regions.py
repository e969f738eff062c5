"""Other regions beside a stored run's: search, score and store them with the scores of its parts. Imports torch.

Rows of the table PARTS: `kind` names the method that found the region, `head` its number from 1; condition `region` is
its graft and `control` its comparison: a null of the same search, or a random set of equal size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch

from skillviz.core.draws import stratified, uniform
from skillviz.core.formats import times
from skillviz.core.localizers.record import followed
from skillviz.core.nulls import SHUFFLED
from skillviz.core.other_regions import adversarial, minimal, worth_of
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.pair import ModelPair
from skillviz.models.predict import predict
from skillviz.runs.gain import GainData
from skillviz.runs.nulls import null_graft
from skillviz.runs.part_scores import (
    ADVERSARIAL,
    CONTROL,
    DISJOINT,
    MINIMAL,
    REGIONS,
    SEARCHED,
    PartScores,
    region_rows,
    store_parts,
    stored_parts,
)
from skillviz.runs.plan import RunPlan, planned
from skillviz.runs.produce import problem_of, searched_data
from skillviz.runs.run import Run
from skillviz.runs.search import Searched, search
from skillviz.runs.session import Session
from skillviz.runs.store import Store, library

Told = Callable[[str], object]


@dataclass
class OtherRegions:
    """The other regions of a run in a store.

    Each is stored as soon as it is found, so that an interrupted search resumes. All regions are scored on the same
    `sample` of test examples. Raises BadInput for a run whose grafts have a gain other than 1.
    """

    run: Run
    store: Store
    split: str = "test"
    sample: int = 500
    seed: int = 0
    told: Told = print

    def __post_init__(self) -> None:
        if self.run.record.gain != 1:
            raise BadInput(
                f"the graft of run {self.run.id} has the gain {times(self.run.record.gain)}; "
                "choose a run without --gain."
            )
        self.session, self.region = Session(), self.run.region()

    @cached_property
    def plan(self) -> RunPlan:
        """The plan of the run's own search."""
        return planned(self.run.spec, self.session, library(self.store.root))

    @cached_property
    def pair(self) -> ModelPair:
        """The run's pair."""
        return self.session.pair(self.run.spec)

    @property
    def known(self) -> PartScores | None:
        """The stored scores for this region and this sample; None if there are none."""
        found = stored_parts(library(self.store.root), self.run, REGIONS)
        is_same = found and (found.record.n, found.record.seed) == (len(self.rows), self.seed)
        return found if is_same else None

    @cached_property
    def rows(self) -> np.ndarray:
        """The rows of the split for scoring: a sample with the same classes as the whole split."""
        return stratified(self.session.encoded(self.run.spec)[self.split].labels, self.sample, self.seed)

    def find(self, kind: str, count: int = 1, draws: int = 1) -> PartScores:
        """Return the stored regions, with new ones of a kind until there are `count`, each with `draws` controls."""
        find = {DISJOINT: self.disjoint, MINIMAL: self.minimal, ADVERSARIAL: self.adversarial}[kind]
        while True:
            known = self.known
            there = [] if known is None else known.entries(kind)
            if len(there) >= count and known is not None:
                return known
            begun, number = time.monotonic(), len(there) + 1
            self.told(f"{kind} {number}: searching")
            entries, controls, facts = find(there, draws)
            self.keep(known, kind, number, entries, list(controls), {**facts, "seconds": time.monotonic() - begun})

    def keep(
        self, known: PartScores | None, kind: str, number: int, entries: np.ndarray,
        controls: list[tuple[ModelPair, Region]], facts: dict[str, float],
    ) -> None:  # fmt: skip
        """Score a new region and its controls, and store them with the known ones."""
        encoded = self.session.encoded(self.run.spec)[self.split].take(self.rows)
        self.told(f"{kind} {number}: scoring {1 + len(controls)} grafts on {len(encoded):,} examples")
        graft = self.graft(kind, entries)
        logits = [predict(pair, encoded, "grafted", region) for pair, region in ((self.pair, graft), *controls)]
        conditions = [(SEARCHED, 0), *((CONTROL, draw) for draw in range(1, len(logits)))]
        rows = region_rows(
            kind, number, len(entries), conditions, np.stack(logits), encoded.ids, encoded.labels, self.run.labels
        )
        before = [] if known is None else [known.predictions()]
        stored = {} if known is None else known.all_entries()
        record = {} if known is None else known.record.facts
        name = f"{kind} {number}"
        store_parts(
            self.store, self.run, pd.concat([*before, rows], ignore_index=True), grouping=REGIONS, split=self.split,
            draws=max(1, len(controls)), seed=self.seed, seconds=facts["seconds"],
            entries={**stored, name: entries}, facts={**record, name: facts},
        )  # fmt: skip

    def graft(self, kind: str, entries: np.ndarray) -> Region:
        """Return the region to graft for these entries: adversarial entries are added to the run's region."""
        flat = np.union1d(self.region.flat(), entries) if kind == ADVERSARIAL else entries
        return Region.from_flat(flat, self.region.shapes)

    def disjoint(self, there: list[np.ndarray], draws: int) -> Found:
        """Find a region of the run's size with its own search, outside this and previous ones, and its nulls."""
        outside = Region.from_flat(np.concatenate([self.region.flat(), *there]), self.region.shapes)
        row, data = self.plan.row, searched_data(self.plan, self.session)
        if not row.has_null:
            raise BadInput(
                f"the localizer '{row.name}' of run {self.run.id} cannot be kept out of a region; choose another run."
            )
        plan = replace(self.plan, outside=outside, sizes=(self.region.size,))
        problem, options, _ = problem_of(plan, self.pair, data)
        searched = Searched()
        for step in search(row, problem, plan.sizes, plan.spec.seed, options, searched):
            self.told(f"step {step.step.step} of {step.step.total}")
        problem.reset()

        def nulls() -> Iterator[tuple[ModelPair, Region]]:
            for draw in range(draws):
                self.told(f"the same search on shuffled movements, draw {draw + 1}")
                yield null_graft(
                    self.pair, data, partial(problem_of, plan), plan, (SHUFFLED, draw), lambda _: None
                )  # fmt: skip

        return np.sort(searched.orders[searched.size]), nulls(), {}

    def minimal(self, there: list[np.ndarray], draws: int) -> Found:
        """Find a smaller part of the region, without entries that validation does not need.

        Random parts of equal size are the controls. One half of the validation examples proposes the entries to drop,
        and the other half decides.
        """
        data = GainData.of(self.session.encoded(self.run.spec), self.seed)
        if len(data.fits) < 2:
            raise BadInput(f"run {self.run.id} has no two validation examples, so nothing decides what can be dropped.")
        encoded = data.splits["validation"]
        problem = self.pair.problem(encoded.take(data.fits), encoded.take(data.chooses))
        entries, flat = torch.from_numpy(self.region.flat()).to(self.pair.device), self.region.flat()
        problem.watch(entries)

        def loss(kept: np.ndarray) -> float:
            problem.set_region(torch.from_numpy(kept).to(self.pair.device))
            return problem.selection.loss() if problem.selection is not None else np.nan

        with problem.at_base_afterwards():
            whole = loss(flat)
            kept = followed(minimal(flat, partial(worth_of, problem, entries), loss), lambda said: self.told(str(said)))
            facts = {"loss": whole, "loss_kept": loss(kept)}
        drawn = (np.random.default_rng((self.seed, draw)).permutation(flat)[: len(kept)] for draw in range(draws))
        return kept, [(self.pair, Region.from_flat(some, self.region.shapes)) for some in drawn], facts

    def adversarial(self, there: list[np.ndarray], draws: int) -> Found:
        """Find the entries outside the region that hurt its graft most, as many as it has; controls are random."""
        problem, _, _ = problem_of(replace(self.plan, outside=None), self.pair, self.session.encoded(self.run.spec))
        flat = self.region.flat()
        worst = followed(
            adversarial(problem, flat, len(flat), self.seed), lambda loss: self.told(f"training loss {loss:.4f}")
        )
        controls = []
        for draw in range(draws):
            order = uniform(self.region.d, 2 * len(flat), draw)
            some = order[~np.isin(order, flat)][: len(flat)]
            controls.append((self.pair, self.graft(ADVERSARIAL, np.sort(some))))
        return worst, controls, {}


Found = tuple[np.ndarray, "Iterator[tuple[ModelPair, Region]] | list[tuple[ModelPair, Region]]", dict[str, float]]
"""Entries in ascending order, the control grafts with their pairs, and numbers to store."""
