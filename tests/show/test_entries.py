"""Tests of finding a run: labels that distinguish pairs and runs, and switches that keep most of the previous run."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from skillviz.models.examples import example_pairs
from skillviz.runs.store import library
from skillviz.show.entries import (
    DEFAULTS,
    LEVELS,
    SETTINGS,
    Entries,
    Entry,
    entry_of,
    first_choice,
    level_labels,
    level_value,
    options,
    pair_labels,
    roles,
    run_labels,
    setting_words,
    switched,
    usual,
)

PLAIN = tuple(DEFAULTS.items())
LARGE = tuple((name, "1024" if name == "batch_size" else value) for name, value in PLAIN)


def entry(localizer: str = "stagewise", size: int = 1000, seed: int = 0, **fields) -> Entry:
    values = {
        "id": f"{localizer}-{size}-{seed}", "is_of_user": False, "pair": ("a", "b", "sst2", "c", "head"),
        "base": "org/base", "finetuned": "org/tuned", "task": "sst2", "readout": "head", "localizer": localizer,
        "size": size, "d": 1_000_000, "seed": seed, "settings": PLAIN, "created": "2026-01-01", "finished": "",
        "seconds": 1.0, "n": 100, "metric": "accuracy", "grafted": 0.8, "recovered": 0.7, "ece": 0.05,
        "is_of_study": True,
    }  # fmt: skip
    return Entry(**{**values, **fields})


GRID = [entry(loc, size, seed) for loc in ("stagewise", "random") for size in (100, 1000, 10_000) for seed in (0, 1, 2)]


def test_four_levels_in_their_order() -> None:
    assert LEVELS == ("pair", "size", "localizer", "seed")
    chosen = GRID[4]
    assert [len(options(GRID, chosen, level)) for level in LEVELS] == [1, 3, 2, 3]
    assert [e.size for e in options(GRID, chosen, "size")] == [100, 1000, 10_000]


def test_switching_the_localizer_keeps_size_and_seed() -> None:
    chosen = entry(size=10_000, seed=2)
    assert switched(GRID, chosen, "localizer", "random").id == "random-10000-2"


def test_switching_to_a_localizer_of_its_own_size_takes_the_nearest() -> None:
    own = [entry("learned", 2345, 0), entry("learned", 120, 0)]
    assert switched([*GRID, *own], entry(size=1000), "localizer", "learned").size == 2345
    assert switched([*GRID, *own], entry(size=100), "localizer", "learned").size == 120


def test_switching_the_pair_keeps_the_localizer_where_it_can() -> None:
    other = ("x", "y", "mrpc", "z", "head")
    there = [replace(e, id="other-" + e.id, pair=other) for e in GRID]
    assert switched([*GRID, *there], GRID[-1], "pair", other).id == "other-" + GRID[-1].id
    only = [replace(there[0], localizer="movement")]
    assert switched([*GRID, *only], GRID[-1], "pair", other).localizer == "movement"


def test_seventy_runs_of_one_pair_give_short_lists() -> None:
    names = ("a", "b", "c", "d", "e", "f", "g", "h")
    many = [entry(n, size, seed) for n in names for size in (100, 1000, 10_000) for seed in (0, 1, 2)]
    assert [len(options(many, many[0], level)) for level in LEVELS] == [1, 3, 8, 3]


def test_size_labels_give_share_and_count() -> None:
    assert level_labels([entry(size=1000)], "size")[0].replace("\N{NO-BREAK SPACE}", " ") == "0.1% (1,000)"


def test_runs_of_one_seed_are_told_apart_by_their_settings_and_else_by_what_was_scored() -> None:
    large = replace(entry(), id="second", settings=LARGE)
    assert level_labels([entry(), large], "seed") == ["0", "0 · batch size 1024"]
    again = replace(entry(), id="stagewise-again")
    assert level_labels([entry(), again], "seed") == ["0", "0 · repeat 2"]
    wide = replace(again, scored=(3, (), False))
    far = replace(again, id="far", scored=(1, ("mnli",), False), created="2026-03-01T10:00:00+00:00")
    assert level_labels([entry(), wide, far], "seed") == ["0", "0 · scored at 3 sizes", "0 · also scored on MNLI"]
    later = replace(again, created="2026-03-01T10:00:00+00:00")
    latest = replace(later, id="latest", created="2026-03-01T11:00:00+00:00")
    assert level_labels([entry(), later, latest], "seed") == [
        "0", "0 · made 1 Mar 2026, 10:00 UTC", "0 · made 1 Mar 2026, 11:00 UTC",
    ]  # fmt: skip


def test_a_run_in_one_line_names_every_setting_that_is_not_the_default() -> None:
    large = replace(entry(), id="large", settings=LARGE)
    again = replace(entry(), id="stagewise-again")
    labels = run_labels([entry(), large, again])
    assert labels[entry().id].replace("\N{NO-BREAK SPACE}", " ") == "SST-2 · base · stagewise · 0.1% · seed 0"
    assert labels[large.id].endswith("seed 0 · batch size 1024") and labels[again.id].endswith("seed 0 · repeat 2")


def test_a_long_setting_is_shortened_to_fit_into_its_box() -> None:
    inner = {"parameters": [f"encoder.layer.{i}.weight" for i in range(9)]}
    recipe, told = json.dumps({"expression": inner}), json.dumps(inner)
    made = replace(entry(), id="by-hand", settings=tuple((n, recipe if n == "options" else "null") for n in SETTINGS))
    assert level_labels([entry(), made], "seed")[1] == f"0 · expression {told[:28]}\N{HORIZONTAL ELLIPSIS}"


def test_equal_names_of_pairs_get_what_tells_them_apart_and_never_a_hash() -> None:
    plain = replace(entry(), finetuned="models/sst2")
    most = [plain, replace(plain, id="again")]
    assert pair_labels(most) == {plain.pair: "SST-2 · base"}
    member = "${SKILLVIZ_FINETUNED}/sst2-adamw-0123456789"
    adamw = replace(plain, pair=("a", "x", "sst2", "c", "head"), finetuned=member)
    prompt = replace(plain, pair=("a", "b", "sst2", "c", "prompt"), readout="prompt")
    fewer = replace(plain, pair=("a", "b", "sst2", "d", "head"), n=50)
    same = replace(fewer, pair=("a", "b", "sst2", "e", "head"))
    labels = pair_labels([*most, adamw, prompt, fewer, same])
    assert labels[plain.pair] == "SST-2 · base" and labels[adamw.pair] == "SST-2 · base (AdamW)"
    assert labels[prompt.pair] == "SST-2 · base (label words at the mask)"
    assert len(set(labels.values())) == len(labels) and not any("0123456789" in label for label in labels.values())
    weaker = replace(plain, pair=("a", "y", "sst2", "c", "head"), finetuned_score=0.788)
    assert pair_labels([*most, weaker])[weaker.pair] == "SST-2 · base (fine-tuned model 78.8%)"


def test_no_name_of_a_run_that_ships_is_a_number_or_a_hash() -> None:
    entries = [entry_of(run, is_of_user=False) for run in library().list()]
    names = [*pair_labels(entries).values(), *run_labels(entries).values()]
    assert len(set(names)) == len(names) > 200
    wrong = re.compile(r"#\d|repeat \d|[0-9a-f]{10}|\b(sgd|prompt|adamw)\b")
    examples = re.compile("|".join(re.escape(f"({pair.name})") for pair in example_pairs()))
    assert [name for name in names if wrong.search(examples.sub("", name))] == [], "an example pair has its own name"
    assert sum("UTC" in name for name in pair_labels(entries).values()) <= 2, "times of day are a last resort"


def of_role(entries: list[Entry], role: str) -> set[str]:
    return {id for id, of in roles(entries).items() if of == role}


def test_one_run_stands_for_models_localizer_and_size_and_its_seeds_are_seeds() -> None:
    assert of_role(GRID, "headline") == {e.id for e in GRID if e.seed == 0}
    assert of_role(GRID, "seed") == {e.id for e in GRID if e.seed != 0}


def test_other_settings_other_recipes_and_repetitions_are_variants() -> None:
    large = [replace(e, id="large-" + e.id, settings=LARGE) for e in GRID]
    again = [replace(e, id="again-" + e.id, created="2026-02-02") for e in GRID]
    member = "${SKILLVIZ_FINETUNED}/sst2-adamw-0123456789"
    adamw = [replace(e, id="adamw-" + e.id, pair=("a", "x", "sst2", "c", "head"), finetuned=member) for e in GRID]
    few = [replace(GRID[0], id="few", pair=("a", "y", "sst2", "c", "head"))]
    every = [*GRID, *large, *again, *adamw, *few]
    assert of_role(every, "variant") == {e.id for e in every} - {e.id for e in GRID}
    assert of_role(adamw, "headline") == {e.id for e in adamw if e.seed == 0}, "nothing else stands for the task"
    mine, alone = replace(few[0], id="mine", is_of_user=True), replace(few[0], id="alone", is_of_study=False)
    assert "mine" in of_role([*every, mine], "headline") and "alone" in of_role([*every, alone], "headline")


def test_roles_and_names_are_told_once_for_a_list() -> None:
    entries = [entry(seed=seed, id=f"e{seed}") for seed in range(3)]
    for tell in (roles, run_labels, pair_labels):
        assert tell(entries) is tell(tuple(entries))
        changed = [*entries[:2], replace(entries[2], localizer="movement")]  # with the same id
        assert tell(changed) is not tell(entries)
    assert run_labels(changed) != run_labels(entries)


def test_pages_use_the_usual_runs_and_the_settings_of_the_one_that_is_open() -> None:
    large = [replace(e, id="large-" + e.id, settings=LARGE) for e in GRID]
    assert usual([*GRID, *large], ()) == GRID
    shown = usual([*GRID, *large], (large[0].id,))
    assert [e.id for e in shown if e not in GRID] == [e.id for e in large if e.localizer == "stagewise"]


def test_without_a_run_at_the_defaults_the_nearest_settings_stand_for_it() -> None:
    large = [replace(e, id="large-" + e.id, settings=LARGE) for e in GRID]
    both = tuple((n, "7" if n in ("batch_size", "steps") else value) for n, value in PLAIN)
    other = [replace(e, id="both-" + e.id, settings=both) for e in GRID]
    assert of_role([*other, *large], "variant") == {e.id for e in other}


def test_a_search_whose_size_is_an_outcome_has_one_headline() -> None:
    learned = [entry("learned", size, seed) for seed, size in enumerate((900, 1000, 1100))]
    assert of_role(learned, "headline") == {"learned-900-0"} and len(of_role(learned, "seed")) == 2


def test_the_first_choice_is_the_users_newest_else_the_default_localizer_at_a_tenth_of_a_percent() -> None:
    assert first_choice(GRID).id == "stagewise-1000-0"
    mine = [entry("random", 5, 9, is_of_user=True, created="2026-02-01"), entry("movement", 5, 9, is_of_user=True)]
    assert first_choice([*GRID, *mine]).id == "random-5-9"
    later = entry("movement", id="later", pair=("x", "y", "sst2", "c", "head"), created="2026-03-01")
    assert first_choice([*GRID, later]).id == "stagewise-1000-0", "one more pair does not take the study's place"


@pytest.mark.parametrize("level", LEVELS)
def test_every_run_can_be_reached(level: str) -> None:
    for chosen in GRID:
        reached = {switched(GRID, chosen, level, level_value(e, level)).id for e in options(GRID, chosen, level)}
        assert chosen.id in reached and len(reached) == len(options(GRID, chosen, level))


def test_an_entry_repeats_its_run(ids: dict[str, str]) -> None:
    run = library().open(ids["paraphrase"])
    found = entry_of(run, is_of_user=True)
    scores = run.record.metrics["test"]
    assert (found.id, found.metric, found.n, found.task) == (run.id, "f1", 120, "mrpc")
    assert found.grafted == scores.states["grafted"]["f1"].value
    assert found.share == run.record.share


def test_settings_are_told_in_words() -> None:
    assert setting_words("batch_size", "1024") == "batch size 1024"
    assert setting_words("k_shot", "64") == "64 examples per class"
    assert setting_words("k_shot", "64", has_classes=False) == "64 examples"
    assert setting_words("options", '{"selection": "train+validation", "start_share": 0.5}') == (
        "selection train+validation, start share 0.5"
    )


def test_runs_on_models_of_equal_weights_in_two_folders_have_a_name_each() -> None:
    here = entry(finetuned="/data/a/tuned")
    there = replace(here, id="there", finetuned="/data/b/tuned")
    labels = run_labels([here, there])
    assert [label.rpartition(" · ")[2] for label in labels.values()] == ["a/tuned", "b/tuned"]
    assert level_labels([here, there], "seed") == ["0 · a/tuned", "0 · b/tuned"]
    moved = replace(here, id="moved", base="org/copy")
    assert [label.rpartition(" · ")[2] for label in run_labels([here, moved]).values()] == ["base", "copy"]
    again = replace(here, id="stagewise-again")
    assert run_labels([here, again])[again.id].endswith("seed 0 · repeat 2"), "a repetition needs no folder"


def test_a_list_that_a_page_asks_of_again_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entries, hashed = Entries(entry(seed=seed) for seed in range(3)), list[str]()
    real = Entry.__hash__
    monkeypatch.setattr(Entry, "__hash__", lambda self: hashed.append(self.id) or real(self))
    first = roles(entries)
    hashed.clear()
    assert roles(entries) is first and not hashed
    assert roles(list(entries)) is first and len(hashed) == 3, "any other list is hashed each time"
    assert roles(Entries(entries[:2])) != roles(entries)


def test_a_region_that_an_option_names_is_said_without_its_path_or_key() -> None:
    for named, words in (
        ("cached_runs/some-run-s0-abcdef/region.safetensors", "a stored region"),
        (f"key:{'0' * 64} stagewise batch_size=64", "region of stagewise batch size 64"),
        ("movement", "movement"),
    ):
        assert setting_words("options", json.dumps({"reference": named})) == f"reference {words}"
