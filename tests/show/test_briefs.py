"""Tests of finding a run: labels that distinguish pairs and runs, switches that keep most of the previous run; and the
run of the opening page, with its numbers."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from skillviz.analysis.null_measures import by_measure
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.models.examples import example_pairs
from skillviz.runs.store import Store, library, shipped_root
from skillviz.show import home
from skillviz.show.briefs import (
    DEFAULTS,
    ENOUGH,
    LEVELS,
    OPENING_PAIR,
    SETTINGS,
    Briefs,
    RunBrief,
    brief_of,
    first_choice,
    headline_scores,
    hero,
    level_labels,
    level_value,
    opening_brief,
    options,
    pair_labels,
    roles,
    run_labels,
    setting_words,
    switched,
    usual,
)
from tests.tables import check, equal, plain

PLAIN = tuple(DEFAULTS.items())
LARGE = tuple((name, "1024" if name == "batch_size" else value) for name, value in PLAIN)


def brief(localizer: str = "stagewise", size: int = 1000, seed: int = 0, **fields) -> RunBrief:
    values = {
        "id": f"{localizer}-{size}-{seed}", "is_of_user": False, "pair": ("a", "b", "sst2", "c", "head"),
        "base": "org/base", "finetuned": "org/tuned", "task": "sst2", "readout": "head", "localizer": localizer,
        "size": size, "d": 1_000_000, "seed": seed, "settings": PLAIN, "created": "2026-01-01", "finished": "",
        "seconds": 1.0, "n": 100, "metric": "accuracy", "grafted": 0.8, "recovered": 0.7, "ece": 0.05,
        "is_of_study": True,
    }  # fmt: skip
    return RunBrief(**{**values, **fields})


def grid(*names: str) -> list[RunBrief]:
    return [brief(name, size, seed) for name in names for size in (100, 1000, 10_000) for seed in (0, 1, 2)]


GRID = grid("stagewise", "random")
LEARNED = [brief("learned", 2345, 0), brief("learned", 120, 0)]
OTHER = ("x", "y", "mrpc", "z", "head")
THERE = [replace(e, id="other-" + e.id, pair=OTHER) for e in GRID]


def copies(name: str, **changes) -> list[RunBrief]:
    """Return the grid again under other ids, with these changes."""
    return [replace(e, id=f"{name}-{e.id}", **changes) for e in GRID]


BIG, AGAIN = copies("large", settings=LARGE), copies("again", created="2026-02-02")
ADAMW = copies("adamw", pair=("a", "x", "sst2", "c", "head"), finetuned="${SKILLVIZ_FINETUNED}/sst2-adamw-0123456789")
FEW = [replace(GRID[0], id="few", pair=("a", "y", "sst2", "c", "head"))]


def lengths(briefs: list[RunBrief], chosen: RunBrief) -> list[int]:
    return [len(options(briefs, chosen, level)) for level in LEVELS]


MANY = grid("a", "b", "c", "d", "e", "f", "g", "h")
test_lists_and_switches = equal({
    "four levels in their order": (
        lambda: dict(zip(LEVELS, lengths(GRID, GRID[4]), strict=True)),
        {"pair": 1, "size": 3, "localizer": 2, "seed": 3},
    ),
    "sizes in their order": (lambda: [e.size for e in options(GRID, GRID[4], "size")], [100, 1000, 10_000]),
    "seventy runs of one pair": (lambda: lengths(MANY, MANY[0]), [1, 3, 8, 3]),
    "another localizer keeps size and seed": (
        lambda: switched(GRID, brief(size=10_000, seed=2), "localizer", "random").id, "random-10000-2",
    ),
    "a localizer of its own size takes the nearest": (
        lambda: [switched([*GRID, *LEARNED], brief(size=s), "localizer", "learned").size for s in (1000, 100)],
        [2345, 120],
    ),
    "another pair keeps the localizer": (
        lambda: switched([*GRID, *THERE], GRID[-1], "pair", OTHER).id, "other-" + GRID[-1].id,
    ),
    "where it can": (
        lambda: switched([*GRID, replace(THERE[0], localizer="movement")], GRID[-1], "pair", OTHER).localizer,
        "movement",
    ),
})  # fmt: skip


def seeds(*changes: dict[str, Any]) -> list[str]:
    """Return how runs of one seed are told apart: the plain one, and one with each of these changes."""
    others = [replace(brief(), **{"id": f"stagewise-again{n or ''}", **one}) for n, one in enumerate(changes)]
    return level_labels([brief(), *others], "seed")


EXPRESSION = {"parameters": [f"encoder.layer.{i}.weight" for i in range(9)]}
BY_HAND = {"options": json.dumps({"expression": EXPRESSION})}
MADE, LATER = ({"created": f"2026-03-01T{hour}:00:00+00:00"} for hour in (10, 11))
test_labels = equal({
    "a size with share and count": (lambda: plain(level_labels([brief(size=1000)], "size")[0]), "0.1% (1,000)"),
    "settings": (lambda: seeds({"settings": LARGE}), ["0", "0 · batch size 1024"]),
    "nothing": (lambda: seeds({}), ["0", "0 · repeat 2"]),
    "what was scored": (
        lambda: seeds({"scored": (3, (), False)}, {"scored": (1, ("mnli",), False), **MADE}),
        ["0", "0 · scored at 3 sizes", "0 · also scored on MNLI"],
    ),
    "the time": (lambda: seeds(MADE, LATER), ["0", "0 · made 1 Mar 2026, 10:00 UTC", "0 · made 1 Mar 2026, 11:00 UTC"]),
    "a long setting is shortened": (
        lambda: seeds({"settings": tuple((n, BY_HAND.get(n, "null")) for n in SETTINGS)})[1],
        f"0 · expression {json.dumps(EXPRESSION)[:28]}\N{HORIZONTAL ELLIPSIS}",
    ),
    "models of equal weights in two folders": (
        lambda: level_labels([replace(brief(), id=f, finetuned=f"/data/{f}/tuned") for f in "ab"], "seed"),
        ["0 · a/tuned", "0 · b/tuned"],
    ),
    "a batch size": (lambda: setting_words("batch_size", "1024"), "batch size 1024"),
    "examples per class": (lambda: setting_words("k_shot", "64"), "64 examples per class"),
    "examples": (lambda: setting_words("k_shot", "64", has_classes=False), "64 examples"),
    "options": (
        lambda: setting_words("options", '{"selection": "train+validation", "start_share": 0.5}'),
        "selection train+validation, start share 0.5",
    ),
    # A region that an option names is said without its path or key.
    "a stored region": (
        lambda: reference("cached_runs/some-run-s0-abcdef/region.safetensors"), "reference a stored region",
    ),
    "a region by its key": (
        lambda: reference(f"key:{'0' * 64} stagewise batch_size=64"), "reference region of stagewise batch size 64",
    ),
    "a region by its localizer": (lambda: reference("movement"), "reference movement"),
})  # fmt: skip


def reference(named: str) -> str:
    return setting_words("options", json.dumps({"reference": named}))


WHOLE, HERE = "SST-2 · base · stagewise · 0.1% · seed 0", brief(finetuned="/data/a/tuned")
test_runs_in_one_line = equal({
    "every setting that is not the default": (
        lambda: [*map(plain, run_labels(
            [brief(), replace(brief(), id="large", settings=LARGE), replace(brief(), id="stagewise-again")]
        ).values())],
        [WHOLE, f"{WHOLE} · batch size 1024", f"{WHOLE} · repeat 2"],
    ),
    # Runs on models of equal weights in two folders have a name each; a repetition needs no folder.
    **{
        f"models of equal weights: {ends}": (
            lambda changes=changes: [
                label.rpartition(" · ")[2]
                for label in run_labels([HERE, replace(HERE, id="stagewise-again", **changes)]).values()
            ],
            ends,
        )
        for changes, ends in (
            ({"finetuned": "/data/b/tuned"}, ["a/tuned", "b/tuned"]), ({"base": "org/copy"}, ["base", "copy"]),
            ({}, ["seed 0", "repeat 2"]),
        )
    },
})  # fmt: skip


def test_equal_names_of_pairs_get_what_tells_them_apart_and_never_a_hash() -> None:
    own = replace(brief(), finetuned="models/sst2")
    most = [own, replace(own, id="again")]
    adamw = replace(own, pair=ADAMW[0].pair, finetuned=ADAMW[0].finetuned)
    prompt = replace(own, pair=("a", "b", "sst2", "c", "prompt"), readout="prompt")
    weaker = replace(own, pair=FEW[0].pair, finetuned_score=0.788)
    few = [replace(own, pair=("a", "b", "sst2", name, "head"), n=50) for name in "de"]
    labels = pair_labels([*most, adamw, prompt, *few])
    assert {name: labels[one.pair] for name, one in (("own", own), ("adamw", adamw), ("prompt", prompt))} == {
        "own": "SST-2 · base", "adamw": "SST-2 · base (AdamW)", "prompt": "SST-2 · base (label words at the mask)",
    }  # fmt: skip
    assert len(set(labels.values())) == 5 and "0123456789" not in " ".join(labels.values())
    assert pair_labels(most) == {own.pair: "SST-2 · base"}
    assert pair_labels([*most, weaker])[weaker.pair] == "SST-2 · base (fine-tuned model 78.8%)"


def test_no_name_of_a_run_that_ships_is_a_number_or_a_hash() -> None:
    briefs = [brief_of(run, is_of_user=False) for run in library().list()]
    names = [*pair_labels(briefs).values(), *run_labels(briefs).values()]
    assert len(set(names)) == len(names) > 200
    wrong = re.compile(r"#\d|repeat \d|[0-9a-f]{10}|\b(sgd|prompt|adamw)\b")
    examples = re.compile("|".join(re.escape(f"({pair.name})") for pair in example_pairs()))
    assert [name for name in names if wrong.search(examples.sub("", name))] == [], "an example pair has its own name"
    assert sum("UTC" in name for name in pair_labels(briefs).values()) <= 2, "times of day are a last resort"


def of_role(briefs: list[RunBrief], role: str) -> set[str]:
    return {id for id, of in roles(briefs).items() if of == role}


EVERY = [*GRID, *BIG, *AGAIN, *ADAMW, *FEW]
OUTCOMES = [brief("learned", size, seed) for seed, size in enumerate((900, 1000, 1100))]
BOTH = copies("both", settings=tuple((n, "7" if n in ("batch_size", "steps") else value) for n, value in PLAIN))
test_roles = equal({
    "one run stands for models, localizer and size": (
        lambda: of_role(GRID, "headline"), {e.id for e in GRID if e.seed == 0},
    ),
    "its seeds are seeds": (lambda: of_role(GRID, "seed"), {e.id for e in GRID if e.seed != 0}),
    "other settings, recipes and repetitions": (
        lambda: of_role(EVERY, "variant"), {e.id for e in EVERY} - {e.id for e in GRID},
    ),
    "nothing else stands for the task": (
        lambda: of_role(ADAMW, "headline"), {e.id for e in ADAMW if e.seed == 0},
    ),
    "without a run at the defaults the nearest settings": (
        lambda: of_role([*BOTH, *BIG], "variant"), {e.id for e in BOTH},
    ),
    "one headline where the size is an outcome": (
        lambda: (of_role(OUTCOMES, "headline"), len(of_role(OUTCOMES, "seed"))), ({"learned-900-0"}, 2),
    ),
    "the user's own run": (lambda: roles([*EVERY, replace(FEW[0], id="m", is_of_user=True)])["m"], "headline"),
    "a run of no study": (lambda: roles([*EVERY, replace(FEW[0], id="m", is_of_study=False)])["m"], "headline"),
})  # fmt: skip


@pytest.mark.parametrize("tell", [roles, run_labels, pair_labels])
def test_roles_and_names_are_told_once_for_a_list(tell: Callable[..., dict]) -> None:
    briefs = [brief(seed=seed, id=f"e{seed}") for seed in range(3)]
    changed = [*briefs[:2], replace(briefs[2], localizer="movement")]  # with the same id
    assert tell(briefs) is tell(tuple(briefs)) is not tell(changed)
    assert (tell(changed) == tell(briefs)) == (tell is pair_labels)


NEWEST = [brief("random", 5, 9, is_of_user=True, created="2026-02-01"), brief("movement", 5, 9, is_of_user=True)]
LATEST = brief("movement", id="later", pair=OTHER, created="2026-03-01")
test_the_first_choice_and_the_runs_that_pages_use = equal({
    "the default localizer at a tenth of a percent": (lambda: first_choice(GRID).id, "stagewise-1000-0"),
    "the user's newest": (lambda: first_choice([*GRID, *NEWEST]).id, "random-5-9"),
    "one more pair does not take the study's place": (lambda: first_choice([*GRID, LATEST]).id, "stagewise-1000-0"),
    "the usual runs": (lambda: usual([*GRID, *BIG], ()), GRID),
    "and the settings of the one that is open": (
        lambda: [e for e in usual([*GRID, *BIG], (BIG[0].id,)) if e not in GRID],
        [e for e in BIG if e.localizer == "stagewise"],
    ),
})  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_every_run_can_be_reached(level: str) -> None:
    for chosen in GRID:
        reached = {switched(GRID, chosen, level, level_value(e, level)).id for e in options(GRID, chosen, level)}
        assert chosen.id in reached and len(reached) == len(options(GRID, chosen, level))


def test_an_entry_repeats_its_run(ids: dict[str, str]) -> None:
    run = library().open(ids["paraphrase"])
    found, stored = brief_of(run, is_of_user=True), run.record.metrics["test"].states["grafted"]["f1"].value
    told = found.id, found.metric, found.n, found.task, found.grafted, found.share
    assert told == (run.id, "f1", 120, "mrpc", stored, run.record.share)


def test_a_list_that_a_page_asks_of_again_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    briefs, hashed, real = Briefs(brief(seed=seed) for seed in range(3)), list[str](), RunBrief.__hash__
    monkeypatch.setattr(RunBrief, "__hash__", lambda self: hashed.append(self.id) or real(self))
    first = roles(briefs)
    hashed.clear()
    assert roles(briefs) is first and not hashed
    assert roles(list(briefs)) is first and len(hashed) == 3, "any other list is hashed each time"
    assert roles(Briefs(briefs[:2])) != roles(briefs)


@pytest.fixture(scope="module")
def shipped() -> list[RunBrief]:
    runs = [run for run in Store(shipped_root()).list() if run.spec.finetuned == OPENING_PAIR[1]]
    return [brief_of(run, is_of_user=False) for run in runs]


@pytest.fixture(scope="module")
def first(shipped: list[RunBrief]) -> RunBrief:
    chosen = hero(shipped)
    assert chosen is not None
    return chosen


def test_the_opening_is_a_real_run_that_ships(first: RunBrief) -> None:
    assert first.localizer == DEFAULT_LOCALIZER and (first.recovered or 0) >= ENOUGH
    run = Store(shipped_root()).open(first.id)
    scores = headline_scores(run.record)
    assert scores is not None and scores.recovered is not None
    copied, gain, null, calibration = home.numbers(run.record, scores, "test", by_measure(run, "test"))
    assert (null.title, null.verdict, calibration.verdict) == ("Beyond the null", "better", "better")
    without = home.numbers(run.record, scores, "test", pd.DataFrame())[2].value
    check(null.basis, ("shared probability", plain(without)))
    assert without != null.value, "accuracy, where the other is not measured"
    assert copied.basis.startswith(f"{first.size:,} of") and f"{scores.n:,}" in home.sentence(run.record, scores)
    assert gain.value.startswith(f"{100 * (scores.recovered.value or 0):.0f}") and "95" in gain.basis
    errors = [f"{100 * (scores.states[state]['ece'].read or 0):.1f}" for state in ("grafted", "finetuned")]
    assert [error for error in errors if error not in calibration.value] == [] and "95%" in calibration.basis
    bare = scores.model_copy(update={"recovered": None, "differences": {}})
    numbers = home.numbers(run.record.model_copy(update={"nulls": ()}), bare, "test", pd.DataFrame())
    told = {number.title: number.verdict for number in numbers}
    assert told == {"Parameters copied": None, "Beyond the null": "not measured"}, "what was not measured is not told"


def test_the_smallest_region_with_enough_of_the_gain_is_shown(first: RunBrief) -> None:
    less = replace(first, id="less", size=first.size // 2, recovered=ENOUGH - 0.01)
    small, little = replace(less, id="small", recovered=ENOUGH), replace(first, recovered=0.5)
    mine, other = replace(first, is_of_user=True), replace(first, localizer="movement")
    lists = [first, less], [replace(small, id="seed", seed=1), first, small], [less, little], [other], [], [mine]
    # The third: the largest where none brings back enough.
    assert [hero(one) for one in lists] == [first, small, little, None, None, None]
    assert opening_brief([mine]).is_of_user
