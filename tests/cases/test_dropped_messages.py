"""Tests of messages that a browser may send to Streamlit: those that affect others or the server are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from skillviz.ui import server

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

    asyncio.run(server.Guard(app)({"type": "websocket", "headers": []}, receive, send))
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
    dropped = {kind for kind in KINDS if not server.is_of_page(message(kind))}
    assert set(KINDS) == {*server.OF_PAGES, "backend_operation_request", *dropped}
    named = {field.name for field in BackMsg().backend_operation_request.DESCRIPTOR.oneofs_by_name["payload"].fields}
    assert named == set(PAYLOADS)
