"""Tests of runs side by side: short names, distinguishing settings, stored values, paired differences, specs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.answers import Answers, answers_of_state
from skillviz.analysis.differences import less_baseline
from skillviz.core.agreement import mcnemar
from skillviz.core.intervals import metric_difference
from skillviz.core.region import Region
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.show.entries import entry_of, headline_split
from skillviz.ui.pages import compare
from skillviz.ui.pages.compare import Side, spec_differences
from tests.fake_run import fake_run
from tests.show.test_entries import entry
from tests.ui.shared_store import SMALL

FIRST, SECOND, THIRD = "stagewise, seed 0", "stagewise, seed 1", "top movement, seed 0"


def sides_of(*runs: Run) -> tuple[Side, ...]:
    return compare.sides([entry_of(run, is_of_user=True) for run in runs], runs)


def few(store: Store, **changed) -> Run:
    return fake_run(store, **{"sizes": ("1%",), **SMALL, **changed})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("compared"))


@pytest.fixture(scope="module")
def three(store: Store) -> tuple[Side, ...]:
    return sides_of(few(store), few(store, seed=1), few(store, localizer="movement"))


@pytest.fixture(scope="module")
def elsewhere(store: Store) -> Run:
    return few(store, task="mrpc", metric="f1", finetuned="demo/tiny-mrpc", labels=("no", "yes"))


@pytest.mark.slow
def test_names_say_what_differs_and_nothing_else(store: Store, three: tuple[Side, ...]) -> None:
    assert [side.name for side in three] == [FIRST, SECOND, THIRD]
    runs = (three[0].run, few(store, sizes=("10%",)))
    assert [side.name for side in sides_of(*runs)] == [
        "stagewise, 0.99%",
        "stagewise, 10.0%",
    ]


def test_repetitions_say_what_is_different(store: Store, three: tuple[Side, ...]) -> None:
    runs = (three[0].run, few(store))
    made = [replace(entry_of(run, is_of_user=True), created=f"2026-01-0{day}") for day, run in enumerate(runs, start=1)]
    one, again = (side.name for side in compare.sides(made, runs))
    assert one == "stagewise" and again.startswith("stagewise, ") and "#" not in again
    far = entry(id="stagewise-far", scored=(1, ("mnli",), True))
    assert compare.short_names([entry(), far]) == ["stagewise", "stagewise, also scored on MNLI"]


def test_settings_that_differ_are_in_the_name() -> None:
    plain = entry(id="one")
    settings = tuple((name, "7" if name == "steps" else value) for name, value in plain.settings)
    assert compare.short_names([plain, entry(id="two", settings=settings)]) == ["stagewise", "stagewise, steps 7"]


def test_other_pairs_are_named(three: tuple[Side, ...], elsewhere: Run) -> None:
    assert [side.name for side in sides_of(three[0].run, elsewhere)] == [
        "stagewise, SST-2 · tiny-base",
        "stagewise, MRPC · tiny-base",
    ]


def test_runs_of_other_data_are_not_paired_and_the_reason_is_said(three: tuple[Side, ...], elsewhere: Run) -> None:
    baseline, other = sides_of(three[0].run, elsewhere)
    assert compare.unlike(three[1], three[0]) == ""
    assert compare.unlike(other, baseline) == "it was scored on another task (MRPC, not SST-2)"
    note = baseline.record.task.model_copy(update={"fingerprint": "d" * 64})
    changed = Side("other", baseline.entry, Run(baseline.run.path, baseline.record.model_copy(update={"task": note})))
    assert "sha256" in compare.unlike(changed, baseline)
    unscored = Side("other", baseline.entry, Run(baseline.run.path, baseline.record.model_copy(update={"task": None})))
    assert "does not say" in compare.unlike(unscored, baseline)


def test_values_are_the_stored_ones_and_a_shared_finetuned_model_is_one_row(three: tuple[Side, ...]) -> None:
    table = compare.values(three, "grafted", ("accuracy", "ece"))
    assert list(dict.fromkeys(table["run"])) == [FIRST, SECOND, THIRD, "fine-tuned"]
    stored = three[1].record.metrics["test"].states["grafted"]["ece"]
    row = table[(table["run"] == SECOND) & (table["metric"] == "ece")].iloc[0]
    assert (row["value"], row["low"], row["high"]) == (stored.value, stored.low, stored.high)
    assert "fine-tuned" not in set(compare.values(three, "finetuned", ("accuracy",))["run"])


def test_finetuned_models_of_several_pairs_are_named_by_their_runs(three: tuple[Side, ...], elsewhere: Run) -> None:
    sides = sides_of(three[0].run, elsewhere, three[1].run)
    assert list(compare.finetuned(sides)) == ["fine-tuned, SST-2 · tiny-base", "fine-tuned, MRPC · tiny-base"]


def answers_of(sides: tuple[Side, ...], state: str = "grafted") -> dict[str, Answers]:
    return {
        side.name: answers_of_state(side.run.predictions(), headline_split(side.run.record), side.run.labels, state)
        for side in sides
    }


def test_differences_are_those_of_each_pair(three: tuple[Side, ...]) -> None:
    answers = answers_of(three)
    table = less_baseline(answers, FIRST, ("accuracy", "nll"), 1).set_index(["run", "metric"])
    for key in (SECOND, THIRD):
        for metric in ("accuracy", "nll"):
            wanted = metric_difference(answers[key].logits, answers[FIRST].logits, answers[FIRST].labels, metric)
            row = table.loc[(key, metric)]
            assert (row["value"], row["low"], row["high"]) == pytest.approx(wanted[:3], rel=1e-9, abs=1e-12)
        test = mcnemar(answers[key].logits, answers[FIRST].logits, answers[FIRST].labels)
        row = table.loc[(key, "accuracy")]
        assert (row["p"], row["gained"], row["lost"]) == (test.p, test.n10, test.n01)
        assert pd.isna(table.loc[(key, "nll")]["p"]) and row["n"] == 120
    assert FIRST not in table.index.get_level_values("run")


def test_only_shared_examples_count_whatever_their_order(three: tuple[Side, ...]) -> None:
    answers = answers_of(three)
    even = np.arange(0, 120, 2)
    one = answers[SECOND]
    part = Answers(one.ids[even], one.labels[even], one.logits[even])
    table = less_baseline({"A": answers[FIRST], "B": part}, "A", ("accuracy",), 1)
    base = answers[FIRST]
    wanted = metric_difference(part.logits, base.logits[even], part.labels, "accuracy")
    assert (table["n"].item(), table["value"].item()) == (60, pytest.approx(wanted.value))
    apart = Answers(np.array(["elsewhere-1"]), one.labels[:1], one.logits[:1])
    assert less_baseline({"A": base, "B": apart}, "A", ("accuracy",), 1).empty
    assert less_baseline({"A": base}, "A", ("accuracy",), 1).empty


def test_the_finetuned_model_of_one_pair_does_not_differ_from_itself(three: tuple[Side, ...]) -> None:
    table = less_baseline(answers_of(three, "finetuned"), FIRST, ("accuracy", "ece"), 1)
    assert (table[["value", "low", "high"]] == 0).all(axis=None)


def test_curves_and_bins_go_under_the_names(three: tuple[Side, ...]) -> None:
    tables = {side.name: side.run.curve() for side in three}
    curve = compare.curves_of(three, tables, "test")
    assert set(curve["localizer"]) == {FIRST, SECOND, THIRD} and set(curve["split"]) == {"test"}
    bins = compare.bins(answers_of(three))
    assert bins.groupby("state")["count"].sum().tolist() == [120] * 3


def test_shares_have_their_chance_beside_them() -> None:
    shapes = {"w": (10, 10)}
    regions = {"A": Region.from_flat(np.arange(10), shapes), "B": Region.from_flat(np.arange(5, 25), shapes)}
    iou = compare.shares(regions, "iou").set_index(["row", "column"])
    assert iou.loc[("A", "B"), "value"] == 5 / 25 and iou.loc[("A", "A"), "value"] == 1
    one_way = compare.shares(regions, "overlap").set_index(["row", "column"])
    assert one_way.loc[("A", "B"), "value"] == 0.25 and one_way.loc[("B", "A"), "value"] == 0.5
    assert one_way.loc[("A", "B"), ["chance", "chance_low", "chance_high"]].tolist() == [0.1, 0.0, 0.25]
    assert 0 < iou.loc[("A", "B"), "chance"] < 0.1


def with_spec(side: Side, **changed) -> Side:
    spec = RunSpec(**{**side.run.spec.model_dump(), **changed})
    return Side(side.name, side.entry, Run(Path("x"), side.record.model_copy(update={"spec": spec})))


def test_specs_show_only_what_differs_with_defaults_named(three: tuple[Side, ...]) -> None:
    other = with_spec(three[1], steps=50, options={"lr": 0.1})
    table = spec_differences((three[0], other), three[0]).set_index("field")
    assert list(table.index) == ["run", "seed", "steps", "option lr"]
    assert table.loc["run"].tolist() == [three[0].run.id, three[1].run.id]
    assert table.loc["seed"].tolist() == ["0 (default)", "≠ 1"]
    assert table.loc["steps"].tolist() == ["not given (default)", "≠ 50"]
    assert table.loc["option lr"].tolist() == ["not given (default)", "≠ 0.1"]
    assert spec_differences((three[0], with_spec(three[0])), three[0])["field"].tolist() == ["run"]


def test_a_switch_and_an_empty_list_are_words(three: tuple[Side, ...]) -> None:
    one = with_spec(three[0], interpolation=False, others=())
    table = spec_differences((one, with_spec(three[1], interpolation=True, others=("imdb", "cr"))), one)
    table = table.set_index("field")
    assert table.loc["others"].tolist() == ["none (default)", "≠ imdb, cr"]
    assert table.loc["interpolation"].tolist() == ["no (default)", "≠ yes"]


def test_a_base_that_is_called_like_no_default_is_not_a_default(three: tuple[Side, ...]) -> None:
    table = spec_differences((three[0], with_spec(three[1], base="-", seed=0)), three[0])
    assert table.set_index("field").loc["base", SECOND] == "≠ -"
