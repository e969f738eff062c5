"""Fixtures of the shared store of fake runs as the user's own folder."""

from functools import cache
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner

from skillviz.ui import script
from tests.ui.shared_store import make_store

# Each AppTest searches all installed packages for components, which takes a second; once per process is enough.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder and the ids of its runs by short name."""
    return _made(tmp_path_factory.getbasetemp() / "library")


@cache  # pytest makes an imported session fixture once per folder; the cache makes it once per process
def _made(root: Path) -> tuple[Path, dict[str, str]]:
    root.mkdir()
    return root, make_store(root)


@pytest.fixture
def ids(made: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch, user_runs: Path) -> dict[str, str]:
    """Use the fake runs without shipped ones; return their ids by short name."""
    root, found = made
    monkeypatch.setenv("SKILLVIZ_RUNS", str(root))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: root)
    return found


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the wait for the browser's first figure, because no browser draws one here."""
    monkeypatch.setattr(script, "LEAD", 0.0)
    monkeypatch.setattr(script, "LEAD_OF_VISITOR", 0.0)
