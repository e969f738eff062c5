"""Remake the scores of a published graft from its base and its task's data, and compare them with those of its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillviz.core.graft import Graft
from skillviz.core.metrics import METRICS
from skillviz.errors import BadData, BadInput
from skillviz.models.fetch import card_header, graft_file
from skillviz.runs.evaluation import evaluate
from skillviz.runs.process import Report, silent
from skillviz.tasks import registry
from skillviz.tasks.splits import load_to_score
from skillviz.tasks.task import Task

ROUNDED = 5e-5  # a card has four decimals


@dataclass(frozen=True)
class Claim:
    """One number of the card, and the same number remade; it holds if they differ by at most `tolerance`."""

    metric: str
    claimed: float
    remade: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """True if the card's number holds."""
        return abs(self.claimed - self.remade) <= self.tolerance


@dataclass(frozen=True)
class Verified:
    """The numbers of a card, each remade on `n` examples of a split of the task; `source` is `card` or `graft file`."""

    claims: tuple[Claim, ...]
    split: str
    n: int
    source: str
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if all numbers hold."""
        return all(claim.holds for claim in self.claims)


def verify_graft(
    source: str, *, base: str | None = None, task: str | None = None, device: str = "auto", progress: Report = silent
) -> Verified:
    """Score the graft in a folder, in a file or on the Hub, and compare with its card, or without one its own header.

    A number holds if it differs by at most what one example can change, 1/n of it or of 1, and the card's rounding:
    other hardware may decide a near tie the other way. `base` and `task` are read from card and header unless they are
    given. Raises BadInput, BadData or the errors of models and tasks if the numbers cannot be remade.
    """
    graft = Graft.load(graft_file(source))
    header, card = graft.header, card_header(source)
    onto = base or _base(source, header, card)
    split, claimed, rounding = _claimed(source, header, card)
    drawn = header.get("data") or {}
    named = registry.task(task or str(drawn.get("task") or header.get("task") or ""), "task")
    counts = {f"max_{split}": n for split, n in (drawn.get("examples") or {}).items() if n}
    sampling = {"k_shot": drawn.get("k_shot"), **counts}
    _refuse_other_data(named, drawn, sampling)
    sampling.pop("max_train", None)
    scored = evaluate(
        onto, None, named, graft=graft, readout=header.get("readout"),
        data_seed=int(drawn.get("data_seed") or 0), device=device, progress=progress, **sampling,
    )  # fmt: skip
    if split not in scored.scores:
        raise BadData(f"the numbers are of the {split} set, which the task '{named.name}' does not have here.")
    found = scored.scores[split]
    claims = [
        Claim(metric, value, estimate.value, rounding + max(1.0, abs(value)) / found.n)
        for metric, value in claimed.items()
        if (estimate := found.states["grafted"].get(metric)) is not None and estimate.value is not None
    ]
    if not claims:
        raise BadData(f"none of the numbers ({', '.join(claimed)}) is a metric of the task '{named.name}'.")
    return Verified(tuple(claims), split, found.n, "card" if rounding else "graft file", scored.notes)


def _claimed(source: str, header: Mapping[str, Any], card: Mapping[str, Any]) -> tuple[str, dict[str, float], float]:
    """Return the split, the numbers by metric, and their rounding: those of the card or, without a card, the header."""
    try:
        (result,) = card["model-index"][0]["results"]
        numbers = {str(row["type"]): float(row["value"]) for row in result["metrics"]}
        return str(result["dataset"]["split"]), numbers, ROUNDED
    except (KeyError, IndexError, TypeError, ValueError):
        numbers = dict((header.get("metrics") or {}).get("grafted") or {})
    known = {name: float(value) for name, value in numbers.items() if name in METRICS and value is not None}
    if not known:
        raise BadInput(
            f"neither the card nor the graft of {source} has scores, so there is nothing to verify; `evaluate --graft` "
            "computes them."
        )
    examples = (header.get("data") or {}).get("examples") or {}
    return "test" if examples.get("test") else "validation", known, 0.0


def _refuse_other_data(task: Task, drawn: Mapping[str, Any], sampling: Mapping[str, Any]) -> None:
    """Raise BadData if the same draw of the task's examples here gives others than the graft was scored on."""
    known = drawn.get("data_fingerprint")
    if known and load_to_score(task, seed=int(drawn.get("data_seed") or 0), **sampling).fingerprint != known:
        raise BadData(
            f"the examples of the task '{task.name}' here are not those that the graft was scored on (another "
            "fingerprint); name the task with its data by --task."
        )


def _base(source: str, header: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """Return the base's id on the Hub; raises BadInput if neither card nor header names one."""
    made_for = header.get("base") or {}
    if made_for.get("revision"):
        return f"{made_for['id']}@{made_for['revision']}"
    if isinstance(card.get("base_model"), str):
        return str(card["base_model"])
    raise BadInput(f"neither the card nor the graft of {source} says where its base is; name it by --base.")
