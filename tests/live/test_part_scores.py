"""Tests of a region's parts as the worker scores them: exact grafts, resumed requests, and storage beside the runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.api import ModelPair, Region
from skillviz.core.encoded import Encoded
from skillviz.core.region_parts import ALONE, CELLS, HEADS, ROWS, WITHOUT, parts_of
from skillviz.errors import BadInput
from skillviz.live.part_scores import PartScoring
from skillviz.live.request import Worker
from skillviz.models.predict import predict
from skillviz.runs.part_scores import RECORD, stored_parts
from skillviz.runs.run import Run, parameter_table
from skillviz.runs.store import PARTS, Library, Store
from skillviz.runs.tables import logit_columns
from tests.core.problems import table_of
from tests.live.conftest import Ask, asking

pytestmark = pytest.mark.slow

SAMPLE = 12
PASS = ["layer", "kind", "condition", "draw"]


def scoring(run: Run, grouping: str = CELLS, draws: int = 1) -> PartScoring:
    return PartScoring(run, run.region(), grouping, sample=SAMPLE, draws=draws)


def rows_of(plan: PartScoring, ask: Ask) -> pd.DataFrame:
    return pd.concat([rows for _, rows in plan.steps(ask)])


def logits_of(run: Run, rows: pd.DataFrame) -> np.ndarray:
    return rows[logit_columns(run.labels)].to_numpy(np.float32)


@pytest.fixture
def encoded(place: Path, run: Run) -> Encoded:
    """Return the examples that are scored."""
    return Worker(place).pairs.get(run.spec).examples(run.spec, "test", SAMPLE)


@pytest.fixture
def scores(place: Path, run: Run, ask: Ask) -> Any:
    """Return the stored scores of the run's cells."""
    return scoring(run).stored(ask, Store(place), lambda done: None)


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("grouping", [CELLS, HEADS, ROWS])
def test_every_graft_is_predicts_own(ask: Ask, run: Run, pair: ModelPair, encoded: Encoded, grouping: str) -> None:
    """ALONE is the graft of the part's entries, and WITHOUT the graft of the region's other entries, bit for bit."""
    frame, region = rows_of(scoring(run, grouping), ask), run.region()
    assert list(encoded.ids) == list(
        ask("evaluate_region", sample=SAMPLE, states=["pretrained", "grafted"])["example_ids"]
    )
    for part in parts_of(region, pair.table, grouping):
        layer, kind, head = part.place
        own = frame[(frame["layer"] == layer) & (frame["kind"] == kind) & (frame["draw"] == 0)]
        own = own if head is None else own[own["head"] == head]
        alone = Region.from_flat(part.entries, region.shapes)
        for condition, grafted in ((ALONE, alone), (WITHOUT, region - alone)):
            rows = own[own["condition"] == condition]
            assert np.array_equal(logits_of(run, rows), predict(pair, encoded, "grafted", grafted))
            assert (rows["size"] == part.size).all()


def test_all_cells_together_are_the_graft_and_none_the_base(
    ask: Ask, run: Run, pair: ModelPair, encoded: Encoded
) -> None:
    frame, together, left = rows_of(scoring(run), ask), Region.empty(pair.table.shapes), run.region()
    for part in parts_of(run.region(), pair.table, CELLS):
        cell = Region.from_flat(part.entries, pair.table.shapes)
        together, left = together | cell, left - cell
    lacking = Region.from_flat(together.flat()[1:], pair.table.shapes)  # one cell lacks an entry
    stored = {state: logits_of(run, frame[frame["condition"] == state]) for state in ("grafted", "pretrained")}
    for state, region, equal in (("grafted", together, True), ("pretrained", left, True), ("grafted", lacking, False)):
        assert np.array_equal(stored[state], predict(pair, encoded, "grafted", region)) is equal, state


def test_they_are_stored_beside_the_run_and_read_back(place: Path, run: Run, ask: Ask) -> None:
    before = sorted(path.name for path in run.path.iterdir())
    seen, plan, library = list[int](), scoring(run), Library([Store(place)])
    record = plan.stored(ask, Store(place), seen.append).record
    assert seen[-1] == plan.passes and seen == sorted(seen)
    facts = (record.run_id, record.grouping, record.n, record.draws, record.parts)
    assert facts == (run.id, CELLS, SAMPLE, 1, len(plan.parts))
    assert sorted(path.name for path in run.path.iterdir()) == before and Store(place).verify(run.id) == []
    read = stored_parts(library, run, CELLS)
    assert read is not None and read.record == record and stored_parts(library, run, HEADS) is None
    frame = read.predictions()
    assert set(frame["condition"]) == {ALONE, WITHOUT, "pretrained", "grafted"}
    assert len(frame) == SAMPLE * len(frame[PASS].drop_duplicates())
    assert [one.id for one in Store(place).list()] == [run.id]  # no new run is made


def test_what_belongs_to_another_region_or_is_broken_is_not_read(place: Path, run: Run, scores: Any) -> None:
    library, text = Library([Store(place)]), (scores.path / RECORD).read_text()
    for name, content, is_read in (
        (RECORD, text.replace(scores.record.region_sha256, "0" * 64), False),
        (RECORD, text, True),
        ("parts.parquet", "", False),
    ):
        (scores.path / name).write_text(content)
        assert (stored_parts(library, run, CELLS) is not None) is is_read, name


def test_a_run_takes_the_scores_of_its_parts_with_it(place: Path, run: Run, scores: Any) -> None:
    Store(place).delete(run.id)
    assert scores.path.is_relative_to(place / PARTS / run.id) and not (place / PARTS / run.id).exists()


def test_what_was_interrupted_goes_on_where_it_stopped(place: Path, run: Run, ask: Ask) -> None:
    stored: list[bool] = []

    def logged(operation: str, **arguments: Any) -> dict[str, Any]:
        value = ask(operation, **arguments)
        stored.append(value["stored"])
        return value

    steps = scoring(run).steps(logged)
    for _ in range(3):
        next(steps)
    done = len(stored)
    whole = rows_of(scoring(run), logged)
    assert stored[:done] == [False] * done and stored[done : done + 4] == [True, True, True, False]
    pd.testing.assert_frame_equal(whole, rows_of(scoring(run), asking(place, run)))


def test_passes_are_counted_before_they_are_made(run: Run, ask: Ask) -> None:
    plan = scoring(run, draws=2)
    assert len(rows_of(plan, ask)[PASS].drop_duplicates()) <= plan.passes == 2 + len(plan.parts) * 2 * 3


def test_what_cannot_be_scored_is_said(run: Run) -> None:
    with pytest.raises(BadInput, match=r"random controls must be 0\.\.100; got -1"):
        scoring(run, draws=-1)


def test_the_torch_free_table_is_the_pairs_own(run: Run, pair: ModelPair) -> None:
    table = parameter_table(run.record, run.region())
    assert (table.shapes, table.heads) == (table_of(pair.model).shapes, pair.table.heads)
