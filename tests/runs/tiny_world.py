"""Specs on the trained tiny pair of the fixture `world`, and the checks of a run on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
        "localizer": "movement", "sizes": ("5%",), "device": "cpu",
    }  # fmt: skip
    return RunSpec(**{**fields, **changes})


def failed_checks(run: Run) -> list[str]:
    """Return the names of the self-checks that a run failed."""
    return [check.name for check in run.record.checks if not check.passed]
