"""Tests of every bad input of the acceptance list: one clear message, exit code 2, and no partial run."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import yaml
from safetensors import SafetensorError

from skillviz import atomic
from skillviz.commands.process import sentence_for
from skillviz.errors import BadSize, DiskFull
from skillviz.runs.store import Store
from tests.cli.calls import Said, call, started
from tests.tiers import first
from tests.tiny import tiny_model, tiny_pair, tiny_task, tiny_tokenizer


def localize(base: object, finetuned: object, task: object, *more: object) -> Said:
    """Run the cheapest localization."""
    asked = () if "--size" in more else ("--size", "5")
    members = ("--base", base, "--finetuned", finetuned, "--task", task)
    return call("localize", *members, *asked, "--method", "movement", "--device", "cpu", *more)


def refused(said: Said, kind: str, *words: str) -> None:
    """Assert one message of this error class with these words, and exit code 2."""
    assert said.code == 2, said.err
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith(f"{kind}: "), said.err
    assert "Traceback" not in said.err + said.out
    for word in words:
        assert word in said.err, said.err


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


@pytest.fixture
def edited(task_file: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the task with some fields of its file changed."""

    def edit(**fields: object) -> Path:
        folder = copied(task_file.parent, tmp_path / "edited")
        content = yaml.safe_load((folder / "task.yaml").read_text())
        (folder / "task.yaml").write_text(yaml.safe_dump({**content, **fields}))
        return folder / "task.yaml"

    return edit


@pytest.fixture(autouse=True)
def no_run_is_left(user_runs: Path) -> Iterator[None]:
    """Check after each test that the store lists nothing and has no unreadable run."""
    yield
    store = Store(user_runs)
    assert not store.list() and not store.unreadable()


def test_a_missing_folder(pair, task_file, user_runs):
    refused(localize(pair[0], "/nowhere/at-all", task_file), "ModelNotFound", "/nowhere/at-all")
    assert not user_runs.exists()


def test_a_mismatched_pair(pair, task_file, tmp_path, user_runs):
    wide = tiny_model("bert", "head", hidden_size=32)
    wide.save_pretrained(tmp_path / "wide")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "wide")
    refused(localize(pair[0], tmp_path / "wide", task_file), "PairMismatch")
    refused(localize(pair[0], tiny_pair(tmp_path, "gpt2")[1], task_file), "PairMismatch", "gpt2")
    assert not user_runs.exists()


def test_an_unknown_task(pair):
    refused(localize(*pair, "sst"), "UnknownTask", "'sst'", "sst2")
    refused(localize(*pair, "no/such/file.yaml"), "UnknownTask", "file.yaml")


def test_a_label_outside_labels(pair, edited):
    path = edited()
    with (path.parent / "train.jsonl").open("a") as file:
        file.write(json.dumps({"text": "the film", "label": 7}) + "\n")
    refused(localize(*pair, path), "BadData", "7", "train.jsonl")


@pytest.mark.parametrize("content", ["", "\n"])
def test_empty_data(pair, edited, content):
    path = edited()
    (path.parent / "train.jsonl").write_text(content)
    refused(localize(*pair, path), "BadData", "train.jsonl")


def test_more_labels_than_the_head_has(pair, tmp_path):
    refused(localize(*pair, tiny_task(tmp_path, labels=3)), "PairMismatch", "3", "2")


@pytest.mark.parametrize("size", ["0", "0%", "4449", "100.1%", "1.5", "-3", "many", "nan"])
def test_a_size_outside_1_to_d(pair, task_file, user_runs, size):
    refused(localize(*pair, task_file, "--size", size), "BadSize", size)
    assert not user_runs.exists()


def test_the_second_size_is_checked_too(pair, task_file):
    refused(localize(*pair, task_file, "--size", "5", "9999999"), "BadSize", "9999999")


def test_a_masked_label_word_of_several_tokens(tmp_path, edited):
    path = edited(label_words={"masked": ["terrible", "extraordinarily"]})
    said = localize(*tiny_pair(tmp_path, "bert", "prompt"), path, "--readout", "prompt")
    refused(said, "BadLabelWord", "extraordinarily")


@pytest.mark.parametrize("readout", ["head", "prompt"])
def test_a_random_head(pair, task_file, tmp_path, readout):
    bare = tiny_pair(tmp_path, "bert", "head")[0]
    refused(localize(pair[0], bare, task_file, "--readout", readout), "RandomHead")


