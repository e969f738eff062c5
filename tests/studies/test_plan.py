"""Tests of plans from study files: steps, their order, keys and labels; and messages about errors in a file."""

import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from skillviz.analysis.differences import paired
from skillviz.analysis.observations import Observation, once, sides
from skillviz.analysis.recovered import recovered
from skillviz.analysis.scores import score_table
from skillviz.errors import BadInput
from skillviz.runs.plan import keys_in
from skillviz.runs.score import ScoreSpec
from skillviz.runs.spec import RunSpec
from skillviz.studies import plan as plan_module
from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec, read_finetuned, recipe_in
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.study_observations import model_fields, of_results, run_variants
from skillviz.studies.task_sequence import MANY_SEQUENCES, stages_and_notes
from skillviz.tasks import registry
from skillviz.tasks.project import anchored, project_root
from tests.refused import refused, refuses
from tests.studies.tiny_study import REGION, Results, Store, every_kind, models_in, run_study, seen, study_of, tasks

PAIR = {"base": "b", "finetuned": "f", "task": "sst2", "localizer": "random", "size": "1%"}
RETRAINED = {"recipe": "graft-retrain", "region": REGION, "localizer": "none"}
SEQUENCE = {"tasks": [0, 1], "recipe": "continual", "region": REGION}
FEW = {"steps": 3, "lr": 0.02, "batch_size": 4, "seed": 5}

Planned = Callable[..., StudyPlan]


@pytest.fixture
def planned(tiny: Path) -> Planned:
    """Return the plan of entries on the tiny base. Tasks are given by number; an entry without any has the first."""

    def plan(*entries: dict[str, Any], **defaults: Any) -> StudyPlan:
        whole = ({**({} if "tasks" in entry else {"task": 0}), **entry} for entry in entries)
        named = ({k: np.take(tasks(tiny), v).tolist() if k in ("task", "tasks") else v for k, v in entry.items()}
                 for entry in whole)  # fmt: skip
        return study_plan(study_of(tiny, *named, **defaults))

    return plan


def plan_of(*runs: dict[str, Any], **defaults: Any) -> StudyPlan:
    """Return the plan of these entries, which needs no file."""
    return study_plan(StudySpec(name="s", runs=runs, defaults=defaults))


@pytest.fixture(scope="module")
def whole(tiny: Path) -> StudyPlan:
    """Return the plan of a study with entries of every kind."""
    return study_plan(every_kind(tiny))


def titles(found: StudyPlan, kind: str) -> list[str]:
    """Return the titles of the steps of a kind."""
    return [step.title for step in found.steps if step.kind == kind]


def test_every_kind_of_entry_has_its_steps(whole: StudyPlan) -> None:
    assert titles(whole, "finetune") == [
        "fine-tune one (sgd, seed 0)",
        "fine-tune two (sgd, seed 0)",
        "fine-tune one (graft-retrain, seed 0)",
        "fine-tune one+two (continual, grafting, seed 0)",
        "fine-tune one+two (continual, naive, seed 0)",
        "fine-tune one+two (multi-task, seed 0)",
        "fine-tune one (bitfit, seed 0)",
        "fine-tune one (lora, seed 0)",
    ]
    assert titles(whole, "score") == [
        "score one (graft-retrain, seed 0)",
        "score one (graft-retrain, seed 0) on two",
        "score one (continual, seed 0) after stage 1 (grafting)",
        "score one (continual, seed 0) after stage 2 (grafting)",
        "score two (continual, seed 0) after stage 2 (grafting)",
        "score one (continual, seed 0) after stage 1 (naive)",
        "score one (continual, seed 0) after stage 2 (naive)",
        "score two (continual, seed 0) after stage 2 (naive)",
        "score one (bitfit, seed 0)",
        "score one (lora, seed 0)",
    ]
    assert (len(titles(whole, "localize")), whole.steps[-1].kind) == (2 * 4 + 2 + 1 + 1, "table")


LORA = {"recipe": "lora", "localizer": "none"}


@pytest.mark.parametrize(
    ("entries", "bases", "models"),
    [
        ([{**LORA, "finetune": {"rank": rank}} for rank in (1, 8)], ("base", "finetuned"),
         [f"one (lora, rank {rank}, seed 0) on {base}" for rank in (1, 8) for base in ("base", "finetuned")]),
        ([{**LORA, "finetune": {"rank": 1, "matrices": 2}}], ("base",),
         ["one (lora, rank 1, 2 of the matrices, seed 0)"]),
        ([{"recipe": "sgd", "localizer": "none", "k_shot": 4, "data_seed": [0, 2]}], ("base",),
         ["one (sgd, 4-shot, seed 0)", "one (sgd, 4-shot of data seed 2, seed 0)"]),
    ],
    ids=["bases and ranks", "matrices of lora", "samples of the data"],
)  # fmt: skip
def test_titles_tell_models_apart(
    planned: Planned, tiny: Path, entries: list[dict[str, Any]], bases: tuple[str, ...], models: list[str]
) -> None:
    """The second base is any folder with the same shapes."""
    found = planned(*entries, base=[str(tiny / base) for base in bases])
    assert [titles(found, kind) for kind in ("finetune", "score")] == [
        [f"{verb} {model}" for model in models] for verb in ("fine-tune", "score")
    ]


