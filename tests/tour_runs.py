"""A stand-in for the run that the tour shows: runs of seeded numbers, shaped like the opening pair; no weights."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show.briefs import OPENING_PAIR
from tests.fake_run import fake_run

SKILLED: dict[str, Any] = {
    "base": f"{OPENING_PAIR[0]}-gone", "finetuned": f"{OPENING_PAIR[1]}-gone", "task": "gone/mr.yaml",
    "others": ("cr",), "sizes": ("1%", "0.1%", "10%"),
    "layers": 2, "width": 16, "steps": 6, "complement": True,
    "n": {"validation": 60, "test": 600},
}  # fmt: skip
"""Names of files that do not exist: anything that needs weights or data must report it."""


@pytest.fixture(scope="session")
def skilled_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the stand-in. Tests must not change it."""
    return _skilled_runs(tmp_path_factory.getbasetemp() / "skilled")


@cache  # pytest makes an imported session fixture once per module; the cache makes it once per process
def _skilled_runs(root: Path) -> Path:
    for localizer in (DEFAULT_LOCALIZER, "movement", "random"):
        fake_run(Store(root), localizer=localizer, interpolation=localizer == DEFAULT_LOCALIZER, **SKILLED)
    return root


@pytest.fixture
def skilled(skilled_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the stand-in's searched run as a shipped one; the user's folder is empty."""
    monkeypatch.setenv("SKILLVIZ_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: skilled_runs)
    monkeypatch.setattr("skillviz.show.briefs.OPENING_PAIR", (SKILLED["base"], SKILLED["finetuned"]))
    return next(run for run in Store(skilled_runs).list() if run.spec.localizer == DEFAULT_LOCALIZER)
