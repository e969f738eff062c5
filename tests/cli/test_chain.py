"""Test of the acceptance chain on a new pair and task: finetune, localize, export, apply, evaluate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from skillviz.core.graft import Graft
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.cli.calls import call
from tests.cli.conftest import QUICK
from tests.tiers import first
from tests.tiny import tiny_pair, tiny_task


class Case(NamedTuple):
    """A pair: its family and readout, the dtype of the base's and the fine-tuned file, and the trained head."""

    family: str
    readout: str
    base: torch.dtype
    tuned: torch.dtype = torch.float32
    head: str = "own"


CASES = [
    Case("bert", "head", torch.float16),
    Case("gpt2", "head", torch.float32),
    Case("roberta", "prompt", torch.bfloat16),
    Case("llama", "causal", torch.float32),
    Case("bert", "head", torch.float16, tuned=torch.float16),
    Case("roberta", "head", torch.float16, head="linear"),
    Case("distilbert", "head", torch.bfloat16, tuned=torch.bfloat16, head="linear"),
]


@pytest.fixture(
    scope="module",
    params=first(CASES, CASES[2:3].__contains__),
    ids=lambda c: "-".join(map(str, c)).replace("torch.", ""),
)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Return the folders and outputs of the whole chain; the base is stored in the case's dtype."""
    family, readout, dtype, tuned_dtype, head = request.param
    folder = tmp_path_factory.mktemp("chain")
    base, _ = tiny_pair(folder / "pair", family, readout, base_dtype=dtype)
    data, store = tiny_task(folder / "data"), folder / "runs"
    tuned, graft, out = folder / "tuned", folder / "skill.safetensors", folder / "applied"
    asked = ("--task", data, "--readout", readout)
    said = {}
    recipe = ("--steps", 30, "--lr", 0.1, "--head", head)
    said["finetune"] = call("finetune", "--base", base, *asked, *recipe, "--out", tuned, "--json")
    _store_as(tuned, tuned_dtype)
    said["localize"] = call(
        "localize", "--base", base, "--finetuned", tuned, *asked, "--size", "5%", *QUICK, "--runs-dir", store, "--json"
    )
    run_id = said["localize"].json["run_id"]
    said["export"] = call("export", run_id, "-o", graft, "--runs-dir", store, "--json")
    # Simulate another machine: the base is elsewhere, and the fine-tuned model and the run are gone.
    moved = folder / "elsewhere" / "other-name"
    shutil.copytree(base, moved)
    said["apply"] = call("apply", "--base", moved, "--graft", graft, "--out", out, "--json")
    said["evaluate"] = call("evaluate", "--base", moved, "--graft", graft, "--task", data, "--json")
    run = Store(store).open(run_id)
    return {"said": said, "base": base, "tuned": tuned, "graft": graft, "out": out, "run": run, "task": data}


def _store_as(folder: Path, dtype: torch.dtype) -> None:
    """Store the folder's weights in this dtype, and update its configuration."""
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": str(dtype).removeprefix("torch.")}))


def test_every_command_ends_well(chain):
    for name, said in chain["said"].items():
        assert said.code == 0, (name, said.err)


def test_the_applied_folder_predicts_what_the_run_stored(chain):
    run: Run = chain["run"]
    pair = load_pair(chain["base"], chain["out"], readout=run.record.readout, device="cpu")
    test = load(task(chain["task"])).test
    data = encode(task(chain["task"]), test, pair.tokenizer, pair.readout_name)
    ids, _, stored = run.logits("grafted", "test")
    assert ids.tolist() == data.ids
    assert np.array_equal(predict(pair, data, "finetuned"), stored)
    # Check that the comparison can fail: the stored fine-tuned model gives other logits.
    assert not np.array_equal(run.logits("finetuned", "test")[2], stored)


def test_the_applied_folder_answers_the_same_when_transformers_opens_it_by_its_own_defaults(chain):
    run: Run = chain["run"]
    config = json.loads((chain["out"] / "config.json").read_text())
    assert config["dtype"] == "float32"
    model = getattr(transformers, config["architectures"][0]).from_pretrained(chain["out"]).eval()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    pair = load_pair(chain["base"], chain["out"], readout=run.record.readout, device="cpu")
    named = dict(pair.model.named_parameters())
    with pair.at("finetuned"):
        assert all(torch.equal(named[name], value) for name, value in model.named_parameters())


def test_outside_the_region_it_is_the_base_and_inside_the_fine_tuned_model(chain):
    region = chain["run"].region()
    base, tuned = (load_file(chain[key] / "model.safetensors") for key in ("base", "tuned"))
    heads = set(Graft.load(chain["graft"]).head)
    for name, tensor in load_file(chain["out"] / "model.safetensors").items():
        if name in heads:
            assert torch.equal(tensor, tuned[name]), name
            continue
        own = base[name] if name in base else base[name.split(".", 1)[1]]  # bare models have no prefix
        inside = torch.from_numpy(region.mask(name)) if name in region.shapes else torch.zeros_like(tensor).bool()
        assert torch.equal(tensor[~inside], own.to(tensor.dtype)[~inside]), name
        assert torch.equal(tensor[inside], tuned[name].to(tensor.dtype)[inside]), name


