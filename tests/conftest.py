"""Shared setup: no network, one thread, a folder of runs for each test, and skips with a reason."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Set before any library reads them: tests never use the network, and tiny models gain nothing from threads.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Otherwise every process that a test starts compiles the whole package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import pytest  # noqa: E402  (after the switch: what it imports is kept compiled)

from tests.tiers import spread_cases  # noqa: E402

# A test's files need not survive a power cut, so writes do not wait for the disk.
os.fsync = lambda handle: None

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
LATER = ("e2e", "slow", "nightly", "slurm", "bench", "reliability")
"""The markers of the later tiers (docs/CONTRIBUTING.md): a plain run has only the tests of each commit."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the attempts of tests/reliability with all their tries")


@pytest.hookimpl(tryfirst=True)  # before -m selects, because cases get their markers here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the later tiers unless -m or their file is named; skip what this machine cannot run, with a reason."""
    spread_cases(items)
    expression = config.option.markexpr or ""
    files = {Path(str(argument).split("::")[0]).resolve() for argument in config.args}
    out = {
        item
        for item in items
        for marker in LATER
        if item.get_closest_marker(marker) and marker not in expression and item.path not in files
    }
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]
    # The longest first: started last, they would keep one worker busy while the others have ended. Browsers wait
    # longest, then come the tests of the whole project (wheel, imports, generated pages), which lie in this folder.
    items.sort(key=lambda item: (item.path.name != "test_opening_run.py", item.get_closest_marker("e2e") is None,
                                 item.path.parent != Path(__file__).parent))  # fmt: skip
    for item in items:
        if item.get_closest_marker("real") and (reason := real_missing()):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("gpu") and not has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device here; run on a machine with one"))


def pytest_collection_finish() -> None:
    """Exclude the loaded libraries and tests from garbage collection, which would otherwise scan them each time."""
    gc.collect()
    gc.freeze()


def real_missing() -> str | None:
    """Return the reason why the real models and data cannot be used, or None if they can."""
    folder = os.environ.get("SKILLVIZ_REAL")
    if not folder:
        return "real models and data are absent; set SKILLVIZ_REAL to their folder"
    return None if Path(folder).is_dir() else f"SKILLVIZ_REAL={folder} is not a folder; point it to the real data"


def has_cuda() -> bool:
    """Return whether torch finds a CUDA device; torch is imported only if a test needs it."""
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def real() -> Path:
    """Return the folder with `models/` and `data/`; skip if SKILLVIZ_REAL does not name one."""
    reason = real_missing()
    if reason:
        pytest.skip(reason)
    return Path(os.environ["SKILLVIZ_REAL"])


@pytest.fixture(autouse=True)
def uploads_are_read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read uploads in this process: each process takes a second. Tests of the processes themselves start them."""
    if request.node.path.name != "test_upload_reader.py":
        from skillviz.tasks import upload_reader

        monkeypatch.setattr(upload_reader, "in_a_process", upload_reader.output_of)


@pytest.fixture(autouse=True)
def user_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder of runs for this test only, so that the user's own runs and models are not used."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(tmp_path / "finetuned-models"))
    monkeypatch.setenv("SKILLVIZ_RUNS", str(folder))
    monkeypatch.setenv("SKILLVIZ_ROOTS", str(tmp_path.parents[1]))  # a test's files are below it
    return folder


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_runs: Path) -> Path:
    """Hide the shipped runs, so that there are no runs at all; return the user's folder."""
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")
    return user_runs


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return headless Chromium, one per process, because a second Playwright would not start. Skip if it is missing."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on the path; install it (apt-get install chromium) to run these")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is in deploy/requirements-dev.txt")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    """Return a process that may be cancelled. It locks each file whose path it reads, as a job does, and says so."""
    code = (
        "import fcntl, sys\nfiles = []\n"
        "for path in sys.stdin:\n"
        "    files.append(open(path.strip(), 'w'))\n    fcntl.flock(files[-1], fcntl.LOCK_EX)\n    print(flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield child
    child.kill()
    child.communicate()
