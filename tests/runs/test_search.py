"""Tests of the searches of a run: their number, matching outputs, and the lottery control."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.localizers.record import LocalizerStep, Selection
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.region import Region
from skillviz.core.scores import probabilities
from skillviz.errors import BadInput
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
from skillviz.runs.search import Searched, SearchStep, search
from skillviz.runs.selfcheck import ends_check
from skillviz.runs.store import Library, Store
from skillviz.runs.tables import check
from skillviz.tasks import registry
from tests.runs.tiny_world import Run, Session, failed_checks, spec_of

D = 100


def two_steps(
    targets: list[int], size: int, *, seed: int, options: SimpleNamespace
) -> Generator[LocalizerStep, None, Selection]:
    """Search in two steps for regions that differ from size to size; in place of a problem is a list of the sizes."""
    targets.append(size)
    for step in (1, 2):
        yield LocalizerStep(step, float("nan") if options.nested else 0.5, size, size, 0)
    draw = np.random.default_rng(seed if options.nested else [seed, size]).permutation(D)
    return Selection(draw[: size if options.budgeted else 7], ("a remark",))


def searched(
    sizes: list[int], seed: int = 0, budgeted: bool = True, nested: bool = False
) -> tuple[Searched, list[int], list[SearchStep]]:
    """Search for these sizes; return the result, the sizes that were searched for, and the steps."""
    promises = {"budgeted": budgeted, "nested": nested}
    row = replace(LOCALIZERS["lottery"], run=f"{__name__}:two_steps", **promises)
    result, targets = Searched(), list[int]()
    steps = list(search(row, targets, sizes, seed, SimpleNamespace(**promises), result))  # type: ignore[arg-type]
    return result, targets, steps


def test_nested_localizers_search_once_at_the_largest_size() -> None:
    result, targets, _ = searched([10, 5, 40], nested=True)
    assert (targets, result.size, list(result.orders)) == ([40], 10, [10, 5, 40])
    assert np.array_equal(result.orders[5], result.orders[40][:5])
    assert np.array_equal(result.ranking(), result.orders[40])


def test_others_search_for_each_size_once() -> None:
    result, targets, records = searched([10, 5, 40, 10])
    assert [(r.target, r.step.step, r.number, r.searches) for r in records] == [
        (10, 1, 1, 3), (10, 2, 1, 3), (5, 1, 2, 3), (5, 2, 2, 3), (40, 1, 3, 3), (40, 2, 3, 3),
    ]  # fmt: skip
    assert {size: len(order) for size, order in result.orders.items()} == {10: 10, 5: 5, 40: 40}
    assert (targets, result.notes) == ([10, 5, 40], ["a remark"])


def test_without_a_budget_the_size_is_an_outcome_of_one_search() -> None:
    result, targets, _ = searched([10, 40], budgeted=False)
    assert (len(targets), list(result.orders), result.size) == (1, [7], 7)


@given(st.lists(st.integers(1, D), min_size=1, max_size=4, unique=True), st.integers(0, 5))
def test_the_ranking_names_each_entry_once_and_begins_with_the_main_region(sizes: list[int], seed: int) -> None:
    result, *_ = searched(sizes, seed)
    ranking = result.ranking()
    assert np.array_equal(ranking[: sizes[0]], result.orders[sizes[0]])
    larger = np.concatenate([result.orders[s] for s in sizes if s >= sizes[0]])
    assert sorted(ranking) == sorted(set(larger))


@pytest.mark.parametrize(("nested", "targets"), [(True, [40, 40]), (False, [10, 10, 40, 40])])
def test_the_history_fits_its_table_and_an_undefined_loss_is_missing(nested: bool, targets: list[int]) -> None:
    checked = check(searched([10, 40], 3, nested=nested)[0].table(), "history")
    assert checked["target"].tolist() == targets and set(checked["loss"].isna()) == {nested}
    assert len(check(Searched().table(), "history")) == 0


def test_the_run_its_nulls_and_other_regions_match_the_fine_tuned_model_and_not_the_labels(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"match": "outputs"}
    spec = spec_of(world, localizer="stagewise", steps=3, batch_size=16, options=options, nulls="shuffled")
    session = Session()
    plan, data = planned(spec, session, Library(())), session.encoded(spec)
    wanted = probabilities(predict(session.pair(spec), data["train"], "finetuned"))
    seen, problem_of = [], production.problem_of

    def watched(*args):  # type: ignore[no-untyped-def]
        seen.append(args[2]["train"].targets)
        return problem_of(*args)

    for module in (production, other_regions):
        monkeypatch.setattr(module, "problem_of", watched)
    run = production.made(plan, session, Store(tmp_path), lambda progress: None)
    OtherRegions(run, Store(tmp_path), sample=20, told=lambda text: None).find(DISJOINT)
    assert [np.array_equal(targets, wanted) for targets in seen] == [True] * 4

    data["train"] = replace(data["train"], labels=1 - data["train"].labels)
    again = production.made(plan, session, Store(tmp_path / "other"), lambda progress: None).region()
    assert again == run.region()
    on_labels = produce(spec.model_copy(update={"options": {}}), Store(tmp_path / "labels")).region()
    assert again != on_labels, "a search on labels would pass"


def test_a_task_with_references_has_no_outputs_to_match(world: Path) -> None:
    options = LOCALIZERS["stagewise"].make_options({"match": "outputs"})
    refused = refused_options(options, SimpleNamespace(kind="generation"), False)
    assert isinstance(refused, BadInput) and "match=outputs" in str(refused)
    assert refused_options(options, registry.task(str(world / "task.yaml")), False) is None


@pytest.fixture(scope="module")
def control(world: Path, session: Session, tmp_path_factory: pytest.TempPathFactory) -> Run:
    spec = spec_of(world, localizer="lottery", sizes=("50%", "90%"), steps=3, batch_size=16)
    return produce(spec, Store(tmp_path_factory.mktemp("control")), session=session)


def ends_of(run: Run) -> str:
    return next(check.detail for check in run.record.checks if check.name == "ends")


def test_it_says_that_it_is_a_control_and_recovers_no_gain(control: Run) -> None:
    """A share of the gain from the zeroed model would be read as a share from the pre-trained model."""
    assert any("A control" in note and "zero" in note and "'pre-trained'" in note for note in control.record.notes)
    assert "zero in every graftable entry (a control)" in ends_of(control) and "gives the base" not in ends_of(control)
    assert failed_checks(control) == [] and control.region_header()["rest"] == "zero"
    assert localizer_style("lottery").title.endswith("(control: the rest is zero)")
    metrics, curve = control.record.metrics, control.curve()
    assert {(split, bool(one.agreement), one.recovered) for split, one in metrics.items()} == {
        ("validation", True, None), ("test", True, None),
    }  # fmt: skip
    assert set(curve["size"]) == set(control.record.sizes) and len(control.record.sizes) == 2
    assert "recovered" not in set(curve["metric"])


def test_an_ordinary_run_says_nothing_of_it(world: Path, session: Session, control: Run, store: Store) -> None:
    """This holds even in a session that just made a control: the two never share a base."""
    run = produce(spec_of(world), store, session=session)
    alone = produce(spec_of(world, seed=1), store, session=Session())
    test, of_alone, of_control = (one.record.metrics["test"] for one in (run, alone, control))
    assert test.states["pretrained"] == of_alone.states["pretrained"]
    assert test.states["finetuned"] == of_control.states["finetuned"]
    assert test.recovered is not None and "recovered" in set(run.curve()["metric"])
    assert "gives the base" in ends_of(run) and failed_checks(run) == []
    assert "rest" not in run.region_header() and not any("control" in note for note in run.record.notes)


def test_its_states_are_those_of_the_zeroed_model(world: Path, session: Session, control: Run) -> None:
    own = load_pair(world / "base", world / "finetuned", task=world / "task.yaml", device="cpu")
    region = torch.from_numpy(control.region().flat())
    for state, inside in (("pretrained", region[:0]), ("grafted", region)):
        own.flat.theta.zero_()
        own.flat.theta[inside] = own.finetuned[inside]
        wanted = own.objective(session.encoded(control.spec)["test"]).logits()
        np.testing.assert_array_equal(control.logits(state)[2], wanted)


def test_embeddings_and_head_are_kept(world: Path) -> None:
    files = {"base": world / "base", "finetuned": world / "finetuned", "task": world / "task.yaml", "device": "cpu"}
    pair, plain = load_pair(**files, rest="zero"), load_pair(**files)
    assert not pair.base.any() and not pair.flat.theta.any() and pair.rest == "zero"
    assert torch.equal(pair.finetuned, plain.finetuned) and plain.base.any()
    other = dict(plain.model.named_parameters())
    for name, parameter in pair.model.named_parameters():
        assert name in pair.table.names or torch.equal(parameter, other[name]), name
    with pytest.raises(BadInput, match="allowed: base, zero"):
        load_pair(**files, rest="mean")


def test_a_wrong_end_is_caught(world: Path, session: Session, control: Run) -> None:
    pair = load_pair(world / "base", world / "finetuned", task=world / "task.yaml", device="cpu", rest="zero")
    few = session.encoded(control.spec)["test"]
    assert ends_check(pair, few).passed
    for values in (pair.base, pair.flat.theta):
        values[0] = 1.0
    assert not ends_check(pair, few).passed


def test_its_ends_in_every_state_are_exact_and_it_is_not_exported(control: Run, session: Session) -> None:
    pair, few = session.pair(control.spec), session.encoded(control.spec)["test"]
    full = Region.full(pair.table.shapes)
    with pair.at("grafted", Region.empty(full.shapes)):
        assert not pair.flat.theta.any()
    assert np.array_equal(predict(pair, few, "grafted", full), predict(pair, few, "finetuned"))
    for export in (lambda: graft_of_run(control), lambda: pair.graft(control.region())):
        with pytest.raises(BadInput, match="a control .*cannot be exported"):
            export()
