"""Tests of the folder for mergekit: its recipe, computed by mergekit's documentation, gives the grafted model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from skillviz.core.region import Region
from skillviz.models.applied import applied, opened_base
from skillviz.models.fetch import hub_name
from skillviz.models.pair import load_pair
from skillviz.runs.export import write_mergekit
from tests.hub import COMMIT
from tests.reference.task_arithmetic import merged
from tests.tiny import tiny_pair


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("gpt2", "causal"), ("llama", "head")]
)
def test_the_recipe_gives_the_grafted_model(tmp_path, family, readout):
    base, tuned = tiny_pair(tmp_path, family, readout)
    pair = load_pair(base, tuned, device="cpu")
    graft = pair.graft(Region.from_flat(np.random.default_rng(0).permutation(pair.d)[:200], pair.table.shapes))
    out = tmp_path / "mergekit"
    out.mkdir()
    assert write_mergekit(out, opened_base(base, graft), graft) == "./base"
    result, before, after = merged(out), *(load_file(out / name / "model.safetensors") for name in ("base", "graft"))
    assert result.keys() == before.keys() == after.keys()
    # base + (graft - base) rounds twice.
    for name, tensor in after.items():
        torch.testing.assert_close(result[name], tensor, rtol=2.0**-22, atol=2.0**-24, msg=name)
    places = {name: torch.from_numpy(indices.copy()) for name, indices in graft.region.indices.items()}
    for name, tensor in after.items():
        moved = (tensor != before[name]).flatten().nonzero()[:, 0]
        assert set(moved.tolist()) <= set(places.get(name, torch.empty(0)).tolist()), name
    assert sum(int((after[name] != before[name]).sum()) for name in places) > 50
    whole = applied(base, graft).model.state_dict()
    assert all(torch.equal(whole[name], tensor) for name, tensor in after.items())
    # The task vector matters: without it the recipe gives the base.
    recipe = yaml.safe_load((out / "mergekit.yml").read_text())
    recipe["parameters"]["lambda"] = 0.0
    (out / "mergekit.yml").write_text(yaml.safe_dump(recipe))
    assert all(torch.equal(tensor, before[name]) for name, tensor in merged(out).items())


def test_a_base_of_the_hub_is_named_and_not_written(tmp_path):
    """In the hub's cache, a masked language model has the grafted model's tensors; a bare encoder does not."""
    for readout, named in (("prompt", True), ("head", False)):
        folder = tmp_path / readout
        base, tuned = tiny_pair(folder, "roberta", readout)
        snapshot = folder / "models--some--encoder" / "snapshots" / COMMIT
        shutil.copytree(base, snapshot)
        assert hub_name(snapshot) == ("some/encoder", COMMIT)
        pair = load_pair(snapshot, tuned, device="cpu")
        graft = pair.graft(Region.from_flat(np.arange(50), pair.table.shapes))
        out = folder / "mergekit"
        out.mkdir()
        told = write_mergekit(out, opened_base(snapshot, graft), graft)
        assert told == (f"some/encoder@{COMMIT}" if named else "./base")
        assert (out / "base").exists() is not named
        assert yaml.safe_load((out / "mergekit.yml").read_text())["base_model"] == told
