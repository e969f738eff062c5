"""Tests of the guard: other sites are refused, and messages that affect others or the server are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from skillviz.serving import guard
from skillviz.serving.settings import ANCESTORS_VARIABLE

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
    received = [{"type": "websocket.receive", kind: each} for each in sent]
    got, back = [], AsyncMock()
    receive = AsyncMock(side_effect=[{"type": "websocket.connect"}, *received, {"type": "websocket.disconnect"}])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (each := await receive())["type"] != "websocket.disconnect":
            if each["type"] == "websocket.receive":
                got.append(each[kind])

    asyncio.run(guard.Guard(app)({"type": "websocket", "headers": []}, receive, back))
    return got, [call.args[0] for call in back.await_args_list]


RERUN, CLEAR = message("rerun_script"), message("clear_cache")
OF_DEVELOPERS = (
    "clear_cache", "set_run_on_save", "load_git_info", "debug_disconnect_websocket", "debug_shutdown_runtime",
)  # fmt: skip
ARRIVE = [
    *(message(kind) for kind in ("rerun_script", "stop_script", "app_heartbeat", "file_urls_request")),
    *(message("backend_operation_request", payload) for payload in ("deferred_file", "dataframe_chunk")),
    CLEAR + RERUN,  # the last kind in a message counts, as it does for Streamlit
    b"\xff\xff",  # what is no message is left to Streamlit, which refuses it
    b"",
]


@pytest.mark.parametrize("sent", ARRIVE, ids=range(len(ARRIVE)))
def test_messages_of_pages_downloads_and_parts_of_tables_arrive(sent: bytes) -> None:
    assert through(sent) == ([sent], [])


@pytest.mark.parametrize("padding", [b"", b"\xfa\xff\x0f\x05hello", b"\xfa\xff\x0f\x00" * 10_000], ids=range(3))
@pytest.mark.parametrize("kind", OF_DEVELOPERS)
def test_messages_of_developers_are_dropped_and_the_next_one_arrives(kind: str, padding: bytes) -> None:
    assert through(message(kind, more=padding), RERUN, message(kind), RERUN) == ([RERUN, RERUN], [])


@pytest.mark.parametrize(
    "sent",
    [RERUN + CLEAR, *(message("backend_operation_request", payload) for payload in PAYLOADS[1:3])],
    ids=["rerun and clear", *PAYLOADS[1:3]],
)
def test_other_messages_are_dropped(sent: bytes) -> None:
    assert through(sent) == ([], [])


def test_every_kind_is_known_here() -> None:
    """A later Streamlit may add kinds; each must be reviewed before it passes."""
    dropped = {kind for kind in KINDS if not guard.is_of_page(message(kind))}
    assert set(KINDS) == {*guard.OF_PAGES, "backend_operation_request", *dropped}
    named = {field.name for field in BackMsg().backend_operation_request.DESCRIPTOR.oneofs_by_name["payload"].fields}
    assert named == set(PAYLOADS)


def answered(
    kind: str,
    origin: str | None = None,
    header: tuple[bytes, bytes] = (b"a", b"b"),
    path: str = "/",
    wrap: Callable[..., Any] = guard.Guard,
) -> list[dict]:
    """Return the answer to a request of this origin from an app behind the guard that sends this header."""
    send = AsyncMock()

    async def app(scope: dict, receive: object, send) -> None:
        await send({"type": f"{kind}.response.start", "status": 200, "headers": [header]})

    headers = [] if origin is None else [(b"origin", origin.encode())]
    asyncio.run(wrap(app)({"type": kind, "method": "GET", "path": path, "headers": headers}, None, send))
    return [call.args[0] for call in send.await_args_list]


def test_no_other_site_may_frame_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ANCESTORS_VARIABLE, raising=False)
    assert dict(answered("http")[0]["headers"]) == {
        b"a": b"b", b"content-security-policy": b"frame-ancestors 'self'", b"x-frame-options": b"SAMEORIGIN",
    }  # fmt: skip
    assert answered("websocket")[0]["headers"] == [(b"a", b"b")]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example:8501", "http://", "http://["]
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    assert answered("http", origin)[0]["status"] == 403
    assert answered("websocket", origin) == [{"type": "websocket.close", "code": guard.POLICY, "reason": ""}]


def test_the_sizes_of_caches_are_nobodys_business() -> None:
    paths = ("/_stcore/metrics", "/a/_stcore/metrics/")
    assert [answered("http", path=path)[0]["status"] for path in paths] == [404, 404]


@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_a_websocket_ends_at_a_message_that_no_page_sends(kind: str) -> None:
    made = {"bytes": b"\0", "text": "x"}[kind]  # b"xx" would be a message of developers
    got, back = through(*(made * length for length in (10, guard.LONGEST, guard.LONGEST + 1)), kind=kind)
    assert [len(each) for each in got] == [10, guard.LONGEST]
    assert back == [{"type": "websocket.close", "code": guard.TOO_LONG}]


@pytest.mark.parametrize("origin", [None, "http://localhost:8501", "http://127.0.0.1:9", "https://skills.example"])
def test_its_own_pages_are_answered(origin: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "browser.serverAddress": "skills.example",
        "server.address": "127.0.0.1",
        "server.corsAllowedOrigins": [],
    }
    monkeypatch.setattr(guard.st, "get_option", options.get)
    assert answered("http", origin)[0]["status"] == 200


def test_a_class_may_frame_it_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANCESTORS_VARIABLE, " https://class.example\n https://b.example;script-src * ")
    assert guard.frame_headers() == [(b"content-security-policy", b"frame-ancestors 'self' https://class.example")]
