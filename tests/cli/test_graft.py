"""Tests of a graft on its way: finetune, localize, export, apply, evaluate; and published to a stand-in of the hub."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

from skillviz.core.graft import Graft
from skillviz.models.applied import applied, opened_base
from skillviz.models.fetch import GRAFT_FILE
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.run import Run
from skillviz.runs.store import Store, open_run
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.cli.calls import PROJECT, Said, call, done, refused, sentence
from tests.cli.conftest import QUICK, members_of
from tests.hub import TOKEN, Hub, hub_of
from tests.models.folders import change_config
from tests.tables import check
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


class Chain(NamedTuple):
    """What the commands say, and the folders and files that they leave."""

    localized: Said
    scored: Said
    base: Path
    tuned: Path
    graft: Path
    out: Path
    run: Run
    task: Path

    def pair(self) -> ModelPair:
        """Return the base with the applied graft as its fine-tuned model."""
        return load_pair(self.base, self.out, readout=self.run.record.readout, device="cpu")


@pytest.fixture(
    scope="module",
    params=first(CASES, CASES[2:3].__contains__),
    ids=lambda c: "-".join(map(str, c)).replace("torch.", ""),
)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Run the whole chain; the base is stored in the case's dtype."""
    family, readout, dtype, tuned_dtype, head = request.param
    folder = tmp_path_factory.mktemp("chain")
    base, _ = tiny_pair(folder / "pair", family, readout, base_dtype=dtype)
    data, tuned, graft, out = (
        tiny_task(folder / "data"),
        folder / "tuned",
        folder / "skill.safetensors",
        folder / "applied",
    )
    asked, store = ("--task", data, "--readout", readout), ("--runs-dir", folder / "runs", "--json")
    done("finetune", "--base", base, *asked, "--steps", 30, "--lr", 0.1, "--head", head, "--out", tuned, "--json")
    weights = {name: tensor.to(tuned_dtype) for name, tensor in load_file(tuned / "model.safetensors").items()}
    save_file(weights, tuned / "model.safetensors", {"format": "pt"})
    change_config(tuned, dtype=str(tuned_dtype).removeprefix("torch."))
    localized = done("localize", "--base", base, "--finetuned", tuned, *asked, "--size", "5%", *QUICK, *store)
    run_id = localized.json["run_id"]
    done("export", run_id, "-o", graft, *store)
    # Simulate another machine: the base is elsewhere, and the fine-tuned model and the run are gone.
    moved = shutil.copytree(base, folder / "elsewhere" / "other-name")
    done("apply", "--base", moved, "--graft", graft, "--out", out, "--json")
    scored = done("evaluate", "--base", moved, "--graft", graft, "--task", data, "--json")
    return Chain(localized, scored, base, tuned, graft, out, Store(folder / "runs").open(run_id), data)


def test_the_applied_folder_predicts_what_the_run_stored(chain: Chain) -> None:
    pair, own = chain.pair(), task(chain.task)
    data = encode(own, load(own).test, pair.tokenizer, pair.readout_name)
    ids, _, stored = chain.run.logits("grafted", "test")
    assert ids.tolist() == data.ids and np.array_equal(predict(pair, data, "finetuned"), stored)
    # Check that the comparison can fail: the stored fine-tuned model gives other logits.
    assert not np.array_equal(chain.run.logits("finetuned", "test")[2], stored)


def test_the_applied_folder_answers_the_same_when_transformers_opens_it_by_its_own_defaults(chain: Chain) -> None:
    config = json.loads((chain.out / "config.json").read_text())
    model = getattr(transformers, config["architectures"][0]).from_pretrained(chain.out).eval()
    assert (config["dtype"], {p.dtype for p in model.parameters()}) == ("float32", {torch.float32})
    pair = chain.pair()
    with pair.at("finetuned"):
        named = dict(pair.model.named_parameters())
        assert [name for name, value in model.named_parameters() if not torch.equal(named[name], value)] == []


