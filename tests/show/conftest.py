"""Fixtures of the shared store of fake runs as the user's own folder, and of one of its runs."""

import pytest

from skillviz.runs.run import Run
from skillviz.runs.store import library
from tests.ui.conftest import ids, made

__all__ = ["ids", "made"]


@pytest.fixture
def run(ids: dict[str, str]) -> Run:
    """Return a run that is also scored on imdb, with the grid of two sizes between its models."""
    return library().open(ids["stagewise0"])
