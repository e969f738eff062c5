"""Tests of runs side by side: which are compared at first, short names, stored values, paired differences, specs; and
sentences whose claims need a supporting interval, and whose limits have their reason."""

from collections.abc import Callable
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
from skillviz.show.briefs import RunBrief, brief_of, headline_split, run_labels
from skillviz.ui.chip import lead_of
from skillviz.ui.pages import compare
from skillviz.ui.pages.compare import MOST, Side, localizers_at, seeds_of, spec_differences, to_begin_with
from tests.fake_run import fake_run
from tests.plots.facts import Between
from tests.show import test_briefs
from tests.tables import says
from tests.ui.driven import lacks
from tests.ui.shared_store import SMALL
from tests.ui.test_chip import chips

FIRST, SECOND, THIRD = "stagewise, seed 0", "stagewise, seed 1", "top movement, seed 0"
PICTURE = "![x](http://x)"


def brief(run_id: str, localizer: str = "stagewise", **fields) -> RunBrief:
    return test_briefs.brief(**{"id": run_id, "localizer": localizer, **fields})


def changed(run_id: str, localizer: str = "stagewise", *, of: dict[str, str], **fields) -> RunBrief:
    plain = brief(run_id, localizer, **fields)
    return replace(plain, settings=tuple((name, of.get(name, value)) for name, value in plain.settings))


def sides_of(*runs: Run) -> tuple[Side, ...]:
    return compare.sides([brief_of(run, is_of_user=True) for run in runs], runs)


def names_of(*runs: Run) -> list[str]:
    return [side.name for side in sides_of(*runs)]


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
def test_names_say_what_differs_and_nothing_else(store: Store, three: tuple[Side, ...], elsewhere: Run) -> None:
    assert [side.name for side in three] == [FIRST, SECOND, THIRD]
    assert names_of(three[0].run, few(store, sizes=("10%",))) == ["stagewise, 0.99%", "stagewise, 10.0%"]


def test_other_pairs_and_their_finetuned_models_are_named(three: tuple[Side, ...], elsewhere: Run) -> None:
    tuned = compare.finetuned(sides_of(three[0].run, elsewhere, three[1].run))
    assert [names_of(three[0].run, elsewhere), list(tuned)] == [
        [f"{state}, {pair} · tiny-base" for pair in ("SST-2", "MRPC")] for state in ("stagewise", "fine-tuned")
    ]


def test_repetitions_say_what_is_different(store: Store, three: tuple[Side, ...]) -> None:
    runs = (three[0].run, few(store))
    made = [replace(brief_of(run, is_of_user=True), created=f"2026-01-0{day}") for day, run in enumerate(runs, start=1)]
    one, again = (side.name for side in compare.sides(made, runs))
    assert one == "stagewise" and again.startswith("stagewise, ") and "#" not in again


def told(run: Run, **fields) -> Run:
    return Run(run.path, run.record.model_copy(update=fields))


def test_runs_of_other_data_are_not_paired_and_the_reason_is_said(three: tuple[Side, ...], elsewhere: Run) -> None:
    baseline, other = sides_of(three[0].run, elsewhere)
    note = baseline.record.task.model_copy(update={"fingerprint": "d" * 64})
    retold = [Side("other", baseline.brief, told(baseline.run, task=task)) for task in (note, None)]
    same, another, *others = (compare.unlike(side, baseline) for side in (three[1], other, *retold))
    assert (same, another) == ("", "it was scored on another task (MRPC, not SST-2)")
    assert "sha256" in others[0] and "does not say" in others[1]


def test_values_are_the_stored_ones_and_a_shared_finetuned_model_is_one_row(three: tuple[Side, ...]) -> None:
    table = compare.values(three, "grafted", ("accuracy", "ece"))
    assert list(dict.fromkeys(table["run"])) == [FIRST, SECOND, THIRD, "fine-tuned"]
    stored = three[1].record.metrics["test"].states["grafted"]["ece"]
    row = table.set_index(["run", "metric"]).loc[(SECOND, "ece"), ["value", "low", "high"]]
    assert row.tolist() == [stored.value, stored.low, stored.high]
    assert "fine-tuned" not in set(compare.values(three, "finetuned", ("accuracy",))["run"])


def answers_of(sides: tuple[Side, ...], state: str = "grafted") -> dict[str, Answers]:
    return {
        side.name: answers_of_state(side.run.predictions(), headline_split(side.run.record), side.run.labels, state)
        for side in sides
    }


