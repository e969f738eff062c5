"""A tiny pair for each test: `family`, `readout`, `options` (of tiny_pair) and `load_dtype` may be parametrized.

skillviz is imported by the tests and not here, so that a measurement of coverage sees what an import runs.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.tiny import tiny_pair


@pytest.fixture
def family() -> str:
    return "bert"


@pytest.fixture
def readout() -> str:
    return "head"


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
def load_dtype() -> str:
    return "float32"


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