def test_evaluate_says_what_the_run_says(chain):
    scored, stored = chain["said"]["evaluate"].json, chain["said"]["localize"].json
    assert scored["size"] == stored["size"]
    for state in ("pretrained", "grafted"):
        assert scored["metrics"][state] == stored["metrics"][state]


def test_the_graft_file_says_where_it_comes_from(chain):
    header = Graft.load(chain["graft"]).header
    assert header["run_id"] == chain["run"].id
    assert header["base"]["fingerprint"] == chain["run"].record.base.fingerprint
    assert header["labels"] == list(task(chain["task"]).labels)
    assert ("label_words" in header) == (header["readout"] != "head")
    assert header["metrics"]["grafted"]["accuracy"] == chain["said"]["localize"].json["metrics"]["grafted"]["accuracy"]


def test_evaluate_with_region_and_pair_scores_all_states(chain):
    members = ("--base", chain["base"], "--finetuned", chain["tuned"], "--task", chain["task"])
    readout = ("--readout", chain["run"].record.readout)
    said = call("evaluate", *members, *readout, "--region", chain["run"].path / "region.safetensors", "--json")
    assert said.json["metrics"] == chain["said"]["localize"].json["metrics"]


def test_applied_folder_is_not_written_over(chain):
    said = call("apply", "--base", chain["base"], "--graft", chain["graft"], "--out", chain["out"])
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "not empty" in said.err


@pytest.mark.parametrize(("size", "like"), [("100%", "tuned"), ("1", "base")])
def test_size_d_and_one_entry_are_the_ends(pair, task_file, user_runs, tmp_path: Path, size, like):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    run = call("localize", *members, "--method", "movement", "--size", size, "--device", "cpu", "--json").json
    call("export", run["run_id"], "-o", tmp_path / "g.safetensors")
    call("apply", "--base", pair[0], "--graft", tmp_path / "g.safetensors", "--out", tmp_path / "out")
    applied, tuned = (load_file(f / "model.safetensors") for f in (tmp_path / "out", pair[1]))
    different = sum(int((applied[n] != tuned[n]).sum()) for n in applied)
    assert (different == 0) == (like == "tuned")
    if like == "base":
        base = load_file(pair[0] / "model.safetensors")
        same = {n: base[n.removeprefix("bert.")] for n in applied if n.removeprefix("bert.") in base and ".layer." in n}
        assert sum(int((applied[n] != t).sum()) for n, t in same.items()) == 1


def test_a_graft_of_another_base_is_refused_unless_forced(localized, pair, tmp_path: Path):
    runs, said = localized
    graft = tmp_path / "g.safetensors"
    call("export", said.json["run_id"], "-o", graft, "--runs-dir", runs)
    other, _ = tiny_pair(tmp_path / "other", "bert", "head", seed=5)
    refused = call("apply", "--base", other, "--graft", graft, "--out", tmp_path / "out")
    assert refused.code == 2 and refused.err.startswith("WrongBase") and "--force" in refused.err
    assert not (tmp_path / "out").exists()
    forced = call("apply", "--base", other, "--graft", graft, "--out", tmp_path / "out", "--force")
    assert forced.code == 0 and "Forced" in forced.err
    assert json.loads((tmp_path / "out" / "config.json").read_text())["problem_type"] == "single_label_classification"


def test_export_refuses_other_models_than_the_run_s(localized, tmp_path: Path, task_file, pair):
    runs, said = localized
    call("finetune", "--base", pair[0], "--task", task_file, "--steps", 2, "--out", tmp_path / "other")
    refused = call(
        "export", said.json["run_id"], "-o", tmp_path / "g", "--runs-dir", runs, "--finetuned", tmp_path / "other"
    )
    assert refused.code == 2 and "fingerprint" in refused.err
    assert not (tmp_path / "g").exists()


def test_evaluate_refuses_a_graft_of_another_fine_tuned_model(localized, tmp_path: Path, task_file, pair):
    runs, said = localized
    call("export", said.json["run_id"], "-o", tmp_path / "g", "--runs-dir", runs)
    call("finetune", "--base", pair[0], "--task", task_file, "--steps", 2, "--out", tmp_path / "other")
    members = ("--base", pair[0], "--finetuned", tmp_path / "other", "--task", task_file)
    refused = call("evaluate", *members, "--graft", tmp_path / "g")
    assert refused.code == 2 and refused.err.startswith("PairMismatch")


@pytest.mark.slow
def test_a_lean_run_s_export_says_that_its_scores_were_of_rounded_weights(pair, task_file, user_runs, tmp_path: Path):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--method", "movement", "--size", "5%")
    for dtype, is_said in (("bfloat16", True), ("float32", False)):
        run = call("localize", *members, "--dtype", dtype, "--device", "cpu", "--json").json
        said = call("export", run["run_id"], "-o", tmp_path / f"{dtype}.safetensors")
        assert said.code == 0 and ("rounded to bfloat16" in said.err) == is_said


def test_an_applied_graft_is_not_taken_for_a_fine_tuning(chain):
    assert "moved in fine-tuning" not in chain["said"]["evaluate"].out
