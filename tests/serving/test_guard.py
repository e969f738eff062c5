"""Tests of the guard and of uploads: what may come in, from which pages, and how much."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from skillviz.serving import guard, uploads
from skillviz.serving.settings import ANCESTORS_VARIABLE, READONLY_VARIABLE
from tests.core.by_hand import by_hand

KINDS = [field.name for field in BackMsg.DESCRIPTOR.oneofs_by_name["type"].fields]
PAYLOADS = ["deferred_file", "install_skills", "dismiss_skills_nudge", "dataframe_chunk"]


def message(kind: str, payload: str = "deferred_file", more: bytes = b"") -> bytes:
    """Return a message of a kind, with the bytes of an unknown field."""
    made = BackMsg()
    if kind == "backend_operation_request":
        getattr(made.backend_operation_request, payload).SetInParent()
    elif isinstance(getattr(made, kind), bool):
        setattr(made, kind, True)
    else:
        getattr(made, kind).SetInParent()
    assert made.WhichOneof("type") == kind
    return made.SerializeToString() + more


def through(*sent: Any, kind: str = "bytes") -> tuple[list[Any], list[Any]]:
    """Return the messages that pass the guard and reach the app, and what the guard sends back."""
    got, back = [], AsyncMock()
    receive = AsyncMock(
        side_effect=[
            {"type": "websocket.connect"},
            *[{"type": "websocket.receive", kind: each} for each in sent],
            {"type": "websocket.disconnect"},
        ]
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (each := await receive())["type"] != "websocket.disconnect":
            if each["type"] == "websocket.receive":
                got.append(each[kind])

    asyncio.run(guard.Guard(app)({"type": "websocket", "headers": []}, receive, back))
    return got, [call.args[0] for call in back.await_args_list]


RERUN, CLEAR = message("rerun_script"), message("clear_cache")
ARRIVE = [
    *(message(kind) for kind in ("rerun_script", "stop_script", "app_heartbeat", "file_urls_request")),
    *(message("backend_operation_request", payload) for payload in ("deferred_file", "dataframe_chunk")),
    CLEAR + RERUN,  # the last kind in a message counts, as it does for Streamlit
    b"\xff\xff",  # what is no message is left to Streamlit, which refuses it
    b"",
]


test_messages_of_pages_downloads_and_parts_of_tables_arrive_and_others_are_dropped = by_hand(
    *((f"message {number} arrives", ([sent], []), through, sent) for number, sent in enumerate(ARRIVE)),
    *((f"{name} is dropped", ([], []), through, sent) for name, sent in {
        "rerun and clear": RERUN + CLEAR,
        **{payload: message("backend_operation_request", payload) for payload in PAYLOADS[1:3]},
    }.items()),
)  # fmt: skip


@pytest.mark.parametrize("padding", [b"", b"\xfa\xff\x0f\x05hello", b"\xfa\xff\x0f\x00" * 10_000], ids=range(3))
@pytest.mark.parametrize(
    "kind",
    ["clear_cache", "set_run_on_save", "load_git_info", "debug_disconnect_websocket", "debug_shutdown_runtime"],
)
def test_messages_of_developers_are_dropped_and_the_next_one_arrives(kind: str, padding: bytes) -> None:
    assert through(message(kind, more=padding), RERUN, message(kind), RERUN) == ([RERUN, RERUN], [])


def test_every_kind_is_known_here() -> None:
    """A later Streamlit may add kinds; each must be reviewed before it passes."""
    assert (
        set(KINDS),
        {field.name for field in BackMsg().backend_operation_request.DESCRIPTOR.oneofs_by_name["payload"].fields},
    ) == (
        {
            *guard.OF_PAGES,
            "backend_operation_request",
            *{kind for kind in KINDS if not guard.is_of_page(message(kind))},
        },
        set(PAYLOADS),
    )


def answered(
    kind: str,
    origin: str | None = None,
    header: tuple[bytes, bytes] = (b"a", b"b"),
    path: str = "/",
    wrap: Callable[..., Any] = guard.Guard,
    asks: tuple[tuple[bytes, bytes], ...] = (),
) -> list[dict]:
    """Return the answer to a request of this origin from an app behind the guard that sends this header."""
    send = AsyncMock()

    async def app(scope: dict, receive: object, send) -> None:
        await send({"type": f"{kind}.response.start", "status": 200, "headers": [header]})

    asyncio.run(
        wrap(app)(
            {
                "type": kind,
                "method": "GET",
                "path": path,
                "headers": [*([] if origin is None else [(b"origin", origin.encode())]), *asks],
            },
            None,
            send,
        )
    )
    return [call.args[0] for call in send.await_args_list]


def test_no_other_site_may_frame_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ANCESTORS_VARIABLE, raising=False)
    assert (dict(answered("http")[0]["headers"]), answered("websocket")[0]["headers"]) == (
        {b"a": b"b", b"content-security-policy": b"frame-ancestors 'self'", b"x-frame-options": b"SAMEORIGIN"},
        [(b"a", b"b")],
    )


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example:8501", "http://", "http://["]
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    assert (answered("http", origin)[0]["status"], answered("websocket", origin)) == (
        403,
        [{"type": "websocket.close", "code": guard.POLICY, "reason": ""}],
    )


@pytest.mark.parametrize(
    ("asks", "header", "gets"),
    [
        ((), (b"content-type", b"text/html; charset=utf-8"), True),
        ((), (b"content-type", b"application/json"), False),
        (((b"accept", b"text/html,*/*"),), (b"etag", b"x"), True),  # 304: the browser's copy of the page is current
        (((b"cookie", b"skillviz_browser=x"),), (b"content-type", b"text/html"), False),
    ],
)
def test_a_browser_gets_its_cookie_with_its_first_page(asks: Any, header: Any, gets: bool) -> None:
    assert guard.BROWSER == "skillviz_browser"
    assert (b"set-cookie" in dict(answered("http", header=header, asks=asks)[0]["headers"])) is gets


def test_the_sizes_of_caches_are_nobodys_business() -> None:
    assert [answered("http", path=path)[0]["status"] for path in ("/_stcore/metrics", "/a/_stcore/metrics/")] == [
        404,
        404,
    ]


@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_a_websocket_ends_at_a_message_that_no_page_sends(kind: str) -> None:
    made = {"bytes": b"\0", "text": "x"}[kind]  # b"xx" would be a message of developers
    got, back = through(*(made * length for length in (10, guard.LONGEST, guard.LONGEST + 1)), kind=kind)
    assert ([len(each) for each in got], back) == (
        [10, guard.LONGEST],
        [{"type": "websocket.close", "code": guard.TOO_LONG}],
    )


@pytest.mark.parametrize("origin", [None, "http://localhost:8501", "http://127.0.0.1:9", "https://skills.example"])
def test_its_own_pages_are_answered(origin: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        guard.st,
        "get_option",
        {"browser.serverAddress": "skills.example", "server.address": "127.0.0.1", "server.corsAllowedOrigins": []}.get,
    )
    assert answered("http", origin)[0]["status"] == 200


def test_a_class_may_frame_it_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANCESTORS_VARIABLE, " https://class.example\n https://b.example;script-src * ")
    assert guard.frame_headers() == [(b"content-security-policy", b"frame-ancestors 'self' https://class.example")]


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
    asyncio.run(
        guard.Guard(taken)(
            {"type": "http", "method": method, "path": f"{path}/{session}/f", "headers": [*length, *headers]},
            receive,
            send,
        )
    )
    return send.await_args_list[0].args[0]["status"]


def test_who_was_shown_no_uploader_sends_nothing(shown: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert put("s", 10) == put("s", 10, path="/below/_stcore/upload_file") == 403
    shown("s")
    assert put("s", 10) == 204 and put("other", 10) == 403 and put("other", None, method="DELETE") == 204
    monkeypatch.setenv(READONLY_VARIABLE, "1")
    assert shown("read-only", file="f") is None and put("read-only", 10) == 403


def kept(files: MemoryUploadedFileManager, session: str, *sizes: int) -> None:
    """Put files of these sizes in memory; the sizes are faked, because real ones would be too large."""
    for number, size in enumerate(sizes):
        files.add_file(
            session,
            UploadedFileRec(
                str(number), "a.csv", "text/csv", type("Large", (bytes,), {"__len__": lambda self, size=size: size})()
            ),
        )


MOST, ALL = uploads.MOST_OF_ONE, uploads.MOST_OF_ALL
TABS = {"s": "ada", "t": "ada", "u": "bo", "v": ""}
UPLOADS: dict[str, tuple[dict[str, str], tuple[Any, ...], list[tuple[str, int | None, dict[str, Any], int]]]] = {
    "an upload says how long it is and is not longer": ({"s": ""}, ("s",), [
        ("s", None, {}, 411), ("s", 1, {"headers": ((b"transfer-encoding", b"chunked"),)}, 411),
        ("s", MOST + 1, {}, 413), ("s", MOST, {}, 204),
    ]),
    "one visitor has a limit in all tabs together": (TABS, ("s", MOST - 5), [
        ("s", 6, {}, 413), ("t", 6, {}, 413), ("t", 5, {}, 204), ("u", 6, {}, 204), ("v", 6, {}, 204),
    ]),
    "and a number of files": (TABS, ("u", *[1] * uploads.MOST_FILES), [("u", 1, {}, 413)]),
    "what arrives counts for all and what does not keeps nobody out": ({"s": ""}, ("others", ALL - 5), [
        ("s", 100, {"come": 6}, 413), ("s", 100, {"come": 5}, 204),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("tabs", "held", "sent"), UPLOADS.values(), ids=UPLOADS)
def test_an_upload_is_taken_where_there_is_room(files, shown: Callable[..., object], tabs, held, sent) -> None:
    for session, owner in tabs.items():
        shown(session, owner=owner)
    kept(files, *held)
    assert [put(session, size, **more) for session, size, more, _ in sent] == [status for *_, status in sent]


def test_what_is_under_way_counts_for_who_sends_it(shown: Callable[..., object]) -> None:
    for session in "st":
        shown(session)
    rooms: list[bool] = []
    asked, large = (("s", 6), ("s", 5), ("t", 6)), uploads.MOST_OF_ONE - 5
    assert (put("s", large, meanwhile=lambda: rooms.extend(uploads._has_room(*one) for one in asked)), rooms) == (
        204,
        [False, True, True],
    ) and uploads._has_room("s", 6)


def test_the_file_that_an_uploader_had_before_goes(files, shown: Callable[..., object]) -> None:
    """This happens if the page is left and comes back empty."""
    kept(files, "s", 1, 2, 3)  # 0, 1 and 2 by name
    for file, key, left in (("0", "train", "012"), ("1", "test", "012"), ("", "train", "12"), ("2", "test", "2")):
        shown("s", file=file, key=key)
        assert set(files.file_storage["s"]) == set(left), (file, key)
