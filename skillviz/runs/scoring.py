"""Score the regions that a run has searched: predictions, metrics, curve, layers, WiSE grid, self-checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.core.gain import Gain
from skillviz.core.region import Region
from skillviz.models.pair import ModelPair
from skillviz.runs.folder import RunFolder
from skillviz.runs.gain import GainData, Gained, gained
from skillviz.runs.layers import layers_table
from skillviz.runs.metrics import Metrics, complement_row, curve_rows, graft_row, graft_row_of, split_scores
from skillviz.runs.nulls import NullDraw, null_notes
from skillviz.runs.passes import Passes
from skillviz.runs.points import grid_sizes
from skillviz.runs.record import Check, GainNote, NullNote, Scores, TaskNote, TransferNote
from skillviz.runs.search import Searched
from skillviz.runs.selfcheck import ends_check, ranking_check, restored_check, size_check
from skillviz.runs.session import Session
from skillviz.runs.spec import FIT, RunSpec
from skillviz.runs.tables import score_columns
from skillviz.runs.wise import wise_tables
from skillviz.tasks.source import OUT_OF_SCOPE

GRAFTS = ("grafted", "complement")


class Scored(NamedTuple):
    """The fields of run.json that scoring fills; `metrics` by split."""

    metrics: dict[str, Scores]
    transfers: tuple[TransferNote, ...]
    temperature: float | None
    unfitted: str


@dataclass
class Scoring:
    """Scores the regions of one run and writes its tables; `size` is None if the localizer decides it."""

    spec: RunSpec
    task: TaskNote
    size: int | None
    session: Session
    folder: RunFolder
    passes: Passes

    def __post_init__(self) -> None:
        self.pair, self.data = self.session.pair(self.spec), self.session.encoded(self.spec)
        self.ends, self.weights = self.session.ends(self.spec), self.session.weights(self.spec)
        self.logits: dict[str, dict[str, np.ndarray]] = {}
        self.gained: dict[int, Gained] = {}

    @cached_property
    def gain_data(self) -> GainData:
        """The data on which gains are fitted and judged."""
        return GainData.of({split: self.data[split] for split in self.ends}, self.spec.data_seed)

    def fit_gains(self, searched: Searched) -> None:
        """Find the gain for the graft of each size; all later scores of the graft use it."""
        if self.spec.gain == 1:
            return
        for size in searched.orders:
            region = searched.region(size, self.pair.table.shapes)
            self.gained[size] = gained(self.pair, region, self.gain_data, self.at_base(), self.spec.gain, self.passes)

    def gained_null(self, null: tuple[str, int], moved: ModelPair, region: Region) -> Gained:
        """Return the graft of a null's pair at its own gain."""
        passes = replace(self.passes, stamp={**self.passes.stamp, "null": "{} {}".format(*null)})
        return gained(moved, region, self.gain_data, self.at_base(), self.spec.gain, passes)

    def at_base(self) -> np.ndarray:
        """Return the logits [n, label] of the base on the validation examples; empty without any."""
        return self.ends.get("validation", {}).get("pretrained", np.empty((0, len(self.task.labels))))

    def gain_of(self, size: int) -> Gain:
        """Return the gain of a size's graft."""
        return self.gained[size].gain if size in self.gained else 1.0

    def gain_notes(self, main: int, draws: Sequence[NullDraw]) -> tuple[GainNote, ...]:
        """Return the notes on gains for run.json.

        They cover each size's graft (the main one first), the nulls and, if gains were fitted, the fine-tuned model.
        """
        if not self.gained:
            return ()
        labels = {split: encoded.labels for split, encoded in self.gain_data.splits.items()}
        sizes = sorted(self.gained, key=lambda size: (size != main, size))
        notes = [self.gained[size].note("grafted", labels, self.task, size) for size in sizes]
        for draw in draws:
            if draw.gained is not None:
                notes.append(draw.gained.note("null", labels, self.task, draw.size, draw.kind, draw.draw))
        if self.spec.fits_gain:
            whole = gained(self.pair, None, self.gain_data, self.at_base(), FIT, self.passes)
            notes.append(whole.note("finetuned", labels, self.task))
        return tuple(notes)

    def predict(self, encoded: Encoded, name: str, state: str, region: Region) -> np.ndarray:
        """Return class scores [n, label] of a state of the pair; a graft has the gain of its size."""
        with self.pair.with_gain(self.gain_of(region.size)):
            return self.passes.predict(self.pair, encoded, name, state, region)

    def scored(self, searched: Searched, header: dict[str, Any]) -> Scored:
        """Write every table, and the main region with `header`; the model is left unchanged."""
        pair, table = self.pair, self.pair.table
        region, ranking = searched.region(searched.size, table.shapes), searched.ranking()
        (temperature, unfitted), known = self.session.end_metrics(self.spec, self.task)
        self.logits = logits = {split: self.states(split, region) for split in self.ends}
        metrics = {
            split: split_scores(z, self.data[split].labels, self.task, temperature, known[split])
            for split, z in logits.items()
        }
        metrics = {split: self.without_recovered(of_split) for split, of_split in metrics.items()}
        self.folder.write_region(region, header)
        self.folder.write_ranking(ranking, table.d)
        with pair.with_gain(self.gain_of(region.size)):
            others = list(scored_others(self.session, self.spec, region, self.task, temperature, self.passes))
        predictions = pd.concat([self.predictions(logits), *(rows for _, rows in others)])
        is_graft = predictions["state"].isin(GRAFTS)
        self.folder.write_table("ends", predictions[~is_graft])
        self.folder.write_table("predictions", predictions[is_graft])
        grafts = self.grafts(searched)
        if grafts:
            self.folder.write_table("sizes", self.sizes(grafts))
        if (outside := self.out_of_scope(region)) is not None:
            self.folder.write_table("out_of_scope", outside)
        self.folder.write_table("curve", self.curve(searched, metrics, grafts))
        if pair.rest == "base":
            self.folder.write_table("complement", self.complement(searched, logits))
        self.folder.write_table("history", searched.table())
        movement = self.session.movement(self.spec)
        self.folder.write_table("layers", layers_table(region, movement, pair.movement))
        self.write_grid(ranking, tuple(searched.orders))
        notes = tuple(note.model_copy(update={"scores": self.without_recovered(note.scores)}) for note, _ in others)
        return Scored(metrics, notes, temperature, unfitted)

    def scored_nulls(self, draws: Sequence[NullDraw]) -> tuple[NullNote, ...]:
        """Write the predictions of the nulls and return their notes for run.json; must follow `scored`."""
        if not draws:
            return ()
        task, labels = self.task, {split: self.data[split].labels for split in self.logits}
        frames = [
            pd.DataFrame(score_columns(logits, task.labels)).assign(
                example_id=self.data[split].ids, dataset=task.name, split=split, null=draw.kind, draw=draw.draw,
                label=labels[split],
            )
            for draw in draws
            for split, logits in draw.logits.items()
        ]  # fmt: skip
        self.folder.write_table("nulls", pd.concat(frames, ignore_index=True))
        return null_notes(draws, self.logits, labels, task)

    def without_recovered(self, of_split: Scores) -> Scores:
        """Return the scores; if the rest is zero, without the recovered gain, which would start at the zeroed model."""
        return of_split if self.pair.rest == "base" else of_split.model_copy(update={"recovered": None})

    def states(self, split: str, region: Region) -> dict[str, np.ndarray]:
        """Return the logits [n, label] of all four states on one split."""
        logits = dict(self.ends[split])
        for state in GRAFTS:
            logits[state] = self.predict(self.data[split], split, state, region)
        return logits

    def predictions(self, logits: dict[str, dict[str, np.ndarray]]) -> pd.DataFrame:
        """Return the rows of ends.parquet and predictions.parquet for the run's own task."""
        task, data = self.task, self.data
        frames = [
            prediction_rows(states, data[split].ids, data[split].labels, task.name, split, task.labels)
            for split, states in logits.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def out_of_scope(self, region: Region) -> pd.DataFrame | None:
        """Return out_of_scope.parquet; None if the task has no file of texts that fit no class."""
        encoded = self.session.encoded_out_of_scope(self.spec)
        if encoded is None:
            return None
        grafted = self.predict(encoded, OUT_OF_SCOPE, "grafted", region)
        logits = {**self.session.out_of_scope_ends(self.spec, self.passes), "grafted": grafted}
        frames = [
            pd.DataFrame(score_columns(z, self.task.labels)).assign(example_id=encoded.ids, state=state)
            for state, z in logits.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def grafts(self, searched: Searched) -> dict[tuple[int, str], np.ndarray]:
        """Return the logits [n, label] of the grafts at the other sizes, by size and split."""
        regions = {size: searched.region(size, self.pair.table.shapes) for size in sorted(searched.orders)}
        regions.pop(searched.size, None)
        return {
            (size, split): self.predict(self.data[split], split, "grafted", region)
            for size, region in regions.items()
            for split in self.ends
        }

    def sizes(self, grafts: dict[tuple[int, str], np.ndarray]) -> pd.DataFrame:
        """Return sizes.parquet."""
        task, data = self.task, self.data
        frames = [
            pd.DataFrame(score_columns(logits, task.labels)).assign(
                example_id=data[split].ids, dataset=task.name, split=split, size=size, label=data[split].labels
            )
            for (size, split), logits in grafts.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def curve(
        self, searched: Searched, metrics: dict[str, Scores], grafts: dict[tuple[int, str], np.ndarray]
    ) -> pd.DataFrame:
        """Return curve.parquet: the main size from the given metrics, the others from the logits of their grafts."""
        spec, d, rows = self.spec, self.pair.d, []
        for size in sorted(searched.orders):
            common = {"localizer": spec.localizer, "seed": spec.seed, "size": size, "share": size / d}
            for split in self.ends:
                is_main, gain = size == searched.size, self.gain_of(size)
                place = {"dataset": self.task.name, "split": split}
                row = graft_row_of(metrics[split]) if is_main else self.graft_row(grafts[size, split], split)
                rows += curve_rows(row, **common, gain=math.nan if isinstance(gain, Mapping) else gain, **place)
                if gain != 1:
                    row = self.graft_row(self.gained[size].one[split], split)
                    rows += curve_rows(row, **common, gain=1.0, **place)
        return pd.DataFrame(rows)

    def complement(self, searched: Searched, logits: dict[str, dict[str, np.ndarray]]) -> pd.DataFrame:
        """Return complement.parquet: the main size from the given logits, the others predicted and scored."""
        spec, d, rows = self.spec, self.pair.d, []
        for size in sorted(searched.orders):
            common = {"localizer": spec.localizer, "seed": spec.seed, "size": size, "share": size / d, "gain": 1.0}
            for split, ends in self.ends.items():
                states = logits[split]
                if size != searched.size:
                    region = searched.region(size, self.pair.table.shapes)
                    rest = self.passes.predict(self.pair, self.data[split], split, "complement", region)
                    states = {**ends, "complement": rest}
                row = complement_row(states, self.data[split].labels, self.task)
                rows += curve_rows(row, **common, dataset=self.task.name, split=split)
        return pd.DataFrame(rows)

    def graft_row(self, grafted: np.ndarray, split: str) -> Metrics:
        """Return the metrics of the graft at one of the other sizes, from its logits."""
        row = graft_row({**self.ends[split], "grafted": grafted}, self.data[split].labels, self.task)
        return row if self.pair.rest == "base" else {name: value for name, value in row.items() if name != "recovered"}

    def write_grid(self, ranking: np.ndarray, sizes: tuple[int, ...]) -> None:
        """Write both tables of the WiSE grid, if the spec requests it and there is a test set."""
        if self.spec.interpolation and "test" in self.data:
            test = self.data["test"]
            gains = {size: self.gain_of(size) for size in sizes}
            for name, frame in grid_tables(
                self.session, self.spec, self.task, test, ranking, sizes, self.passes, gains
            ).items():
                self.folder.write_table(name, frame)

    def checks(self, searched: Searched) -> tuple[Check, ...]:
        """Return the self-checks, with the check of the weights last."""
        region = searched.region(searched.size, self.pair.table.shapes)
        examples = self.data.get("test", self.data["train"])
        return (
            size_check(region, searched.orders[searched.size], self.size),
            ranking_check(region, searched.ranking()),
            ends_check(self.pair, examples),
            restored_check(self.weights, self.pair),
        )


def scored_others(
    session: Session,
    spec: RunSpec,
    region: Region,
    task: TaskNote,
    temperature: float | None,
    passes: Passes,
) -> Iterator[tuple[TransferNote, pd.DataFrame]]:
    """Yield each other task's note and its rows of predictions.parquet, in the order of the spec."""
    pair, ends = session.pair(spec), session.other_ends(spec, task, passes)
    for other in session.others(spec):
        models = ends[other.task.name]
        grafts = {state: passes.predict(pair, models.encoded, other.task.name, state, region) for state in GRAFTS}
        logits, labels = {**models.logits, **grafts}, models.encoded.labels
        scored = split_scores(logits, labels, task, temperature, models.metrics)
        note = other.note(pair.readout_name, models.encoded, scored)
        yield note, prediction_rows(logits, models.encoded.ids, labels, other.task.name, "test", task.labels)


def grid_tables(
    session: Session,
    spec: RunSpec,
    task: TaskNote,
    test: Encoded,
    ranking: np.ndarray,
    sizes: tuple[int, ...],
    passes: Passes,
    gains: Mapping[int, Gain],
) -> dict[str, pd.DataFrame]:
    """Return the tables of the WiSE grid on all test sets, the run's first; `sizes` has the main one first.

    A size's region is cut from the ranking, as on live pages, so that their points are on the stored curves.
    """
    pair = session.pair(spec)
    data = {task.name: test, **{name: ends.encoded for name, ends in session.other_ends(spec, task).items()}}
    regions = {size: Region.from_flat(ranking[:size], pair.table.shapes) for size in grid_sizes(sizes)}
    grid, bins = wise_tables(pair, data, regions, task, passes, gains)
    return {"interpolation": grid, "interpolation_bins": bins}


def prediction_rows(
    logits: dict[str, np.ndarray], ids: list[str], labels: np.ndarray, dataset: str, split: str, names: tuple[str, ...]
) -> pd.DataFrame:
    """Return the rows of predictions.parquet: one per state and example."""
    frames = []
    for state, values in logits.items():
        frame = pd.DataFrame(score_columns(values, names))
        frames.append(frame.assign(example_id=ids, dataset=dataset, split=split, state=state, label=labels))
    return pd.concat(frames, ignore_index=True)
