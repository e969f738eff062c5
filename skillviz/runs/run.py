"""A finished run, read from its folder without torch."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load, load_file

from skillviz.core.parameters import ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, CorruptRun
from skillviz.regular_file import reading
from skillviz.runs import packed, tables
from skillviz.runs.packed import RECORD, REGION
from skillviz.runs.record import RunRecord, content_of, record_of
from skillviz.runs.spec import RunSpec

CHECKSUM = "sha256"  # the field of run.json with the hash of all other fields
RANKING = "ranking.safetensors"


_kept: dict[Path, dict[str, tuple[tuple[int, int, int], RunRecord]]] = {}
"""Root and name of a run -> the inode, time and size of its run.json, and its record.

All records are kept. With a cache smaller than one list of runs, which is always read in the same order, every record
would be read again each time.
"""


def read_record(folder: Path) -> RunRecord:
    """Return the record of a run folder; raises CorruptRun, NotReadable or OtherVersion.

    An unchanged file is not read again, because pages list runs every time they are drawn.
    """
    path = folder / RECORD
    with reading(f"{RECORD} in {folder}", CorruptRun):
        stamp = packed.stamp(folder)
    kept = _kept.setdefault(folder.parent, {})
    before, record = kept.get(folder.name, (None, None))
    if before != stamp or record is None:
        record = record_of(RunRecord, _values(content_of(path)), path)
        kept[folder.name] = (stamp, record)
    return record


def forget_all_but(root: Path, names: Collection[str]) -> None:
    """Free the memory of records of runs that are no longer in a root."""
    kept = _kept.get(root, {})
    for name in kept.keys() - set(names):
        kept.pop(name, None)


def with_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a run.json with the hash of its values, which does not depend on the layout of the file."""
    values = _values(content)
    return values | {CHECKSUM: hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()}


def _values(content: dict[str, Any]) -> dict[str, Any]:
    """Return all fields except the checksum."""
    return {name: value for name, value in content.items() if name != CHECKSUM}


def is_as_written(folder: Path) -> bool:
    """True if run.json is unchanged since it was written. Raises CorruptRun."""
    content = content_of(folder / RECORD)
    return with_checksum(content) == content


def parameter_table(record: RunRecord, region: Region) -> ParameterTable:
    """Return the graftable parameters of a run's pair from its record and region, without its models."""
    built = record.architecture
    if built is None:
        return graftable("", region.shapes)
    config = {"num_attention_heads": built.heads, "num_hidden_layers": built.layers * built.repeats}
    return graftable(built.model_type, region.shapes, config)