def test_differences_are_those_of_each_pair(three: tuple[Side, ...]) -> None:
    answers = answers_of(three)
    base, table = answers[FIRST], less_baseline(answers, FIRST, ("accuracy", "nll"), 1).set_index(["run", "metric"])
    assert {*table.index} == {(run, metric) for run in (SECOND, THIRD) for metric in ("accuracy", "nll")}
    for (run, metric), row in table.iterrows():
        wanted = metric_difference(answers[run].logits, base.logits, base.labels, metric)
        assert row[["value", "low", "high"]].tolist() == pytest.approx(wanted[:3], rel=1e-9, abs=1e-12), (run, metric)
        test = mcnemar(answers[run].logits, base.logits, base.labels)
        counts = [test.p, test.n10, test.n01] if metric == "accuracy" else [None] * 3
        assert row[["p", "gained", "lost"]].replace({np.nan: None}).tolist() == counts and row["n"] == 120


def test_only_shared_examples_count_whatever_their_order(three: tuple[Side, ...]) -> None:
    answers, even = answers_of(three), np.arange(0, 120, 2)
    base, one = answers[FIRST], answers[SECOND]
    part = Answers(one.ids[even], one.labels[even], one.logits[even])
    table = less_baseline({"A": base, "B": part}, "A", ("accuracy",), 1)
    wanted = metric_difference(part.logits, base.logits[even], part.labels, "accuracy")
    assert table[["n", "value"]].to_numpy().tolist() == [[60, pytest.approx(wanted.value)]]
    apart = Answers(np.array(["elsewhere-1"]), one.labels[:1], one.logits[:1])
    none = (less_baseline(found, "A", ("accuracy",), 1) for found in ({"A": base, "B": apart}, {"A": base}))
    assert [rows.empty for rows in none] == [True, True]


def test_the_finetuned_model_of_one_pair_does_not_differ_from_itself(three: tuple[Side, ...]) -> None:
    table = less_baseline(answers_of(three, "finetuned"), FIRST, ("accuracy", "ece"), 1)
    assert (table[["value", "low", "high"]] == 0).all(axis=None)


def test_curves_and_bins_go_under_the_names(three: tuple[Side, ...]) -> None:
    curve = compare.curves_of(three, {side.name: side.run.curve() for side in three}, "test")
    assert (set(curve["localizer"]), set(curve["split"])) == ({FIRST, SECOND, THIRD}, {"test"})
    assert compare.bins(answers_of(three)).groupby("state")["count"].sum().tolist() == [120] * 3


def test_shares_have_their_chance_beside_them() -> None:
    shapes = {"w": (10, 10)}
    regions = {"A": Region.from_flat(np.arange(10), shapes), "B": Region.from_flat(np.arange(5, 25), shapes)}
    iou, one_way = (compare.shares(regions, kind).set_index(["row", "column"]) for kind in ("iou", "overlap"))
    assert iou["value"].loc[[("A", "B"), ("A", "A")]].tolist() == [5 / 25, 1]
    assert one_way["value"].loc[[("A", "B"), ("B", "A")]].tolist() == [0.25, 0.5]
    chance = [*one_way.loc[("A", "B"), ["chance", "chance_low", "chance_high"]], iou.loc[("A", "B"), "chance"]]
    assert chance == [0.1, 0.0, 0.25, Between(0, 0.1)]


def with_spec(side: Side, **changed) -> Side:
    spec = RunSpec(**{**side.run.spec.model_dump(), **changed})
    return Side(side.name, side.brief, Run(Path("x"), side.record.model_copy(update={"spec": spec})))


@pytest.mark.parametrize(
    ("mine", "theirs", "rows"),
    [
        ({}, {"seed": 1, "steps": 50, "options": {"lr": 0.1}},
         {"seed": ["0 (default)", "≠ 1"], "steps": ["not given (default)", "≠ 50"],
          "option lr": ["not given (default)", "≠ 0.1"]}),
        ({}, {}, {}),
        ({"interpolation": False, "others": ()}, {"interpolation": True, "others": ("imdb", "cr")},
         {"others": ["none (default)", "≠ imdb, cr"], "interpolation": ["no (default)", "≠ yes"]}),
        ({}, {"base": "-"}, {"base": ["demo/tiny-base", "≠ -"]}),
    ],
)  # fmt: skip
def test_specs_show_only_what_differs_with_defaults_named(
    mine: dict[str, object], theirs: dict[str, object], rows: dict[str, list[str]], three: tuple[Side, ...]
) -> None:
    sides = (with_spec(three[0], **mine), replace(with_spec(three[0], **theirs), name="other"))
    table = spec_differences(sides, sides[0]).set_index("field").T
    assert {field: table[field].tolist() for field in table if field != "run"} == rows and table.columns[0] == "run"


