"""Tests of the layout number: a stored record with another or none is refused in one sentence, and doctor names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from skillviz.core.graft import Graft
from skillviz.errors import OtherVersion, SkillvizError
from skillviz.layout import GRAFT, LAYOUT, refuse_another
from skillviz.models.checkpoint import ModelInfo
from skillviz.models.finetune.journal import TrainingState
from skillviz.models.frozen_tensors import FROZEN, wrong_base
from skillviz.models.state_file import content_sha256
from skillviz.runs.checkpoint import Checkpoint
from skillviz.runs.doctor import mended
from skillviz.runs.held_out import training_record
from skillviz.runs.part_scores import PartsRecord
from skillviz.runs.record import read_as
from skillviz.runs.run import read_record
from skillviz.runs.score import ScoreRecord
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.finetuned_model import finetuned_record
from skillviz.studies.store import StudyRecord
from tests.cli.calls import call
from tests.fake_run import SMALL, fake_run
from tests.studies.fake_study import fake_study

Content = dict[str, Any]
OTHERS: list[Content] = [{}, *({"layout": other} for other in (0, LAYOUT + 1, True, str(LAYOUT), float(LAYOUT), None))]


def _json(name: str, read: Callable[[Path], object]) -> Callable[[Path, Content], object]:
    def reader(folder: Path, content: Content) -> object:
        (folder / name).write_text(json.dumps(content))
        return read(folder)

    return reader


def _header(key: str, read: Callable[[Path], object]) -> Callable[[Path, Content], object]:
    def reader(folder: Path, content: Content) -> object:
        path, tensors, text = folder / "x.safetensors", {"best.0": torch.ones(1)}, json.dumps(content)
        save_file(tensors, path, {key: text, "sha256": content_sha256(text, tensors)})
        return read(path)

    return reader


def _difference(folder: Path, content: Content) -> None:
    info = ModelInfo(folder, {FROZEN: content}, {})
    if (error := wrong_base(info, info)) is not None:
        raise error


def _as_of_grafts(content: Content) -> Content:
    """Return the content with the layout number of grafts in place of the general one."""
    layout = content.get("layout")
    return {**content, "layout": layout + GRAFT - LAYOUT} if type(layout) is int and layout else content


READERS: dict[str, Callable[[Path, Content], object]] = {
    "a run": _json("run.json", read_record),
    "scores": _json("score.json", lambda folder: read_as(ScoreRecord, folder / "score.json")),
    "scores of parts": _json("parts.json", lambda folder: read_as(PartsRecord, folder / "parts.json")),
    "a study": _json("study.json", lambda folder: read_as(StudyRecord, folder / "study.json")),
    "a fine-tuned model": _json("finetune.json", training_record),
    "a difference": _difference,
    "a graft": lambda folder, content: _header("skillviz", Graft.load)(folder, _as_of_grafts(content)),
    "a checkpoint": _header("checkpoint", Checkpoint.read),
    "the state of a training": _header("training", lambda path: TrainingState.read(path, "stamp")),
}


@pytest.mark.parametrize("content", OTHERS, ids=str)
@pytest.mark.parametrize("what", READERS)
def test_another_layout_is_refused_in_one_sentence(tmp_path: Path, what: str, content: Content) -> None:
    with pytest.raises(OtherVersion, match="was made by another version of skillviz") as caught:
        READERS[what](tmp_path, {"format": "skillviz.graft", **content})
    sentence = str(caught.value.args[0])
    assert sentence.endswith("make it again, or open it with that version.") and ". " not in sentence


@pytest.mark.parametrize("what", READERS)
def test_this_layout_is_read(tmp_path: Path, what: str) -> None:
    """The record is too short and may have other errors, but its layout is accepted."""
    try:
        READERS[what](tmp_path, {"format": "skillviz.graft", "layout": LAYOUT})
    except OtherVersion:
        pytest.fail("this layout was refused")
    except SkillvizError:
        pass


def test_the_sentence_names_both_layouts() -> None:
    with pytest.raises(OtherVersion, match=rf"a graft was made .*\(layout 7; this version reads layout {LAYOUT}\)"):
        refuse_another({"layout": 7}, "a graft")
    with pytest.raises(OtherVersion, match="no layout number"):
        refuse_another({}, "a graft")


def test_a_field_of_another_version_is_refused_at_every_level(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = fake_run(store, **SMALL).path / "run.json"
    for place in ((), ("spec",), ("task",), ("metrics", "test")):
        content = json.loads(path.read_text())
        part = content
        for name in place:
            part = part[name]
        part["surprise"] = 1
        path.write_text(json.dumps(content))
        (entry,) = store.unreadable()
        assert isinstance(entry.error, OtherVersion) and f"'{'.'.join((*place, 'surprise'))}'" in entry.reason
        del part["surprise"]
        path.write_text(json.dumps(content))
    assert len(store.list()) == 1


def test_lists_go_on_and_doctor_names_what_another_version_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, models = Store(tmp_path / "runs"), tmp_path / "models"
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(models))
    good, other = fake_run(store, **SMALL), fake_run(store, seed=1, **SMALL)
    unfinished = store.create(RunSpec(base="a", finetuned="b", task="sst2"))
    Checkpoint({}, {}, 0.0, _searched()).write(unfinished.work / "checkpoint.safetensors")
    unfinished.cancel()
    records = {
        "run": other.path / "run.json", "score": store.root / "scores" / "0123456789ab" / "score.json",
        "parts": store.root / "parts" / good.id / "cells" / "parts.json",
        "study": fake_study(store.root) / "study.json", "model": models / "sst2-sgd-0" / "finetuned_model.json",
    }  # fmt: skip
    for name, path in records.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**content, "layout": LAYOUT if name in ("score", "parts", "model") else 7}))
    assert [run.id for run in store.list()] == [good.id]
    named = {finding.path: finding for finding in mended(store)}
    assert set(named) == {other.path} and named[other.path].cure == "left"
    for path in records.values():
        path.write_text(json.dumps({**json.loads(path.read_text()), "layout": 7}))
    monkeypatch.setattr("skillviz.runs.checkpoint.LAYOUT", 7)
    Checkpoint({}, {}, 0.0, _searched()).write(unfinished.work / "checkpoint.safetensors")
    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    said = call("runs", "doctor", "--runs-dir", store.root)
    assert said.out.count("made by another version of skillviz (layout 7;") == len(records) + 1
    assert finetuned_record(records["model"].parent) is None
    assert {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()} == before


def _searched() -> Any:
    import numpy as np

    from skillviz.runs.search import Searched

    return Searched({3: np.arange(3)})


def test_importing_changes_no_variable_of_the_environment() -> None:
    code = (
        "import os\nbefore = dict(os.environ)\nimport skillviz, skillviz.tasks.project, skillviz.studies.spec\n"
        "assert dict(os.environ) == before, set(os.environ) ^ set(before)\n"
        "from skillviz.tasks.project import expanded, finetuned_root\n"
        "assert expanded('${SKILLVIZ_FINETUNED}/x') == str(finetuned_root() / 'x')\n"
        "assert expanded('$SKILLVIZ_FINETUNED/x') == str(finetuned_root() / 'x')\n"
        "assert dict(os.environ) == before\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "SKILLVIZ_FINETUNED"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
