"""Tests of plans from study files: steps, their order, keys and labels; and messages about errors in a file."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from skillviz.runs.store import Store
from skillviz.studies import plan as plan_module
from skillviz.studies.engine import run_study
from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec, read_finetuned, recipe_in
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.study_observations import model_fields, of_results, run_variants
from skillviz.studies.task_sequence import MANY_SEQUENCES, stages_and_notes
from skillviz.tasks import registry
from skillviz.tasks.project import anchored, project_root
from skillviz.tasks.task import Task
from tests.studies.tiny_studies import seen
from tests.studies.tiny_study import REGION, every_kind, few, study_of, tasks

PROJECT = Path(__file__).resolve().parents[2]


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
    assert len(titles(whole, "localize")) == 2 * 4 + 2 + 1 + 1
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
    assert [step.kind for step in whole.steps][-1] == "table"


def test_titles_tell_bases_and_ranks_apart(tiny: Path) -> None:
    one, _ = tasks(tiny)
    other = tiny / "finetuned"  # any folder with the same shapes
    entry = {"task": one, "recipe": "lora", "finetune": {"rank": [1, 8]}, "localizer": "none"}
    ranks = [{**entry, "finetune": {"rank": rank}} for rank in (1, 8)]
    found = study_plan(study_of(tiny, *ranks, base=[str(tiny / "base"), str(other)]))
    assert titles(found, "finetune") == [
        f"fine-tune one (lora, rank {rank}, seed 0) on {base}" for rank in (1, 8) for base in ("base", "finetuned")
    ]
    assert f"score one (lora, rank 8, seed 0) on {other.name}" in titles(found, "score")


def test_titles_tell_samples_of_the_data_apart(tiny: Path) -> None:
    one, _ = tasks(tiny)
    found = study_plan(
        study_of(tiny, {"task": one, "recipe": "sgd", "localizer": "none", "k_shot": 4, "data_seed": [0, 2]})
    )
    assert titles(found, "finetune") == [
        "fine-tune one (sgd, 4-shot, seed 0)",
        "fine-tune one (sgd, 4-shot of data seed 2, seed 0)",
    ]
    assert titles(found, "score") == [
        "score one (sgd, 4-shot, seed 0)",
        "score one (sgd, 4-shot of data seed 2, seed 0)",
    ]


def test_each_step_comes_after_what_it_needs(whole: StudyPlan) -> None:
    seen: set[str] = set()
    for step in whole.steps:
        assert seen.issuperset(step.needs), step.title
        seen.add(step.key)
    assert set(whole.steps[-1].needs) == seen - {"table"}


def test_what_needs_a_region_needs_its_run_and_that_its_model(whole: StudyPlan) -> None:
    retrained = next(step for step in whole.steps if "graft-retrain" in step.title)
    (run,) = retrained.needs
    assert isinstance(retrained.spec, FineTunedSpec) and [r.key() for r in retrained.spec.regions] == [run]
    assert whole.by_key[run].title.startswith("movement 5%")
    assert whole.by_key[whole.by_key[run].needs[0]].title == "fine-tune one (sgd, seed 0)"
    by_hand = next(spec for spec in whole.runs if spec.localizer == "expression")
    assert keys_in(by_hand.options["expression"]) == [run] and run in whole.by_key[by_hand.key()].needs
    drawn = next(spec for spec in whole.runs if spec.localizer == "random-matched")
    assert drawn.options == {"reference": f"key:{run} movement"} and run in whole.by_key[drawn.key()].needs


def test_a_region_to_match_is_a_run_or_a_file(tiny: Path) -> None:
    entry = {"task": tasks(tiny)[0], "recipe": "sgd", "localizer": "random-matched", "size": "5%"}
    (named,) = study_plan(study_of(tiny, {**entry, "options": {"reference": "somewhere"}})).runs
    assert named.options == {"reference": "somewhere"}
    several = {**entry, "finetune": {"seed": [0, 1]}, "options": {"reference": {"run": {**REGION, "options": {}}}}}
    drawn = [run for run in study_plan(study_of(tiny, several)).runs if run.localizer == "random-matched"]
    assert len({run.key() for run in drawn}) == 2, "each matches the region on its own model"
    assert [run.search_fields() for run in drawn] == [{"reference": "movement"}] * 2, "and is the same search"
    with pytest.raises(BadInput, match="'reference' names a region file, or a run as reference:"):
        study_plan(study_of(tiny, {**entry, "options": {"reference": {"union": []}}}))


def test_the_steps_of_a_pair_stand_together(whole: StudyPlan) -> None:
    pairs = [step.pair for step in whole.steps if step.pair is not None]
    changes = sum(a != b for a, b in zip(pairs, pairs[1:], strict=False))
    assert changes == len(set(pairs)) - 1


def test_members_of_several_tasks_have_a_folder_for_each_stage_and_task(whole: StudyPlan) -> None:
    paths = {spec.finetuned.removeprefix("${SKILLVIZ_FINETUNED}/") for spec in whole.scores}
    grafting = next(spec for spec in whole.finetuned if spec.recipe == "continual" and spec.regions)
    assert {f"{grafting.name()}/1/one", f"{grafting.name()}/2/one", f"{grafting.name()}/2/two"} <= paths
    multi = next(spec for spec in whole.finetuned if spec.recipe == "multi-task")
    assert multi.path(multi.tasks[1]).endswith(f"{multi.name()}/two")
    assert multi.name().startswith("one+two-multi-task-"), "each file is called task.yaml: its folder names it"


def test_labels_find_steps_again(whole: StudyPlan) -> None:
    assert len(whole.of("localize", task_name="two")) == 4 + 1
    assert len(whole.of("localize", task="two", recipe="sgd", localizer="random")) == 2
    assert [step.spec.on is None for step in whole.of("score", recipe="graft-retrain")] == [True, False]
    assert len(whole.of("score", mode="naive", stage=2)) == 2
    assert len(whole.of("score", label="small")) == 2
    assert len(whole.of("localize", role="region")) == 2  # requested as runs and as regions: one step each
    assert whole.of("localize", colour="red") == []


def test_lists_stand_for_every_combination(tiny: Path) -> None:
    one, two = tasks(tiny)
    entry = {"task": [one, two], "k_shot": [4, None], "recipe": ["sgd", "adamw"], "localizer": "none"}
    found = study_plan(study_of(tiny, {**entry, "finetune": {"seed": [0, 1, 2]}}))
    assert len(found.finetuned) == 2 * 2 * 2 * 3 == len(found.scores)
    assert {(m.k_shot, m.seed) for m in found.finetuned} == {(k, s) for k in (4, None) for s in range(3)}
    assert all(spec.steps == 6 for spec in found.finetuned)  # the defaults of finetune are kept


def test_a_rank_is_of_lora_alone(tiny: Path) -> None:
    entry = {"task": tasks(tiny)[0], "recipe": ["bitfit", "lora"], "localizer": "none", "finetune": {"rank": 1}}
    assert [model.rank for model in study_plan(study_of(tiny, entry)).finetuned] == [None, 1]
    few = {**entry, "finetune": {"rank": 1, "matrices": 2}}
    assert [model.matrices for model in study_plan(study_of(tiny, few)).finetuned] == [None, 2]
    assert any("rank 1, 2 of the matrices" in step.title for step in study_plan(study_of(tiny, few)).steps)


def test_keys_are_those_of_the_specs_and_stay() -> None:
    model = FineTunedSpec(base="b", tasks=("sst2",))
    assert model.key() == FineTunedSpec(base="b", tasks="sst2", seed=0, regions=()).key()  # type: ignore[arg-type]
    assert model.json_text() == '{"base":"b","tasks":["sst2"]}'
    assert model.name() == "sst2-sgd-b3662fa1c0" and model.path() == "${SKILLVIZ_FINETUNED}/sst2-sgd-b3662fa1c0"
    assert ScoreSpec(base="b", finetuned="f", task="t").json_text() == '{"base":"b","finetuned":"f","task":"t"}'
    changed = {model.model_copy(update={name: 3}).key() for name in ("seed", "data_seed", "k_shot", "steps", "rank")}
    assert len(changed | {model.key()}) == 6


def test_a_plan_is_the_same_from_the_file_it_writes(tiny: Path, tmp_path: Path) -> None:
    study = every_kind(tiny)
    (tmp_path / "study.yaml").write_text(study.yaml_text())
    again = study_plan(read_study(tmp_path / "study.yaml"))
    assert again.key == study_plan(study).key and [s.key for s in again.steps] == [
        s.key for s in study_plan(study).steps
    ]


def test_studies_that_ship_are_read() -> None:
    files = sorted((PROJECT / "benchmarks" / "studies").glob("minilm*.yaml"))
    plans = [study_plan(read_study(file)) for file in files]
    assert plans and all(len(found.runs) == len(found.steps) - 1 for found in plans)


def test_a_region_on_a_model_of_its_own(tiny: Path) -> None:
    one, _ = tasks(tiny)
    region = {**REGION, "recipe": "adamw", "finetune": {"lr": 0.01, "seed": 7}, "seed": 3}
    entry = {"task": one, "recipe": "graft-retrain", "region": region, "localizer": "none", "finetune": {"seed": 1}}
    found = study_plan(study_of(tiny, entry))
    tuned, retrained = found.finetuned
    assert (tuned.recipe, tuned.lr, tuned.seed, tuned.steps) == ("adamw", 0.01, 7, 6)
    assert (retrained.recipe, retrained.seed, retrained.regions[0].seed) == ("graft-retrain", 1, 3)


def test_a_region_is_looked_for_on_a_model_trained_as_the_entry_s_own(tiny: Path) -> None:
    """The region's model has the entry's steps and rate, so a plain entry with that fine-tuning shares it."""
    one, two = tasks(tiny)
    few = {"steps": 3, "lr": 0.02, "batch_size": 4, "seed": 5}
    entry = {"task": one, "recipe": "graft-retrain", "region": REGION, "localizer": "none", "finetune": few}
    plain = {"task": one, "recipe": "sgd", "localizer": "none", "finetune": few}
    found = study_plan(study_of(tiny, entry, plain))
    assert sorted(model.recipe for model in found.finetuned) == ["graft-retrain", "sgd"]
    own = {**entry, "region": {**REGION, "finetune": {"steps": 7}}}
    (tuned,) = (model for model in study_plan(study_of(tiny, own)).finetuned if model.recipe == "sgd")
    assert (tuned.steps, tuned.lr, tuned.batch_size, tuned.seed) == (7, 0.02, 4, 5)
    sequence = {"tasks": [one, two], "recipe": "continual", "mode": "grafting", "region": REGION}
    made = study_plan(study_of(tiny, {**sequence, "finetune": {**few, "optimizer": "adamw"}})).finetuned
    assert [(m.recipe, m.steps, m.optimizer) for m in made if len(m.tasks) == 1] == [("adamw", 3, None)] * 2


def test_of_another_recipe_a_region_s_model_has_the_defaults_of_the_study(tiny: Path) -> None:
    """A learning rate of one optimizer does not fit another, so only seed and head come from the entry."""
    region = {**REGION, "recipe": "adamw"}
    few = {"lr": 0.02, "seed": 5}
    entry = {"task": tasks(tiny)[0], "recipe": "graft-retrain", "region": region, "localizer": "none", "finetune": few}
    (tuned,) = (model for model in study_plan(study_of(tiny, entry)).finetuned if model.recipe == "adamw")
    assert (tuned.steps, tuned.lr, tuned.seed) == (6, 0.05, 5)


def test_without_a_size_or_seed_of_its_own_a_region_has_the_entrys(tiny: Path) -> None:
    one, _ = tasks(tiny)
    entry = {"task": one, "recipe": "graft-retrain", "region": {"localizer": "movement"}, "localizer": "none"}
    found = study_plan(study_of(tiny, {**entry, "size": ["1%", "5%"], "seed": [0, 1]}))
    assert [(spec.sizes, spec.seed) for spec in found.runs] == [
        (("1%",), 0), (("1%",), 1), (("5%",), 0), (("5%",), 1)
    ]  # fmt: skip
    assert len(found.scores) == 4 and found.of("score", seed=1)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"recipe": "sdg"}, "'sdg' is not a recipe; known: sgd"),
    ({"recipe": "sgd", "localizer": "stagewize"}, "'stagewize' is not a localizer; known: "),
    ({"recipe": "sgd", "colour": 1}, "others, recipe, finetune, tasks, mode, region, also, label, size."),
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
    good = {"base": "b", "task": "sst2", "recipe": "sgd"}
    several = {} if "tasks" in entry and "task" not in entry else {"task": "sst2"}
    with pytest.raises(BadInput) as caught:
        study_plan(StudySpec(name="s", runs=(good, {"base": "b", **several, **entry})))
    said = str(caught.value)
    assert "study 's', entry 2 of runs: " in said and words in said and "\n" not in said, said


def test_a_name_that_can_name_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"name": "--", "runs": [{"base": "b"}]}))
    with pytest.raises(BadInput, match="letters or digits"):
        read_study(tmp_path / "s.yaml")
    assert StudySpec(name="Table 2: small", runs=({},)).folder == "table-2-small"


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"name": "a" * 101, "runs": [{"base": "b"}]}))
    with pytest.raises(BadInput, match="'name': a name has 100 letters at most, this one 101") as caught:
        read_study(tmp_path / "s.yaml")
    assert "\n" not in str(caught.value)
    assert StudySpec(name="a" * 100, runs=({},)).folder == "a" * 100


def test_lists_that_stand_for_too_much_are_refused() -> None:
    entry = {"base": "b", "finetuned": "f", "task": "sst2", "localizer": "random", "size": "1%"}
    product = {**entry, "seed": list(range(101)), "data_seed": list(range(100))}
    with pytest.raises(BadInput, match="entry 1 of runs: .* stand for 10,100 combinations"):
        study_plan(StudySpec(name="s", runs=(product,)))
    halves = [{**entry, "seed": list(range(n, n + 5001))} for n in (0, 6000)]
    too_many = "entry 2 of runs: with this entry the lists of the study stand for 10,002 combinations; 10,000 are"
    with pytest.raises(BadInput, match=too_many):
        study_plan(StudySpec(name="s", runs=tuple(halves)))
    labels = tuple({"label": f"l{n}"} for n in range(200))
    with pytest.raises(BadInput, match="entry 3 of runs: .* 12,000 combinations"):
        study_plan(StudySpec(name="s", defaults={**entry, "seed": list(range(4000))}, runs=labels))


def test_steps_of_their_own_and_shared_ones_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = {"base": "b", "finetuned": "f", "task": "sst2", "localizer": "none"}
    study = StudySpec(name="s", runs=({**scored, "also": ["a", "b", "c"], "seed": [0, 1]},))
    assert len(study_plan(study).steps) == 5
    for limit, most in (("MOST_STEPS", 4), ("MOST_NEEDED", 8)):
        monkeypatch.setattr(plan_module, limit, most)
        assert len(study_plan(study).steps) == 5
        monkeypatch.setattr(plan_module, limit, most - 1)
        with pytest.raises(BadInput, match="entry 1 of runs: with this entry the study has more than"):
            study_plan(study)
        monkeypatch.undo()
    sequence = {"base": "b", "recipe": "continual", "tasks": [f"t{n}" for n in range(51)], "localizer": "none"}
    with pytest.raises(BadInput, match="'tasks' names 51 tasks; 50 are the most"):
        study_plan(StudySpec(name="s", runs=(sequence,)))


@pytest.mark.nightly
def test_a_long_study_is_planned_within_seconds() -> None:
    """The time to order the steps must not grow with their square: 10,000 steps took 14 s."""
    entry = {"base": "b", "finetuned": "f", "task": "sst2", "localizer": "random", "size": "1%"}
    before = time.process_time()
    assert len(study_plan(StudySpec(name="s", runs=({**entry, "seed": list(range(9999))},))).steps) == 10_000
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
    with pytest.raises(BadInput) as caught:
        read_study(tmp_path / "s.yaml")
    assert "s.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_member_of_a_file_says_what_is_wrong() -> None:
    with pytest.raises(BadInput, match="several go with"):
        read_finetuned({"base": "b", "tasks": ("a", "b")})
    with pytest.raises(BadInput, match="trains one region only"):
        read_finetuned({"base": "b", "tasks": ("a",), "recipe": "graft-retrain"})
    with pytest.raises(BadInput, match="2 tasks and 1 regions were given; give one region per task"):
        run = RunSpec(base="b", finetuned="f", task="a")
        read_finetuned({"base": "b", "tasks": ("a", "b"), "recipe": "continual", "regions": (run,)})


def test_the_recipe_of_a_model_is_read_off_its_path_and_off_nothing_else() -> None:
    for recipe in ("sgd", "adamw", "adamw-l1"):
        spec = read_finetuned({"base": "b", "tasks": ("sst2",), "recipe": recipe})
        assert recipe_in(spec.path()) == recipe
    several = read_finetuned({"base": "b", "tasks": ("sst2", "mrpc"), "recipe": "multi-task"})
    assert recipe_in(several.path("mrpc")) == "multi-task"
    assert not any(map(recipe_in, ("models/sst2-sgd-0123456789", "org/sst2-sgd", "models/film-reviews")))


def test_paths_in_a_study_file_are_relative_to_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "task.yaml").write_text("name: another\n")  # in the working folder: not meant
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    (folder / "base").mkdir()
    (folder / "finetuned").mkdir()
    (folder / "task.yaml").write_text("")
    (folder / "sub" / "sst2").mkdir()  # without a task file, so the registry's is used
    (folder / "sub" / "study.yaml").write_text(
        "name: near\ndefaults: {base: ../base, finetuned: ../finetuned, device: cpu}\nruns:\n"
        "- {task: [../task.yaml, sst2], localizer: movement, size: [1%]}\n"
        "- {task: sst2, localizer: movement, region: {finetuned: ../finetuned}, others: [../task.yaml], size: [2%]}\n"
    )
    study = read_study(folder / "sub" / "study.yaml")
    base, tuned, task = (str(folder / name) for name in ("base", "finetuned", "task.yaml"))
    assert study.defaults == {"base": base, "finetuned": tuned, "device": "cpu"}
    assert study.runs[0]["task"] == [task, "sst2"]
    assert study.runs[1]["region"] == {"finetuned": tuned} and study.runs[1]["others"] == [task]
    # The stored text gives the same study.
    (tmp_path / "copy.yaml").write_text(study.yaml_text())
    assert read_study(tmp_path / "copy.yaml") == study


def test_paths_of_the_project_and_unknown_ones_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: far\ndefaults: {base: examples/models/minilm-l6, finetuned: '${SKILLVIZ_FINETUNED}/x'}\n"
        "runs: [{task: examples/tasks/mr.yaml}]\n"
    )
    study = read_study(tmp_path / "s.yaml")
    assert study.defaults == {"base": "examples/models/minilm-l6", "finetuned": "${SKILLVIZ_FINETUNED}/x"}
    assert study.runs[0]["task"] == "examples/tasks/mr.yaml"
    assert anchored("examples/models/minilm-l6", project_root()) == "examples/models/minilm-l6"
    assert anchored("tasks", project_root() / "examples") == str(project_root() / "examples" / "tasks")
    assert all(anchored(text, tmp_path) == text for text in ("", "~", "s.yml", str(tmp_path), "$HOME", "a" * 5000))


def test_tasks_without_a_common_scale_are_refused_before_training(tiny: Path) -> None:
    class Checked:
        """A stand-in of a study's check, with one task scored by perplexity."""

        def pair(self, *_: object) -> None:
            """Accept every task for the base."""

        def task(self, path: str) -> Task:
            metric = "perplexity" if path == tasks(tiny)[1] else "accuracy"
            return registry.task(path).model_copy(update={"metric": metric})

    ways: list[dict[str, Any]] = [{"recipe": "multi-task"}, {"recipe": "continual", "mode": "naive"}]
    study = study_of(tiny, *({"tasks": list(tasks(tiny)), **REGION, **way} for way in ways))
    together, in_turn = (FineTunedArtifact(spec) for spec in study_plan(study).finetuned)
    with pytest.raises(BadInput, match=r"different scales \(one: accuracy, two: perplexity\)"):
        together.check(Checked())
    in_turn.check(Checked())


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


