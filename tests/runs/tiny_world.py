"""Specs on the trained tiny pair of the fixture `world`, and the checks of a run on it."""

from pathlib import Path
from typing import Any

import pytest

from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store

# Re-exported, so that a test imports all parts of a run from one place.
__all__ = ["Run", "RunSpec", "Session", "Store"]

D = 4448  # graftable entries of the tiny BERT


def spec_of(world: Path, **changes: Any) -> RunSpec:
    """Return top movement at 5% on the pair and task in `world`, with these fields changed."""
    fields = {
        "base": str(world / "base"), "finetuned": str(world / "finetuned"), "task": str(world / "task.yaml"),
        "localizer": "movement", "sizes": ("5%",), "device": "cpu", **changes,
    }  # fmt: skip
    return RunSpec(**fields)


def produced(**changes: Any) -> Any:
    """Return a fixture: the run of `spec_of` with these changes, made once for all tests of a file."""

    @pytest.fixture(scope="module")
    def made(world: Path, session: Session, tmp_path_factory: pytest.TempPathFactory) -> Run:
        from skillviz.runs.produce import produce  # imports torch

        return produce(spec_of(world, **changes), Store(tmp_path_factory.mktemp("runs")), session=session)

    return made


def failed_checks(run: Run) -> list[str]:
    """Return the names of the self-checks that a run failed."""
    return [check.name for check in run.record.checks if not check.passed]
