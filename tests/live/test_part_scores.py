"""Tests of a region's parts as the worker scores them: exact grafts, resumed requests, and storage beside the runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.core.region import Region
from skillviz.core.region_parts import ALONE, CELLS, HEADS, ROWS, WITHOUT, parts_of
from skillviz.errors import BadInput
from skillviz.live.operations import answer
from skillviz.live.part_scores import PartScoring
from skillviz.live.request import Worker
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.runs.part_scores import RECORD, stored_parts
from skillviz.runs.run import Run
from skillviz.runs.store import PARTS, Library, Store
from skillviz.runs.tables import logit_columns
from tests.core.problems import table_of

pytestmark = pytest.mark.slow

SAMPLE = 12


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    """Return a copy of the run's store, beside the shared models and tasks."""
    shutil.copytree(lived / "runs", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def run(place: Path) -> Run:
    return Store(place).list()[0]


@pytest.fixture(scope="module")
def pair(lived: Path) -> ModelPair:
    return load_pair(lived / "base", lived / "finetuned", task=lived / "task.yaml", device="cpu")


def asking(place: Path, run: Run, log: list[dict[str, Any]] | None = None):
    """Return a function that sends requests to a worker in this process; `log` collects its answers."""
    worker = Worker(place)

    def ask(operation: str, **arguments: Any) -> dict[str, Any]:
        value = answer(worker, operation, {"pair": {"run": run.id}, **arguments})
        if log is not None:
            log.append(value)
        return value

    return ask


def scoring(run: Run, grouping: str = CELLS, **changed: Any) -> PartScoring:
    return PartScoring(run, run.region(), grouping, **{"sample": SAMPLE, "draws": 1, **changed})


def logits_of(run: Run, rows: pd.DataFrame) -> np.ndarray:
    return rows[logit_columns(run.labels)].to_numpy(np.float32)


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("grouping", [CELLS, HEADS, ROWS])
def test_every_graft_is_predicts_own(place: Path, run: Run, pair: ModelPair, grouping: str) -> None:
    """ALONE is the graft of the part's entries, and WITHOUT the graft of the region's other entries, bit for bit."""
    ask = asking(place, run)
    encoded = ask("evaluate_region", sample=SAMPLE, states=["pretrained", "grafted"])
    frame = pd.concat([rows for _, rows in scoring(run, grouping).steps(ask)])
    region, table = run.region(), pair.table
    task_encoded = Worker(place).pairs.get(run.spec).examples(run.spec, "test", SAMPLE)
    assert list(task_encoded.ids) == list(encoded["example_ids"])
    for part in parts_of(region, table, grouping):
        layer, kind, head = part.place
        own = frame[(frame["layer"] == layer) & (frame["kind"] == kind) & (frame["draw"] == 0)]
        own = own if head is None else own[own["head"] == head]
        alone = Region.from_flat(part.entries, region.shapes)
        for condition, grafted in ((ALONE, alone), (WITHOUT, region - alone)):
            rows = own[own["condition"] == condition]
            assert np.array_equal(logits_of(run, rows), predict(pair, task_encoded, "grafted", grafted))
            assert (rows["size"] == part.size).all()


def test_all_cells_together_are_the_graft_and_none_the_base(place: Path, run: Run, pair: ModelPair) -> None:
    frame = pd.concat([rows for _, rows in scoring(run).steps(asking(place, run))])
    encoded = Worker(place).pairs.get(run.spec).examples(run.spec, "test", SAMPLE)
    together, left = Region.empty(pair.table.shapes), run.region()
    for part in parts_of(run.region(), pair.table, CELLS):
        cell = Region.from_flat(part.entries, pair.table.shapes)
        together, left = together | cell, left - cell
    for state, region in (("grafted", together), ("pretrained", left)):
        stored = logits_of(run, frame[frame["condition"] == state])
        assert np.array_equal(stored, predict(pair, encoded, "grafted", region))
    lacking = Region.from_flat(together.flat()[1:], pair.table.shapes)  # one cell lacks an entry
    grafted = logits_of(run, frame[frame["condition"] == "grafted"])
    assert not np.array_equal(grafted, predict(pair, encoded, "grafted", lacking))


def test_they_are_stored_beside_the_run_and_read_back(place: Path, run: Run) -> None:
    before = sorted(path.name for path in run.path.iterdir())
    seen: list[int] = []
    plan = scoring(run)
    scores = plan.stored(asking(place, run), Store(place), seen.append)
    assert seen[-1] == plan.passes and seen == sorted(seen)
    record = scores.record
    assert (record.run_id, record.grouping, record.n, record.draws) == (run.id, CELLS, SAMPLE, 1)
    assert record.parts == len(plan.parts)
    assert sorted(path.name for path in run.path.iterdir()) == before and Store(place).verify(run.id) == []
    library = Library([Store(place)])
    read = stored_parts(library, run, CELLS)
    assert read is not None and read.record == record
    frame = read.predictions()
    assert set(frame["condition"]) == {ALONE, WITHOUT, "pretrained", "grafted"}
    assert len(frame) == SAMPLE * len(frame[["layer", "kind", "condition", "draw"]].drop_duplicates())
    assert stored_parts(library, run, HEADS) is None
    assert [one.id for one in Store(place).list()] == [run.id]  # no new run is made


def test_what_belongs_to_another_region_or_is_broken_is_not_read(place: Path, run: Run) -> None:
    scores = scoring(run).stored(asking(place, run), Store(place), lambda done: None)
    library = Library([Store(place)])
    text = (scores.path / RECORD).read_text()
    (scores.path / RECORD).write_text(text.replace(scores.record.region_sha256, "0" * 64))
    assert stored_parts(library, run, CELLS) is None
    (scores.path / RECORD).write_text(text)
    assert stored_parts(library, run, CELLS) is not None
    (scores.path / "parts.parquet").write_bytes(b"")
    assert stored_parts(library, run, CELLS) is None


def test_a_run_takes_the_scores_of_its_parts_with_it(place: Path, run: Run) -> None:
    scoring(run).stored(asking(place, run), Store(place), lambda done: None)
    Store(place).delete(run.id)
    assert not (place / PARTS / run.id).exists()


def test_what_was_interrupted_goes_on_where_it_stopped(place: Path, run: Run) -> None:
    first: list[dict[str, Any]] = []
    steps = scoring(run).steps(asking(place, run, first))
    for _ in range(3):
        next(steps)
    assert not any(value["stored"] for value in first)
    again: list[dict[str, Any]] = []
    whole = [rows for _, rows in scoring(run).steps(asking(place, run, again))]
    assert [value["stored"] for value in again[:4]] == [True, True, True, False]
    fresh = [rows for _, rows in scoring(run).steps(asking(place, run))]
    pd.testing.assert_frame_equal(pd.concat(whole), pd.concat(fresh))


def test_passes_are_counted_before_they_are_made(place: Path, run: Run) -> None:
    plan = scoring(run, draws=2)
    frame = pd.concat([rows for _, rows in plan.steps(asking(place, run))])
    made = len(frame[["layer", "kind", "condition", "draw"]].drop_duplicates())
    assert made <= plan.passes == 2 + len(plan.parts) * 2 * 3


def test_what_cannot_be_scored_is_said(run: Run) -> None:
    with pytest.raises(BadInput, match=r"random controls must be 0\.\.100; got -1"):
        scoring(run, draws=-1)


def test_the_torch_free_table_is_the_pairs_own(run: Run, pair: ModelPair) -> None:
    from skillviz.runs.run import parameter_table

    assert parameter_table(run.record, run.region()).shapes == table_of(pair.model).shapes
    assert parameter_table(run.record, run.region()).heads == pair.table.heads
