"""A store with one run of a real tiny pair, scored on another task, with its grid; and a task it was not scored on."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz.ui.page_table import PAGES
from tests.runs.test_scoring import other_task

SECONDS = 300  # a worker loads torch and the pair; more on a busy machine


def asked(name: str, **query: str) -> AppTest:
    """The page as it stands after its first run, which may take the time that the models need."""
    test = AppTest.from_file(str(PAGES[name].path), default_timeout=SECONDS)
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


def pressed(test: AppTest, label: str) -> AppTest:
    """The page after a click on the button that has the models compute."""
    return next(button for button in test.button if button.label == label).click().run()


@pytest.fixture(scope="session")
def scored_world(lived: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pair, its task, near.yaml and far.yaml beside it, and `runs`. Not to be changed."""
    return _scored_world(lived, tmp_path_factory.getbasetemp() / "scored-world")


@cache  # pytest makes an imported session fixture anew in each module; this makes it once a process
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
    """The run's id; a copy of the store is the user's folder, and nothing ships."""
    root = tmp_path / "scored"
    shutil.copytree(scored_world / "runs", root)
    monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
    monkeypatch.setattr("skillviz.runs.library.shipped_root", lambda: tmp_path / "nothing")
    (found,) = [path.name for path in root.iterdir() if (path / "run.json").is_file()]
    return found