def test_each_step_comes_after_what_it_needs_and_those_of_a_pair_stand_together(whole: StudyPlan) -> None:
    before: set[str] = set()
    for step in whole.steps:
        assert before.issuperset(step.needs), step.title
        before.add(step.key)
    assert set(whole.steps[-1].needs) == before - {"table"}
    pairs = [step.pair for step in whole.steps if step.pair is not None]
    assert sum(a != b for a, b in zip(pairs, pairs[1:], strict=False)) == len(set(pairs)) - 1


def test_what_needs_a_region_needs_its_run_and_that_its_model(whole: StudyPlan) -> None:
    retrained = next(step for step in whole.steps if "graft-retrain" in step.title)
    (run,) = retrained.needs
    (model,) = whole.by_key[run].needs
    assert isinstance(retrained.spec, FineTunedSpec)
    assert [r.key() for r in retrained.spec.regions] == [run]
    assert whole.by_key[model].title == "fine-tune one (sgd, seed 0)"
    assert whole.by_key[run].title.startswith("movement 5%")
    by_hand, drawn = (next(spec for spec in whole.runs if spec.localizer == name)
                      for name in ("expression", "random-matched"))  # fmt: skip
    assert keys_in(by_hand.options["expression"]) == [run]
    assert drawn.options == {"reference": f"key:{run} movement"}
    assert run in whole.by_key[by_hand.key()].needs
    assert run in whole.by_key[drawn.key()].needs


def test_a_region_to_match_is_a_run_or_a_file(planned: Planned) -> None:
    entry = {"recipe": "sgd", "localizer": "random-matched", "size": "5%"}
    (named,) = planned({**entry, "options": {"reference": "somewhere"}}).runs
    assert named.options == {"reference": "somewhere"}
    drawn = [
        run
        for run in planned(
            {**entry, "finetune": {"seed": [0, 1]}, "options": {"reference": {"run": {**REGION, "options": {}}}}}
        ).runs
        if run.localizer == "random-matched"
    ]
    assert len({run.key() for run in drawn}) == 2, "each matches the region on its own model"
    assert [run.search_fields() for run in drawn] == [{"reference": "movement"}] * 2, "and is the same search"
    refuses(
        BadInput,
        "'reference' names a region file, or a run as reference:",
        planned,
        {**entry, "options": {"reference": {"union": []}}},
    )


def test_members_of_several_tasks_have_a_folder_for_each_stage_and_task(whole: StudyPlan) -> None:
    grafting = next(spec for spec in whole.finetuned if spec.recipe == "continual" and spec.regions)
    multi = next(spec for spec in whole.finetuned if spec.recipe == "multi-task")
    assert {f"{grafting.name()}/{place}" for place in ("1/one", "2/one", "2/two")} <= {
        spec.finetuned.removeprefix("${SKILLVIZ_FINETUNED}/") for spec in whole.scores
    } and multi.path(multi.tasks[1]).endswith(f"{multi.name()}/two")
    assert multi.name().startswith("one+two-multi-task-"), "each file is called task.yaml: its folder names it"


@pytest.mark.parametrize(
    ("kind", "labels", "count"),
    [
        ("localize", {"task_name": "two"}, 4 + 1),
        ("localize", {"task": "two", "recipe": "sgd", "localizer": "random"}, 2),
        ("score", {"mode": "naive", "stage": 2}, 2),
        ("score", {"label": "small"}, 2),
        ("localize", {"role": "region"}, 2),  # requested as runs and as regions: one step each
        ("localize", {"colour": "red"}, 0),
        ("score", {"recipe": "graft-retrain"}, 2),
    ],
)
def test_labels_find_steps_again(whole: StudyPlan, kind: str, labels: dict[str, Any], count: int) -> None:
    assert (
        len(whole.of(kind, **labels)),
        [step.spec.on is None for step in whole.of("score", recipe="graft-retrain")],
    ) == (count, [True, False])


def test_lists_stand_for_every_combination(planned: Planned) -> None:
    found = planned(
        {
            "task": [0, 1], "k_shot": [4, None], "recipe": ["sgd", "adamw"], "localizer": "none",
            "finetune": {"seed": [0, 1, 2]},
        }
    )  # fmt: skip
    models = {(m.tasks, m.recipe, m.k_shot, m.seed, m.steps) for m in found.finetuned}
    assert len(found.finetuned) == len(found.scores) == len(models) == 2 * 2 * 2 * 3 and {m[2:] for m in models} == {
        (k, s, 6) for k in (4, None) for s in range(3)
    }, "finetune keeps its defaults"


