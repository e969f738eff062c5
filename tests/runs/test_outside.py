"""Tests of searches kept out of a stored region: exact, reported, and refused if a localizer cannot do it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.errors import BadInput, BadSize
from skillviz.models.null_pair import kept_out, null_pair
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of

SEARCH = {"localizer": "stagewise", "steps": 3, "batch_size": 16, "sizes": ("5%",), "nulls": "shuffled"}


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return produce(spec_of(world, **SEARCH), Store(tmp_path_factory.mktemp("runs")))


@pytest.mark.nightly
def test_a_run_and_its_nulls_stay_out_of_the_region_of_another(run: Run, world: Path) -> None:
    spec = spec_of(world, **SEARCH, outside=run.id)
    other = produce(spec, Store(run.root))
    assert other.region().size == run.region().size and (other.region() & run.region()).size == 0
    assert any("stays out of 222 entries" in note for note in other.record.notes)
    assert other.region_header()["made_of"][0]["run"] == run.id
    assert other.record.nulls and f"--outside '{spec.outside}'" in spec.command()
    assert "outside" in spec.search_fields()


@pytest.mark.parametrize("lean", [False, True])
def test_only_the_entries_that_are_left_out_lose_their_movement(run: Run, world: Path, lean: bool) -> None:
    pair = Session().pair(spec_of(world, **SEARCH, lean=lean, dtype="own" if lean else "float32"))
    region = run.region()
    for moved in (pair, null_pair(pair, "shuffled", 0)):
        out = kept_out(moved, region)
        index = torch.arange(pair.d)
        before, after = (
            one.movement.of(number, one.base[span], one.finetuned[span])
            for number in (0,)
            for one, span in ((moved, index[: pair.table.offsets[1]]), (out, index[: pair.table.offsets[1]]))
        )
        inside = region.mask(pair.table.names[0]).reshape(-1)
        assert not after[inside].any() and torch.equal(after[~inside], before[~inside])
        assert torch.equal(out.finetuned[index][np.setdiff1d(index, region.flat())],
                           moved.finetuned[index][np.setdiff1d(index, region.flat())])  # fmt: skip


def test_what_cannot_be_kept_out_is_refused(run: Run, world: Path) -> None:
    with pytest.raises(BadInput, match="the localizer 'random' does not choose entries by their movement"):
        produce(spec_of(world, localizer="random", outside=run.id), Store(run.root))
    with pytest.raises(BadSize, match=r"4,448 entries were requested, and 4,226 are outside"):
        produce(spec_of(world, outside=run.id, sizes=("100%",)), Store(run.root))
    with pytest.raises(BadInput, match="'outside' of the run cannot be used: .* not a part of a region expression"):
        read_spec({**spec_of(world).model_dump(exclude_unset=True), "outside": '{"layer": [0]}'})
    assert RunSpec(base="a", finetuned="b", task="c", outside={"run": "r"}).outside == '{"run":"r"}'
