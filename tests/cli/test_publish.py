"""Tests of publishing a graft to a stand-in of the hub and opening it again; without the option, nothing is sent."""

from __future__ import annotations

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
from tests.cli.calls import PROJECT, call
from tests.hub import TOKEN, Hub, hub_of

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
    import json

    words = json.dumps([[str(word) for word in command] for command in commands])
    setting = {**hub.environment(home), "HF_TOKEN": TOKEN, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [sys.executable, "-c", SEVERAL, words], env={**os.environ, **setting, **environment}, cwd=PROJECT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def run_id(localized: tuple[Path, Any]) -> list[object]:
    runs, said = localized
    return [said.json["run_id"], "--runs-dir", runs]


@pytest.mark.slow
def test_what_is_published_is_the_graft_and_opens_from_there(hub, localized, pair, run_id, tmp_path: Path) -> None:
    base, _ = pair
    hub.models["some/encoder"] = base
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    here, first, second = tmp_path / "here.safetensors", tmp_path / "from-file", tmp_path / "from-hub"
    done = asked(
        hub, tmp_path / "home",
        ["export", *run_id, "-o", here],
        ["export", *run_id, "--push-to-hub", NAME, "--private", "--revision", "v1", "--commit-message", "First",
         "--base-model", "some/encoder"],
        ["apply", "--base", base, "--graft", here, "--out", first],
        ["apply", "--base", base, "--graft", f"{NAME}@v1", "--out", second],
        ["export", *run_id, "--push-to-hub", NAME, "--base-model", "some/encoder"],
    )  # fmt: skip
    (base / "README.md").unlink()
    assert done.stdout.count("ended 0") == 5, done.stdout + done.stderr
    assert hub.repositories == {NAME: "private"}
    assert [(c.branch, c.message) for c in hub.commits] == [("v1", "First"), ("main", f"Graft of run {run_id[0]}")]
    published = hub.commits[0].files
    assert sorted(published) == ["README.md", GRAFT_FILE]
    assert published[GRAFT_FILE] == here.read_bytes()
    one, other = (load_file(folder / "model.safetensors") for folder in (first, second))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    _check_card(published["README.md"].decode(), Graft.load(here), localized[1].json)


def _check_card(text: str, graft: Graft, run: dict[str, Any]) -> None:
    """Check the header with the hub's client, and the information that a new reader needs."""
    data = ModelCard(text).data
    assert (data.base_model, data.license, data.library_name) == ("some/encoder", "apache-2.0", "skillviz")
    assert data.base_model_relation == "adapter"
    stored = {result.metric_type: result for result in data.eval_results}
    assert stored["accuracy"].metric_value == pytest.approx(run["metrics"]["grafted"]["accuracy"], abs=5e-5)
    low, high = run["intervals"]["grafted"]["accuracy"]
    assert f"({100 * low:.1f}–{100 * high:.1f})" in stored["accuracy"].metric_name
    for part in (f"apply --base some/encoder --graft {NAME}", graft.header["base"]["fingerprint"], run["run_id"]):
        assert part in text
    assert "class-" in text and f"{graft.region.size:,} of {graft.region.d:,}" in text


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
def test_an_adapter_is_published_and_opened_by_peft(hub, pair, run_id, tmp_path: Path) -> None:
    done = asked(hub, tmp_path / "home", ["export", *run_id, "--format", "peft", "--push-to-hub", "someone/adapter"])
    assert done.stdout.count("ended 0") == 1, done.stdout + done.stderr
    (commit,) = hub.commits
    assert sorted(commit.files) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    card = commit.files["README.md"].decode()
    assert "Add --base-model" in done.stderr and ModelCard(card).data.base_model is None
    # Run the commands that the card gives to a reader, with the two names replaced by local paths.
    base, runs = pair[0], run_id[2]
    lines = card.split("```python\n")[1].split("```")[0]
    assert '"someone/adapter"' in lines and f'"path/to/{base.name}"' in lines
    lines = lines.replace('"someone/adapter"', repr(str(tmp_path / "uploads" / "someone/adapter")))
    names: dict[str, Any] = {}
    exec(lines.replace(f'"path/to/{base.name}"', repr(str(base))), names)
    graft, _ = graft_of_run(open_run(str(run_id[0]), runs))
    ids = torch.randint(5, 20, (4, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = applied(base, graft).model(input_ids=ids).logits
        told = names["model"](input_ids=ids).logits
        assert (opened_base(base, graft).model(input_ids=ids).logits - expected).abs().max() > 1e-2
    # This pair moved far enough that some differences are rounded; the card gives the bound.
    bound = re.search(r"by more than (\S+)\.", card)
    assert bound is None or float(bound[1]) < 1e-6
    torch.testing.assert_close(told, expected, rtol=0, atol=1e-5)


@pytest.mark.nightly
def test_nothing_is_sent_without_the_option_or_in_a_dry_run(hub, run_id, tmp_path: Path) -> None:
    done = asked(
        hub, tmp_path / "home",
        ["export", *run_id, "-o", tmp_path / "g.safetensors"],
        ["export", *run_id, "--push-to-hub", NAME, "--dry-run", "--base-model", "some/encoder"],
    )  # fmt: skip
    assert done.stdout.count("ended 0") == 2, done.stderr
    assert hub.asked == []
    for words in (f"{NAME} would get these files. Nothing was sent.", "README.md: ", "base_model: some/encoder"):
        assert words in done.stdout


@pytest.mark.nightly
def test_what_cannot_be_published_is_one_sentence_before_a_model_is_opened(hub, run_id, tmp_path: Path) -> None:
    def refused(home: str, name: str = NAME, **environment: str) -> str:
        done = asked(hub, tmp_path / home, ["export", *run_id, "--push-to-hub", name], **environment)
        assert done.stdout == "ended 2\n" and done.stderr.count("\n") == 1, done.stdout + done.stderr
        assert hub.commits == [] and hub.repositories == {}
        return done.stderr.strip()

    login = "Run `hf auth login`, or set HF_TOKEN to a token with write access."
    assert refused("a", HF_TOKEN="") == f"HubError: you are not logged in to the Hugging Face Hub. {login}"
    assert refused("b", HF_TOKEN="hf_wrong") == (
        f"HubError: the Hugging Face Hub does not let you log in (status 401). {login}"
    )
    assert refused("c", HF_HUB_OFFLINE="1") == (
        "HubError: the Hugging Face Hub is switched off by HF_HUB_OFFLINE. Unset it to publish."
    )
    assert refused("d", HF_ENDPOINT="http://127.0.0.1:9") == (
        "HubError: the Hugging Face Hub cannot be reached at http://127.0.0.1:9. Check the network, then run the "
        "command again."
    )
    assert refused("e", "their-lab/tiny-graft") == (
        "HubError: you cannot publish under 'their-lab'. Your user name and organizations are: someone, our-lab."
    )
    hub.role = "read"
    assert refused("f") == f"HubError: your token can only read. {login}"


@pytest.mark.parametrize(
    "name", ["tiny-graft", "a/b/c", "our-lab/", "our-lab/a b", "our-lab/a--b", "our-lab/" + "x" * 99]
)
def test_a_name_that_is_no_repository_is_refused(run_id, name: str) -> None:
    said = call("export", *run_id, "--push-to-hub", name, "--dry-run")
    assert (said.code, said.out) == (2, "")
    assert said.err.strip() == (
        f"BadInput: '{name}' is not a repository of the Hugging Face Hub. Use the form org/name, with letters, digits, "
        "single '-', '_' and '.', at most 96 characters."
    )


def test_options_that_do_not_go_together_are_refused(run_id) -> None:
    for option in (["--private"], ["--dry-run"], ["--revision", "v1"], ["--commit-message", "x"]):
        said = call("export", *run_id, *option)
        assert said.code == 2 and said.err.strip() == (
            f"BadInput: {option[0]} only applies with --push-to-hub. Add --push-to-hub org/name, or leave it out."
        )
    said = call("export", *run_id, "--format", "mergekit", "--push-to-hub", NAME)
    assert said.code == 2 and said.err.startswith("BadInput: --format mergekit writes whole models")
