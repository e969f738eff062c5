"""Runs as one zip file: their stored files, tables as CSV, reports, grafts if given, and a manifest.

Unzipped, its folder `runs` is a normal store: the dashboard opens it and `runs verify` checks it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from skillviz import __version__
from skillviz.analysis.tables import csv_text
from skillviz.core import formats
from skillviz.core.localizers.table import makes_graft
from skillviz.core.region_parts import GROUPINGS
from skillviz.errors import CorruptRun
from skillviz.models.fetch import CARD, GRAFT_FILE
from skillviz.runs import tables
from skillviz.runs.packed import file_of
from skillviz.runs.part_scores import RECORD as PARTS_FILE
from skillviz.runs.part_scores import REGIONS, RIVALS, stored_parts
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import PARTS, Library
from skillviz.show import out_of_scope
from skillviz.show.briefs import brief_of, run_labels

MANIFEST, README = "manifest.json", "README.md"
FORMAT = 1
"""The version of the manifest."""
CHUNK = 1 << 20
NEEDS_MODELS = "its values are in the models, which a stored run does not hold"
HERE = " --runs-dir runs"  # relative to the zip's README, for a reader who has only the zip
IS_CONTROL = "the localizer is a control that cannot be grafted"


def bundle(
    runs: Sequence[Run],
    seen: Library,
    to: IO[bytes],
    *,
    reports: Mapping[str, Callable[[], bytes]],
    grafts: Mapping[str, Path],
) -> None:
    """Writes the runs to `to` as a zip; `reports` make a run's HTML, `grafts` are files, both by run id.

    One file is read at a time, so that memory does not grow with the number of runs. Raises CorruptRun if a stored file
    does not match its SHA-256 in run.json.
    """
    with ZipFile(to, "w", ZIP_DEFLATED) as archive:
        written: dict[str, dict[str, Any]] = {}

        def add(name: str, source: Path | bytes, sha256: str = "") -> None:
            with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
                digest, size = _copied(file, archive, name)
            if sha256 and digest != sha256:
                raise CorruptRun(
                    f"{name} was changed: its SHA-256 is not the stored one. `runs verify` lists all changed files."
                )
            written[name] = {"sha256": digest, "bytes": size}

        for run in runs:
            add(f"runs/{run.id}/{RECORD}", file_of(run.path, RECORD))
            for name, note in run.record.files.items():
                add(f"runs/{run.id}/{name}", file_of(run.path, name), note.sha256)
            for name, path, digest in _parts(run, seen):
                add(f"runs/{PARTS}/{run.id}/{name}", path, digest)
            for name, text in _tables(run):
                add(f"tables/{run.id}/{name}.csv", text.encode("utf-8"))
            if run.id in reports:
                add(f"reports/{run.id}.html", reports[run.id]())
            if run.id in grafts:
                add(f"grafts/{run.id}.safetensors", grafts[run.id])
        missing = [row for run in runs for row in _missing(run, reports, grafts)]
        add(README, _readme(runs, missing).encode("utf-8"))
        manifest = {
            "format": FORMAT,
            "skillviz": __version__,
            "runs": [run.id for run in runs],
            "files": written,
            "not_included": missing,
        }
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        _copied(io.BytesIO(text.encode("utf-8")), archive, MANIFEST)


def graft_bundle(name: str, graft: bytes, card: str) -> bytes:
    """A graft file and its card as the zip of a folder, as `verify-graft` and the hub take it."""
    file = io.BytesIO()
    with ZipFile(file, "w") as archive:
        for part, content in ((GRAFT_FILE, graft), (CARD, card.encode("utf-8"))):
            _copied(io.BytesIO(content), archive, f"{name}/{part}")
    return file.getvalue()


def stored_bytes(runs: Sequence[Run]) -> int:
    """The total size of these runs' stored files in bytes."""
    return sum(note.size for run in runs for note in run.record.files.values())


def parts_stamp(runs: Sequence[Run], seen: Library) -> tuple[int, ...]:
    """Times that change when scores of parts of these runs are stored, which may happen after the runs are finished."""
    stamp = []
    for folder in (store.root / PARTS / run.id for run in runs for store in seen.stores):
        with suppress(OSError):
            stamp += [path.stat().st_mtime_ns for path in (folder, *sorted(folder.iterdir()))]
    return tuple(stamp)