def test_what_differs_stands_beside_the_recipe_and_seeds_are_averaged() -> None:
    """Two seeds with three settings give three rows, each over two seeds."""
    ways: list[dict[str, Any]] = [{"steps": 1, "lr": 1e-4}, {"steps": 300, "lr": 0.05}, {"steps": 300, "lr": None}]
    found = once([tuned(folder=f"{way}-{seed}", **way, rank=None) for way in ways for seed in (0, 1)])
    rows = score_table(found).query("metric == 'accuracy'")
    assert rows["seeds"].tolist() == [2, 2, 2]
    assert set(rows["recipe"]) == {"sgd"}
    assert set(rows["variant"]) == {"1 step, lr 0.0001", "300 steps, lr 0.05", "300 steps, lr by default"}


def test_what_does_not_differ_is_not_said() -> None:
    """A variant compares the models of one recipe, task and training set only; others do not need a name."""
    alone = [tuned(steps=3), tuned(folder="l", recipe="lora", steps=9), tuned(folder="n", steps=3)]
    other = seen(right=RIGHT, recipe="sgd", id_task="cr", model_fields={"steps": 5})
    few = seen(right=RIGHT, recipe="sgd", setting="16-shot", model_fields={"steps": 7})
    assert {one.training for one in once([*alone, other, few])} == {("sgd", ""), ("lora", "")}


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("rank", (1, 8), {"rank 1", "rank 8"}),
        ("k_shot", (None, 16), {"all examples", "16-shot"}),
        ("head", ("own", "linear"), {"own head", "linear head"}),
        ("tasks", (["a/x.yaml"], ["b/x.yaml"]), {"tasks a/x.yaml", "tasks b/x.yaml"}),
        ("tasks", (["a/x.yaml", "cr"], ["cr", "a/x.yaml"]), {"tasks x+cr", "tasks cr+x"}),
        ("model", ("pairs/one", "pairs/two"), {"one", "two"}),
        (("region", "sizes"), ("1%", "5%"), {"region 1%", "region 5%"}),
        (("region", "model", "steps"), (1, 5), {"region model 1 step", "region model 5 steps"}),
    ],
)
def test_words_tell_every_value_apart(name: str | tuple[str, ...], values: tuple[Any, Any], words: set[str]) -> None:
    parts = [{name if isinstance(name, tuple) else (name,): value} for value in values]
    found = once([tuned(folder=str(value), of_parts=of) for value, of in zip(values, parts, strict=True)])
    assert {one.variant for one in found} == words


