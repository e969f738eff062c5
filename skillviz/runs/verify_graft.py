"""Remake the scores of a published graft from its base and its task's data, and compare them with those of its card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, ValidationError

from skillviz.core.graft import Graft
from skillviz.errors import BadData, BadInput
from skillviz.models.fetch import HUB_ID, card_header, graft_file
from skillviz.models.heads import Readout
from skillviz.runs.evaluation import evaluate
from skillviz.runs.process import Report, silent
from skillviz.tasks import registry
from skillviz.tasks.paper import TASKS
from skillviz.tasks.refusals import refused
from skillviz.tasks.splits import load_to_score
from skillviz.tasks.task import Task

ROUNDED = 5e-5  # a card has four decimals
FLIPS = 2.0
"""The number of examples that other hardware may decide the other way; F1 can change by almost two for one example."""
Split = Literal["validation", "test"]
Dtype = Literal["float32", "bfloat16", "own"]
Fields = TypeVar("Fields", bound=BaseModel)


class _Metric(BaseModel):
    """One number of a card."""

    type: str
    value: FiniteFloat


class _DataSet(BaseModel):
    split: Split


class _Result(BaseModel):
    """The result in a card that `export` wrote."""

    dataset: _DataSet
    metrics: list[_Metric] = Field(min_length=1)


class _Model(BaseModel):
    results: tuple[_Result]


class _Card(BaseModel):
    """The fields read from a card."""

    base_model: str | None = None
    model_index: tuple[_Model] | None = Field(default=None, alias="model-index")


class _Base(BaseModel):
    id: str | None = None
    revision: str | None = None


class _Data(BaseModel):
    """The examples on which the graft was scored, as `held_out.data_record` notes them."""

    k_shot: int | None = Field(default=None, ge=1)
    data_seed: NonNegativeInt = 0
    examples: dict[Literal["train", "validation", "test"], NonNegativeInt]
    data_fingerprint: str


class _Header(BaseModel):
    """The fields read from a graft's header."""

    base: _Base = _Base()
    task: str = ""
    readout: Readout | None = None
    dtype: Dtype = "float32"
    template: str | None = None
    label_words: list[str] = []
    data: _Data | None = None
    metrics: dict[str, dict[str, FiniteFloat | None]] = {}


@dataclass(frozen=True)
class Claim:
    """One number, as claimed and remade; it holds if they differ by at most `tolerance`."""

    metric: str
    claimed: float
    remade: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """True if the number holds."""
        return abs(self.claimed - self.remade) <= self.tolerance


@dataclass(frozen=True)
class Verified:
    """The numbers of a card or, without a card, of the graft file (`source`), remade on n examples of a split."""

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
    """Score the graft in a folder, in a file or on the Hub, and compare with its card or, without one, its own header.

    A number holds if it differs by at most FLIPS / n, times the number where that is above 1, and the card's rounding.
    `base` and `task` are those that card and header name unless they are given. Raises an error of skillviz.errors if
    the numbers cannot be remade: other data, another prompt or base, or a number that is no metric of the task.
    """
    graft = Graft.load(graft_file(source))
    header = _checked(_Header, graft.header, f"the graft of {source}")
    found = card_header(source)
    card = _checked(_Card, found or {}, f"the card of {source}")
    split, claimed = _claimed(source, header, card)
    onto, drawn, named = base or _base(source, header, card), header.data, _task(source, task, header)
    if drawn is None:
        raise BadData(f"the graft of {source} does not say on which examples it was scored.")
    caps = {f"max_{name}": count for name, count in drawn.examples.items() if count}
    _refuse_other_data(named, drawn, caps)
    _refuse_other_prompt(named, header)
    scored = evaluate(
        onto, None, named, graft=graft, readout=header.readout, k_shot=drawn.k_shot, data_seed=drawn.data_seed,
        max_validation=caps.get("max_validation"), max_test=caps.get("max_test"), device=device, dtype=header.dtype,
        progress=progress,
    )  # fmt: skip
    remade = scored.scores[split].states["grafted"] if split in scored.scores else {}
    values = {metric: estimate.value for metric, estimate in remade.items() if estimate.value is not None}
    if lost := [metric for metric in claimed if metric not in values]:
        raise BadData(f"{', '.join(lost)} cannot be remade on the {split} set of the task '{named.name}'.")
    n, rounding = scored.scores[split].n, ROUNDED if card.model_index else 1e-9
    claims = [
        Claim(metric, value, values[metric], rounding + FLIPS / n * max(1.0, abs(values[metric])))
        for metric, value in claimed.items()
    ]
    return Verified(tuple(claims), split, n, "card" if card.model_index else "graft file", scored.notes)


def _checked(kind: type[Fields], values: Mapping[str, Any], of: str) -> Fields:
    """Return the fields; raises BadData if one of them has another form than `export` writes."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        field, reason = refused(error)
        raise BadData(f"'{field}' of {of} cannot be used: {reason}.") from error


def _claimed(source: str, header: _Header, card: _Card) -> tuple[str, dict[str, float]]:
    """Return the split, and the numbers by metric: those of the card or, if it has none, of the header."""
    if card.model_index is not None:
        result = card.model_index[0].results[0]
        numbers = {row.type: row.value for row in result.metrics}
        if len(numbers) < len(result.metrics):
            raise BadData(f"the card of {source} has two numbers of one metric, so one of them is wrong.")
        return result.dataset.split, numbers
    known = {name: value for name, value in header.metrics.get("grafted", {}).items() if value is not None}
    if not known:
        raise BadData(
            f"neither the card nor the graft of {source} has scores, so there is nothing to verify; `evaluate --graft` "
            "computes them."
        )
    return "test" if header.data is None or header.data.examples.get("test") else "validation", known


def _task(source: str, given: str | None, header: _Header) -> Task:
    """Return the task that is given, else the built-in one that the header names: a name in a file is never a path."""
    if given is None and header.task not in TASKS:
        raise BadInput(f"the graft of {source} names no built-in task; name its task, or a YAML file, by --task.")
    return registry.task(given or header.task, "task")


def _base(source: str, header: _Header, card: _Card) -> str:
    """Return the base's name on the Hub; raises BadInput if neither header nor card has one: it is never a path."""
    name = f"{header.base.id}@{header.base.revision}" if header.base.revision else card.base_model or ""
    if not re.fullmatch(rf"{HUB_ID.pattern}(@[\w.-]+)?", name):
        raise BadInput(f"neither the card nor the graft of {source} says where its base is; name it by --base.")
    return name


def _refuse_other_data(task: Task, drawn: _Data, caps: Mapping[str, int]) -> None:
    """Raise BadData if the same draw of the task's examples here gives others than the graft was scored on."""
    here = load_to_score(task, k_shot=drawn.k_shot, seed=drawn.data_seed, **caps).fingerprint
    if here != drawn.data_fingerprint:
        raise BadData(
            f"the examples of the task '{task.name}' here are not those that the graft was scored on (another "
            "fingerprint); name the task with its data by --task."
        )


def _refuse_other_prompt(task: Task, header: _Header) -> None:
    """Raise BadData if the task here has another prompt than the graft was scored with."""
    if header.template is None or header.readout is None:
        return
    if task.wording(header.readout) != (header.template, tuple(header.label_words)):
        raise BadData(f"the task '{task.name}' here has another prompt or other label words than the graft.")
