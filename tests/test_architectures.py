"""Every family of the table, tiny: preflight, localize, export and apply; and its line of docs/architectures.md."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from skillviz.core.architectures import FAMILIES, KINDS, OTHER
from skillviz.core.graft import Graft
from skillviz.models.applied import applied, save_applied
from skillviz.models.load import load_model
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from skillviz.plots.region import region_map
from skillviz.runs.export import ExportRequest, export
from skillviz.runs.produce import produce
from skillviz.runs.run import parameter_table
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks import registry
from tests.scripts import ROOT, script
from tests.tiers import first
from tests.tiny import tiny_rows, tiny_task
from tests.tiny_families import family_pair

USUAL = ("deberta", "albert", "modernbert", "phi3", "falcon", "mixtral", "bart", "t5")
"""One of each thing that a name does not tell: fused by head and in turn, shared, grouped, experts, two stacks."""


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return script("docs/architectures.py")


@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__))
def test_a_family_from_preflight_to_apply(family: str, page: ModuleType, tmp_path: Path) -> None:
    base, finetuned = family_pair(tmp_path, family)
    task = registry.task(str(tiny_task(tmp_path / "task", rows=16)))
    check = preflight(base, finetuned, task)
    assert check.fits, check.problems
    pair = load_pair(base, finetuned, device="cpu")
    assert pair.d == check.d and pair.table.known
    assert not pair.outside, "the twin moved in the blocks alone, and all of them are graftable"

    spec = RunSpec(
        base=str(base), finetuned=str(finetuned), task=str(tmp_path / "task" / "task.yaml"), localizer="stagewise",
        sizes=("5%",), steps=2, batch_size=8, device="cpu",
    )  # fmt: skip
    run = produce(spec, Store(tmp_path / "runs"))
    assert parameter_table(run.record, run.region()) == pair.table  # what pages know of it without its models
    layers = run.layers()
    assert set(layers["kind"]) == {kind for p in pair.table.parameters for kind in p.kinds} <= set(KINDS)
    assert layers["selected"].sum() == run.region().size and layers["total"].sum() == pair.d
    region_map(layers)

    export(run, ExportRequest("graft", "graft.safetensors"), tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    result = applied(base, graft)
    save_applied(result, tmp_path / "applied")
    inputs = sentences(tmp_path / "applied")
    with torch.no_grad():
        with pair.at("grafted", run.region()):
            wanted = pair.model(**inputs).logits.clone()
        with pair.at("pretrained"):
            assert not torch.equal(pair.model(**inputs).logits, wanted)
        again = load_model(tmp_path / "applied", check.readout, torch.float32)
        assert not again.made_up
        assert torch.equal(again.model(**inputs).logits, wanted)
    assert page.row(family, type(pair.model).__name__, pair.table) in page.PAGE.read_text().splitlines(), (
        "docs/architectures.md is out of date: run python docs/architectures.py"
    )


def sentences(folder: Path) -> dict[str, Any]:
    """Four padded sentences."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [row["text"] for row in tiny_rows(4, seed=5)]
    return dict(tokenizer(texts, padding=True, return_tensors="pt"))