def test_stages_of_one_sequence_are_never_averaged() -> None:
    """The stage is always named, even if only one was scored; models of different modes are not compared."""
    ways: list[dict[str, Any]] = [
        {"mode": "naive", "stage": 1},
        {"mode": "naive", "stage": 2},
        {"mode": "grafting", "stage": 1, "of_parts": {("region", "sizes"): "5%"}},
    ]
    found = once([tuned("ft_scaled", str(way), "continual", **way) for way in ways])
    told = {"naive, after stage 1", "naive, after stage 2", "grafting, after stage 1"}
    assert {one.variant for one in found} == told and len(sides(found)) == 3


def test_a_difference_tells_both_models_where_there_are_several() -> None:
    plain = [tuned(folder=f"m{steps}", steps=steps, right=RIGHT) for steps in (1, 300)]
    lora = tuned("lora", "l", "lora", right=RIGHT[::-1])
    rows = paired(once([*plain, lora]), [("lora", "ft")]).query("metric == 'accuracy'")
    assert set(rows["recipe"]) == {"lora"} and set(rows["recipe_b"]) == {"sgd"}
    assert rows["variant_b"].tolist() == ["1 step", "300 steps"] and set(rows["variant"]) == {""}
    assert set(paired(once([plain[0], lora]), [("lora", "ft")])["recipe_b"]) == {""}


