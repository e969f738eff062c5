"""Tests of a page without available models: it names the missing member and the command that makes or fetches it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.models.fetch import COMMANDS
from skillviz.runs.store import Store, shipped_root
from skillviz.serving import downloads
from skillviz.show.entries import entry_of, hero
from skillviz.ui import cache
from tests.fake_run import fake_run
from tests.tiny import tiny_pair

REAL = "sst2-sentences-minilm-l6-first-order-1064-s0-0abb22"


def asking(run_id: str, folder: str) -> None:
    from pathlib import Path

    from skillviz.runs.store import Store
    from skillviz.ui import live

    run = Store(Path(folder)).open(run_id)
    live.begin()
    live.ask(run, "evaluate_region", topic="test")


def asking_twice(run_id: str, folder: str) -> None:
    from pathlib import Path

    from skillviz.runs.store import Store
    from skillviz.ui import live

    run = Store(Path(folder)).open(run_id)
    live.begin()
    live.ask(run, "evaluate_region", topic="test")
    live.ask(run, "score_text", topic="another")


@pytest.mark.parametrize("says", ["", "The run does not store the definition of the task 'sst2'."])
def test_what_could_not_be_compared_is_said_beside_the_first_answer_of_a_page(
    says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.ui.live.refuse_absent", lambda *_: None)
    monkeypatch.setattr("skillviz.ui.cache.answer", lambda *_: {"n": 8, "uncompared": says})
    test = AppTest.from_function(asking_twice, args=(REAL, str(shipped_root())), default_timeout=60).run()
    assert not test.exception and not test.warning
    for shown in (test, test.run()):
        assert [one.value for one in shown.caption] == [says] * bool(says)


def mismatched(run_id: str, folder: str) -> None:
    from pathlib import Path

    from skillviz.errors import PairMismatch
    from skillviz.runs.store import Store
    from skillviz.ui import live

    live.explain(Store(Path(folder)).open(run_id), PairMismatch("the weights have changed since."), "test")


def said(script: object, run_id: str) -> str:
    test = AppTest.from_function(script, args=(run_id, str(shipped_root())), default_timeout=60).run()
    assert not test.exception
    (warning,) = test.warning
    return "\n".join([warning.value, *(one.value for one in test.markdown)])


@pytest.fixture
def nothing_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Simulate a machine without the models that the project's commands make."""
    (tmp_path / "project" / COMMANDS).parent.mkdir(parents=True)
    shutil.copy(shipped_root().parent / COMMANDS, tmp_path / "project" / COMMANDS)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("skillviz.tasks.project.project_root", lambda: tmp_path / "project")


@pytest.mark.usefixtures("nothing_made")
def test_a_shipped_run_of_real_models_names_the_variable_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    told = said(asking, REAL)
    assert "weights of both models" in told and "Neither is on this machine" in told
    assert r"set SKILLVIZ\_REAL to the folder that holds models/minilm-l6" in told
    assert "`python -m skillviz finetune --base '${SKILLVIZ_REAL}/models/minilm-l6' --task" in told
    assert "hf download" not in told and "hub" not in told


@pytest.mark.usefixtures("nothing_made")
def test_where_one_member_is_here_only_the_other_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    base = tmp_path / "models" / "minilm-l6"
    base.mkdir(parents=True)
    (base / "model.safetensors").touch()
    monkeypatch.setenv("SKILLVIZ_REAL", str(tmp_path))
    told = said(asking, REAL)
    assert (
        "One of them is not on this machine" in told
        and "Fine-tuned, `models/minilm-l6-sst2-linear04`: there is no folder" in told
    )
    assert "Pre-trained" not in told


def without_data(run_id: str, folder: str) -> None:
    from pathlib import Path

    from skillviz.errors import BadData
    from skillviz.runs.store import Store
    from skillviz.ui import live

    live.explain(Store(Path(folder)).open(run_id), BadData("'train.jsonl' is not there."), "test")


def test_where_models_or_data_are_missing_the_opening_run_is_offered() -> None:
    shipped = Store(shipped_root()).list()
    opening = hero([entry_of(run, is_of_user=False) for run in shipped])
    assert opening is not None
    test = AppTest.from_function(without_data, args=(REAL, str(shipped_root())), default_timeout=60).run()
    (offer,) = test.button
    offer.click().run()
    assert not test.exception and test.query_params["run"] == opening.id
    test = AppTest.from_function(without_data, args=(opening.id, str(shipped_root())), default_timeout=60).run()
    assert not test.exception and not test.button, "on the run itself it would lead nowhere"


def without_its_data(folder: str, run_id: str) -> None:
    from pathlib import Path

    from skillviz.errors import BadData
    from skillviz.runs.store import Store
    from skillviz.ui import live

    live.explain(Store(Path(folder)).open(run_id), BadData("there is no file x/train.jsonl (data.train)."), "test")


def test_where_the_models_are_here_and_the_data_are_not_it_says_what_needs_none(tmp_path: Path) -> None:
    base, finetuned = tiny_pair(tmp_path)
    task = tmp_path / "task.yaml"
    task.write_text(
        "name: away\ndata: {train: away/train.jsonl, test: away/test.jsonl}\ntext: text\nlabels: [negative, positive]\n"
    )
    store = Store(tmp_path / "runs")
    run = fake_run(store, sizes=("1%",), base=str(base), finetuned=str(finetuned), task=str(task))
    test = AppTest.from_function(without_its_data, args=(str(tmp_path / "runs"), run.id), default_timeout=60).run()
    (said,) = test.warning
    assert not test.exception and "type a sentence, or score another task" in said.value
    assert r"x/train.jsonl" in test.expander[0].markdown[0].value.replace("\\", "")


def test_a_pair_that_does_not_fit_is_not_called_absent() -> None:
    told = said(mismatched, REAL)
    assert told == "the weights have changed since."


def test_a_request_is_wanted_while_its_tab_is_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The topic is the tab's own, so that no tab's request takes the place of another's."""
    tabs, asked = {"a", "b"}, dict[str, Any]()

    class Worker:
        store = tmp_path

        def ask(self, operation: str, *, topic: str, is_wanted: Callable[[], bool], **arguments: Any) -> dict[str, Any]:
            asked[topic] = is_wanted
            return arguments

    run = fake_run(Store(tmp_path), sizes=("1%",))
    server = SimpleNamespace(is_active_session=tabs.__contains__)
    monkeypatch.setattr(downloads, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: server))
    for tab in ("a", "b"):
        monkeypatch.setattr(downloads, "get_script_run_ctx", lambda tab=tab: SimpleNamespace(session_id=tab))
        wanted = json.dumps({"alpha": 0.5, "tab": tab})
        assert cache.answer(run, "wise", wanted, Worker(), "wise")["pair"] == {"run": run.id}  # type: ignore[arg-type]
    tabs.remove("a")
    assert {topic: is_wanted() for topic, is_wanted in asked.items()} == {"a wise": False, "b wise": True}