def table(*rows: tuple) -> pd.DataFrame:
    columns = ["run", "metric", "value", "low", "high", "n", "p", "gained", "lost"]
    return pd.DataFrame(rows, columns=columns).assign(debiased=np.nan)


BETTER = ("B", "accuracy", 0.03, 0.01, 0.05, 100, 0.002, 9, 1)
OPEN = ("C", "accuracy", 0.03, -0.01, 0.05, 100, 0.3, 5, 2)
OF_ECE = (
    ("B", "ece", 0.03, 0.01, 0.05, 100, None, None, None),
    ("C", "ece", -0.03, -0.05, -0.01, 100, None, None, None),
)


@pytest.mark.parametrize(
    ("rows", "order", "says"),
    [
        ([BETTER, OPEN, *OF_ECE], "ABC",
         ["Accuracy of the grafts: **B** better +3.0 points (95%: 1.0–5.0) vs **"]),
        ([BETTER, OPEN, *OF_ECE], "ACB", ["**C** no clear difference"]),
        ([OPEN], "AC", ["**C** no clear difference +3.0 points (95%: −1.0 to 5.0)"]),
        ([], "AB", ["No other run was scored"]),
        ([(PICTURE, *BETTER[1:])], ["A", PICTURE], [r"\!\[x\]"]),
    ],
    ids=["better", "open", "the only other run", "no shared example", "names are not Markdown"],
)  # fmt: skip
def test_better_and_worse_only_where_the_interval_leaves_out_zero(
    rows: list[tuple], order: str, says: list[str]
) -> None:
    (baseline, *_) = compare.sides([brief(f"r{i}") for i in range(3)], [FakeRun()] * 3)
    said = compare.summary(lead_of(table(*rows), "accuracy", "run", list(order)), baseline, "grafted")
    assert not lacks(chips(said), *says) and said.count("-badge[") == bool(rows), "the others are below the figures"
    assert PICTURE not in said + "".join(compare.mcnemar(table(*rows), PICTURE))


class FakeRun:
    """A run whose record has nothing but its id."""

    id = "x"
    record = None


test_what_is_said_beside_the_figures = says({
    "McNemar's test": (
        lambda: " ".join(
            compare.mcnemar(table(("B", "accuracy", 0.03, 0.01, 0.05, 1821, 0.0000001, 90, 10)), "A")
        ),
        ("**B**", "below 0.001", "1,821", "right on 90", "A on 10"),
    ),
    "no test of F1": (
        lambda: " ".join(compare.mcnemar(table(("B", "f1", 0.0, 0.0, 0.0, 9, None, None, None)), "A")), ("^$",),
    ),
    "unknown ids as they are": (
        lambda: compare.unknown(["no-such_run"]), (r"no-such\_run", "SKILLVIZ_RUNS"),
    ),
    "other data in a name": (
        lambda: "; ".join(compare.short_names([brief("one"), brief("two", scored=(1, ("mnli",), True))])),
        ("^stagewise; stagewise, also scored on MNLI$",),
    ),
    "a setting in a name": (
        lambda: "; ".join(compare.short_names([brief("one"), changed("two", of={"steps": "7"})])),
        ("^stagewise; stagewise, steps 7$",),
    ),
    "settings in a name": (
        lambda: compare.sides([BATCH, BATCH], [FakeRun()] * 2)[0].name, ("^learned, ranked, batch size 64$",),
    ),
})  # fmt: skip


