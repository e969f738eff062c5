"""Tests of a run in lean mode: the region of the ordinary mode, stored with a spec that says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from skillviz.core.localizers.table import LEAN_CANDIDATES, LOCALIZERS
from skillviz.errors import BadInput
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.plan import options_of
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of

FEW = {"steps": 3, "batch_size": 16}


@pytest.mark.slow
def test_a_lean_run_is_the_ordinary_one(world: Path, store: Store) -> None:
    own = {"localizer": "stagewise", "sizes": ("5%", "1%"), "options": {"candidate_share": 0.2}, "interpolation": True}
    ordinary = produce(spec_of(world, **own, **FEW), store)
    lean = produce(spec_of(world, **own, **FEW, lean=True, dtype="own"), store)
    assert lean.region() == ordinary.region() and (lean.ranking() == ordinary.ranking()).all()
    assert store.verify(lean.id) == [] and all(check.passed for check in lean.record.checks), lean.record.checks
    for table in ("predictions", "curve", "layers", "interpolation", "complement"):
        assert getattr(lean, table)().equals(getattr(ordinary, table)()), table
    assert lean.record.metrics == ordinary.record.metrics
    (graft, _), (other, _) = graft_of_run(lean), graft_of_run(ordinary)
    assert graft.region == other.region
    assert all(torch.equal(graft.values[name], other.values[name]) for name in graft.region.indices)
    assert "--lean --dtype own" in lean.spec.command() or "--dtype own --lean" in lean.spec.command()


@pytest.mark.slow
def test_a_lean_search_resumes_where_it_stopped(world: Path, store: Store) -> None:
    spec = spec_of(world, localizer="frank-wolfe", lean=True, dtype="own", steps=4, batch_size=16)
    whole = produce(spec, Store(store.root / "whole"))
    stopped = store.create(spec, size=222, task="tiny")

    def stop(progress: object) -> None:
        if getattr(progress, "phase", "") == "search" and getattr(progress, "done", 0) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_on(stopped, stop)
    stopped.reopen()
    resumed = carry_on(stopped)
    assert (resumed.ranking() == whole.ranking()).all() and len(resumed.history()) == 4


def test_candidates_are_fewer_unless_chosen() -> None:
    spec = RunSpec(base="a", finetuned="b", task="c", lean=True)
    row = LOCALIZERS["stagewise"]
    assert options_of(spec, row)[0].candidate_share == LEAN_CANDIDATES
    chosen = spec.model_copy(update={"options": {"candidate_share": 0.3}})
    assert options_of(chosen, row)[0].candidate_share == 0.3
    assert options_of(spec.model_copy(update={"lean": False}), row)[0] == row.options()
    options_of(spec, LOCALIZERS["movement"])  # movement has no candidates


def test_keys_of_other_runs_stay() -> None:
    spec = RunSpec(base="a", finetuned="b", task="c")
    assert "lean" not in json.loads(spec.json_text()) and spec.key() != spec.model_copy(update={"lean": True}).key()


@pytest.mark.parametrize("name", [name for name, row in LOCALIZERS.items() if not row.lean])
def test_a_localizer_of_whole_vectors_is_refused(world: Path, store: Store, name: str) -> None:
    with pytest.raises(BadInput, match="stagewise.*frank-wolfe.*movement") as refused:
        produce(spec_of(world, localizer=name, lean=True), store)
    assert name in str(refused.value) and not list(store.list())