def test_outside_the_region_it_is_the_base_and_inside_the_fine_tuned_model(chain: Chain) -> None:
    region, heads = chain.run.region(), set(Graft.load(chain.graft).head)
    base, tuned = (load_file(folder / "model.safetensors") for folder in (chain.base, chain.tuned))
    for name, tensor in load_file(chain.out / "model.safetensors").items():
        if name in heads:
            assert torch.equal(tensor, tuned[name]), name
            continue
        own = base[name] if name in base else base[name.split(".", 1)[1]]  # bare models have no prefix
        inside = torch.from_numpy(region.mask(name)) if name in region.shapes else torch.zeros_like(tensor).bool()
        assert torch.equal(tensor, torch.where(inside, tuned[name].to(tensor.dtype), own.to(tensor.dtype))), name


def test_evaluate_says_what_the_run_says(chain: Chain) -> None:
    scored, stored = chain.scored.json, chain.localized.json
    of_both = [[one["size"], one["metrics"]["pretrained"], one["metrics"]["grafted"]] for one in (scored, stored)]
    assert of_both[0] == of_both[1] and "moved in fine-tuning" not in chain.scored.out


def test_the_graft_file_says_where_it_comes_from(chain: Chain) -> None:
    header, run = Graft.load(chain.graft).header, chain.run
    about = header["run_id"], header["base"]["fingerprint"], header["labels"], "label_words" in header
    assert (about, header["metrics"]["grafted"]["accuracy"]) == (
        (run.id, run.record.base.fingerprint, list(task(chain.task).labels), (run.record.readout != "head")),
        chain.localized.json["metrics"]["grafted"]["accuracy"],
    )


def test_evaluate_with_region_and_pair_scores_all_states(chain: Chain) -> None:
    more = ("--readout", chain.run.record.readout, "--region", chain.run.path / "region.safetensors", "--json")
    said = call("evaluate", *members_of(chain.base, chain.tuned, chain.task), *more)
    assert said.json["metrics"] == chain.localized.json["metrics"]


def test_applied_folder_is_not_written_over(chain: Chain) -> None:
    sentence(call("apply", "--base", chain.base, "--graft", chain.graft, "--out", chain.out), "not empty")


@pytest.mark.parametrize(("size", "like"), [("100%", "tuned"), ("1", "base")])
def test_size_d_and_one_entry_are_the_ends(members, pair, user_runs, tmp_path: Path, size, like):
    call(
        "export",
        call("localize", *members, "--method", "movement", "--size", size, "--device", "cpu", "--json").json["run_id"],
        "-o",
        tmp_path / "g.safetensors",
    )
    call("apply", "--base", pair[0], "--graft", tmp_path / "g.safetensors", "--out", tmp_path / "out")
    base, tuned, applied = (load_file(folder / "model.safetensors") for folder in (*pair, tmp_path / "out"))
    assert (sum(int((applied[n] != tuned[n]).sum()) for n in applied) == 0) == (like == "tuned")
    same = {n: base[n.removeprefix("bert.")] for n in applied if n.removeprefix("bert.") in base and ".layer." in n}
    different = sum(int((applied[n] != t).sum()) for n, t in same.items())
    assert different == 1 if like == "base" else different > 1


@pytest.fixture
def graft(finished: tuple[str | Path, ...], tmp_path: Path) -> Path:
    done("export", *finished, "-o", tmp_path / "g.safetensors")
    return tmp_path / "g.safetensors"


@pytest.fixture
def another(pair: tuple[Path, Path], task_file: Path, tmp_path: Path) -> Path:
    done("finetune", "--base", pair[0], "--task", task_file, "--steps", 2, "--out", tmp_path / "another")
    return tmp_path / "another"


def test_a_graft_of_another_base_is_refused_unless_forced(graft: Path, tmp_path: Path) -> None:
    other, out = tiny_pair(tmp_path / "other", "bert", "head", seed=5)[0], tmp_path / "out"
    words = ("apply", "--base", other, "--graft", graft, "--out", out)
    refused(call(*words), "WrongBase: ", "--force")
    assert not out.exists() and "Forced" in done(*words, "--force").err
    assert json.loads((out / "config.json").read_text())["problem_type"] == "single_label_classification"


