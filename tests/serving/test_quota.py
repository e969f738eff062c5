"""Tests of a user's quota: sizes as they are written, the files that count, and refusals over the limit."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from skillviz import jobs
from skillviz.commands.work import work
from skillviz.errors import BadInput, OverQuota, SkillvizError, StoreError
from skillviz.jobs import control
from skillviz.runs.folder import RunFolder
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import ANSWERS, Store
from skillviz.serving import quota
from skillviz.serving.settings import OPEN_JOBS_VARIABLE, QUOTA_VARIABLE, settings
from skillviz.serving.users import store_of_user, user_named
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from tests.fake_run import SMALL, fake_run
from tests.refused import refuses
from tests.tiny import tiny_pair, tiny_task

SPEC = RunSpec(base="b", finetuned="f", task="t", device="cpu")


@pytest.mark.parametrize(
    ("text", "size"), [("2 GiB", 2**31), ("1.5KiB", 1536), ("0.5 TiB", 2**39), (" 3 MiB ", 3 * 2**20), ("", None)]
)
def test_sizes(text: str, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUOTA_VARIABLE, text)
    assert settings.quota == size


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        *((QUOTA_VARIABLE, text, "a number and one of KiB")
          for text in ("2", "2 GB", "2 gib", "-1 GiB", "many", "1e9 KiB", "2 GiB extra")),
        *((OPEN_JOBS_VARIABLE, text, "a whole number from 1 on") for text in ("0", "-1", "1.5", "few", "1_0")),
    ],
)  # fmt: skip
def test_what_is_no_size_or_number_of_jobs_allows_nothing(
    variable: str, text: str, allowed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A typing error in the environment variable must not remove the limit."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(BadInput, match=f"{variable} is '{text}'; allowed (are|is) {allowed}"):
        quota.refuse(tmp_path) if variable == QUOTA_VARIABLE else quota.refuse_job(Store(tmp_path))


def test_all_files_count_but_for_the_live_answers_and_what_links_lead_to(tmp_path: Path) -> None:
    runs, big = tmp_path / "runs", tmp_path / "big"
    for place in ("run/work", "tasks/mine", f"{ANSWERS}/run", ".slots/cpu"):
        (runs / place).mkdir(parents=True)
        (runs / place / "file").write_bytes(b"x" * 1000)
    big.write_bytes(b"x" * 10_000)
    for name, target in (("link", big), ("loop", runs)):
        (runs / name).symlink_to(target)
    assert (quota.bytes_held(runs), quota.bytes_held(tmp_path / "nothing")) == (
        3000 + sum(os.lstat(runs / name).st_size for name in ("link", "loop")),
        0,
    )


def test_over_it_nothing_new_is_started_and_the_old_can_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(store_of_user(tmp_path, user_named("i", "s")))
    run = fake_run(store, **SMALL)
    ended = store.create(SPEC)
    ended.cancel()
    monkeypatch.setenv(QUOTA_VARIABLE, "1 KiB")
    for begin in (partial(jobs.start, SPEC, store), partial(jobs.resume, store, ended.id)):
        refuses(
            OverQuota,
            r"your runs and data hold \d+ KiB, and 1 KiB are allowed; delete runs that you no longer need",
            begin,
        )
    assert len(store.folders()) == 2 and store.open(run.id).predictions().size
    store.set_note(run.id, "words")
    for name in (run.id, ended.id):
        store.delete(name)
    quota.refuse(store.root)


def test_a_job_that_waited_is_refused_when_its_store_is_full_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs")
    folder = store.create(SPEC)
    monkeypatch.setenv(QUOTA_VARIABLE, "1 KiB")
    (store.root / "filled").write_bytes(b"x" * 2000)
    refuses(SkillvizError, None, work, folder.path)
    assert [(ended.record.status, ended.record.error.kind) for ended in store.unfinished()] == [("failed", "OverQuota")]


def test_open_jobs_are_counted_and_ended_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    monkeypatch.setenv(OPEN_JOBS_VARIABLE, "2")
    fake_run(store, **SMALL)
    first, _ = store.create(SPEC), store.create(SPEC)
    refuses(
        OverQuota, "you have 2 open jobs, and 2 may be queued or running; wait until one ends", jobs.start, SPEC, store
    )
    first.cancel()
    quota.refuse_job(store)
    store.create(SPEC)
    refuses(OverQuota, None, jobs.resume, store, first.id)


@pytest.mark.parametrize("act", ["start", "resume"])
def test_tabs_at_once_do_not_pass_the_limit(act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without turns, all tabs would check before the first one's job exists."""
    base, tuned = (str(folder) for folder in tiny_pair(tmp_path))
    spec = RunSpec(base=base, finetuned=tuned, task=str(tiny_task(tmp_path / "task")), sizes=("5%",))
    store, look = Store(tmp_path / "runs"), quota.refuse_job
    stopped = [store.create(spec) for _ in range(4)]
    for folder in stopped:
        folder.cancel()

    def slow(store: Store) -> None:
        look(store)
        time.sleep(0.05)

    monkeypatch.setenv(OPEN_JOBS_VARIABLE, "1")
    monkeypatch.setattr(quota, "refuse_job", slow)
    monkeypatch.setattr(control.RunJob, "launch", lambda *_: None)
    monkeypatch.setattr(control.RunJob, "resume", lambda self, root, backend: RunFolder(self.path).reopen())
    with ThreadPoolExecutor(4) as tabs:
        acts = [
            tabs.submit(jobs.start, spec, store) if act == "start" else tabs.submit(jobs.resume, store, folder.id)
            for folder in stopped
        ]
    assert (
        sorted(isinstance(done.exception(), OverQuota) for done in acts),
        sum(entry.record.status == "queued" for entry in store.unfinished()),
    ) == ([False, True, True, True], 1)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Return the file of a study."""
    file = tmp_path / "study.yaml"
    file.write_text(StudySpec(**EXPERIMENTS["table1"].build(scale("small"))).yaml_text())
    return file


def test_two_starts_of_a_study_at_once_start_it_once(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[str] = []

    def launch(root: Path, path: Path, study: StudySpec, *_: object) -> None:
        if running:
            raise StoreError("it is running")
        time.sleep(0.05)
        running.append(study.name)

    monkeypatch.setattr(control.StudyJob, "launch", launch)
    monkeypatch.setattr(control, "check", lambda *_: None)
    monkeypatch.setattr(control.StudyJob, "of", lambda path: path)
    with ThreadPoolExecutor(3) as tabs:
        acts = [tabs.submit(jobs.start_study, study, Store(tmp_path / "runs")) for _ in range(3)]
    assert (sorted(isinstance(done.exception(), StoreError) for done in acts), len(running)) == ([False, True, True], 1)


def test_what_comes_counts_before_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUOTA_VARIABLE, "1 KiB")
    quota.refuse(tmp_path, more=1000)
    refuses(
        OverQuota,
        r"files \(2 KiB\) do not fit: your runs and data hold 0 KiB of 1 KiB\. Delete",
        quota.refuse,
        tmp_path,
        more=2048,
    )


def test_users_start_no_study(study: Path, tmp_path: Path) -> None:
    """A study would keep the device from the whole class for hours."""
    store = Store(store_of_user(tmp_path / "runs", user_named("i", "s")))
    refuses(BadInput, "Studies cannot be started on a shared dashboard", jobs.start_study, study, store)
    assert not store.root.exists()
