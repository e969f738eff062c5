"""A project folder with a demo world in miniature: corpus, base, the main pair and its runs; real, but unskilled.

And a stand-in for it that knows its task well, without weights: runs of seeded numbers under the demo world's names.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.tasks.demo_world import MAIN
from tests.fake_run import fake_run

SIZES = ("30%", "3%", "10%")
TASK = "film-sentiment"  # the task of the main pair here, for it is the smallest
SKILLED: dict[str, Any] = {
    "base": "demo_world/base", "finetuned": f"demo_world/pairs/{MAIN}", "task": TASK,
    "others": ("restaurant-sentiment",), "interpolation": True, "sizes": ("1%", "0.1%", "10%"),
    "layers": 2, "width": 16, "steps": 6,
    "n": {"validation": 60, "test": 600},
}  # fmt: skip


@pytest.fixture(scope="session")
def demo_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, with `demo_world` and `cached_runs`. Not to be changed."""
    return _demo_project(tmp_path_factory.getbasetemp() / "demo-project")


@cache  # pytest makes an imported session fixture anew in each module; this makes it once a process
def _demo_project(root: Path) -> Path:
    from demo_world.program import cached
    from demo_world.program.build import build
    from tests.demo_world.test_build import MINIATURE

    root.mkdir()
    every = cached.specs
    pairs = (replace(MINIATURE.pairs[0], name=MAIN),)
    size = replace(MINIATURE, pairs=pairs, rows={"train": 40, "validation": 12, "test": 24})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(cached, "MAIN_SIZES", SIZES)
        patch.setattr(cached, "SMALLER", SIZES[1:])
        patch.setattr(cached, "specs", lambda world, seed: every(world, seed)[:4])
        build(root / "demo_world", root / "cached_runs", size=size)
    return root


@pytest.fixture
def demo(demo_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The miniature's run, in a copy of its store as the user's folder; the world is the project's."""
    root = tmp_path / "runs"
    shutil.copytree(demo_project / "cached_runs", root)
    elsewhere(demo_project, root, monkeypatch)
    yield searched(root)


def searched(root: Path) -> Run:
    """The run of the default localizer, which the tour is about."""
    runs = [run for run in Store(root).list() if run.spec.localizer == DEFAULT_LOCALIZER]
    return next(run for run in runs if run.spec.interpolation)


@pytest.fixture(scope="session")
def skilled_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the stand-in. Not to be changed."""
    return _skilled_runs(tmp_path_factory.getbasetemp() / "skilled")


@cache
def _skilled_runs(root: Path) -> Path:
    for localizer in (DEFAULT_LOCALIZER, "movement", "random"):
        fake_run(Store(root), localizer=localizer, **SKILLED)
    return root


@pytest.fixture
def skilled(skilled_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of seeded numbers that stands for the main one: a skill that can be told, and no weights."""
    shutil.copytree(skilled_runs, tmp_path / "runs")
    elsewhere(tmp_path, tmp_path / "runs", monkeypatch)
    return searched(tmp_path / "runs")


def elsewhere(project: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo world is looked for in this project, and only these runs are there."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("SKILLVIZ_RUNS", str(runs))
    for module in ("skillviz.tasks.project", "skillviz.tasks.demo_world"):
        monkeypatch.setattr(f"{module}.project_root", lambda: project)
    monkeypatch.setattr("skillviz.runs.library.shipped_root", lambda: project / "nothing")