MANY = [
    *(brief(f"m{seed}", "movement", seed=seed) for seed in range(8)),
    *(brief(name, name) for name in ("random", "stagewise", "mine")),
    brief("big", "random", size=999), brief("far", pair=("x", "y", "z", "", "")),
]  # fmt: skip
LIKE, OF_SEED_1 = brief("like"), brief("like", seed=1)
VARIANTS = [changed(f"a{n}", "learned-ranked", seed=n, of={"steps": "7"}) for n in range(3)]
BATCH = changed("small", "learned-ranked", of={"batch_size": "64"})
OF_300 = brief("like", "biases", size=300)
NEAR_300 = [changed(f"a{n}", "learned-ranked", size=300 + n, of={"steps": "100"}) for n in range(1, 7)]
USUAL = [
    brief("far", size=9000), brief("random", "random", size=9000),
    brief("near", size=400), brief("again", size=400, seed=1),
]  # fmt: skip
SHIPPED = [brief(f"s{seed}", name, seed=seed) for name in ("random", "movement") for seed in range(2)]
OWN = {"is_of_user": True, "pair": ("mine", "tuned", "own", "x", "head"), "task": "own"}
OLDER, NEWEST = brief("older", "random", created="2026-02-01", **OWN), brief("newest", created="2026-02-02", **OWN)
DEMO = brief("demo", is_of_user=True, created="2026-02-03")
ELSE = {"is_of_user": True, "task": "else"}
SINGLE = brief("single", pair=("mine", "tuned2", "else", "y", "head"), created="2026-02-04", **ELSE)
KIN = brief("kin", pair=("mine", "tuned3", "else", "y", "head"), created="2026-01-05", **ELSE)


@pytest.mark.parametrize(
    ("choose", "briefs", "like", "chosen"),
    [
        (localizers_at, MANY, MANY[1], ["m1", "stagewise", "random", "mine"]),
        (localizers_at, [LIKE, *VARIANTS, brief("plain", "learned-ranked", seed=5)], LIKE, ["like", "plain"]),
        (localizers_at, [LIKE, BATCH, brief("plain", "random")], LIKE, ["like", "small", "plain"]),
        (localizers_at, [OF_SEED_1, brief("r0", "random"), brief("r1", "random", seed=1)], OF_SEED_1, ["like", "r1"]),
        (seeds_of, MANY, MANY[2], ["m2", "m0", "m1", "m3", "m4", "m5"]),
        (to_begin_with, MANY[-1:], MANY[-1], ["far"]),
        (to_begin_with, [LIKE, BATCH, brief("plain", "random")], LIKE, ["like", "plain"]),
        (to_begin_with, [LIKE, BATCH], LIKE, ["like", "small"]),
        (to_begin_with, [*NEAR_300, *USUAL, OF_300], OF_300, ["like", "near", "random"]),
        (to_begin_with, [*NEAR_300, OF_300], OF_300, ["like", "a1"]),
        (to_begin_with, [OF_300, brief("more", "biases", size=500)], OF_300, ["like", "more"]),
        (to_begin_with, [NEWEST, OLDER, *SHIPPED], NEWEST, ["newest", "older"]),
        (to_begin_with, [SINGLE, NEWEST, OLDER, *SHIPPED], SINGLE, ["newest", "older"]),
        (to_begin_with, [SINGLE, OLDER, *SHIPPED], SINGLE, ["single", "older"]),
        (to_begin_with, [SINGLE, KIN, NEWEST, OLDER], SINGLE, ["single", "kin"]),
    ],
    ids=[
        "localizers at this size begin with the baseline", "each localizer at its usual settings",
        "or at the settings it has", "of the same seed if there is one", "at most six seeds", "the only run of all",
        "what opens first is at default settings", "where nothing else is there to compare with",
        "one run a localizer, the nearest size first",
        "no other localizer has a run at default settings", "nor any run of another localizer",
        "a user's own runs come before those that ship", "the newest with company", "or the newest",
        "two models on one task",
    ],
)  # fmt: skip
def test_what_is_compared_at_first(
    choose: Callable[[list[RunBrief], RunBrief], list[str]], briefs: list[RunBrief], like: RunBrief, chosen: list[str]
) -> None:
    assert choose(briefs, like) == chosen and len(chosen) <= MOST == 6


def test_the_only_run_of_its_pair_gives_way_to_a_pair_with_more() -> None:
    assert len(to_begin_with(MANY, MANY[-1])) > 1 and "far" not in to_begin_with(MANY, MANY[-1])
    assert "single" not in to_begin_with([SINGLE, *SHIPPED], SINGLE), "its only run has nothing to be compared with"
    assert to_begin_with([DEMO, *SHIPPED], DEMO)[0] == "demo", "a run of a pair that ships has its company"


def test_names_are_unique() -> None:
    briefs = [*MANY, brief("twin-000001", "random"), brief("twin-000002", "random")]
    assert len({*run_labels(briefs).values()}) == len(briefs)
