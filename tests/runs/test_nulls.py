"""Tests of a run's nulls: the same search on null movements, stored with its predictions, resumed, and reported."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

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
from skillviz.runs.produce import carry_on, produce
from skillviz.runs.record import Estimate
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, read_spec, usual_nulls
from skillviz.runs.store import Store, library
from skillviz.runs.tables import score_matrix
from skillviz.runs.wise import on_path
from skillviz.show import beyond
from skillviz.show.finding import finding
from tests.runs.tiny_world import spec_of


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    spec = spec_of(world, localizer="stagewise", steps=3, batch_size=16, nulls="all", null_draws=2)
    return produce(spec, Store(tmp_path_factory.mktemp("nulls")))


def stored(run: Run) -> pd.DataFrame:
    return run.nulls()


def test_every_draw_is_stored_with_its_predictions(run: Run) -> None:
    found = stored(run).groupby(["null", "draw", "split"]).size().reset_index()
    assert set(found["null"] + found["draw"].astype(str)) == {
        "shuffled0", "shuffled1", "reversed0", "signs0", "signs1", "learned-signs0",
    }  # fmt: skip
    assert [note.kind for note in run.record.nulls] == list(NULLS)
    assert [note.draws for note in run.record.nulls] == [2, 1, 2, 1]
    assert all(note.sizes == (run.record.size,) * note.draws for note in run.record.nulls)
    assert [note.true_signs is not None for note in run.record.nulls] == [row.has_signs for row in NULLS.values()]


def test_beyond_is_the_graft_less_its_nulls(run: Run) -> None:
    labels = run.labels
    rows = run.predictions()
    own = rows[(rows["split"] == "test") & (rows["state"] == "grafted")]
    drawn = stored(run)
    drawn = drawn[(drawn["split"] == "test") & (drawn["null"] == "shuffled")]
    right = [correct(score_matrix(one, labels), one["label"].to_numpy()) for _, one in drawn.groupby("draw")]
    wanted = beyond_null(correct(score_matrix(own, labels), own["label"].to_numpy()), np.array(right, dtype=float))
    found = run.record.nulls[0].beyond["test"]["accuracy"]
    assert (found.value, found.low, found.high) == pytest.approx(tuple(wanted[:3]))


def test_a_null_is_the_same_search_on_the_null_movement(run: Run, world: Path) -> None:
    session = Session()
    pair, data = session.pair(run.spec), session.encoded(run.spec)
    moved = null_pair(pair, "shuffled", 1)
    plan = planned(run.spec, session, library(run.path.parent))
    problem, options, _ = production.problem_of(plan, moved, data)
    search = plan.row.search(problem, run.record.size, seed=run.spec.seed, options=options)
    while True:
        try:
            next(search)
        except StopIteration as end:
            order = end.value.order
            break
    problem.reset()
    region = Region.from_flat(np.sort(order[: run.record.size]), pair.table.shapes)
    wanted = predict(moved, data["test"], "grafted", region)
    rows = stored(run)
    rows = rows[(rows["null"] == "shuffled") & (rows["draw"] == 1) & (rows["split"] == "test")]
    assert np.array_equal(score_matrix(rows, run.labels), wanted)


def test_learned_signs_are_those_of_the_search(run: Run) -> None:
    session = Session()
    pair, data = session.pair(run.spec), session.encoded(run.spec)
    plan = planned(run.spec, session, library(run.path.parent))
    moved, region = nulls.null_graft(
        pair, data, partial(production.problem_of, plan), plan, ("learned-signs", 0), lambda step: None
    )
    index = region.flat()
    tau, change = ((one.finetuned - pair.base)[index] for one in (pair, moved))
    assert torch.allclose(change.abs(), tau.abs(), atol=1e-6)
    assert {-1.0, 1.0} <= set(change.sign().tolist()), "both signs are chosen"
    note = next(note for note in run.record.nulls if note.kind == "learned-signs")
    assert note.true_signs == pytest.approx(float((change.sign() == tau.sign()).float().mean()))
    rows = stored(run)
    rows = rows[(rows["null"] == "learned-signs") & (rows["split"] == "test")]
    wanted = score_matrix(rows, run.labels)
    assert np.array_equal(wanted, predict(moved, data["test"], "grafted", region))
    upward = null_pair(pair, "learned-signs", 0)
    assert not np.array_equal(wanted, predict(upward, data["test"], "grafted", region)), "signs left out would pass"


def test_which_localizers_have_a_null() -> None:
    without = {"random", "random-matched", EXPRESSION, "biases", "layers", "kinds", "dare", "lottery"}
    assert {row.name for row in LOCALIZERS.values() if not row.has_null} == without
    spec = RunSpec(base="a", finetuned="b", task="sst2", nulls="all", null_draws=2)
    kinds = {
        name: {kind for kind, _ in spec.model_copy(update={"localizer": name}).null_searches} for name in LOCALIZERS
    }
    assert all(kinds[name] == set() for name in without)
    assert kinds["stagewise"] == set(NULLS) and kinds["movement"] == set(NULLS) - {"learned-signs"}


def test_the_finding_says_what_the_null_does(run: Run) -> None:
    told = beyond.line(run.record, "test")
    assert "2 draws" in told and "shuffled movements" in told and "nats" in told
    assert told.replace("**", "") in finding(run)
    without = run.record.model_copy(update={"nulls": ()})
    assert beyond.line(without, "test") == "Beyond the null: not measured."
    assert "--nulls" not in beyond.command(without), "the command makes a null by itself"
    assert "--nulls none" in without.spec.model_copy(update={"nulls": "none"}).command()
    control = run.record.model_copy(update={"spec": run.spec.model_copy(update={"localizer": "random"})})
    assert beyond.line(control, "test") == ""


def test_a_share_is_said_only_of_a_gain(run: Run) -> None:
    share = Estimate(value=0.9, low=0.8, high=1.0)
    record, note = run.record, run.record.nulls[0]
    states = {"test": {**note.states["test"], "recovered": Estimate(value=0.51)}}
    scores = record.metrics["test"].model_copy(update={"recovered": share})
    with_gain = record.model_copy(
        update={"metrics": {"test": scores}, "nulls": (note.model_copy(update={"states": states}),)}
    )
    assert "brings back **90%** of the gain" in beyond.sentence(with_gain, "test")
    assert "**51%**" in beyond.sentence(with_gain, "test")
    none = scores.model_copy(update={"recovered": Estimate(value=None)})
    assert "of the gain" not in beyond.sentence(with_gain.model_copy(update={"metrics": {"test": none}}), "test")


def test_verdicts_are_of_the_interval() -> None:
    ends = {(0.01, 0.05): "better", (-0.05, -0.01): "worse", (-0.01, 0.05): "no clear difference"}
    for (low, high), wanted in ends.items():
        assert beyond.verdict(Estimate(value=(low + high) / 2, low=low, high=high)) == wanted
    assert beyond.verdict(Estimate(value=0.02)) == "not measured"


def test_another_run_of_the_same_search_lends_its_null(run: Run) -> None:
    quick = run.record.model_copy(update={"nulls": (), "run_id": "quick"})
    assert beyond.stored_beside(quick, [run.record]) is run.record
    assert beyond.stored_beside(run.record, []) is run.record
    for other in ({"size": 7}, {"readout": "prompt"}, {"spec": run.spec.model_copy(update={"localizer": "movement"})}):
        assert beyond.stored_beside(quick.model_copy(update=other), [run.record]) is None


@pytest.mark.slow
def test_a_resumed_run_takes_the_draws_it_has(world: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(world, nulls="all", null_draws=2)
    whole = produce(spec, Store(store.root.parent / "whole"))
    searched, real = list[tuple[str, int]](), nulls.searched_null

    def cut(*arguments: object) -> object:
        if len(searched) == 2:
            raise KeyboardInterrupt
        searched.append(arguments[4])  # type: ignore[arg-type]
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(production, "searched_null", cut)
    with pytest.raises(KeyboardInterrupt):
        produce(spec, store)
    assert searched == [("shuffled", 0), ("shuffled", 1)]
    searched.clear()
    monkeypatch.setattr(production, "searched_null", lambda *a: (searched.append(a[4]), real(*a))[1])
    (cut_short,) = store.unfinished()
    folder = RunFolder(cut_short.path)
    folder.reopen()
    resumed = carry_on(folder)
    rest = [("reversed", 0), ("signs", 0), ("signs", 1)]
    assert searched[:3] == rest, "the first two were kept"
    assert resumed.record.nulls == whole.record.nulls
    pd.testing.assert_frame_equal(stored(resumed), stored(whole))


@pytest.mark.parametrize(("name", "options"), [("random", {}), ("lottery", {"steps": 2})])
def test_controls_have_no_null(world: Path, store: Store, name: str, options: dict[str, int]) -> None:
    run = produce(spec_of(world, localizer=name, nulls="shuffled", **options), store)
    assert run.record.nulls == () and not (run.path / "nulls.parquet").exists()


def test_keys_of_runs_without_nulls_stay() -> None:
    plain = RunSpec(base="a", finetuned="b", task="sst2")
    assert "nulls" not in plain.json_text() and "null_draws" not in plain.json_text()
    assert plain.key() != plain.model_copy(update={"nulls": "shuffled"}).key()
    assert "--nulls none" in plain.command() and "nulls='none'" in plain.python()
    usual = plain.model_copy(update={"nulls": usual_nulls(plain.localizer)})
    assert "null" not in usual.command() + usual.python(), "the command makes it by itself"
    assert "null" not in plain.model_copy(update={"localizer": "random"}).command()
    assert "--nulls all" in plain.model_copy(update={"nulls": "all"}).command()
    with pytest.raises(BadInput, match="nulls"):
        read_spec({"base": "a", "finetuned": "b", "task": "sst2", "nulls": "mixed"})


def test_a_run_cut_while_its_nulls_are_searched_keeps_its_history(
    world: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*arguments: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(production, "searched_null", cut)
    with pytest.raises(KeyboardInterrupt):
        produce(spec_of(world, localizer="stagewise", steps=3, nulls="shuffled"), store)
    monkeypatch.undo()
    (cut_short,) = store.unfinished()
    folder = RunFolder(cut_short.path)
    folder.reopen()
    assert len(carry_on(folder).history()) == 3


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
