"""Tests of the searches of a run: their number, matching outputs, other texts, its nulls, and controls."""

import json
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillviz.core.localizers.record import LocalizerStep, Selection, followed
from skillviz.core.localizers.table import EXPRESSION, LOCALIZERS
from skillviz.core.nulls import NULLS, beyond_null
from skillviz.core.scores import correct, probabilities
from skillviz.errors import BadData, BadInput, UnknownTask
from skillviz.models.null_pair import null_pair
from skillviz.plots.theme import localizer_style
from skillviz.runs import nulls, other_regions
from skillviz.runs import produce as production
from skillviz.runs.other_regions import OtherRegions
from skillviz.runs.part_scores import DISJOINT
from skillviz.runs.plan import planned, refused_options
from skillviz.runs.produce import searched_data
from skillviz.runs.record import Estimate
from skillviz.runs.search import Searched, SearchStep, search
from skillviz.runs.selfcheck import ends_check
from skillviz.runs.spec import usual_nulls
from skillviz.runs.tables import check, score_matrix
from skillviz.runs.wise import on_path
from skillviz.show import beyond
from skillviz.show.finding import finding
from skillviz.tasks import registry
from tests.core.by_hand import by_hand, refuses
from tests.runs.test_checkpoint import resumed
from tests.runs.test_texts import rows_of
from tests.runs.tiny_world import (
    Library,
    Region,
    Run,
    RunFolder,
    RunSpec,
    Session,
    Store,
    failed_checks,
    graft_of_run,
    library,
    load_pair,
    predict,
    produce,
    produced,
    spec_of,
)
from tests.tasks.make import write_task
from tests.tiny import tiny_task

D = 100


def two_steps(
    targets: list[int], size: int, *, seed: int, options: SimpleNamespace
) -> Generator[LocalizerStep, None, Selection]:
    """Search in two steps for regions that differ from size to size; in place of a problem is a list of the sizes."""
    targets.append(size)
    for step in (1, 2):
        yield LocalizerStep(step, float("nan") if options.nested else 0.5, size, size, 0)
    return Selection(
        np.random.default_rng(seed if options.nested else [seed, size]).permutation(D)[
            : size if options.budgeted else 7
        ],
        ("a remark",),
    )


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
    assert targets == [40]
    assert result.size == 10
    assert list(result.orders) == [10, 5, 40]
    assert np.array_equal(result.orders[5], result.orders[40][:5])
    assert np.array_equal(result.ranking(), result.orders[40])


def test_others_search_for_each_size_once() -> None:
    result, targets, records = searched([10, 5, 40, 10])
    assert [(r.target, r.step.step, r.number, r.searches) for r in records] == [
        (10, 1, 1, 3), (10, 2, 1, 3), (5, 1, 2, 3), (5, 2, 2, 3), (40, 1, 3, 3), (40, 2, 3, 3),
    ]  # fmt: skip
    assert ({size: len(order) for size, order in result.orders.items()}, targets, result.notes) == (
        {10: 10, 5: 5, 40: 40},
        [10, 5, 40],
        ["a remark"],
    )


def test_without_a_budget_the_size_is_an_outcome_of_one_search() -> None:
    result, targets, _ = searched([10, 40], budgeted=False)
    assert (len(targets), list(result.orders), result.size) == (1, [7], 7)


@given(st.lists(st.integers(1, D), min_size=1, max_size=4, unique=True), st.integers(0, 5))
def test_the_ranking_names_each_entry_once_and_begins_with_the_main_region(sizes: list[int], seed: int) -> None:
    result, *_ = searched(sizes, seed)
    ranking = result.ranking()
    assert np.array_equal(ranking[: sizes[0]], result.orders[sizes[0]]) and sorted(ranking) == sorted(
        set(np.concatenate([result.orders[s] for s in sizes if s >= sizes[0]]))
    )


@pytest.mark.parametrize(("nested", "targets"), [(True, [40, 40]), (False, [10, 10, 40, 40])])
def test_the_history_fits_its_table_and_an_undefined_loss_is_missing(nested: bool, targets: list[int]) -> None:
    checked = check(searched([10, 40], 3, nested=nested)[0].table(), "history")
    assert (checked["target"].tolist(), set(checked["loss"].isna()), len(check(Searched().table(), "history"))) == (
        targets,
        {nested},
        0,
    )


