"""Tests of files that a visitor names: only under the roots, and none before a click."""

import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from skillviz.errors import BadInput
from skillviz.serving import visitor
from skillviz.serving.settings import ROOTS_VARIABLE
from skillviz.tasks.project import located
from skillviz.tasks.yaml_files import read_yaml
from tests.refused import refuses
from tests.visitor import confirmed, opened


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder outside the roots; only the test's own folder is inside."""
    for name in ("HOME", ROOTS_VARIABLE):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path_factory.mktemp("outside")


usual = visitor.st.get_option  # the original function, saved before a test replaces it


@pytest.mark.parametrize("name", ["sst2", "org/name", "org/name@main", "examples/models/minilm-l6", "Is a/b better?"])
def test_names_that_are_no_files_of_others_pass(name: str, outside: Path) -> None:
    assert visitor.checked_text(name) == name


def test_paths_outside_are_refused_whether_or_not_they_are_there(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(outside)
    for file in (outside / "there.yaml", tmp_path / "inside.yaml"):
        file.write_text("a: 1")
    up = os.path.relpath(outside, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "inside.yaml"), "inside.yaml"):
        assert visitor.checked_text(name) == name
    for path in (
        outside / "there.yaml", outside / "absent.yaml", tmp_path / "link" / "there.yaml", tmp_path / up / "there.yaml",
        tmp_path / up / "absent.yaml", "/dev/zero", "/etc/passwd", "/proc/self/environ", "~root/x.yaml",
        f"{up}/there.yaml", f"{up}/absent.yaml", "link/there.yaml",
    ):  # fmt: skip
        refuses(BadInput, "outside the folders", visitor.checked_text, str(path))


def test_what_can_name_no_file_is_nowhere(outside: Path, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for text in ("x\0y", f"{outside}/x\0y", str(tmp_path / "circle" / "x.yaml"), str(tmp_path / ("x" * 300))):
        assert visitor.checked_text(text) == text and not located(text).exists()


def test_on_another_address_the_home_is_closed_and_no_folder_is_said(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOTS_VARIABLE, "")
    mine, shipped = str(tmp_path / "mine.yaml"), "examples/models/minilm-l6"
    Path(mine).write_text("a: 1")
    assert visitor.checked_text(mine) == mine
    for open_address in ("0.0.0.0", None, "skills.example.org"):
        options = {"server.address": open_address}
        monkeypatch.setattr(visitor.st, "get_option", lambda name, options=options: options.get(name, usual(name)))
        refuses(
            BadInput, rf"(?s)\A(?!.*{tmp_path}.*{tmp_path}).*{tmp_path}.*Upload the file", visitor.checked_text, mine
        )
        assert visitor.checked_text(shipped) == shipped


def test_a_task_file_inside_may_not_name_data_outside(outside: Path, tmp_path: Path) -> None:
    (rows := outside / "rows.csv").write_text("text,label\na,no\nb,yes\n")
    (tmp_path / "task.yaml").write_text(
        f"name: s3cret-task\ndata: {{train: {rows}, test: {rows}}}\ntext: text\nlabels: [no, yes]\n"
    )
    refuses(BadInput, "outside the folders", visitor.task, str(tmp_path / "task.yaml"))


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("launch", {"new.from": "own", "new.source": "file", "new.file": "{file}"}),
        ("studies", {"new.study": "file", "new.file": "{file}"}),
        ("transfer", {"also": "{file}"}),
    ],
)
def test_a_file_that_an_address_names_is_read_after_a_click_only(
    page: str, query: dict[str, str], ids: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "of-others.yaml"
    file.write_text("name: [unclosed")
    read = Mock(side_effect=read_yaml)
    for place in ("skillviz.tasks.user_file.read_yaml", "skillviz.studies.spec.read_yaml"):
        monkeypatch.setattr(place, read)
    test = opened(page, **{name: value.format(file=file) for name, value in query.items()})
    assert (
        not test.exception
        and str(file) not in str(read.call_args_list)
        and any("This link names" in info.value for info in test.info)
    )
    confirmed(test)
    assert not test.exception and str(file) in str(read.call_args_list)


def test_an_endless_file_and_a_pipe_are_refused_at_once(ids: dict[str, str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    for name, words in (("pipe.yaml", "not a regular file"), ("endless.yaml", "outside the folders")):
        test = confirmed(opened("studies", **{"new.study": "file", "new.file": str(tmp_path / name)}))
        assert not test.exception and words in test.error[0].value


HERE = {"host": "localhost:8501", "origin": "http://localhost:8501"}


@pytest.mark.parametrize(
    ("options", "headers", "is_local"),
    [
        ({}, HERE, True),
        ({}, {"Host": "127.0.0.1:8501"}, True),
        ({}, {"host": "[::1]:8501", "origin": "http://[::1]:8501"}, True),
        ({"server.address": "0.0.0.0"}, HERE, False),
        ({"server.address": None}, HERE, False),
        ({"browser.serverAddress": "skills.example"}, HERE, False),
        ({"server.corsAllowedOrigins": ["https://skills.example"]}, HERE, False),
        ({}, {**HERE, "host": "skills.example"}, False),
        ({}, {**HERE, "Origin": "https://skills.example"}, False),
        ({}, {**HERE, "origin": "http://["}, False),
        ({}, {**HERE, "X-Forwarded-For": "127.0.0.1"}, False),
        ({}, {**HERE, "X-Real-IP": "127.0.0.1"}, False),
        ({}, {**HERE, "forwarded": "for=127.0.0.1"}, False),
        ({}, {**HERE, "Via": "1.1 proxy"}, False),
    ],
)
def test_who_works_at_this_machine(
    options: dict[str, object], headers: dict[str, str], is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy on the same machine every visitor has a loopback address."""
    monkeypatch.setattr(
        visitor.st,
        "get_option",
        {
            "server.address": "127.0.0.1",
            "browser.serverAddress": "localhost",
            "server.corsAllowedOrigins": [],
            **options,
        }.get,
    )
    monkeypatch.setattr(visitor.st, "context", SimpleNamespace(headers=headers))
    monkeypatch.setattr(visitor.sign_in, "providers", lambda: ())
    assert visitor.is_local() == is_local
    monkeypatch.setattr(visitor.sign_in, "providers", lambda: ("",))
    assert not visitor.is_local(), "who signs in is a visitor"
