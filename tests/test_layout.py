"""Tests of files that readers refuse in one sentence: a record with another layout number or none, JSON nested 100,000
deep or with numbers of 5,000 digits, and pipes; doctor names the layout."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from skillviz import json_text
from skillviz.commands.localize import read_options
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.core.region_expression import parsed
from skillviz.core.size import parse_size
from skillviz.errors import BadData, BadInput, OtherVersion, SkillvizError
from skillviz.layout import GRAFT, LAYOUT, refuse_another
from skillviz.models.checkpoint import ModelInfo, read_header
from skillviz.models.finetune.journal import TrainingState
from skillviz.models.frozen_tensors import FROZEN, wrong_base
from skillviz.models.local_models import _read as model_config
from skillviz.models.state_file import content_sha256
from skillviz.regular_file import regular
from skillviz.runs.checkpoint import Checkpoint
from skillviz.runs.doctor import mended
from skillviz.runs.held_out import training_record
from skillviz.runs.part_scores import PartsRecord
from skillviz.runs.process import launch_of
from skillviz.runs.record import read_as
from skillviz.runs.run import Run, read_record
from skillviz.runs.score import ScoreRecord, read_score
from skillviz.runs.search import Searched
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.finetuned_model import finetuned_record
from skillviz.studies.store import StudyRecord, open_study
from skillviz.tasks.reading import from_file
from tests.cli.calls import call
from tests.fake_run import SMALL, fake_run
from tests.patience import within
from tests.refused import refused, refuses
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
    if (error := wrong_base(info := ModelInfo(folder, {FROZEN: content}, {}), info)) is not None:
        raise error


def _as_of_grafts(content: Content) -> Content:
    """Return the content with the layout number of grafts in place of the general one."""
    layout = content.get("layout")
    return {**content, "layout": layout + GRAFT - LAYOUT} if type(layout) is int and layout else content


READERS: dict[str, Callable[[Path, Content], object]] = {
    "a run": _json("run.json", read_record),
    "scores": _json("012345.json", lambda folder: read_as(ScoreRecord, folder / "012345.json")),
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
    words = r".* was made by another version of skillviz.*make it again, or open it with that version\.$"
    with pytest.raises(OtherVersion, match=words) as caught:
        READERS[what](tmp_path, {"format": "skillviz.graft", **content})
    assert ". " not in caught.value.args[0]


@pytest.mark.parametrize("what", READERS)
def test_this_layout_is_read(tmp_path: Path, what: str) -> None:
    """The record is too short and may have other errors, but its layout is accepted."""
    try:
        READERS[what](tmp_path, {"format": "skillviz.graft", "layout": LAYOUT})
    except OtherVersion:
        pytest.fail("this layout was refused")
    except SkillvizError:
        pass


test_the_sentence_names_both_layouts = refused(
    OtherVersion,
    (rf"a graft was made .*\(layout 7; this version reads layout {LAYOUT}\)", refuse_another, {"layout": 7}, "a graft"),
    ("no layout number", refuse_another, {}, "a graft"),
)


@pytest.mark.parametrize("place", [(), ("spec",), ("task",), ("metrics", "test")])
def test_a_field_of_another_version_is_refused_at_every_level(tmp_path: Path, place: tuple[str, ...]) -> None:
    store = Store(tmp_path)
    path = fake_run(store, **SMALL).path / "run.json"
    content = json.loads(path.read_text())
    reduce(lambda part, name: part[name], place, content)["surprise"] = 1
    path.write_text(json.dumps(content))
    (entry,) = store.unreadable()
    assert isinstance(entry.error, OtherVersion) and f"'{'.'.join((*place, 'surprise'))}'" in entry.reason
    assert store.list() == []


def test_lists_go_on_and_doctor_names_what_another_version_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, models = Store(tmp_path / "runs"), tmp_path / "models"
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(models))
    good, other = fake_run(store, **SMALL), fake_run(store, seed=1, **SMALL)
    unfinished = store.create(RunSpec(base="a", finetuned="b", task="sst2"))
    unfinished.cancel()
    records = {
        "run": other.path / "run.json", "study": fake_study(store.root) / "study.json",
        "score": store.root / "scores" / "0123456789ab.json",
        "parts": store.root / "parts" / good.id / "cells" / "parts.json",
        "model": models / "sst2-sgd-0" / "finetuned_model.json",
    }  # fmt: skip

    def written(layouts: dict[str, int]) -> None:
        for name, path in records.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            content = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**content, "layout": layouts.get(name, 7)}))
        Checkpoint({}, {}, 0.0, Searched({3: np.arange(3)})).write(unfinished.work / "checkpoint.safetensors")

    written(dict.fromkeys(("score", "parts", "model"), LAYOUT))
    assert ([run.id for run in store.list()], {finding.path: finding.cure for finding in mended(store)}) == (
        [good.id],
        {other.path: "left"},
    )
    monkeypatch.setattr("skillviz.runs.checkpoint.LAYOUT", 7)
    written({})
    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    said = call("runs", "doctor", "--runs-dir", store.root)
    assert said.out.count("made by another version of skillviz (layout 7;") == len(records) + 1
    assert finetuned_record(records["model"].parent) is None
    assert {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()} == before


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


STRANGE = {"deep": "[" * 100_000, "long": "9" * 5_000}


@pytest.fixture(params=STRANGE)
def strange(request: pytest.FixtureRequest) -> str:
    return STRANGE[request.param]


def test_it_is_one_kind_of_error(strange: str) -> None:
    refuses(json.JSONDecodeError, None, json_text.loads, strange)
    assert json_text.loads('{"a": [1, 2]}') == {"a": [1, 2]}


def with_header(path: Path, key: str, text: str) -> Path:
    save_file({"x": torch.ones(1)}, path, {key: text, "sha256": ""})
    return path


REFUSED: dict[str, Callable[[Path, str], object]] = {
    "a run": lambda folder, text: ((folder / "run.json").write_text(text), read_record(folder)),
    "a graft": lambda folder, text: Graft.load(with_header(folder / "g.safetensors", "skillviz", text)),
    "a region": lambda folder, text: Region.header(with_header(folder / "r.safetensors", "skillviz", text)),
    "a checkpoint": lambda folder, text: Checkpoint.read(with_header(folder / "c.safetensors", "checkpoint", text)),
    "an expression": lambda folder, text: parsed(text),
    "a file of a model": lambda folder, text: (
        (folder / "t.json").write_text(text),
        json_text.read_object(folder / "t.json"),
    ),
    "weights": lambda folder, text: (
        (folder / "w").write_bytes(len(text).to_bytes(8, "little") + text.encode()),
        read_header(folder / "w"),
    ),
    "a size": lambda folder, text: parse_size(text, 1000),
    "a share": lambda folder, text: parse_size(f"{text}%", 1000),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_a_short_sentence(tmp_path: Path, what: str, strange: str) -> None:
    with pytest.raises(SkillvizError) as caught:
        REFUSED[what](tmp_path, strange)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


def test_what_is_passed_over_stays_passed_over(tmp_path: Path, strange: str) -> None:
    for name in ("study.json", "score.json", "launch.json", "config.json", "lines.jsonl"):
        (tmp_path / name).write_text(strange)
    assert open_study(tmp_path) is None and read_score(tmp_path / "score.json") is None
    assert launch_of(tmp_path) == {"cwd": Path.cwd()} and model_config(tmp_path / "config.json") == {}
    refuses(BadData, "is not JSON", from_file, tmp_path / "lines.jsonl")
    assert read_options([f"examples={strange}"]) == {"examples": strange}


def test_a_file_that_becomes_a_pipe_between_look_and_read_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "config.json")
    monkeypatch.setattr(json_text, "regular", Path)
    refuses(OSError, "not a regular file", json_text.read, tmp_path / "config.json")


FILES = (
    "curve.parquet", "history.parquet", "interpolation.parquet", "interpolation_bins.parquet", "layers.parquet",
    "predictions.parquet", "ranking.safetensors", "region.safetensors", "run.json",
)  # fmt: skip
TEXT_READERS: dict[str, tuple[Callable[[Path], Any], type[Exception]]] = {
    "a path": (regular, FileNotFoundError),
    "JSON": (json_text.read, FileNotFoundError),
    "a graft": (Graft.load, BadInput),
    "a region": (Region.load, BadInput),
}


@pytest.mark.parametrize("name", TEXT_READERS)
def test_a_pipe_is_no_file(name: str, tmp_path: Path) -> None:
    read, error = TEXT_READERS[name]
    os.mkfifo(tmp_path / "pipe")
    with within(5), pytest.raises(error):
        read(tmp_path / "pipe")


@pytest.mark.cases(2, 1)
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_among_a_runs_files_keeps_nobody_waiting(name: str, tmp_path: Path) -> None:
    """The list opens without the run, and reading that file gives an error."""
    run = fake_run(Store(tmp_path), interpolation=True)
    folder = run.path
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == list(FILES)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with within(20):
        assert Store(tmp_path).list() == []
        with pytest.raises(SkillvizError):
            one = Run(folder, read_record(folder)) if name == "run.json" else run
            for read in (one.predictions, one.curve, one.history, one.layers, one.interpolation,
                         one.interpolation_bins, one.region, one.ranking):  # fmt: skip
                read()
