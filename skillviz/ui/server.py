"""The server around the pages: it opens the browser, prepares while the browser starts, and is guarded."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import importlib
import pkgutil
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from skillviz.errors import SkillvizError
from skillviz.serving.guard import Guard

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
    from skillviz.ui import cache  # Streamlit's caches need a running server

    with suppress(SkillvizError):  # the pages explain a store that cannot be read
        cache.read_shared()
    _keep_out_of_collections()


def _keep_out_of_collections() -> None:
    """Excludes existing objects from garbage collection: modules and records, which are most of all objects, stay."""
    gc.collect()
    gc.freeze()


@functools.cache
def preloads() -> list[tuple[bytes, bytes]]:
    """Headers that make the browser load Plotly, most of the app's code, at once instead of with the first figure."""
    folder = Path(st.__file__).parent / "static" / "static" / "js"
    links = (f'<./static/js/{path.name}>; rel="modulepreload"; crossorigin' for path in folder.glob("PlotlyChart.*.js"))
    return [(b"link", link.encode()) for link in links]


def middleware() -> list[Middleware]:
    """The middleware that every request passes through."""
    return [Middleware(Guard, page_headers=preloads)]


def routes() -> list[Mount]:
    """The addresses beside Streamlit's: the libraries and fonts that `svg_to_pdf.js` fetches when a PDF is made."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return [Mount(f"/{base}/pdf" if base else "/pdf", StaticFiles(directory=Path(__file__).with_name("pdf")))]
