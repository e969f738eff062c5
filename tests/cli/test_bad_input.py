"""Tests of every bad input of the acceptance list: one clear message, exit code 2, and no partial run."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import yaml
from safetensors import SafetensorError

from skillviz import atomic
from skillviz.commands.process import sentence_for
from skillviz.errors import BadSize, DiskFull
from skillviz.runs.store import Store
from tests.cli.calls import Said, call, refused, sentence, started
from tests.cli.conftest import members_of
from tests.patience import within
from tests.tiers import first
from tests.tiny import tiny_model, tiny_pair, tiny_task, tiny_tokenizer


def localize(base: object, finetuned: object, task: object, *more: object) -> Said:
    size = () if "--size" in more else ("--size", "5")
    method = () if "--method" in more else ("--method", "movement")
    return call("localize", *members_of(base, finetuned, task), *size, *method, "--device", "cpu", *more)


def of_kind(said: Said, kind: str, *words: str) -> None:
    sentence(said, *words)
    assert said.err.startswith(f"{kind}: "), said.err


@pytest.fixture
def edited(task_file: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the task with some fields of its file changed."""

    def edit(**fields: object) -> Path:
        path = shutil.copytree(task_file.parent, tmp_path / "edited") / "task.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **fields}))
        return path

    return edit


@pytest.fixture(autouse=True)
def no_run_is_left(user_runs: Path) -> Iterator[None]:
    """Check after each test that the store lists nothing and has no unreadable run."""
    yield
    assert (Store(user_runs).list(), Store(user_runs).unreadable()) == ([], [])


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        (("--finetuned", "/nowhere/at-all"), "ModelNotFound", ("/nowhere/at-all",)),
        (("--task", "sst"), "UnknownTask", ("'sst'", "sst2")),
        (("--task", "no/such/file.yaml"), "UnknownTask", ("file.yaml",)),
        *((("--size", size), "BadSize", (size,)) for size in ("0", "0%", "4449", "100.1%", "1.5", "-3", "many", "nan")),
        (("--size", "5", "9999999"), "BadSize", ("9999999",)),
        (("--method", "magic"), "UnknownLocalizer", ("magic", "stagewise")),
        (("--method", "linearized", "--option", "jacobian_gib=0"), "BadInput", ("between 0.01 and 1024",)),
        (("--method", "learned-ranked", "--option", "bias=1000"), "BadInput", ("between 0 and 100",)),
        (("--method", "learned", "--option", "base_indices=[3]"), "BadInput", ("name a region file",)),
        (("--method", "learned", "--option", "base=region"), "BadInput", ("a region file",)),
        (("--method", "learned", "--option", "selection=bogus"), "BadInput", ("validation, train+validation, none",)),
        (("--device", "cuda:99"), "NoDevice", ("CUDA",)),
    ],
)  # fmt: skip
def test_a_wrong_word_is_refused_before_there_is_a_run(pair, task_file, user_runs, more, kind, words):
    of_kind(localize(*pair, task_file, *more), kind, *words)
    assert not list(user_runs.glob("*"))


def wide(whole: Path, to: Path) -> Path:
    tiny_model("bert", "head", hidden_size=32).save_pretrained(to)
    tiny_tokenizer("bert").save_pretrained(to)
    return to


def pickled(whole: Path, to: Path) -> Path:
    shutil.copytree(whole, to)
    return (to / "model.safetensors").rename(to / "pytorch_model.bin").parent


def truncated(whole: Path, to: Path) -> Path:
    weights = shutil.copytree(whole, to) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return to


@pytest.mark.parametrize(
    ("make", "more", "kind", "words"),
    [
        (wide, (), "PairMismatch", ()),
        (lambda whole, to: tiny_pair(to, "gpt2")[1], (), "PairMismatch", ("gpt2",)),
        (lambda whole, to: tiny_pair(to, "bert", "head")[0], ("--readout", "head"), "RandomHead", ()),
        (lambda whole, to: tiny_pair(to, "bert", "head")[0], ("--readout", "prompt"), "RandomHead", ()),
        (truncated, (), "CorruptFile", ("model.safetensors",)),
        (pickled, (), "UnsafeWeights", ("pytorch_model.bin",)),
    ],
    ids=["wide", "gpt2", "random-head", "random-prompt", "truncated", "pickled"],
)
def test_a_model_that_does_not_fit_is_refused(pair, task_file, tmp_path, user_runs, make, more, kind, words):
    of_kind(localize(pair[0], make(pair[1], tmp_path / "made"), task_file, *more), kind, *words)
    assert not user_runs.exists()


