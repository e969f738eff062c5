"""Tests of the wheel: it has the dashboard and the runs of its opening page, and works in an empty folder."""

import os
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from skillviz.runs.packed import packed_runs
from skillviz.runs.store import shipped_root
from skillviz.tasks import project
from skillviz.ui import page_table, study_words
from tests.e2e.server import free_port, wait_until_up
from tests.small_world import opening_run

PROJECT = Path(__file__).resolve().parents[1]
CARRIED = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["skillviz"]["carried"]


def test_it_carries_what_the_dashboard_opens_on() -> None:
    assert [name for name in CARRIED if not (PROJECT / name).exists()] == []
    assert f"{shipped_root().name}/{opening_run().id}" in CARRIED


def test_an_installed_package_has_its_app_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert project.app_root() == project.project_root() == PROJECT and project.with_a_checkout() == ""
    monkeypatch.setattr(project, "PROJECT", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    assert project.app_root() == PROJECT / "skillviz" / "app" and project.project_root() == tmp_path
    assert page_table.PAGES["tour"].path == project.app_root() / "pages" / "tour.py"
    assert "come with a checkout" in study_words.missing(["table1"])


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment with the wheel, and everything else from this one's."""
    if find_spec("pip") is None or find_spec("setuptools") is None:
        pytest.skip("pip and setuptools are not installed here, so no wheel can be built; installing both ends this")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=PROJECT, capture_output=True
    )
    if tracked.returncode:
        pytest.skip("this is no git checkout, so what belongs to the project is not known; a clone ends this")
    for name in filter(None, tracked.stdout.decode().split("\0")):
        if name.startswith(("skillviz/", *CARRIED)) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            if (PROJECT / name).is_file():
                (source / name).write_bytes((PROJECT / name).read_bytes())
    pip, options = [sys.executable, "-m", "pip"], ["--no-deps", "--no-build-isolation", "--no-index", "-q"]
    subprocess.run([*pip, "wheel", *options, "-w", folder, source], check=True, cwd=folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    installed = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "--python", installed, "install", *options, wheel], check=True, cwd=folder)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return installed


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Run:
    def call(*words: object) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-m", "skillviz", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)

    return call


def environment() -> dict[str, str]:
    """Return an environment without variables that point to this checkout."""
    ours = ("SKILLVIZ_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"HF_HUB_OFFLINE": "1"}


@pytest.mark.slow
def test_the_wheel_declares_what_is_pinned_and_holds_every_file(python: Path) -> None:
    (wheel,) = python.parents[2].glob("*.whl")
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    pins = set(re.findall(r"^[A-Za-z].*", (PROJECT / "requirements.txt").read_text(encoding="utf-8"), re.M))
    assert pins and set(re.findall(r"^Requires-Dist: (.*)$", metadata, re.M)) == pins
    code = {path.relative_to(PROJECT) for path in (PROJECT / "skillviz").rglob("*") if path.is_file()}
    files = {str(name) for name in code if "__pycache__" not in name.parts} | {
        f"skillviz/app/{page.relative_to(PROJECT)}" for page in (PROJECT / "pages").glob("*.py")
    }
    assert files | {"skillviz/app/dashboard.py", "skillviz/app/.streamlit/config.toml"} <= names
    roots = {"skillviz", wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"}
    assert {name.split("/")[0] for name in names} == roots


@pytest.mark.slow
def test_the_installed_package_works_in_an_empty_folder(run: Run, tmp_path: Path) -> None:
    assert "skillviz" in run("--version").stdout
    said = run("--help")
    assert said.returncode == 0 and "localize" in said.stdout
    listed = run("runs", "list")
    carried = [Path(name).name for name in CARRIED if re.fullmatch(r"cached_runs/mr-[^/]+", name)]
    carried += [run for name in CARRIED if "/studies/" in name for run in packed_runs(PROJECT / name / "runs.parquet")]
    assert listed.returncode == 0 and all(name in listed.stdout for name in carried), listed.stderr
    assert run("runs", "verify").returncode == 0
    lacking = run("localize", "--base", "examples/models/minilm-l6", "--finetuned", "examples/x", "--task", "sst2")
    assert lacking.returncode == 2 and "come with a checkout" in lacking.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_the_installed_dashboard_serves_its_pages(python: Path, tmp_path: Path) -> None:
    (package,) = (python.parents[1] / "lib").glob("python*/site-packages/skillviz")
    before = states(package)
    port = free_port()
    words = [str(python), "-m", "skillviz", "dashboard", "--no-browser", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_up(address)
        assert urllib.request.urlopen(f"{address}/_stcore/health").read() == b"ok"
        home = urllib.request.urlopen(address)
        assert home.status == 200 and b"<html" in home.read()
        # The middleware and the settings come from the package.
        assert home.headers["content-security-policy"] == "frame-ancestors 'self'"
        time.sleep(5)  # meanwhile the server reads the runs
    finally:
        server.terminate()
        server.wait(60)
    assert states(package) == before, "it wrote into the package"


def states(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the size and time of each file, except Python's own."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
