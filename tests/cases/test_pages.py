"""Tests of pages: they run no model until asked, name no task outside the folders, read a record once in large stores,
and make a slow download once, one at a time, for an open tab."""

import io
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz import json_text
from skillviz.errors import BadInput
from skillviz.runs import run as runs
from skillviz.runs.run import RECORD, with_checksum
from skillviz.runs.store import Library
from skillviz.serving import visitor
from skillviz.serving.downloads import Downloads, Refused
from skillviz.show import measures
from skillviz.show.bundle import bundle
from skillviz.ui import cache, exports, live
from skillviz.ui.other_tasks import offered
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages import tasks as tasks_view
from skillviz.ui.pages.studies import start
from tests.cases.build import LABEL_WORDS, Run, Store, refuses, tiny_task
from tests.fake_run import fake_run
from tests.runs.conftest import made as a_run
from tests.serving.test_visitor import outside
from tests.studies.fake_study import fake_study
from tests.ui import driven
from tests.ui.conftest import ids, made, nobody_waits
from tests.ui.driven import box, button, filled, pressed, said
from tests.ui.shared_store import SMALL

Asked = list[tuple[str, dict[str, Any]]]


def opened(page: str, **query: str) -> AppTest:
    test = driven.opened(page, **{name.replace("_", "."): value for name, value in query.items()})
    assert not test.exception
    return test


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Record the operations that pages request from the models; both models are present and give no answer."""
    asked: Asked = []
    monkeypatch.setattr(live, "ask", lambda run, operation, **arguments: asked.append((operation, arguments)))
    monkeypatch.setattr(live, "has_models", lambda run: True)
    return asked


RUN_PAGES = [page for page in PAGES if page not in ("home", "launch", "jobs", "studies", "runs", "tour")]


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("page", RUN_PAGES)
@pytest.mark.parametrize("name", ["stagewise0", "paraphrase"])
def test_opening_a_page_asks_for_nothing(page: str, name: str, ids: dict[str, str], questions: Asked) -> None:
    opened(page, run=ids[name])
    assert questions == []


def test_surgery_scores_a_region_when_asked_and_another_one_when_asked_again(
    ids: dict[str, str], questions: Asked
) -> None:
    test = opened("surgery", run=ids["movement"], sample="50")
    assert "2 random regions of its size on 50 of 120 test examples" in said(test, "caption") and not questions
    pressed(test, "Score this graft")
    ((operation, arguments),) = questions
    assert (operation, arguments["sample"], test.query_params["score"]) == ("evaluate_region", 50, "yes")
    questions.clear()
    test.selectbox(key="surgery.field.how").select("parts").run()
    test.multiselect(key="surgery.field.layers").select(1).run()
    assert not questions and "score" not in test.query_params and button(test, "Score this graft")
    assert filled(test, "Localizer", "random") and not questions, "another run is another question"


def test_a_link_to_scores_brings_them(ids: dict[str, str], questions: Asked) -> None:
    opened("surgery", run=ids["movement"], score="yes")
    assert [operation for operation, _ in questions] == ["evaluate_region"]


def test_transfer_scores_a_task_when_asked(ids: dict[str, str], questions: Asked) -> None:
    test = opened("transfer", run=ids["paraphrase"], also="qqp", map_qqp_duplicate="yes")
    for field in test.selectbox:  # this choice's labels have other names
        if field.label in ("duplicate", "not duplicate", "equivalent", "not equivalent"):
            field.select("yes").run()
    assert not questions and "Scores the base, the graft" in said(test, "caption")
    pressed(test, "Score this task")
    assert [operation for operation, _ in questions] == ["transfer"]


def test_a_union_of_tasks_is_scored_when_asked(empty: Path, questions: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_study(empty, "figure8", tables=("overlap", "isolation", "gain", "stability", "scores", "note"))
    tasks = ("sst2_sentences", "cr", "ag_news", "qnli")
    made = {task: fake_run(Store(empty), seed=seed, sizes=("5%",), **SMALL) for seed, task in enumerate(tasks)}
    monkeypatch.setattr(tasks_view, "regions_of", lambda tables: {task: made[task] for task in tables.tasks})
    test = opened("tasks", union="sst2_sentences~ag_news")
    assert not questions and "The union of SST-2 sentences and AG News is not stored." in said(test, "caption")
    assert "the test sets of 4 tasks, 480 examples in all" in said(test, "caption")
    pressed(test, "Score this union")
    assert [operation for operation, _ in questions] == ["union"]


def test_paths_that_were_asked_for_on_one_run_are_not_computed_on_another(
    ids: dict[str, str], questions: Asked
) -> None:
    test = opened("interpolation", run=ids["movement"])
    pressed(test, "Score the paths")
    assert [operation for operation, _ in questions] == ["wise_grid"]
    questions.clear()
    assert filled(test, "Localizer", "random").query_params["run"] == ids["random"] and not questions


LABELS = tuple(f"class-{word}" for word in LABEL_WORDS[:2])


def named_task(folder: Path, name: str) -> Path:
    path = tiny_task(folder / f"{name}-data", rows=8)
    task = yaml.safe_load(path.read_text())
    data = {split: str(path.parent / file) for split, file in task["data"].items()}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**task, "name": name, "data": data}))
    return folder / f"{name}.yaml"


@pytest.fixture
def run(outside: Path, empty: Path) -> str:
    """Return the id of a run whose task is outside the folders, beside another task with the same labels."""
    named_task(outside, "beside")
    return fake_run(Store(empty), task=str(named_task(outside, "own")), labels=LABELS, sizes=("5%",), **SMALL).id


ADDRESSES = {
    "transfer": {"also": "FILE"},
    "launch, its task": {"new_from": "own", "new_source": "file", "new_file": "FILE"},
    "launch, other tasks": {"new_from": "own", "new_source": "known", "new_known": "sst2", "new_also": "FILE"},
    "studies, their tasks": {"own_tasks": "FILE"},
    "studies, other tasks": {"own_also": "FILE"},
    "studies, a file": {"new_study": "file", "new_file": "FILE"},
}


def opened_with(place: str, run: str, file: Path) -> AppTest:
    query = {name: value.replace("FILE", str(file)) for name, value in ADDRESSES[place].items()}
    test = opened(place.partition(",")[0], run=run, **query)
    assert "is outside the folders that this dashboard may read" in said(test, "error", "warning")
    return test


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("place", ADDRESSES)
def test_an_address_names_no_task_outside_the_folders(place: str, run: str, outside: Path) -> None:
    test = opened_with(place, run, outside / "beside.yaml")
    assert not [button for button in test.button if button.label.startswith(("Start", "Score")) and not button.disabled]


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize("place", [name for name in ADDRESSES if name != "studies, a file"])
def test_a_task_inside_names_no_data_outside(place: str, run: str, outside: Path, tmp_path: Path) -> None:
    opened_with(place, run, shutil.copy(outside / "beside.yaml", tmp_path / "inside.yaml"))


def test_a_studys_file_names_no_data_outside(run: str, outside: Path, tmp_path: Path) -> None:
    file = shutil.copy(outside / "beside.yaml", tmp_path / "inside.yaml")
    entry = f"- {{task: {file}, base: b, finetuned: f, localizer: movement, sizes: ['1%']}}"
    refuses(BadInput, "outside the folders", start.uploaded, "own.yaml", f"name: own\nruns:\n{entry}\n".encode())


def test_transfer_lists_what_may_be_read(run: str, empty: Path, outside: Path, tmp_path: Path) -> None:
    assert str(outside) not in str([row.named for row in offered(Store(empty).open(run))])
    own, _ = (named_task(tmp_path, name) for name in ("own", "near"))
    inside = fake_run(Store(empty), task=str(own), labels=LABELS, sizes=("5%",), seed=3, **SMALL).id
    asked = [box(opened("transfer", run=one), "Score another task now") for one in (run, inside)]
    assert "beside" not in asked[0].options and "near" in asked[1].options


MANY = 2300  # more than any cache ever held


def copied(made: Run, root: Path, count: int) -> Store:
    """Return a store of `count` copies of a run, with links to its files."""
    content = json.loads((made.path / RECORD).read_text())
    for number in range(count):
        name = f"{made.id}-{number:05}"
        (root / name).mkdir(parents=True)
        for file in made.files:
            os.link(made.path / file, root / name / file)
        changed = content | {"run_id": name, "spec": content["spec"] | {"seed": number}}
        (root / name / RECORD).write_text(json.dumps(with_checksum(changed)))
    return Store(root)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each run.json was read since the last `clear`."""
    read, real = Counter[str](), json_text.read

    def counted(path: Path) -> object:
        read[path.parent.name] += path.name == RECORD
        return real(path)

    monkeypatch.setattr(json_text, "read", counted)
    return read


