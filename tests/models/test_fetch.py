"""Tests of resolving a typed name to a folder, where only safetensors are ever used; of downloads from any address of
the hub: byte for byte, with progress; of the search for local models, which is bounded and skips broken folders; of
the table of public pairs: the task fits the head, the ids can be the hub's, and each says what to do; and of pickled
weights: refused; with `--convert`, read as tensors only, in a separate process, into the cache."""

import json
import os
import pickle
import shlex
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from pydantic import ValidationError
from typer.main import get_command

from skillviz.atomic import sha256
from skillviz.cli import app
from skillviz.core.class_names import match
from skillviz.core.comparison import Comparison
from skillviz.errors import ModelNotFound, ReadOnly, UnsafeWeights
from skillviz.models import convert, local_models, unpickle
from skillviz.models import public_pairs as public
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
from skillviz.models.local_models import find_models, roots
from skillviz.models.public_pairs import PublicPair, convert_command, public_pairs
from skillviz.models.weight_files import has_weights
from skillviz.runs.store import Store, shipped_root
from skillviz.serving.settings import MODELS_VARIABLE
from skillviz.studies.plan import study_plan
from skillviz.studies.store import FILE, list_studies
from skillviz.tasks import registry
from skillviz.tasks.project import CACHE_VARIABLE, project_root
from tests.core.by_hand import by_hand, refused
from tests.hub import COMMIT, hub_of
from tests.models.examples import differing, preflight, refuses, strip, weights
from tests.programs import program
from tests.tiers import first


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
    assert [*map(resolve, (folder, str(folder), "${MODELS_HERE}/m"))] == [folder] * 3 and has_weights(folder)


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
    assert (is_local("org/name"), resolve("org/name"), refuse_absent("org/name")) == (True, made, None)


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
def test_the_projects_own_folders_are_never_looked_for_on_the_hub(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    assert is_local(source), "it would be fetched"
    for refuse in (resolve, refuse_absent):
        refuses(ModelNotFound, r"(?s)\A(?!.*hf download)", refuse, source)


def test_what_was_a_folder_is_not_called_an_id(snapshot: Path) -> None:
    refuses(ModelNotFound, r"there is no folder 'own/tuned'; give", refuse_absent, "own/tuned", was_folder=True)


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
            assert words[5:] == [
                "--only",
                spec["finetuned"].removeprefix("examples/pairs/").removeprefix("models/examples/"),
            ]
        elif spec["finetuned"].partition("/")[0] not in {*FOLDERS} - {"models"}:
            assert words[:4] == ["python", "-m", "skillviz", "finetune"], spec["finetuned"]
            given = command.make_context("finetune", words[4:]).params
            asked = (given["base"], given["task"], str(given["out"]))
            assert asked == (spec["base"], [spec["task"]], spec["finetuned"])
            found += 1
    assert found > 60


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
    total = sum(file.stat().st_size for file in base.iterdir() if file.suffix != ".bin")
    assert len(told) > 1 and (
        max(told), [path for path in hub.asked if path.endswith(".bin")], identity, fingerprint,
    ) == (
        [total, total], [], {"id": "some/encoder", "revision": COMMIT, "fingerprint": here.base.fingerprint},
        here.finetuned.fingerprint,
    )  # fmt: skip


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


def model(folder: Path, adapter: bool = False, **config: object) -> Path:
    """Make a folder that looks like a model's; its weights are unusable."""
    folder.mkdir(parents=True)
    prefix = "adapter_" if adapter else ""
    (folder / f"{prefix}model.safetensors").write_bytes(b"12345")
    (folder / f"{prefix}config.json").write_text(json.dumps(config or {"model_type": "bert"}))
    return folder


def names(root: Path, **bounds: int) -> list[str]:
    return [model.name for model in find_models([root], **bounds).models]


def test_finds_models_and_adapters_with_what_a_reader_must_know_and_passes_over_others(tmp_path: Path) -> None:
    model(tmp_path / "lora", adapter=True, base_model_name_or_path="org/base")
    for place in ("b/tuned", ".hidden", "pickled", "bare", "broken"):
        model(tmp_path / place)
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    (tmp_path / "bare" / "config.json").unlink()
    (tmp_path / "broken" / "config.json").write_text("{")
    found = find_models([model(tmp_path / "a", model_type="gpt2").parent, tmp_path / "nowhere"]).models
    assert {one.name: (one.model_type, one.bytes, one.is_adapter, one.base, one.source) for one in found} == {
        "a": ("gpt2", 5, False, "", str(tmp_path / "a")),
        "b/tuned": ("bert", 5, False, "", str(tmp_path / "b" / "tuned")),
        "lora": ("", 5, True, "org/base", str(tmp_path / "lora")),
    }


def test_is_bounded_in_depth_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("a/b/c", *(f"m{number}" for number in range(5))):
        model(tmp_path / place)
    assert names(tmp_path, depth=2) == [f"m{n}" for n in range(5)] and "a/b/c" in names(tmp_path, depth=3)
    few, whole = (find_models([tmp_path], **most) for most in ({"most": 3}, {}))
    monkeypatch.setattr(local_models, "LOOKED_AT", 2)
    assert (len(few.models), few.is_cut, whole.is_cut, find_models([tmp_path]).is_cut) == (3, True, False, True)


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    model(tmp_path / "m")
    os.symlink(tmp_path, tmp_path / "m" / "again")
    assert len(names(tmp_path)) <= 3


def test_the_hubs_cache_shows_the_hubs_names(tmp_path: Path) -> None:
    model(tmp_path / "models--org--name" / "snapshots" / ("0123456789" * 4))
    assert names(tmp_path) == ["org/name@0123456"]


def test_a_folder_of_the_project_is_named_from_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "project_root", lambda: tmp_path)
    model(tmp_path / "models" / "mine")
    assert [model.source for model in find_models([tmp_path / "models"]).models] == ["models/mine"]


