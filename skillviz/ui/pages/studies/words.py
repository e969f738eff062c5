"""What the studies page says: how many there are, what a plan will do and take, how a study under way is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from skillviz.core import formats
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.show import text
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.plan import Plan
from skillviz.studies.store import StudyFolder
from skillviz.ui import study_words

KINDS = {FINETUNE: "fine-tuning", LOCALIZE: "localization", SCORE: "scoring"}
OPENING = (
    "A **study** is a set of fine-tunes and localizations that belong together, with tables of means and intervals "
    "over seeds. What is finished is never made twice: a study that was cut goes on where it stopped."
)


def summary(studies: Sequence[StudyFolder]) -> str:
    """How many studies are stored, and of how many of the paper's experiments."""
    if not studies:
        return f"{OPENING} **None is stored yet.**"
    whole = [study for study in studies if study.tables()]
    held = {study.record.experiment for study in whole} & set(EXPERIMENTS)
    of = f"{len(held)} of {len(EXPERIMENTS)} experiments"
    ready = "all with tables" if len(whole) == len(studies) else f"{len(whole)} of them with tables"
    return f"{OPENING} **{formats.counted(len(studies), 'study')}** stored here, {ready}; {of} have one."


def listing(studies: Sequence[StudyFolder], states: Mapping[str, str]) -> pd.DataFrame:
    """One row a study, for the eye; `states` as study_running tells them."""
    rows = []
    for study in studies:
        record = study.record
        steps = list(record.steps.values())
        rows.append(
            {
                "study": study.name,
                "experiment": study_words.experiment_title(record.experiment),
                "scale": study_words.world(study),
                "state": states.get(str(study.path.resolve()))
                or states.get(study.path.name)
                or study_words.state(study),
                "runs": sum(step.kind == LOCALIZE for step in steps) or None,
                "estimated, min": record.estimated / 60 if record.estimated is not None else None,
                "taken, min": record.seconds / 60 if record.seconds else None,
                "ended": formats.day(record.finished) if record.finished else "",
            }
        )
    return pd.DataFrame(rows)


def begun_anew(state: str) -> str:
    """What stands above a stored study whose name a study of the user's own has, that has no tables yet."""
    return f"You began this study anew, and yours is **{state}**. Until it has tables, the stored ones are shown."


def counted(plan: Plan, left: int) -> str:
    """What a plan holds: `3 fine-tunings, 27 localizations, 9 scorings; 39 steps, 12 to do`."""
    parts = [
        formats.counted(count, noun)
        for kind, noun in KINDS.items()
        if (count := sum(s.kind == kind for s in plan.steps))
    ]
    total = len(plan.steps)
    todo = "all of them done before" if not left else f"**{left}** to do" if left < total else "none done before"
    return f"{formats.listed(parts, 3)}, then the tables: {total} steps, {todo}."


def minutes(said: str, left: int) -> str:
    """How long it will take, or that nothing is left."""
    return f"It will take **{said}**." if left else "Nothing is left to do but to look at it."


UNDER_WAY = "You can close this page; the study keeps running. [Log and cancel](#under-way)"


def ended(state: str) -> str:
    """What stands above the button of a study that ran in this session."""
    words = {
        "finished": "It is **finished**",
        "failed": "It **failed**",
        "cancelled": "It was **cancelled**",
        "stopped": "It was **stopped** before its end",
    }
    return f"{words.get(state, state)}: [see above](#under-way)."


def failed(study: StudyFolder) -> list[str]:
    """One sentence a failed step: what it was, and why it failed."""
    return [
        f"**{text.plain(step.title)}**: {text.plain(step.error.message if step.error else 'no reason was stored.')}"
        for step in study.record.steps.values()
        if step.state == "failed"
    ]


def not_reached(study: StudyFolder) -> int:
    """How many steps were not reached, as one that they need had failed or the study was cut."""
    return sum(step.state not in ("finished", "failed") for step in study.record.steps.values())


def steps(study: StudyFolder) -> pd.DataFrame:
    """Every step with its state and seconds."""
    rows = [
        {
            "kind": KINDS.get(s.kind, s.kind),
            "step": s.title,
            "state": "not reached" if s.state == "missing" else s.state,
            "seconds": s.seconds,
            "estimated, seconds": s.estimated,
        }
        for s in study.record.steps.values()
    ]
    return pd.DataFrame(rows, columns=["kind", "step", "state", "seconds", "estimated, seconds"])
