"""Tests of resolving a typed name to a folder, where only safetensors are ever used; and of downloads from any address
of the hub: byte for byte, with progress."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from typer.main import get_command

from skillviz.cli import app
from skillviz.errors import ModelNotFound, UnsafeWeights
from skillviz.models import convert
from skillviz.models.fetch import (
    COMMANDS,
    FOLDERS,
    command_that_makes,
    hub_name,
    is_local,
    may_be_hub_id,
    refuse_absent,
    resolve,
)
from skillviz.models.frozen_tensors import strip
from skillviz.models.preflight import preflight
from skillviz.models.weight_files import has_weights
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.plan import study_plan
from skillviz.studies.store import FILE, list_studies
from skillviz.tasks.project import CACHE_VARIABLE, project_root
from tests.hub import COMMIT, hub_of
from tests.models.folders import weights
from tests.refused import refuses


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_bytes(b"")
    return path


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of org/name in the hub's cache; the client finds no other model."""
    folder = folder_with(tmp_path / "models--org--name" / "snapshots" / "abc123", "config.json")
    cached = {"org/name": str(folder)}
    monkeypatch.setattr(huggingface_hub, "snapshot_download", Mock(side_effect=lambda name, **_: cached[name]))
    return folder


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the hub's client is asked."""
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))


@pytest.mark.parametrize(
    "names",
    [
        ["config.json", "model.safetensors"],
        ["model.safetensors.index.json"],
        ["adapter_model.safetensors"],
        ["model.safetensors", "pytorch_model.bin"],
    ],
)
def test_a_folder_with_safetensors_is_taken_as_it_is(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "m", *names)
    monkeypatch.setenv("MODELS_HERE", str(tmp_path))
    assert [resolve(folder), resolve(str(folder)), resolve("${MODELS_HERE}/m")] == [folder] * 3 and has_weights(folder)


def test_the_file_of_commands_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder_with((tmp_path / COMMANDS).parent) / COMMANDS.name
    file.write_text(json.dumps({"models/mine": "make mine"}))
    monkeypatch.setattr("skillviz.models.fetch.project_root", lambda: tmp_path)
    for _ in range(2):
        assert may_be_hub_id("org/name") and command_that_makes("models/mine") == "make mine"
        file.unlink(missing_ok=True)


STATE = ["optimizer.pt", "rng_state_0.pth", "scheduler.pt", "training_args.bin"]


@pytest.mark.parametrize(
    ("names", "kind", "words"),
    [
        *(([name], UnsafeWeights, name) for name in ("pytorch_model.bin", "model.pt", "tf_model.h5",
                                                     "pytorch_model-00001-of-00002.bin")),
        (STATE, ModelNotFound, r"has no model\.safetensors"),  # the state of a training is not called weights
        (["pytorch_model.bin", *STATE], UnsafeWeights, "only as pytorch_model.bin"),
        (["tokenizer.json"], ModelNotFound, "no model.safetensors"),
    ],
)  # fmt: skip
def test_a_folder_without_safetensors_is_refused(
    names: list[str], kind: type[Exception], words: str, tmp_path: Path
) -> None:
    refuses(kind, words, resolve, folder_with(tmp_path / "m", "config.json", *names))


