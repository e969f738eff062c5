"""Tests of paths in errors: the path the user gave, never a hidden draft; a read error is not "cannot write"."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skillviz import atomic
from skillviz.cli import app
from skillviz.commands.process import sentence_for
from skillviz.errors import BadInput, CorruptFile, DiskFull, SkillvizError, StoreError, visible
from skillviz.models import applied, difference
from skillviz.models.frozen_tensors import strip
from skillviz.runs.store import written
from tests.models.folders import change_weights
from tests.tiny import tiny_pair

DRAFT = re.compile(r"\.part|\.old|-\d+-[0-9a-f]{8}")


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing(draft: Path, kind: str) -> None:
    """Raise an error that a library or skillviz may raise while a draft is filled."""
    match kind:
        case "sentence":
            raise CorruptFile(f"{draft / 'model.safetensors'} is not complete; the model '{draft.name}' is broken.")
        case "system":
            raise PermissionError(errno.EACCES, "Permission denied", str(draft / "a" / "b.json"))
        case "copy":
            raise OSError(errno.EIO, "Input/output error", str(draft / "a"), None, str(draft / "b"))
        case "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(draft / "model.safetensors"))
        case "library":
            raise RuntimeError(f"Error while serializing {draft}/x: No space left on device (os error 28)")


@pytest.mark.parametrize("kind", ["sentence", "system", "copy", "full", "library"])
@pytest.mark.parametrize("name", ["out", "my model.v2", ".hidden"])
def test_what_fails_in_a_draft_is_said_of_its_target(tmp_path: Path, kind: str, name: str) -> None:
    target = tmp_path / name
    with pytest.raises((SkillvizError, OSError)) as caught, atomic.whole_folder(target) as draft:
        failing(draft, kind)
    sentence = sentence_for(caught.value)
    assert sentence is not None and not DRAFT.search(sentence) and name in sentence and str(tmp_path) in sentence


@pytest.mark.parametrize("kind", ["sentence", "system", "full"])
def test_a_draft_of_a_draft_and_a_file_of_its_folder(tmp_path: Path, kind: str) -> None:
    for fill in (_twice, _file):
        with pytest.raises((SkillvizError, OSError)) as caught:
            fill(tmp_path / "out.json", kind)
        sentence = sentence_for(caught.value)
        assert sentence is not None and not DRAFT.search(sentence) and str(tmp_path / "out.json") in sentence or (
            kind == "full" and f"out.json in {tmp_path}" in str(sentence)
        )  # fmt: skip


def _twice(target: Path, kind: str) -> None:
    with atomic.whole_folder(target) as outer, atomic.whole_folder(outer, replace=True) as inner:
        failing(inner, kind)


def _file(target: Path, kind: str) -> None:
    atomic.write_file(target, lambda part: failing(part, kind))


def test_words_that_are_no_draft_stay() -> None:
    for text in ("a.part of b.old", "'.git' or .out", "x/.env.part", ".out.12345678-1-abc.part", "1.2-3-4.part"):
        assert visible(text) == text


def test_a_full_folder_of_temporary_files_is_named_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(atomic.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    with pytest.raises(DiskFull) as caught, atomic.whole_folder(tmp_path / "out"), atomic.working_folder() as folder:
        failing(folder, "full")
    assert f"in {tmp_path / 'tmp'}" in str(caught.value) and "TMPDIR" in str(caught.value)
    assert not DRAFT.search(str(caught.value))


Damage = Callable[[Path, Path, pytest.MonkeyPatch], None]


def equal_nothing(base: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_weights(tuned, lambda tensors: {name: tensor + 1 for name, tensor in tensors.items()})


def beyond_float16(base: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_weights(tuned, lambda tensors: {name: tensor * 1e9 for name, tensor in tensors.items()})


def without_space(base: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference, "strip", full_disk)


def unreadable_source(base: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copyfile(source: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(source))

    monkeypatch.setattr(shutil, "copyfile", copyfile)


def sharded(base: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tuned / "model.safetensors").rename(tuned / "part-1.safetensors")
    (tuned / "model.safetensors.index.json").write_text('{"weight_map": {"x": "part-1.safetensors"}}')


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (equal_nothing, "'finetuned'"),
        (beyond_float16, "'finetuned'"),
        (sharded, "'finetuned'"),
        (without_space, "write shared in "),
        (unreadable_source, "finetuned/config.json"),
    ],
)
def test_the_difference_command_names_the_model_or_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage, words: str
) -> None:
    base, tuned = tiny_pair(tmp_path)
    damage(base, tuned, monkeypatch)
    command = ["difference", "--base", str(base), "--finetuned", str(tuned), "--out", str(tmp_path / "shared")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and words in result.stderr, result.stderr
    assert not DRAFT.search(result.stderr) and "cannot be written" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "finetuned"]


def test_a_folder_that_is_stripped_in_place_is_named(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    equal_nothing(base, tuned, pytest.MonkeyPatch())
    with pytest.raises(BadInput, match="no tensor of 'finetuned'"):
        strip(tuned, base)


def test_a_full_disk_while_a_model_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applied, "write_files", full_disk)
    with pytest.raises(DiskFull, match=f"write model in {tmp_path};"):
        applied.write_model(tmp_path / "model", None, None)


def test_what_could_not_be_read_is_not_called_unwritable(tmp_path: Path) -> None:
    source = str(tmp_path / "elsewhere" / "run.json")
    with pytest.raises(OSError) as caught, written(tmp_path / "runs"):
        raise PermissionError(errno.EACCES, "Permission denied", source)
    assert not isinstance(caught.value, StoreError) and source in str(sentence_for(caught.value))
    assert "name a place that you can write to" not in str(sentence_for(caught.value))
    for own in (tmp_path / "runs", tmp_path / "runs" / "a" / "run.json", tmp_path):
        with pytest.raises(StoreError, match="cannot be written"), written(tmp_path / "runs"):
            raise PermissionError(errno.EACCES, "Permission denied", str(own))