@pytest.mark.parametrize(
    ("entries", "runs"),
    [
        ([{"localizer": "movement", "size": ["1%", "5%"]}, {"size": ["1%", 0.05], "seed": [0, 1]}],
         [("movement", ("1%",), 0), ("movement", ("5%",), 0), *(("random", (size,), seed)
          for size in ("1%", "0.05") for seed in (0, 1))]),
        ([{"seed": [0, 1]}, {"seed": 1}], [("random", ("1%",), 0), ("random", ("1%",), 1)]),
        ([{"size": None, "sizes": ["1%", 7]}], [("random", ("1%", "7"), 0)]),
    ],
    ids=["one run each", "the same run asked for twice is one", "one run of several sizes"],
)  # fmt: skip
def test_an_entry_stands_for_its_runs(entries: list[dict[str, Any]], runs: list[tuple[Any, ...]]) -> None:
    entries = [{k: v for k, v in {**PAIR, **entry}.items() if v is not None} for entry in entries]
    assert [(run.localizer, run.sizes, run.seed, run.steps) for run in plan_of(*entries, steps=2).runs] == [
        (*run, 2) for run in runs
    ]


@pytest.mark.parametrize(
    ("entries", "fields", "models", "seeds"),
    [
        ([{**RETRAINED, "finetune": {"seed": 1}, "region":
           {**REGION, "recipe": "adamw", "finetune": {"lr": 0.01, "seed": 7}, "seed": 3}}],
         ("recipe", "lr", "seed", "steps"), [("adamw", 0.01, 7, 6), ("graft-retrain", 0.05, 1, 6)], [3]),
        ([{**RETRAINED, "finetune": FEW}, {"recipe": "sgd", "localizer": "none", "finetune": FEW}],
         ("recipe", *FEW), [("sgd", *FEW.values()), ("graft-retrain", *FEW.values())], [0]),
        ([{**RETRAINED, "region": {**REGION, "finetune": {"steps": 7}}, "finetune": FEW}],
         ("recipe", *FEW), [("sgd", 7, 0.02, 4, 5), ("graft-retrain", 3, 0.02, 4, 5)], [0]),
        ([{**SEQUENCE, "mode": "grafting", "finetune": {**FEW, "optimizer": "adamw"}}],
         ("recipe", "steps", "optimizer"), [*[("adamw", 3, None)] * 2, ("continual", 3, "adamw")], [0, 0]),
        # A learning rate of one optimizer does not fit another, so only seed and head come from the entry.
        ([{**RETRAINED, "region": {**REGION, "recipe": "adamw"}, "finetune": {"lr": 0.02, "seed": 5}}],
         ("recipe", "steps", "lr", "seed"), [("adamw", 6, 0.05, 5), ("graft-retrain", 6, 0.02, 5)], [0]),
        ([{"recipe": ["bitfit", "lora"], "localizer": "none", "finetune": {"rank": 1}}],
         ("rank", "matrices"), [(None, None), (1, None)], []),
        ([{"recipe": ["bitfit", "lora"], "localizer": "none", "finetune": {"rank": 1, "matrices": 2}}],
         ("rank", "matrices"), [(None, None), (1, 2)], []),
    ],
    ids=["a region on a model of its own", "on a model trained as the entry's own, which a plain entry shares",
         "with steps of its own", "in a sequence", "of another recipe, with the defaults of the study",
         "a rank is of lora alone", "and so are its matrices"],
)  # fmt: skip
def test_models_are_trained_as_their_entries_say(
    planned: Planned, entries: list[Any], fields: tuple[str, ...], models: list[tuple[Any, ...]], seeds: list[int]
) -> None:
    found = planned(*entries)
    assert (
        [tuple(getattr(model, name) for name in fields) for model in found.finetuned],
        [region.seed for model in found.finetuned for region in model.regions],
    ) == (models, seeds)


def test_keys_are_those_of_the_specs_and_stay() -> None:
    model = FineTunedSpec(base="b", tasks=("sst2",))
    assert model.key() == FineTunedSpec(base="b", tasks="sst2", seed=0, regions=()).key()  # type: ignore[arg-type]
    assert (model.json_text(), model.name(), model.path()) == (
        '{"base":"b","tasks":["sst2"]}', "sst2-sgd-b3662fa1c0", "${SKILLVIZ_FINETUNED}/sst2-sgd-b3662fa1c0",
    )  # fmt: skip
    assert ScoreSpec(base="b", finetuned="f", task="t").json_text() == '{"base":"b","finetuned":"f","task":"t"}'
    assert (
        len(
            {model.model_copy(update={name: 3}).key() for name in ("seed", "data_seed", "k_shot", "steps", "rank")}
            | {model.key()}
        )
        == 6
    )


