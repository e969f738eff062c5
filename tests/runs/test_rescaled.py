"""Tests of a DARE run: its values are rescaled at every size, its ends are exact, and it is not exported as a graft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.produce import produce
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from skillviz.runs.wise import on_path
from tests.runs.tiny_world import spec_of


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_its_values_keep_the_expected_sum_and_its_ends_are_exact(world: Path, dtype: str) -> None:
    spec = spec_of(world)
    pair = load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu", dtype=dtype, rescaled=True)
    for size in (1, 30, pair.d // 2):
        region = Region.from_flat(torch.arange(size).numpy() * (pair.d // size), pair.table.shapes)
        entries = torch.from_numpy(region.flat())
        wanted = pair.base.clone()
        for i in entries.tolist():
            movement = float(pair.finetuned[i]) - float(pair.base[i])
            wanted[i] = float(pair.base[i]) + movement * pair.d / size
        with pair.at("grafted", region):
            torch.testing.assert_close(pair.flat.theta, wanted, rtol=1e-5 if dtype == "float32" else 1e-2, atol=1e-6)
            assert not torch.equal(pair.flat.theta[entries], pair.finetuned[entries])
            inside = pair.flat.theta.clone()
        with on_path(pair, "wise-graft", 1.0, region):
            assert torch.equal(pair.flat.theta, inside)
        with pair.at("complement", region):
            assert torch.equal(pair.flat.theta[entries], pair.base[entries])
    for region, end in ((Region.empty(pair.table.shapes), pair.base), (Region.full(pair.table.shapes), pair.finetuned)):
        with pair.at("grafted", region):
            assert torch.equal(pair.flat.theta, end)
    with pytest.raises(BadInput, match="a control .*cannot be exported"):
        pair.graft(Region.empty(pair.table.shapes))


@pytest.mark.nightly
def test_a_run_scores_them_and_does_not_share_its_pair(world: Path, store: Store) -> None:
    session = Session()
    drawn = produce(spec_of(world, localizer="random", sizes=("10%", "30%")), store, session=session)
    run = produce(spec_of(world, localizer="dare", sizes=("10%", "30%")), store, session=session)
    again = produce(spec_of(world, localizer="random", sizes=("10%", "30%"), seed=1), store, session=session)
    assert run.region() == drawn.region() and run.record.sizes == drawn.record.sizes
    assert all(check.passed for one in (run, again) for check in one.record.checks)
    assert Region.header(run.path / "region.safetensors")["rescaled"] is True
    assert "rescaled" not in Region.header(again.path / "region.safetensors")
    assert any("not the fine-tuned ones" in note for note in run.record.notes)
    states = run.predictions().set_index(["state", "split", "example_id"]).filter(like="logit_")
    others = drawn.predictions().set_index(["state", "split", "example_id"]).filter(like="logit_")
    for state in ("pretrained", "finetuned", "complement"):
        assert states.loc[state].equals(others.loc[state])
    assert not states.loc["grafted"].equals(others.loc["grafted"])
    spec = run.spec
    pair = load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu", rescaled=True)
    logits = predict(pair, session.encoded(spec)["test"], "grafted", run.region())
    np.testing.assert_allclose(logits, states.loc["grafted"].loc["test"], rtol=1e-6, atol=1e-7)
    assert run.curve()["value"].notna().any() and run.record.metrics["test"].recovered is not None
    with pytest.raises(BadInput, match="cannot be exported"):
        graft_of_run(run)
