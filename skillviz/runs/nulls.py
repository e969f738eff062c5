"""The nulls of a run: its own search on null movements (core/nulls.py), and by how much its graft exceeds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skillviz.core.encoded import Encoded
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, beyond_null
from skillviz.core.problem import Problem
from skillviz.core.region import Region
from skillviz.core.seeds_interval import mean_of_intervals
from skillviz.models.null_pair import null_pair, with_signs
from skillviz.models.pair import ModelPair
from skillviz.models.predict import predict
from skillviz.runs.gain import ONE, Gained
from skillviz.runs.metrics import example_scores, graft_row
from skillviz.runs.passes import Passes, digest
from skillviz.runs.plan import RunPlan
from skillviz.runs.record import Estimate, NullNote, TaskNote
from skillviz.runs.search import Searched, SearchStep, search

SCORED = ("validation", "test")

ProblemOf = Callable[[ModelPair, Mapping[str, Encoded]], tuple[Problem, Any, list[str]]]
"""Returns the problem of a search for a pair and its examples, the search's options, and notes."""
GainOf = Callable[[ModelPair, Region], Gained]
"""Returns the graft of a null's pair at its gain."""


@dataclass(frozen=True)
class NullDraw:
    """One search on a null movement.

    It holds the size of its region, its graft's logits by split, for drawn or learned signs the share of the region's
    entries with the true sign, and its gain if the run's grafts have one.
    """

    kind: str
    draw: int
    size: int
    logits: dict[str, np.ndarray]
    true_signs: float | None = None
    gained: Gained | None = None


def searched_null(
    pair: ModelPair,
    data: Mapping[str, Encoded],
    problem_of: ProblemOf,
    plan: RunPlan,
    null: tuple[str, int],
    passes: Passes,
    on_step: Callable[[SearchStep], None],
    gain_of: GainOf | None = None,
) -> NullDraw:
    """Return one draw: the null's region at the plan's main size, and its graft's logits on every scored split.

    `gain_of` finds the gain of the graft. The scores are stored for a resumed run.
    """
    kind, draw = null
    moved, region = null_graft(pair, data, problem_of, plan, null, on_step)
    signs = _true_signs(pair, moved, region) if NULLS[kind].has_signs else None
    scaled = None if gain_of is None else gain_of(moved, region)
    if scaled is None:
        logits = {split: predict(moved, data[split], "grafted", region) for split in SCORED if split in data}
    else:
        logits = dict(scaled.chosen)
        for split, scores in scaled.one.items():
            passes.keep(scores, *_place(null, data[split], split), ONE)
        passes.keep(scaled.numbers(), *_place(null), ONE)
    for split, scores in logits.items():
        passes.keep(scores, *_place(null, data[split], split))
    passes.keep(np.array([[region.size, np.nan if signs is None else signs]]), *_place(null))
    return NullDraw(kind, draw, region.size, logits, signs, scaled)


def null_graft(
    pair: ModelPair,
    data: Mapping[str, Encoded],
    problem_of: ProblemOf,
    plan: RunPlan,
    null: tuple[str, int],
    on_step: Callable[[SearchStep], None],
) -> tuple[ModelPair, Region]:
    """Return the null pair and the region found by the plan's search on it.

    The pair has the signs that the search chose, if it did. If a localizer handles all sizes in one search, that search
    is made. The model is reset to the base afterwards.
    """
    kind, draw = null
    moved, row = null_pair(pair, kind, draw), plan.row
    problem, options, _ = problem_of(moved, data)
    problem.has_free_signs = kind == LEARNED_SIGNS
    searched = Searched()
    sizes = plan.sizes if row.is_one_search else plan.sizes[:1]
    try:
        for step in search(row, problem, sizes, plan.spec.seed, options, searched):
            on_step(step)
    finally:
        problem.reset()
    if searched.signs:
        moved = with_signs(moved, searched.orders[searched.size], searched.signs[searched.size])
    return moved, searched.region(searched.size, pair.table.shapes)