def test_the_roots_are_those_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert roots()[-1] == tmp_path / "models" and len(roots()) == 2
    monkeypatch.setenv(MODELS_VARIABLE, os.pathsep.join(["/one", "two", "", "/one"]))
    assert roots() == [Path("/one"), tmp_path / "two"]


ROWS = public_pairs()
LICENSES = {"Apache-2.0", "MIT", "not stated"}  # other SPDX ids may be added


def fits(row: PublicPair) -> bool:
    """Return whether each of the head's outputs is read as the class it names."""
    return match(row.labels, registry.TASKS[row.task].labels).comparison is Comparison.SAME


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.finetuned)
def test_a_row_fits_its_task_and_only_pickled_weights_come_with_a_command_that_converts_them(
    row: PublicPair,
) -> None:
    assert row.task in registry.TASKS and fits(row), row.labels
    assert row.base != row.finetuned and may_be_hub_id(row.base) and may_be_hub_id(row.finetuned)
    assert row.license in LICENSES and 10**6 < row.parameters < 10**9 and row.weights in ("bin", "safetensors")
    command = convert_command(row.finetuned)
    assert command == row.convert_command() and (command is None) == (row.weights == "safetensors")
    for words in filter(None, (command, row.localize_command())):
        assert {row.base, row.finetuned} <= set(shlex.split(words))


test_a_row_that_is_not_as_it_should_be_is_refused = refused(
    ValidationError,
    *((name, PublicPair.model_validate, {**ROWS[0].model_dump(), name: value}) for name, value in (
        ("base", "models/../x"), ("finetuned", "alone"), ("weights", "h5"), ("parameters", 0), ("stars", 5))),
)  # fmt: skip