def test_the_run_its_nulls_and_other_regions_match_the_fine_tuned_model_and_not_the_labels(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(world, localizer="stagewise", steps=3, batch_size=16, options={"match": "outputs"}, nulls="shuffled")
    session = Session()
    plan, data = planned(spec, session, Library(())), session.encoded(spec)
    wanted = probabilities(predict(session.pair(spec), data["train"], "finetuned"))
    watched = Mock(wraps=production.problem_of)
    for module in (production, other_regions):
        monkeypatch.setattr(module, "problem_of", watched)
    run = production.made(plan, session, Store(tmp_path), lambda progress: None)
    OtherRegions(run, Store(tmp_path), sample=20, told=lambda text: None).find(DISJOINT)
    assert [np.array_equal(call.args[2]["train"].targets, wanted) for call in watched.call_args_list] == [True] * 4

    data["train"] = replace(data["train"], labels=1 - data["train"].labels)
    again = production.made(plan, session, Store(tmp_path / "other"), lambda progress: None).region()
    assert again == run.region()
    assert again != produce(spec.model_copy(update={"options": {}}), Store(tmp_path / "labels")).region(), (
        "a search on labels would pass"
    )


def test_a_task_with_references_has_no_outputs_to_match(world: Path) -> None:
    options = LOCALIZERS["stagewise"].make_options({"match": "outputs"})
    refused = refused_options(options, SimpleNamespace(kind="generation"), False)
    assert (
        isinstance(refused, BadInput)
        and "match=outputs" in str(refused)
        and refused_options(options, registry.task(str(world / "task.yaml")), False) is None
    )


control = produced(localizer="lottery", sizes=("50%", "90%"), steps=3, batch_size=16)


def ends_of(run: Run) -> str:
    return next(check.detail for check in run.record.checks if check.name == "ends")


def test_it_says_that_it_is_a_control_and_recovers_no_gain(control: Run) -> None:
    """A share of the gain from the zeroed model would be read as a share from the pre-trained model."""
    assert (
        any("A control" in note and "zero" in note and "'pre-trained'" in note for note in control.record.notes)
        and "zero in every graftable entry (a control)" in ends_of(control)
        and "gives the base" not in ends_of(control)
    )
    assert (failed_checks(control), control.region_header()["rest"]) == ([], "zero") and localizer_style(
        "lottery"
    ).title.endswith("(control: the rest is zero)")
    metrics, curve = control.record.metrics, control.curve()
    assert {(split, bool(one.agreement), one.recovered) for split, one in metrics.items()} == {
        ("validation", True, None), ("test", True, None),
    }  # fmt: skip
    assert set(curve["size"]) == set(control.record.sizes)
    assert len(control.record.sizes) == 2
    assert "recovered" not in set(curve["metric"])
    assert "complement.parquet" not in control.files
    assert control.complement().empty


def test_an_ordinary_run_says_nothing_of_it(world: Path, session: Session, control: Run, store: Store) -> None:
    """This holds even in a session that just made a control: the two never share a base."""
    run = produce(spec_of(world), store, session=session)
    test, of_alone, of_control = (
        one.record.metrics["test"] for one in (run, produce(spec_of(world, seed=1), store, session=Session()), control)
    )
    assert test.states["pretrained"] == of_alone.states["pretrained"]
    assert test.states["finetuned"] == of_control.states["finetuned"]
    assert test.recovered is not None
    assert "recovered" in set(run.curve()["metric"])
    assert "gives the base" in ends_of(run)
    assert failed_checks(run) == []
    assert "rest" not in run.region_header()
    assert not any("control" in note for note in run.record.notes)


def test_its_states_are_those_of_the_zeroed_model(world: Path, session: Session, control: Run) -> None:
    own = load_pair(world / "base", world / "finetuned", task=world / "task.yaml", device="cpu")
    region = torch.from_numpy(control.region().flat())
    for state, inside in (("pretrained", region[:0]), ("grafted", region)):
        own.flat.theta.zero_()
        own.flat.theta[inside] = own.finetuned[inside]
        np.testing.assert_array_equal(
            control.logits(state)[2], own.objective(session.encoded(control.spec)["test"]).logits()
        )


def test_embeddings_and_head_are_kept(world: Path) -> None:
    files = {"base": world / "base", "finetuned": world / "finetuned", "task": world / "task.yaml", "device": "cpu"}
    pair, plain = load_pair(**files, rest="zero"), load_pair(**files)
    assert not pair.base.any()
    assert not pair.flat.theta.any()
    assert pair.rest == "zero"
    assert torch.equal(pair.finetuned, plain.finetuned)
    assert plain.base.any()
    other = dict(plain.model.named_parameters())
    kept = [(name, weights) for name, weights in pair.model.named_parameters() if name not in pair.table.names]
    assert kept and [name for name, weights in kept if not torch.equal(weights, other[name])] == []
    refuses(BadInput, "allowed: base, zero", load_pair, **files, rest="mean")


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
        refuses(BadInput, "a control .*cannot be exported", export)


run = produced(localizer="stagewise", steps=3, batch_size=16, nulls="all", null_draws=2)


def logits_of(run: Run, kind: str, draw: int) -> np.ndarray:
    return score_matrix(run.nulls().query("null == @kind and draw == @draw and split == 'test'"), run.labels)


def test_every_draw_is_stored_with_its_predictions(run: Run) -> None:
    notes = run.record.nulls
    assert [(note.kind, note.draws) for note in notes] == list(zip(NULLS, (2, 1, 2, 1), strict=True))
    assert (
        run.nulls().groupby(["null", "draw"])["split"].agg(set).to_dict(),
        [note.sizes for note in notes],
        [note.true_signs is not None for note in notes],
    ) == (
        {(note.kind, draw): {"validation", "test"} for note in notes for draw in range(note.draws)},
        [(run.record.size,) * note.draws for note in notes],
        [row.has_signs for row in NULLS.values()],
    )


def test_beyond_is_the_graft_less_its_nulls(run: Run) -> None:
    _, labels, own = run.logits("grafted")
    found = run.record.nulls[0].beyond["test"]["accuracy"]
    assert (found.value, found.low, found.high) == pytest.approx(
        tuple(
            beyond_null(
                correct(own, labels),
                np.array([correct(logits_of(run, "shuffled", draw), labels) for draw in (0, 1)], dtype=float),
            )[:3]
        )
    )


def test_a_null_is_the_same_search_on_the_null_movement(run: Run) -> None:
    session = Session()
    pair, data = session.pair(run.spec), session.encoded(run.spec)
    moved, plan = null_pair(pair, "shuffled", 1), planned(run.spec, session, library(run.path.parent))
    problem, options, _ = production.problem_of(plan, moved, data)
    order = followed(
        plan.row.search(problem, run.record.size, seed=run.spec.seed, options=options), lambda step: None
    ).order
    problem.reset()
    assert np.array_equal(
        logits_of(run, "shuffled", 1),
        predict(moved, data["test"], "grafted", Region.from_flat(np.sort(order[: run.record.size]), pair.table.shapes)),
    )


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
    assert np.array_equal(stored, predict(moved, data["test"], "grafted", region)) and not np.array_equal(
        stored, predict(null_pair(pair, "learned-signs", 0), data["test"], "grafted", region)
    ), "signs left out would pass"


def test_which_localizers_have_a_null() -> None:
    without = {"random", "random-matched", EXPRESSION, "biases", "layers", "kinds", "dare", "lottery"}
    assert {row.name for row in LOCALIZERS.values() if not row.has_null} == without
    spec = RunSpec(base="a", finetuned="b", task="sst2", nulls="all", null_draws=2)
    kinds = {
        name: {kind for kind, _ in spec.model_copy(update={"localizer": name}).null_searches} for name in LOCALIZERS
    }
    assert ({name for name, found in kinds.items() if not found}, kinds["stagewise"], kinds["movement"]) == (
        without,
        set(NULLS),
        set(NULLS) - {"learned-signs"},
    )


def test_the_finding_says_what_the_null_does(run: Run) -> None:
    told, record = beyond.line(run.record, "test"), run.record
    without = record.model_copy(update={"nulls": ()})
    assert [words for words in ("2 draws", "shuffled movements", "nats") if words not in told] == []
    assert told.replace("**", "") in finding(run) and [
        beyond.line(one, "test")
        for one in (without, record.model_copy(update={"spec": run.spec.model_copy(update={"localizer": "random"})}))
    ] == [
        "Beyond the null: not measured.",
        "",
    ]
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
    note = run.record.nulls[0].model_copy(
        update={"states": {"test": {**run.record.nulls[0].states["test"], "recovered": Estimate(value=0.51)}}}
    )
    scores = {"test": run.record.metrics["test"].model_copy(update={"recovered": share})}
    said = beyond.sentence(run.record.model_copy(update={"metrics": scores, "nulls": (note,)}), "test")
    assert [one for one in words if one not in said] == [] and ("of the gain" in said) == bool(words)


test_verdicts_are_of_the_interval = by_hand(
    *((verdict, verdict, beyond.verdict, Estimate(value=0.02, low=low, high=high)) for verdict, low, high in (
        ("better", 0.01, 0.05), ("worse", -0.05, -0.01), ("no clear difference", -0.01, 0.05),
        ("not measured", None, None),
    ))
)  # fmt: skip


def test_another_run_of_the_same_search_lends_its_null(run: Run) -> None:
    quick = run.record.model_copy(update={"nulls": (), "run_id": "quick"})
    assert beyond.stored_beside(quick, [run.record]) is beyond.stored_beside(run.record, []) is run.record
    assert [
        beyond.stored_beside(quick.model_copy(update=other), [run.record])
        for other in (
            {"size": 7},
            {"readout": "prompt"},
            {"spec": run.spec.model_copy(update={"localizer": "movement"})},
        )
    ] == [None] * 3


@pytest.mark.slow
def test_a_resumed_run_takes_the_draws_it_has(world: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(world, nulls="all", null_draws=2)
    whole = produce(spec, Store(store.root.parent / "whole"))
    first = Mock(wraps=nulls.searched_null, side_effect=[DEFAULT, DEFAULT, KeyboardInterrupt])
    monkeypatch.setattr(production, "searched_null", first)
    refuses(KeyboardInterrupt, None, produce, spec, store)
    second = Mock(wraps=nulls.searched_null)
    monkeypatch.setattr(production, "searched_null", second)
    (cut_short,) = store.unfinished()
    run = resumed(RunFolder(cut_short.path))
    began, rest = ([call.args[4] for call in calls.call_args_list] for calls in (first, second))
    assert (began[:2], rest[:3]) == (
        [("shuffled", 0), ("shuffled", 1)],
        [("reversed", 0), ("signs", 0), ("signs", 1)],
    ), "the first two were kept"
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
    assert ("null" in spec.command(), "nulls=" in spec.python()) == (bool(words),) * 2 and (
        words is None or words in spec.command()
    )


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
    task = world / "task.yaml"
    pair = load_pair(world / "base", world / "finetuned", task=task, device="cpu", dtype=dtype, rescaled=True)
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    for size in (1, 30, pair.d // 2):
        region = Region.from_flat(np.arange(size) * (pair.d // size), pair.table.shapes)
        entries = torch.from_numpy(region.flat())
        wanted = pair.base.clone()
        for i in entries.tolist():
            wanted[i] = float(pair.base[i]) + (float(pair.finetuned[i]) - float(pair.base[i])) * pair.d / size
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
    refuses(BadInput, "a control .*cannot be exported", pair.graft, empty)


@pytest.mark.nightly
def test_a_rescaled_run_scores_its_values_and_does_not_share_its_pair(world: Path, store: Store) -> None:
    session, random = Session(), {"localizer": "random"}
    drawn, run, again = (
        produce(spec_of(world, sizes=("10%", "30%"), **changes), store, session=session)
        for changes in (random, {"localizer": "dare"}, {**random, "seed": 1})
    )
    assert (run.region(), run.record.sizes, [failed_checks(one) for one in (run, again)]) == (
        drawn.region(),
        drawn.record.sizes,
        [[], []],
    )
    assert (
        run.region_header()["rescaled"] is True
        and "rescaled" not in again.region_header()
        and any("not the fine-tuned ones" in note for note in run.record.notes)
    )
    states, splits = ("pretrained", "finetuned", "complement", "grafted"), ("validation", "test")
    assert {
        (state, split): np.array_equal(run.logits(state, split)[2], drawn.logits(state, split)[2])
        for state, split in product(states, splits)
    } == {(state, split): state != "grafted" for state, split in product(states, splits)}
    pair = load_pair(run.spec.base, run.spec.finetuned, task=run.spec.task, device="cpu", rescaled=True)
    np.testing.assert_allclose(
        predict(pair, session.encoded(run.spec)["test"], "grafted", run.region()),
        run.logits("grafted")[2],
        rtol=1e-6,
        atol=1e-7,
    )
    assert run.curve()["value"].notna().any() and run.record.metrics["test"].recovered is not None
    refuses(BadInput, "cannot be exported", graft_of_run, run)


def other_task(folder: Path, rows: list[dict[str, Any]]) -> str:
    """Return the file of a task of three labels of its own with these training rows, all of its first label."""
    rows, labels = [{**row, "label": 0} for row in rows], ["a", "b", "c"]
    return str(write_task(folder, rows, name="elsewhere", labels=labels, template=None, label_words=None))


def matched(world: Path, **options: Any) -> RunSpec:
    options = {"match": "outputs", **options}
    return spec_of(world, localizer="stagewise", steps=3, batch_size=16, options=options, nulls="shuffled")


def test_the_search_sees_the_other_task_s_texts_alone_and_none_that_is_held_out(world: Path, tmp_path: Path) -> None:
    train, validation, test = (rows_of(world / f"{split}.jsonl") for split in ("train", "validation", "test"))
    held = {row["text"] for row in (*validation, *test)}
    fresh = [row for row in train if row["text"] not in held]
    spec, session = matched(world, texts=other_task(tmp_path / "elsewhere", [*fresh[:20], *test[:2]])), Session()
    plan = planned(spec, session, Library(()))
    assert any("20 training texts of elsewhere and no label" in n and "; 2 that " in n for n in plan.notes)
    data, own = searched_data(plan, session), session.encoded(spec)
    wanted = [own["train"].input_ids[train.index(row)] for row in fresh[:20]]
    assert all(map(np.array_equal, data["train"].input_ids, wanted))
    assert len(data["train"]) == len(wanted)
    assert data["train"].targets.shape == (20, 2)
    assert data["test"] is own["test"]
    run = produce(spec, Store(tmp_path / "runs"))
    assert run.record.nulls and plan.texts.note in run.record.notes


def test_the_same_texts_give_the_same_region_whatever_their_labels(world: Path, tmp_path: Path, store: Store) -> None:
    own, other = (
        produce(spec, store).region()
        for spec in (
            matched(world),
            matched(world, texts=other_task(tmp_path / "elsewhere", rows_of(world / "train.jsonl"))),
        )
    )
    assert own == other, "no training text is held out here"
    assert (
        produce(
            matched(world, texts=other_task(tmp_path / "half", rows_of(world / "train.jsonl")[:32])), store
        ).region()
        != own
    ), "other texts, another region"


@pytest.mark.parametrize(
    ("change", "error", "facts"),
    [
        ({"match": "labels"}, BadInput, ("texts", "match=outputs")),
        ({"texts": "no-such-task"}, UnknownTask, ("no-such-task",)),
        ({"texts": "PAIRS"}, BadInput, ("tiny-pair", "number of texts")),
        ({"texts": "TEST"}, BadData, ("elsewhere", "held out")),
    ],
    ids=["with labels", "unknown task", "two texts", "nothing left"],
)
def test_texts_that_cannot_be_searched_are_refused_before_there_is_a_folder(
    world: Path, tmp_path: Path, store: Store, change: dict[str, str], error: type[Exception], facts: tuple[str, ...]
) -> None:
    named = {
        "PAIRS": lambda: str(tiny_task(tmp_path / "pairs", pair=True)),
        "TEST": lambda: other_task(tmp_path / "elsewhere", rows_of(world / "test.jsonl")),
    }
    texts = change.get("texts", "TEST")
    spec = matched(world, **{**change, "texts": named.get(texts, lambda: texts)()})
    refuses(error, "(?s)" + "".join(f"(?=.*{fact})" for fact in facts), produce, spec, store)
    assert not store.list() and not store.unfinished()


def test_a_relative_path_means_the_same_from_any_folder(world: Path, tmp_path: Path) -> None:
    elsewhere = other_task(tmp_path / "elsewhere", rows_of(world / "train.jsonl"))
    spec = matched(world, texts="elsewhere/task.yaml").anchored(tmp_path)
    assert spec.options["texts"] == elsewhere and f'texts="{elsewhere}"' in spec.command()
