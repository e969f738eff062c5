"""Tests of the searches of a run: their number, further models, matching outputs, and the lottery control."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.localizers.record import LocalizerStep, Selection
from skillviz.core.localizers.table import LOCALIZERS, Localizer
from skillviz.core.localizers.table import localizer as row_of
from skillviz.core.region import Region
from skillviz.core.scores import probabilities
from skillviz.errors import BadInput, BadSize, CorruptFile
from skillviz.models.null_pair import kept_out, null_pair
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.plots.theme import localizer_style
from skillviz.runs import other_regions
from skillviz.runs import produce as production
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.other_regions import OtherRegions
from skillviz.runs.part_scores import DISJOINT
from skillviz.runs.plan import planned, refused_options
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.search import Searched, search
from skillviz.runs.selfcheck import ends_check
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.runs.store import Library, Store
from skillviz.runs.tables import check
from skillviz.tasks import registry
from tests.runs.tiny_world import spec_of

D = 100


def searched(localizer: Localizer, sizes: list[int], seed: int = 0) -> Searched:
    """Run a search for these sizes; return its result."""
    result = Searched()
    for _ in search(localizer, None, sizes, seed, Options(), result):
        pass
    return result


@dataclass(frozen=True)
class Options:
    steps: int = 2


def row(budgeted: bool = True, nested: bool = False) -> tuple[Localizer, list[int]]:
    """Return a localizer of two steps whose regions of two sizes differ, and the list of its target sizes."""
    targets: list[int] = []

    def run(problem: Any, size: int, *, seed: int, options: Options) -> Generator[LocalizerStep, None, Selection]:
        targets.append(size)
        for step in range(1, options.steps + 1):
            yield LocalizerStep(step, float("nan") if nested else 0.5, size, size, 0)
        draw = np.random.default_rng(seed if nested else [seed, size]).permutation(D)
        return Selection(draw[: size if budgeted else 7], ("a remark",))

    class Planted(Localizer):
        def search(self, problem: Any, size: int, *, seed: int, options: Any, resume: Any = None) -> Any:
            return run(problem, size, seed=seed, options=options)

    promises = {"budgeted": budgeted, "nested": nested, "seeded": True}
    return Planted(**{**vars(row_of("random")), "name": "x", "options": Options, **promises}), targets


def test_nested_localizers_search_once_at_the_largest_size() -> None:
    localizer, targets = row(nested=True)
    result = searched(localizer, [10, 5, 40])
    assert targets == [40]
    assert result.size == 10 and list(result.orders) == [10, 5, 40]
    assert np.array_equal(result.orders[5], result.orders[40][:5])
    assert np.array_equal(result.ranking(), result.orders[40])


def test_others_search_for_each_size_once() -> None:
    localizer, targets = row()
    result = Searched()
    records = list(search(localizer, None, [10, 5, 40, 10], 0, Options(), result))
    assert targets == [10, 5, 40]
    assert [(r.target, r.step.step) for r in records] == [(10, 1), (10, 2), (5, 1), (5, 2), (40, 1), (40, 2)]
    assert [(r.number, r.searches) for r in records] == [(n, 3) for n in (1, 1, 2, 2, 3, 3)]
    assert {size: len(order) for size, order in result.orders.items()} == {10: 10, 5: 5, 40: 40}
    assert result.notes == ["a remark"]


def test_without_a_budget_the_size_is_an_outcome_of_one_search() -> None:
    localizer, targets = row(budgeted=False)
    result = searched(localizer, [10, 40])
    assert len(targets) == 1
    assert list(result.orders) == [7] and result.size == 7


@given(st.lists(st.integers(1, D), min_size=1, max_size=4, unique=True), st.integers(0, 5))
def test_the_ranking_names_each_entry_once_and_begins_with_the_main_region(sizes: list[int], seed: int) -> None:
    localizer, _ = row()
    result = searched(localizer, sizes, seed)
    ranking = result.ranking()
    assert len(np.unique(ranking)) == len(ranking)
    assert np.array_equal(ranking[: sizes[0]], result.orders[sizes[0]])
    larger = [result.orders[s] for s in sizes if s >= sizes[0]]
    assert set(ranking) == set(np.concatenate(larger))


def test_the_history_fits_its_table_and_an_undefined_loss_is_missing() -> None:
    for nested in (True, False):
        localizer, _ = row(nested=nested)
        frame = searched(localizer, [10, 40], 3).table()
        checked = check(frame, "history")
        assert len(checked) == (2 if nested else 4)
        assert checked["loss"].isna().all() == nested
        assert set(checked["target"]) == ({40} if nested else {10, 40})
    assert len(check(Searched().table(), "history")) == 0


def test_the_run_its_nulls_and_other_regions_match_the_fine_tuned_model_and_not_the_labels(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"match": "outputs"}
    spec = spec_of(world, localizer="stagewise", steps=3, batch_size=16, options=options, nulls="shuffled")
    session = Session()
    plan, pair = planned(spec, session, Library(())), session.pair(spec)
    wanted = probabilities(predict(pair, session.encoded(spec)["train"], "finetuned"))
    seen, orders = [], []
    problem_of = production.problem_of

    def watched(*args):  # type: ignore[no-untyped-def]
        seen.append(args[2]["train"].targets)
        return problem_of(*args)

    for module in (production, other_regions):
        monkeypatch.setattr(module, "problem_of", watched)
    run = production.made(plan, session, Store(tmp_path), lambda progress: None)
    orders.append(run.region().flat())
    OtherRegions(run, Store(tmp_path), sample=20, told=lambda text: None).find(DISJOINT)
    assert len(seen) == 4 and all(np.array_equal(targets, wanted) for targets in seen)

    data = session.encoded(spec)
    data["train"] = replace(data["train"], labels=1 - data["train"].labels)
    again = production.made(plan, session, Store(tmp_path / "other"), lambda progress: None).region().flat()
    assert np.array_equal(orders[0], again)
    on_labels = produce(spec.model_copy(update={"options": {}}), Store(tmp_path / "labels")).region().flat()
    assert not np.array_equal(on_labels, again), "a search on labels would pass"


def test_a_task_with_references_has_no_outputs_to_match(world: Path) -> None:
    spec = spec_of(world, localizer="stagewise", options={"match": "outputs"})
    options = LOCALIZERS["stagewise"].make_options(spec.options)
    refused = refused_options(options, SimpleNamespace(kind="generation"), False)
    assert isinstance(refused, BadInput) and "match=outputs" in str(refused)
    assert refused_options(options, registry.task(str(world / "task.yaml")), False) is None


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