def _copied(file: IO[bytes], archive: ZipFile, name: str) -> tuple[str, int]:
    """Copies a file into the archive; returns its sha256 and its size in bytes."""
    entry = ZipInfo(name, time.localtime()[:6])
    is_packed = name.endswith((".parquet", ".safetensors"))  # deflating them takes long and saves little
    entry.compress_type, entry.external_attr = ZIP_STORED if is_packed else ZIP_DEFLATED, 0o644 << 16
    digest, size = hashlib.sha256(), 0
    with archive.open(entry, "w", force_zip64=True) as target:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            target.write(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _tables(run: Run) -> Iterator[tuple[str, str]]:
    """Each table of the run that has rows, as CSV at full precision."""
    readers: Mapping[str, Callable[[], Any]] = {
        "scores": run.scores, "predictions": run.predictions, "sizes": run.sizes, "curve": run.every_curve,
        "complement": run.complement, "history": run.history, "layers": run.layers, "interpolation": run.interpolation,
        "interpolation_bins": run.interpolation_bins, "out_of_scope": run.out_of_scope,
        "out_of_scope_scores": lambda: out_of_scope.confidence_scores(out_of_scope.of_run(run)),
    }  # fmt: skip
    for name, read in readers.items():
        if len(frame := read()):
            yield name, csv_text(frame)
    for other in run.datasets[1:]:
        if len(frame := run.predictions(other)):
            yield f"{tables.PREDICTIONS.name}-{re.sub(r'[^A-Za-z0-9._-]+', '-', other)}", csv_text(frame)


def _parts(run: Run, seen: Library) -> Iterator[tuple[str, Path, str]]:
    """The scores stored beside the run: name, file, and the recorded sha256 if there is one."""
    for grouping in (*GROUPINGS, REGIONS, RIVALS):
        scores = stored_parts(seen, run, grouping)
        if scores is None:
            continue
        yield f"{scores.path.name}/{PARTS_FILE}", scores.path / PARTS_FILE, ""
        for name, note in scores.record.files.items():
            yield f"{scores.path.name}/{name}", scores.path / name, note.sha256


def _missing(run: Run, reports: Mapping[str, Any], grafts: Mapping[str, Any]) -> list[dict[str, str]]:
    """The files of the run that are not in the zip, with the reason and the command that makes them."""
    rows = []
    if run.id not in grafts:
        can = makes_graft(run.spec.localizer)
        command = f"python -m skillviz export {run.id} -o {run.id}.safetensors{HERE}" if can else ""
        rows.append({"run": run.id, "what": "graft", "why": NEEDS_MODELS if can else IS_CONTROL, "command": command})
    if run.id not in reports:
        command = f"python -m skillviz report {run.id} -o {run.id}.html{HERE}"
        rows.append({"run": run.id, "what": "report", "why": "it takes seconds for each run", "command": command})
    return rows


def _readme(runs: Sequence[Run], missing: Sequence[Mapping[str, str]]) -> str:
    labels = run_labels([brief_of(run, is_of_user=False) for run in runs])
    listed = "\n".join(f"- {labels[run.id]} (`{run.id}`)" for run in runs)
    left_out = "\n".join(
        f"- {row['what'].capitalize()} of `{row['run']}`: {row['why']}."
        + (f" Make it with `{row['command']}`." if row["command"] else "")
        for row in missing
    )
    return f"""# {formats.counted(len(runs), "run")} of skillviz

{listed}

| folder | holds |
|---|---|
| `runs/` | the stored files of each run, unchanged |
| `tables/` | the same tables as CSV, in full precision |
| `reports/` | a report of each run: one HTML file that works offline |
| `grafts/` | the values of each region's graft |
| `manifest.json` | the size and the SHA-256 of every file |

A folder that would be empty is left out. Notes on runs are private and never included.

Open the runs in the dashboard, or check them:

    SKILLVIZ_RUNS=runs python -m skillviz dashboard
    python -m skillviz runs verify{HERE}

## Not included

{left_out or "Nothing is missing."}
"""
