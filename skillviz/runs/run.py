"""A finished run, read from its folder without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file

from skillviz import json_text
from skillviz.core import formats
from skillviz.core.architectures import MLP_IN, OTHER
from skillviz.core.parameters import ParameterTable, graftable, kind_now
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, CorruptRun
from skillviz.regular_file import reading, regular
from skillviz.runs import tables
from skillviz.runs.intervals import CALIBRATION, RECOVERED, with_intervals
from skillviz.runs.migrate import migrated
from skillviz.runs.record import UNKNOWN, Estimate, RunRecord, place_of, without_unknown
from skillviz.runs.spec import RunSpec

RECORD = "run.json"
CHECKSUM = "sha256"  # the field of run.json with the hash of all its others
REGION = "region.safetensors"
RANKING = "ranking.safetensors"
COVERS = 9  # the schema version from which on stored intervals of calibration are those of core/calibration_error.py
NAME = 100  # letters of a field's name in a note


_kept: dict[Path, dict[str, tuple[tuple[int, int, int], tuple[RunRecord, tuple[str, ...]]]]] = {}
"""Root and name of a run -> its run.json's inode, time and size, and its record. All of them are kept: of a memory that
is smaller than one list of runs, which reads them in one order, every record is read again each time."""


def read_record(folder: Path) -> RunRecord:
    """The record of a run folder, brought to the current version; raises CorruptRun, NotReadable or NewerSchema.

    Fields that this skillviz does not know are left out, and a note of the record says so: within a schema's version a
    later skillviz may add some. A file that has not changed is not read again: lists of runs are asked for at every
    look at a page.
    """
    return _record_of(folder)[0]


def unknown_fields(folder: Path) -> tuple[str, ...]:
    """The fields of run.json that `read_record` leaves out, such as `task.source`; raises as it does."""
    return _record_of(folder)[1]


def _record_of(folder: Path) -> tuple[RunRecord, tuple[str, ...]]:
    with reading(f"{RECORD} in {folder}", CorruptRun):
        state = (folder / RECORD).stat()
    stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
    kept = _kept.setdefault(folder.parent, {})
    before, record = kept.get(folder.name, (None, None))
    if before != stamp or record is None:
        record = _read(folder)
        kept[folder.name] = (stamp, record)
    return record


def forget_all_but(root: Path, names: Collection[str]) -> None:
    """Frees the memory of the records of runs that a root has no more."""
    kept = _kept.get(root, {})
    for name in kept.keys() - set(names):
        kept.pop(name, None)


def _read(folder: Path) -> tuple[RunRecord, tuple[str, ...]]:
    content = _content(folder)
    record, unknown = _parsed(folder, content)
    record = record if content["schema_version"] >= COVERS else with_intervals(record, folder)
    if unknown:
        record = record.model_copy(update={"notes": (*record.notes, _note_on(unknown))})
    return record, unknown


def stored_record(folder: Path) -> tuple[RunRecord, int]:
    """The record as run.json has it, brought to the current version, and the version that wrote it.

    Its intervals of calibration are legacy in versions before COVERS: `read_record` has those that hold.
    """
    content = _content(folder)
    return _parsed(folder, content)[0], content["schema_version"]


def _content(folder: Path) -> dict[str, Any]:
    try:
        with reading(f"{RECORD} in {folder}", CorruptRun):
            content = json_text.read(folder / RECORD)
    except ValueError as error:
        raise CorruptRun(f"{RECORD} in {folder} cannot be read ({error}).") from error
    if not isinstance(content, dict):
        raise CorruptRun(f"{RECORD} in {folder} is not a record.")
    return content


def with_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a run.json with the hash of its values, however they are laid out in the file."""
    values = _values(content)
    return values | {CHECKSUM: hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()}


def _values(content: dict[str, Any]) -> dict[str, Any]:
    """All but the checksum."""
    return {name: value for name, value in content.items() if name != CHECKSUM}


def is_as_written(folder: Path) -> bool:
    """Whether run.json says what was written; True of runs older than the hash. Raises CorruptRun."""
    content = _content(folder)
    return CHECKSUM not in content or with_checksum(content) == content


def _parsed(folder: Path, content: dict[str, Any]) -> tuple[RunRecord, tuple[str, ...]]:
    """The record of run.json's content, and the places of fields that it does not know."""
    try:
        return without_unknown(RunRecord, migrated(_values(content)))
    except ValidationError as error:
        first = min(error.errors(), key=lambda each: each["type"] == UNKNOWN)  # what was added later is no error
        raise CorruptRun(f"{RECORD} in {folder}: '{place_of(first)}': {first['msg']}.") from error


