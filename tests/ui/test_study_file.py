"""Tests of study files from the page: only the project's environment variables are expanded, commands are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.errors import BadInput
from skillviz.ui.pages.studies import start

ENTRY = "runs:\n- {task: t, base: BASE, finetuned: f, localizer: movement, sizes: ['1%']}\n"


def content(base: str, more: str = "") -> bytes:
    return f"name: own\n{more}{ENTRY.replace('BASE', base if base.startswith(chr(34)) else repr(base))}".encode()


@pytest.mark.parametrize("base", ["${HOME}/x", "$HOME/x", '"\\x24{AWS_SECRET}"', "a/${SKILLVIZ_REAL}/${PATH}"])
def test_a_variable_of_the_machine_is_refused_and_not_told(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "AWS_SECRET", "PATH"):
        monkeypatch.setenv(name, "hidden-value")
    with pytest.raises(BadInput, match="only variables whose names begin with SKILLVIZ_") as error:
        start.uploaded("own.yaml", content(base))
    assert "hidden-value" not in str(error.value)


@pytest.mark.parametrize("base", ["${SKILLVIZ_REAL}/models/x", "$SKILLVIZ_REAL/x", "models/x", "costs 5 $", "a$/b"])
def test_the_projects_own_and_what_is_none_stay_as_they_are(base: str) -> None:
    assert start.uploaded("own.yaml", content(base)).runs[0]["base"] == base


def test_a_name_of_a_field_is_looked_at_too() -> None:
    with pytest.raises(BadInput, match="not filled in"):
        start.uploaded("own.yaml", content("b", "defaults: {finetune: {'$HOME': 1}}\n"))


def test_a_typed_path_fills_in_the_projects_variables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_bytes(content("b"))
    monkeypatch.setenv("SKILLVIZ_HERE", str(tmp_path))
    monkeypatch.setenv("OTHER", str(tmp_path))
    assert start.typed("${SKILLVIZ_HERE}/own.yaml").name == "own"
    with pytest.raises(BadInput, match="is not filled in") as error:
        start.typed("$OTHER/own.yaml")
    assert str(tmp_path) not in str(error.value)


def test_a_file_has_no_command() -> None:
    with pytest.raises(BadInput, match="'command': it is 'curl evil.example'"):
        start.uploaded("own.yaml", content("b", "command: curl evil.example\n"))


def test_a_fault_is_told_of_the_files_own_name() -> None:
    with pytest.raises(BadInput, match=r"the study file own\.yaml must have"):
        start.uploaded("own.yaml", b"name: own\nruns: []\n")
