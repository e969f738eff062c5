"""How a page speaks of the answers of a run's task: classes, the options of each example, or generated texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from skillviz.runs.record import RunRecord

SAME_PLACE = "Examples at nearly the same place share a mark."
CASES = {
    "all": "all",
    "differ": "graft and fine-tuned disagree",
    "finetuned": "only fine-tuned right",
    "grafted": "only graft right",
    "neither": "both wrong",
    "moved": "largest change in confidence (10%)",
}
SORTS = {
    "moved": "largest change in confidence",
    "file": "order in the file",
    "gained": "graft more confident",
    "lost": "graft less confident",
    "grafted": "confidence of the graft",
    "finetuned": "confidence of fine-tuned",
    "length": "shortest text",
}


class Measure(NamedTuple):
    """What a model gives the right answer: on a switch, in a sentence, on an axis, and how its figure is read."""

    brief: str
    title: str
    unit: str
    reads: str


@dataclass(frozen=True)
class AnswerWords:
    """`right` is what an example's label names, `one` any answer; `measures` go by the columns of the scored table."""

    right: str
    one: str
    measures: Mapping[str, Measure]
    cases: Mapping[str, str]
    sorts: Mapping[str, str]


def _chosen(right: str, one: str) -> AnswerWords:
    """The words where a model chooses among answers."""
    confidence = Measure(
        "confidence", f"confidence in the {right}", f"{right}, %",
        f"confidence in the {right}, of the fine-tuned model (across) and the graft (up). On the dotted line both are "
        f"equally confident. {SAME_PLACE}",
    )  # fmt: skip
    margin = Measure(
        "margin", f"margin of the {right}", "margin, nats",
        f"the margin is the {right}'s score minus the best other one's: above zero the model is right. It separates "
        "examples whose confidence is near 100%.",
    )  # fmt: skip
    return AnswerWords(right, one, {"confidence": confidence, "margin": margin}, CASES, SORTS)


CLASSES, OPTIONS = _chosen("true class", "class"), _chosen("right option", "option")
TEXTS = AnswerWords(
    "reference",
    "text",
    {
        "per_token": Measure(
            "per token", "probability per token of the reference", "reference, % per token",
            "the reference's probability per token (the geometric mean over its tokens), of the fine-tuned model "
            f"(across) and the graft (up). On the dotted line both are equal. {SAME_PLACE}",
        )
    },
    CASES | {"moved": "largest change in probability per token (10%)"},
    SORTS
    | {
        "moved": "largest change in probability per token",
        "gained": "likelier by the graft",
        "lost": "less likely by the graft",
        "grafted": "probability per token by the graft",
        "finetuned": "probability per token by fine-tuned",
    },
)  # fmt: skip


def answer_words(record: RunRecord) -> AnswerWords:
    """The words of a run's task."""
    return TEXTS if record.generates else CLASSES if record.has_classes else OPTIONS
