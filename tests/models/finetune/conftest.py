"""The base and the task of the fine-tunings."""

from pathlib import Path
from typing import Any

import pytest

from tests.tiny import tiny_pair, tiny_task


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the tiny task with two labels."""
    from skillviz.api import task

    return task(tiny_task(tmp_path_factory.mktemp("data"), rows=64))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bare BERT encoder, the usual form of a pre-trained model."""
    return tiny_pair(tmp_path_factory.mktemp("bert"), "bert", "head")[0]
