"""Tests of task files outside the allowed folders: every page refuses them, under any name."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.ui.other_tasks import offered
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.studies import start
from tests.fake_run import fake_run
from tests.serving.test_visitor import outside
from tests.tiny import LABEL_WORDS, tiny_task
from tests.ui.conftest import nobody_waits
from tests.ui.shared_store import SMALL
from tests.visitor import confirmed

__all__ = ["nobody_waits", "outside"]

LABELS = tuple(f"class-{word}" for word in LABEL_WORDS[:2])


def named_task(folder: Path, name: str) -> Path:
    """Write a task of this name beside its data; return its path."""
    path = tiny_task(folder / f"{name}-data", rows=8)
    task = yaml.safe_load(path.read_text())
    data = {split: str(path.parent / file) for split, file in task["data"].items()}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**task, "name": name, "data": data}))
    return folder / f"{name}.yaml"


@pytest.fixture
def run(outside: Path, empty: Path) -> str:
    """Return the id of a run whose task is outside the folders, beside another task with the same labels."""
    own = named_task(outside, "own")
    named_task(outside, "beside")
    return fake_run(Store(empty), task=str(own), labels=LABELS, sizes=("5%",), **SMALL).id


def opened(page: str, **query: str) -> AppTest:
    test = AppTest.from_file(str(PAGES[page].path), default_timeout=120)
    for name, value in query.items():
        test.query_params[name.replace("_", ".")] = value
    return confirmed(test.run())


def said(test: AppTest) -> str:
    assert not test.exception
    return "\n".join(str(part.value) for part in (*test.error, *test.warning)).replace("\\", "")


ADDRESSES = {
    "transfer": {"also": "FILE"},
    "launch, its task": {"new_from": "own", "new_source": "file", "new_file": "FILE"},
    "launch, other tasks": {"new_from": "own", "new_source": "known", "new_known": "sst2", "new_also": "FILE"},
    "studies, their tasks": {"own_tasks": "FILE"},
    "studies, other tasks": {"own_also": "FILE"},
    "studies, a file": {"new_study": "file", "new_file": "FILE"},
}


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("place", ADDRESSES)
def test_an_address_names_no_task_outside_the_folders(place: str, run: str, outside: Path) -> None:
    query = {name: value.replace("FILE", str(outside / "beside.yaml")) for name, value in ADDRESSES[place].items()}
    test = opened(place.partition(",")[0], run=run, **query)
    assert "is outside the folders that this dashboard may read" in said(test)
    assert not [button for button in test.button if button.label.startswith(("Start", "Score")) and not button.disabled]


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize("place", [name for name in ADDRESSES if name != "studies, a file"])
def test_a_task_inside_names_no_data_outside(place: str, run: str, outside: Path, tmp_path: Path) -> None:
    file = tmp_path / "inside.yaml"
    file.write_text((outside / "beside.yaml").read_text())
    query = {name: value.replace("FILE", str(file)) for name, value in ADDRESSES[place].items()}
    assert "is outside the folders that this dashboard may read" in said(
        opened(place.partition(",")[0], run=run, **query)
    )


def test_a_studys_file_names_no_data_outside(run: str, outside: Path, tmp_path: Path) -> None:
    file = tmp_path / "inside.yaml"
    file.write_text((outside / "beside.yaml").read_text())
    entry = f"- {{task: {file}, base: b, finetuned: f, localizer: movement, sizes: ['1%']}}"
    with pytest.raises(BadInput, match="outside the folders"):
        start.uploaded("own.yaml", f"name: own\nruns:\n{entry}\n".encode())


def test_transfer_lists_what_may_be_read(run: str, empty: Path, outside: Path, tmp_path: Path) -> None:
    assert str(outside) not in str([row.named for row in offered(Store(empty).open(run))])
    box = next(one for one in opened("transfer", run=run).selectbox if one.label == "Score another task now")
    assert "beside" not in box.options
    own = named_task(tmp_path, "own")
    named_task(tmp_path, "near")
    inside = fake_run(Store(empty), task=str(own), labels=LABELS, sizes=("5%",), seed=3, **SMALL)
    box = next(one for one in opened("transfer", run=inside.id).selectbox if one.label == "Score another task now")
    assert "near" in box.options
