"""Tests of a search that matches the fine-tuned model's outputs: its targets in a run, its nulls and other regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.scores import probabilities
from skillviz.errors import BadInput
from skillviz.models.predict import predict
from skillviz.runs import other_regions, produce
from skillviz.runs.other_regions import OtherRegions
from skillviz.runs.part_scores import DISJOINT
from skillviz.runs.plan import planned, refused_options
from skillviz.runs.session import Session
from skillviz.runs.store import Library, Store
from skillviz.tasks import registry
from tests.runs.tiny_world import spec_of


def test_the_run_its_nulls_and_other_regions_match_the_fine_tuned_model_and_not_the_labels(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"match": "outputs"}
    spec = spec_of(world, localizer="stagewise", steps=3, batch_size=16, options=options, nulls="shuffled")
    session = Session()
    plan, pair = planned(spec, session, Library(())), session.pair(spec)
    wanted = probabilities(predict(pair, session.encoded(spec)["train"], "finetuned"))
    seen, orders = [], []
    problem_of = produce.problem_of

    def watched(*args):  # type: ignore[no-untyped-def]
        seen.append(args[2]["train"].targets)
        return problem_of(*args)

    for module in (produce, other_regions):
        monkeypatch.setattr(module, "problem_of", watched)
    run = produce.made(plan, session, Store(tmp_path), lambda progress: None)
    orders.append(run.region().flat())
    OtherRegions(run, Store(tmp_path), sample=20, told=lambda text: None).find(DISJOINT)
    assert len(seen) == 4 and all(np.array_equal(targets, wanted) for targets in seen)

    data = session.encoded(spec)
    data["train"] = replace(data["train"], labels=1 - data["train"].labels)
    again = produce.made(plan, session, Store(tmp_path / "other"), lambda progress: None).region().flat()
    assert np.array_equal(orders[0], again)
    on_labels = produce.produce(spec.model_copy(update={"options": {}}), Store(tmp_path / "labels")).region().flat()
    assert not np.array_equal(on_labels, again), "a search on labels would pass"


def test_a_task_with_references_has_no_outputs_to_match(world: Path) -> None:
    spec = spec_of(world, localizer="stagewise", options={"match": "outputs"})
    options = LOCALIZERS["stagewise"].make_options(spec.options)
    refused = refused_options(options, SimpleNamespace(kind="generation"), False)
    assert isinstance(refused, BadInput) and "match=outputs" in str(refused)
    assert refused_options(options, registry.task(str(world / "task.yaml")), False) is None
