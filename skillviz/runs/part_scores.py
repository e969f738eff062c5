"""Stored predictions of the grafts of each part of a run's region.

A finished run is never changed, so the scores of its parts are in a separate folder of the store, `parts/<run id>/`.
All of them can be read without torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from skillviz import __version__
from skillviz.atomic import folder_lock, sha256, whole_folder
from skillviz.core.region import packed, unpacked
from skillviz.core.region_parts import ALONE, WITHOUT, RegionPart
from skillviz.errors import BadInput, CorruptRun, StoreError
from skillviz.layout import LAYOUT
from skillviz.regular_file import has_size, regular
from skillviz.runs import tables
from skillviz.runs.folder import now
from skillviz.runs.record import FileNote, Frozen, read_as
from skillviz.runs.run import REGION, Run
from skillviz.runs.store import PARTS, Library, Store, shipped_root, store_root, written

RECORD = "parts.json"
DRAWS = 3
"""The random controls of each part and condition; their spread needs more than one."""
ENDS = ("pretrained", "grafted")
REGIONS = "regions"
"""The grouping of other regions beside the run's (runs.other_regions)."""
DISJOINT, MINIMAL, ADVERSARIAL = "disjoint", "minimal", "adversarial"
SEARCHED, CONTROL = "region", "control"
"""The conditions of other regions."""
RIVALS, ONE, CHOSEN = "rivals", "one", "chosen"
"""The grouping of rivals at equal bytes (runs.rivals), and their conditions: at gain 1, and at the chosen gain."""
ENTRIES = "regions.safetensors"


class PartsRecord(Frozen):
    """parts.json: the run, the division of its region into parts, and the examples that scored them."""

    layout: int = LAYOUT
    run_id: str
    region_sha256: str
    grouping: str
    split: str
    n: int
    draws: int
    seed: int
    parts: int
    created: str
    version: str = __version__
    seconds: float = 0.0
    facts: dict[str, dict[str, float]] = {}
    files: dict[str, FileNote]


@dataclass(frozen=True)
class PartScores:
    """Stored scores of a region's parts, read from their folder without torch."""

    path: Path
    record: PartsRecord

    def predictions(self) -> pd.DataFrame:
        """Return the table PARTS: one row per example, condition and draw of each part."""
        file = tables.PARTS.file
        try:
            return tables.check(pd.read_parquet(regular(self.path / file)), "parts")
        except (OSError, ValueError, KeyError) as error:
            raise CorruptRun(f"{file} in {self.path} cannot be read ({error}).") from error

    def all_entries(self) -> dict[str, np.ndarray]:
        """Return the entries of each other region by kind and number (`disjoint 1`): global flat indices, ascending."""
        if ENTRIES not in self.record.files:
            return {}
        try:
            with safe_open(regular(self.path / ENTRIES), framework="numpy") as file:
                (d,) = file.get_tensor("d")
                return {n: unpacked(file.get_tensor(n), int(d)) for n in file.keys() if n != "d"}  # noqa: SIM118
        except (OSError, ValueError, KeyError, BadInput, SafetensorError) as error:
            raise CorruptRun(f"{ENTRIES} in {self.path} cannot be read ({error}).") from error

    def entries(self, kind: str) -> list[np.ndarray]:
        """Return the entries of the regions of one kind, by number."""
        every = self.all_entries()
        return [every[name] for name in sorted(every, key=lambda n: int(n.split()[1])) if name.split()[0] == kind]


def passes(parts: int, draws: int) -> int:
    """Return the passes over the sample: base, graft, and each part alone and left out, with its controls."""
    return len(ENDS) + parts * len((ALONE, WITHOUT)) * (1 + draws)


def part_rows(
    part: RegionPart,
    conditions: Sequence[tuple[str, int]],
    logits: np.ndarray,
    ids: Sequence[str],
    labels: np.ndarray,
    names: Sequence[str],
) -> pd.DataFrame:
    """Return the rows of the table PARTS for one part: logits [condition, n, label] by condition and draw."""
    return _rows(part.layer, part.kind, part.head, part.size, conditions, logits, ids, labels, names)


def region_rows(
    kind: str,
    number: int,
    size: int,
    conditions: Sequence[tuple[str, int]],
    logits: np.ndarray,
    ids: Sequence[str],
    labels: np.ndarray,
    names: Sequence[str],
) -> pd.DataFrame:
    """Return the rows for another region beside the run's, or for a rival: its kind, and its number from 1."""
    return _rows(None, kind, number, size, conditions, logits, ids, labels, names)