def _note_on(unknown: Sequence[str]) -> str:
    """What a user reads of fields that were left out; those of the spec change how the run is made again."""
    listed = formats.listed([name if len(name) <= NAME else f"{name[:NAME]}..." for name in unknown], 4)
    note = f"A later version of skillviz made this run. This version does not know, and leaves out: {listed}."
    is_of_spec = any(name.partition(".")[0] == "spec" for name in unknown)
    return f"{note} Its commands therefore do not reproduce the run. Update skillviz." if is_of_spec else note


def parameter_table(record: RunRecord, region: Region) -> ParameterTable:
    """The graftable parameters of a run's pair, as its record and region tell them without its models."""
    built = record.architecture
    if built is None:
        return graftable("", region.shapes)
    config = {"num_attention_heads": built.heads, "num_hidden_layers": built.layers * built.repeats}
    return graftable(built.model_type, region.shapes, config)


# Kinds that once held what has one of its own today: gate and up of a gated MLP, and all of a family not yet known.
DIVIDED = (MLP_IN, OTHER)


class Run:
    """One finished run. Each method reads its file anew: caching is the caller's choice."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    def __repr__(self) -> str:
        return f"Run({self.id})"

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.record.run_id

    @property
    def spec(self) -> RunSpec:
        """What the run was asked to do."""
        return self.record.spec

    @property
    def stamp(self) -> str:
        """Its id, as a run is never made again in place."""
        return self.id

    @property
    def device(self) -> str | None:
        """The device that it was made on."""
        return self.record.device

    @property
    def seconds(self) -> float:
        """How long it took, all phases together."""
        return round(sum(self.record.seconds.values()), 3)

    @property
    def labels(self) -> tuple[str, ...]:
        """The task's label names, in the order of the logits."""
        return self.record.task.labels if self.record.task else ()

    @property
    def files(self) -> tuple[str, ...]:
        """The artifacts that the run vouches for."""
        return tuple(self.record.files)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that the run was scored on: that of its own task, then those of the other tasks."""
        task = (self.record.task.name,) if self.record.task else ()
        return (*task, *(transfer.name for transfer in self.record.transfers))

    def predictions(self, dataset: str | None = None) -> pd.DataFrame:
        """Logits of every state on the validation and test sets; one row an example and state.

        With `dataset`, on the test set of that other task instead.
        """
        return self._of("predictions", dataset)

    def nulls(self) -> pd.DataFrame:
        """Logits of the grafts of null searches at the main size; one row an example, null and draw."""
        return self._table("nulls")

    def out_of_scope(self) -> pd.DataFrame:
        """Logits of texts that fit no class, one row a text and state; without rows where the task names no such file.

        The graft is that of the main size.
        """
        return self._table("out_of_scope")

    def curve(self) -> pd.DataFrame:
        """The graft's metrics at every size of the run, on the task's own examples."""
        return self._of("curve", None)

    def complement(self) -> pd.DataFrame:
        """The complement's metrics at every size of the run, on the task's own examples; empty in older runs.

        `recovered` is the share of the gain that is left without the region.
        """
        return self._of("complement", None)

    def history(self) -> pd.DataFrame:
        """One row a step of the search."""
        return self._table("history")

    def layers(self) -> pd.DataFrame:
        """The region by parameter and module kind, with each tensor's movement.

        Kinds are those that the table of architectures has today: older runs have fewer. Where the model has an encoder
        and a decoder, `stack` says which of them a layer is in.
        """
        frame, built = self._table("layers"), self.record.architecture
        if built is None or frame.empty:
            return frame
        rows = zip(frame["parameter"], frame["kind"], frame["kind"].isin(DIVIDED), strict=True)
        kinds = [(kind_now(built.model_type, name) or kind) if old else kind for name, kind, old in rows]
        frame = frame.assign(kind=pd.Series(kinds, index=frame.index, dtype=frame["kind"].dtype))
        for name, first, last in built.stacks:
            frame.loc[frame["layer"].between(first, last).fillna(False), "stack"] = name
        return frame

    def interpolation(self) -> pd.DataFrame:
        """The grid of WiSE-FT and WiSE-Graft on every data set; without rows where it was not asked for."""
        return self._table("interpolation")

    def interpolation_bins(self) -> pd.DataFrame:
        """The confidence histogram of every point of that grid; without rows in runs of schema version 1."""
        return self._table("interpolation_bins")

    def logits(
        self, state: str, split: str = "test", dataset: str | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Example ids [n], labels int64 [n] and logits float32 [n, label] of one state, split and data set."""
        frame = self.predictions(dataset)
        rows = frame[(frame["state"] == state) & (frame["split"] == split)]
        logits = tables.score_matrix(rows, self.labels).astype(np.float32)
        return rows["example_id"].to_numpy(dtype=object), rows["label"].to_numpy(), logits

    def scores(self) -> pd.DataFrame:
        """The metrics of run.json as a table: split, state, metric, value, debiased, low, high."""
        rows = [
            {"split": split, "state": state, "metric": metric, **estimate.columns()}
            for split, scores in self.record.metrics.items()
            for state, metrics in scores.states.items()
            for metric, estimate in metrics.items()
        ]
        return pd.DataFrame(rows, columns=["split", "state", "metric", "value", "debiased", "low", "high"])

    def region(self) -> Region:
        """The main region."""
        try:
            return Region.load(self.path / REGION)
        except (BadInput, CorruptFile) as error:
            raise CorruptRun(f"{REGION} of {self.id}: {error.args[0]}") from error

    def region_header(self) -> dict[str, Any]:
        """What the region file says about itself."""
        return Region.header(self.path / REGION)

    def ranking(self) -> np.ndarray:
        """Global flat indices, best first, int32 or int64; empty where the localizer gives no order.

        Its first `size` entries are the main region.
        """
        if RANKING not in self.files:
            return np.empty(0, dtype=np.int64)
        try:
            return load_file(regular(self.path / RANKING))["order"]
        except (OSError, KeyError, SafetensorError) as error:
            raise CorruptRun(f"{RANKING} of {self.id} cannot be read ({error}).") from error

    def cut(self, size: int) -> Region:
        """The region of the ranking's first `size` entries; raises BadInput beyond its length."""
        order = self.ranking()
        if not 0 <= size <= len(order):
            raise BadInput(f"the ranking of {self.id} has {len(order):,} entries; {size:,} were requested.")
        return Region.from_flat(order[:size], self.region().shapes)

    def headline(self) -> dict[str, Any]:
        """The object that `localize --json` prints."""
        return {**self.record.headline(), "path": str(self.path)}

    def _of(self, name: str, dataset: str | None) -> pd.DataFrame:
        """The rows of one data set; of the task's own where none is named."""
        frame = self._table(name)
        wanted = dataset or next(iter(self.datasets), None)
        return frame if wanted is None else frame[frame["dataset"] == wanted].reset_index(drop=True)

    def _table(self, name: str) -> pd.DataFrame:
        table = tables.TABLES[name]
        if table.file not in self.files:
            return tables.empty(name, self.labels)
        try:
            frame = self._whole(name, pd.read_parquet(regular(self.path / table.file)))
            return tables.check(frame, name, self.labels if table.logits else ())
        except (OSError, ValueError, KeyError) as error:
            raise CorruptRun(f"{table.file} of {self.id} cannot be read ({error}).") from error

    def _whole(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """The table with what runs of older versions do not have: the grid's size, and intervals of calibration."""
        if name == "interpolation" and "size" not in frame:  # schema version 1: the grid is of the main size
            sizes = [self.record.size if path == "wise-graft" else None for path in frame["path"]]
            frame = frame.assign(size=pd.array(sizes, dtype="Int64"))
        if name in ("curve", "complement", "interpolation") and "debiased" not in frame:
            return self._with_intervals(name, frame.assign(debiased=np.nan))
        return frame

    def _with_intervals(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """An older table with the record's intervals of calibration; what has no stored predictions has none."""
        frame = frame.reset_index(drop=True)
        errors = frame["metric"].str.removesuffix("_difference").isin(CALIBRATION)
        errors |= (frame["metric"] == RECOVERED) & (name == "curve") & (frame["size"] == self.record.size)
        ends = {end: frame[end].to_numpy(float, copy=True) for end in ("debiased", "low", "high")}
        for at in np.flatnonzero(errors):
            row = frame.iloc[at]
            one = (self._curve_point if name == "curve" else self._grid_point)(row)
            for end, values in ends.items():
                value = getattr(one, end) if one else None
                values[at] = np.nan if value is None else value
        return frame.assign(**ends)

    def _curve_point(self, row: pd.Series) -> Estimate | None:
        """The record's estimate of a row of the curve, where it is of the main size."""
        scores = self.record.metrics.get(row["split"])
        if scores is None or row["size"] != self.record.size or row["dataset"] != self.datasets[0]:
            return None
        return scores.recovered if row["metric"] == RECOVERED else scores.states.get("grafted", {}).get(row["metric"])

    def _grid_point(self, row: pd.Series) -> Estimate | None:
        """The record's estimate of a row of the WiSE grid, where it is an end of its path."""
        scores = {note.name: note.scores for note in self.record.transfers}.get(row["dataset"])
        scores = self.record.metrics.get("test") if row["dataset"] == self.datasets[0] else scores
        ends = {("wise-ft", 1.0): "finetuned", ("wise-graft", 1.0): "grafted"}
        state = "pretrained" if row["alpha"] == 0.0 else ends.get((row["path"], row["alpha"]))
        if scores is None or state is None or (state == "grafted" and row["size"] != self.record.size):
            return None
        metric = row["metric"].removesuffix("_difference")
        if metric == row["metric"]:
            return scores.states.get(state, {}).get(metric)
        if state == "finetuned":
            return Estimate(value=0.0, debiased=0.0, low=0.0, high=0.0)
        return scores.differences.get(metric) if state == "grafted" else None
