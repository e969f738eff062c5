"""Tests of resolving a typed name to a folder; only safetensors are ever used."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
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
from skillviz.models.weight_files import has_weights
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.plan import study_plan
from skillviz.studies.store import FILE, list_studies
from skillviz.tasks.project import CACHE_VARIABLE, project_root


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_bytes(b"")
    return path


def snapshot(root: Path, *names: str) -> Path:
    return folder_with(root / "models--org--name" / "snapshots" / "abc123", *names)


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", "config.json", "model.safetensors")
    assert resolve(folder) == folder == resolve(str(folder))


def test_the_file_of_commands_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / COMMANDS
    file.parent.mkdir()
    file.write_text(json.dumps({"models/mine": "make mine"}))
    monkeypatch.setattr("skillviz.models.fetch.project_root", lambda: tmp_path)
    assert may_be_hub_id("org/name") and command_that_makes("models/mine") == "make mine"
    file.unlink()
    assert may_be_hub_id("org/name") and command_that_makes("models/mine") == "make mine"


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"])
def test_what_counts_as_weights(tmp_path: Path, name: str) -> None:
    assert has_weights(folder_with(tmp_path / "m", name))


def test_a_variable_in_a_folder_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(tmp_path / "m", "model.safetensors")
    monkeypatch.setenv("MODELS_HERE", str(tmp_path))
    assert resolve("${MODELS_HERE}/m") == folder


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "tf_model.h5", "pytorch_model-00001-of-00002.bin"])
def test_pickled_weights_are_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = folder_with(tmp_path / "m", "config.json", name)
    with pytest.raises(UnsafeWeights, match=name):
        resolve(folder)


def test_the_state_of_a_training_is_not_called_weights(tmp_path: Path) -> None:
    state = ("optimizer.pt", "rng_state_0.pth", "scheduler.pt", "training_args.bin")
    with pytest.raises(ModelNotFound, match=r"has no model\.safetensors"):
        resolve(folder_with(tmp_path / "interrupted", "config.json", *state))
    with pytest.raises(UnsafeWeights, match="only as pytorch_model.bin"):
        resolve(folder_with(tmp_path / "pickled", "config.json", "pytorch_model.bin", *state))


def test_pickled_weights_beside_safetensors_do_no_harm(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", "model.safetensors", "pytorch_model.bin")
    assert resolve(folder) == folder


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no model.safetensors"):
        resolve(folder_with(tmp_path / "m", "config.json", "tokenizer.json"))


@pytest.mark.parametrize("source", ["./nowhere", "/not/here/at-all", "~/nope/nope", "a/b/c", "", "x y/z"])
def test_a_missing_folder_is_not_looked_for_on_the_hub(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    with pytest.raises(ModelNotFound, match="there is no folder"):
        resolve(source)


def test_offline_says_so() -> None:
    with pytest.raises(ModelNotFound, match=r"never-fetched.*\(offline\)"):
        resolve("org/never-fetched")


@pytest.mark.parametrize(("source", "revision"), [("org/name", None), ("org/name@v1.0", "v1.0"), ("gpt2", None)])
def test_an_id_is_fetched_at_its_revision_without_code(
    source: str, revision: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def fetch(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(snapshot(tmp_path, "model.safetensors"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    found = resolve(source)
    assert (asked["name"], asked["revision"]) == (source.split("@")[0], revision)
    assert not any(pattern.endswith((".py", ".bin", ".pt", "*")) for pattern in asked["allow_patterns"])
    assert asked["ignore_patterns"] == ["*/*"]
    assert hub_name(found) == ("org/name", "abc123")


def test_a_hub_model_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = snapshot(tmp_path, "config.json")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(folder))
    with pytest.raises(ModelNotFound, match="org/name.*--convert"):
        resolve("org/name")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RepositoryNotFoundError", "no such model"),
        ("GatedRepoError", "hf auth login"),
        ("RevisionNotFoundError", "not that revision"),
        ("SomethingElse", "SomethingElse: broken"),
    ],
)
def test_each_failure_of_the_hub_is_one_sentence(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> str:
        raise type(name, (Exception,), {})("broken\nwith details")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ModelNotFound, match=words) as caught:
        resolve("org/name")
    assert "\n" not in str(caught.value)


def test_the_hub_still_has_the_error_that_offline_means() -> None:
    assert LocalEntryNotFoundError.__name__ == "LocalEntryNotFoundError"


def test_a_local_folder_is_called_by_its_own_name(tmp_path: Path) -> None:
    assert hub_name(tmp_path / "deep" / "my-model") == ("my-model", None)


def test_what_is_at_hand_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A malformed name counts as local too: it is refused without a request to the hub."""
    cached = snapshot(tmp_path, "model.safetensors")

    def local_only(name: str, *, revision: str | None, local_files_only: bool, **_: object) -> str:
        assert local_files_only
        if name != "org/name":
            raise LocalEntryNotFoundError("not here")
        return str(cached)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", local_only)
    assert is_local(str(tmp_path)) and is_local("org/name@main") and is_local("a/b/c") and is_local("")
    assert not is_local("org/other")
    (cached / "model.safetensors").unlink()
    assert not is_local("org/name"), "its configuration alone is not the model"