def test_a_plan_is_the_same_from_the_file_it_writes(tiny: Path, whole: StudyPlan, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(every_kind(tiny).yaml_text())
    again = study_plan(read_study(tmp_path / "study.yaml"))
    assert (again.key, [s.key for s in again.steps]) == (whole.key, [s.key for s in whole.steps])


def test_studies_that_ship_are_read() -> None:
    plans = [study_plan(read_study(file)) for file in (project_root() / "benchmarks" / "studies").glob("minilm*.yaml")]
    assert plans and [len(found.runs) for found in plans] == [len(found.steps) - 1 for found in plans]


def test_without_a_size_or_seed_of_its_own_a_region_has_the_entrys(planned: Planned) -> None:
    found = planned({**RETRAINED, "region": {"localizer": "movement"}, "size": ["1%", "5%"], "seed": [0, 1]})
    assert ([(spec.sizes, spec.seed) for spec in found.runs], len(found.scores)) == (
        [((size,), seed) for size in ("1%", "5%") for seed in (0, 1)],
        4,
    ) and found.of("score", seed=1)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"recipe": "sdg"}, "'sdg' is not a recipe; known: sgd"),
    ({"recipe": "sgd", "localizer": "stagewize"}, "'stagewize' is not a localizer; known: "),
    ({"recipe": "sgd", "colour": 1}, "others, recipe, finetune, tasks, mode, region, also, label, size, federated."),
    ({"recipe": "sgd", "localizer": "none", "colour": 1}, "'colour' is not a field of a run"),
    ({"recipe": "sgd", "finetune": {1: 2}}, "'finetune' takes fields"),
    ({"recipe": "sgd", "finetune": {"colour": 1}}, "'colour' is not a field of a fine-tuned model; known: base"),
    ({"recipe": "sgd", "finetuned": "x"}, "not both"),
    ({"recipe": "sgd", "finetune": 3}, "'finetune' takes fields"),
    ({"recipe": "sgd", "tasks": ["a", "b"]}, "'tasks' goes with recipe: multi-task or continual"),
    ({"recipe": "multi-task", "tasks": ["a"]}, "two tasks or more"),
    ({"recipe": "multi-task"}, "takes several tasks"),
    ({"recipe": "multi-task", "tasks": ["a", "b"], "task": "c"}, "'c' is not among the tasks"),
    ({"recipe": "multi-task", "tasks": ["a", "a"]}, "named once"),
    ({"recipe": "sgd", "mode": "naive"}, "'mode' is naive or grafting"),
    ({"recipe": "continual", "tasks": ["a", "b"], "mode": "greedy"}, "'mode' is naive or grafting"),
    ({"recipe": "continual", "tasks": ["a", "b"], "mode": "grafting"}, "needs `region`"),
    ({"recipe": "graft-retrain"}, "needs `region`"),
    ({"recipe": "sgd", "finetune": {"rank": 2}}, "rank goes with the recipe lora"),
    ({"recipe": "sgd", "finetune": {"optimizer": "adamw"}}, "goes with graft-retrain, multi-task and continual"),
    ({"recipe": "sgd", "readout": "prompt", "finetune": {"head": "linear"}}, "goes with the readout head"),
    ({"recipe": "sgd", "finetune": {"lr": -1}}, "'lr' of the fine-tuned model"),
    ({"recipe": "sgd", "seed": []}, "the list of 'seed' is empty"),
    ({"recipe": "sgd", "task": 3}, "'task' names tasks"),
    ({"recipe": "sgd", "size": "1%", "sizes": ["1%"]}, "not both"),
    ({"recipe": "sgd", "localizer": "none", "also": 3}, "'also' names tasks"),
    ({"recipe": "graft-retrain", "region": {"finetune": 3}}, "'finetune' takes fields"),
    ({"recipe": "continual", "tasks": ["a", "b"], "localizer": "none", "max_test": -1}, "'max_test' of the scores"),
]


@pytest.mark.parametrize(("entry", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_entry_is_one_sentence_with_its_number(entry: dict[str, Any], words: str) -> None:
    several = {} if "tasks" in entry and "task" not in entry else {"task": "sst2"}
    study = StudySpec(
        name="s", runs=({"base": "b", "task": "sst2", "recipe": "sgd"}, {"base": "b", **several, **entry})
    )
    refuses(BadInput, rf"^(?=.*study 's', entry 2 of runs: )[^\n]*{re.escape(words)}[^\n]*\Z", study_plan, study)


SECRET = "^(?!.*(token|hosts|s3cret))"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a name and a list of runs"),
        ("- a", "a list of runs"),
        ("name: x", "runs"),
        ("name: x\nruns: []", "runs"),
        ("token: s3cret\n", f"{SECRET}.*a list of runs"),
        ("- {hosts: s3cret}", f"{SECRET}.*a list of runs"),
        ("password: *s3cret\n", f"{SECRET}.*undefined alias in line 1"),
        ('a: "s3cret\nb: @s3cret', f"{SECRET}.*cannot be read"),
        ("name: x\nruns: [{}]\nsurprise: 1", "surprise"),
        ("name: [", "cannot be read"),
        ("name: !!python/object/apply:os.system [ls]\nruns: [{}]", "cannot be read"),
        ("name: --\nruns: [{base: b}]", "letters or digits"),
        (f"name: {'a' * 101}\nruns: [{{base: b}}]", "'name': a name has 100 letters at most, this one 101"),
    ],
)
def test_a_file_that_cannot_be_a_study_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    refuses(BadInput, rf"^[^\n]*{words}[^\n]*\Z", read_study, tmp_path / "s.yaml")