def test_the_recovered_gain_is_of_one_way_of_training() -> None:
    """The graft of a model is measured by that model's gain, not by the mean gain of both."""

    def pair(steps: int, tuned: float) -> list[Observation]:
        values = {"pretrained": 0.5, "ft": tuned, "graft": 0.7}
        common: dict[str, Any] = {"model": f"m{steps}", "recipe": "sgd", "model_fields": {"steps": steps}}
        region = {"graft": {"localizer": "stagewise", "size": 100.0, "requested_size": "10%"}}
        return [
            seen(method, split=split, values={"accuracy": value, "ece": 0.1}, **common, **region.get(method, {}))
            for split in ("validation", "test")
            for method, value in values.items()
        ]

    rows = recovered(once([*pair(1, 0.7), *pair(300, 0.9)])).set_index("variant")
    assert rows["reached"].to_dict() == {"1 step": True, "300 steps": False}
    assert rows["seeds"].tolist() == [1, 1] and rows["value_ft"].tolist() == [0.7, 0.9]


@pytest.fixture(scope="module")
def results(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Run a study: LoRA of two ranks, SGD with two settings and two seeds each, a retrained region, two modes, one
    model of both tasks."""
    one, two = tasks(tiny)
    search = {"localizer": "movement", "size": "5%"}
    study = study_of(
        tiny,
        {"task": one, "recipe": "lora", "finetune": {"rank": 1}, "localizer": "none"},
        {"task": one, "recipe": "lora", "finetune": {"rank": 2}, "localizer": "none"},
        {"task": one, "recipe": "sgd", "finetune": {"steps": 1, "seed": [0, 1]}, **search},
        {"task": one, "recipe": "sgd", "finetune": {"seed": [0, 1]}, **search},
        {"task": one, "recipe": "graft-retrain", "region": {**search, "finetune": {"steps": 2}}, "localizer": "none"},
        {"tasks": [one, two], "recipe": "continual", "mode": "naive"},
        {"tasks": [one, two], "recipe": "continual", "mode": "grafting", "region": REGION},
        {"tasks": [one, two], "recipe": "multi-task", "localizer": "fisher", "size": "5%"},
    )
    folder = tmp_path_factory.mktemp("ways")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLVIZ_FINETUNED", str(folder / "finetuned-models"))
        store = Store(folder / "runs")
        assert run_study(study, store).is_whole
        yield Results(study_plan(study), store)


@pytest.mark.nightly
def test_every_row_of_a_study_is_of_one_setting(results: Results) -> None:
    """All observations of a row have the same settings except their seeds."""
    found = of_results(results)
    assert all(all(one.model_fields == side[0].model_fields for one in side) for side in sides(found))
    table = score_table(found).query("split == 'test' and metric == 'accuracy' and task == 'one'")
    seeds = table.set_index(["method", "variant"])["seeds"]
    assert seeds["ft"].to_dict() == {"1 step": 2, "6 steps": 2, "2 steps": 1}
    assert seeds["lora"].to_dict() == {"rank 1": 1, "rank 2": 1}
    for method, mode in (("continual_naive", "naive"), ("continual_graft", "grafting")):
        assert seeds[method].to_dict() == {f"{mode}, after stage {stage}": 1 for stage in (1, 2)}


@pytest.mark.nightly
def test_a_make_up_has_one_row_a_part_seed_and_setting(results: Results) -> None:
    assert set(run_variants(results)) == {"1 step", "6 steps", "2 steps", ""}  # one model for two localizers
    table = make_tables(results.study, results)["composition"]
    shares = table.groupby(["task", "localizer", "variant"])["share"].sum()
    models = pd.Series(2.0, index=[("one", "movement", "1 step"), ("one", "movement", "6 steps")])
    assert shares[models.index].tolist() == pytest.approx(models.tolist())


@pytest.mark.nightly
def test_a_region_s_run_and_model_are_told_without_their_seeds(results: Results) -> None:
    (score,) = results.scores(recipe="graft-retrain")
    fields = model_fields(results, score)
    assert fields["region", "localizer"] == "movement" and fields["region", "sizes"] == "5%"
    assert (fields["region", "model", "recipe"], fields["region", "model", "steps"], fields["steps"]) == ("sgd", 2, 6)
    assert not [name for name in fields if "seed" in name]


@pytest.mark.nightly
def test_a_study_of_models_of_several_tasks_tells_their_stages_and_what_their_regions_share(results: Results) -> None:
    made = make_tables(results.study, results)
    rows = made["stages"].query("metric == 'accuracy'")
    told = {
        (mode, stage, task) for mode in ("naive", "grafting") for stage, task in ((1, "one"), (2, "one"), (2, "two"))
    }
    alone = {("independent", 1, "one"), ("independent", 2, "two")}
    assert {*zip(rows["mode"], rows["stage"], rows["task"], strict=True)} == told | alone
    assert not rows.loc[rows["mode"] == "grafting", "change"].any()
    assert set(made["overlap"]["row_task"]) == {"one", "two"} and set(made["isolation"]["kind"]) == {"overlap", "iou"}
    assert made["note"]["text"].str.contains("bit for bit the same after every later stage").any()


@pytest.mark.parametrize("other", [{"finetune": {"seed": 1}}, {"tasks": "turned", "mode": "grafting"}])
def test_several_sequences_are_not_told_as_one(tiny: Path, store: Store, other: dict[str, Any]) -> None:
    one, two = tasks(tiny)
    entry = {"tasks": [one, two], "recipe": "continual", "region": REGION}
    turned = {"tasks": [two, one]} if "tasks" in other else {}
    study = study_of(tiny, entry, {**entry, **other, **turned})
    assert stages_and_notes(Results(study_plan(study), store)) == ({}, [MANY_SEQUENCES])
    assert stages_and_notes(Results(study_plan(study_of(tiny, entry)), store)) == ({}, [])  # nothing is made yet