CARD = """---
base_model: tiny/encoder
model-index:
- results:
  - dataset: {{split: {split}}}
    metrics: [{{type: {metric}, value: {accuracy}}}, {{type: nll, value: {nll}}}]
---
"""


@pytest.mark.slow
def test_a_card_is_verified_by_remaking_its_numbers(graft: Path, pair, task_file: Path, tmp_path: Path) -> None:
    true = Graft.load(graft).header["metrics"]["grafted"]
    graft.rename(tmp_path / "graft.safetensors")
    verify = ("verify-graft", tmp_path, "--task", task_file, "--base", pair[0])
    told = done(*verify, "--json").json
    assert (told["holds"], told["source"], told["split"]) == (True, "graft file", "test")
    usual = {name: round(true[name], 4) for name in ("accuracy", "nll")} | {"metric": "accuracy", "split": "test"}
    for changed, holds in (({}, True), ({"nll": true["nll"] + 0.3}, False)):
        (tmp_path / "README.md").write_bytes(
            b"\xef\xbb\xbf" + CARD.format(**usual | changed).replace("\n", "\r\n").encode()
        )
        said = call(*verify, "--json")
        assert (said.code, said.json["holds"], said.json["source"]) == (0 if holds else 1, holds, "card")
        assert [claim["holds"] for claim in said.json["claims"]] == [True, holds]
    for changed, why in UNVERIFIED:
        (tmp_path / "README.md").write_text(CARD.format(**usual | changed))
        refused(call(*verify), why)
    (tmp_path / "README.md").write_text("---\nbase_model: [\n---\n")
    refused(call(*verify), "BadData: ", "the card of")
    (tmp_path / "README.md").unlink()
    refused(call(*verify[:-2]), "name it by --base")
    refused(call("verify-graft", tmp_path, "--base", pair[0]), "by --task")
    other = tiny_task(tmp_path / "other", rows=40)
    refused(call(*verify[:3], other, *verify[4:]), "are not those that the graft was scored on")


UNVERIFIED: tuple[tuple[dict[str, object], str], ...] = (
    ({"nll": ".inf"}, "must be a finite number"), ({"nll": "95 %"}, "must be a number"),
    ({"metric": "charm"}, "charm cannot be remade"), ({"metric": "nll"}, "two numbers of one metric"),
    ({"split": "train"}, "must be one of 'validation' or 'test'"),
)  # fmt: skip


@pytest.mark.parametrize("field", [
    {"metrics": [1]}, {"metrics": {"grafted": {"accuracy": "x"}}}, {"base": "x"}, {"data": "x"}, {"task": 1},
    {"data": {"examples": {"test": "ten"}, "data_fingerprint": ""}}, {"data": None}, {"metrics": {}},
], ids=str)  # fmt: skip
def test_a_graft_whose_header_cannot_be_verified_says_why(graft: Path, pair, task_file: Path, field, tmp_path) -> None:
    one = Graft.load(graft)
    replace(one, header={**one.header, **field}).save(tmp_path / "other.safetensors")
    refused(
        call(*(("verify-graft", tmp_path / "other.safetensors", "--task", task_file, "--base", pair[0]))), "BadData: "
    )


def test_export_refuses_other_models_than_the_run_s(finished, another: Path, tmp_path: Path) -> None:
    refused(call("export", *finished, "-o", tmp_path / "g", "--finetuned", another), "fingerprint")
    assert not (tmp_path / "g").exists()


def test_evaluate_refuses_a_graft_of_another_fine_tuned_model(graft: Path, another: Path, task_file, pair) -> None:
    refused(call("evaluate", *members_of(pair[0], another, task_file), "--graft", graft), "PairMismatch: ")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_lean_run_s_export_says_that_its_scores_were_of_rounded_weights(members, user_runs, tmp_path: Path, dtype):
    words = ("--method", "movement", "--size", "5%", "--dtype", dtype, "--device", "cpu", "--json")
    said = done("export", call("localize", *members, *words).json["run_id"], "-o", tmp_path / "g.safetensors")
    assert ("rounded to bfloat16" in said.err) == (dtype == "bfloat16")


