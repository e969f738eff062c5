"""Tests of publishing a graft to a stand-in of the hub and opening it again; without the option, nothing is sent."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from skillviz.core.graft import Graft
from skillviz.models.applied import applied, opened_base
from skillviz.models.fetch import GRAFT_FILE
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.store import open_run
from tests.cli.calls import PROJECT, Said, call, sentence
from tests.hub import TOKEN, Hub, hub_of
from tests.tables import check

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
    assert hub.repositories == {NAME: "private"}
    assert [(c.branch, c.message) for c in hub.commits] == [("v1", "First"), ("main", f"Graft of run {finished[0]}")]
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
