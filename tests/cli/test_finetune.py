"""Tests of `finetune --recipe`: every recipe from the command line; incompatible options are refused at once."""

import json
import shutil
from pathlib import Path

import pytest

from skillviz.commands.finetune import region_source
from skillviz.errors import CorruptFile, RunNotFound
from skillviz.models.finetune.recipes import RECIPES
from skillviz.models.pair import load_pair
from skillviz.runs.store import Store
from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec
from tests.cli.calls import call, done, in_one_line, refused
from tests.tiny import tiny_pair, tiny_task

QUICK = ("--steps", 3, "--device", "cpu", "--json")


def finetune(base: Path, out: Path, *words: object) -> dict:
    return done("finetune", "--base", base, "--out", out, *words, *QUICK).json


def stored(folder: Path) -> dict:
    return json.loads((folder / "finetune.json").read_text())


@pytest.mark.parametrize("name", ["sgd", "adamw", "adamw-l1", "bitfit", "lora"])
def test_a_recipe_of_one_task(name, pair, task_file, tmp_path):
    rank = ("--rank", 1, "--matrices", 1) if name == "lora" else ()
    told = finetune(pair[0], tmp_path / "m", "--task", task_file, "--recipe", name, *rank)
    assert stored(tmp_path / "m")["recipe"] == name and "models" not in told
    assert told["trained"] > 0 and told["touched"] >= 0
    load_pair(pair[0], tmp_path / "m", device="cpu")


def test_a_run_s_region_is_re_trained(pair, task_file, localized, tmp_path):
    runs, run_id = localized[0], localized[1].json["run_id"]
    file, region = runs / run_id / "region.safetensors", region_source(run_id, runs).region
    assert region == region_source(str(runs / run_id)).region == region_source(str(file)).region
    words = ("--task", task_file, "--recipe", "graft-retrain", "--runs-dir", runs, "--region")
    told, again = (finetune(pair[0], tmp_path / name, *words, of) for name, of in (("a", run_id), ("b", file)))
    about = {"size": region.size, "d": region.d, "sha256": region.sha256(), "run": run_id}
    assert stored(tmp_path / "a")["region"] == about
    assert (told["trained"], again["touched"]) == (region.size, told["touched"])
    for source, error in (("no-such-run", RunNotFound), (str(task_file), CorruptFile)):
        with pytest.raises(error):
            region_source(source, runs)


@pytest.mark.nightly
def test_several_tasks_at_once_and_one_after_the_other(pair, task_file, localized, tmp_path):
    """The second task has another name and other texts."""
    other = shutil.copytree(task_file.parent, tmp_path / "other") / "task.yaml"
    other.write_text(other.read_text().replace("name: tiny", "name: other"))
    for rows in other.parent.glob("*.jsonl"):
        rows.write_text(rows.read_text().replace('"text": "', '"text": "then '))
    runs, run_id = localized[0], localized[1].json["run_id"]
    words = ("--task", task_file, "--task", other, "--recipe")
    told = finetune(pair[0], tmp_path / "m", *words, "multi-task", "--without-frozen")
    assert set(told["models"]) == {"tiny", "other"} and set(told["metrics"]) == {"tiny validation", "other validation"}
    load_pair(pair[0], tmp_path / "m" / "other", device="cpu")
    told = finetune(pair[0], tmp_path / "n", *words, "continual", "--mode", "naive", "--optimizer", "adamw")
    assert set(told["models"]) == {"1/tiny", "2/tiny", "2/other"}
    finetune(pair[0], tmp_path / "g", *words, "continual", *("--regions", run_id) * 2, "--runs-dir", runs)
    record = stored(tmp_path / "g" / "2" / "other")
    assert (record["mode"], [one["run"] for one in record["regions"]]) == ("grafting", [run_id] * 2)


