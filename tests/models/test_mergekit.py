"""Tests of the folder for mergekit: its recipe, computed by mergekit's documentation, gives the grafted model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import yaml

from skillviz.core.graft import Graft
from skillviz.models.applied import applied, opened_base
from skillviz.models.fetch import hub_name
from skillviz.models.pair import load_pair
from skillviz.runs.export import write_mergekit
from tests.hub import COMMIT
from tests.models.examples import some_region
from tests.models.folders import differing, weights
from tests.reference.task_arithmetic import merged


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the empty folder to write."""
    folder = tmp_path / "mergekit"
    folder.mkdir()
    return folder


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("gpt2", "causal"), ("llama", "head")]
)
def test_the_recipe_gives_the_grafted_model(base: Path, graft: Graft, out: Path) -> None:
    assert write_mergekit(out, opened_base(base, graft), graft) == "./base"
    result, before, after = merged(out), weights(out / "base"), weights(out / "graft")
    # base + (graft - base) rounds twice.
    torch.testing.assert_close(result, after, rtol=2.0**-22, atol=2.0**-24)
    moved = {name: (after[name] != before[name]).flatten().nonzero()[:, 0].tolist() for name in before}
    outside = {name: {*places} - {*graft.region.indices.get(name, ())} for name, places in moved.items()}
    assert result.keys() == before.keys() and outside == {name: set() for name in before}
    assert sum(map(len, moved.values())) > 50
    whole = applied(base, graft).model.state_dict()
    assert not differing({name: whole[name] for name in after}, after)
    # The task vector matters: without it the recipe gives the base.
    recipe = yaml.safe_load((out / "mergekit.yml").read_text())
    recipe["parameters"]["lambda"] = 0.0
    (out / "mergekit.yml").write_text(yaml.safe_dump(recipe))
    assert not differing(merged(out), before)


@pytest.mark.parametrize("family", ["roberta"])
@pytest.mark.parametrize(("readout", "named"), [("prompt", True), ("head", False)])
def test_a_base_of_the_hub_is_named_and_not_written(
    base: Path, tuned: Path, out: Path, tmp_path: Path, named: bool
) -> None:
    """In the hub's cache, a masked language model has the grafted model's tensors; a bare encoder does not."""
    snapshot = Path(shutil.copytree(base, tmp_path / "models--some--encoder" / "snapshots" / COMMIT))
    pair = load_pair(snapshot, tuned, device="cpu")
    graft = pair.graft(some_region(pair, size=50))
    told = write_mergekit(out, opened_base(snapshot, graft), graft)
    assert told == (f"some/encoder@{COMMIT}" if named else "./base") and hub_name(snapshot) == ("some/encoder", COMMIT)
    assert (out / "base").exists() is not named
    assert yaml.safe_load((out / "mergekit.yml").read_text())["base_model"] == told
