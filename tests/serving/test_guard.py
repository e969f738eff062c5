"""Tests of the guard: other sites are refused, and messages that affect others or the server are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

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


def heard(*sent: bytes) -> list[bytes]:
    """Return the messages that pass the guard and reach the app."""
    waiting = [{"type": "websocket.connect"}, *({"type": "websocket.receive", "bytes": each} for each in sent)]
    waiting.append({"type": "websocket.disconnect"})
    got: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        return waiting.pop(0)

    async def send(answer: MutableMapping[str, Any]) -> None:
        raise AssertionError(answer)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (each := await receive())["type"] != "websocket.disconnect":
            if each["type"] == "websocket.receive":
                got.append(each["bytes"])

    asyncio.run(guard.Guard(app)({"type": "websocket", "headers": []}, receive, send))
    return got


@pytest.mark.parametrize("padding", [b"", b"\xfa\xff\x0f\x05hello", b"\xfa\xff\x0f\x00" * 10_000])
@pytest.mark.parametrize(
    "kind", ["clear_cache", "set_run_on_save", "load_git_info", "debug_disconnect_websocket", "debug_shutdown_runtime"]
)
def test_messages_of_developers_are_dropped_and_the_next_one_arrives(kind: str, padding: bytes) -> None:
    rerun = message("rerun_script")
    assert heard(message(kind, more=padding), rerun, message(kind), rerun) == [rerun, rerun]


@pytest.mark.parametrize("kind", ["rerun_script", "stop_script", "app_heartbeat", "file_urls_request"])
def test_messages_of_pages_arrive(kind: str) -> None:
    assert heard(message(kind)) == [message(kind)]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_of_operations_downloads_and_parts_of_tables_arrive(payload: str) -> None:
    sent = message("backend_operation_request", payload)
    assert heard(sent) == ([sent] if payload in ("deferred_file", "dataframe_chunk") else [])


def test_the_last_kind_in_a_message_counts_as_it_does_for_streamlit() -> None:
    assert heard(message("rerun_script") + message("clear_cache")) == []
    both = message("clear_cache") + message("rerun_script")
    assert heard(both) == [both]


def test_what_is_no_message_is_left_to_streamlit_which_refuses_it() -> None:
    assert heard(b"\xff\xff") == [b"\xff\xff"] and heard(b"") == [b""]


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
    sent: list[dict] = []

    async def app(scope: dict, receive: object, send) -> None:
        await send({"type": f"{kind}.response.start", "status": 200, "headers": [header]})

    async def send(message) -> None:
        sent.append(message)

    headers = [] if origin is None else [(b"origin", origin.encode())]
    scope = {"type": kind, "method": "GET", "path": path, "headers": headers}
    asyncio.run(wrap(app)(scope, None, send))
    return sent


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
    assert (
        answered("http", path="/_stcore/metrics")[0]["status"]
        == answered("http", path="/a/_stcore/metrics/")[0]["status"]
        == 404
    )


@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_a_websocket_ends_at_a_message_that_no_page_sends(kind: str) -> None:
    made, heard, sent = {"bytes": b"\0", "text": "x"}[kind], [], []  # b"xx" would be a message of developers
    messages = [{"type": "websocket.receive", kind: made * length} for length in (10, guard.LONGEST, guard.LONGEST + 1)]

    async def app(scope: dict, receive, send) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            heard.append(len(message[kind]))

    async def receive() -> dict:
        return messages.pop(0)

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(guard.Guard(app)({"type": "websocket", "headers": []}, receive, send))
    assert heard == [10, guard.LONGEST] and sent == [{"type": "websocket.close", "code": guard.TOO_LONG}]


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