# Separate processes would each import torch again, so one process runs all commands and prints how each ended.
SEVERAL = """
import json, sys
from skillviz.cli import app
for words in json.loads(sys.argv[1]):
    try:
        app(words, prog_name="python -m skillviz")
    except SystemExit as end:
        print("ended", end.code or 0)
"""
NAME = "our-lab/tiny-graft"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_of({}, tmp_path / "uploads") as one:
        yield one


def asked(hub: Hub, home: Path, *commands: list[object], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run these commands in order in a process whose hub is the stand-in."""
    setting = {**hub.environment(home), "HF_TOKEN": TOKEN, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(commands, default=str)],
        env={**os.environ, **setting, **environment}, cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_what_is_published_is_the_graft_and_opens_from_there(
    hub, localized, pair, finished, task_file, tmp_path: Path
) -> None:
    base, here = pair[0], tmp_path / "here.safetensors"
    hub.models["some/encoder"] = base
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    publish = ["export", *finished, "--push-to-hub", NAME, "--base-model", "some/encoder"]
    ended = asked(
        hub, tmp_path / "home",
        ["export", *finished, "-o", here],
        [*publish, "--private", "--revision", "v1", "--commit-message", "First"],
        ["apply", "--base", base, "--graft", here, "--out", tmp_path / "from-file"],
        ["apply", "--base", base, "--graft", f"{NAME}@v1", "--out", tmp_path / "from-hub"],
        publish,
        ["verify-graft", f"{NAME}@v1", "--task", task_file],
    )  # fmt: skip
    (base / "README.md").unlink()
    assert ended.stdout.count("ended 0") == 6, ended.stdout + ended.stderr
    assert re.search(r"Accuracy: card 0\.\d{4}, remade 0\.\d{4}: holds\.", ended.stdout)
    assert (hub.repositories, [(c.branch, c.message) for c in hub.commits]) == (
        {NAME: "private"},
        [("v1", "First"), ("main", f"Graft of run {finished[0]}")],
    )
    published = hub.commits[0].files
    assert sorted(published) == ["README.md", GRAFT_FILE] and published[GRAFT_FILE] == here.read_bytes()
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("from-file", "from-hub"))
    assert one.keys() == other.keys() and [name for name in one if not torch.equal(one[name], other[name])] == []
    _check_card(published["README.md"].decode(), Graft.load(here), localized[1].json)


def _check_card(text: str, graft: Graft, run: dict[str, Any]) -> None:
    """Check the header with the hub's client, and the information that a new reader needs."""
    data, (low, high) = ModelCard(text).data, run["intervals"]["grafted"]["accuracy"]
    told = data.base_model, data.base_model_relation, data.license, data.library_name
    assert told == ("some/encoder", "adapter", "apache-2.0", "skillviz")
    stored = {result.metric_type: result for result in data.eval_results}["accuracy"]
    assert stored.metric_value == pytest.approx(run["metrics"]["grafted"]["accuracy"], abs=5e-5)
    assert f"({100 * low:.1f}–{100 * high:.1f})" in stored.metric_name
    base, entries = graft.header["base"]["fingerprint"], f"{graft.region.size:,} of {graft.region.d:,}"
    check(text, (f"apply --base some/encoder --graft {NAME}", base, run["run_id"], "class-", entries))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
def test_an_adapter_is_published_and_opened_by_peft(hub, pair, finished, tmp_path: Path) -> None:
    name, base = "someone/adapter", pair[0]
    ended = asked(hub, tmp_path / "home", ["export", *finished, "--format", "peft", "--push-to-hub", name])
    assert ended.stdout.count("ended 0") == 1, ended.stdout + ended.stderr
    (commit,) = hub.commits
    assert sorted(commit.files) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    card = commit.files["README.md"].decode()
    assert "Add --base-model" in ended.stderr and ModelCard(card).data.base_model is None
    # Run the commands that the card gives to a reader, with the two names replaced by local paths.
    lines, names = card.split("```python\n")[1].split("```")[0], {}
    for word, path in ((f'"{name}"', tmp_path / "uploads" / name), (f'"path/to/{base.name}"', base)):
        assert word in lines
        lines = lines.replace(word, repr(str(path)))
    exec(lines, names)
    graft, _ = graft_of_run(open_run(str(finished[0]), finished[2]))
    ids = torch.randint(5, 20, (4, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        models = applied(base, graft).model, names["model"], opened_base(base, graft).model
        expected, told, before = (model(input_ids=ids).logits for model in models)
    # This pair moved far enough that some differences are rounded; the card gives the bound.
    bound = re.search(r"by more than (\S+)\.", card)
    assert bound is None or float(bound[1]) < 1e-6
    assert (before - expected).abs().max() > 1e-2
    torch.testing.assert_close(told, expected, rtol=0, atol=1e-5)


@pytest.mark.nightly
def test_nothing_is_sent_without_the_option_or_in_a_dry_run(hub, finished, tmp_path: Path) -> None:
    ended = asked(
        hub, tmp_path / "home",
        ["export", *finished, "-o", tmp_path / "g.safetensors"],
        ["export", *finished, "--push-to-hub", NAME, "--dry-run", "--base-model", "some/encoder"],
    )  # fmt: skip
    assert ended.stdout.count("ended 0") == 2 and hub.asked == [], ended.stderr
    check(ended.stdout, (f"{NAME} would get these files. Nothing was sent.", "README.md: ", "base_model: some/encoder"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "role", "environment", "facts"),
    [
        (NAME, "write", {"HF_TOKEN": ""}, ("not logged in", "`hf auth login`", "HF_TOKEN")),
        (NAME, "write", {"HF_TOKEN": "hf_wrong"}, ("status 401", "`hf auth login`", "HF_TOKEN")),
        (NAME, "write", {"HF_HUB_OFFLINE": "1"}, ("switched off by HF_HUB_OFFLINE",)),
        (NAME, "write", {"HF_ENDPOINT": "http://127.0.0.1:9"}, ("cannot be reached at http://127.0.0.1:9",)),
        ("their-lab/tiny-graft", "write", {}, ("'their-lab'", "someone, our-lab")),
        (NAME, "read", {}, ("your token can only read", "`hf auth login`", "HF_TOKEN")),
    ],
    ids=["no-login", "wrong-token", "offline", "no-hub", "another-lab", "only-read"],
)
def test_what_cannot_be_published_is_one_sentence_before_a_model_is_opened(
    hub, finished, tmp_path: Path, name: str, role: str, environment: dict[str, str], facts: tuple[str, ...]
) -> None:
    hub.role = role
    ended = asked(hub, tmp_path / "home", ["export", *finished, "--push-to-hub", name], **environment)
    assert (ended.stdout, hub.commits, hub.repositories) == ("ended 2\n", [], {}), ended.stdout
    sentence(Said(2, ended.stdout, ended.stderr), "HubError: ", *facts)


@pytest.mark.parametrize(
    "name", ["tiny-graft", "a/b/c", "our-lab/", "our-lab/a b", "our-lab/a--b", "our-lab/" + "x" * 99]
)
def test_a_name_that_is_no_repository_is_refused(finished, name: str) -> None:
    said = call("export", *finished, "--push-to-hub", name, "--dry-run")
    sentence(
        said, f"BadInput: '{name}' is not a repository of the Hugging Face Hub", "org/name", "at most 96 characters"
    )
    assert said.out == ""


@pytest.mark.parametrize(
    ("option", "facts"),
    [
        *(((*word,), (f"{word[0]} only applies with --push-to-hub", "org/name"))
          for word in (["--private"], ["--dry-run"], ["--revision", "v1"], ["--commit-message", "x"])),
        (("--format", "mergekit", "--push-to-hub", NAME), ("--format mergekit writes whole models",)),
    ],
    ids=lambda value: value[0],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(finished, option: tuple[str, ...], facts: tuple[str, ...]) -> None:
    sentence(call("export", *finished, *option), "BadInput: ", *facts)
