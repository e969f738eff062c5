"""Tests of slow downloads: each is made once, one at a time, for an open tab; if the wait is long it is refused."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.run import Run
from skillviz.runs.store import Library, Store
from skillviz.serving import visitor
from skillviz.serving.downloads import Downloads, Refused
from skillviz.show.bundle import bundle
from skillviz.ui import cache, exports
from tests.runs.conftest import made

__all__ = ["made"]


class Tab:
    """A tab of this name, which is open until the test closes it."""

    def __init__(self, name: str) -> None:
        self.id, self.is_open = name, True


class Slow:
    """A download that runs until the test releases it, and counts concurrent calls."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Event()
        self.calls, self.now, self.most, self.lock = 0, 0, 0, threading.Lock()

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


def begun(get: Callable[[], bytes]) -> tuple[threading.Thread, list[object]]:
    """Start a download; return its thread and the list that will hold its outcome."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(get())
        except Refused as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_twelve_clicks_hold_one_thread_and_everybody_else_waits_for_few() -> None:
    downloads, slow = Downloads(most_waiting=3), Slow()
    first = begun(lambda: downloads.get("a", Tab("one"), slow))
    assert slow.begun.acquire(timeout=10)
    for _ in range(11):
        with pytest.raises(Refused, match="other downloads"):
            downloads.get("a", Tab("one"), slow)
    others = [begun(lambda name=name: downloads.get(name, Tab(name), slow)) for name in ("two", "three")]
    while len(downloads._tabs) < 3:
        pass
    with pytest.raises(Refused):
        downloads.get("b", Tab("four"), slow)
    slow.go.set()
    for thread, _ in (first, *others):
        thread.join(10)
    assert [outcome for _, outcome in (first, *others)] == [[b"done"]] * 3
    assert (slow.calls, slow.most) == (3, 1) and not downloads._tabs


def test_the_same_selection_is_made_once() -> None:
    downloads, slow = Downloads(), Slow()
    threads = [begun(lambda name=name: downloads.get("same", Tab(name), slow)) for name in ("one", "two")]
    assert slow.begun.acquire(timeout=10)
    slow.go.set()
    for thread, outcome in threads:
        thread.join(10)
        assert outcome == [b"done"]
    assert downloads.get("same", Tab("three"), slow) == b"done" and slow.calls == 1
    assert downloads.get("other", Tab("three"), slow) == b"done" and slow.calls == 2
    assert downloads.get(None, Tab("three"), slow) == downloads.get(None, Tab("three"), slow) and slow.calls == 4


@pytest.mark.parametrize("is_first", [True, False])
def test_what_a_closed_tab_asked_for_is_not_made(is_first: bool) -> None:
    """A closed tab ends its download, both while it is being made and while it waits."""
    downloads, slow = Downloads(), Slow()
    one, two = Tab("one"), Tab("two")
    first = begun(lambda: downloads.get("a", one, slow))
    assert slow.begun.acquire(timeout=10)
    second = begun(lambda: downloads.get("b", two, slow))
    (one if is_first else two).is_open = False
    closed, other = (first, second) if is_first else (second, first)
    closed[0].join(10)
    slow.go.set()
    other[0].join(10)
    assert isinstance(closed[1][0], Refused) and "closed" in str(closed[1][0]) and other[1] == [b"done"]
    assert not downloads._tabs


def test_memory_has_a_limit() -> None:
    downloads = Downloads(most_kept=10)
    for name in ("a", "b", "c"):
        downloads.get(name, Tab("t"), lambda file: file.write(b"1234"))
    assert list(downloads._kept) == ["b", "c"]
    downloads.get("large", Tab("t"), lambda file: file.write(b"1" * 11))
    assert list(downloads._kept) == ["b", "c"]


def test_an_error_holds_up_nobody() -> None:
    downloads = Downloads()

    def wrong(file: io.BytesIO) -> None:
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            downloads.get("a", Tab("t"), wrong)
    assert downloads.get("a", Tab("t"), lambda file: file.write(b"x")) == b"x"


def test_what_is_packed_already_is_not_packed_again(made: Run) -> None:
    file = io.BytesIO()
    bundle([made], Library([Store(made.path.parent)]), file, reports={}, grafts={})
    kinds = {info.filename: info.compress_type for info in ZipFile(file).infolist()}
    assert {kind for name, kind in kinds.items() if name.endswith((".parquet", ".safetensors"))} == {ZIP_STORED}
    assert {kind for name, kind in kinds.items() if name.endswith((".csv", ".json"))} == {ZIP_DEFLATED}


@pytest.mark.parametrize(("is_local", "count", "refused"), [(True, 60, False), (False, 60, True), (False, 50, False)])
def test_a_visitor_s_selection_has_a_limit(
    made: Run, monkeypatch: pytest.MonkeyPatch, is_local: bool, count: int, refused: bool
) -> None:
    monkeypatch.setattr(visitor, "is_local", lambda: is_local)
    assert ("60 runs" in exports._too_much([made] * count)) == refused


def test_two_buttons_for_the_same_runs_make_one_zip(
    made: Run, monkeypatch: pytest.MonkeyPatch, user_runs: Path
) -> None:
    asked: list[object] = []
    downloads = Downloads()
    monkeypatch.setattr(exports, "DOWNLOADS", downloads)
    monkeypatch.setattr(exports, "bundle", lambda runs, seen, file, **more: asked.append(runs) or file.write(b"zip"))
    seen = Library([Store(made.path.parent)])
    for name in ("one", "two"):
        assert exports._zipped([made], {}, seen, Tab(name)) == b"zip"
    assert asked == [[made]]
    exports._zipped([made], {made.id: lambda: b"report"}, seen, Tab("one"))
    assert len(asked) == 2, "a report depends on other runs, too"


def test_the_button_is_drawn(made: Run, monkeypatch: pytest.MonkeyPatch, user_runs: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("SKILLVIZ_RUNS", str(made.path.parent))
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "nothing")

    def script() -> None:
        from skillviz.ui import cache, exports

        runs = cache.runs(entry.id for entry in cache.entries())
        exports.zip_button("Download (zip)", runs, file="runs", key="zip", help="All of it.")

    test = AppTest.from_function(script, default_timeout=60).run()
    assert not test.exception and test.get("download_button")[0].proto.label == "Download (zip)"
    assert cache is not None
