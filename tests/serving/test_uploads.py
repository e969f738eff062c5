"""Tests of uploads: only visitors with an open uploader can send files, and files in memory have a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from skillviz.serving import guard, uploads
from skillviz.serving.settings import READONLY_VARIABLE

FOLDER = "/_stcore/upload_file"


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryUploadedFileManager]:
    """Return Streamlit's store of files, empty; no tab has an uploader yet."""
    store = MemoryUploadedFileManager(FOLDER)
    monkeypatch.setattr(uploads, "_tabs", {})
    monkeypatch.setattr(uploads, "exists", lambda: True)
    monkeypatch.setattr(uploads, "Runtime", SimpleNamespace(instance=lambda: SimpleNamespace(uploaded_file_mgr=store)))
    yield store
    assert not uploads._under_way, "what has come counts no more"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Return a function that draws an uploader in a tab, which then has this file."""

    def show(session: str, file: str = "", owner: str = "", key: str = "train") -> object:
        monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: SimpleNamespace(session_id=session))
        given = SimpleNamespace(file_id=file) if file else None
        monkeypatch.setattr(uploads.st, "file_uploader", lambda *words, **settings: given)
        return uploads.uploader("File", ["csv"], key=key, megabytes=3, owner=owner)

    return show


def put(
    session: str,
    size: int | None,
    *,
    path: str = FOLDER,
    method: str = "PUT",
    come: int = 0,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    """Return the status of an upload behind the guard that announces `size` bytes and sends `come`."""
    receive = AsyncMock(return_value={"type": "http.request", "body": b"x" * come, "more_body": False})
    send = AsyncMock()

    async def taken(scope: dict, receive, send) -> None:
        await receive()
        meanwhile()
        await send({"type": "http.response.start", "status": 204, "headers": []})

    length = () if size is None else ((b"content-length", str(size).encode()),)
    scope = {"type": "http", "method": method, "path": f"{path}/{session}/f", "headers": [*length, *headers]}
    asyncio.run(guard.Guard(taken)(scope, receive, send))
    return send.await_args_list[0].args[0]["status"]


def test_who_was_shown_no_uploader_sends_nothing(shown: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert put("s", 10) == put("s", 10, path="/below/_stcore/upload_file") == 403
    shown("s")
    assert put("s", 10) == 204 and put("other", 10) == 403 and put("other", None, method="DELETE") == 204
    monkeypatch.setenv(READONLY_VARIABLE, "1")
    assert shown("read-only", file="f") is None and put("read-only", 10) == 403


def test_an_upload_says_how_long_it_is_and_is_not_longer(shown: Callable[..., object]) -> None:
    shown("s")
    assert put("s", None) == put("s", 1, headers=((b"transfer-encoding", b"chunked"),)) == 411
    assert put("s", uploads.MOST_OF_ONE + 1) == 413 and put("s", uploads.MOST_OF_ONE) == 204


def kept(files: MemoryUploadedFileManager, session: str, *sizes: int) -> None:
    """Put files of these sizes in memory; the sizes are faked, because real ones would be too large."""
    for number, size in enumerate(sizes):
        data = type("Large", (bytes,), {"__len__": lambda self, size=size: size})()
        files.add_file(session, UploadedFileRec(str(number), "a.csv", "text/csv", data))


def test_one_visitor_has_a_limit_in_all_tabs_together(files, shown: Callable[..., object]) -> None:
    for session, owner in (("s", "ada"), ("t", "ada"), ("u", "bo"), ("v", "")):
        shown(session, owner=owner)
    kept(files, "s", uploads.MOST_OF_ONE - 5)
    assert put("s", 6) == put("t", 6) == 413 and put("t", 5) == put("u", 6) == put("v", 6) == 204
    kept(files, "u", *[1] * uploads.MOST_FILES)
    assert put("u", 1) == 413


def test_what_is_under_way_counts_for_who_sends_it(shown: Callable[..., object]) -> None:
    for session in "st":
        shown(session)
    rooms: list[bool] = []
    asked, large = (("s", 6), ("s", 5), ("t", 6)), uploads.MOST_OF_ONE - 5
    assert put("s", large, meanwhile=lambda: rooms.extend(uploads._has_room(*one) for one in asked)) == 204
    assert rooms == [False, True, True] and uploads._has_room("s", 6)


def test_what_arrives_counts_for_all_and_what_does_not_keeps_nobody_out(files, shown: Callable[..., object]) -> None:
    shown("s")
    kept(files, "others", uploads.MOST_OF_ALL - 5)
    assert put("s", 100, come=6) == 413 and put("s", 100, come=5) == 204


def test_the_file_that_an_uploader_had_before_goes(files, shown: Callable[..., object]) -> None:
    """This happens if the page is left and comes back empty."""
    kept(files, "s", 1, 2, 3)  # 0, 1 and 2 by name
    for file, key, left in (("0", "train", "012"), ("1", "test", "012"), ("", "train", "12"), ("2", "test", "2")):
        shown("s", file=file, key=key)
        assert set(files.file_storage["s"]) == set(left), (file, key)