def end_rows(
    logits: Mapping[str, np.ndarray], size: int, ids: Sequence[str], labels: np.ndarray, names: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of the parts' reference points: the base alone, and the graft of the whole region."""
    conditions, values = [(state, 0) for state in ENDS], np.stack([logits[state] for state in ENDS])
    frame = _rows(None, "", None, size, conditions, values, ids, labels, names)
    return frame.assign(size=np.where(frame["condition"] == ENDS[0], 0, frame["size"]))


def _rows(
    layer: int | None,
    kind: str,
    head: int | None,
    size: int,
    conditions: Sequence[tuple[str, int]],
    logits: np.ndarray,
    ids: Sequence[str],
    labels: np.ndarray,
    names: Sequence[str],
) -> pd.DataFrame:
    frames = []
    for (condition, draw), values in zip(conditions, logits, strict=True):
        columns: dict[str, Any] = {
            "layer": pd.array([layer] * len(ids), dtype="Int64"), "kind": kind,
            "head": pd.array([head] * len(ids), dtype="Int64"), "size": size, "condition": condition, "draw": draw,
            "example_id": list(ids), "label": labels,
        }  # fmt: skip
        frames.append(pd.DataFrame(columns | tables.score_columns(values, names)))
    return pd.concat(frames, ignore_index=True)


def store_parts(
    store: Store,
    run: Run,
    frame: pd.DataFrame,
    *,
    grouping: str,
    split: str,
    draws: int,
    seed: int,
    seconds: float,
    entries: Mapping[str, np.ndarray] | None = None,
    facts: Mapping[str, dict[str, float]] | None = None,
) -> PartScores:
    """Store the scores of a run's parts, replacing stored ones of the same grouping.

    For other regions, `entries` and `facts` hold their entries and further numbers.
    """
    target = store.root / PARTS / run.id / grouping
    checked = tables.check(frame, "parts")
    own = checked[checked["condition"].isin((ALONE, WITHOUT, SEARCHED, CHOSEN))]
    with written(store.root):
        target.parent.mkdir(parents=True, exist_ok=True)
        with folder_lock(target), whole_folder(target, replace=True) as draft:
            path = draft / tables.PARTS.file
            checked.to_parquet(path, index=False, **tables.encoding(checked))
            if entries:
                size = run.record.d or 0
                small = {name: packed(flat, size) for name, flat in entries.items()}
                save_file({**small, "d": np.array([size])}, draft / ENTRIES)
            files = (path, draft / ENTRIES) if entries else (path,)
            record = PartsRecord(
                run_id=run.id, region_sha256=run.record.files[REGION].sha256, grouping=grouping, split=split,
                n=checked["example_id"].nunique(), draws=draws, seed=seed,
                parts=len(own[["layer", "kind", "head"]].drop_duplicates()), created=now(),
                seconds=round(seconds, 3), facts=dict(facts or {}),
                files={file.name: FileNote(sha256=sha256(file), size=file.stat().st_size) for file in files},
            )  # fmt: skip
            text = json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
            (draft / RECORD).write_text(text, encoding="utf-8")
    return PartScores(target, record)


def store_of(run: Run, runs_dir: Path | None) -> Store:
    """Return the store for the scores of a run's parts: the user's store, or the run's if it is in another one."""
    user = store_root(runs_dir)
    known = {user.resolve(), shipped_root().resolve()}
    return Store(user if run.root.resolve() in known else run.root)


def stored_parts(library: Library, run: Run, grouping: str) -> PartScores | None:
    """Return the scores of a run's parts, the user's own first; None if no complete ones for its region are stored."""
    for store in library.stores:
        scores = _read(store.root / PARTS / run.id / grouping)
        region = run.record.files.get(REGION)
        if scores is not None and region is not None and scores.record.region_sha256 == region.sha256:
            return scores
    return None


def runs_with(library: Library, grouping: str) -> set[str]:
    """Return the ids of the runs beside which a folder of this grouping is stored."""
    return {path.parent.name for store in library.stores for path in (store.root / PARTS).glob(f"*/{grouping}")}


def _read(path: Path) -> PartScores | None:
    try:
        record = read_as(PartsRecord, path / RECORD)
    except StoreError:
        return None
    whole = all(has_size(path / n, note.size) for n, note in record.files.items())
    return PartScores(path, record) if whole else None