def kept_null(
    passes: Passes, data: Mapping[str, Encoded], null: tuple[str, int], has_gain: bool = False
) -> NullDraw | None:
    """Return a draw that an earlier attempt of the run has finished; None if it has not."""
    facts, scores = _kept(passes, data, null)
    numbers, at_one = _kept(passes, data, null, ONE) if has_gain else (None, None)
    if facts is None or scores is None or (has_gain and (numbers is None or at_one is None)):
        return None
    size, signs = facts[0]
    scaled = None if numbers is None or at_one is None else Gained.from_numbers(numbers, at_one, scores)
    return NullDraw(*null, int(size), scores, None if np.isnan(signs) else float(signs), scaled)


def _kept(
    passes: Passes, data: Mapping[str, Encoded], null: tuple[str, int], *which: str
) -> tuple[np.ndarray | None, dict[str, np.ndarray] | None]:
    """Return the stored numbers of a draw and its logits by split; the latter are None unless all splits are stored."""
    splits = [split for split in SCORED if split in data]
    logits = {split: passes.kept(len(data[split]), *_place(null, data[split], split), *which) for split in splits}
    found = {split: scores for split, scores in logits.items() if scores is not None}
    return passes.kept(1, *_place(null), *which), found if len(found) == len(splits) else None


def _place(null: tuple[str, int], encoded: Encoded | None = None, split: str = "") -> tuple[object, ...]:
    return "null", *null, split, "" if encoded is None else digest(encoded)


def _true_signs(pair: ModelPair, moved: ModelPair, region: Region) -> float:
    """Return the share of a region's entries whose null movement has the sign of the fine-tuned one."""
    index = region.flat()
    base, tuned, null = (vector[index].float() for vector in (pair.base, pair.finetuned, moved.finetuned))
    return float(((tuned - base).sign() == (null - base).sign()).float().mean())


def null_notes(
    draws: Sequence[NullDraw], states: Mapping[str, Mapping[str, np.ndarray]], labels: Mapping[str, np.ndarray],
    task: TaskNote,
) -> tuple[NullNote, ...]:  # fmt: skip
    """Return run.json's notes on the draws, one per kind; `states` are the logits of the run's own states by split."""
    notes = []
    for kind in dict.fromkeys(draw.kind for draw in draws):
        own = [draw for draw in draws if draw.kind == kind]
        signs = [draw.true_signs for draw in own if draw.true_signs is not None]
        gains = [1.0 if draw.gained is None else draw.gained.gain for draw in own]
        numbers = [gain for gain in gains if isinstance(gain, float)]
        of = {split: _of_split(own, states[split], labels[split], split, task) for split in own[0].logits}
        notes.append(
            NullNote(
                kind=kind, draws=len(own), sizes=tuple(draw.size for draw in own),
                states={split: means for split, (means, _) in of.items()},
                beyond={split: beyond for split, (_, beyond) in of.items()},
                true_signs=float(np.mean(signs)) if signs else None,
                gain=float(np.mean(numbers)) if len(numbers) == len(gains) else None,
            )
        )  # fmt: skip
    return tuple(notes)


def _of_split(
    draws: Sequence[NullDraw], states: Mapping[str, np.ndarray], labels: np.ndarray, split: str, task: TaskNote
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Return the mean scores of the nulls' grafts on a split, and by how much the run's graft exceeds them."""
    rows = [graft_row({**states, "grafted": draw.logits[split]}, labels, task) for draw in draws]
    means = {name: _mean([row[name] for row in rows]) for name in rows[0]}
    beyond = {}
    for name, score in example_scores(task).items():
        found = beyond_null(score(states["grafted"], labels), [score(draw.logits[split], labels) for draw in draws])
        beyond[name] = Estimate(value=found.value, low=found.low, high=found.high)
    return means, beyond


def _mean(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over draws, with an interval over draws and examples if every draw has one."""
    values = [one.value for one in estimates if one.value is not None]
    if len(values) < len(estimates):
        return Estimate(value=None)
    ends = [(one.low, one.high) for one in estimates if one.low is not None and one.high is not None]
    if len(ends) < len(estimates):
        return Estimate(value=float(np.mean(values)))
    found = mean_of_intervals(values, *zip(*ends, strict=True))
    return Estimate(value=found.value, low=found.low, high=found.high)
