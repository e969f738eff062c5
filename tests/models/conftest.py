"""A tiny pair for each test: `family`, `readout`, `options` (of tiny_pair) and `load_dtype` may be parametrized; and
the base and the task of fine-tunings.

skillviz is imported by the tests and not here, so that a measurement of coverage sees what an import runs.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.tiny import tiny_pair, tiny_task


def usually(value: Any) -> Any:
    """Return a fixture with this value, which tests may parametrize."""
    return pytest.fixture(lambda: value)


family, readout, options, load_dtype = map(usually, ("bert", "head", {}, "float32"))


@pytest.fixture
def base(tmp_path: Path, family: str, readout: str, options: dict[str, Any]) -> Path:
    return tiny_pair(tmp_path, family, readout, **options)[0]


@pytest.fixture
def tuned(base: Path) -> Path:
    return base.with_name("finetuned")


@pytest.fixture
def pair(base: Path, tuned: Path, readout: str, load_dtype: str) -> Any:
    from skillviz.api import load_pair

    return load_pair(base, tuned, readout=readout, device="cpu", dtype=load_dtype)


@pytest.fixture
def region(pair: Any) -> Any:
    from tests.models.examples import some_region

    return some_region(pair, size=200)


@pytest.fixture
def graft(pair: Any, region: Any) -> Any:
    return pair.graft(region)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the tiny task with two labels."""
    from skillviz.api import task

    return task(tiny_task(tmp_path_factory.mktemp("data"), rows=64))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bare BERT encoder, the usual form of a pre-trained model."""
    return tiny_pair(tmp_path_factory.mktemp("bert"), "bert", "head")[0]