def changed(store: Store, run_id: str) -> str:
    """Move the modification time of the run's record by one second; return the run's id."""
    place = store.root / run_id / RECORD
    later = place.stat().st_mtime_ns + 10**9
    os.utime(place, ns=(later, later))
    return run_id


@pytest.mark.nightly
def test_a_list_that_is_longer_than_any_cache_is_read_once(a_run: Run, tmp_path: Path, reads: Counter[str]) -> None:
    store = copied(a_run, tmp_path / "many", MANY)
    assert len(store.list()) == MANY and set(reads.values()) == {1} and len(reads) == MANY
    reads.clear()
    for _ in range(2):
        assert (len(store.list()), store.unfinished(), +reads) == (MANY, [], {}), "nothing has changed"
    assert len(store.list()) == MANY and +reads == {changed(store, store.list()[MANY // 2].id): 1}


def test_records_of_deleted_runs_are_not_kept(a_run: Run, tmp_path: Path) -> None:
    store = copied(a_run, tmp_path / "some", 12)
    for run in store.list()[:5]:
        store.delete(run.id)
    assert len(store.list()) == 7 == len(runs._kept[store.root])


@pytest.fixture
def own(a_run: Run, empty: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(cache, "SCAN_SECONDS", -1)
    return copied(a_run, empty, 40)


def test_after_a_change_pages_look_at_that_run_alone(
    own: Store, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = [brief.id for brief in cache.briefs()], cache.brief_of
    assert len(before) == 40
    reads.clear()
    looked: list[str] = []
    monkeypatch.setattr(cache, "brief_of", lambda run, **more: looked.append(run.id) or real(run, **more))
    one = changed(own, before[17])
    assert [brief.id for brief in cache.briefs()] == before and looked == [one] == [*+reads]
    own.delete(one)
    assert {brief.id for brief in cache.briefs()} == {*before} - {one} and looked == [one]


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("page", ["jobs", "runs", "overview", "home"])
def test_a_page_reads_no_record_twice(own: Store, page: str, reads: Counter[str]) -> None:
    first, other = own.list()[0].id, own.list()[20].id
    opened(page, run=first)
    reads.clear()
    opened(page, run=first)
    assert not +reads
    changed(own, other)
    opened(page, run=first)
    assert +reads == {other: 1}


def test_the_page_of_jobs_looks_at_the_files_of_no_finished_run(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.briefs()
    seen, real = list[str](), Store._scan

    def scanned(self: Store, *args: object, **more: object) -> object:
        briefs = real(self, *args, **more)  # type: ignore[arg-type]
        seen.extend(brief.path.name for brief in briefs)
        return briefs

    monkeypatch.setattr(Store, "_scan", scanned)
    assert len(opened("jobs").dataframe[0].value) == 40 and seen == []


def test_the_curves_of_a_pair_are_each_read_once(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read, real = list[str](), Run.curve
    monkeypatch.setattr(Run, "curve", lambda self: read.append(self.id) or real(self))
    monkeypatch.setattr(cache, "TABLE_READS", 1)
    for run in own.list() * 2:
        cache.curve(run)
    assert sorted(read) == sorted(run.id for run in own.list())


def test_one_curve_of_many_runs_is_that_of_each(own: Store) -> None:
    briefs = cache.briefs()[:3]
    curves = [cache.curve(run) for run in cache.runs(brief.id for brief in briefs)]
    curves[1] = curves[1].iloc[:0]
    whole, sizes = measures.pair_curve(briefs, curves, "test"), [sum(curve["split"] == "test") for curve in curves]
    assert sizes == [len(whole), 0, len(whole)] and len(whole) > 0, "equal rows of two runs are one"
    assert set(whole["localizer"]) == {briefs[0].localizer} == {briefs[2].localizer}


class Tab:
    """A tab of this name, which is open until the test closes it."""

    def __init__(self, name: str) -> None:
        self.id, self.is_open = name, True


class Slow:
    """A download that runs until the test releases it, and counts concurrent calls."""

    def __init__(self) -> None:
        self.begun, self.go, self.lock = threading.Semaphore(0), threading.Event(), threading.Lock()
        self.calls, self.now, self.most = 0, 0, 0

    def __call__(self, file: io.BytesIO) -> None:
        with self.lock:
            self.calls, self.now = self.calls + 1, self.now + 1
            self.most = max(self.most, self.now)
        self.begun.release()
        try:
            while not self.go.wait(0.01):
                file.write(b"")
            file.write(b"done")
        finally:
            with self.lock:
                self.now -= 1


Begin = Callable[..., Future[bytes]]


@pytest.fixture
def begin() -> Any:
    with ThreadPoolExecutor(8) as threads:
        yield lambda downloads, *asked: threads.submit(downloads.get, *asked)


def test_twelve_clicks_hold_one_thread_and_everybody_else_waits_for_few(begin: Begin) -> None:
    downloads, slow = Downloads(most_waiting=3), Slow()
    first = begin(downloads, "a", Tab("one"), slow)
    assert slow.begun.acquire(timeout=10)
    for _ in range(11):
        refuses(Refused, "other downloads", downloads.get, "a", Tab("one"), slow)
    others = [begin(downloads, name, Tab(name), slow) for name in ("two", "three")]
    while len(downloads._tabs) < 3:
        pass
    refuses(Refused, None, downloads.get, "b", Tab("four"), slow)
    slow.go.set()
    assert [download.result(10) for download in (first, *others)] == [b"done"] * 3
    assert (slow.calls, slow.most) == (3, 1) and not downloads._tabs


def test_the_same_selection_is_made_once(begin: Begin) -> None:
    downloads, slow = Downloads(), Slow()
    both = [begin(downloads, "same", Tab(name), slow) for name in ("one", "two")]
    assert slow.begun.acquire(timeout=10)
    slow.go.set()
    assert [download.result(10) for download in both] == [b"done"] * 2
    made = [(downloads.get(key, Tab("three"), slow), slow.calls) for key in ("same", "other", None, None)]
    assert made == [(b"done", calls) for calls in (1, 2, 3, 4)]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_a_closed_tab_asked_for_is_not_made(is_first: bool, begin: Begin) -> None:
    downloads, slow, tabs = Downloads(), Slow(), (Tab("one"), Tab("two"))
    first = begin(downloads, "a", tabs[0], slow)
    assert slow.begun.acquire(timeout=10)
    second = begin(downloads, "b", tabs[1], slow)
    tabs[not is_first].is_open = False
    closed, other = (first, second) if is_first else (second, first)
    refuses(Refused, "closed", closed.result, 10)
    slow.go.set()
    assert other.result(10) == b"done" and not downloads._tabs


def test_memory_has_a_limit() -> None:
    downloads = Downloads(most_kept=10)
    assert [
        downloads.get(name, Tab("t"), lambda file, size=size: file.write(b"1" * size)) and list(downloads._kept)
        for name, size in (("a", 4), ("b", 4), ("c", 4), ("large", 11))
    ] == [["a"], ["a", "b"], ["b", "c"], ["b", "c"]]


def test_an_error_holds_up_nobody() -> None:
    downloads = Downloads()
    for _ in range(2):
        refuses(ValueError, None, downloads.get, "a", Tab("t"), Mock(side_effect=ValueError))
    assert downloads.get("a", Tab("t"), lambda file: file.write(b"x")) == b"x"


def test_what_is_packed_already_is_not_packed_again(a_run: Run) -> None:
    file = io.BytesIO()
    bundle([a_run], Library([Store(a_run.path.parent)]), file, reports={}, grafts={})
    kinds = {(Path(info.filename).suffix, info.compress_type) for info in ZipFile(file).infolist()}
    packed = {".parquet": ZIP_STORED, ".safetensors": ZIP_STORED, ".csv": ZIP_DEFLATED, ".json": ZIP_DEFLATED}
    assert {(ending, kind) for ending, kind in kinds if ending in packed} == set(packed.items())


@pytest.mark.parametrize(("is_local", "count", "refused"), [(True, 60, False), (False, 60, True), (False, 50, False)])
def test_a_visitor_s_selection_has_a_limit(
    a_run: Run, monkeypatch: pytest.MonkeyPatch, is_local: bool, count: int, refused: bool
) -> None:
    monkeypatch.setattr(visitor, "is_local", lambda: is_local)
    assert (f"{count} runs" in exports._too_much([a_run] * count)) == refused


def test_two_buttons_for_the_same_runs_make_one_zip(a_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(exports, "DOWNLOADS", Downloads())
    monkeypatch.setattr(exports, "bundle", lambda runs, seen, file, **more: asked.append(runs) or file.write(b"zip"))
    seen = Library([Store(a_run.path.parent)])
    assert ([exports._zipped([a_run], {}, seen, Tab(name)) for name in ("one", "two")], asked) == (
        [b"zip"] * 2, [[a_run]],
    )  # fmt: skip
    exports._zipped([a_run], {a_run.id: lambda: b"report"}, seen, Tab("one"))
    assert len(asked) == 2, "a report depends on other runs, too"


def test_the_button_is_drawn(a_run: Run, monkeypatch: pytest.MonkeyPatch, empty: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(a_run.path.parent))

    def script() -> None:
        from skillviz.ui import cache, exports

        runs = cache.runs(brief.id for brief in cache.briefs())
        exports.zip_button("Download (zip)", runs, file="runs", key="zip", help="All of it.")

    test = driven.opened(script)
    assert not test.exception and test.get("download_button")[0].proto.label == "Download (zip)"
