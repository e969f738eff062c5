"""Tests of the page of jobs: the menu counts open ones, ended ones are kept, the chosen one offers its actions."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.jobs.backend import LocalBackend
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.ui import page_table
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.jobs import row
from tests.cli.calls import call
from tests.fake_run import fake_run
from tests.tiny import tiny_pair, tiny_task


@pytest.fixture
def store(empty: Path, user_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return the user's own store; no process is started."""
    monkeypatch.setattr(LocalBackend, "start", lambda self, folder, words, cwd: None)
    return Store(user_runs)


def queued(store: Store, tmp_path: Path) -> str:
    """Return the id of a waiting job."""
    tiny_pair(tmp_path)
    tiny_task(tmp_path)
    models = {"base": str(tmp_path / "base"), "finetuned": str(tmp_path / "finetuned")}
    return jobs.start(RunSpec(**models, task=str(tmp_path / "task.yaml"), sizes=("5%",), device="cpu"), store).run_id


def opened() -> AppTest:
    test = AppTest.from_file(str(PAGES["jobs"].path), default_timeout=60).run()
    assert not test.exception
    return test


def test_without_jobs_the_way_to_start_one(store: Store) -> None:
    test = opened()
    assert "no jobs yet" in test.info[0].value
    assert "Start a localization" in [link.proto.label for link in test.get("page_link")]


def test_an_open_job_has_a_card_and_is_counted_and_a_cancelled_one_is_kept(store: Store, tmp_path: Path) -> None:
    done, waiting = fake_run(store), queued(store, tmp_path)
    assert page_table._badge("jobs") == " (1)" and page_table._badge("runs") == ""
    test = opened()
    assert [table.value["Name"].tolist() for table in test.dataframe] == [[done.id]]
    headings = [text.value for text in test.markdown]
    assert any("stagewise · 5% · seed 0**" in words for words in headings) and waiting not in str(headings)
    assert f"Run `{waiting}`" in [caption.value for caption in test.caption], "in its details"
    assert "Name" not in test.dataframe[0].proto.columns, "the id is for downloads"
    jobs.cancel(store, waiting)
    names = opened().dataframe[0].value
    assert dict(zip(names["Name"], names["Status"], strict=True)) == {waiting: "cancelled", done.id: "finished"}


def test_a_job_of_another_machine_is_unknown_and_only_a_user_resumes_it(store: Store, tmp_path: Path) -> None:
    job = queued(store, tmp_path)
    (store.root / job / "work" / "process.json").write_text('{"pid": 1, "host": "elsewhere"}')
    test = opened()
    (warning,) = test.warning
    assert warning.value.startswith("**It may still run elsewhere.** Whether this job still runs cannot be seen")
    assert not [button for button in test.button if button.label == "Cancel"] and page_table._badge("jobs") == ""
    said = call("jobs", "list", "--json")
    (listed,) = said.json["jobs"]
    assert (listed["status"], listed["error"]["kind"]) == ("unknown", "unknown") and "cannot be seen" in said.out
    assert f"{job} is unknown." in call("jobs", "log", job).err
    next(button for button in test.button if button.label == "Resume").click().run()
    assert jobs.status(store, job).status == "queued" and not test.exception


def test_a_row_says_what_the_job_made_and_when(store: Store) -> None:
    run = fake_run(store)
    line = row(jobs.status(store, run.id), {run.id: "SST-2 · tiny (AdamW)"})
    assert line["Status"] == "finished" and line["Name"] == run.id and line["Job"] == "SST-2 · tiny (AdamW)"
    assert line["Ended (UTC)"] == (run.record.finished or "")[:16].replace("T", " ") != ""