def test_a_region_of_another_base_is_refused_unless_forced(task_file, localized, tmp_path):
    runs, run_id = localized[0], localized[1].json["run_id"]
    base, out = tiny_pair(tmp_path / "other", "bert", "head", seed=9)[0], ("--out", tmp_path / "m")
    words = ("finetune", "--base", base, "--task", task_file, "--runs-dir", runs, *QUICK)
    retrain = ("--recipe", "graft-retrain", "--region")
    one_after_the_other = ("--recipe", "continual", "--task", "sst2", "--regions", run_id, "--regions")
    for more in (
        (*retrain, run_id),
        (*retrain, run_id, *out),
        (*retrain, runs / run_id / "region.safetensors", *out),
        (*one_after_the_other, run_id),
        (*one_after_the_other, run_id, *out),
    ):
        refused(call(*words, *more), "was found on a base with the fingerprint")
    assert not (tmp_path / "m").exists()
    assert "Forced: the region of" in done(*words, *retrain, run_id, *out, "--force").err
    refused(call(*words, *retrain, run_id, "--force"), "--force needs --out DIR")


def test_a_region_that_does_not_say_its_base_is_taken(pair, task_file, localized, tmp_path):
    region, file = region_source(localized[1].json["run_id"], localized[0]).region, tmp_path / "plain.safetensors"
    region.save(file)
    finetune(pair[0], tmp_path / "m", "--task", task_file, "--recipe", "graft-retrain", "--region", file)
    told = stored(tmp_path / "m")["region"]
    assert "run" not in told and told["sha256"] == region.sha256()


def test_a_grid_is_told_point_by_point(pair, task_file, tmp_path):
    said = done(
        "finetune", "--base", pair[0], "--out", tmp_path / "m", "--task", task_file, "--grid", "quick", *QUICK[:-1]
    )
    assert (said.out + said.err).count("Grid: batch 8") == 3


@pytest.mark.parametrize(
    ("has_out", "words", "says"),
    [
        (True, ["--recipe", "graft-retrain"], "trains one region only"),
        (True, ["--recipe", "sgd", "--rank", 2], "rank goes with the recipe lora"),
        (True, ["--recipe", "adam"], "known: sgd, adamw"),
        (True, ["--task", "cr"], "learns one task"),
        (True, ["--recipe", "multi-task"], "give two tasks or more"),
        (True, ["--recipe", "continual", "--task", "cr", "--mode", "grafting"], "needs one region per task"),
        (True, ["--grid", "paper", "--lr", 0.1], "leave out the rate (--lr) or the grid (--grid)"),
        (True, ["--recipe", "lora", "--train-embeddings"], "decides what is trained"),
        (True, ["--mode", "naive"], "belongs to the recipe continual"),
        (False, ["--lr", 0], "'lr' of the fine-tuned model cannot be used: it is 0.0, and must be above 0"),
        (False, ["--readout", "prompt", "--head", "linear"], "the prompt readout has no classification head"),
        (False, ["--recipe", "multi-task", "--task", "sst2"], "the task 'sst2' is given twice"),
        (False, ["--seed", 9223372036854775], "4,294,967,295"),
        (False, ["--seed", 4294967296, "--out", "nowhere"], "4,294,967,295"),
    ],
)
def test_what_does_not_go_together_is_one_sentence_with_and_without_a_folder(has_out, words, says, tmp_path):
    out = ("--out", tmp_path / "m") if has_out else ()
    refused(call("finetune", "--base", "nowhere", "--task", "sst2", *out, *words), says)
    assert not (tmp_path / "m").exists()


def test_the_help_names_every_recipe():
    assert ", ".join(RECIPES) in in_one_line(call("finetune", "--help").out)


def test_without_a_folder_the_model_is_kept_where_studies_find_it(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "finetuned-models"))
    task_file = tiny_task(tmp_path / "data", rows=48)
    words = ("finetune", "--base", pair[0], "--task", task_file, "--recipe", "bitfit", *QUICK)
    first, again = done(*words).json, done(*words).json
    assert again == {**first, "cached": True} and not first["cached"]
    spec = FineTunedSpec(base=str(pair[0]), tasks=(str(task_file),), recipe="bitfit", steps=3)
    assert str(FineTunedArtifact(spec).current(Store(tmp_path / "runs")).path) == first["path"]
    task_file.write_text(task_file.read_text().replace("max_length: 48", "max_length: 12"))
    anew = call(*words)
    assert not anew.json["cached"] and "trained again: the definition of the task" in in_one_line(anew.out)
    refused(call(*words, "--test"), "--test needs --out DIR")