def test_a_plain_list_of_runs_is_a_study(tmp_path: Path) -> None:
    (tmp_path / "few.yaml").write_text("- {base: a, finetuned: b, task: sst2, size: [1%, 5%]}\n")
    found = read_study(tmp_path / "few.yaml")
    assert (found.name, [spec.sizes for spec in study_plan(found).runs]) == ("few", [("1%",), ("5%",)])


@pytest.mark.parametrize(("name", "folder"), [("Table 2: small", "table-2-small"), ("a" * 100, "a" * 100)])
def test_a_study_has_a_folder_by_its_name(name: str, folder: str) -> None:
    assert StudySpec(name=name, runs=({},)).folder == folder


test_what_cannot_be_planned_is_refused = refused(
    BadInput,
    ("nothing.yaml", read_study, Path("nothing.yaml")),
    ("entry 1 of runs: .* stand for 10,100 combinations",
     lambda: plan_of({**PAIR, "seed": list(range(101)), "data_seed": list(range(100))})),
    ("entry 2 of runs: with this entry the lists of the study stand for 10,002 combinations; 10,000 are",
     lambda: plan_of(*({**PAIR, "seed": list(range(n, n + 5001))} for n in (0, 6000)))),
    ("entry 3 of runs: .* 12,000 combinations",
     lambda: plan_of(*({"label": f"l{n}"} for n in range(200)), **PAIR, seed=list(range(4000)))),
    ("'tasks' names 51 tasks; 50 are the most",
     lambda: plan_of({**SEQUENCE, "base": "b", "tasks": [f"t{n}" for n in range(51)]})),
    ("several go with", read_finetuned, {"base": "b", "tasks": ("a", "b")}),
    ("trains one region only", read_finetuned, {"base": "b", "tasks": ("a",), "recipe": "graft-retrain"}),
    ("2 tasks and 1 regions were given; give one region per task", read_finetuned,
     {"base": "b", "tasks": ("a", "b"), "recipe": "continual",
      "regions": (RunSpec(base="b", finetuned="f", task="a"),)}),
)  # fmt: skip


@pytest.mark.parametrize(("limit", "most"), [("MOST_STEPS", 4), ("MOST_NEEDED", 8)])
def test_steps_of_their_own_and_shared_ones_have_a_limit(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {**PAIR, "localizer": "none", "also": ["a", "b", "c"], "seed": [0, 1]}
    entry.pop("size")
    monkeypatch.setattr(plan_module, limit, most)
    assert len(plan_of(entry).steps) == 5
    monkeypatch.setattr(plan_module, limit, most - 1)
    refuses(BadInput, "entry 1 of runs: with this entry the study has more than", plan_of, entry)


@pytest.mark.nightly
def test_a_long_study_is_planned_within_seconds() -> None:
    """The time to order the steps must not grow with their square: 10,000 steps took 14 s."""
    before = time.process_time()
    assert len(plan_of({**PAIR, "seed": list(range(9999))}).steps) == 10_000
    assert time.process_time() - before < 6


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "a\0b"])
def test_a_name_that_no_folder_can_have_stays_as_it_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"name": "s", "runs": [{"base": name, "finetuned": name}]}))
    assert read_study(tmp_path / "s.yaml").runs[0]["base"] == name


def test_the_order_is_that_of_looking_for_the_next_step_each_time() -> None:
    """Compare with a slow loop on random graphs: the first ready step, of the last one's pair if possible."""
    draw = random.Random(0)

    def slowly(steps: list[Any]) -> list[Any]:
        waiting, ordered, last = list(steps), list[Any](), None
        while waiting:
            ready = [step for step in waiting if not {other.key for other in waiting} & set(step.needs)]
            step = next((each for each in ready if last is not None and each.pair == last), ready[0])
            waiting.remove(step)
            ordered.append(step)
            last = step.pair
        return ordered

    for _ in range(200):
        ranks = draw.sample(range(9), 9)
        steps = [
            SimpleNamespace(
                key=str(number),
                needs=tuple(str(n) for n in range(9) if ranks[n] < rank and draw.random() < 0.2),
                pair=draw.choice([None, 1, 2, 3]),
            )
            for number, rank in enumerate(ranks)
        ]
        assert plan_module._ordered(steps) == slowly(steps)  # type: ignore[arg-type]


