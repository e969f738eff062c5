"""Tests of a page without available models: it names the missing member and the command that makes or fetches it."""

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
from skillviz.show.briefs import brief_of, hero
from skillviz.ui import cache
from tests.fake_run import fake_run
from tests.tiny import tiny_pair, tiny_task
from tests.ui.driven import lacks, opened, said

REAL = "sst2-sentences-minilm-l6-first-order-1064-s0-0abb22"


def script() -> None:
    """Ask for an answer on each topic, or explain the error, of a run."""
    from pathlib import Path

    import streamlit as st

    from skillviz import errors
    from skillviz.runs.store import Store
    from skillviz.ui import live

    told = st.session_state["told"]
    run = Store(Path(told["folder"])).open(told["run"])
    live.begin()
    for operation in told.get("asks", ()):
        live.ask(run, operation, topic=operation)
    for kind, words in told.get("fails", ()):
        live.explain(run, getattr(errors, kind)(words), "test")


def page(run: str = REAL, folder: Path | None = None, **told: object) -> AppTest:
    return opened(script, {"told": {"folder": str(folder or shipped_root()), "run": run, **told}})


@pytest.mark.parametrize("says", ["", "The run does not store the definition of the task 'sst2'."])
def test_what_could_not_be_compared_is_said_beside_the_first_answer_of_a_page(
    says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.ui.live.refuse_absent", lambda *_: None)
    monkeypatch.setattr("skillviz.ui.cache.answer", lambda *_: {"n": 8, "uncompared": says})
    test = page(asks=["evaluate_region", "score_text"])
    assert not said(test, "warning")
    for shown in (test, test.run()):
        assert [one.value for one in shown.caption] == [says] * bool(says)


@pytest.mark.parametrize(
    ("has_base", "says", "omits"),
    [
        (False, ["weights of both models", "Neither is on this machine",
                 "set SKILLVIZ_REAL to the folder that holds models/minilm-l6",
                 "`python -m skillviz finetune --base '${SKILLVIZ_REAL}/models/minilm-l6' --task"],
         ["hf download", "hub"]),
        (True, ["One of them is not on this machine",
                "Fine-tuned, `models/minilm-l6-sst2-linear04`: there is no folder"], ["Pre-trained"]),
    ],
    ids=["neither is here", "the base is here"],
)  # fmt: skip
def test_a_shipped_run_of_real_models_names_what_is_missing_and_the_command(
    has_base: bool, says: list[str], omits: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine without the models that the project's commands make."""
    (tmp_path / "project" / COMMANDS).parent.mkdir(parents=True)
    shutil.copy(shipped_root().parent / COMMANDS, tmp_path / "project" / COMMANDS)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("skillviz.tasks.project.project_root", lambda: tmp_path / "project")
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    if has_base:
        (base := tmp_path / "models" / "minilm-l6").mkdir(parents=True)
        (base / "model.safetensors").touch()
        monkeypatch.setenv("SKILLVIZ_REAL", str(tmp_path))
    test = page(asks=["evaluate_region"])
    told = said(test, "warning", "markdown")
    assert not lacks(told, *says) and lacks(told, *omits) == omits and len(test.warning) == 1


def test_where_models_or_data_are_missing_the_opening_run_is_offered() -> None:
    opening = hero([brief_of(run, is_of_user=False) for run in Store(shipped_root()).list()])
    assert opening is not None
    missing = [("BadData", "'train.jsonl' is not there.")]
    test, again = page(fails=missing), page(opening.id, fails=missing)
    (offer,) = test.button
    assert offer.click().run().query_params["run"] == opening.id and not test.exception
    assert said(again) and not again.button, "on the run itself it would lead nowhere"


def test_where_the_models_are_here_and_the_data_are_not_it_says_what_needs_none(tmp_path: Path) -> None:
    (base, finetuned), task = map(str, tiny_pair(tmp_path)), tiny_task(tmp_path / "away")
    run = fake_run(Store(tmp_path / "runs"), sizes=("1%",), base=base, finetuned=finetuned, task=str(task))
    for file in task.parent.glob("*.jsonl"):
        file.unlink()
    test = page(run.id, tmp_path / "runs", fails=[("BadData", "there is no file x/train.jsonl (data.train).")])
    (warning,) = said(test, "warning").splitlines()
    assert "type a sentence, or score another task" in warning
    assert "x/train.jsonl" in test.expander[0].markdown[0].value.replace("\\", "")


def test_a_pair_that_does_not_fit_is_not_called_absent() -> None:
    assert said(page(fails=[("PairMismatch", "the weights have changed since.")])) == "the weights have changed since."


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