def test_a_truncated_safetensors_file(pair, task_file, tmp_path):
    cut = copied(pair[1], tmp_path / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(localize(pair[0], cut, task_file), "CorruptFile", "model.safetensors")


def test_a_model_of_pickled_weights_only(pair, task_file, tmp_path):
    pickled = copied(pair[1], tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    refused(localize(pair[0], pickled, task_file), "UnsafeWeights", "pytorch_model.bin")


def test_cuda_without_cuda(pair, task_file, monkeypatch, user_runs):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(localize(*pair, task_file, "--device", "cuda"), "NoDevice", "--device cpu")
    out = user_runs.parent / "out"
    refused(call("finetune", "--base", pair[0], "--task", task_file, "--device", "cuda", "--out", out), "NoDevice")
    assert not out.exists() and not user_runs.exists()


def test_an_unknown_method_lists_the_known(pair, task_file):
    refused(localize(*pair, task_file, "--method", "magic"), "UnknownLocalizer", "magic", "stagewise")


@pytest.mark.parametrize("words", [["--seed", "-1"], ["--steps", "0"], ["--readout", "telepathy"], ["--max-test", "x"]])
def test_what_typer_refuses_is_bad_use_too(pair, task_file, words):
    said = localize(*pair, task_file, *words)
    assert said.code == 2 and words[0] in said.err


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("writes", [0, 2, 5])
def test_a_full_disk(pair, task_file, user_runs, monkeypatch, writes):
    real, seen = atomic.write_file, []

    def full(path: Path, write: Callable[[Path], object]) -> None:
        seen.append(path)
        if len(seen) <= writes:
            return real(path, write)

        def fails(_: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return real(path, fails)

    for module in ("atomic.write_file", "runs.folder.write_file"):
        monkeypatch.setattr(f"skillviz.{module}", full)
    monkeypatch.setattr("skillviz.runs.store.write_text", lambda path, text: full(path, lambda p: p.write_text(text)))
    monkeypatch.setattr("skillviz.runs.folder.write_text", lambda path, text: full(path, lambda p: p.write_text(text)))
    refused(localize(*pair, task_file), "DiskFull", "no space left")
    assert len(seen) > writes
    assert not list(user_runs.rglob("*.part"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root; run as root to check a really full disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine does not allow mounts; run where tmpfs can be mounted")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.nightly
@pytest.mark.parametrize("free", [0, 12_000, 30_000])
def test_a_really_full_disk(pair, task_file, small_disk, free):
    room = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * max(room.f_bavail * room.f_frsize - free, 0))
    refused(localize(*pair, task_file, "--runs-dir", small_disk / "runs"), "DiskFull")
    assert not Store(small_disk / "runs").list()
    said = call("finetune", "--base", pair[0], "--task", task_file, "--steps", 1, "--out", small_disk / "m")
    refused(said, "DiskFull")
    assert not (small_disk / "m").exists()


NO_MORE = [
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    SafetensorError(f"Error while serializing: I/O error: {os.strerror(errno.EFBIG)} (os error {errno.EFBIG})"),
]


@pytest.mark.nightly
@pytest.mark.parametrize("error", NO_MORE)
def test_a_full_disk_at_export(localized, tmp_path, monkeypatch, error):
    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("skillviz.core.graft.save_file", full)
    said = call("export", localized[1].json["run_id"], "--runs-dir", localized[0], "-o", tmp_path / "g.safetensors")
    refused(said, "DiskFull")
    assert not list(tmp_path.glob("*g.safetensors*"))


@pytest.mark.nightly
@pytest.mark.parametrize("command", first(["export", "report"], "export".__eq__))
@pytest.mark.parametrize("place", ["a-folder", "a-pipe", "a-file/below", "no-folder/file", "/proc/no-place"])
def test_no_file_is_written_where_none_can_be(localized, tmp_path, command, place):
    (tmp_path / "a-file").write_text("")
    (tmp_path / "a-folder").mkdir()
    os.mkfifo(tmp_path / "a-pipe")
    words = ("--runs-dir", localized[0], "--overwrite", "-o", tmp_path / place)
    said = call(command, localized[1].json["run_id"], *words)
    assert said.code == 2 and Path(place).name in said.err and "Traceback" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file", "a-folder", "a-pipe"]
    assert (tmp_path / "a-pipe").is_fifo()


@pytest.mark.parametrize("place", ["a-file", "a-file/below", "/proc/no-place"])
def test_a_place_that_cannot_be_written_to(pair, task_file, tmp_path, place):
    (tmp_path / "a-file").write_text("")
    refused(localize(*pair, task_file, "--runs-dir", tmp_path / place), "StoreError", "cannot be written")
    words = ("--base", pair[0], "--task", task_file, "--steps", "1", "--device", "cpu")
    assert call("finetune", *words, "--out", tmp_path / place / "model").code == 2


@pytest.mark.nightly
def test_ctrl_c_leaves_a_cancelled_run(pair, task_file, user_runs):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--device", "cpu")
    process = started("localize", *members, "--size", "50", "--steps", 100_000, "--runs-dir", user_runs)
    for _ in range(2400):  # a busy machine takes a minute to import torch
        if any("search" in file.read_text() for file in user_runs.rglob("events.jsonl")):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    else:
        raise AssertionError("the search never began")
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    (entry,) = Store(user_runs).unfinished()
    assert entry.record.status == "cancelled"
    assert f"jobs resume {entry.record.run_id}" in err and err.endswith("Interrupted.\n")
    listed = call("runs", "list", "--all", "--json")
    assert listed.json["unfinished"][0]["status"] == "cancelled"


def test_memory_that_ran_out_is_a_sentence_and_a_bug_is_not():
    assert "memory ran out" in str(sentence_for(torch.cuda.OutOfMemoryError("CUDA out of memory")))
    assert "memory ran out" in str(sentence_for(MemoryError()))
    assert sentence_for(BadSize("x is not a size")) == "BadSize: x is not a size"
    assert str(sentence_for(DiskFull("full"))).startswith("DiskFull")
    assert str(sentence_for(OSError(errno.ENOSPC, "No space left"))).startswith("DiskFull")
    assert sentence_for(ZeroDivisionError("a bug")) is None
    assert sentence_for(OSError(errno.EACCES, "Permission denied")) is None


def test_a_bug_shows_as_one(monkeypatch, pair, task_file):
    monkeypatch.setattr("skillviz.commands.localize.planned", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        localize(*pair, task_file)


@pytest.mark.parametrize(
    ("words", "said_word"),
    [
        (["export", "no-such-run"], "no-such-run"),
        (["runs", "show", "no-such-run"], "no-such-run"),
        (["runs", "verify", "no-such-run"], "no-such-run"),
        (["runs", "delete", "no-such-run", "--yes"], "no-such-run"),
        (["apply", "--base", ".", "--graft", "no.safetensors", "--out", "out"], "no.safetensors"),
        (["evaluate", "--base", ".", "--task", "sst2"], "--graft"),
        (["evaluate", "--base", ".", "--graft", ".", "--task", "sst2"], "is a folder"),
        (["evaluate", "--base", ".", "--finetuned", ".", "--region", ".", "--task", "sst2"], "is a folder"),
        (
            ["finetune", "--base", "gpt2", "--task", "sst2", "--readout", "causal", "--head", "linear", "--out", "o"],
            "a linear head goes with the readout head",
        ),
        (["study", "run", "no.yaml"], "no.yaml"),
    ],
)
def test_other_commands_refuse_in_one_sentence(words, said_word):
    said = call(*words)
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert said_word in said.err


@pytest.mark.parametrize(
    ("method", "option", "said_word"),
    [
        ("linearized", "jacobian_gib=0", "between 0.01 and 1024"),
        ("learned-ranked", "bias=1000", "between 0 and 100"),
        ("learned", "base_indices=[3]", "name a region file"),
        ("learned", "base=region", "a region file"),
        ("learned", "selection=bogus", "validation, train+validation, none"),
    ],
)
def test_an_option_out_of_range_is_refused_before_there_is_a_run(pair, task_file, user_runs, method, option, said_word):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--size", "5%")
    said = call("localize", *members, "--method", method, "--option", option)
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert said_word in said.err and not list(user_runs.glob("*"))


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--readout", "x", "'x' is not one of 'prompt', 'head', 'causal'."),
        ("--steps", "x", "it is 'x', and must be a whole number."),
        ("--steps", "0", "it is '0', and must be 1 or more."),
        ("--seed", "4294967296", "it is '4294967296', and must be 4,294,967,295 or less."),
    ],
)
def test_a_value_that_no_option_takes_is_refused_in_our_words(option, value, sentence):
    said = call("localize", "--base", "a", "--finetuned", "b", "--task", "sst2", option, value)
    assert said.code == 2 and f"Invalid value for '{option}': {sentence}" in " ".join(said.err.replace("│", "").split())


@pytest.mark.parametrize("command", ["finetune", "apply"])
def test_the_base_is_not_written_over(pair, task_file, localized, tmp_path, command):
    base = tmp_path / "base"
    shutil.copytree(pair[0], base)
    before = (base / "model.safetensors").read_bytes()
    graft = tmp_path / "g.safetensors"
    call("export", localized[1].json["run_id"], "-o", graft, "--runs-dir", localized[0])
    own = ("--task", task_file, "--steps", 1) if command == "finetune" else ("--graft", graft)
    said = call(command, "--base", base, *own, "--out", base, "--overwrite")
    assert said.code == 2 and "is the base itself" in said.err
    assert (base / "model.safetensors").read_bytes() == before


def test_a_device_is_named_with_its_number(pair, task_file, user_runs):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--size", "5%")
    for device, word in (("cuda:99", "CUDA"), ("tpu", "allowed: auto, cpu, cuda")):
        said = call("localize", *members, "--device", device)
        assert said.code == 2 and word in said.err