@pytest.mark.parametrize(
    ("mode", "content", "words"),
    [("a", json.dumps({"text": "the film", "label": 7}) + "\n", ("7",)), ("w", "", ()), ("w", "\n", ())],
    ids=["a label outside labels", "empty", "an empty line"],
)
def test_data_that_cannot_be_used_are_refused(pair, edited, mode, content, words):
    path = edited()
    with (path.parent / "train.jsonl").open(mode) as file:
        file.write(content)
    of_kind(localize(*pair, path), "BadData", "train.jsonl", *words)


def test_more_labels_than_the_head_has(pair, tmp_path):
    of_kind(localize(*pair, tiny_task(tmp_path, labels=3)), "PairMismatch", "3", "2")


def test_a_masked_label_word_of_several_tokens(tmp_path, edited):
    path = edited(label_words={"masked": ["terrible", "extraordinarily"]})
    of_kind(
        localize(*tiny_pair(tmp_path, "bert", "prompt"), path, "--readout", "prompt"), "BadLabelWord", "extraordinarily"
    )


def test_cuda_without_cuda(pair, task_file, monkeypatch, user_runs):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    of_kind(localize(*pair, task_file, "--device", "cuda"), "NoDevice", "--device cpu")
    out = user_runs.parent / "out"
    of_kind(call("finetune", "--base", pair[0], "--task", task_file, "--device", "cuda", "--out", out), "NoDevice")
    assert not out.exists() and not user_runs.exists()


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("writes", [0, 2, 5])
def test_a_full_disk(pair, task_file, user_runs, monkeypatch, writes):
    real, seen, fails = atomic.write_file, [], Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def full(path: Path, write: Callable[[Path], object]) -> None:
        seen.append(path)
        return real(path, write if len(seen) <= writes else fails)

    for module in ("atomic.write_file", "runs.folder.write_file"):
        monkeypatch.setattr(f"skillviz.{module}", full)
    for module in ("store", "folder"):
        monkeypatch.setattr(
            f"skillviz.runs.{module}.write_text", lambda path, text: full(path, lambda p: p.write_text(text))
        )
    of_kind(localize(*pair, task_file), "DiskFull", "no space left")
    assert len(seen) > writes and not list(user_runs.rglob("*.part"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root; run as root to check a really full disk")
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("this machine does not allow mounts; run where tmpfs can be mounted")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.nightly
@pytest.mark.parametrize("free", [0, 12_000, 30_000])
def test_a_really_full_disk(pair, task_file, small_disk, free):
    room = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * max(room.f_bavail * room.f_frsize - free, 0))
    tune = ("finetune", "--base", pair[0], "--task", task_file, "--steps", 1, "--out", small_disk / "m")
    for said in (localize(*pair, task_file, "--runs-dir", small_disk / "runs"), call(*tune)):
        of_kind(said, "DiskFull")
    assert not Store(small_disk / "runs").list() and not (small_disk / "m").exists()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        SafetensorError(f"Error while serializing: I/O error: {os.strerror(errno.EFBIG)} (os error {errno.EFBIG})"),
    ],
    ids=["os", "safetensors"],
)
def test_a_full_disk_at_export(finished, tmp_path, monkeypatch, error):
    monkeypatch.setattr("skillviz.core.graft.save_file", Mock(side_effect=error))
    of_kind(call("export", *finished, "-o", tmp_path / "g.safetensors"), "DiskFull")
    assert not list(tmp_path.glob("*g.safetensors*"))