class Run:
    """One finished run. Each method reads its file again; callers may cache the result."""

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
    def root(self) -> Path:
        """The root of the store that contains the run."""
        return packed.root_of(self.path)

    @property
    def spec(self) -> RunSpec:
        """The settings of the run."""
        return self.record.spec

    @property
    def stamp(self) -> str:
        """The run's id, since a run is never made again in place."""
        return self.id

    @property
    def device(self) -> str | None:
        """The device on which the run was made."""
        return self.record.device

    @property
    def seconds(self) -> float:
        """The seconds that the run took, all phases together."""
        return round(sum(self.record.seconds.values()), 3)

    @property
    def labels(self) -> tuple[str, ...]:
        """The task's label names, in the order of the logits."""
        return self.record.task.labels if self.record.task else ()

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files whose hashes are in run.json."""
        return tuple(self.record.files)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets on which the run was scored: its own task's, then the other tasks'."""
        task = (self.record.task.name,) if self.record.task else ()
        return (*task, *(transfer.name for transfer in self.record.transfers))

    def predictions(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the logits of every state on the validation and test sets; one row per example and state.

        With `dataset`, they are on the test set of that other task instead. The graft and its complement have the main
        size.
        """
        stored = [frame for name in ("ends", "predictions") if len(frame := self._of(name, dataset))]
        return pd.concat(stored, ignore_index=True) if stored else tables.empty("predictions", self.labels)

    def ends(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the rows of `predictions` for the pair itself: the states pretrained and finetuned."""
        return self._of("ends", dataset)

    def sizes(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the logits of the grafts at the other sizes, one row per example and size, like `predictions`."""
        return self._of("sizes", dataset)

    def nulls(self) -> pd.DataFrame:
        """Return the logits of the grafts of null searches at the main size; one row per example, null and draw."""
        return self._table("nulls")

    def out_of_scope(self) -> pd.DataFrame:
        """Return the logits of texts that fit no class, one row per text and state; empty if the task has no such file.

        The graft has the main size.
        """
        return self._table("out_of_scope")

    def curve(self, gain: float | None = None) -> pd.DataFrame:
        """Return the graft's metrics at every size of the run, on the task's own examples.

        They are at each size's own gain, or at the given one.
        """
        rows = self._of("curve", None)
        if gain is None and not self.record.gains:
            return rows
        if gain is None:  # besides its own gain, a size has rows of gain 1 at most; a gain by kind is no number
            is_wanted = (rows["gain"] == 1) == rows["size"].map(lambda size: self.record.gain_at(size) == 1)
        else:
            is_wanted = rows["gain"] == gain
        return rows[is_wanted].reset_index(drop=True)

    def every_curve(self) -> pd.DataFrame:
        """Return the rows of `curve` for all gains."""
        return self._of("curve", None)

    def complement(self) -> pd.DataFrame:
        """Return the complement's metrics at every size of the run, on the task's own examples.

        `recovered` is the share of the gain that is left without the region.
        """
        return self._of("complement", None)

    def history(self) -> pd.DataFrame:
        """Return one row per step of the search."""
        return self._table("history")

    def layers(self) -> pd.DataFrame:
        """Return the region by parameter and module kind, with each tensor's movement.

        If the model has an encoder and a decoder, `stack` names the one that contains the layer.
        """
        frame, built = self._table("layers"), self.record.architecture
        for name, first, last in built.stacks if built is not None and len(frame) else ():
            frame.loc[frame["layer"].between(first, last).fillna(False), "stack"] = name
        return frame

    def interpolation(self) -> pd.DataFrame:
        """Return the grid of WiSE-FT and WiSE-Graft on every data set; empty if the run has none."""
        return self._table("interpolation")

    def interpolation_bins(self) -> pd.DataFrame:
        """Return the confidence histogram of every point of the grid in `interpolation`."""
        return self._table("interpolation_bins")

    def logits(
        self, state: str, split: str = "test", dataset: str | None = None, size: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return example ids [n], labels int64 [n] and logits float32 [n, label] of one state, split and data set.

        The state `grafted` has the main size, or another `size` of the run.
        """
        if state == "grafted" and size not in (None, self.record.size):
            frame = self.sizes(dataset)
            rows = frame[(frame["size"] == size) & (frame["split"] == split)]
        else:
            frame = self.predictions(dataset)
            rows = frame[(frame["state"] == state) & (frame["split"] == split)]
        logits = tables.score_matrix(rows, self.labels).astype(np.float32)
        return rows["example_id"].to_numpy(dtype=object), rows["label"].to_numpy(), logits

    def scores(self) -> pd.DataFrame:
        """Return the metrics of run.json as a table: split, state, metric, value, debiased, low, high."""
        rows = [
            {"split": split, "state": state, "metric": metric, **estimate.columns()}
            for split, scores in self.record.metrics.items()
            for state, metrics in scores.states.items()
            for metric, estimate in metrics.items()
        ]
        return pd.DataFrame(rows, columns=["split", "state", "metric", "value", "debiased", "low", "high"])

    def region(self) -> Region:
        """Return the main region."""
        try:
            return Region.load(self._region_file())
        except (BadInput, CorruptFile) as error:
            raise CorruptRun(f"{REGION} of {self.id}: {error.args[0]}") from error

    def region_header(self) -> dict[str, Any]:
        """Return the header of the region file."""
        return Region.header(self._region_file())

    def _region_file(self) -> Path | bytes:
        return self.path / REGION if packed.pack_of(self.path) is None else packed.file_of(self.path, REGION)

    def ranking(self) -> np.ndarray:
        """Return global flat indices, best first, int32 or int64; empty if the localizer gives no order.

        The first `size` entries are the main region.
        """
        if RANKING not in self.files:
            return np.empty(0, dtype=np.int64)
        try:
            file = packed.file_of(self.path, RANKING)
            order: np.ndarray = (load(file) if isinstance(file, bytes) else load_file(file))["order"]
            return order
        except (OSError, KeyError, SafetensorError) as error:
            raise CorruptRun(f"{RANKING} of {self.id} cannot be read ({error}).") from error

    def cut(self, size: int) -> Region:
        """Return the region of the ranking's first `size` entries; raises BadInput if the ranking is shorter."""
        order = self.ranking()
        if not 0 <= size <= len(order):
            raise BadInput(f"the ranking of {self.id} has {len(order):,} entries; {size:,} were requested.")
        return Region.from_flat(order[:size], self.region().shapes)

    def headline(self) -> dict[str, Any]:
        """Return the object that `localize --json` prints."""
        return {**self.record.headline(), "path": str(self.path)}

    def _of(self, name: str, dataset: str | None) -> pd.DataFrame:
        """Return the rows of one data set; of the task's own if none is named."""
        frame = self._table(name)
        wanted = dataset or next(iter(self.datasets), None)
        return frame if wanted is None else frame[frame["dataset"] == wanted].reset_index(drop=True)

    def _table(self, name: str) -> pd.DataFrame:
        table = tables.TABLES[name]
        if table.file not in self.files:
            return tables.empty(name, self.labels)
        try:
            file = packed.file_of(self.path, table.file)
            frame = pd.read_parquet(io.BytesIO(file) if isinstance(file, bytes) else file)
            return tables.check(frame, name, self.labels if table.logits else ())
        except (OSError, ValueError, KeyError) as error:
            raise CorruptRun(f"{table.file} of {self.id} cannot be read ({error}).") from error
