"""The overview's exhibits: scores of all models and search progress; and the sources of the numbers."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import panels
from skillviz.plots.overview import search_history, state_comparison
from skillviz.runs.record import ModelNote, RunRecord, Scores
from skillviz.show import alt, measures, sentences, text
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.tasks.readable_names import readable_name

HEIGHT = 415


def sources(record: RunRecord) -> pd.DataFrame:
    """Models, data, software and machine as a table of two columns, both texts."""
    rows = [
        *_model_rows("Pre-trained model", record.base),
        *_model_rows("Fine-tuned model", record.finetuned),
        *_task_rows(record),
    ]
    rows += [
        ("Readout", record.readout or formats.MISSING),
        ("Localizer", f"{record.spec.localizer}, seed {record.spec.seed}"),
        ("Time", ", ".join(f"{name} {formats.seconds(value)}" for name, value in record.seconds.items())),
        ("Finished", formats.day(record.finished)),
        ("Device", f"{record.device or formats.MISSING}, {record.spec.dtype}"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())),
        ("Commit", (record.commit or formats.MISSING)[:12]),
    ]
    return pd.DataFrame(rows, columns=["what", "value"])


def _model_rows(title: str, note: ModelNote | None) -> list[tuple[str, str]]:
    if note is None:
        return [(title, formats.MISSING)]
    kind = ", ".join(part for part in (note.model_type, note.dtype) if part)
    return [(title, f"{note.source} ({kind})"), (f"{title}: sha256", text.short_hash(note.fingerprint))]


def _task_rows(record: RunRecord) -> list[tuple[str, str]]:
    if record.task is None:
        return [("Task", readable_name(record.spec.task))]
    counts = ", ".join(f"{formats.count(n)} {split}" for split, n in record.task.counts.items())
    labels = ", ".join(record.task.labels)
    if record.has_reference:
        labels = "generated text" if record.generates else "perplexity of references"
    return [
        ("Task", f"{readable_name(record.task.name)}: {labels}"),
        ("Examples", counts),
        ("Data: sha256", text.short_hash(record.task.fingerprint)),
    ]


@drawn_once
def states(record: RunRecord, scores: Scores, split: str, theme: str) -> Exhibit:
    """The metrics of `panels` of every model."""
    metric = record.metric
    table = measures.state_scores(scores)
    levels = measures.guesses(record, split, metric)
    is_scaled = measures.SCALED in scores.states
    scaled = " Temperature-scaled is the fine-tuned model with its confidence fitted on validation data."
    return Exhibit(
        name="states",
        title="Scores",
        figure=state_comparison(table, panels(metric), references=levels, theme=theme, height=HEIGHT),
        reads="one marker per model, its line the 95% interval over examples. "
        f"{sentences.better_sides(panels(metric))}{scaled if is_scaled else ''}",
        intervals=OVER_EXAMPLES,
        alt=alt.overview(table),
        table=table,
        words=("complement", *(panels(metric) if record.has_reference else ("temperature", "debiased", "chance"))),
    )


@drawn_once
def history(steps: pd.DataFrame, theme: str) -> Exhibit:
    """Loss and switched entries, step by step; `steps` belong to one search."""
    return Exhibit(
        name="history",
        title="Search progress",
        figure=search_history(steps, theme=theme, height=HEIGHT),
        reads="above, the training loss of the graft at each step; below, how many entries the step switched on "
        "(up) and off (down, hatched).",
        alt=alt.history(steps),
        table=steps,
    )
