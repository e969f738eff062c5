"""Reads of what a run can be made of: the demo world, models, tasks, devices, uploaded rows."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pandas as pd
import streamlit as st

from skillviz.errors import SkillvizError
from skillviz.jobs.devices import Device
from skillviz.jobs.devices import devices as devices_now
from skillviz.models import preflight as headers
from skillviz.models.local_models import LocalModels, find_models, roots
from skillviz.models.preflight import Preflight
from skillviz.runs.estimate import Facts, facts_of
from skillviz.runs.spec import RunSpec
from skillviz.tasks import demo_world, registry, uploaded
from skillviz.tasks.demo_world import World
from skillviz.tasks.project import located
from skillviz.tasks.splits import load_test
from skillviz.tasks.task import Files, Task
from skillviz.tasks.uploaded import Upload
from skillviz.tasks.user_file import data_files

DEVICE_SECONDS, SHELF_SECONDS = 10, 30


def world() -> World | None:
    """The demo world that ships, None where none was built; raises BadData."""
    path = demo_world.shipped_world() / demo_world.FILE
    return _world(str(path.parent), _times(path))


def vocabulary(source: str) -> frozenset[str]:
    """The words that a model of the demo world knows; empty for any other model."""
    path = located(source) / demo_world.TOKENIZER
    return _vocabulary(str(path), _times(path)) if source.startswith(demo_world.PREFIX) else frozenset()


def tasks_in(folder: Path) -> tuple[Task, ...]:
    """The tasks of a folder's YAML files, by file name; what is none, or has no data files, is passed over."""
    files = tuple(sorted(folder.glob("*.y*ml"))) if folder.is_dir() else ()
    return _tasks(files, _times(*files))


def shelf() -> LocalModels:
    """The models under the folders that `local_models.roots` names."""
    return _shelf(tuple(map(str, roots())))


def devices() -> list[Device]:
    """What jobs can run on here, with the memory that was free some seconds ago."""
    return _devices(os.environ.get("CUDA_VISIBLE_DEVICES"))


def preflight(base: str, finetuned: str, task: str | None = None, readout: str | None = None) -> Preflight:
    """What the headers say of a pair; raises a SkillvizError."""
    return _preflight(base, finetuned, task, readout, _times(*_model_files(base, finetuned), *_task_files(task)))


def facts(spec: RunSpec) -> Facts:
    """What a run's headers and all its data say, without its caps; raises a SkillvizError."""
    kept = spec.model_dump(include={"base", "finetuned", "task", "readout", "k_shot", "data_seed"})
    core = RunSpec(**kept, sizes=("1",))
    return _facts(core.json_text(), _times(*_model_files(spec.base, spec.finetuned), *_task_files(spec.task)), core)


def scored_rows(task: str) -> int | None:
    """Test examples of a task of files, without any cap; None for data of a hub, and where they cannot be read."""
    with suppress(SkillvizError):
        if isinstance(registry.task(task).data, Files):
            return _scored_rows(task, _times(*_task_files(task)))
    return None


def rows(file_id: str, upload: Upload) -> pd.DataFrame:
    """The rows of an uploaded file; raises BadData."""
    return _rows(file_id, upload)


@st.cache_resource(show_spinner=False, max_entries=4)
def _tasks(files: tuple[Path, ...], times: tuple[int, ...]) -> tuple[Task, ...]:
    found = []
    for file in files:
        with suppress(SkillvizError):
            found.append(registry.task(file))
    return tuple(found)


def _times(*paths: Path) -> tuple[int, ...]:
    """The times of change of files, 0 for one that is not there."""
    return tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)


def _model_files(*sources: str) -> list[Path]:
    """The files of models' folders that change when a model does."""
    names = ("config.json", "model.safetensors", "adapter_config.json", "adapter_model.safetensors")
    return [located(source) / name for source in sources if source for name in (*names, "tokenizer.json")]


def _task_files(task: str | None) -> list[Path]:
    """A task's own file and its data; none for one of the registry. Raises a SkillvizError."""
    found = registry.task(task) if task else None
    if found is None or found.path is None or not isinstance(found.data, Files):
        return []
    return [found.path, *data_files(found).values()]


@st.cache_data(show_spinner=False, max_entries=2)
def _world(folder: str, times: tuple[int, ...]) -> World | None:
    return demo_world.read_world(Path(folder))


@st.cache_data(show_spinner=False, max_entries=2)
def _vocabulary(path: str, times: tuple[int, ...]) -> frozenset[str]:
    return demo_world.words(Path(path))


@st.cache_data(show_spinner=False, max_entries=4, ttl=SHELF_SECONDS)
def _shelf(places: tuple[str, ...]) -> LocalModels:
    return find_models([Path(place) for place in places])


@st.cache_data(show_spinner=False, max_entries=2, ttl=DEVICE_SECONDS)
def _devices(visible: str | None) -> list[Device]:
    return devices_now()


@st.cache_resource(show_spinner=False, max_entries=32)
def _preflight(base: str, finetuned: str, task: str | None, readout: str | None, times: tuple[int, ...]) -> Preflight:
    return headers.preflight(base, finetuned, registry.task(task) if task else None, readout)


@st.cache_data(show_spinner=False, max_entries=32)
def _facts(key: str, times: tuple[int, ...], _spec: RunSpec) -> Facts:
    return facts_of(_spec)


@st.cache_data(show_spinner=False, max_entries=64)
def _scored_rows(task: str, times: tuple[int, ...]) -> int:
    return len(load_test(registry.task(task))[0])


@st.cache_resource(show_spinner=False, max_entries=3)
def _rows(file_id: str, _upload: Upload) -> pd.DataFrame:
    return uploaded.rows_of(_upload)
