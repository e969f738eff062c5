"""Tests of `make raise`: it rewrites every pin and nothing else; these tests do not contact the registry."""

from __future__ import annotations

import re
import subprocess
from types import ModuleType

import pytest

from skillviz.tasks.project import PROJECT
from tests.scripts import script


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return script("deploy/raise_versions.py")


@pytest.fixture
def files(program: ModuleType) -> dict[str, str]:
    names = (*program.REQUIREMENTS, program.CONSTRAINTS, *program.NAMED)
    return {name: (PROJECT / name).read_text(encoding="utf-8") for name in names}


def resolved(program: ModuleType, files: dict[str, str], *names: str) -> str:
    """Return the resolver's output if nothing is newer: every pin of these files."""
    return "".join(f"{name}=={version}\n" for file in names for name, version in program.pins(files[file]).items())


def test_with_nothing_newer_every_file_stays(program: ModuleType, files: dict[str, str]) -> None:
    of_app = resolved(program, files, *program.REQUIREMENTS[:-1], program.CONSTRAINTS)
    changed = program.raised(files, of_app, resolved(program, files, program.OF_TOOLS))
    constraints = changed.pop(program.CONSTRAINTS)
    assert changed == {name: files[name] for name in changed}
    assert program.pins(constraints) == program.pins(files[program.CONSTRAINTS])


def test_a_newer_version_is_written_wherever_it_is_named(program: ModuleType, files: dict[str, str]) -> None:
    of_app = resolved(program, files, *program.REQUIREMENTS[:-1], program.CONSTRAINTS)
    old = program.pins(files["requirements.txt"])["torch"]
    changed = program.raised(
        files, of_app.replace(f"torch=={old}", "torch==99.0") + "brought-along==1\n",
        resolved(program, files, program.OF_TOOLS).replace("uv==", "uv==9"),
    )  # fmt: skip
    for name in ("requirements.txt", *program.NAMED):
        assert changed[name] == files[name].replace(f"torch=={old}", "torch==99.0") != files[name]
    assert "\nuv==9" in changed[program.OF_TOOLS] and "brought-along==1\n" in changed[program.CONSTRAINTS]
    assert "torch==" not in changed[program.CONSTRAINTS], "what is required directly is pinned once"
    with pytest.raises(KeyError):
        program.raised(files, "torch==99.0\n", "")


def test_only_what_is_asked_for_is_free(program: ModuleType) -> None:
    text = "# a comment\n-c constraints.txt\ntorch==2.1\nPyYAML==6.0\n"
    assert program.asked(text, []) == "torch\nPyYAML\n" and program.asked(text, ["pyyaml"]) == "torch==2.1\nPyYAML\n"


def test_the_makefile_runs_it_before_lock_and_tests() -> None:
    words = ["make", "-n", "-o", ".venv-tools/bin", "raise", "ONLY=plotly"]
    steps = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    order = ("deploy/raise_versions.py", "--only plotly", "deploy/requirements.lock", ".venv-raised", "pytest")
    assert re.search(".*".join(map(re.escape, order)), steps, re.DOTALL), steps