@pytest.mark.parametrize(("source", "revision"), [("org/name", None), ("org/name@v1.0", "v1.0"), ("gpt2", None)])
def test_an_id_is_fetched_at_its_revision_without_code(
    source: str, revision: str | None, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = Mock(return_value=str(snapshot))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    (snapshot / "model.safetensors").touch()
    assert hub_name(resolve(source)) == ("org/name", "abc123")
    (name,), asked = fetch.call_args
    assert (name, asked["revision"], asked["ignore_patterns"]) == (source.split("@")[0], revision, ["*/*"])
    assert [one for one in asked["allow_patterns"] if one.endswith((".py", ".bin", ".pt", "*"))] == []


def test_a_hub_model_without_safetensors(snapshot: Path) -> None:
    refuses(ModelNotFound, "org/name.*--convert", resolve, "org/name")


def failing(name: str) -> Exception:
    return type(name, (Exception,), {})("broken\nwith details")


@pytest.mark.parametrize(
    ("source", "hub", "words"),
    [
        # A folder that is missing is not looked for on the hub.
        *((source, pytest.fail.Exception("asked the hub"), "there is no folder")
          for source in ("./nowhere", "/not/here/at-all", "~/nope/nope", "a/b/c", "", "x y/z")),
        ("org/name", failing("RepositoryNotFoundError"), "no such model"),
        ("org/name", failing("GatedRepoError"), "hf auth login"),
        ("org/name", failing("RevisionNotFoundError"), "not that revision"),
        ("org/name", failing("SomethingElse"), "SomethingElse: broken"),
    ],
    ids=range(10),
)  # fmt: skip
def test_why_there_is_no_model_is_one_sentence(
    source: str, hub: BaseException, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", Mock(side_effect=hub))
    refuses(ModelNotFound, rf"\A.*{words}.*\Z", resolve, source)  # one line


def test_offline_says_so() -> None:
    """The hub's client still has the error that means it."""
    with pytest.raises(ModelNotFound, match=r"never-fetched.*\(offline\)") as caught:
        resolve("org/never-fetched")
    assert isinstance(caught.value.__cause__, LocalEntryNotFoundError)


def test_a_local_folder_is_called_by_its_own_name(tmp_path: Path) -> None:
    assert hub_name(tmp_path / "deep" / "my-model") == ("my-model", None)


def test_what_is_at_hand_needs_no_hub(tmp_path: Path, snapshot: Path) -> None:
    """A malformed name counts as local too: it is refused without a request to the hub. A configuration alone is not
    the model."""
    sources = (str(tmp_path), "a/b/c", "", "org/name@main", "org/name", "org/other")
    assert [is_local(source) for source in sources] == [True, True, True, False, False, False]
    (snapshot / "model.safetensors").touch()
    assert [is_local(source) for source in sources] == [True] * 5 + [False]
    assert {call.kwargs["local_files_only"] for call in huggingface_hub.snapshot_download.call_args_list} == {True}


def test_a_model_of_the_hub_that_was_converted_is_at_hand(
    tmp_path: Path, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page then opens it, instead of an offer to download files that it never reads."""
    (snapshot / "pytorch_model.bin").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    assert not is_local("org/name")
    made = folder_with(convert._place(convert._sources(snapshot)), "model.safetensors", convert.RECORD)
    assert is_local("org/name") and resolve("org/name") == made
    refuse_absent("org/name")


def test_what_is_absent_is_told_without_asking_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    refuse_absent(str(folder_with(tmp_path / "m", "model.safetensors")))
    for source, words in (
        ("org/none@v2", "`hf download org/none --revision v2` fetches it"),
        (str(tmp_path / "not here"), "there is no folder"),
        (str(folder_with(tmp_path / "bare")), r"no model\.safetensors"),
        ("${SKILLVIZ_REAL}/models/mini", "not set; set SKILLVIZ_REAL to the folder that holds models/mini,"),
        ("examples/models/gone", "`git checkout -- examples/models/gone` restores it"),
    ):
        refuses(ModelNotFound, words, refuse_absent, source)


@pytest.mark.parametrize("source", [*(f"{name}/gone" for name in FOLDERS), "models/pairs/gone", "${NOT_SET_HERE}/gone"])
def test_the_projects_own_folders_are_never_looked_for_on_the_hub(source: str, no_hub: None) -> None:
    assert is_local(source), "it would be fetched"
    for refuse in (resolve, refuse_absent):
        refuses(ModelNotFound, r"(?s)\A(?!.*hf download)", refuse, source)


def test_what_was_a_folder_is_not_called_an_id(snapshot: Path) -> None:
    refuses(ModelNotFound, r"there is no folder 'own/tuned'; give", refuse_absent, "own/tuned", was_folder=True)


@pytest.mark.nightly
def test_every_shipped_run_whose_members_do_not_ship_names_the_command_that_makes_them() -> None:
    """The noted command uses the run's base and task, is accepted by the command line, and gives its folder. A model
    of a study is made by the command of a stored study that contains the run."""
    studies = {
        told: study_plan(study.study).runs
        for study in list_studies(Store(shipped_root()))
        for told in (study.record.command, f"python -m skillviz study run cached_runs/studies/{study.path.name}/{FILE}")
    }
    command, found = get_command(app).get_command(None, "finetune"), 0
    for spec in (run.spec.model_dump(mode="json") for run in Store(shipped_root()).list()):
        words = shlex.split(command_that_makes(spec["finetuned"]) or "")
        if spec["finetuned"].startswith("${SKILLVIZ_FINETUNED}/"):
            assert spec["finetuned"] in {made.finetuned for made in studies[shlex.join(words)]}, words
        elif words[:5] == ["python", "-m", "skillviz", "examples", "build"]:
            name = spec["finetuned"].removeprefix("examples/pairs/").removeprefix("models/examples/")
            assert words[5:] == ["--only", name]
        elif spec["finetuned"].partition("/")[0] not in {*FOLDERS} - {"models"}:
            assert words[:4] == ["python", "-m", "skillviz", "finetune"], spec["finetuned"]
            given = command.make_context("finetune", words[4:]).params
            asked = given["base"], given["task"], str(given["out"])
            assert asked == (spec["base"], [spec["task"]], spec["finetuned"])
            found += 1
    assert found > 60


def test_the_noted_command_is_the_one_that_the_benchmarks_tell() -> None:
    told = (project_root() / "benchmarks" / "README.md").read_text()
    assert f"\n{command_that_makes('models/minilm-l6-sst2-linear04')}\n" in told
    assert command_that_makes("models/another") is None


SCRIPT = """
import json, sys
from skillviz.models.fetch import is_local, resolve
from skillviz.models.pair import load_pair
told = []
assert not is_local("some/encoder")
folder = resolve("some/encoder", lambda done, total: told.append((done, total)))
assert is_local("some/encoder")
pair = load_pair("gone/from/here", sys.argv[1])
print(json.dumps([str(folder), told, pair.base_info.identity(), pair.finetuned_info.fingerprint]))
"""


def run(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python with these words and these variables."""
    words, environment = [sys.executable, *words], {**os.environ, **environment}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_pair_opens_beside_the_base_that_was_downloaded(base: Path, tuned: Path, tmp_path: Path) -> None:
    strip(tuned, base, dtype="float16", hub="some/encoder")
    here = preflight(base, tuned)
    (base / "pytorch_model.bin").write_bytes(b"a pickle")
    with hub_of({"some/encoder": base}) as hub:
        done = run(["-c", SCRIPT, str(tuned)], hub.environment(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    folder, told, identity, fingerprint = json.loads(done.stdout.splitlines()[-1])
    assert (Path(folder) / "model.safetensors").read_bytes() == (base / "model.safetensors").read_bytes()
    assert not [path for path in hub.asked if path.endswith(".bin")]
    total = sum(file.stat().st_size for file in base.iterdir() if file.suffix != ".bin")
    assert max(told) == [total, total] and len(told) > 1
    assert identity == {"id": "some/encoder", "revision": COMMIT, "fingerprint": here.base.fingerprint}
    assert fingerprint == here.finetuned.fingerprint


@pytest.mark.nightly
def test_a_pickled_model_of_the_hub_is_converted_once_and_then_at_hand(base: Path, tuned: Path, tmp_path: Path) -> None:
    torch.save(weights(tuned), tuned / "pytorch_model.bin")
    (tuned / "model.safetensors").unlink()
    check = ["-m", "skillviz", "preflight", "--base", "some/encoder", "--finetuned", "some/tuned"]
    with hub_of({"some/encoder": base, "some/tuned": tuned}) as hub:
        here = {**hub.environment(tmp_path / "home"), CACHE_VARIABLE: str(tmp_path / "cache")}
        refused, converted = run(check, here), run([*check, "--convert"], here)
    assert refused.returncode == 2 and "--convert" in refused.stderr
    assert converted.returncode == 0 and "sha256" in converted.stderr, converted.stderr
    script = "from skillviz.models.fetch import is_local; print(is_local('some/tuned'), is_local('some/other'))"
    for words, said in ((["-c", script], "True False"), (check, "graftable")):
        offline = run(words, {**here, "HF_HUB_OFFLINE": "1"})
        assert offline.returncode == 0 and said in offline.stdout, offline.stderr
