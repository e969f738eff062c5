"""The guard of requests: other sites, messages for developers, and uploads over the limits do not reach Streamlit."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import streamlit as st
from google.protobuf.message import DecodeError
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit import net_util
from streamlit.proto.BackMsg_pb2 import BackMsg

from skillviz.serving import uploads
from skillviz.serving.settings import settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = 1008  # close code of a websocket from another site
TOO_LONG = 1009  # close code of a websocket with a message that is too long
LONGEST = 8 << 20  # bytes of a message: a box drawn over ten thousand marks lists each of them
REFUSED = "This dashboard answers its own pages alone. Behind a proxy, set browser.serverAddress to its public name."
OF_PAGES = ("rerun_script", "stop_script", "file_urls_request", "app_heartbeat")
"""Messages to Streamlit that concern only the tab that sends them. `is_of_page` accepts two more."""
METRICS = "/_stcore/metrics"  # names and sizes of all caches, readable without sign-in
BROWSER = "skillviz_browser"
"""The cookie that tells the browsers of a class apart: a random number, until the browser is closed."""
Headers = Sequence[tuple[bytes, bytes]]


class Guard:
    """ASGI middleware: pages of other sites may neither send requests to the dashboard nor show it in a frame.

    A frame could be used to steal clicks. Streamlit itself refuses a foreign origin, but only after it has asked a
    public host for its own address. Answers with a page get the headers of `page_headers` too.
    """

    def __init__(self, app: ASGIApp, page_headers: Callable[[], Headers] = tuple) -> None:
        self.app, self.page_headers = app, page_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on and adds headers to its answer; refuses other sites, and uploads over the limit."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif not is_of_this_site(dict(scope["headers"]).get(b"origin", b"").decode("latin-1")):
            if scope["type"] == "websocket":
                await WebSocketClose(code=POLICY)(scope, receive, send)
            else:
                await PlainTextResponse(REFUSED, 403)(scope, receive, send)
        elif scope["type"] == "websocket":
            await self.app(scope, _short(receive, send), send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                is_page = dict(headers).get(b"content-type", b"").startswith(b"text/html")
                wants_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")  # also if its copy is current
                cookie = browser_cookie(scope) if is_page or wants_page else []
                more = [*frame_headers(), *(self.page_headers() if is_page else ()), *cookie]
                message = {**message, "headers": headers + more}
            await send(message)

        if scope["path"].rstrip("/").endswith(METRICS):
            await PlainTextResponse("Not found", 404)(scope, receive, with_headers)
            return
        with uploads.admitted(scope, receive) as (refusal, receive):
            if refusal is None:
                try:
                    await self.app(scope, receive, with_headers)
                    return
                except uploads.TooMuch:
                    refusal = uploads.TOO_MUCH_OF_ALL
                except ClientDisconnect:  # the page was left or reloaded during an upload: no error of the server
                    return
            status, why = refusal
            await PlainTextResponse(why, status)(scope, receive, with_headers)


def _short(receive: Receive, send: Send) -> Receive:
    """The messages of a websocket that pages need, until one is longer than any page sends: that closes the websocket.

    Streamlit would keep up to 25 MB of data that a visitor's browser reports about itself.
    """

    async def received() -> Message:
        while True:
            message = await receive()
            if max(len(message.get("bytes") or b""), len(message.get("text") or "")) > LONGEST:
                await send({"type": "websocket.close", "code": TOO_LONG})
                return {"type": "websocket.disconnect", "code": TOO_LONG}
            if is_of_page(message.get("bytes") or b""):
                return message

    return received


def is_of_page(content: bytes) -> bool:
    """True if a message to Streamlit is one that a page sends, or no valid message, which Streamlit refuses.

    Other messages are for developers of an app: they empty the caches of all visitors, stop the server, watch or write
    its files, or reveal its repository.
    """
    message = BackMsg()
    try:
        message.ParseFromString(content)
    except DecodeError:
        return True
    kind = message.WhichOneof("type")
    if kind == "backend_operation_request":
        return message.backend_operation_request.WhichOneof("payload") in ("deferred_file", "dataframe_chunk")
    return kind is None or kind in OF_PAGES


def host_of(address: str) -> str | None:
    """The host of an address; None if it is not an address, such as `http://[`."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def public_hosts() -> list[str | None]:
    """The hosts that the configuration names as the dashboard's own."""
    return [st.get_option("browser.serverAddress"), *map(host_of, st.get_option("server.corsAllowedOrigins"))]


def is_of_this_site(origin: str) -> bool:
    """True if a request's Origin header names the dashboard, or if it has none and so is not from another site."""
    host = host_of(origin)
    if host is None:
        return not origin
    return host in (*LOOPBACK, *public_hosts(), st.get_option("server.address")) or host == net_util.get_internal_ip()


def frame_headers() -> list[tuple[bytes, bytes]]:
    """Headers that allow framing only by the dashboard's own pages and the sites named in the environment."""
    others = " ".join(settings.frame_ancestors)
    policy = (b"content-security-policy", f"frame-ancestors 'self' {others}".strip().encode("latin-1", "replace"))
    # older browsers support only this header, which cannot name other sites
    return [policy] if others else [policy, (b"x-frame-options", b"SAMEORIGIN")]


def browser_cookie(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The header that gives a browser its cookie BROWSER; none if it has one. No script can read the cookie."""
    if f"{BROWSER}=".encode() in dict(scope["headers"]).get(b"cookie", b""):
        return []
    return [(b"set-cookie", f"{BROWSER}={secrets.token_hex(16)}; Path=/; HttpOnly; SameSite=Lax".encode())]
