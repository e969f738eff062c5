"""Where a run's numbers come from, as a table: models, data, software, machine."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.runs.record import ModelNote, RunRecord
from skillviz.show import text


def sources(record: RunRecord) -> pd.DataFrame:
    """Models, data, software and machine as a table of two columns, both texts."""
    rows = [*_model("Pre-trained model", record.base), *_model("Fine-tuned model", record.finetuned), *_task(record)]
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


def _model(title: str, note: ModelNote | None) -> list[tuple[str, str]]:
    if note is None:
        return [(title, formats.MISSING)]
    kind = ", ".join(part for part in (note.model_type, note.dtype) if part)
    return [(title, f"{note.source} ({kind})"), (f"{title}: sha256", text.short_hash(note.fingerprint))]


def _task(record: RunRecord) -> list[tuple[str, str]]:
    if record.task is None:
        return [("Task", record.spec.task)]
    counts = ", ".join(f"{formats.count(n)} {split}" for split, n in record.task.counts.items())
    labels = ", ".join(record.task.labels)
    return [
        ("Task", f"{record.task.name}: {labels}"),
        ("Examples", counts),
        ("Data: sha256", text.short_hash(record.task.fingerprint)),
    ]
