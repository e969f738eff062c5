"""A store with one run of a real tiny pair, scored on another task with its grid; and a task it is not scored on."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz.ui.page_table import PAGES
from tests.runs.test_scoring import other_task

SECONDS = 300  # seconds: a worker loads torch and the pair, slower on a busy machine


def asked(name: str, **query: str) -> AppTest:
    """Return the page after its first script run, which may take as long as the models need."""
    test = AppTest.from_file(str(PAGES[name].path), default_timeout=SECONDS)
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


def pressed(test: AppTest, label: str) -> AppTest:
    """Return the page after a click on the button that runs the models."""
    return next(button for button in test.button if button.label == label).click().run()


@pytest.fixture(scope="session")
def scored_world(lived: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the pair, its task, near.yaml, far.yaml and `runs`. Tests must not change it."""
    return _scored_world(lived, tmp_path_factory.getbasetemp() / "scored-world")


@cache  # pytest makes an imported session fixture once per module; the cache makes it once per process
def _scored_world(lived: Path, folder: Path) -> Path:
    from skillviz.runs.produce import produce
    from skillviz.runs.store import Store
    from tests.runs.tiny_world import spec_of

    shutil.copytree(lived, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs", "other"))
    for name, seed in (("near", 70), ("far", 71)):
        told = yaml.safe_load(other_task(folder / name, name, seed=seed).read_text())
        data = {split: f"{name}/{file}" for split, file in told["data"].items()}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**told, "data": data}, sort_keys=False))
    spec = spec_of(folder, sizes=("5%", "20%"), others=(str(folder / "near.yaml"),), interpolation=True)
    produce(spec, Store(folder / "runs"))
    return folder


@pytest.fixture
def scored(scored_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the run's id; a copy of the store is the user's folder, without shipped runs."""
    root = tmp_path / "scored"
    shutil.copytree(scored_world / "runs", root)
    monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    (found,) = [path.name for path in root.iterdir() if (path / "run.json").is_file()]
    return found
