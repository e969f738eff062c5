"""Specs on the trained tiny pair of the fixture `world`, and the checks of a run on it."""

from pathlib import Path
from typing import Any

import pytest

from skillviz.core.region import Region
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.runs.folder import RunFolder
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Library, Store, library

# Re-exported, so that a test imports all parts of a run from one place.
__all__ = [
    "Library", "Region", "Run", "RunFolder", "RunSpec", "Session", "Store", "graft_of_run", "library", "load_pair",
    "predict", "produce",
]  # fmt: skip

D = 4448  # graftable entries of the tiny BERT


def spec_of(world: Path, **changes: Any) -> RunSpec:
    """Return top movement at 5% on the pair and task in `world`, with these fields changed."""
    return RunSpec(**{
        "base": str(world / "base"), "finetuned": str(world / "finetuned"), "task": str(world / "task.yaml"),
        "localizer": "movement", "sizes": ("5%",), "device": "cpu", **changes,
    })  # fmt: skip


def produced(**changes: Any) -> Any:
    """Return a fixture: the run of `spec_of` with these changes, made once for all tests of a file."""

    @pytest.fixture(scope="module")
    def made(world: Path, session: Session, tmp_path_factory: pytest.TempPathFactory) -> Run:
        return produce(spec_of(world, **changes), Store(tmp_path_factory.mktemp("runs")), session=session)

    return made


def failed_checks(run: Run) -> list[str]:
    """Return the names of the self-checks that a run failed."""
    return [check.name for check in run.record.checks if not check.passed]
