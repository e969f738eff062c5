"""A finished run, read from its folder without torch."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file

from skillviz.core.parameters import ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, CorruptRun
from skillviz.runs import tables
from skillviz.runs.migrate import migrated
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec

RECORD = "run.json"
REGION = "region.safetensors"
RANKING = "ranking.safetensors"
RECORDS = 2048  # are kept in memory


def read_record(folder: Path) -> RunRecord:
    """The record of a run folder, brought to the current version; raises CorruptRun or NewerSchema.

    A file that has not changed is not read again: lists of runs are asked for at every look at a page.
    """
    try:
        state = (folder / RECORD).stat()
    except OSError as error:
        raise CorruptRun(f"{RECORD} in {folder} cannot be read ({error}).") from error
    return _record(folder, state.st_ino, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=RECORDS)
def _record(folder: Path, inode: int, changed: int, size: int) -> RunRecord:
    try:
        content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptRun(f"{RECORD} in {folder} cannot be read ({error}).") from error
    if not isinstance(content, dict):
        raise CorruptRun(f"{RECORD} in {folder} is not a record.")
    try:
        return RunRecord(**migrated(content))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CorruptRun(f"{RECORD} in {folder}: '{place}': {first['msg']}.") from error


def parameter_table(record: RunRecord, region: Region) -> ParameterTable:
    """The graftable parameters of a run's pair, as its record and region tell them without its models."""
    built = record.architecture
    heads = {"num_attention_heads": built.heads} if built and built.heads else {}
    return graftable(built.model_type if built else "", region.shapes, heads)


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
        """The region by parameter and module kind, with each tensor's movement."""
        return self._table("layers")

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
        logits = rows[tables.logit_columns(self.labels)].to_numpy(dtype=np.float32)
        return rows["example_id"].to_numpy(dtype=object), rows["label"].to_numpy(), logits

    def scores(self) -> pd.DataFrame:
        """The metrics of run.json as a table: split, state, metric, value, low, high."""
        rows = [
            {"split": split, "state": state, "metric": metric, **estimate.model_dump()}
            for split, scores in self.record.metrics.items()
            for state, metrics in scores.states.items()
            for metric, estimate in metrics.items()
        ]
        return pd.DataFrame(rows, columns=["split", "state", "metric", "value", "low", "high"])

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
            return load_file(self.path / RANKING)["order"]
        except (OSError, KeyError, SafetensorError) as error:
            raise CorruptRun(f"{RANKING} of {self.id} cannot be read ({error}).") from error

    def cut(self, size: int) -> Region:
        """The region of the ranking's first `size` entries; raises BadInput beyond its length."""
        order = self.ranking()
        if not 0 <= size <= len(order):
            raise BadInput(f"the ranking of {self.id} has {len(order):,} entries; {size:,} were asked for.")
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
            frame = self._whole(name, pd.read_parquet(self.path / table.file))
            return tables.check(frame, name, self.labels if table.logits else ())
        except (OSError, ValueError, KeyError) as error:
            raise CorruptRun(f"{table.file} of {self.id} cannot be read ({error}).") from error

    def _whole(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """The table with the columns that runs of schema version 1 do not have: their grid is of the main size."""
        if name != "interpolation" or "size" in frame:
            return frame
        size = pd.array([self.record.size if path == "wise-graft" else None for path in frame["path"]], dtype="Int64")
        return frame.assign(size=size)