ENDLESS = {
    "a list in itself": "runs: [{base: b, options: {recipe: &r {union: [*r]}}}]",
    "aliases of aliases": "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    + "".join(f"{y}: &{y} [{', '.join([f'*{x}'] * 9)}]\n" for x, y in zip("abcdef", "bcdefg", strict=True)),
    "too deep": "[" * 20_000,
}


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_file_without_end_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"name: s\n{text}\n" if text[0] != "[" else text)
    refuses(BadInput, r"^[^\n]*s\.yaml[^\n]*\Z", read_study, tmp_path / "s.yaml")


@pytest.mark.parametrize(
    ("recipe", "names"),
    [("sgd", ["sst2"]), ("adamw", ["sst2"]), ("adamw-l1", ["sst2"]), ("multi-task", ["sst2", "mrpc"])],
)
def test_the_recipe_of_a_model_is_read_off_its_path_and_off_nothing_else(recipe: str, names: list[str]) -> None:
    assert recipe_in(
        read_finetuned({"base": "b", "tasks": tuple(names), "recipe": recipe}).path(*names[1:])
    ) == recipe and not any(map(recipe_in, ("models/sst2-sgd-0123456789", "org/sst2-sgd", "models/film-reviews")))


def test_paths_in_a_study_file_are_relative_to_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task file in the working folder is not meant; without one in its folder, `sst2` is the registry's."""
    for folder in ("elsewhere", "mine/base", "mine/finetuned", "mine/sub/sst2"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "elsewhere" / "task.yaml").write_text("name: another\n")
    (tmp_path / "mine" / "task.yaml").write_text("")
    (tmp_path / "mine" / "sub" / "study.yaml").write_text(
        "name: near\ndefaults: {base: ../base, finetuned: ../finetuned, device: cpu}\nruns:\n"
        "- {task: [../task.yaml, sst2], localizer: movement, size: [1%]}\n"
        "- {task: sst2, localizer: movement, region: {finetuned: ../finetuned}, others: [../task.yaml], size: [2%]}\n"
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    study = read_study(tmp_path / "mine" / "sub" / "study.yaml")
    base, tuned, task = (str(tmp_path / "mine" / name) for name in ("base", "finetuned", "task.yaml"))
    first, second = study.runs
    assert study.defaults == {"base": base, "finetuned": tuned, "device": "cpu"}
    assert first["task"] == [task, "sst2"]
    assert second["region"] == {"finetuned": tuned}
    assert second["others"] == [task]
    (tmp_path / "copy.yaml").write_text(study.yaml_text())
    assert read_study(tmp_path / "copy.yaml") == study, "the stored text gives the same study"


def test_paths_of_the_project_and_unknown_ones_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: far\ndefaults: {base: examples/models/minilm-l6, finetuned: '${SKILLVIZ_FINETUNED}/x'}\n"
        "runs: [{task: examples/tasks/mr.yaml}]\n"
    )
    study, root = read_study(tmp_path / "s.yaml"), project_root()
    assert study.defaults == {"base": "examples/models/minilm-l6", "finetuned": "${SKILLVIZ_FINETUNED}/x"}
    assert study.runs[0]["task"] == "examples/tasks/mr.yaml"
    assert anchored("examples/models/minilm-l6", root) == "examples/models/minilm-l6"
    assert anchored("tasks", root / "examples") == str(root / "examples" / "tasks")
    unknown = ["", "~", "s.yml", str(tmp_path), "$HOME", "a" * 5000]
    assert [anchored(text, tmp_path) for text in unknown] == unknown


def test_tasks_without_a_common_scale_are_refused_before_training(planned: Planned, tiny: Path) -> None:
    """The check is one of a study with one task scored by perplexity, and accepts every task for the base."""
    metrics = dict(zip(tasks(tiny), ("accuracy", "perplexity"), strict=True))
    check: Any = SimpleNamespace(
        pair=lambda *_: None, task=lambda path: registry.task(path).model_copy(update={"metric": metrics[path]})
    )
    ways = ({"recipe": "multi-task"}, {"recipe": "continual", "mode": "naive"})
    together, in_turn = map(FineTunedArtifact, planned(*({"tasks": [0, 1], **REGION, **way} for way in ways)).finetuned)
    refuses(BadInput, r"different scales \(one: accuracy, two: perplexity\)", together.check, check)
    in_turn.check(check)


RIGHT = "1111011101"


def tuned(
    method: str = "ft",
    folder: str = "m",
    recipe: str = "sgd",
    right: str = RIGHT,
    of_parts: dict[tuple[str, ...], Any] | None = None,
    **fields: Any,
) -> Observation:
    """Return a model with these fields; `of_parts` are the fields of its regions."""
    return seen(method, right=right, model=folder, recipe=recipe, model_fields={**fields, **(of_parts or {})})


