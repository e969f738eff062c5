"""Uploads: only whoever was shown an uploader sends files, and files in memory have a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from skillviz.ui import server, uploads


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(uploads, "_shown", {})
    monkeypatch.setattr(uploads, "_held", dict)
    yield
    assert not uploads._coming, "what has come is counted no more"


def put(session: str, size: int | None, *, path: str = "/_stcore/upload_file", method: str = "PUT", app=None) -> int:
    """The status of an upload of so many bytes behind the guard."""
    sent: list[dict] = []

    async def taken(scope: dict, receive: object, send) -> None:
        if app:
            app()
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(message) -> None:
        sent.append(message)

    headers = [] if size is None else [(b"content-length", str(size).encode())]
    scope = {"type": "http", "method": method, "path": f"{path}/{session}/f", "headers": headers}
    asyncio.run(server.Guard(taken)(scope, None, send))
    return sent[0]["status"]


def test_who_was_shown_no_uploader_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert put("s", 10) == put("s", 10, path="/below/_stcore/upload_file") == 403
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: SimpleNamespace(session_id="s"))
    monkeypatch.setattr(uploads.st, "file_uploader", lambda *args, **settings: settings["max_upload_size"])
    assert uploads.uploader("File", ["csv"], megabytes=3) == 3
    assert put("s", 10) == 204 and put("other", 10) == 403
    assert put("other", None, method="DELETE") == 204


def test_one_visitor_and_all_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    uploads._shown |= dict.fromkeys(("s", "t"))
    assert put("s", None) == 411 and put("s", uploads.MOST_OF_ONE + 1) == 413 and put("s", 1) == 204
    held = {"s": [uploads.MOST_OF_ONE - 5]}
    monkeypatch.setattr(uploads, "_held", lambda: held)
    assert put("s", 6) == 413 and put("s", 5) == put("t", 6) == 204
    held["s"] = [1] * uploads.MOST_FILES
    assert put("s", 1) == 413 and put("t", 1) == 204
    held["s"] = [uploads.MOST_OF_ALL - 5]
    assert put("t", 6) == 413 and put("t", 5) == 204


def test_what_is_still_coming_counts() -> None:
    uploads._shown["s"] = None
    while_it_comes = []
    assert put("s", uploads.MOST_OF_ONE - 5, app=lambda: while_it_comes.append(uploads._refused("s", 6))) == 204
    assert while_it_comes[0] is not None and while_it_comes[0][0] == 413 and uploads._refused("s", 6) is None


def test_the_sizes_of_caches_are_nobodys_business() -> None:
    assert put("s", None, path="/_stcore/metrics/../..", method="GET") == 204
    sent: list[dict] = []

    async def send(message) -> None:
        sent.append(message)

    asyncio.run(
        server.Guard(None)({"type": "http", "method": "GET", "path": "/_stcore/metrics", "headers": []}, None, send)
    )
    assert sent[0]["status"] == 404


def test_files_are_counted_where_streamlit_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
    from streamlit.runtime.uploaded_file_manager import UploadedFileRec

    monkeypatch.undo()
    files = MemoryUploadedFileManager("/")
    files.add_file("s", UploadedFileRec("1", "a.csv", "text/csv", b"12345"))
    runtime = SimpleNamespace(instance=lambda: SimpleNamespace(uploaded_file_mgr=files))
    monkeypatch.setattr(uploads, "Runtime", runtime)
    monkeypatch.setattr(uploads, "exists", lambda: True)
    assert uploads._held() == {"s": [5]}
