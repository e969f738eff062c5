"""The server around the pages: it opens the browser, prepares while the browser starts, and refuses other sites."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import importlib
import os
import pkgutil
import re
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from google.protobuf.message import DecodeError
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit import net_util
from streamlit.proto.BackMsg_pb2 import BackMsg

from skillviz import read_only
from skillviz.errors import SkillvizError
from skillviz.tasks.project import ANCESTORS_VARIABLE
from skillviz.ui import uploads

SITE = re.compile(r"https?://[\w.*-]+(:(\d+|\*))?")
"""The address of a site, such as `https://class.example`; other values are ignored, as they could add directives."""
LOOPBACK = ("localhost", "127.0.0.1")  # hosts that Streamlit accepts without a look-up
POLICY = 1008  # close code of a websocket from another site
TOO_LONG = 1009  # close code of a websocket with a message that is too long
LONGEST = 8 << 20  # bytes of a message: a box drawn over ten thousand marks lists each of them
REFUSED = "This dashboard answers its own pages alone. Behind a proxy, set browser.serverAddress to its public name."
OF_PAGES = ("rerun_script", "stop_script", "file_urls_request", "app_heartbeat")
"""Messages to Streamlit that concern only the tab that sends them. `is_of_page` accepts two more."""
METRICS = "/_stcore/metrics"  # names and sizes of all caches, readable without sign-in
UP = 0.3  # seconds after which the server answers
MALLOC = {-8: 2, -3: 1 << 20, -1: 1 << 20}
"""Settings of glibc's `mallopt`: M_ARENA_MAX; M_MMAP_THRESHOLD and M_TRIM_THRESHOLD in bytes."""


@asynccontextmanager
async def getting_ready(_app: Any) -> AsyncIterator[None]:
    """Imports the pages' modules, opens the browser, and reads the list of runs while the browser starts.

    The browser is opened only if there is a screen, as Streamlit does for a script."""
    _keep_little_free_memory()
    _import_pages()
    if not st.get_option("server.headless"):
        address = f"http://{st.get_option('server.address')}:{st.get_option('server.port')}"
        asyncio.get_running_loop().call_later(UP, webbrowser.open, address)
    threading.Thread(target=_read_runs, name="reading-runs", daemon=True).start()
    yield


def _keep_little_free_memory() -> None:
    """Makes the C library return freed memory to the system.

    Each page is made in its own thread, and each thread's memory has gaps that other threads cannot use."""
    with suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL("libc.so.6")
        for setting, value in MALLOC.items():
            libc.mallopt(setting, value)


def _import_pages() -> None:
    with suppress(ImportError):  # the page that needs a missing package explains it
        importlib.import_module("skillviz.ui.page")
        importlib.import_module("plotly.graph_objects")
        pages = importlib.import_module("skillviz.ui.pages")
        for found in pkgutil.walk_packages(pages.__path__, f"{pages.__name__}."):
            importlib.import_module(found.name)


def _read_runs() -> None:
    """Reads the runs; a page requested meanwhile waits only for the rest of it."""
    from skillviz.tasks.upload_reader import reader  # a process that only a running server needs
    from skillviz.ui import cache  # Streamlit's caches need a running server

    if not read_only.is_on():
        reader.start()
    with suppress(SkillvizError):  # the pages explain a store that cannot be read
        cache.read_shared()
    _keep_out_of_collections()


def _keep_out_of_collections() -> None:
    """Excludes existing objects from garbage collection: modules and records, which are most of all objects, stay."""
    gc.collect()
    gc.freeze()


class Guard:
    """ASGI middleware: pages of other sites may neither send requests to the dashboard nor show it in a frame.

    A frame could be used to steal clicks. Streamlit itself refuses a foreign origin, but only after it has asked a
    public host for its own address.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

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
                message = {**message, "headers": headers + frame_headers() + (preloads() if is_page else [])}
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


def is_of_this_site(origin: str) -> bool:
    """True if a request's Origin header names the dashboard, or if it has none and so is not from another site."""
    named = (st.get_option("browser.serverAddress"), st.get_option("server.address"))
    others = (urlsplit(site).hostname for site in st.get_option("server.corsAllowedOrigins"))
    try:
        host = urlsplit(origin).hostname
    except ValueError:  # not an address, such as http://[
        return False
    if host is None:
        return not origin
    return host in (*LOOPBACK, *named, *others) or host == net_util.get_internal_ip()


def frame_headers() -> list[tuple[bytes, bytes]]:
    """Headers that allow framing only by the dashboard's own pages and the sites named in the environment."""
    others = " ".join(name for name in os.environ.get(ANCESTORS_VARIABLE, "").split() if SITE.fullmatch(name))
    policy = (b"content-security-policy", f"frame-ancestors 'self' {others}".strip().encode("latin-1", "replace"))
    # older browsers support only this header, which cannot name other sites
    return [policy] if others else [policy, (b"x-frame-options", b"SAMEORIGIN")]


@functools.cache
def preloads() -> list[tuple[bytes, bytes]]:
    """Headers that make the browser load Plotly, most of the app's code, at once instead of with the first figure."""
    folder = Path(st.__file__).parent / "static" / "static" / "js"
    links = (f'<./static/js/{path.name}>; rel="modulepreload"; crossorigin' for path in folder.glob("PlotlyChart.*.js"))
    return [(b"link", link.encode()) for link in links]


def middleware() -> list[Middleware]:
    """The middleware that every request passes through."""
    return [Middleware(Guard)]
