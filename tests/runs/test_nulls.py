"""Tests of a run's nulls: the same search on null movements, stored with its predictions, resumed, and reported."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pandas as pd
import pytest
import torch

from skillviz.core.localizers.record import followed
from skillviz.core.localizers.table import EXPRESSION, LOCALIZERS
from skillviz.core.nulls import NULLS, beyond_null
from skillviz.core.region import Region
from skillviz.core.scores import correct
from skillviz.errors import BadInput
from skillviz.models.null_pair import null_pair
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.runs import nulls
from skillviz.runs import produce as production
from skillviz.runs.folder import RunFolder
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.plan import planned
from skillviz.runs.produce import produce
from skillviz.runs.record import Estimate
from skillviz.runs.spec import RunSpec, usual_nulls
from skillviz.runs.store import Store, library
from skillviz.runs.tables import score_matrix
from skillviz.runs.wise import on_path
from skillviz.show import beyond
from skillviz.show.finding import finding
from tests.runs.test_checkpoint import resumed
from tests.runs.tiny_world import Run, Session, failed_checks, spec_of


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    spec = spec_of(world, localizer="stagewise", steps=3, batch_size=16, nulls="all", null_draws=2)
    return produce(spec, Store(tmp_path_factory.mktemp("nulls")))


def logits_of(run: Run, kind: str, draw: int) -> np.ndarray:
    return score_matrix(run.nulls().query("null == @kind and draw == @draw and split == 'test'"), run.labels)


def test_every_draw_is_stored_with_its_predictions(run: Run) -> None:
    notes = run.record.nulls
    assert [(note.kind, note.draws) for note in notes] == list(zip(NULLS, (2, 1, 2, 1), strict=True))
    found = run.nulls().groupby(["null", "draw"])["split"].agg(set).to_dict()
    assert found == {(note.kind, draw): {"validation", "test"} for note in notes for draw in range(note.draws)}
    assert [note.sizes for note in notes] == [(run.record.size,) * note.draws for note in notes]
    assert [note.true_signs is not None for note in notes] == [row.has_signs for row in NULLS.values()]


def test_beyond_is_the_graft_less_its_nulls(run: Run) -> None:
    _, labels, own = run.logits("grafted")
    right = np.array([correct(logits_of(run, "shuffled", draw), labels) for draw in (0, 1)], dtype=float)
    found = run.record.nulls[0].beyond["test"]["accuracy"]
    assert (found.value, found.low, found.high) == pytest.approx(tuple(beyond_null(correct(own, labels), right)[:3]))


def test_a_null_is_the_same_search_on_the_null_movement(run: Run) -> None:
    session = Session()
    pair, data = session.pair(run.spec), session.encoded(run.spec)
    moved, plan = null_pair(pair, "shuffled", 1), planned(run.spec, session, library(run.path.parent))
    problem, options, _ = production.problem_of(plan, moved, data)
    search = plan.row.search(problem, run.record.size, seed=run.spec.seed, options=options)
    order = followed(search, lambda step: None).order
    problem.reset()
    region = Region.from_flat(np.sort(order[: run.record.size]), pair.table.shapes)
    assert np.array_equal(logits_of(run, "shuffled", 1), predict(moved, data["test"], "grafted", region))


def test_learned_signs_are_those_of_the_search(run: Run) -> None:
    session = Session()
    pair, data = session.pair(run.spec), session.encoded(run.spec)
    plan = planned(run.spec, session, library(run.path.parent))
    moved, region = nulls.null_graft(
        pair, data, partial(production.problem_of, plan), plan, ("learned-signs", 0), lambda step: None
    )
    tau, change = ((one.finetuned - pair.base)[region.flat()] for one in (pair, moved))
    assert torch.allclose(change.abs(), tau.abs(), atol=1e-6)
    assert {-1.0, 1.0} <= set(change.sign().tolist()), "both signs are chosen"
    (note,) = (note for note in run.record.nulls if note.kind == "learned-signs")
    assert note.true_signs == pytest.approx(float((change.sign() == tau.sign()).float().mean()))
    stored = logits_of(run, "learned-signs", 0)
    assert np.array_equal(stored, predict(moved, data["test"], "grafted", region))
    upward = null_pair(pair, "learned-signs", 0)
    assert not np.array_equal(stored, predict(upward, data["test"], "grafted", region)), "signs left out would pass"


def test_which_localizers_have_a_null() -> None:
    without = {"random", "random-matched", EXPRESSION, "biases", "layers", "kinds", "dare", "lottery"}
    assert {row.name for row in LOCALIZERS.values() if not row.has_null} == without
    spec = RunSpec(base="a", finetuned="b", task="sst2", nulls="all", null_draws=2)
    kinds = {
        name: {kind for kind, _ in spec.model_copy(update={"localizer": name}).null_searches} for name in LOCALIZERS
    }
    assert {name for name, found in kinds.items() if not found} == without
    assert kinds["stagewise"] == set(NULLS) and kinds["movement"] == set(NULLS) - {"learned-signs"}


def test_the_finding_says_what_the_null_does(run: Run) -> None:
    told, record = beyond.line(run.record, "test"), run.record
    without = record.model_copy(update={"nulls": ()})
    control = record.model_copy(update={"spec": run.spec.model_copy(update={"localizer": "random"})})
    for words in ("2 draws", "shuffled movements", "nats"):
        assert words in told
    assert told.replace("**", "") in finding(run)
    assert [beyond.line(one, "test") for one in (without, control)] == ["Beyond the null: not measured.", ""]
    assert "--nulls" not in beyond.command(without), "the command makes a null by itself"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (Estimate(value=0.9, low=0.8, high=1.0), ["brings back **90%** of the gain", "**51%**"]),
        (Estimate(value=None), []),
    ],
    ids=["measured", "undefined"],
)
def test_a_share_is_said_only_of_a_gain(run: Run, share: Estimate, words: list[str]) -> None:
    states = {"test": {**run.record.nulls[0].states["test"], "recovered": Estimate(value=0.51)}}
    note = run.record.nulls[0].model_copy(update={"states": states})
    scores = {"test": run.record.metrics["test"].model_copy(update={"recovered": share})}
    said = beyond.sentence(run.record.model_copy(update={"metrics": scores, "nulls": (note,)}), "test")
    assert [one for one in words if one not in said] == [] and ("of the gain" in said) == bool(words)


def test_verdicts_are_of_the_interval() -> None:
    ends = {
        (0.01, 0.05): "better", (-0.05, -0.01): "worse", (-0.01, 0.05): "no clear difference",
        (None, None): "not measured",
    }  # fmt: skip
    assert {end: beyond.verdict(Estimate(value=0.02, low=end[0], high=end[1])) for end in ends} == ends


def test_another_run_of_the_same_search_lends_its_null(run: Run) -> None:
    quick = run.record.model_copy(update={"nulls": (), "run_id": "quick"})
    movement = run.spec.model_copy(update={"localizer": "movement"})
    assert beyond.stored_beside(quick, [run.record]) is beyond.stored_beside(run.record, []) is run.record
    for other in ({"size": 7}, {"readout": "prompt"}, {"spec": movement}):
        assert beyond.stored_beside(quick.model_copy(update=other), [run.record]) is None, other


@pytest.mark.slow
def test_a_resumed_run_takes_the_draws_it_has(world: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(world, nulls="all", null_draws=2)
    whole = produce(spec, Store(store.root.parent / "whole"))
    first = Mock(wraps=nulls.searched_null, side_effect=[DEFAULT, DEFAULT, KeyboardInterrupt])
    monkeypatch.setattr(production, "searched_null", first)
    with pytest.raises(KeyboardInterrupt):
        produce(spec, store)
    second = Mock(wraps=nulls.searched_null)
    monkeypatch.setattr(production, "searched_null", second)
    (cut_short,) = store.unfinished()
    run = resumed(RunFolder(cut_short.path))
    began, rest = ([call.args[4] for call in calls.call_args_list] for calls in (first, second))
    assert began[:2] == [("shuffled", 0), ("shuffled", 1)]
    assert rest[:3] == [("reversed", 0), ("signs", 0), ("signs", 1)], "the first two were kept"
    assert run.record.nulls == whole.record.nulls
    pd.testing.assert_frame_equal(run.nulls(), whole.nulls())


@pytest.mark.parametrize(("name", "options"), [("random", {}), ("lottery", {"steps": 2})])
def test_controls_have_no_null(world: Path, store: Store, name: str, options: dict[str, int]) -> None:
    run = produce(spec_of(world, localizer=name, nulls="shuffled", **options), store)
    assert run.record.nulls == () and not (run.path / "nulls.parquet").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "--nulls none"), ({"nulls": "all"}, "--nulls all"),
        ({"nulls": usual_nulls("stagewise")}, None), ({"localizer": "random"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_the_command_names_the_nulls_that_it_would_not_make_by_itself(
    changes: dict[str, Any], words: str | None
) -> None:
    spec = RunSpec(base="a", finetuned="b", task="sst2").model_copy(update=changes)
    assert ("null" in spec.command(), "nulls=" in spec.python()) == (bool(words),) * 2
    assert words is None or words in spec.command()


def test_a_run_cut_while_its_nulls_are_searched_keeps_its_history(
    world: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(production, "searched_null", Mock(side_effect=KeyboardInterrupt))
        produce(spec_of(world, localizer="stagewise", steps=3, nulls="shuffled"), store)
    (cut_short,) = store.unfinished()
    assert len(resumed(RunFolder(cut_short.path)).history()) == 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rescaled_values_keep_the_expected_sum_and_their_ends_are_exact(world: Path, dtype: str) -> None:
    files = {"base": world / "base", "finetuned": world / "finetuned", "task": world / "task.yaml"}
    pair = load_pair(**files, device="cpu", dtype=dtype, rescaled=True)
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    for size in (1, 30, pair.d // 2):
        region = Region.from_flat(np.arange(size) * (pair.d // size), pair.table.shapes)
        entries = torch.from_numpy(region.flat())
        wanted = pair.base.clone()
        for i in entries.tolist():
            movement = float(pair.finetuned[i]) - float(pair.base[i])
            wanted[i] = float(pair.base[i]) + movement * pair.d / size
        with pair.at("grafted", region):
            inside = pair.flat.theta.clone()
        torch.testing.assert_close(inside, wanted, rtol=1e-5 if dtype == "float32" else 1e-2, atol=1e-6)
        assert not torch.equal(inside[entries], pair.finetuned[entries])
        with on_path(pair, "wise-graft", 1.0, region):
            assert torch.equal(pair.flat.theta, inside)
        with pair.at("complement", region):
            assert torch.equal(pair.flat.theta[entries], pair.base[entries])
    for region, end in ((empty, pair.base), (full, pair.finetuned)):
        with pair.at("grafted", region):
            assert torch.equal(pair.flat.theta, end)
    with pytest.raises(BadInput, match="a control .*cannot be exported"):
        pair.graft(empty)


@pytest.mark.nightly
def test_a_rescaled_run_scores_its_values_and_does_not_share_its_pair(world: Path, store: Store) -> None:
    session, random = Session(), {"localizer": "random"}
    drawn, run, again = (
        produce(spec_of(world, sizes=("10%", "30%"), **changes), store, session=session)
        for changes in (random, {"localizer": "dare"}, {**random, "seed": 1})
    )
    assert run.region() == drawn.region() and run.record.sizes == drawn.record.sizes
    assert [failed_checks(one) for one in (run, again)] == [[], []]
    assert run.region_header()["rescaled"] is True and "rescaled" not in again.region_header()
    assert any("not the fine-tuned ones" in note for note in run.record.notes)
    for state in ("pretrained", "finetuned", "complement", "grafted"):
        for split in ("validation", "test"):
            is_same = np.array_equal(run.logits(state, split)[2], drawn.logits(state, split)[2])
            assert is_same == (state != "grafted"), (state, split)
    pair = load_pair(run.spec.base, run.spec.finetuned, task=run.spec.task, device="cpu", rescaled=True)
    logits = predict(pair, session.encoded(run.spec)["test"], "grafted", run.region())
    np.testing.assert_allclose(logits, run.logits("grafted")[2], rtol=1e-6, atol=1e-7)
    assert run.curve()["value"].notna().any() and run.record.metrics["test"].recovered is not None
    with pytest.raises(BadInput, match="cannot be exported"):
        graft_of_run(run)