def test_a_model_of_the_hub_that_was_converted_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page then opens it, instead of an offer to download files that it never reads."""
    cached = snapshot(tmp_path, "config.json", "pytorch_model.bin")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(cached))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    assert not is_local("org/name")
    made = convert._place(convert._sources(cached))
    folder_with(made, "model.safetensors", convert.RECORD)
    assert is_local("org/name") and resolve("org/name") == made
    refuse_absent("org/name")


def test_what_is_absent_is_told_without_asking_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refuse_absent(str(folder_with(tmp_path / "m", "model.safetensors")))
    with pytest.raises(ModelNotFound, match=r"`hf download org/none --revision v2` fetches it"):
        refuse_absent("org/none@v2")
    with pytest.raises(ModelNotFound, match="there is no folder"):
        refuse_absent(str(tmp_path / "not here"))
    (tmp_path / "bare").mkdir()
    with pytest.raises(ModelNotFound, match=r"no model\.safetensors"):
        refuse_absent(str(tmp_path / "bare"))


def test_the_projects_own_folders_are_never_looked_for_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    for source in (*(f"{name}/gone" for name in FOLDERS), "models/pairs/gone", "${NOT_SET_HERE}/gone"):
        assert is_local(source), "it would be fetched"
        for refuse in (resolve, refuse_absent):
            with pytest.raises(ModelNotFound) as caught:
                refuse(source)
            assert "hf download" not in str(caught.value)
    with pytest.raises(ModelNotFound, match=r"there is no folder 'own/tuned'; give"):
        monkeypatch.setattr("skillviz.models.fetch.is_local", lambda source: False)
        refuse_absent("own/tuned", was_folder=True)


def test_what_brings_a_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    with pytest.raises(ModelNotFound, match=r"not set; set SKILLVIZ_REAL to the folder that holds models/mini,"):
        refuse_absent("${SKILLVIZ_REAL}/models/mini")
    with pytest.raises(ModelNotFound, match=r"`git checkout -- examples/models/gone` restores it"):
        refuse_absent("examples/models/gone")


@pytest.mark.nightly
def test_every_shipped_run_whose_members_do_not_ship_names_the_command_that_makes_them() -> None:
    """The noted command uses the run's base and task, is accepted by the command line, and gives its folder. A model
    of a study is made by the command of a stored study that contains the run."""
    stored = list_studies(Store(shipped_root()))
    studies = {study.record.command or "": study_plan(study.study).runs for study in stored}
    studies |= {
        f"python -m skillviz study run cached_runs/studies/{study.path.name}/{FILE}": study_plan(study.study).runs
        for study in stored
    }
    command, found = get_command(app).get_command(None, "finetune"), 0
    for spec in (run.spec.model_dump(mode="json") for run in Store(shipped_root()).list()):
        if spec["finetuned"].partition("/")[0] in {*FOLDERS} - {"models"}:
            continue
        words = shlex.split(command_that_makes(spec["finetuned"]) or "")
        if spec["finetuned"].startswith("${SKILLVIZ_FINETUNED}/"):
            asked = {told: study for told, study in studies.items() if told == shlex.join(words)}
            assert asked and spec["finetuned"] in {found.finetuned for found in next(iter(asked.values()))}, words
            continue
        if words[:5] == ["python", "-m", "skillviz", "examples", "build"]:
            assert words[5:] == ["--only", spec["finetuned"].removeprefix("models/examples/")]
            continue
        assert words[:4] == ["python", "-m", "skillviz", "finetune"], spec["finetuned"]
        given = command.make_context("finetune", words[4:]).params
        assert (given["base"], given["task"], str(given["out"])) == (spec["base"], [spec["task"]], spec["finetuned"])
        found += 1
    assert found > 60


def test_the_noted_command_is_the_one_that_the_benchmarks_tell() -> None:
    told = (project_root() / "benchmarks" / "README.md").read_text()
    assert f"\n{command_that_makes('models/minilm-l6-sst2-linear04')}\n" in told
    assert command_that_makes("models/another") is None