@pytest.mark.nightly
@pytest.mark.parametrize("command", first(["export", "report"], "export".__eq__))
@pytest.mark.parametrize("place", ["a-folder", "a-pipe", "a-file/below", "no-folder/file", "/proc/no-place"])
def test_no_file_is_written_where_none_can_be(finished, tmp_path, command, place):
    (tmp_path / "a-file").write_text("")
    (tmp_path / "a-folder").mkdir()
    os.mkfifo(tmp_path / "a-pipe")
    refused(call(command, *finished, "--overwrite", "-o", tmp_path / place), Path(place).name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file", "a-folder", "a-pipe"]
    assert (tmp_path / "a-pipe").is_fifo()


@pytest.mark.parametrize("place", ["a-file", "a-file/below", "/proc/no-place"])
def test_a_place_that_cannot_be_written_to(pair, task_file, tmp_path, place):
    (tmp_path / "a-file").write_text("")
    of_kind(localize(*pair, task_file, "--runs-dir", tmp_path / place), "StoreError", "cannot be written")
    words = ("--base", pair[0], "--task", task_file, "--steps", "1", "--device", "cpu")
    refused(call("finetune", *words, "--out", tmp_path / place / "model"))


@pytest.mark.nightly
def test_ctrl_c_leaves_a_cancelled_run(members, user_runs):
    process = started(
        "localize", *members, "--device", "cpu", "--size", "50", "--steps", 100_000, "--runs-dir", user_runs
    )
    with within(240):  # a busy machine takes a minute to import torch
        while not any("search" in file.read_text() for file in user_runs.rglob("events.jsonl")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in out + err
    (entry,) = Store(user_runs).unfinished()
    assert f"jobs resume {entry.record.run_id}" in err and err.endswith("Interrupted.\n")
    assert entry.record.status == call("runs", "list", "--all", "--json").json["unfinished"][0]["status"] == "cancelled"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory"), r".*memory ran out"),
        (MemoryError(), r".*memory ran out"),
        (BadSize("x is not a size"), r"BadSize: x is not a size$"),
        (DiskFull("full"), r"DiskFull"),
        (OSError(errno.ENOSPC, "No space left"), r"DiskFull"),
        (ZeroDivisionError("a bug"), r"None$"),
        (OSError(errno.EACCES, "Permission denied"), r"None$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_memory_that_ran_out_is_a_sentence_and_a_bug_is_not(error, words):
    assert re.match(words, str(sentence_for(error)))


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
        (["evaluate", "--base", ".", "--graft", ".", "--task", "sst2"], "there is no graft file"),
        (["evaluate", "--base", ".", "--finetuned", ".", "--region", ".", "--task", "sst2"], "is a folder"),
        (
            ["finetune", "--base", "gpt2", "--task", "sst2", "--readout", "causal", "--head", "linear", "--out", "o"],
            "a linear head goes with the readout head",
        ),
        (["study", "run", "no.yaml"], "no.yaml"),
    ],
)
def test_other_commands_refuse_in_one_sentence(words, said_word):
    sentence(call(*words), said_word)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--readout", "x", "'x' is not one of 'prompt', 'head', 'causal'."),
        ("--readout", "telepathy", "'telepathy' is not one of"),
        ("--steps", "x", "it is 'x', and must be a whole number."),
        ("--steps", "0", "it is '0', and must be 1 or more."),
        ("--max-test", "x", ""),
        ("--device", "tpu", "'tpu' is not a device; allowed: auto, cpu, cuda"),
        ("--seed", "-1", ""),
        ("--seed", "4294967296", "it is '4294967296', and must be 4,294,967,295 or less."),
    ],
)
def test_a_value_that_no_option_takes_is_refused_in_our_words(option, value, words):
    refused(
        call("localize", "--base", "a", "--finetuned", "b", "--task", "sst2", option, value),
        f"Invalid value for '{option}': {words}".strip(),
    )


@pytest.mark.parametrize("command", ["finetune", "apply"])
def test_the_base_is_not_written_over(pair, task_file, finished, tmp_path, command):
    base, graft = shutil.copytree(pair[0], tmp_path / "base"), tmp_path / "g.safetensors"
    call("export", *finished, "-o", graft)
    own = ("--task", task_file, "--steps", 1) if command == "finetune" else ("--graft", graft)
    refused(call(command, "--base", base, *own, "--out", base, "--overwrite"), "is the base itself")
    assert (base / "model.safetensors").read_bytes() == (pair[0] / "model.safetensors").read_bytes()