def both(name: str | tuple[str, ...], *values: Any) -> list[Observation]:
    """Return two models that differ in one field: their own, or one of their region's."""
    return [
        tuned(folder=str(value), of_parts=of)
        for value, of in zip(
            values, [{name if isinstance(name, tuple) else (name,): value} for value in values], strict=True
        )
    ]


WAYS: list[dict[str, Any]] = [{"steps": 1, "lr": 1e-4}, {"steps": 300, "lr": 0.05}, {"steps": 300, "lr": None}]
STAGES: list[dict[str, Any]] = [
    {"mode": "naive", "stage": 1}, {"mode": "naive", "stage": 2},
    {"mode": "grafting", "stage": 1, "of_parts": {("region", "sizes"): "5%"}},
]  # fmt: skip
VARIANTS: dict[str, tuple[list[Observation], set[str]]] = {
    "a rank": (both("rank", 1, 8), {"rank 1", "rank 8"}),
    "shots": (both("k_shot", None, 16), {"all examples", "16-shot"}),
    "a head": (both("head", "own", "linear"), {"own head", "linear head"}),
    "files": (both("tasks", ["a/x.yaml"], ["b/x.yaml"]), {"tasks a/x.yaml", "tasks b/x.yaml"}),
    "orders": (both("tasks", ["a/x.yaml", "cr"], ["cr", "a/x.yaml"]), {"tasks x+cr", "tasks cr+x"}),
    "models": (both("model", "pairs/one", "pairs/two"), {"one", "two"}),
    "sizes of regions": (both(("region", "sizes"), "1%", "5%"), {"region 1%", "region 5%"}),
    "models of regions": (
        both(("region", "model", "steps"), 1, 5), {"region model 1 step", "region model 5 steps"}
    ),
    "several fields": (
        [tuned(folder=f"{way}-{seed}", **way, rank=None) for way in WAYS for seed in (0, 1)],
        {"1 step, lr 0.0001", "300 steps, lr 0.05", "300 steps, lr by default"},
    ),
    # The stage is always named, even if only one was scored; models of different modes are not compared.
    "stages": (
        [tuned("ft_scaled", str(way), "continual", **way) for way in STAGES],
        {"naive, after stage 1", "naive, after stage 2", "grafting, after stage 1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "variants"), VARIANTS.values(), ids=VARIANTS)
def test_words_tell_every_variant_apart_and_seeds_are_put_together(
    found: list[Observation], variants: set[str]
) -> None:
    assert {one.variant for one in once(found)} == variants and len(sides(once(found))) == len(variants)


def test_seeds_of_a_variant_are_averaged() -> None:
    """Two seeds with three settings give three rows, each over two seeds."""
    found, variants = VARIANTS["several fields"]
    assert sorted(
        score_table(once(found)).query("metric == 'accuracy'")[["recipe", "variant", "seeds"]].values.tolist()
    ) == sorted(["sgd", variant, 2] for variant in variants)


def test_what_does_not_differ_is_not_said() -> None:
    """A variant compares the models of one recipe, task and training set only; others do not need a name."""
    alone = [tuned(steps=3), tuned(folder="l", recipe="lora", steps=9), tuned(folder="n", steps=3)]
    others = [seen(right=RIGHT, recipe="sgd", id_task="cr", model_fields={"steps": 5}),
              seen(right=RIGHT, recipe="sgd", setting="16-shot", model_fields={"steps": 7})]  # fmt: skip
    assert {one.training for one in once([*alone, *others])} == {("sgd", ""), ("lora", "")}


def test_a_difference_tells_both_models_where_there_are_several() -> None:
    plain = [tuned(folder=f"m{steps}", steps=steps, right=RIGHT) for steps in (1, 300)]
    lora = tuned("lora", "l", "lora", right=RIGHT[::-1])
    rows, alone = (paired(once([*models, lora]), [("lora", "ft")]).query("metric == 'accuracy'")
                   for models in (plain, plain[:1]))  # fmt: skip
    assert (rows[["recipe", "variant", "recipe_b", "variant_b"]].values.tolist(), alone["recipe_b"].tolist()) == (
        [["lora", "", "sgd", "1 step"], ["lora", "", "sgd", "300 steps"]],
        [""],
    )


def test_the_recovered_gain_is_of_one_way_of_training() -> None:
    """The graft of a model is measured by that model's gain, not by the mean gain of both."""
    region = {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}
    found = once([
        seen(method, split=split, values={"accuracy": value, "ece": 0.1}, model=f"m{steps}", recipe="sgd",
             model_fields={"steps": steps}, **(region if method == "graft" else {}))
        for steps, tuned in ((1, 0.7), (300, 0.9)) for split in ("validation", "test")
        for method, value in {"pretrained": 0.5, "ft": tuned, "graft": 0.7}.items()
    ])  # fmt: skip
    assert {
        name: tuple(row)
        for name, row in recovered(found).set_index("variant")[["reached", "seeds", "value_ft"]].iterrows()
    } == {
        "1 step": (True, 1, 0.7),
        "300 steps": (False, 1, 0.9),
    }


@pytest.fixture(scope="module")
def results(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Run a study: LoRA of two ranks, SGD with two settings and two seeds each, a retrained region, two modes, one
    model of both tasks."""
    one, two = tasks(tiny)
    search = {"localizer": "movement", "size": "5%"}
    study = study_of(
        tiny,
        *({"task": one, "recipe": "lora", "finetune": {"rank": rank}, "localizer": "none"} for rank in (1, 2)),
        {"task": one, "recipe": "sgd", "finetune": {"steps": 1, "seed": [0, 1]}, **search},
        {"task": one, "recipe": "sgd", "finetune": {"seed": [0, 1]}, **search},
        {"task": one, "recipe": "graft-retrain", "region": {**search, "finetune": {"steps": 2}}, "localizer": "none"},
        {"tasks": [one, two], "recipe": "continual", "mode": "naive"},
        {"tasks": [one, two], "recipe": "continual", "mode": "grafting", "region": REGION},
        {"tasks": [one, two], "recipe": "multi-task", "localizer": "fisher", "size": "5%"},
    )
    with models_in(tmp_path_factory.mktemp("ways")) as store:
        assert run_study(study, store).is_whole
        yield Results(study_plan(study), store)


@pytest.mark.nightly
def test_every_row_of_a_study_is_of_one_setting(results: Results) -> None:
    """All observations of a row have the same settings except their seeds."""
    found = of_results(results)
    assert [one for side in sides(found) for one in side if one.model_fields != side[0].model_fields] == []
    seeds = (
        score_table(found)
        .query("split == 'test' and metric == 'accuracy' and task == 'one'")
        .set_index(["method", "variant"])["seeds"]
    )
    assert {method: seeds[method].to_dict() for method in ("ft", "lora", "continual_naive", "continual_graft")} == {
        "ft": {"1 step": 2, "6 steps": 2, "2 steps": 1}, "lora": {"rank 1": 1, "rank 2": 1},
        "continual_naive": {f"naive, after stage {stage}": 1 for stage in (1, 2)},
        "continual_graft": {f"grafting, after stage {stage}": 1 for stage in (1, 2)},
    }  # fmt: skip


@pytest.mark.nightly
def test_a_make_up_has_one_row_a_part_seed_and_setting(results: Results) -> None:
    assert set(run_variants(results)) == {"1 step", "6 steps", "2 steps", ""}  # one model for two localizers
    models = pd.Series(2.0, index=[("one", "movement", "1 step"), ("one", "movement", "6 steps")])
    assert make_tables(results.study, results)["composition"].groupby(["task", "localizer", "variant"])["share"].sum()[
        models.index
    ].tolist() == pytest.approx(models.tolist())


@pytest.mark.nightly
def test_a_region_s_run_and_model_are_told_without_their_seeds(results: Results) -> None:
    (score,) = results.scores(recipe="graft-retrain")
    fields, of = model_fields(results, score), ("region", "model")
    assert fields["region", "localizer"] == "movement"
    assert fields["region", "sizes"] == "5%"
    assert fields[*of, "recipe"] == "sgd"
    assert fields[*of, "steps"] == 2
    assert fields["steps"] == 6
    assert not [name for name in fields if "seed" in name]


@pytest.mark.nightly
def test_a_study_of_models_of_several_tasks_tells_their_stages_and_what_their_regions_share(results: Results) -> None:
    made = make_tables(results.study, results)
    rows = made["stages"].query("metric == 'accuracy'")
    told = {*product(("naive", "grafting"), [(1, "one"), (2, "one"), (2, "two")])}
    assert {*zip(rows["mode"], zip(rows["stage"], rows["task"], strict=True), strict=True)} == told | {
        ("independent", (1, "one")),
        ("independent", (2, "two")),
    }
    assert not rows.loc[rows["mode"] == "grafting", "change"].any()
    assert set(made["overlap"]["row_task"]) == {"one", "two"}
    assert set(made["isolation"]["kind"]) == {"overlap", "iou"}
    assert made["note"]["text"].str.contains("bit for bit the same after every later stage").any()


@pytest.mark.parametrize("other", [{"finetune": {"seed": 1}}, {"tasks": [1, 0], "mode": "grafting"}])
def test_several_sequences_are_not_told_as_one(planned: Planned, store: Store, other: dict[str, Any]) -> None:
    both, alone = planned(SEQUENCE, {**SEQUENCE, **other}), planned(SEQUENCE)
    assert (stages_and_notes(Results(both, store)), stages_and_notes(Results(alone, store))) == (
        ({}, [MANY_SEQUENCES]),
        ({}, []),
    ), "nothing is made yet"
