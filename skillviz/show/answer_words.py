"""A page's words for the answers of a run's task: classes, options, generated texts, or references alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    """The words for a model's score of the right answer: on a switch, in a sentence, on an axis, and below its
    figure."""

    brief: str
    title: str
    unit: str
    reads: str


@dataclass(frozen=True)
class AnswerWords:
    """`right` is the name of an example's label, `one` of any answer; the keys of `measures` are columns of the scored
    table.

    `says` describes each model's column in a narrow table, `stored` the examples' data in a run.
    """

    right: str
    one: str
    measures: Mapping[str, Measure]
    cases: Mapping[str, str]
    sorts: Mapping[str, str]
    says: str = "Each model's answer and its confidence."
    stored: str = "Runs store scores, not sentences."


def _chosen(right: str, one: str) -> AnswerWords:
    """The words for a model that chooses among answers."""
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
    says="What each model generates.",
    stored="Runs store scores and what the models generate, not prompts and references.",
)  # fmt: skip
REFERENCES = replace(
    TEXTS,
    cases={
        "all": "all", "likelier_finetuned": "likelier by fine-tuned", "likelier_grafted": "likelier by the graft",
        "moved": TEXTS.cases["moved"],
    },
    says="The reference's probability per token by each model.",
    stored="Runs store scores, not prompts and references.",
)  # fmt: skip
"""The words if only references are scored and nothing is generated."""


def answer_words(record: RunRecord) -> AnswerWords:
    """The words for a run's task."""
    if record.has_reference:
        return TEXTS if record.generates else REFERENCES
    return CLASSES if record.has_classes else OPTIONS