TENSORS = {"a": torch.arange(6.0).reshape(2, 3).t(), "b": torch.ones(3, dtype=torch.bfloat16)}
TENSORS["tied"] = TENSORS["b"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Set `--convert`, and record the messages to the user."""
    before = convert.wanted.set((lines := list[str]()).append)
    yield lines
    convert.wanted.reset(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pickled(tmp_path / "model")


def pickled(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    for name, content in (files or {"pytorch_model.bin": TENSORS}).items():
        torch.save(content, folder / name)
    return folder


@pytest.mark.usefixtures("cache")
@pytest.mark.slow
def test_weights_come_through_to_the_bit_with_the_hashes_of_both(folder: Path, told: list[str]) -> None:
    made = resolve(folder)
    assert made.name == "model" and not differing(weights(made), TENSORS)
    assert (made / "config.json").read_text() == '{"model_type": "bert"}'
    hashes = {"from": {"pytorch_model.bin": sha256(folder / "pytorch_model.bin")},
              "to": {"model.safetensors": sha256(made / "model.safetensors")}}  # fmt: skip
    assert json.loads((made / convert.RECORD).read_text()) == hashes
    assert {f"sha256 {digest}  {name}" for of in hashes.values() for name, digest in of.items()} <= set(told)


@pytest.mark.usefixtures("cache")
def test_without_the_option_nothing_is_converted(folder: Path, cache: Path) -> None:
    refuses(UnsafeWeights, "--convert", resolve, folder)
    assert not cache.exists()


@pytest.mark.usefixtures("cache")
@pytest.mark.nightly
def test_what_was_converted_is_found_later_and_what_changed_is_not(folder: Path, told: list[str]) -> None:
    made, lines = resolve(folder), list(told)
    for wanted in (told.append, None):  # a page or a resumed job reads the safetensors
        convert.wanted.set(wanted)
        assert (resolve(folder), told) == (made, lines), "once is enough"
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")
    refuses(UnsafeWeights, None, resolve, folder)


@pytest.mark.usefixtures("cache")
@pytest.mark.nightly
def test_shards_an_adapter_and_a_trainers_state(tmp_path: Path, told: list[str]) -> None:
    names = {one: f"pytorch_model-0000{n}-of-00002.bin" for n, one in enumerate("ab", start=1)}
    shards = pickled(tmp_path / "shards", **{name: {one: TENSORS[one]} for one, name in names.items()})
    (shards / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    made = resolve(shards)
    files = json.loads((made / "model.safetensors.index.json").read_text())["weight_map"]
    joined = {name: weights(made, file)[name] for name, file in files.items()}
    assert not differing(joined, {name: TENSORS[name] for name in "ab"})
    adapter = resolve(pickled(tmp_path / "adapter", **{"adapter_model.bin": {"a": TENSORS["a"]}}))
    assert not differing(weights(adapter, "adapter_model.safetensors"), {"a": TENSORS["a"]})
    for key in ("state_dict", "model_state_dict", "model", "module"):
        folder = pickled(tmp_path / key, **{"pytorch_model.bin": {key: TENSORS, "epoch": 3}})
        assert not differing(weights(resolve(folder)), TENSORS), key


@pytest.mark.usefixtures("cache")
@pytest.mark.slow
def test_a_snapshot_of_the_hub_keeps_its_name(tmp_path: Path, told: list[str]) -> None:
    assert hub_name(resolve(pickled(tmp_path / "models--org--name" / "snapshots" / "abc"))) == ("org/name", "abc")


@dataclass
class Evil:
    """An object that creates a file if it is unpickled without care."""

    path: Path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.usefixtures("cache")
@pytest.mark.cases(0, 1)
@pytest.mark.slow
@pytest.mark.parametrize("content", first(["code", "number", "list", "bytes", "shard"], "code".__eq__))
def test_what_is_more_than_tensors_is_refused_in_a_sentence(
    content: str, tmp_path: Path, told: list[str], cache: Path
) -> None:
    saved = {"number": {"a": torch.zeros(1), "steps": 3}, "list": [torch.zeros(1)]}.get(content, {"a": torch.zeros(1)})
    name = "pytorch_model-00001-of-00002.bin" if content == "shard" else "pytorch_model.bin"
    folder, ran = pickled(tmp_path / "model", **{name: saved}), tmp_path / "ran"
    if content == "shard":
        (folder / "pytorch_model.bin.index.json").write_text(
            json.dumps({"weight_map": {"a": name, "b": "../../elsewhere.bin"}})
        )
    elif content in ("code", "bytes"):
        (folder / name).write_bytes(pickle.dumps({"a": Evil(ran)}) if content == "code" else b"no pickle at all")
    refuses(UnsafeWeights, r"\A(?!.*weights_only).*\Z", resolve, folder)  # one line
    assert not ran.exists() and not list(cache.rglob("*"))


REASONS = (
    "is a TorchScript archive", "is a tar file, as PyTorch wrote long ago", "without values",
    "torch.complex128, which safetensors does not store", "holds quantized tensors",
)  # fmt: skip


@pytest.mark.usefixtures("cache")
def test_reasons_of_torch_are_said_in_a_few_words(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.bin" for name in ("script", "tar", "meta", "complex", "quantized")}
    torch.jit.ScriptModule().save(str(paths["script"]))
    with tarfile.open(paths["tar"], "w") as file:
        for name in ("storages", "tensors", "pickle"):
            file.addfile(tarfile.TarInfo(name))
    torch.save({"a": torch.zeros(2, device="meta")}, paths["meta"])
    torch.save({"a": torch.zeros(2, dtype=torch.complex128)}, paths["complex"])
    with warnings.catch_warnings(action="ignore"):
        torch.save({"a": torch.quantize_per_tensor(torch.zeros(4), 0.1, 0, torch.qint8)}, paths["quantized"])
    with warnings.catch_warnings(action="ignore"):
        for path, words in zip(paths.values(), REASONS, strict=True):
            refuses(unpickle.NotTensors, words, unpickle.write, tmp_path, [path])
    assert len(unpickle._reason(tmp_path, RuntimeError("x" * 500))) < 150


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "names no parts"),
        (["a" * 5000 + ".bin"], "names the part 'a{60}…', which is not in the folder"),
        (["../model/pytorch_model-1.bin"], "names the part '../model/pytorch_model-1.bin', which is not"),
        (["absent.bin"], "names the part 'absent.bin', which is not"),
        ([1, "a.bin"], "is not an index"),
    ],
)
def test_an_index_of_no_parts_or_strange_ones_is_refused(names: list[object], words: str, tmp_path: Path) -> None:
    folder = pickled(tmp_path / "model", **{"pytorch_model-1.bin": TENSORS})
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"weight_map": {str(number): name for number, name in enumerate(names)}})
    )
    refuses(UnsafeWeights, f"pytorch_model.bin.index.json' {words}", resolve, folder)


@pytest.mark.usefixtures("cache")
def test_a_read_only_skillviz_leaves_nothing_in_the_cache(
    folder: Path, told: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLVIZ_READONLY", "1")
    refuses(ReadOnly, None, resolve, folder)
    assert not cache.exists() and not told


@pytest.mark.usefixtures("cache")
@pytest.mark.slow
def test_the_child_has_its_limits(folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MEMORY", 2**20)
    refuses(UnsafeWeights, "limits on memory, time or file size", resolve, folder)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("OSError: the disk is gone.", "OSError: the disk is gone[.] Take a revision"),
        ("SafetensorError: I/O error: File too large (os error 27)", "limits on memory, time or file size"),
        ("RuntimeError: DefaultCPUAllocator: can not allocate memory", "limits on memory, time or file size"),
    ],
)
def test_a_child_that_fails_by_itself_says_why(
    words: str, why: str, folder: Path, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", f"echo '{words}' >&2\nexit 3")))
    refuses(UnsafeWeights, f"cannot be converted: .*{why}", resolve, folder)


TURNED = ROWS[0].labels[::-1]
test_by_hand = by_hand(
    ("a local folder is called by its own name", ("my-model", None), hub_name, Path("deep/my-model")),
    ("the noted command is the one that the benchmarks tell", True,
     lambda: f"\n{command_that_makes('models/minilm-l6-sst2-linear04')}\n"
     in (project_root() / "benchmarks" / "README.md").read_text()),
    ("no command is noted", None, command_that_makes, "models/another"),
    # The first two are matched by name and as abbreviations; a head of other labels would be noticed.
    *((f"a head of the labels {labels}", is_read, lambda labels=labels: fits(ROWS[0].model_copy(
        update={"labels": labels}))) for labels, is_read in (
        (TURNED, True), (("pos", "neg"), True), (TURNED[:1], False), (("LABEL_0", "LABEL_1"), False),
        (("joy", "anger"), False))),
    ("no model is listed twice", len(ROWS), lambda: len({row.finetuned for row in ROWS})),
    ("pickled weights and others are listed", ({"bin", "safetensors"}, True),
     lambda: ({row.weights for row in ROWS}, len(ROWS) >= 6)),
    *((f"{name} has no command", None, convert_command, name) for name in ("org/other", ROWS[0].base)),
    *((f"the source and the date of the facts are given before the first row: {words}", True,
       lambda words=words: words in public.TABLE.read_text(encoding="utf-8").split("\n- ")[0])
      for words in ("No model was downloaded", "Taken on 20")),
)  # fmt: skip
