"""Tests of the lottery control: the rest is zero, every reader says so, and it is not exported as a graft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.plots.theme import localizer_style
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.selfcheck import ends_check
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of


@pytest.fixture(scope="module")
def shared() -> Session:
    """Return a session that several runs of one pair share."""
    return Session()


@pytest.fixture(scope="module")
def control(world: Path, shared: Session, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished lottery run of two sizes."""
    spec = spec_of(world, localizer="lottery", sizes=("50%", "90%"), steps=3, batch_size=16)
    return produce(spec, Store(tmp_path_factory.mktemp("control")), session=shared)


def test_it_says_that_it_is_a_control(control: Run) -> None:
    record = control.record
    assert any("A control" in note and "zero" in note and "'pre-trained'" in note for note in record.notes)
    ends = next(check for check in record.checks if check.name == "ends")
    assert ends.passed and "zero in every graftable entry (a control)" in ends.detail
    assert "gives the base" not in ends.detail
    assert Region.header(control.path / "region.safetensors")["rest"] == "zero"
    assert localizer_style("lottery").title.endswith("(control: the rest is zero)")


def test_it_recovers_no_gain(control: Run) -> None:
    """A share of the gain from the zeroed model would be read as a share from the pre-trained model."""
    assert all(scores.recovered is None and scores.agreement for scores in control.record.metrics.values())
    assert set(control.curve()["size"]) == set(control.record.sizes) and len(control.record.sizes) == 2
    assert "recovered" not in set(control.curve()["metric"])


def test_an_ordinary_run_says_nothing_of_it(world: Path, shared: Session, control: Run, store: Store) -> None:
    """This holds even in a session that just made a control: the two never share a base."""
    run = produce(spec_of(world), store, session=shared)
    alone = produce(spec_of(world, seed=1), store, session=Session())
    assert run.record.metrics["test"].states["pretrained"] == alone.record.metrics["test"].states["pretrained"]
    assert "rest" not in Region.header(run.path / "region.safetensors")
    assert not any("control" in note for note in run.record.notes)
    assert run.record.metrics["test"].recovered is not None and "recovered" in set(run.curve()["metric"])
    assert "gives the base" in next(c.detail for c in run.record.checks if c.name == "ends")
    assert all(check.passed for check in run.record.checks)
    assert run.record.metrics["test"].states["finetuned"] == control.record.metrics["test"].states["finetuned"]


def test_its_states_are_those_of_the_zeroed_model(world: Path, shared: Session, control: Run) -> None:
    spec = control.spec
    own = load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu")
    test = shared.encoded(spec)["test"]
    region = torch.from_numpy(control.region().flat())
    rows = control.predictions()
    rows = rows[rows["split"] == "test"]
    for state, inside in (("pretrained", None), ("grafted", region)):
        theta = torch.zeros_like(own.base)
        if inside is not None:
            theta[inside] = own.finetuned[inside]
        own.flat.theta.copy_(theta)
        wanted = own.objective(test).logits()
        stored = rows[rows["state"] == state]
        columns = [c for c in stored.columns if c.startswith("logit")]
        np.testing.assert_array_equal(stored[columns].to_numpy(np.float32), wanted)
    own.flat.theta.copy_(own.base)


def test_embeddings_and_head_are_kept(world: Path) -> None:
    spec = spec_of(world)
    pair = load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu", rest="zero")
    plain = load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu")
    assert not pair.base.any() and not pair.flat.theta.any() and pair.rest == "zero"
    assert torch.equal(pair.finetuned, plain.finetuned) and plain.base.any()
    other = dict(plain.model.named_parameters())
    for name, parameter in pair.model.named_parameters():
        if name not in pair.table.names:
            assert torch.equal(parameter, other[name]), name
    with pytest.raises(BadInput, match="allowed: base, zero"):
        load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu", rest="mean")


def test_a_wrong_end_is_caught(world: Path, shared: Session) -> None:
    spec = spec_of(world, localizer="lottery")
    pair = load_pair(spec.base, spec.finetuned, task=spec.task, device="cpu", rest="zero")
    few = shared.encoded(spec)["test"]
    assert ends_check(pair, few).passed
    pair.base[0] = 1.0
    pair.flat.theta[0] = 1.0
    assert not ends_check(pair, few).passed


def test_it_is_not_exported(control: Run, shared: Session) -> None:
    with pytest.raises(BadInput, match="a control .*cannot be exported"):
        graft_of_run(control)
    with pytest.raises(BadInput, match="cannot be exported"):
        shared.pair(control.spec).graft(control.region())


def test_its_ends_in_every_state_are_exact(control: Run, shared: Session) -> None:
    """The empty region is all zero, and the full one is the fine-tuned model."""
    pair, few = shared.pair(control.spec), shared.encoded(control.spec)["test"]
    full = Region.full(pair.table.shapes)
    with pair.at("grafted", Region.empty(full.shapes)):
        assert not pair.flat.theta.any()
    assert np.array_equal(predict(pair, few, "grafted", full), predict(pair, few, "finetuned"))


def test_keys_of_stored_runs_are_what_they_were() -> None:
    """New options are not part of a spec that does not set them."""
    spec = RunSpec(base="b", finetuned="f", task="sst2", localizer="movement")
    assert "within" not in spec.json_text() and "rest" not in spec.json_text()
