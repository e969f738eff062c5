"""Tests of `finetune --recipe`: every recipe from the command line; incompatible options are refused at once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from skillviz.commands.finetune import region_source
from skillviz.errors import CorruptFile, RunNotFound
from skillviz.models.finetune.recipes import RECIPES
from skillviz.models.pair import load_pair
from tests.cli.calls import call
from tests.tiny import tiny_pair, tiny_task

QUICK = ("--steps", 3, "--device", "cpu", "--json")


@pytest.fixture(scope="module")
def other_task(task_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same task under another name, with train and test swapped."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(task_file.parent, folder, dirs_exist_ok=True)
    told = yaml.safe_load((folder / "task.yaml").read_text())
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump({**told, "name": "other"}))
    for split in ("train", "validation", "test"):
        lines = (folder / f"{split}.jsonl").read_text().splitlines()
        changed = [json.dumps({**row, "text": f"then {row['text']}"}) for row in map(json.loads, lines)]
        (folder / f"{split}.jsonl").write_text("\n".join(changed) + "\n")
    return path


def finetune(base: Path, out: Path, *words: object) -> dict:
    said = call("finetune", "--base", base, "--out", out, *words, *QUICK)
    assert said.code == 0, said.err
    return said.json


def recipe_of(folder: Path) -> str:
    return json.loads((folder / "finetune.json").read_text())["recipe"]


@pytest.mark.parametrize("name", ["sgd", "adamw", "adamw-l1", "bitfit", "lora"])
def test_a_recipe_of_one_task(name, pair, task_file, tmp_path):
    rank = ("--rank", 1, "--matrices", 1) if name == "lora" else ()
    told = finetune(pair[0], tmp_path / "m", "--task", task_file, "--recipe", name, *rank)
    assert recipe_of(tmp_path / "m") == name
    assert told["trained"] > 0 and told["touched"] >= 0 and "models" not in told
    load_pair(pair[0], tmp_path / "m", device="cpu")


def test_a_run_s_region_is_re_trained(pair, task_file, localized, tmp_path):
    runs, said = localized
    run_id = said.json["run_id"]
    words = ("--task", task_file, "--recipe", "graft-retrain", "--runs-dir", runs)
    told = finetune(pair[0], tmp_path / "a", *words, "--region", run_id)
    region = region_source(run_id, runs).region
    about = {"size": region.size, "d": region.d, "sha256": region.sha256(), "run": run_id}
    assert json.loads((tmp_path / "a" / "finetune.json").read_text())["region"] == about
    assert told["trained"] == region_source(run_id, runs).region.size
    file = runs / run_id / "region.safetensors"
    assert finetune(pair[0], tmp_path / "b", *words, "--region", file)["touched"] == told["touched"]
    assert region_source(str(runs / run_id)).region == region
    assert region_source(str(file)).region == region
    with pytest.raises(RunNotFound):
        region_source("no-such-run", runs)
    with pytest.raises(CorruptFile):
        region_source(str(task_file))


@pytest.mark.nightly
def test_several_tasks_at_once_and_one_after_the_other(pair, task_file, other_task, localized, tmp_path):
    runs, said = localized
    tasks = ("--task", task_file, "--task", other_task)
    told = finetune(pair[0], tmp_path / "m", *tasks, "--recipe", "multi-task", "--without-frozen")
    assert set(told["models"]) == {"tiny", "other"} and set(told["metrics"]) == {"tiny validation", "other validation"}
    load_pair(pair[0], tmp_path / "m" / "other", device="cpu")
    told = finetune(pair[0], tmp_path / "n", *tasks, "--recipe", "continual", "--mode", "naive", "--optimizer", "adamw")
    assert set(told["models"]) == {"1/tiny", "2/tiny", "2/other"}
    region = ("--regions", said.json["run_id"])
    finetune(pair[0], tmp_path / "g", *tasks, "--recipe", "continual", *region, *region, "--runs-dir", runs)
    record = json.loads((tmp_path / "g" / "2" / "other" / "finetune.json").read_text())
    assert record["mode"] == "grafting" and [one["run"] for one in record["regions"]] == [said.json["run_id"]] * 2


def test_a_region_of_another_base_is_refused_unless_forced(task_file, localized, tmp_path):
    runs, run_id = localized[0], localized[1].json["run_id"]
    base, _ = tiny_pair(tmp_path / "other", "bert", "head", seed=9)
    words = ("finetune", "--base", base, "--task", task_file, "--runs-dir", runs, *QUICK)
    retrain = ("--recipe", "graft-retrain", "--region")
    one_after_the_other = ("--recipe", "continual", "--task", "sst2", "--regions", run_id, "--regions")
    out = ("--out", tmp_path / "m")
    for more in (
        (*retrain, run_id),
        (*retrain, run_id, *out),
        (*retrain, runs / run_id / "region.safetensors", *out),
        (*one_after_the_other, run_id),
        (*one_after_the_other, run_id, *out),
    ):
        said = call(*words, *more)
        assert said.code == 2 and "was found on a base with the fingerprint" in " ".join(said.err.split()), said.err
    assert not (tmp_path / "m").exists()
    forced = call(*words, *retrain, run_id, "--out", tmp_path / "m", "--force")
    assert forced.code == 0 and "Forced: the region of" in forced.err
    refused = call(*words, *retrain, run_id, "--force")
    assert refused.code == 2 and "--force needs --out DIR" in refused.err


def test_a_region_that_does_not_say_its_base_is_taken(pair, task_file, localized, tmp_path):
    region = region_source(localized[1].json["run_id"], localized[0]).region
    region.save(tmp_path / "plain.safetensors")
    words = ("--task", task_file, "--recipe", "graft-retrain", "--region", tmp_path / "plain.safetensors")
    finetune(pair[0], tmp_path / "m", *words)
    told = json.loads((tmp_path / "m" / "finetune.json").read_text())["region"]
    assert "run" not in told and told["sha256"] == region.sha256()


def test_a_grid_is_told_point_by_point(pair, task_file, tmp_path):
    words = ("--base", pair[0], "--out", tmp_path / "m", "--task", task_file, "--grid", "quick")
    said = call("finetune", *words, *QUICK[:-1])
    assert said.code == 0
    assert (said.out + said.err).count("Grid: batch 8") == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--recipe", "graft-retrain"], "trains one region only"),
        (["--recipe", "sgd", "--rank", 2], "rank goes with the recipe lora"),
        (["--recipe", "adam"], "known: sgd, adamw"),
        (["--task", "cr"], "learns one task"),
        (["--recipe", "multi-task"], "give two tasks or more"),
        (["--recipe", "continual", "--task", "cr", "--mode", "grafting"], "needs one region per task"),
        (["--grid", "paper", "--lr", 0.1], "leave out the rate (--lr) or the grid (--grid)"),
        (["--recipe", "lora", "--train-embeddings"], "decides what is trained"),
        (["--mode", "naive"], "belongs to the recipe continual"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(words, says, tmp_path):
    said = call("finetune", "--base", "nowhere", "--task", "sst2", "--out", tmp_path / "m", *words)
    assert said.code == 2
    assert says in " ".join(said.err.split())
    assert not (tmp_path / "m").exists()


def test_the_help_names_every_recipe():
    shown = " ".join(call("finetune", "--help").out.replace("│", " ").split())
    assert ", ".join(RECIPES) in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--lr", 0], "'lr' of the fine-tuned model cannot be used: it is 0.0, and must be above 0"),
        (["--readout", "prompt", "--head", "linear"], "the prompt readout has no classification head"),
        (["--recipe", "multi-task", "--task", "sst2"], "the task 'sst2' is given twice"),
        (["--seed", 9223372036854775], "4,294,967,295"),
        (["--seed", 4294967296, "--out", "nowhere"], "4,294,967,295"),
    ],
)
def test_bad_input_without_a_folder_is_one_sentence(words, says):
    said = call("finetune", "--base", "nowhere", "--task", "sst2", *words)
    assert said.code == 2 and says in " ".join(said.err.replace("│", " ").split())


def test_without_a_folder_the_model_is_kept_where_studies_find_it(pair, tmp_path, monkeypatch):
    from skillviz.runs.store import Store
    from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec

    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "finetuned-models"))
    task_file = tiny_task(tmp_path / "data", rows=48)
    words = ("finetune", "--base", pair[0], "--task", task_file, "--recipe", "bitfit", *QUICK)
    first, again = call(*words), call(*words)
    assert first.code == again.code == 0, first.err
    assert (first.json["cached"], again.json["cached"]) == (False, True)
    assert first.json["path"] == again.json["path"] and first.json["metrics"] == again.json["metrics"]
    spec = FineTunedSpec(base=str(pair[0]), tasks=(str(task_file),), recipe="bitfit", steps=3)
    assert str(FineTunedArtifact(spec).current(Store(tmp_path / "runs")).path) == first.json["path"]
    task_file.write_text(task_file.read_text().replace("max_length: 48", "max_length: 12"))
    anew = call(*words)
    assert not anew.json["cached"] and "trained again: the definition of the task" in " ".join(anew.out.split())
    refused = call(*words, "--test")
    assert refused.code == 2 and "--test needs --out DIR" in refused.err
