"""Tests of runs kept out of a region and of other regions beside a run: exact, stored singly, resumed, reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz.analysis.other_regions import as_good, other_regions
from skillviz.core.nulls import beyond_null
from skillviz.core.region import Region
from skillviz.core.scores import correct
from skillviz.errors import BadInput, BadSize
from skillviz.models.null_pair import kept_out, null_pair
from skillviz.runs.other_regions import OtherRegions
from skillviz.runs.part_scores import ADVERSARIAL, CONTROL, DISJOINT, MINIMAL, REGIONS, SEARCHED
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.runs.store import Store
from skillviz.runs.tables import score_matrix
from skillviz.show import other_regions as shown
from tests.runs.tiny_world import spec_of

SEARCH = {"localizer": "stagewise", "steps": 3, "batch_size": 16, "sizes": ("5%",), "nulls": "shuffled"}


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return produce(spec_of(world, **SEARCH), Store(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def beside(run: Run) -> OtherRegions:
    found = OtherRegions(run, Store(run.root), sample=20, told=lambda text: None)
    found.find(DISJOINT, 2, 2)
    found.find(MINIMAL, 1, 2)
    found.find(ADVERSARIAL, 1, 2)
    return found


def test_disjoint_regions_share_nothing_and_each_has_its_nulls(beside: OtherRegions) -> None:
    known = beside.known
    assert known is not None
    regions = [beside.region.flat(), *known.entries(DISJOINT)]
    assert [len(flat) for flat in regions] == [beside.region.size] * 3
    assert len(np.unique(np.concatenate(regions))) == 3 * beside.region.size
    rows = known.predictions()
    rows = rows[rows["kind"] == DISJOINT]
    assert set(zip(rows["head"], rows["condition"], rows["draw"], strict=True)) == {
        (number, condition, draw)
        for number in (1, 2)
        for condition, draw in ((SEARCHED, 0), (CONTROL, 1), (CONTROL, 2))
    }
    assert rows["example_id"].nunique() == 20 == known.record.n
    assert Store(beside.run.root).verify(beside.run.id) == []


def test_the_part_that_suffices_has_no_higher_loss_on_the_half_that_decides(beside: OtherRegions) -> None:
    known = beside.known
    assert known is not None
    (kept,), facts = known.entries(MINIMAL), known.record.facts["minimal 1"]
    assert np.isin(kept, beside.region.flat()).all() and len(kept) < beside.region.size
    assert facts["loss_kept"] <= facts["loss"]


def test_what_hurts_lies_outside_and_hurts_more_than_random(beside: OtherRegions) -> None:
    known = beside.known
    assert known is not None
    (worst,) = known.entries(ADVERSARIAL)
    assert len(worst) == beside.region.size and not np.isin(worst, beside.region.flat()).any()
    table = other_regions(beside.run, known)
    row = table[(table["kind"] == ADVERSARIAL) & (table["measure"] == "nll")].iloc[0]
    assert row["less"] < 0 and row["beyond"] < 0 and row["draws"] == 2


def test_what_is_stored_is_not_searched_again_and_more_go_on_from_there(
    beside: OtherRegions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use a copy of the store, because other tests read the original."""
    told: list[str] = []
    store = Store(shutil.copytree(beside.run.root, tmp_path / "copy"))
    again = OtherRegions(store.open(beside.run.id), store, sample=20, told=told.append)
    again.find(DISJOINT, 2, 2)
    assert not told
    monkeypatch.setattr(again, "disjoint", lambda there, draws: (np.arange(len(there)), [], {}))
    found = again.find(DISJOINT, 3)
    assert "disjoint 3: searching" in told and found.entries(DISJOINT)[2].tolist() == [0, 1]
    assert set(found.record.facts) == {"disjoint 1", "disjoint 2", "disjoint 3", "minimal 1", "adversarial 1"}
    assert OtherRegions(store.open(beside.run.id), store, sample=10).known is None, "of another sample"


def test_the_table_is_the_difference_of_grafts_and_nulls_by_hand(beside: OtherRegions) -> None:
    known, run = beside.known, beside.run
    assert known is not None
    rows, own, nulls = known.predictions(), run.predictions(), run.nulls()
    ids = list(dict.fromkeys(rows["example_id"]))

    def right(frame: pd.DataFrame) -> np.ndarray:
        frame = frame.set_index("example_id").loc[ids]
        return correct(score_matrix(frame, run.labels), frame["label"].to_numpy()).astype(float)

    first = rows[(rows["kind"] == DISJOINT) & (rows["head"] == 1)]
    graft = right(first[first["condition"] == SEARCHED])
    drawn = [right(first[first["draw"] == draw]) for draw in (1, 2)]
    own_graft = right(own[(own["state"] == "grafted") & (own["split"] == "test")])
    own_null = right(nulls[(nulls["draw"] == 0) & (nulls["split"] == "test")])
    table = other_regions(run, known)
    row = table[(table["kind"] == DISJOINT) & (table["number"] == 1) & (table["measure"] == "accuracy")].iloc[0]
    beyond = beyond_null(graft, drawn)
    assert (row["beyond"], row["low"], row["high"]) == pytest.approx(tuple(beyond[:3]), nan_ok=True)
    assert row["less"] == pytest.approx(((graft - drawn[0]) - (own_graft - own_null)).mean())
    assert row["less"] != pytest.approx((graft - own_graft).mean()) or own_null.mean() == drawn[0].mean()
    text = shown.table(table)
    assert text["region"].tolist()[:2] == ["this region", "disjoint 1"]
    said = "\n".join(shown.finding(table, run.record, known.record.facts))
    assert "of this size" in said and "of the region suffices" in said and "that hurt most" in said


def test_a_region_does_as_well_where_it_is_beyond_its_null_and_not_clearly_less() -> None:
    rows = [
        {"kind": DISJOINT, "number": number, "measure": measure, "low": low, "less": 0.0, "less_high": high}
        for number, cases in enumerate([[(0.1, 0.2), (0.1, 0.0)], [(0.1, -0.1), (0.1, 0.1)], [(-0.1, 1), (1, 1)]], 1)
        for measure, (low, high) in zip(("accuracy", "nll"), cases, strict=True)
    ]
    assert as_good(pd.DataFrame(rows)) == [1]


def test_roles_of_cells_by_hand(run: Run) -> None:
    shapes = run.region().shapes
    name, other = [n for n in shapes if n.endswith("query.weight")][:2]
    one, two = Region({name: np.arange(10)}, shapes), Region({other: np.arange(10), name: np.arange(5)}, shapes)
    roles = shown.cell_roles(run, [one, two]).set_index(["layer", "kind"])["role"]
    assert roles[0, "query"] == shown.CORE and roles[1, "query"] == shown.CONTINGENT
    assert (roles == shown.NEVER).sum() == len(roles) - 2
    exhibit = shown.role_map(shown.cell_roles(run, [one, two]), 2, "light")
    assert "1 core, 1 contingent" in exhibit.finding


def test_stored_regions_are_kept_in_their_own_grouping(beside: OtherRegions) -> None:
    assert beside.known is not None and beside.known.path.name == REGIONS
    with pytest.raises(BadInput, match="has the gain 2"):
        record = beside.run.record.model_copy(update={"gains": ()})
        object.__setattr__(record, "gain", 2.0)
        OtherRegions(Run(beside.run.path, record), beside.store)
